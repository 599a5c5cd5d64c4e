"""Everything that programs print into a log: nccl-tests, training steps, failures, lm-eval scores, py-spy stacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.logs.collectors import Collected
from console.logs.failures import FailureParser
from console.logs.line_splitter import LONGEST
from console.logs.pyspy import PySpyParser, parse_pyspy
from console.logs.word_search import Blocks, Words, spans_with
from console.metrics.evaluation import LmEvalParser
from console.metrics.nccl.json import parse_nccl_json
from console.metrics.nccl.parser import NcclParser
from console.metrics.training.parser import TrainingParser
from console.metrics.training.run import Track

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.logs.failure_kinds import LogFailure
    from console.logs.line import LogLine
    from console.logs.pyspy import ProcessStacks
    from console.logs.unparsable import Unreadable
    from console.metrics.evaluation import Score
    from console.metrics.nccl.parser import Run
    from console.metrics.nccl.results import NcclTest
    from console.metrics.training.reader import Growing
    from console.metrics.training.steps import TrainingRun

_LARGEST_JSON = 32 << 20  # bytes of a file of JSON that are kept until its end
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{])|\s*[\[{]?\s*$")
"""How one begins: an object or an array of some."""
_STACKS = Words(b"Thread 0x", b"Stack dump for", b"Python v")
"""One of these stands in every dump of py-spy, below the line that names its process."""
_PROCESS = Words(b"Process ")


class LogReading:
    """Reads one log, a piece at a time."""

    def __init__(self) -> None:
        self._collected = Collected()
        self._nccl = NcclParser()
        self._training = TrainingParser()
        self._failures = FailureParser()
        self._scores = LmEvalParser()
        self._stacks, self._blocks = PySpyParser(), Blocks(LONGEST)
        self._above = b""  # the last line so far that is not empty
        self._json: bytearray | None = bytearray()  # all of it, as long as it may be one JSON object
        self._from_json: NcclTest | None = None
        self._of_json: tuple[ProcessStacks, ...] = ()

    @property
    def nccl(self) -> tuple[NcclTest, ...]:
        """Tests so far, in the order they began."""
        return (self._from_json,) if self._from_json else self._nccl.tests

    @property
    def from_json(self) -> NcclTest | None:
        """The test, if the log is one that wrote JSON."""
        return self._from_json

    @property
    def growing_tests(self) -> Sequence[Run]:
        """Those that came as text as they are kept, for whoever asks often."""
        return () if self._from_json else self._nccl.growing

    @property
    def training(self) -> tuple[TrainingRun, ...]:
        """Runs so far, in the order they began."""
        return self._training.runs

    @property
    def growing_runs(self) -> Sequence[Growing]:
        """The same runs as they are kept, for whoever asks often."""
        return self._training.growing

    @property
    def failures(self) -> tuple[LogFailure, ...]:
        """Failures that were named so far, in the order of their lines."""
        return self._failures.failures

    @property
    def more_failures(self) -> int:
        """How many more there were than are kept."""
        return self._failures.more

    @property
    def scores(self) -> Sequence[Score]:
        return self._scores.scores

    @property
    def stacks(self) -> tuple[ProcessStacks, ...]:
        """Processes whose stacks py-spy printed, so far."""
        return self._of_json or tuple(each for each in self._stacks.processes if each.threads)

    @property
    def ended(self) -> str:
        """How the launcher or the scheduler says, at the end, that the job ended; mostly nothing."""
        return self._failures.ended

    @property
    def found(self) -> bool:
        return bool(self._from_json or self._nccl.growing or self._training.growing or self.failures or self.unreadable
                    or self.scores or self.stacks)  # fmt: skip

    @property
    def unreadable(self) -> dict[str, Unreadable]:
        """What could not be read though it looks like a row ("nccl") or a step ("training")."""
        told = {"nccl": self._nccl.unreadable, "training": self._training.unreadable}
        return {what: each for what, each in told.items() if each is not None}

    def feed(self, data: bytes) -> bool:
        """Reads on; whether that changed anything. A line counts once its end has come."""
        return self._take(self._collected.feed(data))

    def _take(self, data: bytes) -> bool:
        if not data:
            return False
        self._keep(data)
        changed = bool(self._nccl.read(data)), self._training.read(data), self._failures.feed(data)
        others = bool(self._scores.feed(data)), self._look_for_stacks(data)
        return any(changed) or any(others)

    def close(self) -> bool:
        """Reads what is left without a line end; whether that changed anything."""
        rest = self._take(self._collected.close())
        self._from_json = parse_nccl_json(bytes(self._json)) if self._json else None
        if self._json and self._json[:1] == b"[":
            self._of_json = tuple(each for each in parse_pyspy(bytes(self._json)) if each.threads)
        self._stacks.feed(self._blocks.end())
        self._stacks.close()
        changed = self._nccl.close(), self._training.close(), self._failures.close(), self._scores.close()
        return rest or any(changed) or self._from_json is not None

    def _keep(self, data: bytes) -> None:
        if self._json is None:
            return
        self._json += data if self._json else data.lstrip()
        if not _JSON.match(self._json) or len(self._json) > _LARGEST_JSON:
            self._json = None

    def _look_for_stacks(self, data: bytes) -> bool:
        block, dumps = self._blocks.add(data), False
        for start, end in spans_with(_STACKS, block, lambda: self._stacks.open):
            dumps = True
            if not self._stacks.open:  # its process is named above it
                above = _last_line(block[max(0, start - LONGEST) : start]) or self._above
                self._stacks.feed(above + b"\n" if _PROCESS.stand_in(above) else b"")
            self._stacks.feed(block[start:end] + b"\n")
        self._above = _last_line(block[-LONGEST:]) or self._above
        return dumps


def _last_line(data: bytes) -> bytes:
    return data.rstrip().rpartition(b"\n")[2]


def read_lines(lines: Sequence[LogLine]) -> tuple[LogReading, list[Track], dict[int, float]]:
    """What these lines tell: the reading, the track of each run in it, and when the last line of each test came."""
    reading, printed, tracks = LogReading(), dict[int, float](), list[Track]()
    for line in lines:
        if reading.feed(f"{line.text}\n".encode()):
            _advance(tracks, reading, line.time)
        printed[len(reading.nccl) - 1] = line.time
    reading.close()
    _advance(tracks, reading, lines[-1].time if lines else 0.0)
    return reading, tracks, printed


def _advance(tracks: list[Track], reading: LogReading, time: float) -> None:
    """Tell the tracks of all runs what was printed at that moment."""
    runs = reading.training
    tracks += [Track(run.format) for run in runs[len(tracks) :]]
    for track, run in zip(tracks, runs, strict=True):
        track.sync(run.steps, time)
