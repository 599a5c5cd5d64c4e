"""A job's time as spans by its log: steps, pauses, repeated steps, and the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, json
from msgspec.structs import replace

from console.median import median
from console.metrics.start_phase import longest_phases
from trainlog import lazy_pattern


class SpanKind(StrEnum):
    BEFORE = "before"  # from the first line that was read to the first step
    FIRST = "first"  # the first step, where its time is printed
    STEPS = "steps"
    SLOW = "slow"  # steps that take longer than those before
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    PAUSE = "pause"  # between two steps, of which the log does not say what for
    BACK = "back"  # until the first step that was done again
    NEXT = "next"  # from the last step of one training to the first one of the next, whose steps are counted anew
    AFTER = "after"  # from the last step on, as far as the log was read
    LATE = "late"  # the same, where the next step is late by the rule of the alarms
    ROWS = "rows"  # of an NCCL test, from its first line to its last row
    IDLE = "idle"  # from when the program printed that training is over
    SAVED = "saved"  # a moment: a checkpoint of step `last` was complete
    FAILED = "failed"  # a moment: a pod failed
    NAMED = "named"  # a moment: rank `last` was found to be the one that the others wait for, see `Span.share`
    QUEUED = "queued"  # suspended again after it had run
    ENDED = "ended"  # a moment: its program ended with exit code `last`, and its pods are kept


EVENT_SPANS = frozenset(
    {SpanKind.SAVED, SpanKind.FAILED, SpanKind.NAMED, SpanKind.QUEUED, SpanKind.ENDED}
)  # beside what the log tells
_CHECKPOINT_LINE = lazy_pattern(
    r"(?i)\b(?:(?:sav(?:e|ing)|load(?:ing|ed)?)\b.{0,60}check|check-?point\w*\b.{0,60}(?:sav|load|writ))"
)
_EVALUATION_LINE = lazy_pattern(r"(?i)\b(?:evaluat\w*|validat\w*|eval (?:step|loop|iter)\w*)")
_PHASE_WORDS = ("val", "VAL", "heck", "HECK")
MIN_TIMED_STEPS, TIMED_STEPS, STEPS_PER_RENEWAL = 5, 50, 8  # by which the usual time of a step is known, and renewed
SLOW_STEP_FACTOR, SLOW_STEPS_OF_LAST = 1.1, (3, 5)  # times the usual time, in so many of the last so many steps
PAUSE_FACTOR, MIN_PAUSE_SECONDS = 2.0, 2.0  # times the usual time beyond it, and seconds
NAMED_PAUSE_FACTOR = 0.5  # the same where a line says what the pause is for
INFINITE_SECONDS = 1 << 62
PARTS_OF_STEP = 1000  # in so many parts of a step `first` tells the share of a rank that was named


class TimeSpan(Struct, frozen=True, array_like=True):
    """A job's activity from `start` to `end` (epoch seconds): step `first` was done at the start, `last` at the end."""

    start: float
    end: float
    kind: SpanKind
    first: int = 0
    last: int = 0

    @property
    def steps(self) -> int:
        without = {SpanKind.BACK, SpanKind.NEXT, SpanKind.NAMED, SpanKind.ROWS}
        return 0 if self.kind in without else max(0, self.last - self.first)

    @property
    def share(self) -> float:
        """The part (0 to 1) of each step that others wait for the named rank; 0.0 for spans of another kind."""
        return min(self.first / PARTS_OF_STEP, 1.0) if self.kind is SpanKind.NAMED else 0.0


def find_phase(text: str) -> SpanKind | None:
    """The phase that a line announces (saving or loading a checkpoint, an evaluation); None for other lines."""
    if not any(word in text for word in _PHASE_WORDS):
        return None
    if _CHECKPOINT_LINE.search(text):
        return SpanKind.CHECKPOINT
    return SpanKind.EVALUATION if _EVALUATION_LINE.search(text) else None


