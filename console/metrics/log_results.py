"""Everything that programs print into a log: nccl-tests, training steps, failures, lm-eval scores, py-spy stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.logs.failures import FailureParser
from console.logs.line_splitter import LONGEST
from console.logs.pyspy import PySpyParser, parse_pyspy
from console.logs.word_search import LineBlocks, WordSearch, spans_with
from console.metrics.evaluation import LmEvalParser
from console.metrics.measured_log import MeasuredLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.logs.failure_kinds import LogFailure
    from console.logs.pyspy import ProcessStacks
    from console.metrics.evaluation import EvalScore

_STACKS = WordSearch(b"Thread 0x", b"Stack dump for", b"Python v")
"""One of these stands in every dump of py-spy, below the line that names its process."""
_PROCESS = WordSearch(b"Process ")


class LogReading(MeasuredLog):
    """Reads one log, a piece at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._failures = FailureParser()
        self._scores = LmEvalParser()
        self._stacks, self._blocks = PySpyParser(), LineBlocks(LONGEST)
        self._above = b""  # the last line so far that is not empty
        self._of_json: tuple[ProcessStacks, ...] = ()

    @property
    def failures(self) -> tuple[LogFailure, ...]:
        """Failures that were named so far, in the order of their lines."""
        return self._failures.failures

    @property
    def more_failures(self) -> int:
        """How many more there were than are kept."""
        return self._failures.more

    @property
    def scores(self) -> Sequence[EvalScore]:
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
        return bool(self._from_json or self._nccl.growing or self._training.runs or self.failures or self.unreadable
                    or self.scores or self.stacks)  # fmt: skip

    def _read_more(self, data: bytes) -> bool:
        changed = self._failures.feed(data), bool(self._scores.feed(data)), self._look_for_stacks(data)
        return any(changed)

    def close(self) -> bool:
        """Reads what is left without a line end; whether that changed anything."""
        changed = super().close()
        if self._json and self._json[:1] == b"[":
            self._of_json = tuple(each for each in parse_pyspy(bytes(self._json)) if each.threads)
        self._stacks.feed(self._blocks.end())
        self._stacks.close()
        ended = self._failures.close(), self._scores.close()
        return changed or any(ended)

    def _look_for_stacks(self, data: bytes) -> bool:
        block, dumps = self._blocks.add(data), False
        for start, end in spans_with(_STACKS, block, lambda: self._stacks.open):
            dumps = True
            if not self._stacks.open:  # its process is named above it
                above = _last_line(block[max(0, start - LONGEST) : start]) or self._above
                self._stacks.feed(above + b"\n" if _PROCESS.occur_in(above) else b"")
            self._stacks.feed(block[start:end] + b"\n")
        self._above = _last_line(block[-LONGEST:]) or self._above
        return dumps


def _last_line(data: bytes) -> bytes:
    return data.rstrip().rpartition(b"\n")[2]
