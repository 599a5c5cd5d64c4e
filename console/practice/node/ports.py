"""Ports of pods: 2222 is an SSH server, everything else is closed."""

from __future__ import annotations

import asyncio
import base64
import io
import socket
from typing import TYPE_CHECKING

from console.practice.objects.refusal import ApiError
from console.practice.objects.resources import PODS, SECRETS

if TYPE_CHECKING:
    import paramiko

    from console.practice.controllers.kubelet import Kubelets
    from console.practice.node.shell import Shells

SSH_PORT = 2222


class Ports:
    """Answers for the ports of all pods."""

    def __init__(self, kubelets: Kubelets, shells: Shells) -> None:
        self._kubelets = kubelets
        self._shells = shells
        self._host_key: paramiko.PKey | None = None
        self._transports: list[paramiko.Transport] = []

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream; ApiError when nothing listens there."""
        place = self._shells.place(namespace, pod, "")
        if port != SSH_PORT:
            text = f"failed to connect to localhost:{port} inside namespace, IPv4: dial tcp4 127.0.0.1:{port}: "
            raise ApiError(500, "InternalError", text + "connect: connection refused")
        from console.practice.node.sshd import SshServer, serve_ssh  # paramiko costs 0.1 s, and most never dial

        loop = asyncio.get_running_loop()
        keys = [place.env.get("SSH_PUBLIC_KEY", ""), *self._pod_keys(namespace, pod)]
        ours, theirs = socket.socketpair()
        host_key = await asyncio.to_thread(self._key_of_host, namespace, pod)
        transport = serve_ssh(theirs, host_key, lambda: SshServer(self._shells, place, keys, loop))
        self._transports = [item for item in self._transports if item.is_active()] + [transport]
        return await asyncio.open_connection(sock=ours)

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports:
            transport.close()
        self._transports.clear()

    def _key_of_host(self, namespace: str, pod: str) -> paramiko.PKey:
        """Return the host key of a pod: its release's own when it has one, else one for the whole cluster."""
        import paramiko

        text = self._secret(namespace, pod).get("host_key")
        if text:
            return paramiko.ECDSAKey.from_private_key(io.StringIO(text))
        if self._host_key is None:
            self._host_key = paramiko.ECDSAKey.generate()
        return self._host_key

    def _pod_keys(self, namespace: str, pod: str) -> list[str]:
        """Return the public key by which the pods of a release reach each other."""
        import paramiko

        text = self._secret(namespace, pod).get("id_pods")
        if not text:
            return []
        key = paramiko.ECDSAKey.from_private_key(io.StringIO(text))
        return [f"{key.get_name()} {key.get_base64()}"]

    def _secret(self, namespace: str, pod: str) -> dict[str, str]:
        """Return the keys that a pod mounts at /a4/ssh."""
        found = self._kubelets.storage.get(PODS, namespace, pod)
        for volume in found["spec"].get("volumes") or ():
            if volume["name"] == "ssh" and "secret" in volume:
                secret = self._kubelets.storage.find(SECRETS, namespace, volume["secret"]["secretName"])
                data = (secret or {}).get("data") or {}
                return {key: base64.b64decode(value).decode() for key, value in data.items()}
        return {}
