"""SPDY/3.1 framing for port-forwarding: encodes and decodes frames, without I/O."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS = 1, 2, 3, 4, 6, 7, 8
DATA = 0  # the kind of a frame that is no control frame
FIN = 0x01

_VERSION = 3
_MAX_FRAME = 0xFFFFFF
_DICTIONARY_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_DICTIONARY_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug "
    "Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _length_prefixed(word: str) -> bytes:
    return struct.pack(">I", len(word)) + word.encode()


DICTIONARY = (
    b"".join(_length_prefixed(word.replace("_", " ")) for word in _DICTIONARY_WORDS.split()) + _DICTIONARY_TAIL.encode()
)
"""What both sides' header compression starts from; fixed by the protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    kind: int
    stream: int = 0
    flags: int = 0
    data: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        return bool(self.flags & FIN)


class FrameReader:
    """Decodes received bytes into frames; an incomplete frame is kept until the rest comes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now; ValueError when the bytes are not SPDY/3.1."""
        try:
            yield from self._parse_frames(data)
        except (struct.error, zlib.error) as error:
            raise ValueError(f"not SPDY/3.1: {error}") from error

    def _parse_frames(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= 8:
            first, second = struct.unpack_from(">II", self._buffer)
            size = second & _MAX_FRAME
            if len(self._buffer) < 8 + size:
                return
            payload = bytes(self._buffer[8 : 8 + size])
            del self._buffer[: 8 + size]
            flags = second >> 24
            if first & 0x80000000:
                if first >> 16 & 0x7FFF != _VERSION:
                    raise ValueError(f"not a SPDY/3.1 frame: version {first >> 16 & 0x7FFF}")
                yield self._parse_control_frame(first & 0xFFFF, flags, payload)
            else:
                yield Frame(DATA, first, flags, payload)

    def _parse_control_frame(self, kind: int, flags: int, payload: bytes) -> Frame:
        skipped = {SYN_STREAM: 10, SYN_REPLY: 4, HEADERS: 4}.get(kind)
        stream = struct.unpack_from(">I", payload)[0] & 0x7FFFFFFF if len(payload) >= 4 else 0
        if skipped is None:
            return Frame(kind, stream, flags, payload)
        return Frame(kind, stream, flags, payload, _decode_headers(self._inflate.decompress(payload[skipped:])))


class FrameWriter:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def encode_data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return struct.pack(">II", stream, (FIN if last else 0) << 24 | len(data)) + data

    def encode_syn_stream(self, stream: int, headers: dict[str, str]) -> bytes:
        return self._control_frame(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._encode_headers(headers))

    def encode_syn_reply(self, stream: int) -> bytes:
        return self._control_frame(SYN_REPLY, struct.pack(">I", stream) + self._encode_headers({}))

    def encode_reset(self, stream: int, status: int = 5) -> bytes:
        """Encode RST_STREAM, which aborts a stream; status 5 is "cancelled"."""
        return self._control_frame(RST_STREAM, struct.pack(">II", stream, status))

    def encode_ping(self, data: bytes) -> bytes:
        """Encode the reply to a ping: the same frame."""
        return self._control_frame(PING, data)

    def _control_frame(self, kind: int, payload: bytes) -> bytes:
        return struct.pack(">HHI", 0x8000 | _VERSION, kind, len(payload)) + payload

    def _encode_headers(self, headers: dict[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            parts += [_length_prefixed(name), _length_prefixed(value)]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _decode_headers(block: bytes) -> dict[str, str]:
    def text(at: int) -> tuple[str, int]:
        (size,) = struct.unpack_from(">I", block, at)
        return block[at + 4 : at + 4 + size].decode(), at + 4 + size

    (count,) = struct.unpack_from(">I", block)
    headers, at = {}, 4
    for _ in range(count):
        name, at = text(at)
        headers[name.lower()], at = text(at)
    return headers
