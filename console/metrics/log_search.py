"""Finds positions in the logs of a job: the pod that prints its progress, and the lines of a problem (pure)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.logs.log_segment import LogSegment
from console.logs.log_text import find_matching_lines
from console.metrics.alarm import Alarm, AlarmKind
from console.settings_file import own_log_formats
from trainlog import NOT_A_NUMBER, XID_WORD, TrainingParser

PATTERN_OF_ALARM = {AlarmKind.NAN: NOT_A_NUMBER, AlarmKind.GPU: XID_WORD}  # of the line that the alarm came from
SEARCHED_TAIL_LINES = 300  # last lines of a pod in which it is looked for steps
MAX_SEARCHED_PODS = 32  # pods that are all looked at; of more, the first and the last
SAME_TIME_SECONDS = 1e-6  # seconds by which two readings of one time may differ
SEARCH_BLOCK_LINES = 20_000  # lines that are looked through together
_POD_NUMBER = re.compile(r"\bpod (\d+)\b")
_STEP_NUMBER = re.compile(r"\b(iteration|step)\W{1,12}(\d{1,12})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundLine:
    pod: int
    time: float
    text: str

    @property
    def named_position(self) -> str:
        """The position that the line names, such as "iteration 20"; empty if it names none."""
        match = _STEP_NUMBER.search(self.text)
        return f"{match[1].lower()} {int(match[2]):,}" if match else ""


@dataclass(frozen=True, slots=True)
class LogLocation:
    pod: int
    pattern: str = ""  # what stands in the line; empty: the end of the log


def locate_alarm(segments: Sequence[LogSegment], alarm: Alarm | None) -> LogLocation | None:
    """The pod and the line that an alarm is about, else the pod that prints the steps; None if no pod does."""
    if alarm is not None:
        pattern, named = PATTERN_OF_ALARM.get(alarm.kind, ""), _POD_NUMBER.search(alarm.words)
        pods = {int(named[1])} if named else None
        if found := find_first_matches(segments, pattern, pods) if pattern else {}:
            return LogLocation(min(found.values(), key=lambda each: each.time).pod, pattern)
        if named and any(part.rank == int(named[1]) for part in segments):
            return LogLocation(int(named[1]))
    pod = find_progress_pod(segments)
    return LogLocation(pod) if pod is not None else None


def has_step(text: str) -> bool:
    parser = TrainingParser(own_log_formats())
    return parser.may_be_relevant(text) and parser.read_line(text, 1) and any(run.steps for run in parser.runs)


def contains_number(text: str, number: float) -> bool:
    return re.search(rf"(?<![\d.]){number:.0f}(?!\d)", text.replace(",", "")) is not None


def pods_printing_at(segments: Iterable[LogSegment], time: float) -> set[int]:
    places = [(part, bisect_left(part.times, time - SAME_TIME_SECONDS)) for part in segments]
    return {part.rank for part, at in places if at < len(part) and part.times[at] <= time + SAME_TIME_SECONDS}


def find_progress_pod(segments: Iterable[LogSegment]) -> int | None:
    """The pod that printed the latest training step; None if the last lines of none contain a step."""
    newest = {part.rank: part for part in sorted(segments, key=lambda each: each.attempt) if len(part)}
    pods = sorted(newest)
    chosen = pods if len(pods) <= MAX_SEARCHED_PODS else [pods[0], pods[-1]]
    last_steps = {pod: moment for pod in chosen if (moment := _last_step_time(newest[pod]))}
    return max(last_steps, key=lambda pod: (last_steps[pod], -pod), default=None)


def _last_step_time(segment: LogSegment) -> float:
    """The print time (epoch seconds) of the last step; 0.0 if the last TAIL lines contain none."""
    parser, last = TrainingParser(own_log_formats()), 0.0
    start = max(0, len(segment) - SEARCHED_TAIL_LINES)
    for number, text in enumerate(segment.read_texts(start, len(segment))):
        if parser.may_be_relevant(text.decode("utf-8", "replace")) and parser.feed(text + b"\n", number + 1):
            last = segment.times[start + number]
    return last if any(run.steps for run in parser.runs) else 0.0


def find_first_matches(parts: Iterable[LogSegment], pattern: str, pods: set[int] | None = None) -> dict[int, FoundLine]:
    """The first matching line of each of these pods (all unless given) in its latest attempt."""
    wanted = re.compile(pattern.encode())
    latest: dict[int, int] = {}
    parts = [part for part in parts if pods is None or part.rank in pods]
    for part in parts:
        latest[part.rank] = max(latest.get(part.rank, 0), part.attempt)
    lines: dict[int, FoundLine] = {}
    for part in parts:
        if part.attempt == latest[part.rank] and (line := _find_first(part, wanted)):
            known = lines.get(part.rank)
            lines[part.rank] = line if known is None or line.time < known.time else known
    return lines


def _find_first(segment: LogSegment, pattern: re.Pattern[bytes]) -> FoundLine | None:
    for start in range(0, len(segment), SEARCH_BLOCK_LINES):
        stop = min(len(segment), start + SEARCH_BLOCK_LINES)
        texts = segment.read_texts(start, stop)
        block = b"".join([text + b"\n" for text in texts])
        begin = next(iter(find_matching_lines(block, pattern)), None)
        if begin is not None:
            number = block.count(b"\n", 0, begin)
            return FoundLine(segment.rank, segment.times[start + number], texts[number].decode("utf-8", "replace"))
    return None
