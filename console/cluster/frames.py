"""WebSocket frames (RFC 6455), bytes in and bytes out, no I/O; with few copies, because tunnels are made of them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_FIN, _MASKED = 0x80, 0x80
_SHORT, _MIDDLE = 126, 127
_LARGEST_CONTROL = 125
_LONG = 4096
"""Bytes from which on a compiled function is worth being looked for."""


class Sink(Protocol):
    """What is told as frames come in."""

    def begin(self) -> None:
        """A message begins."""

    def feed(self, data: memoryview) -> None:
        """A part of the message that began last; the view is good during the call only."""

    def control(self, kind: int, data: bytes) -> None:
        """A whole control frame: CLOSE, PING or PONG."""


class Reader:
    """Cuts received bytes into frames; parts of data frames are passed on at once, however long the frame is."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._head = bytearray()
        """The beginning of a frame's header, while it is not whole; a control frame is collected here too."""
        self._left = 0
        """Bytes of the data frame under way that are still to come."""

    def feed(self, data: memoryview) -> None:
        """Take bytes; ValueError when they are no frames of a server."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                self._sink.feed(part)
            elif self._head:
                at = self._collect(data, at)
            else:
                at = self._begin(data, at)

    def _begin(self, data: memoryview, at: int) -> int:
        """Read a header where it lies, the usual case; else keep what there is of it."""
        skipped, length = _header(data, at)
        if skipped and data[at] & 0x0F < CLOSE:
            self._start(data[at], length)
            return at + skipped
        self._head.append(data[at])
        return at + 1

    def _collect(self, data: memoryview, at: int) -> int:
        """One byte more of a header in pieces, or the rest of a control frame."""
        self._head.append(data[at])
        at += 1
        skipped, length = _header(self._head, 0)
        if not skipped:
            return at
        kind = self._head[0] & 0x0F
        if kind < CLOSE:
            first = self._head[0]
            self._head.clear()
            self._start(first, length)
        elif len(self._head) == skipped + length:
            body = bytes(self._head[skipped:])
            self._head.clear()
            self._sink.control(kind, body)
        return at

    def _start(self, first: int, length: int) -> None:
        if first & 0x0F != CONTINUED:
            self._sink.begin()
        self._left = length


def _header(data: memoryview | bytearray, at: int) -> tuple[int, int]:
    """How many bytes the header takes (0 if it is not whole), and the length of what follows."""
    if len(data) - at < 2:
        return 0, 0
    length = data[at + 1]
    if length & _MASKED:
        raise ValueError("a server does not mask")
    if length < _SHORT:
        return 2, length
    size = 2 if length == _SHORT else 8
    if len(data) - at < 2 + size:
        return 0, 0
    return 2 + size, int.from_bytes(data[at + 2 : at + 2 + size], "big")


def frame(kind: int, *parts: bytes) -> bytes:
    """One whole frame, masked as a client has to."""
    data = b"".join(parts)
    size = len(data)
    if size < _SHORT:
        head = struct.pack(">BB", _FIN | kind, _MASKED | size)
    elif size <= 0xFFFF:
        head = struct.pack(">BBH", _FIN | kind, _MASKED | _SHORT, size)
    else:
        head = struct.pack(">BBQ", _FIN | kind, _MASKED | _MIDDLE, size)
    mask = os.urandom(4)
    return b"".join((head, mask, masked(data, mask)))


def masked(data: bytes, mask: bytes) -> bytes | bytearray:
    """Every byte crossed with the mask's, which repeats."""
    if len(data) >= _LONG and (compiled := _compiled()):
        made = bytearray(data)
        compiled(mask, made)
        return made
    return masked_slowly(data, mask)


def masked_slowly(data: bytes, mask: bytes) -> bytes:
    """The same as arithmetic with large numbers, the fastest way without a compiler."""
    words = -(-len(data) // 4)
    key = int.from_bytes(mask, "little") * _ones(words)
    return (int.from_bytes(data, "little") ^ key).to_bytes(4 * words, "little")[: len(data)]


@cache
def _compiled() -> Callable[[bytes, bytearray], None] | None:
    """The function of aiohttp, thirty times as fast, from its file alone: to import aiohttp takes a third of a second.

    None where it was built without, or does something else than it did.
    """
    package = importlib.util.find_spec("aiohttp")
    places = list(package.submodule_search_locations or ()) if package else []
    loader = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    for place in places:
        spec = importlib.machinery.FileFinder(os.path.join(place, "_websocket"), loader).find_spec("mask")  # noqa: PTH118
        if spec and spec.loader:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found: Callable[[bytes, bytearray], None] | None = getattr(module, "_websocket_mask_cython", None)
            if found and _masks(found):
                return found
    return None


def _masks(function: Callable[[bytes, bytearray], None]) -> bool:
    """Whether it masks."""
    tried = bytearray(range(100))
    function(b"abcd", tried)
    return bytes(tried) == masked_slowly(bytes(range(100)), b"abcd")


@lru_cache(maxsize=16)
def _ones(words: int) -> int:
    """The number that repeats a mask so often: streams are cut into pieces of few sizes."""
    return int.from_bytes(b"\1\0\0\0" * words, "little")


def closing(code: int = 1000) -> bytes:
    """The frame that says goodbye."""
    return frame(CLOSE, struct.pack(">H", code))


def close_reason(body: bytes) -> tuple[int, str]:
    """Code and words of a close frame; 1005 if it has none."""
    if len(body) < 2:
        return 1005, ""
    return struct.unpack_from(">H", body)[0], body[2:_LARGEST_CONTROL].decode(errors="replace")
