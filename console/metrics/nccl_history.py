"""Stores finished NCCL tests, one JSON object per line, and derives usual bandwidths and each node's trend."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import log2
from pathlib import Path

import msgspec
from msgspec import Struct, field

from console.folders import atomic_write, file_lock, open_own_file, read_own_file, state_folder
from console.median import median
from trainlog import NcclTest, health_scan_average

MIN_TESTS = 2  # earlier tests from which one can say what is usual
STEADY_SHARE = 0.03  # a change by less than this share is none


class MeasuredTest(Struct, frozen=True):
    test: NcclTest
    job: str = ""
    namespace: str = ""
    uid: str = ""
    attempt: int = 0
    rank: int = 0  # rank of the job whose log it stands in
    index: int = 0  # place among the tests of that log
    at: float = 0.0  # when its last line was printed, seconds since the epoch
    nodes: tuple[str, ...] = ()
    accelerator: str = ""  # label of its nodes

    @property
    def name(self) -> tuple[str, int, int, int]:
        """The key that identifies the test: job (uid, else namespace/name), attempt, rank and index."""
        return self.uid or f"{self.namespace}/{self.job}", self.attempt, self.rank, self.index

    @property
    def comparison_key(self) -> tuple[str, int | None, str, str]:
        """Tests with the same key can be compared: (program, ranks, data type, GPU type)."""
        rows = self.test.rows
        program = (self.test.program or "").removesuffix("_mpi")
        return program, self.test.ranks, rows[0].type if rows else "", self.accelerator

    @property
    def busbw(self) -> float | None:
        """The bus bandwidth (GB/s) that represents the test: mean over 2 to 8 GiB, else the best; None if unknown."""
        average = health_scan_average(self.test)
        return average if average is not None else self.test.peak_busbw


def comparable_tests(tests: Iterable[MeasuredTest], shown_test: MeasuredTest) -> list[MeasuredTest]:
    """The finished tests of other jobs or attempts that are like `shown_test` and had no wrong values, newest first."""
    program, ranks, kind, gpu = shown_test.comparison_key  # without a kind before its first row
    ended = (
        each for each in tests if each.name != shown_test.name and each.test.finished and each.test.ok is not False
    )
    keys = ((each, each.comparison_key) for each in ended)
    found = [(each, key[2]) for each, key in keys if key == (program, ranks, kind or key[2], gpu)]
    return [] if len({own for _, own in found}) > 1 else sorted((each for each, _ in found), key=lambda each: -each.at)


class UsualBandwidth(Struct, frozen=True):
    """The bandwidths of earlier tests of one kind at each message size: lowest, median and highest, in GB/s."""

    tests: int
    sizes: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def usual_at(self, size: int) -> float | None:
        """The median bandwidth at that message size, GB/s; None if the size was not measured."""
        found = self.sizes.get(size)
        return found[1] if found else None


def usual_bandwidth(tests: Sequence[MeasuredTest]) -> UsualBandwidth | None:
    """The usual bandwidth; None if there are too few tests."""
    if len(tests) < MIN_TESTS:
        return None
    values: dict[int, list[float]] = {}
    for each in tests:
        for row in each.test.rows:
            if row.best_busbw is not None and row.size > 0:
                values.setdefault(row.size, []).append(row.best_busbw)
    return UsualBandwidth(
        len(tests), {size: (min(each), median(each), max(each)) for size, each in sorted(values.items())}
    )


class SizeDifference(Struct, frozen=True):
    """The bandwidths of two tests at one message size: GB/s, the mean of the better half of each."""

    size: int
    before: float | None
    after: float | None

    @property
    def share(self) -> float | None:
        """The fraction (0.1: 10 %) by which the later test is faster; None if either lacks the size."""
        return self.after / self.before - 1 if self.before and self.after is not None else None


def compare_sizes(old_test: NcclTest, new_test: NcclTest) -> tuple[SizeDifference, ...]:
    """Compare two tests at each message size that either has."""
    left = {row.size: row.best_busbw for row in old_test.rows}
    right = {row.size: row.best_busbw for row in new_test.rows}
    return tuple(SizeDifference(size, left.get(size), right.get(size)) for size in sorted(left | right))


def mean_speedup(old_test: NcclTest, new_test: NcclTest) -> float | None:
    """Mean fraction by which the later test is faster, over common sizes (if any, from 8 MiB up); None without any."""
    shares = [(each.size, each.share) for each in compare_sizes(old_test, new_test) if each.share is not None]
    large = [share for size, share in shares if size and log2(size) >= 23] or [share for _, share in shares]
    return sum(large) / len(large) if large else None


# nodes


class NodeBandwidth(Struct, frozen=True):
    """A node's bandwidth (GB/s) in the tests it took part in, latest last."""

    values: tuple[float, ...]
    at: float
    gpus: int | None = None  # ranks of the last test
    job: str = ""

    @property
    def last(self) -> float:
        return self.values[-1]

    @property
    def trend(self) -> float | None:
        """The fraction by which the last value exceeds the median of earlier ones; None for the first."""
        before = median(self.values[:-1]) if len(self.values) > 1 else None
        return self.last / before - 1 if before else None

    @property
    def arrow(self) -> str:
        """The trend as a character: ↗ up, → steady, ↘ down; empty for the first value."""
        trend = self.trend
        if trend is None:
            return ""
        return "→" if abs(trend) < STEADY_SHARE else "↗" if trend > 0 else "↘"


