"""The record of one launch and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from console.errors import NotThere
from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.meta import condition
from console.kube.snapshot import Fleet
from console.metrics.alarm import JOB_STOPPED, Alarm, AlarmKind
from console.metrics.start_phase import PULL_PHASE, pull_seconds
from console.metrics.time_spans import RecordedSpans, SpanKind, TimeSpan, decode_recorded_spans
from console.scheduling.pod_failure import rank_failures
from console.scheduling.pod_slots import pod_slots
from console.scheduling.why_job import why_job
from trainlog import RunPosition

if TYPE_CHECKING:
    from console.kube.nested_values import Value
    from console.metrics.gpu_time_ledger import Ledger
    from console.metrics.health import JobHealth


class Outcome(StrEnum):
    WAITING = "waiting"  # launched, and in its queue
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DIVERGED = "diverged"  # it ended, or was stopped, with a loss or gradients that are no numbers
    STOPPED = "stopped"  # by a person; `why` says what was wrong with it by then
    UNKNOWN = "unknown"  # the job went while nobody looked


_NO_PHASES: Mapping[str, float] = MappingProxyType({})
OPEN_OUTCOMES = frozenset({Outcome.WAITING, Outcome.RUNNING})  # what may still become something else
STALLED_STATE = "stalled"  # the state of a run that goes on, but makes no steps


class RunRecord(Struct, frozen=True):
    """The record of one launch. Times are seconds since the epoch, 0.0 if unknown."""

    recipe: str
    name: str
    namespace: str
    values: Mapping[str, Value] = field(default_factory=dict)  # differences from the defaults, without secrets
    left_out: tuple[str, ...] = ()  # paths of values that were not kept because they are secret, or look it
    number: int = 0  # its number in the memory, from 1
    context: str = ""
    server: str = ""  # address of the API server: contexts can be renamed
    chart: str = ""  # version of the chart
    launched: float = 0.0
    who: str = ""
    uid: str = ""  # of the JobSet: names are used again
    gpus: int = 0
    queue: str = ""
    outcome: Outcome = Outcome.WAITING
    why: str = ""  # why it failed, or why nothing is known: one sentence
    started: float = 0.0  # when it left its queue
    ended: float = 0.0
    peak_busbw: float | None = None  # GB/s
    average_busbw: float | None = None  # GB/s
    tflops: float | None = None  # TFLOP/s of one GPU in its last steps
    tokens_per_s: float | None = None  # in its last steps
    loss: float | None = None  # the last one that is a number
    loss_step: int | None = None  # the step that it is of; None: not known
    step: int | None = None  # the last one printed
    nan: bool = False  # whether the last step's loss or gradients are no numbers
    nan_from: int | None = None  # since which step; None: not known
    nan_by: int | None = None  # then, the first step that was read: since that one or earlier
    nan_what: str = ""  # what is no number: "loss is NaN"; empty: not known
    alarms: tuple[Alarm, ...] = ()  # all that rang while it ran, the oldest first
    seen: str = ""  # what consoles saw of its time, as `RecordedSpans.encode` writes it
    now: JobHealth | None = None  # how its job is at this moment, where a page knows it; not remembered
    looked: float = 0.0  # up to when this session knows an open run; not remembered

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def is_open(self) -> bool:
        return self.outcome in OPEN_OUTCOMES

    @property
    def end_of_kept_job(self) -> TimeSpan | None:
        """The span from the end of a program whose job kept its pods (its `last` is the exit code); None if unknown."""
        if f'"{SpanKind.ENDED}"' not in self.seen:
            return None
        ends = [span for span in decode_recorded_spans(self.seen).spans if span.kind is SpanKind.ENDED]
        return max(ends, key=lambda each: each.start, default=None)

    @property
    def state(self) -> str:
        """The run's state as for a job; a running one may also be "diverged" or "stalled", by its alarms."""
        if self.now is not None and self.is_open:
            return self.now.state
        if self.outcome is Outcome.WAITING:
            return JobState.PENDING
        if self.outcome is Outcome.RUNNING:
            kinds = {each.kind for each in self.active_alarms(0.0)}
            end = self.end_of_kept_job
            if end is not None and end.last:
                return Outcome.FAILED
            if self.nan or AlarmKind.NAN in kinds:
                return Outcome.DIVERGED
            if end is not None:
                return Outcome.SUCCEEDED
            if AlarmKind.STALL in kinds:
                return STALLED_STATE
        return self.outcome

    @property
    def had_problem(self) -> bool:
        """Whether the run ended with a problem, or has one now."""
        if self.state in {Outcome.DIVERGED, STALLED_STATE}:
            return True
        return self.outcome not in {*OPEN_OUTCOMES, Outcome.FAILED} and bool(self.active_alarms(self.ended))

    @property
    def reason(self) -> str:
        """The reason why the run failed, or the current problem of its job; empty if there is none or it is unknown."""
        now = (self.now.words, self.now.verdict) if self.now is not None and self.is_open else ()
        return "; ".join(filter(None, now)) or self.why

    @property
    def nan_words(self) -> str:
        """The NaN loss in words: "loss is NaN since step 20 (last good 10.58 at 19)"; empty without NaN."""
        return self.position.nan_words

    @property
    def position(self) -> RunPosition:
        what = self.nan_what or "NaN"
        return RunPosition(self.step, self.loss, self.loss_step, self.nan, self.nan_from, self.nan_by, what)

    @property
    def mode_words(self) -> str:
        """The state of the run, with the reason if known: "stopped by a person, stalled since step 9"."""
        why = (self.reason or self.nan_words).rstrip(".")
        if self.outcome is Outcome.STOPPED and why.startswith((Outcome.STOPPED, "deleted")):
            return why
        return f"{self.state}: {why}" if why else self.state

    @property
    def run_seconds(self) -> tuple[float, float]:
        """(seconds that the job ran without queueing, those before its last requeue), as far as consoles saw it."""
        spans = decode_recorded_spans(self.seen).spans if SpanKind.QUEUED in self.seen else ()
        waits = [span for span in spans if span.kind is SpanKind.QUEUED]
        last = max((span.start for span in waits), default=self.started)
        before = last - self.started - sum(span.end - span.start for span in waits if span.start < last)
        return self.ended - self.started - sum(span.end - span.start for span in waits), before

    def active_alarms(self, time: float) -> tuple[Alarm, ...]:
        """Alarms active at that time (0.0 is now), severest first: lasting ones, and events shortly before."""
        lasting = [
            each
            for each in self.alarms
            if each.lasted_to_job_end and (each.kind.is_lasting or (time and time - each.time < _RECENT_SECONDS))
        ]
        rank = {AlarmKind.NAN: 0, AlarmKind.STALL: 1}
        return tuple(sorted(lasting, key=lambda each: rank.get(each.kind, len(rank))))

    def ledger(self, now: float) -> Ledger:
        """The GPU-time of the run by use, up to its end, else its last observation, else `now`."""
        from console.metrics.gpu_time_ledger import RunMoments, compute_ledger

        seen = decode_recorded_spans(self.seen)
        kept = self.end_of_kept_job
        lost = {Outcome.FAILED, Outcome.STOPPED, Outcome.DIVERGED}
        wasted = self.outcome in lost if kept is None else bool(kept.last) or self.nan
        end = self.ended or ((self.looked or now) if self.is_open else 0.0)
        moments = RunMoments(self.gpus, seen.created or self.launched, self.started, end, not self.is_open, wasted)
        return compute_ledger(moments, seen, self.alarms)

    def seconds(self, now: float) -> float | None:
        """Run time in seconds without queueing and kept pods, if known; None if unknown."""
        end = kept.start if (kept := self.end_of_kept_job) is not None else self.ended or (now if self.is_open else 0.0)
        begin = self.started or (0.0 if self.outcome is Outcome.WAITING else self.launched)
        return max(0.0, end - begin) if begin and end else None