class TimeRecorder:
    """Makes spans of the lines and steps of one run, in the order in which they are read."""

    def __init__(self, since: float = 0.0) -> None:
        """`since`: print time of the first line that was read."""
        self._since = since
        self._spans: list[TimeSpan] = []
        self._last: tuple[int, float] | None = None
        self._usual_seconds: float | None = None  # seconds of a step
        self._step_seconds: deque[float] = deque(maxlen=TIMED_STEPS)
        self._slow: deque[bool] = deque(maxlen=SLOW_STEPS_OF_LAST[1])
        self._count = 0
        self._step_stride = 1  # steps from one line to the next
        self._phases: list[tuple[float, SpanKind]] = []  # what was printed since the last step
        self._finished_at = 0.0
        self._saved_step: int | None = None

    def feed_line(self, text: str, time: float) -> None:
        kind = find_phase(text)
        if kind is not None and (not self._phases or self._phases[-1][1] is not kind):
            self._phases.append((time, kind))
        if kind is not None and self._finished_at:  # the last checkpoint, which comes after the last step
            self._finished_at = max(self._finished_at, time)

    def add_saved(self, step: int, time: float) -> None:
        if step != self._saved_step:  # several ranks tell of the same one
            self._spans.append(TimeSpan(time, time, SpanKind.SAVED, step, step))
            self._finished_at = max(self._finished_at, time) if self._finished_at else 0.0
        self._saved_step = step

    def finish(self, time: float) -> None:
        self._finished_at = self._finished_at or time

    def feed_step(self, number: int, time: float, took_seconds: float | None) -> None:
        """Add a step printed at `time`; `took_seconds`: its printed duration in seconds, if there is one."""
        if self._last is None:
            begin = max(self._since, time - (took_seconds or 0.0))
            self._spans.append(TimeSpan(self._since or begin, begin, SpanKind.BEFORE, number - 1, number - 1))
            self._spans.append(TimeSpan(begin, time, SpanKind.FIRST, number - 1, number))
            self._last, self._phases = (number, time), []
            return
        (before, at), steps = self._last, number - self._last[0]
        seconds = time - at
        if seconds <= 0:  # one of which only more figures came, or lines that came in one burst
            return
        self._finished_at = 0.0
        beyond = seconds - steps * self._usual_seconds if self._usual_seconds is not None else 0.0
        paused = self._usual_seconds is not None and beyond > max(
            MIN_PAUSE_SECONDS, (NAMED_PAUSE_FACTOR if self._phases else PAUSE_FACTOR) * steps * self._usual_seconds
        )
        if steps <= 0:
            self._spans.append(TimeSpan(at, time, SpanKind.BACK, number, before))
            self._slow.clear()
            self._saved_step = None
        elif self._phases and (paused or self._usual_seconds is None):
            starts = [at, *(start for start, _ in self._phases[1:]), time]
            for (_, kind), start, end in zip(self._phases, starts, starts[1:], strict=False):
                self._spans.append(TimeSpan(start, end, kind, before, number if end == time else before))
        elif paused:
            self._spans.append(TimeSpan(at, time, SpanKind.PAUSE, before, number))
        else:
            self._extend_or_add_span(before, number, at, time)
        self._last, self._phases = (number, time), []

    def _extend_or_add_span(self, before: int, number: int, at: float, time: float) -> None:
        each, self._step_stride = (time - at) / (number - before), number - before
        slower = self._usual_seconds is not None and each > SLOW_STEP_FACTOR * self._usual_seconds
        self._slow.append(slower)
        if not slower:
            self._step_seconds.append(each)
            self._count += 1
            if self._count == MIN_TIMED_STEPS or self._count % STEPS_PER_RENEWAL == 0:
                self._usual_seconds = median(self._step_seconds)
        slow = sum(self._slow) >= SLOW_STEPS_OF_LAST[0]
        kind = SpanKind.SLOW if slow else SpanKind.STEPS
        place = next(-back for back, span in enumerate(reversed(self._spans), start=1) if span.kind not in EVENT_SPANS)
        last = self._spans[place]
        if last.kind is kind and last.end == at and last.last == before:
            self._spans[place] = replace(last, end=time, last=number)
        else:
            self._spans.append(TimeSpan(at, time, kind, before, number))

    @property
    def is_pausing(self) -> bool:
        """Whether the log names a checkpoint or an evaluation since the last step."""
        return bool(self._phases)

    def list_spans(self, until: float = 0.0, late_after: float = INFINITE_SECONDS) -> list[TimeSpan]:
        """All spans up to `until`; a step is late `late_after` seconds after the last one."""
        if self._last is None:
            return []
        number, at = self._last
        found, end = list(self._spans), self._finished_at or until
        if end > at:
            kind = self._phases[0][1] if self._phases else SpanKind.AFTER
            if not self._finished_at and end - at > late_after:
                kind = SpanKind.LATE
            awaited = self._step_stride if kind in {SpanKind.AFTER, SpanKind.LATE} else 0
            found.append(TimeSpan(at, end, kind, number, number + awaited))
        if self._finished_at and until > self._finished_at:
            found.append(TimeSpan(max(at, self._finished_at), until, SpanKind.IDLE, number, number))
        return found


