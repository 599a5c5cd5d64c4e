"""Turns refusals of the API server and the network failures that Python's sockets raise into this program's errors."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from console.decoding import DECODING_ERRORS
from console.errors import (
    TRY_AGAIN,
    BadKubeconfig,
    Conflict,
    Gone,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Refused,
    Unreachable,
)
from console.kube.objects.meta import ApiSchema
from console.kube.objects.pod import HINT_AFTER_THE_END
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.kube.login import Login


class CauseSchema(ApiSchema):
    reason: str | None = None
    message: str | None = None


class DetailsSchema(ApiSchema):
    causes: list[CauseSchema] | None = None
    retry_after_seconds: int | None = None


class StatusSchema(ApiSchema):
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: DetailsSchema | None = None


_MAX_RETRY_AFTER = 86_400  # seconds: no server asks for more
_STATUS_DECODER = msgspec.json.Decoder(StatusSchema)
_ERROR_CLASSES: dict[int, type[Refused]] = {401: NotLoggedIn, 403: NotAllowed, 404: NotFound, 409: Conflict, 410: Gone}
_FORBIDDEN = lazy_pattern(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


_CONTAINER_NOT_RUNNING = lazy_pattern(  # as kubelets say it, with status 500
    r'container not found(?: \("(?P<name>[^"]+)"\))?|cannot exec in a (?:stopped|deleted)|no running task found'
    r"|container .{0,120} is not (?:running|created or running)|not in running state"
)


def read_status(body: bytes) -> StatusSchema:
    """The Status in an error body; a body of plain text becomes its message."""
    try:
        return _STATUS_DECODER.decode(body)
    except DECODING_ERRORS:
        text = " ".join(body[:400].decode(errors="replace").split())
        return StatusSchema(message="" if text.startswith("<") else text)


def _hint_for_status(code: int, message: str) -> str:
    if code == HTTPStatus.FORBIDDEN:
        found = _FORBIDDEN.search(message)
        if not found:
            return "Ask the cluster administrator for permission."
        group = f".{found['group']}" if found["group"] else ""
        where = f" in namespace {found['namespace']}" if found["namespace"] else ""
        return f"Ask for `{found['verb']} {found['resource']}{group}`{where}."
    if code == HTTPStatus.UNAUTHORIZED:
        return "Log in again (for GKE: gcloud auth login), or choose another context."
    if code == HTTPStatus.CONFLICT:
        return "Read the object again and retry."
    return ""


def error_from_status(
    code: int, body: bytes | StatusSchema, *, action: str, retry_after: float = 0
) -> Refused | Unreachable:
    """The error for an HTTP status and its body; `action` starts the sentence. From 500 on it is Unreachable."""
    if code < HTTPStatus.MULTIPLE_CHOICES:
        return Refused(f"Could not {action}: the API server answers {code} and opens no WebSocket.", status=code)
    if code < HTTPStatus.BAD_REQUEST:
        words = f"Could not {action}: the API server answers {code}, a redirect to another address."
        return Refused(words, "Write that address into the kubeconfig if it is the right one.", status=code)
    status = body if isinstance(body, StatusSchema) else read_status(body)
    known = code in set(HTTPStatus)
    why = (status.message or status.reason or (HTTPStatus(code).phrase if known else "unknown status")).strip()
    message = f"Could not {action}: {why}" + ("" if why.endswith((".", "!", "?")) else ".")
    if code == HTTPStatus.INTERNAL_SERVER_ERROR and (gone := _CONTAINER_NOT_RUNNING.search(why)):
        name = f"container {gone['name']}" if gone["name"] else "its container"
        return Unreachable(f"Could not {action}: {name} has ended, or has not started yet.", HINT_AFTER_THE_END)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR and code != HTTPStatus.INSUFFICIENT_STORAGE:
        return Unreachable(f"{message[:-1]} (the API server answered {code}).", TRY_AGAIN, status=code)
    seconds = min(retry_after or (status.details.retry_after_seconds or 0 if status.details else 0), _MAX_RETRY_AFTER)
    return _ERROR_CLASSES.get(code, Refused)(
        message, _hint_for_status(code, why), status=code, reason=status.reason or "", retry_after=float(seconds)
    )


ERROR_BODY_TIMEOUT = 5.0  # seconds that the words of a refusal may take
MAX_ERROR_BODY_BYTES = 1 << 16  # bytes of a refusal that are read; the sentence in it is a few hundred


async def read_error_body(pieces: AsyncIterator[bytes], max_bytes: int) -> bytes:
    """The body of an error response, about `max_bytes` bytes, as far as it arrives within some seconds."""
    found = bytearray()
    with suppress(TimeoutError):  # the status tells enough
        async with asyncio.timeout(ERROR_BODY_TIMEOUT):
            async for piece in pieces:
                found += piece
                if len(found) > max_bytes:
                    break
    return bytes(found)


_NAME_NOT_RESOLVED = "its name cannot be resolved"
_NO_ANSWER_IN_TIME = "it did not answer in time"
_REASON_BY_ERRNO = {
    errno.ECONNREFUSED: "nothing answers there (connection refused)",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was closed",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EHOSTUNREACH: "there is no route to it",
    errno.ETIMEDOUT: _NO_ANSWER_IN_TIME,
}
_NO_API_SERVER = "what answers there is not an API server"
_CONNECTION_LOST = "the connection was lost"
CHECK_PROXY = "Check its address, name and password (proxy-url in the kubeconfig, else HTTPS_PROXY), or use NO_PROXY."
_USER_IN_URL = lazy_pattern(r"//[^/\s]*@")  # of an address: who asks, and a password perhaps
_NAME_IN_CERTIFICATE = lazy_pattern(r"(?:target ?host ?name|not valid for) '([^']{1,253})'")
CHECK_NETWORK = "Check the network, a VPN, and the address in the kubeconfig."


class NotConnected(Exception):
    """Raised when no connection could be established; `error` is the cause."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class ProxyRefused(ConnectionError):
    """Raised when a proxy refused to connect; the argument is its HTTP status."""


