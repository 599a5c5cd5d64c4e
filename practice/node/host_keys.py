"""SSH keys of practice pods, host and login: from the Secret of their release, else one key for all."""

from __future__ import annotations

import base64
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from practice.objects.resources import PODS, SECRETS
from practice.objects.storage import Storage


class HostKeys:
    """The SSH host keys of all pods."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @cached_property
    def _cluster_key(self) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()

    def private_key(self, namespace: str, pod: str) -> str:
        return self.secret_files(namespace, pod).get("host_key") or self._cluster_key

    def login_key(self, namespace: str, pod: str) -> str:
        """The private key with which pods of a release log in to each other."""
        return self.secret_files(namespace, pod).get("id_pods") or self._cluster_key

    def public_key(self, namespace: str, pod: str) -> str:
        """The public half of a pod's host key, "type base64"."""
        public = load_pem_private_key(self.private_key(namespace, pod).encode(), password=None).public_key()
        return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    def secret_files(self, namespace: str, pod: str) -> dict[str, str]:
        """Keys that a pod mounts at /a4/ssh, by file name; empty if it mounts none."""
        found = self._storage.get(PODS, namespace, pod)
        for volume in found["spec"].get("volumes") or ():
            if volume["name"] == "ssh" and "secret" in volume:
                secret = self._storage.find(SECRETS, namespace, volume["secret"]["secretName"])
                data = (secret or {}).get("data") or {}
                return {key: base64.b64decode(value).decode() for key, value in data.items()}
        return {}
