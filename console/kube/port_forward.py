"""Port-forwarding to pods over WebSockets: one connection per pipe, so that a stalled one cannot block another.

Usually in the two channels of protocol v4, which cost a byte per message; where a server refuses that, in SPDY/3.1
streams inside the messages, as kubectl does. Only SPDY can close one direction. Nothing is kept here: a reader that
is slow makes the sender wait, in both directions, by not reading from the connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from console.errors import ConsoleError, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.kube.raw_connection import RawResponse, error_from_raw_response

if TYPE_CHECKING:
    from console.kube.login import Login
    from console.kube.raw_connection import RawConnection
    from console.kube.websocket import WebSocket

CHANNELS = "v4.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
DATA, ERROR = 0, 1
_PORT = 2  # bytes with which each channel begins: the port number, for a request may ask for several
PIECE = 1 << 16  # most bytes in one message: a kubelet holds each as a whole
REASON = 1.0  # seconds for which the end of a data stream waits for the error stream to say why
_spoken: dict[str, str] = {}  # protocol that a server took, by its address, where it was not the first


class Receiver(Protocol):
    def data(self, data: bytes) -> None:
        """Called with bytes that have arrived."""

    def full(self, on: bool) -> None:
        """Called with True when writing should pause, with False when it may continue."""

    def end(self, why: str) -> None:
        """Called when the pod's side has ended; `why` is empty if it just closed the connection."""


class Pipe:
    """A connection to one port of a pod; the receiver passed to `attach` gets what arrives."""

    def __init__(self, socket: WebSocket, what: str) -> None:
        self._socket = socket
        self._what = what
        self._receiver: Receiver | None = None
        self._parts: list[memoryview | bytes] = []
        self._said = bytearray()  # what the error channel says
        self.closed = False

    def attach(self, receiver: Receiver) -> None:
        """Start to pass what arrives to the receiver, from within the event loop."""
        self._receiver = receiver
        self._socket.listen(self)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            self._socket.send(b"\x00", data[at : at + PIECE])

    def finish(self) -> None:
        """Signal the end of the data written, if the protocol can."""

    def pause(self) -> None:
        self._socket.pause()

    def resume(self) -> None:
        self._socket.resume()

    def ping(self) -> None:
        self._socket.ping()

    def close(self) -> None:
        self.closed = True
        self._forget()
        self._receiver = None
        self._socket.close()

    def _forget(self) -> None: ...

    # what the WebSocket calls

    def begin(self) -> None: ...

    def feed(self, data: memoryview) -> None: ...

    def flushed(self) -> None:
        """Called when all parts that arrived together have been fed."""
        self._hand_over()

    def _hand_over(self) -> None:
        """Pass the buffered parts on in one piece: their memory is only valid during this call."""
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
        self._hand_over()
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


class ChannelPipe(Pipe):
    """A pipe over protocol v4: each message starts with its channel number, and each channel with the port."""

    def __init__(self, socket: WebSocket, what: str) -> None:
        super().__init__(socket, what)
        self._fresh = False
        self._channel = DATA
        self._heads = [_PORT, _PORT]

    def begin(self) -> None:
        self._fresh = True

    def feed(self, data: memoryview) -> None:
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


class StreamPipe(Pipe):
    """A pipe over SPDY/3.1: an error stream, which is only read, and a data stream."""

    _ERROR, _DATA = 1, 3

    def __init__(self, socket: WebSocket, what: str, port: int) -> None:
        super().__init__(socket, what)
        from console.kube import spdy

        self._spdy = spdy
        self._reader, self._writer = spdy.Reader(), spdy.Writer()
        self._port = port
        self._finished = False
        self._left = {self._ERROR, self._DATA}  # streams on which something may still come
        self._reason_due: asyncio.TimerHandle | None = None

    def attach(self, receiver: Receiver) -> None:
        """Open the two streams without waiting for the replies, and pass what arrives to the receiver."""
        super().attach(receiver)
        about = {"port": str(self._port), "requestid": "0"}
        self._socket.send(
            self._writer.syn_stream(self._ERROR, {"streamtype": "error", **about}),
            self._writer.data(self._ERROR, b"", last=True),
            self._writer.syn_stream(self._DATA, {"streamtype": "data", **about}),
        )

    def write(self, data: bytes) -> None:
        if not self._finished:
            self._socket.send(self._writer.data(self._DATA, data))

    def finish(self) -> None:
        if not self._finished:
            self._finished = True
            self._socket.send(self._writer.data(self._DATA, b"", last=True))

    def feed(self, data: memoryview) -> None:
        try:
            for frame in self._reader.feed(bytes(data)):
                self._take(frame.kind, frame.stream, frame.data, last=frame.last)
        except ValueError:
            self._said += b"the server's answer is no SPDY/3.1"
            self._left.clear()

    def _take(self, kind: int, stream: int, data: bytes, *, last: bool) -> None:
        spdy = self._spdy
        if kind == spdy.PING:
            self._socket.send(self._writer.ping(data))
        elif kind == spdy.GOAWAY:
            self._left.clear()
        elif kind == spdy.DATA:
            if stream == self._ERROR:
                self._said += data
            elif stream == self._DATA and data:
                self._parts.append(data)
        if last or kind == spdy.RST_STREAM:
            self._left.discard(stream)

    def flushed(self) -> None:
        """Pass on what arrived; the pipe ends when both streams have, since the reason may come last."""
        self._hand_over()
        if self.closed:
            return
        if not self._left:
            self.ended("")
        elif self._DATA not in self._left and self._reason_due is None:
            self._reason_due = asyncio.get_running_loop().call_later(REASON, self.ended, "")

    def ended(self, why: str) -> None:
        self._forget()
        super().ended(why)

    def _forget(self) -> None:
        if self._reason_due:
            self._reason_due.cancel()


async def open_pipe(wire: RawConnection, login: Login, namespace: str, pod: str, port: int) -> Pipe:
    """Open a pipe to that port over this connection; raises Refused and its subclasses, Unreachable."""
    what = f"port {port} of pod {pod}"
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/portforward"
    protocol = _spoken.get(login.server, CHANNELS)
    query = f"?ports={port}" if protocol == CHANNELS else ""
    made = await wire.upgrade(path + query, protocol)
    if isinstance(made, RawResponse):
        await _explain(made, login, f"reach {what}")
        raise ProtocolNotSupported(f"Could not reach {what}: the API server does not take the protocol {protocol}.")
    return ChannelPipe(made, what) if protocol == CHANNELS else StreamPipe(made, what, port)


class ProtocolNotSupported(Unreachable):
    """The server does not support this port-forward protocol; another connection may try the other one."""


def switch_protocol(login: Login) -> bool:
    """Switch to the other port-forward protocol for this server; False when both have been tried."""
    if _spoken.get(login.server, CHANNELS) == TUNNEL:
        _spoken.pop(login.server, None)
        return False
    _spoken[login.server] = TUNNEL
    return True


async def _explain(answer: RawResponse, login: Login, doing: str) -> None:
    """Raise the error for a refused upgrade, unless the server may only not know the protocol."""
    if answer.status < 300:
        return
    error = await error_from_raw_response(login, answer, doing)
    if isinstance(error, NotFound | NotLoggedIn) or _is_verdict(error):
        raise error


def _is_verdict(error: ConsoleError) -> bool:
    """Whether the error is about permissions or the server's state, and not about an unknown protocol."""
    if isinstance(error, NotAllowed):
        return error.reason == "Forbidden"  # without a Status it may be a 403 for an unknown protocol
    if isinstance(error, Refused):
        return error.status not in {400, 405, 426}
    return "answered 501" not in error.message
