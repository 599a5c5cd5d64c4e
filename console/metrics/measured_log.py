"""Parses what programs measure in a log: NCCL tests and training steps, which is all a list of jobs needs."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from console.logs.collectors import CollectorUnwrapper
from console.metrics.nccl.parser import NcclParser
from console.metrics.training.parser import TrainingParser
from console.metrics.training.run import TrainingRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.logs.line import LogLine, UnparsedLines
    from console.metrics.nccl.parser import GrowingTest
    from console.metrics.nccl.results import NcclTest
    from console.metrics.training.reader import RunReader

_LARGEST_JSON = 32 << 20  # bytes of a file of JSON that are kept until its end
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{])|\s*[\[{]?\s*$")  # how one begins: an object or an array of some


class MeasuredLog:
    """Parses one log, fed in pieces."""

    def __init__(self) -> None:
        self._collected = CollectorUnwrapper()
        self._nccl = NcclParser()
        self._training = TrainingParser()
        self._json: bytearray | None = bytearray()  # all of it, as long as it may be one JSON object
        self._from_json: NcclTest | None = None

    @property
    def nccl(self) -> tuple[NcclTest, ...]:
        """Tests so far, in the order of their beginning."""
        return (self._from_json,) if self._from_json else self._nccl.tests

    @property
    def from_json(self) -> NcclTest | None:
        """The test, if the log is nccl-tests' JSON output."""
        return self._from_json

    @property
    def growing_tests(self) -> Sequence[GrowingTest]:
        """The tests parsed from text without a copy, for frequent callers."""
        return () if self._from_json else self._nccl.growing

    @property
    def training(self) -> Sequence[RunReader]:
        """Training runs so far, in the order of their beginning."""
        return self._training.runs

    @property
    def unreadable(self) -> dict[str, UnparsedLines]:
        """Counts of lines that look like a row ("nccl") or a step ("training") but could not be parsed."""
        told = {"nccl": self._nccl.unreadable, "training": self._training.unreadable}
        return {what: each for what, each in told.items() if each is not None}

    def feed(self, data: bytes) -> bool:
        """Parse more bytes, up to the last line end; returns whether anything changed."""
        return self._take(self._collected.feed(data))

    def _take(self, data: bytes) -> bool:
        if not data:
            return False
        self._keep(data)
        changed = bool(self._nccl.read(data)), self._training.read(data), self._read_more(data)
        return any(changed)

    def _read_more(self, data: bytes) -> bool:
        """Hook for subclasses to parse the same bytes for more; returns whether anything changed."""
        return False

    def close(self) -> bool:
        """Parse an unterminated last line; returns whether anything changed."""
        rest = self._take(self._collected.close())
        if self._json:
            from console.metrics.nccl.formats import parse_nccl_json

            self._from_json = parse_nccl_json(bytes(self._json))
        changed = self._nccl.close(), self._training.close()
        return rest or any(changed) or self._from_json is not None

    def _keep(self, data: bytes) -> None:
        if self._json is None:
            return
        self._json += data if self._json else data.lstrip()
        if not _JSON.match(self._json) or len(self._json) > _LARGEST_JSON:
            self._json = None


def read_lines(lines: Sequence[LogLine]) -> tuple[MeasuredLog, list[TrainingRun], dict[int, float]]:
    """Parse lines: the reading, the TrainingRun of each run, and when the last line of each test came."""
    reading, printed, tracks = MeasuredLog(), dict[int, float](), list[TrainingRun]()
    for _, group in groupby(lines, lambda line: line.text.translate(_NUMBERS)):
        alike, at, size = list(group), 0, 1
        while batch := alike[at : at + size]:
            at, before, were_steps = at + size, _counted(reading), False
            if reading.feed("".join([f"{line.text}\n" for line in batch]).encode()):
                after = _counted(reading)
                were_steps = after[0] - before[0] == len(batch) or after[1] > before[1]
                _advance(tracks, reading, batch[-1].time, [line.time for line in batch] if were_steps else ())
            printed[len(reading.growing_tests) - 1] = batch[-1].time  # `nccl` would make all rows anew at each line
            size = _TOGETHER if were_steps else 1
    reading.close()
    _advance(tracks, reading, lines[-1].time if lines else 0.0)
    return reading, tracks, printed


_NUMBERS = str.maketrans("", "", "0123456789.eE+-, ")
_TOGETHER = 32
"""Lines that are read at once where the one before them was a step and they differ from it in numbers only."""


def _counted(reading: MeasuredLog) -> tuple[int, int]:
    """The number of steps and of rollbacks in all runs."""
    return sum(len(each.steps) for each in reading.training), sum(len(each.rewinds) for each in reading.training)


def _advance(tracks: list[TrainingRun], reading: MeasuredLog, time: float, times: Sequence[float] = ()) -> None:
    """Update all runs with what was printed at `time`, or with the last steps, printed at `times`."""
    tracks += [TrainingRun(reader.format) for reader in reading.training[len(tracks) :]]
    for track, reader in zip(tracks, reading.training, strict=True):
        track.follow(reader, time, times)