class ValueDifference(Struct, frozen=True):
    """A value that differs between two runs; None stands for the recipe's default."""

    path: str
    before: str | None
    after: str | None


def compare_values(old_run: RunRecord, new_run: RunRecord) -> tuple[ValueDifference, ...]:
    """The values that differ between two runs, by path."""
    left, right = dict(flatten_values(old_run.values)), dict(flatten_values(new_run.values))
    if old_run.recipe != new_run.recipe:
        left["recipe"], right["recipe"] = old_run.recipe, new_run.recipe
    paths = dict.fromkeys((*left, *right))
    found = (ValueDifference(path, left.get(path), right.get(path)) for path in paths)
    return tuple(each for each in sorted(found, key=lambda each: each.path) if each.before != each.after)


def flatten_values(values: Mapping[str, Value], parent_path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        path = f"{parent_path}.{name}" if parent_path else name
        if isinstance(value, Mapping) and value:
            yield from flatten_values(value, path)
        else:
            yield path, format_value(value)


def format_value(value: Value) -> str:
    """A value on one line, as a person would type it."""
    if value is None:
        return "(removed)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={format_value(each)}" for name, each in value.items()) or "(empty)"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(format_value(each) for each in value) or "(empty)"
    return str(value) or "(empty)"


def last_success(records: Iterable[RunRecord], run: RunRecord) -> RunRecord | None:
    """The latest run of the same recipe that succeeded before this one was launched; None if none did."""
    good = (each for each in records if each.recipe == run.recipe and each.outcome is Outcome.SUCCEEDED)
    earlier = (each for each in good if each.number != run.number and each.launched <= run.launched)
    return max(earlier, key=lambda each: (each.launched, each.number), default=None)


