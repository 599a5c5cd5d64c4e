"""Many parts as one text, and files of any size."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from console.errors import NotFound
from console.logs import log_text as files
from console.logs.log_segment import LogSegment
from console.logs.log_text import (
    FileText,
    LineFilter,
    LogText,
    find_matching_lines,
    find_passing_lines,
    required_literal,
)
from console.logs.merged_text import MergedText, iter_lines, offsets_of_line

WORDS = st.sampled_from(
    [
        "loss 1",
        "NaN",
        "loss: nan",
        "FutureWarning: x",
        "ValueError",
        "SXid",
        "err_or NCCL",
        "-nan =",
        "step error",
        "ok",
        "NCCL INFO x",
        "warning",
        "",
        "Zeit ü",
    ]
)
LINES = st.lists(st.tuples(st.integers(0, 5), WORDS), max_size=30)


def part_of(rank: int, lines: list[tuple[int, str]]) -> LogSegment:
    part = LogSegment(rank)
    part.append_lines([(float(moment), text.encode()) for moment, text in sorted(lines, key=lambda each: each[0])])
    return part


def all_of(text: LogText) -> list[str]:
    while text.advance():
        pass
    return [row.text for row in text.read_rows(0, len(text))]


def matches(text: LogText) -> list[int]:
    while text.advance():
        pass
    return [text.match_position(at) for at in range(text.match_count)]


@given(st.lists(LINES, max_size=4), st.integers(0, 100), st.integers(0, 20))
def test_a_page_is_that_of_all_lines_sorted(ranks: list[list[tuple[int, str]]], start: int, number: int) -> None:
    parts = [part_of(rank, lines) for rank, lines in enumerate(ranks)]
    text = MergedText(lambda: parts, lambda part: str(part.rank))
    whole = sorted(((moment, part.rank, at) for part in parts for at, moment in enumerate(part.times)))
    assert len(text) == len(whole)
    expected = [(moment, str(rank), parts[rank].read_texts(at, at + 1)[0].decode()) for moment, rank, at in whole]
    assert [(row.time, row.label, row.text) for row in text.read_rows(start, start + number)] == expected[
        start : start + number
    ]


@given(st.lists(LINES, max_size=4), st.sampled_from([None, LineFilter(level="error"), LineFilter(nccl="without")]))
def test_filter_and_search_agree_with_looking_at_every_line(
    ranks: list[list[tuple[int, str]]], keep: LineFilter | None
) -> None:
    parts = [part_of(rank, lines) for rank, lines in enumerate(ranks)]
    text = MergedText(lambda: parts, lambda part: "")
    every = all_of(text)
    text.apply_filter(keep)
    text.start_search(re.compile(b"o"))
    kept = [line for line in every if keep is None or keep(line.encode())]
    assert all_of(text) == kept
    found = [at for at, line in enumerate(kept) if "o" in line]
    assert matches(text) == found
    if found:
        assert text.nearest_row(0) == 0
    assert text.nearest_row(len(text)) == text.match_count


FILES = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=40)


@given(FILES, st.booleans(), st.sampled_from([rb"a", rb"(?i)a+b?", rb"^x|y$", rb"[a-c]\d", rb"\xff"]))
def test_a_file_has_the_lines_it_has(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], end: bool, pattern: bytes
) -> None:
    data = b"\n".join(lines) + (b"\n" if end and lines else b"")
    place = tmp_path_factory.mktemp("file") / "log"
    place.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "READ_BLOCK_BYTES", 16)
        patch.setattr(files, "INDEX_STEP_BYTES", 48)
        text = FileText(place)
        expected = data.split(b"\n")
        expected = expected[:-1] if not expected[-1] else expected
        assert all_of(text) == [line.decode("utf-8", "replace") for line in expected]
        for start in range(len(expected)):
            assert [row.text.encode("utf-8", "replace") for row in text.read_rows(start, start + 2)] == [
                line.decode("utf-8", "replace").encode() for line in expected[start : start + 2]
            ]
        wanted = re.compile(pattern)
        text.start_search(wanted)
        found = [at for at, line in enumerate(expected) if wanted.search(line)]
        assert matches(text) == found
        text.apply_filter(LineFilter(re.compile(b"a"), without=True))
        kept = [line for line in expected if b"a" not in line]
        assert all_of(text) == [line.decode("utf-8", "replace") for line in kept]
        assert matches(text) == [at for at, line in enumerate(kept) if wanted.search(line)]
        text.close()


def test_a_file_that_grows_and_one_that_is_cut(tmp_path: Path) -> None:
    place = tmp_path / "log"
    place.write_bytes(b"one\ntw")
    text = FileText(place)
    assert all_of(text) == ["one", "tw"]
    with place.open("ab") as file:
        file.write(b"o\nthree\n")
    text.read_growth()
    assert all_of(text) == ["one", "two", "three"]
    place.write_bytes(b"anew\n")
    text.read_growth()
    assert all_of(text) == ["anew"]
    text.close()


def test_a_line_of_50_megabytes_is_one_line(tmp_path: Path) -> None:
    place = tmp_path / "log"
    place.write_bytes(b"before\n" + b"x" * 50_000_000 + b"\nafter the long one\n\x00\x1b[31m\xff binary\n")
    text = FileText(place)
    text.start_search(re.compile(b"after"))
    assert matches(text) == [2]
    assert len(text) == 4
    before, long, after, binary = text.read_rows(0, 9)
    assert (before.text, after.text) == ("before", "after the long one")
    assert len(long.text) < 100_000
    assert "binary" in binary.text
    text.close()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        FileText(tmp_path / "none")


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (rb"loss", b"loss"), (rb"lm loss.*nan", b"lm loss"), (rb"a|b", b""), (rb"(?:Run|Value)Error", b"Error"),
        (rb"((a)b)?cd", b"cd"), (rb"colou?r", b"colo"), (rb"x{0,2}yz", b"yz"), (rb"[abc]\d+", b""),
        (rb"a\.bcd", b"bcd"),
        (rb"\xffend\x00", b"end"), (rb"ab+c", b"ab"), (rb"(a|bc)*", b""),
    ],
)  # fmt: skip
def test_the_letters_that_a_pattern_needs(pattern: bytes, letters: bytes) -> None:
    assert required_literal(re.compile(pattern)) == (letters, False)
    assert required_literal(re.compile(pattern, re.IGNORECASE)) == (letters, bool(letters))


PATTERNS = st.sampled_from(
    [b"error", b"e.*r", b"^ok$", rb"\d\s+", b"(?i)nan", b"o(?!k)", b"x|ok", b"", b"$", rb"k\Z", b"[^a]*ok"]
)
KEEPS = st.builds(
    LineFilter,
    st.one_of(st.none(), PATTERNS.map(re.compile)),
    st.booleans(),
    st.sampled_from(["", "error", "warn", "info", "debug"]),
    st.sampled_from(["", "only", "without"]),
)


@given(st.lists(st.one_of(WORDS, st.sampled_from(["DEBUG", "0 errors", "no errors nan"])), max_size=12), KEEPS,
       PATTERNS, st.booleans())  # fmt: skip
def test_a_block_is_sifted_as_its_lines_are(words: list[str], keep: LineFilter, pattern: bytes, ended: bool) -> None:
    lines = [word.encode() for word in words]
    data = b"".join(line + b"\n" for line in lines)
    if lines and lines[-1] and not ended:
        data = data[:-1]
    begins = [sum(len(line) + 1 for line in lines[:at]) for at in range(len(lines))]
    assert find_passing_lines(data, keep) == [begin for begin, line in zip(begins, lines, strict=True) if keep(line)]
    wanted = re.compile(pattern)
    assert list(find_matching_lines(data, wanted)) == [
        begin for begin, line in zip(begins, lines, strict=True) if wanted.search(line)
    ]


class Counted(Sequence[float]):
    """Times of which it is known how often they were looked at."""

    def __init__(self, times: list[float]) -> None:
        self._times = times
        self.looks = 0

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return self._times[index]


def test_a_line_among_many_of_one_moment_is_found_without_walking_over_all_of_them() -> None:
    def parts(number: int) -> list[Any]:
        some = [[0.0] * number, [0.0, 1.0] + [2.0] * number, [2.0] * number + [3.0], [1.0, 2.0]]
        return [SimpleNamespace(times=Counted(times)) for times in some]

    few = parts(20)
    at = [0] * 4
    for line, (part, number) in enumerate(iter_lines(few, at)):
        assert offsets_of_line(few, line) == at
        at[part] = number + 1
    many = parts(20_000)
    assert offsets_of_line(many, 50_000) == [20_000, 20_002, 9_997, 1]
    assert sum(part.times.looks for part in many) < 5000
