"""What goes wrong below HTTP, in plain words."""

from __future__ import annotations

import errno
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiohttp

from console.errors import TRY_AGAIN, BadKubeconfig, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = {
    errno.ECONNREFUSED: "nothing answers there (connection refused)",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was closed",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EHOSTUNREACH: "there is no route to it",
    errno.ETIMEDOUT: "it did not answer in time",
}
_CHECK = "Check the network, a VPN, and the address in the kubeconfig."


def cause(error: BaseException) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved", _CHECK
    if isinstance(error, TimeoutError):
        return "it did not answer in time", _CHECK
    if isinstance(error, aiohttp.ClientConnectorError):
        return _system(error.os_error), _CHECK
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection broke off", TRY_AGAIN
    if isinstance(error, OSError):
        return _system(error), TRY_AGAIN
    return str(error).strip() or type(error).__name__, TRY_AGAIN


def _certificate(error: Exception) -> tuple[str, str]:
    reason = getattr(error, "verify_message", "") or str(error)
    if "has expired" in reason:
        return "its certificate has expired", "Ask the cluster's administrator to renew it."
    if "not yet valid" in reason:
        return "its certificate is not valid yet", "Check this machine's clock."
    if "self-signed" in reason or "self signed" in reason or "local issuer" in reason:
        return "its certificate is not from the authority in the kubeconfig", "Write the kubeconfig again."
    return f"its certificate is refused ({reason})", "Write the kubeconfig again."


def _system(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'handshake'})".replace("_", " ").lower().replace("tls", "TLS")
    if error.errno in _WORDS:
        return _WORDS[error.errno]
    refused = "Connect call failed" in str(error) and "111" in str(error)  # several addresses, each refused
    return _WORDS[errno.ECONNREFUSED] if refused else (error.strerror or str(error) or "no connection")


@contextmanager
def told(server: str, doing: str) -> Iterator[None]:
    """Turn what the transport raises into Unreachable (or BadKubeconfig for an address that is none)."""
    try:
        yield
    except aiohttp.InvalidURL as error:
        raise BadKubeconfig(f"The kubeconfig's server address {server} is no URL.", "Correct it.") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why, hint = cause(error)
        raise Unreachable(f"Could not {doing}: the API server {server} cannot be reached: {why}.", hint) from error