class _TableProgress(Struct, frozen=True):
    began_at: float  # when its first line was printed
    last_row_at: float  # its last row
    ended_at: float = 0.0  # 0.0: it goes on
    rows: int = 0


class TableRecorder:
    """Makes spans of the tables of NCCL tests in one log, in the order in which they are read."""

    def __init__(self, since: float = 0.0) -> None:
        """`since`: print time of the first line that was read."""
        self._since = since
        self._tables: dict[int, _TableProgress] = {}  # by their place in the log

    def feed_table(self, index: int, rows: int, began_at: float, time: float, *, has_ended: bool) -> None:
        """Record the state of table number `index`; `began_at`, `time`: print times of its first and last line."""
        known = self._tables.get(index)
        if known is None:
            if has_ended and not rows:  # a failure, and no table
                return
            known = _TableProgress(began_at, began_at)
        last = time if rows > known.rows else known.last_row_at
        self._tables[index] = _TableProgress(known.began_at, last, known.ended_at or (time if has_ended else 0.0), rows)

    def list_spans(self, until: float = 0.0, late_after: float = INFINITE_SECONDS) -> list[TimeSpan]:
        """All spans of an NCCL test up to `until`, judged by its table rows."""
        found: list[TimeSpan] = []
        at = self._since
        ended = 0.0
        for table in self._tables.values():
            for kind, end in (
                (SpanKind.NEXT if found else SpanKind.BEFORE, table.began_at),
                (SpanKind.ROWS, table.last_row_at),
                (SpanKind.PAUSE, table.ended_at),
            ):
                found.append(TimeSpan(at, max(at, end), kind))
                at = max(at, end)
            ended = table.ended_at
        if found:
            late = until - at > late_after
            found.append(TimeSpan(at, until, SpanKind.IDLE if ended else SpanKind.LATE if late else SpanKind.AFTER))
        return [span for span in found if span.start < span.end]


def list_seen(
    recorders: Sequence[TimeRecorder | TableRecorder], until: float = 0.0, late_after: float = INFINITE_SECONDS
) -> list[TimeSpan]:
    """The time spans of all tests and trainings of one job in order; `late_after`: seconds until a step is late."""
    found: list[TimeSpan] = []
    with_steps = [each for each in recorders if each.list_spans()]
    with_steps.sort(key=lambda each: each.list_spans()[-1].end)
    for recorder in with_steps:
        spans = recorder.list_spans(until, late_after) if recorder is with_steps[-1] else recorder.list_spans()
        if found:
            before = max((span for span in found if span.kind not in EVENT_SPANS), key=lambda span: span.end)
            spans[0] = TimeSpan(
                before.end, max(before.end, spans[0].end), SpanKind.NEXT, spans[0].last + 1, before.last
            )
        found += spans
    return found


