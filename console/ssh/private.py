"""The public half of a private key that came through the API; the private one goes no further."""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)


def public_half(encoded: str) -> str:
    """Public half ("type base64") of a private key as a Secret holds it, base64 of PEM; empty for anything else."""
    try:
        pem = base64.b64decode(encoded, validate=True)
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in pem else load_pem_private_key
        public = load(pem, password=None).public_key()
        return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except (binascii.Error, ValueError, TypeError, UnsupportedAlgorithm):
        return ""  # an error would repeat what it could not read
