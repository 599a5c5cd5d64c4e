"""Status objects: the API server's way of saying no."""

from __future__ import annotations

import re
from http import HTTPStatus

import msgspec

from console.errors import TRY_AGAIN, Conflict, Gone, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.models.pod import AFTER_THE_END
from console.parsers.meta import UNREADABLE, Wire


class DetailsWire(Wire):
    """What the refusal is about."""

    kind: str | None = None
    name: str | None = None
    retry_after_seconds: int | None = None


class StatusWire(Wire):
    """A Status object, as an error body or as the object of an ERROR event."""

    kind: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: DetailsWire | None = None


_LONGEST_WAIT = 86_400
"""Seconds: no server asks for more."""
_STATUS = msgspec.json.Decoder(StatusWire)
_KINDS: dict[int, type[Refused]] = {401: NotLoggedIn, 403: NotAllowed, 404: NotFound, 409: Conflict, 410: Gone}
_FORBIDDEN = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


_NOT_RUNNING = re.compile(
    r'container not found(?: \("(?P<name>[^"]+)"\))?|cannot exec in a (?:stopped|deleted)|no running task found'
    r"|container .{0,120} is not (?:running|created or running)|not in running state"
)
"""What a kubelet says of a container in which nothing can be done; it answers 500, as if the server were ill."""


def read_status(body: bytes) -> StatusWire:
    """The Status in an error body; a plain text body is its message."""
    try:
        return _STATUS.decode(body)
    except UNREADABLE:
        text = " ".join(body[:400].decode(errors="replace").split())
        return StatusWire(message="" if text.startswith("<") else text)


def _hint(code: int, message: str) -> str:
    """What to do next."""
    if code == HTTPStatus.FORBIDDEN:
        found = _FORBIDDEN.search(message)
        if not found:
            return "Ask the cluster's administrator for the right."
        group = f".{found['group']}" if found["group"] else ""
        where = f" in namespace {found['namespace']}" if found["namespace"] else ""
        return f"Ask for `{found['verb']} {found['resource']}{group}`{where}."
    if code == HTTPStatus.UNAUTHORIZED:
        return "Log in again (for GKE: gcloud auth login), or choose another context."
    if code == HTTPStatus.CONFLICT:
        return "Look at the object again and repeat."
    return ""


def _reason(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "unknown status"


def refusal(code: int, body: bytes | StatusWire, *, doing: str, retry_after: float = 0) -> Refused | Unreachable:
    """The error that an HTTP status and its body stand for; `doing` starts the sentence ("list pods").

    500 and above is Unreachable: what asked may simply ask again.
    """
    status = body if isinstance(body, StatusWire) else read_status(body)
    why = (status.message or status.reason or _reason(code)).strip()
    message = f"Could not {doing}: {why}" + ("" if why.endswith((".", "!", "?")) else ".")
    if code == HTTPStatus.INTERNAL_SERVER_ERROR and (gone := _NOT_RUNNING.search(why)):
        name = f"container {gone['name']}" if gone["name"] else "its container"
        return Unreachable(f"Could not {doing}: {name} has ended, or has not started yet.", AFTER_THE_END)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR and code != HTTPStatus.INSUFFICIENT_STORAGE:
        return Unreachable(f"{message[:-1]} (the API server answered {code}).", TRY_AGAIN)
    seconds = min(retry_after or (status.details.retry_after_seconds or 0 if status.details else 0), _LONGEST_WAIT)
    return _KINDS.get(code, Refused)(
        message, _hint(code, why), status=code, reason=status.reason or "", retry_after=float(seconds)
    )
