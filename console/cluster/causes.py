"""Why the operating system or TLS gave no connection, in plain words; needs no library of the network."""

from __future__ import annotations

import errno
import re
import ssl

from console.errors import TRY_AGAIN, BadKubeconfig, Unreachable

NO_NAME = "its name cannot be resolved"
_LATE = "it did not answer in time"
_WORDS = {
    errno.ECONNREFUSED: "nothing answers there (connection refused)",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was closed",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EHOSTUNREACH: "there is no route to it",
    errno.ETIMEDOUT: _LATE,
}
CHECK_PROXY = "Check its address, name and password (proxy-url in the kubeconfig, else HTTPS_PROXY), or use NO_PROXY."
_NAMES = re.compile(r"//[^/\s]*@")
"""Of an address: who asks, and a password perhaps."""
CHECK = "Check the network, a VPN, and the address in the kubeconfig."


def certificate(error: Exception) -> tuple[str, str]:
    """Why a server's certificate is refused, and what to do about it."""
    reason = getattr(error, "verify_message", "") or str(error)
    if "has expired" in reason:
        return "its certificate has expired", "Ask the cluster's administrator to renew it."
    if "not yet valid" in reason:
        return "its certificate is not valid yet", "Check this machine's clock."
    if "self-signed" in reason or "self signed" in reason or "local issuer" in reason:
        return "its certificate is not from the authority in the kubeconfig", "Write the kubeconfig again."
    return f"its certificate is refused ({reason})", "Write the kubeconfig again."


def proxy_refuses(status: str) -> tuple[str, str]:
    """What a proxy said that does not connect, and what to do about it."""
    return f"the proxy on the way refuses ({status})", CHECK_PROXY


def proxy_away(reason: str) -> tuple[str, str]:
    """Why there is no way to the proxy, and what to do about it: nobody has asked the server yet."""
    return f"the proxy on the way cannot be reached: {reason}", CHECK_PROXY


def late(*, proxied: bool) -> tuple[str, str]:
    """No connection came about in time; through a proxy that may be either's fault."""
    return ("no answer came through the proxy in time", CHECK_PROXY) if proxied else (_LATE, CHECK)


def system(error: OSError) -> str:
    """Why the system says there is no connection."""
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'handshake'})".replace("_", " ").lower().replace("tls", "TLS")
    if error.errno in _WORDS:
        return _WORDS[error.errno]
    refused = "Connect call failed" in str(error) and "111" in str(error)  # several addresses, each refused
    return _WORDS[errno.ECONNREFUSED] if refused else (error.strerror or str(error) or "no connection")


def why(error: BaseException) -> tuple[str, str]:
    """Why there is no answer, and what to do about it."""
    import socket

    if isinstance(error, ssl.SSLCertVerificationError):
        return certificate(error)
    if isinstance(error, socket.gaierror):
        return NO_NAME, CHECK
    if isinstance(error, TimeoutError):
        return late(proxied=False)
    if isinstance(error, OSError):
        return system(error), CHECK if isinstance(error, ConnectionRefusedError) else TRY_AGAIN
    return str(error).strip() or type(error).__name__, TRY_AGAIN


def unreachable(server: str, doing: str, reason: str, hint: str) -> Unreachable:
    """The error that says so, whichever way the server was asked; no name and password of an address is in it."""
    said = f"Could not {doing}: the API server {server} cannot be reached: {reason}."
    return Unreachable(_without_names(said), hint)


def _without_names(said: str) -> str:
    return _NAMES.sub("//", said)


def no_address(server: str) -> BadKubeconfig:
    """The error that says that nothing can be asked there."""
    return BadKubeconfig(_without_names(f"The kubeconfig's server address {server} is no URL."), "Correct it.")
