"""ssh from pod to pod: a pod's program `ssh` asks here for the folder of the other pod, and runs its command there.

The other pod accepts only the key of its own release, as its sshd does behind port 2222.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from practice.objects.api_error import ApiError
from practice.objects.resources import PODS

if TYPE_CHECKING:
    from pathlib import Path

    from practice.node.shell import PodShells
    from practice.objects.api_error import Object


class SshRequest(msgspec.Struct):
    """The first message of an ssh program: the host it wants, and its private key."""

    host: str
    key: str


class Place(msgspec.Struct):
    """The pod in which an ssh command runs, or the reason why none does."""

    folder: str = ""
    env: dict[str, str] = {}
    why: str = ""


class PodSsh:
    """An SSH server for all pods, on a socket that only this account can open."""

    def __init__(self, shells: PodShells, socket: Path) -> None:
        self.socket = socket
        self._shells = shells
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()  # several pods start at the same time

    async def start(self) -> None:
        """Start to listen, unless it already listens."""
        async with self._starting:
            if self._server is None:
                self.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._server = await asyncio.start_unix_server(self._answer_ssh_program, self.socket)

    async def close(self) -> None:
        async with self._starting:
            if self._server is not None:
                self._server.close()

    async def _answer_ssh_program(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            knock = msgspec.json.decode(await reader.readline(), type=SshRequest)
            writer.write(msgspec.json.encode(self._find_place(knock)) + b"\n")
            await writer.drain()
        except (msgspec.MsgspecError, ValueError, ConnectionError):
            pass  # whoever asks something else gets no answer
        finally:
            writer.close()

    def _find_place(self, knock: SshRequest) -> Place:
        pods = [pod for pod in self._shells.kubelets.storage.list(PODS) if _is_called(pod, knock.host)]
        if not pods:
            return Place(why=f"ssh: Could not resolve hostname {knock.host}: Name or service not known")
        names = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
        refused = f"ssh: connect to host {knock.host} port 2222: Connection refused"
        try:
            listening = [name for name in names if self._shells.has_sshd(*name)]
            taken = [name for name in listening if self._shells.host_keys.login_key(*name) == knock.key]
            if not taken:
                return Place(why=f"root@{knock.host}: Permission denied (publickey)." if listening else refused)
            place = self._shells.login_place(self._shells.open_place(*taken[0], ""))
        except ApiError:
            return Place(why=refused)
        return Place(str(place.folder), place.env)


def _is_called(pod: Object, host: str) -> bool:
    """Whether a pod has a given address or host name."""
    name, label = pod["metadata"]["name"], host.partition(".")[0]
    return host == (pod.get("status") or {}).get("podIP") or label in (name, name.rpartition("-")[0])
