"""The body of an answer that goes on, in whatever pieces it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.cluster.tap import Dechunker


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(1, 30), max_size=40))
def test_chunks_come_out_whole_however_they_are_cut(pieces: list[bytes], cuts: list[int]) -> None:
    body, chunks, found, at = chunked(pieces), Dechunker(), b"", 0
    for cut in [*cuts, len(body)]:
        assert not chunks.over or at >= len(body) - 2
        found += b"".join(chunks.feed(body[at : at + cut]))
        at += cut
    assert found == b"".join(pieces)
    assert chunks.over


@pytest.mark.parametrize("body", [b"zz\r\n", b"HTTP/1.1 200 OK\r\n", b"1" * 70_000])
def test_what_is_no_body_of_chunks_is_refused(body: bytes) -> None:
    with pytest.raises(ConnectionError):
        Dechunker().feed(body)
