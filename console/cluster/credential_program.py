"""Exec credential programs of a kubeconfig (GKE, EKS, OIDC log-ins): run one, read what it gives.

Not through `kubernetes`, whose import takes half a second, which every `ssh` to a rank would wait for, and whose runner
lets the program read the terminal and leaves it running when its time is over.
Source: client.authentication.k8s.io, v1 and v1beta1.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.cluster.target import Secret
from console.errors import NotLoggedIn, Unreadable
from console.parsers.timestamp import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.cluster.target import Cluster

LIMIT = 60.0
"""Seconds a credential plugin may take."""
AGAIN = "Run it by hand, or log in again (for GKE: gcloud auth login)."
_LONGEST = 300
"""Characters of a program's complaint that are shown."""


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """What a log-in gave; its repr shows nothing of it."""

    authorization: str = ""
    certificate: str = ""
    """Client certificate and key, PEM."""
    key: str = ""
    expires: float = 0.0
    """When it has to be asked for again; 0.0 if it did not say."""


async def run_program(spec: Mapping[str, Any], cluster: Cluster) -> Credential:
    """Run the exec credential program of a kubeconfig user for that cluster; raises NotLoggedIn."""
    program = str(spec.get("command") or "")
    if not program or not spec.get("apiVersion"):
        missing = "apiVersion" if program else "command"
        raise NotLoggedIn(f"The kubeconfig's credential plugin has no {missing}.", "Write the kubeconfig again.")
    if spec.get("interactiveMode") == "Always":
        raise NotLoggedIn(f"The credential plugin {program} insists on a terminal of its own.", AGAIN)
    try:
        async with asyncio.timeout(LIMIT):
            code, out, complaint = await _run([program, *map(str, spec.get("args") or ())], _environment(spec, cluster))
    except FileNotFoundError as error:
        hint = str(spec.get("installHint") or "").strip() or f"Install {program}, or put it on the PATH."
        raise NotLoggedIn(f"The credential plugin {program} of the kubeconfig is not installed.", hint) from error
    except PermissionError as error:
        raise NotLoggedIn(f"The credential plugin {program} of the kubeconfig may not be run.") from error
    except TimeoutError as error:
        raise NotLoggedIn(f"The credential plugin {program} did not answer within {LIMIT:.0f} s.", AGAIN) from error
    if code:
        words = " ".join(complaint.decode(errors="replace").split())[-_LONGEST:].rstrip(".")
        said = f": {words}" if words else ""
        raise NotLoggedIn(f"The credential plugin {program} failed with exit code {code}{said}.", AGAIN)
    return _credential(program, out, str(spec["apiVersion"]))


async def _run(argv: list[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Exit code, output, complaints; the program is ended with whoever waits for it."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,  # the terminal is the console's
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, complaint = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
        raise
    return process.returncode or 0, out, complaint


def _environment(spec: Mapping[str, Any], cluster: Cluster) -> dict[str, str]:
    asked: dict[str, Any] = {"interactive": False}
    if spec.get("provideClusterInfo"):
        told = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": cluster.certificate_authority_data,
            "proxy-url": cluster.proxy_url,
        }
        asked["cluster"] = {name: value for name, value in told.items() if value is not None}
    info = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": asked}
    more = {str(each["name"]): str(each["value"]) for each in spec.get("env") or ()}
    return {**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _credential(program: str, out: bytes, version: str) -> Credential:
    try:
        answer = json.loads(out)
        status, said = answer["status"], answer.get("apiVersion")
        token, certificate, key = (
            Secret(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
        )
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        # Without the cause: it would carry the output, and so perhaps a token, into a traceback.
        raise NotLoggedIn(f"The credential plugin {program} gave no ExecCredential.", AGAIN) from None
    if said != version:
        raise NotLoggedIn(f"The credential plugin {program} speaks {said}; the kubeconfig expects {version}.", AGAIN)
    if not token and not (certificate and key):
        raise NotLoggedIn(f"The credential plugin {program} gave neither a token nor a certificate.", AGAIN)
    try:
        expires = parse_time(status.get("expirationTimestamp"))
    except Unreadable:
        expires = 0.0
    return Credential(f"Bearer {token}" if token else "", certificate, key, expires)
