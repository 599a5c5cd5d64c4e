"""Port-forwarding to pods over WebSockets: one connection per pipe, so that a stalled one cannot block another.

In the two channels of protocol v4, which cost a byte per message; it cannot close one direction. Nothing is kept
here: a reader that is slow makes the sender wait, in both directions, by not reading from the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from console.errors import ConsoleError, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.kube.raw_connection import RawResponse, error_from_raw_response

if TYPE_CHECKING:
    from console.kube.login import Login
    from console.kube.raw_connection import RawConnection
    from console.kube.websocket import WebSocket

CHANNELS = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
_PORT = 2  # bytes with which each channel begins: the port number, for a request may ask for several
PIECE = 1 << 16  # most bytes in one message: a kubelet holds each as a whole


class Receiver(Protocol):
    def data(self, data: bytes) -> None:
        """Bytes have come."""

    def full(self, on: bool) -> None:
        """Whether to wait with writing."""

    def end(self, why: str) -> None:
        """The pod's side has ended; `why` is empty when it just closed the connection."""


class Pipe:
    """A connection to one port of a pod; the receiver passed to `attach` gets what arrives."""

    def __init__(self, socket: WebSocket, what: str) -> None:
        self._socket = socket
        self._what = what
        self._receiver: Receiver | None = None
        self._parts: list[memoryview | bytes] = []
        self._said = bytearray()  # what the error channel says
        self._fresh = False  # whether a message has begun whose channel has not come yet
        self._channel = DATA
        self._heads = [_PORT, _PORT]
        self.closed = False

    def attach(self, receiver: Receiver) -> None:
        """Begin; everything goes to the receiver, from within the event loop."""
        self._receiver = receiver
        self._socket.listen(self)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            self._socket.send(b"\x00", data[at : at + PIECE])

    def pause(self) -> None:
        self._socket.pause()

    def resume(self) -> None:
        self._socket.resume()

    def ping(self) -> None:
        self._socket.ping()

    def close(self) -> None:
        self.closed = True
        self._receiver = None
        self._socket.close()

    # what the WebSocket calls

    def begin(self) -> None:
        self._fresh = True

    def feed(self, data: memoryview) -> None:
        """Take a part of a message; it begins with its channel, and each channel with the port."""
        if self._fresh:
            self._fresh, self._channel, data = False, data[0], data[1:]
        if self._channel > ERROR:
            return
        if head := self._heads[self._channel]:
            taken = min(head, len(data))
            self._heads[self._channel] -= taken
            data = data[taken:]
        if self._channel == ERROR:
            self._said += data
        elif data:
            self._parts.append(data)

    def flushed(self) -> None:
        """Pass on what came together, in one piece: the parts are views that are good for this moment only."""
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            if self._receiver:
                self._receiver.data(data)

    def full(self, on: bool) -> None:
        if self._receiver:
            self._receiver.full(on)

    def ended(self, why: str) -> None:
        """Called when the connection, or the pod's side of it, has ended."""
        self.flushed()
        if self.closed:
            return
        self.closed = True
        self._socket.close()
        receiver, self._receiver = self._receiver, None
        if receiver:
            receiver.end(self._reason(why))

    def _reason(self, why: str) -> str:
        said = " ".join(self._said.decode(errors="replace").split()).rstrip(".")
        if "connection refused" in said.lower():
            return f"Nothing listens on {self._what}."
        if said:
            return f"Could not reach {self._what}: {said}."
        return f"The connection to {self._what} broke off: {why}." if why else ""


async def open_pipe(wire: RawConnection, login: Login, namespace: str, pod: str, port: int) -> Pipe:
    """Open a pipe to that port over this connection; raises Refused and its subclasses, Unreachable."""
    what = f"port {port} of pod {pod}"
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/portforward"
    made = await wire.upgrade(f"{path}?ports={port}", CHANNELS)
    if isinstance(made, RawResponse):
        await _explain(made, login, f"reach {what}")
        raise Unreachable(
            f"Could not reach {what}: the API server does not take the protocol {CHANNELS}.",
            f"Try: kubectl port-forward -n {namespace} pod/{pod} {port}",
        )
    return Pipe(made, what)


async def _explain(answer: RawResponse, login: Login, doing: str) -> None:
    """Raise what a refused upgrade means, unless it may be the protocol that is refused."""
    if answer.status < 300:
        return
    error = await error_from_raw_response(login, answer, doing)
    if isinstance(error, NotFound | NotLoggedIn) or _is_verdict(error):
        raise error


def _is_verdict(error: ConsoleError) -> bool:
    """Whether it is about rights or the server's state; what does not know a protocol says 400, 403 without a Status,
    405, 426 or 501.
    """
    if isinstance(error, NotAllowed):
        return error.reason == "Forbidden"
    if isinstance(error, Refused):
        return error.status not in {400, 405, 426}
    return "answered 501" not in error.message
