"""Log-in plug-ins: exec credential programs (GKE, EKS, OIDC log-ins) and the older auth providers.

The only importer of `kubernetes`. Its import takes half a second, so `login` imports this module in a thread, and only
for an account that needs it.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import asyncio
import binascii
from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import ConfigNode, KubeConfigLoader

from console.errors import NotLoggedIn, Unreadable
from console.parsers.timestamp import parse_time

LIMIT = 60.0
"""Seconds a log-in program may take."""


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """What a plug-in gave."""

    authorization: str = ""
    certificate: str = ""
    """Client certificate and key, PEM."""
    key: str = ""
    expires: float = 0.0
    """When it has to be asked for again; 0.0 if it did not say."""


async def run_program(spec: dict[str, Any]) -> Credential:
    """Run the exec credential program of a kubeconfig user; raises NotLoggedIn."""
    program = spec.get("command", "")
    try:
        async with asyncio.timeout(LIMIT):
            status = await ExecProvider(ConfigNode("exec", spec)).run()
    except FileNotFoundError as error:
        hint = str(spec.get("installHint") or "").strip() or f"Install {program}, or put it on the PATH."
        raise NotLoggedIn(f"The log-in program {program} of the kubeconfig is not installed.", hint) from error
    except PermissionError as error:
        raise NotLoggedIn(f"The log-in program {program} of the kubeconfig may not be run.") from error
    except TimeoutError as error:
        raise NotLoggedIn(f"The log-in program {program} did not answer within {LIMIT:.0f} s.", _AGAIN) from error
    except ConfigException as error:
        raise NotLoggedIn(f"The log-in program {program} failed: {_words(error)}.", _AGAIN) from error
    return _credential(program, status)


_AGAIN = "Run it by hand, or log in again (for GKE: gcloud auth login)."


def _words(error: ConfigException) -> str:
    """The library's message without its prefix, and with the program's own bytes as text."""
    text = str(error).removeprefix("exec: ").replace("\\n", " ")
    return " ".join(text.replace("b'", "").replace('b"', "").rstrip("'\". ").split())


def _credential(program: str, status: dict[str, Any]) -> Credential:
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if not token and not (certificate and key):
        raise NotLoggedIn(f"The log-in program {program} gave neither a token nor a certificate.", _AGAIN)
    try:
        expires = parse_time(status.get("expirationTimestamp"))
    except Unreadable:
        expires = 0.0
    return Credential(f"Bearer {token}" if token else "", certificate, key, expires)


async def ask_provider(provider: dict[str, Any]) -> Credential:
    """Ask an auth provider (OIDC, the old GCP one) for a token, refreshing it if it is old; raises NotLoggedIn."""
    name = str(provider.get("name", ""))
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "one", "user": {"auth-provider": provider}}],
    }
    found = Configuration()
    try:
        async with asyncio.timeout(LIMIT):
            await KubeConfigLoader(config).load_and_set(found)
    except (ConfigException, ValueError, KeyError, binascii.Error, OSError, TimeoutError) as error:
        raise NotLoggedIn(f'The auth provider "{name}" of the kubeconfig failed: {error}.', _AGAIN) from error
    token = found.api_key.get("BearerToken", "")
    if not token:
        raise NotLoggedIn(f'The kubeconfig uses the auth provider "{name}", which gave no token.', _AGAIN)
    return Credential(token)
