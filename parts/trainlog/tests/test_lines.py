"""Lines with one of many words: the same as if each line were looked at."""

import pytest
from hypothesis import given, strategies as st

from trainlog import lines
from trainlog.lines import WordSearch

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
WITH_STEMS = WordSearch(
    b"#", *(stem + bytes([end]) for stem in (b"step", b"tepp", b" su") for end in b"!m%&+,-./012345678:lpt")
)


def looked_at(block: bytes, words: WordSearch) -> dict[int, int]:
    found, at = {}, 0
    for line in block.split(b"\n"):
        if any(word in line for word in words.words):
            found[at] = at + len(line)
        at += len(line) + 1
    return found


@pytest.mark.parametrize("words", [WORDS, WITH_STEMS])
@given(block=st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join), window=st.integers(1, 600))
def test_no_line_is_missed_wherever_the_windows_end(words: WordSearch, block: bytes, window: int) -> None:
    lines._WINDOW_BYTES, before = window, lines._WINDOW_BYTES
    try:
        assert words.find_lines(block) == looked_at(block, words)
    finally:
        lines._WINDOW_BYTES = before


def test_words_that_differ_in_their_last_letter_are_searched_for_by_what_they_begin_with() -> None:
    assert WORDS._stem_search is None
    assert WITH_STEMS._stem_search is not None
    filler = b"it is long enough " * 20
    assert WITH_STEMS.find_lines(filler + b"step su\nstep" + filler) == {}
    assert WITH_STEMS.find_lines(filler + b"\nsteppp" + filler) == {len(filler) + 1: 2 * len(filler) + 7}


def test_a_word_of_one_letter_needs_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WordSearch(b"#").find_lines(b"a\n#b\nc") == {2: 4}
    monkeypatch.setattr(lines, "_WINDOW_BYTES", 3)
    assert WordSearch(b"bc").find_lines(b"a\nabcd\nbc") == {2: 6, 7: 9}