@contextmanager
def translate_errors(login: Login, action: str) -> Iterator[None]:
    """Turn the exceptions of a connection into Unreachable with a readable reason, during this block."""
    try:
        yield
    except (OSError, EOFError, NotConnected, asyncio.LimitOverrunError) as error:
        raise connection_error(login, action, error) from error


def connection_error(login: Login, action: str, error: BaseException) -> Unreachable:
    return unreachable_error(login.server, action, *failure_cause(error, proxied=bool(login.proxy)))


def failure_cause(error: BaseException, *, proxied: bool = False) -> tuple[str, str]:
    """(reason, hint) for an exception of a connection; `proxied`: the connection went through a proxy."""
    connecting = isinstance(error, NotConnected)
    if isinstance(error, NotConnected):
        error = error.error
    if isinstance(error, ProxyRefused):
        return f"the proxy refuses ({error})", CHECK_PROXY
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_failure(error)
    if isinstance(error, ssl.SSLError):
        return _system_failure(error), CHECK_NETWORK
    if isinstance(error, TimeoutError) and not error.errno:
        late = connecting and proxied  # may be either's fault
        if late:
            return "no answer came through the proxy in time", CHECK_PROXY
        return _NO_ANSWER_IN_TIME, CHECK_NETWORK if connecting else TRY_AGAIN
    if isinstance(error, asyncio.LimitOverrunError):
        return _NO_API_SERVER, CHECK_NETWORK
    if not isinstance(error, OSError):
        return _CONNECTION_LOST, TRY_AGAIN
    if proxied and connecting:  # nobody has asked the server yet
        return f"the proxy cannot be reached: {_system_failure(error)}", CHECK_PROXY
    return _system_failure(error), CHECK_NETWORK if connecting else TRY_AGAIN


def _certificate_failure(error: ssl.SSLError) -> tuple[str, str]:
    """(reason why a server's certificate is refused, hint)."""
    reason = getattr(error, "verify_message", "") or str(error.args[-1] if error.args else error)
    if name := _NAME_IN_CERTIFICATE.search(reason):
        return f"its certificate is not for {name[1]}", "Correct the address, or tls-server-name, in the kubeconfig."
    if "has expired" in reason:
        return "its certificate has expired", "Ask the cluster's administrator to renew it."
    if "not yet valid" in reason:
        return "its certificate is not valid yet", "Check this machine's clock."
    if "self-signed" in reason or "self signed" in reason or "local issuer" in reason:
        return "its certificate is not from the authority in the kubeconfig", "Write the kubeconfig again."
    return f"its certificate is refused ({reason})", "Write the kubeconfig again."


def _system_failure(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'handshake'})".replace("_", " ").lower().replace("tls", "TLS")
    if isinstance(error, socket.gaierror):
        return _NAME_NOT_RESOLVED
    if error.errno in _REASON_BY_ERRNO:
        return _REASON_BY_ERRNO[error.errno]
    refused = "Connect call failed" in str(error) and "111" in str(error)  # several addresses, each refused
    return _REASON_BY_ERRNO[errno.ECONNREFUSED] if refused else (error.strerror or str(error) or "no connection")


def unreachable_error(server: str, action: str, reason: str, hint: str) -> Unreachable:
    """The Unreachable error for a server and reason; a user name and password in the server's URL are left out."""
    words = reason.removeprefix("it ") if reason == _NO_ANSWER_IN_TIME else f"cannot be reached: {reason}"
    text = f"Could not {action}: the API server {server} {words}."
    return Unreachable(_USER_IN_URL.sub("//", text), hint)


def bad_address_error(server: str) -> BadKubeconfig:
    return BadKubeconfig(
        _USER_IN_URL.sub("//", f"The kubeconfig's server address {server} is not a URL."), "Correct it."
    )