def end_spans(spans: Iterable[TimeSpan], end: float, until: float, code: int) -> list[TimeSpan]:
    """The spans of a kept job: up to its program's end (with that exit code), then an idle span up to `until`."""
    before = [span for span in spans if span.kind is not SpanKind.IDLE]
    idle = [TimeSpan(end, until, SpanKind.IDLE)] if until > end else []
    return [*before, *idle, TimeSpan(end, end, SpanKind.ENDED, last=code)]


class RecordedSpans(Struct, frozen=True, omit_defaults=True):
    """The time spans of one run that consoles observed, as stored in its record."""

    created: float = 0.0  # seconds since the epoch; 0.0: not known
    ready: float = 0.0  # when all pods of the first attempt ran
    nodes: tuple[str, ...] = ()  # of each pod of the last attempt
    restarts: int = 0
    spans: tuple[TimeSpan, ...] = ()
    phases: dict[str, float] = {}  # how long each took before the first step, see `StartRecorder.took`

    def merge(self, later_spans: RecordedSpans) -> RecordedSpans:
        """These spans with later observed ones, which replace overlapping parts."""
        return RecordedSpans(
            self.created or later_spans.created,
            self.ready or later_spans.ready,
            later_spans.nodes or self.nodes,
            max(self.restarts, later_spans.restarts),
            tuple(merge_spans(self.spans, later_spans.spans)),
            longest_phases((self.phases, later_spans.phases)),
        )

    def encode(self) -> str:
        return json.encode(self).decode()


def decode_recorded_spans(text: str) -> RecordedSpans:
    """The spans in the JSON of `RecordedSpans.encode`; empty for an unknown format, such as that of a newer console."""
    try:
        return json.decode(text, type=RecordedSpans) if text else RecordedSpans()
    except ValueError:
        return RecordedSpans()


def merge_spans(before: Iterable[TimeSpan], later_spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    """The spans of two readings of one log; the later reading counts from its first span to its last."""
    events: dict[tuple[SpanKind, float, int], TimeSpan] = {}
    for span in sorted((*before, *later_spans), key=lambda each: each.end):
        if span.kind in EVENT_SPANS:
            events[span.kind, span.start, span.last] = span
    fresh = [span for span in later_spans if span.kind not in EVENT_SPANS]
    low = min((span.start for span in fresh if span.kind is not SpanKind.BEFORE), default=INFINITE_SECONDS)
    high = max((span.end for span in fresh), default=-INFINITE_SECONDS)
    kept = [
        part
        for span in before
        if span.kind not in EVENT_SPANS
        for part in (cut_span(span, end=low), cut_span(span, start=max(low, high)))
        if part is not None
    ]
    # A first step that was under way at the first line: nothing was printed before it, but its pods were starting.
    kept += [span for span in before if span.kind is SpanKind.BEFORE and span.start == span.end <= low]
    covered = max((span.end for span in kept if span.end <= low), default=-INFINITE_SECONDS)
    for span in fresh:  # what came before the first step of the later reading is known where the earlier one saw it
        start = min(max(span.start, covered), span.end) if span.kind is SpanKind.BEFORE else span.start
        if start < span.end or span.kind is not SpanKind.BEFORE or not kept:
            kept.append(replace(span, start=start))
    return sorted((*kept, *events.values()), key=lambda span: (span.start, span.end))


def cut_span(span: TimeSpan, *, start: float = -INFINITE_SECONDS, end: float = INFINITE_SECONDS) -> TimeSpan | None:
    """The part of a span between two times, with the steps that fall into it; None if it has none."""
    low, high = max(start, span.start), min(end, span.end)
    if low >= high:
        return None
    rate = span.steps / (span.end - span.start)
    first = span.first + round(rate * (low - span.start))
    return replace(
        span, start=low, end=high, first=first, last=first + round(rate * (high - low)) if rate else span.last
    )