def find_run(records: Iterable[RunRecord], name: str) -> RunRecord | None:
    known = sorted(records, key=lambda each: (each.launched, each.number), reverse=True)
    numbered = next((each for each in known if name.isascii() and name.isdigit() and each.number == int(name)), None)
    return numbered or next((each for each in known if each.name == name), None)


def require_run(records: Sequence[RunRecord], name: str) -> RunRecord:
    """The run with that number, else the latest with that name. Raises NotThere, which lists known runs."""
    if (found := find_run(records, name)) is not None:
        return found
    names = ", ".join(f"{run.number} {run.name}" for run in records[:5])
    raise NotThere(f"There is no run {name} in the history.", f"The latest are: {names}." if names else "It is empty.")


# what a snapshot says of a run


def update_from_cluster(run: RunRecord, jobset: JobSet, fleet: Fleet) -> RunRecord:
    suspended = condition(jobset.conditions, "Suspended")
    resumed = suspended.since if suspended and not suspended.is_true else 0.0 if jobset.queue else jobset.created
    state = jobset.state
    known = replace(
        run,
        uid=run.uid or jobset.uid,
        gpus=jobset.gpus or run.gpus,
        queue=jobset.queue or run.queue,
        started=run.started or (0.0 if jobset.suspended else resumed),
    )
    ended = jobset.finished_at or fleet.at
    if state is JobState.SUCCEEDED:
        return replace(known, outcome=Outcome.SUCCEEDED, ended=ended)
    if state is JobState.FAILED:
        why = (why_job(jobset, fleet).sentence or jobset.failure).removeprefix("failed: ")
        return replace(known, outcome=Outcome.FAILED, why=why, ended=ended)
    if state is JobState.STOPPING:
        return known
    return replace(known, outcome=Outcome.WAITING if state is JobState.PENDING else Outcome.RUNNING)


def update_seen(
    run: RunRecord, jobset: JobSet, fleet: Fleet, spans: Iterable[TimeSpan], phases: Mapping[str, float] = _NO_PHASES
) -> RunRecord:
    """The record with the time spans that snapshot and log show; `phases`: seconds of each start phase."""
    every = pod_slots(jobset, fleet)
    placed = tuple(rank.node for rank in every if rank.node)
    started = [rank.pod.main.started for rank in every if rank.pod and rank.pod.main and not rank.restarts]
    up = jobset.restarts == 0 and len(started) == len(every) and all(started)
    suspended = condition(jobset.conditions, "Suspended")
    waits = jobset.suspended and run.started and suspended and suspended.since > run.started
    pull = {PULL_PHASE: took} if (took := pull_seconds(every)) else {}
    failures = {each.attempt: each.time for each in reversed(rank_failures(jobset, fleet))}  # the first of each
    now = RecordedSpans(
        jobset.created,
        max(started) if started and up else 0.0,
        placed if len(placed) == len(every) else (),
        jobset.restarts,
        (
            *spans,
            *(TimeSpan(at, at, SpanKind.FAILED) for at in failures.values() if at),
            *((TimeSpan(suspended.since, fleet.at, SpanKind.QUEUED),) if waits and suspended else ()),
        ),
        {**phases, **pull},
    )
    return replace(run, seen=decode_recorded_spans(run.seen).merge(now).encode())


