"""Accounts for the GPU-time of a run by category in whole milliseconds: steps, checkpoints, stalls, "not seen"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from console.alarm_thresholds import Thresholds
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.step_cadence import StepCadence
from console.metrics.time_spans import EVENT_SPANS, RecordedSpans, SpanKind, TimeSpan, cut_span


class LedgerBox(StrEnum):
    QUEUED = "queued"
    PULL = "pull"  # from admission until all pods run: scheduling, image, init containers
    INIT = "init"  # until the first step begins
    COMPILE = "compile"  # what the first step takes longer than a usual one
    PRODUCTIVE = "productive"
    SLOW = "slow"  # what steps take longer because of one rank
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    HANG = "hang"
    LOST = "lost"  # steps since the last checkpoint that were done again, or were never saved
    RESTART = "restart"  # from a failure to the next step
    IDLE = "idle"  # after the end of the training
    UNSEEN = "not seen"

    @property
    def words(self) -> str:
        return _BOX_WORDS.get(self, self.value)


_BOX_WORDS = {  # each begins with the word that is the title of its column, and its key in JSON
    LedgerBox.PULL: "pull (pods and images)",
    LedgerBox.INIT: "init (until the first step)",
    LedgerBox.COMPILE: "compile (first step)",
    LedgerBox.SLOW: "slow (because of a rank)",
    LedgerBox.LOST: "lost (not saved, or done again)",
    LedgerBox.IDLE: "idle (after the end)",
}
# What a failure loses. What a slow rank took is gone in any case: that box stays as it was while the run went on.
_WORK_BOXES = frozenset({LedgerBox.COMPILE, LedgerBox.PRODUCTIVE, LedgerBox.CHECKPOINT, LedgerBox.EVALUATION})
_FIRST_LINE_SECONDS = 60.0  # seconds after the start of its pods within which the first line of a run is printed
_SLOW_RANK_SECONDS = 600.0  # for which a rank that was found to be slow explains earlier slow steps, and later ones

Part = tuple[float, float, LedgerBox]


class Ledger(Struct, frozen=True):
    """GPU-milliseconds by category (steps, checkpoints, stalls and so on)."""

    gpus: int = 0
    boxes: dict[LedgerBox, int] = {}

    @property
    def allocated(self) -> int:
        """The GPU-milliseconds during which the job held GPUs: all but the time in the queue."""
        return sum(self.boxes.values()) - self.boxes.get(LedgerBox.QUEUED, 0)

    def scale(self, amount: int, total: int) -> Ledger:
        return Ledger(amount, {box: took * amount // total for box, took in self.boxes.items()})


def sum_ledgers(ledgers: Iterable[Ledger]) -> Ledger:
    total: dict[LedgerBox, int] = {}
    gpus = 0
    for ledger in ledgers:
        gpus += ledger.gpus
        for box, took in ledger.boxes.items():
            total[box] = total.get(box, 0) + took
    return Ledger(gpus, total)


class RunMoments(Struct, frozen=True):
    """Moments of a run that its log does not show, in seconds since the epoch; 0.0 if unknown."""

    gpus: int
    created_at: float
    admitted_at: float
    end_at: float  # of the run, or now
    is_over: bool = True  # whether it has ended
    is_wasted: bool = False  # whether its end lost what was not saved


def format_gpu_time(seconds: float, digits: int = 1) -> str:
    """GPU-time in the unit that fits: "64 GPU-seconds", "12.5 GPU-minutes", "6.1 GPU-hours"; `digits`: of the hours."""
    if seconds < 60:
        return f"{seconds:.0f} GPU-seconds"
    return f"{seconds / 60:,.1f} GPU-minutes" if seconds < 3600 else f"{seconds / 3600:,.{digits}f} GPU-hours"


def compute_ledger(run: RunMoments, spans: RecordedSpans, alarms: Iterable[Alarm] = ()) -> Ledger:
    """The ledger of a run by its moments, its spans and its alarms."""
    begin = _to_milliseconds(run.created_at)
    end = max(begin, _to_milliseconds(run.end_at))
    took = dict.fromkeys(LedgerBox, 0)
    if begin:
        reckoned_to = begin  # nothing counts twice: the clocks of nodes and of the API server are not the same
        for start, stop, box in sorted(_Reckoning(run, spans, tuple(alarms)).list_parts(), key=lambda part: part[:2]):
            low, high = max(reckoned_to, _to_milliseconds(start)), min(end, _to_milliseconds(stop))
            if low < high:
                took[box] += high - low
                reckoned_to = high
        took[LedgerBox.UNSEEN] += end - begin - sum(took.values())
    return Ledger(run.gpus, {box: run.gpus * each for box, each in took.items()})


def _to_milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


class _Reckoning:
    def __init__(self, run: RunMoments, seen: RecordedSpans, alarms: Sequence[Alarm]) -> None:
        self._run, self._seen = run, seen
        spans = [span for span in seen.spans if span.kind not in EVENT_SPANS and span.start < run.end_at]
        self._spans = [cut_span(span, end=run.end_at) or span for span in spans]
        self._failures = [span.start for span in seen.spans if span.kind is SpanKind.FAILED]
        restarts = [alarm.since for alarm in alarms if alarm.kind is AlarmKind.RESTART]
        self._failures += restarts if not self._failures else []
        self._failures += [span.start for span in seen.spans if span.kind is SpanKind.QUEUED]  # preempted: its pods end
        self._stalls = [(a.since, a.over or run.end_at) for a in alarms if a.kind is AlarmKind.STALL]
        named = [span for span in seen.spans if span.kind is SpanKind.NAMED]
        self._named = [(each.start - _SLOW_RANK_SECONDS, each.start + _SLOW_RANK_SECONDS, each.share) for each in named]
        self._named += [(a.since, a.over or run.end_at, 0.0) for a in alarms if a.kind is AlarmKind.BEHIND]
        self._failed_kept = any(span.kind is SpanKind.ENDED and span.last for span in seen.spans)
        self._trains = any(map(_is_training, self._spans))
        steady = [span for span in self._spans if span.kind is SpanKind.STEPS]
        counted = sum(span.steps for span in steady)
        self._usual = sum(span.end - span.start for span in steady) / counted if counted else 0.0
        self._limit = StepCadence(self._usual).alarm_after(Thresholds())  # seconds without a step that are a hang
        # Kubernetes tells of whole seconds, and a line may be printed before: no step begins before all pods run.
        steps_from = next((span.start for span in self._spans if span.kind is not SpanKind.BEFORE), run.end_at)
        self._ready_at = min(seen.ready, max(run.admitted_at, steps_from))
        self._lost_spans = list(self._find_lost())  # from when to when work was done that a failure lost

    def list_parts(self) -> list[Part]:
        """The parts of the run's time in order; time between them was not observed."""
        run, ready = self._run, self._ready_at
        if not run.admitted_at:
            return [(run.created_at, run.end_at, LedgerBox.QUEUED)] if self._spans == [] and not ready else []
        parts: list[Part] = [(run.created_at, run.admitted_at, LedgerBox.QUEUED)]
        if ready:
            parts.append((run.admitted_at, min(ready, run.end_at), LedgerBox.PULL))
        for before, span in zip([None, *self._spans], self._spans, strict=False):
            parts += self._parts_of(span, before)
        parts = [part for part in parts if part[0] < part[1]]
        for start, end in self._lost_spans:
            parts = _change_boxes(parts, start, end, LedgerBox.LOST, only=_WORK_BOXES)
        for span in self._seen.spans:
            if span.kind is SpanKind.QUEUED:
                parts = _change_boxes(parts, span.start, span.end, LedgerBox.QUEUED)
        return parts

    def _parts_of(self, span: TimeSpan, previous_span: TimeSpan | None) -> list[Part]:
        busy = min(span.steps * self._usual, span.end - span.start)  # seconds that its steps usually take
        rest = span.end - busy
        match span.kind:
            case SpanKind.BEFORE:
                return self._start_parts(span, previous_span)
            case SpanKind.FIRST:
                return [(span.start, rest, LedgerBox.COMPILE), (rest, span.end, LedgerBox.PRODUCTIVE)]
            case SpanKind.CHECKPOINT | SpanKind.EVALUATION:
                return [(span.start, rest, LedgerBox(span.kind)), (rest, span.end, LedgerBox.PRODUCTIVE)]
            case SpanKind.STEPS | SpanKind.SLOW:
                return self._step_parts(span, 1 - busy / (span.end - span.start) if span.steps else 0.0)
            case SpanKind.ROWS:
                return [(span.start, span.end, LedgerBox.PRODUCTIVE)]
            case SpanKind.IDLE:
                return [(span.start, span.end, LedgerBox.IDLE)]
            case _:
                return self._standstill_parts(span)

    def _step_parts(self, span: TimeSpan, longer: float) -> list[Part]:
        """The time of steps, split by the loss to slow ranks; `longer`: the share by which slow steps are longer."""
        named = [each for each in self._named if each[0] < span.end and span.start < each[1]]
        least = longer if named and span.kind is SpanKind.SLOW else 0.0
        cuts = [*((low, high) for low, high, _ in named), *self._lost_spans]
        edges = {min(max(edge, span.start), span.end) for cut in cuts for edge in cut}
        parts: list[Part] = []
        for start, end in pairwise(sorted({span.start, span.end, *edges})):
            slow = max(least, *(share for low, high, share in named if low < end and start < high), 0.0)
            until = end - slow * (end - start)
            parts += [(start, until, LedgerBox.PRODUCTIVE), (until, end, LedgerBox.SLOW)]
        return parts

    def _start_parts(self, span: TimeSpan, previous_span: TimeSpan | None) -> list[Part]:
        if previous_span is not None:  # a console that came later, or the first line of another attempt
            restarted = any(previous_span.end <= failed <= span.end for failed in self._failures)
            return [(span.start, span.end, LedgerBox.RESTART)] if restarted else []
        ready = self._ready_at
        if span.last < 1 or (ready and span.start <= ready + _FIRST_LINE_SECONDS):
            return [(ready or span.start, span.end, LedgerBox.INIT)]
        return []

    def _standstill_parts(self, span: TimeSpan) -> list[Part]:
        """The parts of a span without steps: a pause, a return to a checkpoint, or the time after the last step."""
        late = span.kind is SpanKind.LATE
        after = late or span.kind is SpanKind.AFTER
        steps = 0 if after else {SpanKind.BACK: 1, SpanKind.NEXT: 0}.get(span.kind, span.steps)
        begins = max(span.start, span.end - steps * self._usual)  # when the next step began
        failed = next((each for each in sorted(self._failures) if span.start <= each <= span.end), None)
        stall = next(((low, high) for low, high in self._stalls if low < begins and span.start < high), None)
        if span.kind is SpanKind.NEXT and failed is None:
            return [(span.start, begins, LedgerBox.INIT), (begins, span.end, LedgerBox.PRODUCTIVE)]
        if span.kind is SpanKind.BACK and failed is None:
            failed = min(begins, stall[1]) if stall is not None else span.start
        until = failed if failed is not None else begins
        limit = max(self._limit, 3 * span.steps * self._usual) if after else self._limit
        if late and failed is not None:  # it was late when that was noted, which was after the failure
            limit = StepCadence(self._usual).late_after(Thresholds())
        elif late:
            limit = 0.0
        hangs = until - span.start > limit and (late or not after or self._trains)
        began = span.start  # of the part that ends at `until`
        if stall is not None or hangs:
            still = LedgerBox.HANG
            began = min(until, span.start + span.steps * self._usual) if after else began
        elif failed is not None or (after and self._run.is_wasted):
            still = LedgerBox.LOST
        else:
            still = LedgerBox.IDLE if after and self._run.is_over else LedgerBox.PRODUCTIVE
        down = LedgerBox.IDLE if after and self._run.is_over else LedgerBox.RESTART
        step = (span.start, began, LedgerBox.PRODUCTIVE)
        return [step, (began, until, still), (until, begins, down), (begins, span.end, LedgerBox.PRODUCTIVE)]

    def _find_lost(self) -> Iterable[tuple[float, float]]:
        done = 0  # the last step before each span
        for at, span in enumerate(self._spans):
            failed = any(span.start <= each <= span.end for each in self._failures)
            back = span.kind is SpanKind.BACK or (span.kind is SpanKind.NEXT and failed)
            again = span.first if back else span.last + 1
            if (back or span.kind is SpanKind.BEFORE) and at and done and again <= done:
                yield self._saved_at(again - 1, self._spans[:at], self._spans[0].start), span.start
            done = again if back else max(done, span.last)
        saves = [span for span in self._seen.spans if span.kind is SpanKind.SAVED and span.start <= self._run.end_at]
        if self._run.is_wasted and saves:
            yield self._saved_at(saves[-1].last, self._spans, saves[-1].start), self._run.end_at
        elif (
            self._run.is_wasted
            and self._trains
            and (self._failed_kept or all(span.kind is not SpanKind.IDLE for span in self._spans))
        ):
            yield next(span.start for span in self._spans if _is_training(span)), self._run.end_at  # nothing was kept

    def _saved_at(self, step: int, spans: Sequence[TimeSpan], default: float) -> float:
        """Time (epoch seconds) at which the checkpoint of a step was complete, by the saving spans, else `default`."""
        for at in range(len(spans) - 1, -1, -1):
            span = spans[at]
            if span.steps and span.first < step <= span.last and span.kind is not SpanKind.AFTER:
                after = spans[at + 1] if at + 1 < len(spans) and step == span.last else span
                if after.kind is SpanKind.CHECKPOINT and after is not span:
                    return after.end - min(self._usual * after.steps, after.end - after.start)
                return span.start + (span.end - span.start) * (step - span.first) / span.steps
        return default


def _is_training(span: TimeSpan) -> bool:
    return span.kind is SpanKind.FIRST or span.steps > 0


def _change_boxes(
    parts: Sequence[Part], low: float, high: float, box: LedgerBox, only: frozenset[LedgerBox] = frozenset(LedgerBox)
) -> list[Part]:
    found: list[Part] = []
    for start, end, was in parts:
        if was not in only or high <= start or end <= low:
            found.append((start, end, was))
            continue
        cut = max(start, low), min(end, high)
        found += [(start, cut[0], was), (*cut, box), (cut[1], end, was)]
    return [part for part in found if part[0] < part[1]]