def bandwidth_by_node(tests: Iterable[MeasuredTest]) -> dict[str, NodeBandwidth]:
    """Each node's bandwidths in tests of the kind it ran last; other kinds are not comparable."""
    of: dict[str, list[MeasuredTest]] = {}
    for each in sorted(tests, key=lambda each: each.at):
        if each.busbw is not None and each.test.finished:
            for node in each.nodes:
                of.setdefault(node, []).append(each)
    found = {}
    for node, every in of.items():
        last = every[-1]
        values = tuple(
            each.busbw for each in every if each.comparison_key == last.comparison_key and each.busbw is not None
        )
        found[node] = NodeBandwidth(values, last.at, last.test.ranks, last.job)
    return found


MAX_STORED_TESTS = 2000  # tests that are kept; of more the oldest go
MAX_KNOWN_TESTS, MAX_KNOWN_OF_JOB = 1000, 100  # newest tests that are in memory, and those of one job among them
MAX_HISTORY_FILE_BYTES = 256 << 20  # bytes of a file that is read at all
LARGE_FILE_BYTES = 24 << 20  # bytes from which the file is looked through for what may go


def default_path() -> Path:
    return state_folder() / "nccl-tests.jsonl"


class NcclHistory:
    """The tests stored in one file. If the file cannot be used, `note` has the reason and nothing is stored."""

    def __init__(self, file_path: Path) -> None:
        self.file_path = file_path
        self.note = ""  # what is wrong with the file; empty: nothing
        self.tests: tuple[MeasuredTest, ...] = ()  # the newest, newest first
        self.nodes: dict[str, NodeBandwidth] = {}  # the bandwidth of each in these
        self.stored_rows: dict[tuple[str, int, int, int], int] = {}  # by name, a hash of what is stored of a test
        self._file, self._read_offset = 0, 0  # inode of the file that was read, and up to where

    async def load(self) -> tuple[MeasuredTest, ...]:
        from asyncio import to_thread  # not at the top: a file of results is read without it, in 30 ms less

        self._keep_newest(await to_thread(self._read_new_lines))
        return self.tests

    async def store(self, tests: Iterable[MeasuredTest]) -> None:
        if fresh := self._keep_newest(tests):
            from asyncio import to_thread

            await to_thread(self._append_to_file, fresh)

    def _keep_newest(self, tests: Iterable[MeasuredTest]) -> list[MeasuredTest]:
        """Store the newest of the old tests and these; returns those that are new or changed."""
        fresh = {}
        for each in tests:
            content = hash(
                (each.at, each.nodes, each.accelerator, each.test.ok, each.test.finished, len(each.test.rows))
            )
            if self.stored_rows.get(each.name) != content:
                self.stored_rows[each.name], fresh[each.name] = content, each
        if fresh:
            every, of_job = {each.name: each for each in self.tests} | fresh, Counter[str]()
            newest = []
            for each in sorted(every.values(), key=lambda each: -each.at):
                of_job[each.name[0]] += 1
                if of_job[each.name[0]] <= MAX_KNOWN_OF_JOB:
                    newest.append(each)
            self.tests = tuple(newest[:MAX_KNOWN_TESTS])
            self.nodes = bandwidth_by_node(self.tests)
        return list(fresh.values())

    def _read_new_lines(self) -> list[MeasuredTest]:
        """The tests that this and other consoles have appended since the last time."""
        try:
            with os.fdopen(open_own_file(self.file_path, max_bytes=MAX_HISTORY_FILE_BYTES), "rb") as file:
                number = os.fstat(file.fileno()).st_ino
                self._read_offset = file.seek(self._read_offset if number == self._file else 0)
                data = file.read(MAX_HISTORY_FILE_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.note, self._file = f"Earlier NCCL tests cannot be read: {self.file_path} ({error.strerror}).", 0
            return []
        whole = data.rfind(b"\n") + 1
        self._file, self._read_offset, self.note = number, self._read_offset + whole, "" if whole else self.note
        decoded = map(_decode_test, data[:whole].splitlines()[-MAX_STORED_TESTS:])
        return [each for each in decoded if each is not None]

    def _append_to_file(self, tests: list[MeasuredTest]) -> None:
        data = b"".join(msgspec.json.encode(each) + b"\n" for each in tests)
        try:
            with file_lock(self.file_path):
                if self.file_path.exists() and self.file_path.stat().st_size > LARGE_FILE_BYTES:
                    lines = read_own_file(self.file_path, MAX_HISTORY_FILE_BYTES).splitlines(keepends=True)[
                        -MAX_STORED_TESTS // 2 :
                    ]
                    atomic_write(self.file_path, b"".join(lines))
                with os.fdopen(open_own_file(self.file_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as out:
                    out.write(data)
        except OSError as error:
            self.note = (
                f"The history of NCCL tests is kept only until the console ends: {self.file_path} ({error.strerror})."
            )


def _decode_test(line: bytes) -> MeasuredTest | None:
    with suppress(msgspec.DecodeError):  # a line that a crash cut, or of a later a4
        return msgspec.json.decode(line, type=MeasuredTest)
    return None
