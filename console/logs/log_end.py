"""The end of a pod's program and its reason, by the last lines of its log.

Launchers print a last line with the exit code. Pods may be kept after it, so only this line shows that the job is over.
A log without it may end with the report of torchrun, mpirun or DeepSpeed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

import trainlog

if TYPE_CHECKING:
    from console.logs.log_line import LogLine, PodLine

END_LINE_WORDS = " ended with exit code "
_END_LINE = trainlog.lazy_pattern(
    r"(?:^|[\]>\sZ])[\w.-]{1,100}" + END_LINE_WORDS + r"(\d{1,3})(; the pod is kept until the job is stopped)?\s*$"
)
_BEGIN_LINE = re.compile(r"(?:^|[\]>\sZ])pod \S{0,253}, index \d{1,6} of \d{1,6}, recipe \S{1,100}\s*$")
_REPORTED_CODE = trainlog.lazy_pattern(r"exit code (\d{1,3})\b")
_QUIET_SECONDS = 60.0  # seconds without a line after a report of a failure: nothing starts the program again
_REPORT_LINES = 60  # lines at the end of a log in which such a report stands


class LogEnd(Struct, frozen=True):
    code: int
    time: float = 0.0  # when that was printed, by the clock of its node
    pod: int = 0  # index of the pod
    kept: bool = False  # whether the pod goes on
    stage: str = ""  # the launcher's stage that failed: "stage 9 train"
    reason: str = ""  # what the log names as the reason: "rank 8: CUDA error: …"; empty: it names none

    @property
    def words(self) -> str:
        """The failure in words; empty after a success."""
        if not self.code:
            return ""
        how = ", ".join(filter(None, (self.stage, f"exit code {self.code}")))
        return "; ".join(filter(None, (self.reason, f"pod {self.pod}: {how}" if self.pod else how)))


def read_end(texts: Sequence[str], code: int, time: float, pod: int, *, is_pod_kept: bool) -> LogEnd:
    """The end of a program with that exit code, and the reason by its last lines; `is_pod_kept`: the pod is kept."""
    if not code:
        return LogEnd(code, time, pod, is_pod_kept)
    stage, reason = trainlog.name_reason(texts)
    return LogEnd(code, time, pod, is_pod_kept, stage, reason)


def is_end_line(text: str) -> bool:
    return END_LINE_WORDS in text and _END_LINE.search(text) is not None


def is_begin_line(text: str) -> bool:
    """Whether a launcher begins with this line, so that an end before it belongs to an earlier program."""
    return ", recipe " in text and _BEGIN_LINE.search(text) is not None


def find_log_end(lines: Sequence[LogLine | PodLine], pod: int, now: float = 0.0) -> LogEnd | None:
    """The end of the program in a log; None while it runs, or if a log that is silent up to `now` shows no end."""
    texts = [line.text for line in lines]
    for at in range(len(texts) - 1, -1, -1):
        if is_begin_line(texts[at]):
            return None
        if END_LINE_WORDS in texts[at] and (found := _END_LINE.search(texts[at])):
            return read_end(texts[: at + 1], int(found[1]), lines[at].time, pod, is_pod_kept=bool(found[2]))
    last = "".join([f"{text}\n" for text in texts[-_REPORT_LINES:]])
    if not lines or now - lines[-1].time < _QUIET_SECONDS or "xit" not in last:
        return None  # every report of an exit code has that word; to look for any report takes 6 ms the first time
    if trainlog.find_failed_stage(texts) is not None:
        return None
    report = trainlog.FailureParser()
    report.feed(last.encode())
    report.close()
    code = _REPORTED_CODE.search(report.ended)
    return read_end(texts, int(code[1]), lines[-1].time, pod, is_pod_kept=True) if code else None


def combine_ends(pod_ends: Iterable[LogEnd]) -> LogEnd | None:
    """The end of a job by the ends of its pods: that of the first that failed; None if none has ended."""
    every = sorted(pod_ends, key=lambda each: (not each.code, each.time, each.pod))
    return every[0] if every else None