def finish_record(run: RunRecord, *, late_message: str = "") -> RunRecord:
    """The ended run with its outcome judged by its alarms; `late_message`: delay of its next step, in words."""
    end = run.end_of_kept_job
    if run.outcome is Outcome.STOPPED and end is not None:  # it was over before its pods were taken away
        run = replace(run, outcome=Outcome.FAILED if end.last else Outcome.SUCCEEDED)
    if run.outcome is Outcome.STOPPED:
        ended = (
            each if each.over or not each.kind.is_lasting else replace(each, over=run.ended, ended=JOB_STOPPED)
            for each in run.alarms
        )
        run = replace(run, alarms=tuple(ended))
    if run.nan:
        if run.outcome is Outcome.FAILED:
            more = "" if run.nan_words in run.why else run.nan_words
            return replace(run, why="; ".join(filter(None, (run.why, more))))
        return replace(run, outcome=Outcome.DIVERGED, why=run.nan_words)
    if run.outcome is not Outcome.STOPPED:
        return run
    ringing = run.active_alarms(run.ended)
    if ringing and ringing[0].kind is AlarmKind.STALL:
        # Why a stalled run ended: who stopped it, since which step it had stalled, and other known causes
        alarm = ringing[0]
        by = run.why.rstrip(".").removeprefix("It was ") or "stopped by a person"
        since = f"stalled since step {run.step:,}" if run.step is not None else alarm.words
        return replace(run, why=f"{by}, {since}" + (f"; {alarm.more}" if alarm.more else ""))
    if ringing:
        return replace(run, why=f"stopped during an alarm: {ringing[0].text}")
    return replace(run, why=f"stopped while it was late: {late_message}") if late_message else run


def merge_alarms(old_alarms: Iterable[Alarm], new_alarms: Iterable[Alarm]) -> tuple[Alarm, ...]:
    """The alarms that two consoles recorded of a run, without duplicates, oldest first, with the later text."""
    found: list[Alarm] = []
    for alarm in (*old_alarms, *new_alarms):
        same = next(
            (at for at, each in enumerate(found) if each.kind is alarm.kind and _is_same_alarm(each, alarm)), None
        )
        if same is None:
            found.append(alarm)
        else:
            known = found[same]
            found[same] = replace(alarm.with_finding(known), time=min(alarm.time, known.time))
    return tuple(sorted(found, key=lambda each: each.time))


def _is_same_alarm(alarm: Alarm, other_alarm: Alarm) -> bool:
    """Whether two alarms of a kind have the same cause: they begin together, or one begins while the other lasts."""
    first, second = sorted((alarm, other_alarm), key=lambda each: each.time)
    within = first.kind.is_lasting and second.time <= (first.over or second.time)
    return within or second.time - first.time < _SAME_LAUNCH_SECONDS


def is_run_of_job(run: RunRecord, jobset: JobSet) -> bool:
    """Whether the JobSet belongs to this run, and not to another run of the same name."""
    if run.key != jobset.key:
        return False
    return run.uid == jobset.uid if run.uid else abs(jobset.created - run.launched) <= _CLOCK_TOLERANCE


def running_runs(
    records: Iterable[RunRecord], jobsets: Mapping[tuple[str, str], JobSet], server: str
) -> tuple[RunRecord, ...]:
    """The runs whose job is in this cluster and has not ended: their records are not final."""
    return tuple(
        run
        for run in records
        if run.server == server
        and (jobset := jobsets.get(run.key)) is not None
        and not jobset.finished
        and is_run_of_job(run, jobset)
    )


_RECENT_SECONDS = 900.0  # seconds before the end in which what had happened may be why somebody stopped it
_SAME_LAUNCH_SECONDS = 5.0  # seconds by which two consoles may hear the same thing apart
_CLOCK_TOLERANCE = 120.0  # seconds by which the clocks of this machine and of the cluster may differ
