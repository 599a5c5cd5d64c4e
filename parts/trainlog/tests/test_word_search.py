"""Lines with one of many words: the same as if each line were looked at."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from trainlog import word_search
from trainlog.word_search import WordSearch

PIECES = [
    b"\n",
    b"\n\n",
    b"#",
    b"step",
    b"ste",
    b"p",
    b" sum ",
    b" su",
    b"m ",
    b"%|",
    b"loss",
    b"\xff",
    b"it is long enough",
]
WORDS = WordSearch(b"#", b"step", b"tep Time", b" sum ", b"%|", b"loss")


def looked_at(block: bytes) -> dict[int, int]:
    found, at = {}, 0
    for line in block.split(b"\n"):
        if any(word in line for word in WORDS.words):
            found[at] = at + len(line)
        at += len(line) + 1
    return found


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join), st.integers(1, 40))
def test_no_line_is_missed_wherever_the_windows_end(block: bytes, window: int) -> None:
    word_search._WINDOW_BYTES, before = window, word_search._WINDOW_BYTES
    try:
        assert WORDS.find_lines(block) == looked_at(block)
    finally:
        word_search._WINDOW_BYTES = before


def test_a_word_of_one_letter_needs_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WordSearch(b"#").find_lines(b"a\n#b\nc") == {2: 4}
    monkeypatch.setattr(word_search, "_WINDOW_BYTES", 3)
    assert WordSearch(b"bc").find_lines(b"a\nabcd\nbc") == {2: 6, 7: 9}
