import struct
from itertools import cycle

import pytest
from hypothesis import given, strategies as st

from console.kube import websocket


class Heard:
    """What a reader said: messages, and control frames between them."""

    def __init__(self) -> None:
        self.messages: list[bytearray] = []
        self.controls: list[tuple[int, bytes]] = []

    def begin(self) -> None:
        self.messages.append(bytearray())

    def feed(self, data: memoryview) -> None:
        self.messages[-1] += data

    def control(self, kind: int, data: bytes) -> None:
        self.controls.append((kind, data))


def sent(kind: int, data: bytes, *, last: bool = True) -> bytes:
    """A frame as a server sends it."""
    first = (0x80 if last else 0) | kind
    if len(data) < 126:
        return struct.pack(">BB", first, len(data)) + data
    if len(data) < 1 << 16:
        return struct.pack(">BBH", first, 126, len(data)) + data
    return struct.pack(">BBQ", first, 127, len(data)) + data


@given(st.lists(st.integers(0, 70_000), max_size=3), st.lists(st.integers(1, 100_000), max_size=12))
def test_frames_survive_any_cut(sizes: list[int], cuts: list[int]) -> None:
    stream = b"".join(
        sent(websocket.BINARY, bytes([at]) * size) + sent(websocket.PING, b"x") for at, size in enumerate(sizes)
    )
    heard = Heard()
    reader = websocket.FrameReader(heard)
    at = 0
    for cut in cycle(cuts or [1 << 20]):
        if at >= len(stream):
            break
        reader.feed(memoryview(stream)[at : at + cut])
        at += cut
    assert [bytes(each) for each in heard.messages] == [bytes([at]) * size for at, size in enumerate(sizes)]
    assert heard.controls == [(websocket.PING, b"x")] * len(sizes)


def test_every_single_byte_apart() -> None:
    stream = sent(websocket.BINARY, b"a" * 300) + sent(websocket.CLOSE, b"\x03\xe8bye") + sent(websocket.BINARY, b"")
    heard = Heard()
    reader = websocket.FrameReader(heard)
    for at in range(len(stream)):
        reader.feed(memoryview(stream)[at : at + 1])
    assert [bytes(each) for each in heard.messages] == [b"a" * 300, b""]
    assert websocket.close_reason(heard.controls[0][1]) == (1000, "bye")


def test_a_message_in_several_frames_is_one() -> None:
    heard = Heard()
    websocket.FrameReader(heard).feed(
        memoryview(
            sent(websocket.BINARY, b"one ", last=False) + sent(websocket.PONG, b"") + sent(websocket.CONTINUED, b"two")
        )
    )
    assert [bytes(each) for each in heard.messages] == [b"one two"]


def test_what_no_server_sends() -> None:
    with pytest.raises(ValueError, match="mask"):
        websocket.FrameReader(Heard()).feed(memoryview(websocket.frame_header(websocket.BINARY, b"x")))


@given(st.integers(0, 9000), st.binary(min_size=4, max_size=4))
def test_masking(size: int, mask: bytes) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    expected = bytes(one ^ other for one, other in zip(data, cycle(mask), strict=False))
    assert websocket.apply_mask(data, mask) == expected


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_frame_is_what_a_server_reads(size: int) -> None:
    made = websocket.frame_header(websocket.BINARY, b"a" * size)
    assert made[0] == 0x82
    head = {0: 2, 125: 2, 126: 4, 65_535: 4, 65_536: 10}[size]
    assert made[1] & 0x80
    assert websocket.apply_mask(made[head + 4 :], made[head : head + 4]) == b"a" * size


class ClosedByBoth:
    """A TLS transport of Python 3.11.2 after both sides have closed: it has no protocol any more."""

    _protocol = None

    def abort(self) -> None:
        self._protocol._abort()  # type: ignore[attr-defined]


def test_a_transport_that_both_sides_have_closed_is_dropped_without_an_error() -> None:
    socket = object.__new__(websocket.WebSocket)
    socket._transport = ClosedByBoth()  # type: ignore[assignment]
    socket._abort_transport()
