"""Evaluates one job's alarm rules by this machine's clock, since the clocks of nodes may be minutes apart."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from console.alarm_thresholds import Thresholds
from console.durations import format_duration
from console.kube.stream_completeness import SERVER_QUIET_SECONDS
from console.metrics.alarm import INSPECTED_PREFIX, JOB_STOPPED, Alarm, AlarmKind
from console.metrics.step_cadence import MIN_STEPS_FOR_PACE, StepCadence, format_late_row, format_late_step
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.metrics.start_phase import StartPhase

OLD_LINES_AT_FIRST_SECONDS = 10.0  # seconds at first in which lines come that were printed before anybody listened
OLD_LINE_SECONDS = 1.0  # seconds after an old line in which the next one may come
MAX_CATCH_UP_SECONDS = 60.0  # that reading a log again may take; a restarted run never comes to where it was
MAX_ALARMS = 200  # alarms that are kept
_PAUSE_LINE = lazy_pattern(
    r"(?i)\b(?:evaluat\w*|validat\w*|sav(?:e|ing)\b.{0,60}check\w*|check-?point\w*\b.{0,60}(?:sav|load|writ)\w*"
    r"|load(?:ing|ed)?\b.{0,60}check\w*|eval(?:uation)? (?:step|loop|iter)\w*)"
)
_XID_LINE = lazy_pattern(r"NVRM: Xid\b[^:]*(?:\([^)]*\))?[^:]*: *\d+")  # of the driver; people write the word too
_STOPPING_ALARMS = {AlarmKind.STALL, AlarmKind.NAN, AlarmKind.KEPT}  # alarms for which a job is stopped
_PAUSE_WORDS = ("val", "VAL", "heck", "HECK")


class JobSample(Struct, frozen=True):
    """The state of a job at one moment, by which its alarms are evaluated."""

    running: bool  # it runs, its pods too; what does not run is silent for a good reason
    finished: bool = False
    restarts: int = 0
    restart_words: str = ""
    step: int | None = None  # latest iteration; None: none yet
    step_at: float = 0.0  # epoch seconds of its line, by its node; used for lines of before the monitor began
    steps: int = 0  # how many there have been
    rhythm: StepCadence | None = None  # how regularly they come; None while there are too few
    start: StartPhase | None = None  # what it does before its first step; None: that is made, or it is not known
    pace: float | None = None  # seconds that one usually takes
    all_steps: bool = False  # its last step is made: it saves, or ends
    row_bytes: int | None = None  # bytes, of the last row of an NCCL test, whose rows are its steps
    blamed: str = ""  # the rank that the others wait for, in words, if somebody looked
    blamed_at: float = 0.0  # when that was
    trained: bool = False  # the program printed that training is over, or has ended
    ended_at: float = 0.0  # when its program ended, of a job whose pods are kept; 0.0: it goes on
    kept: str = ""  # how that ended and what its pods hold, in words; empty: they are used
    nan: str = ""  # what is no number now; empty: all is
    saved_words: str = ""  # the last checkpoint, in words, if its log tells of one
    held: int = 0  # GPUs that a stop of the job frees
    nan_at: float = 0.0  # when the first of them was printed; 0.0: not known
    failed_at: float = 0.0  # when the job failed
    spikes: tuple[tuple[float, float, str], ...] = ()  # of the loss: step, time, and words
    failed_tests: tuple[tuple[str, str], ...] = ()  # tests that failed: what tells them apart, and why
    behind: tuple[tuple[int, int], ...] = ()  # ranks and by how many steps they are behind
    gpu_faults: tuple[str, ...] = ()  # faults of GPUs
    failure: str = ""  # why the job is over; empty: it is not, or it ended well
    missing_seconds: float = 0.0  # seconds up to now of which lines of its log may not have come
    behind_log: bool = False  # its log comes faster than it is read: later steps may wait in it
    pod_nodes: tuple[str, ...] = ()  # the node of each pod, by its number; empty: not known
    blamed_nodes: tuple[str, ...] = ()  # of the ranks that others wait for, unless the program is at fault
    faulty_nodes: tuple[str, ...] = ()  # nodes with faults of GPUs
    failed_node: str = ""  # where the first pod failed
    stopped: bool = False  # somebody stops it: what was wrong with it by then stays until it is gone


class AlarmWatch:
    def __init__(
        self, key: tuple[str, str], thresholds: Thresholds, now: float, settles: float = OLD_LINES_AT_FIRST_SECONDS
    ) -> None:
        self.alarms: list[Alarm] = []  # in the order in which they began
        self.silence_subject = "no pod has"  # subject of "… printed a line for": the pods whose logs are followed
        self.line_at = self.step_at = now  # when something was printed last, and when there was a new iteration
        self.has_lines = False
        self.late_text = ""  # that the next step is late, in words; empty: it is not
        self.why_unknown = ""  # that nobody can say whether the next step is late, in words
        self.verdict = ""  # the rank that the others wait for, by an inspection since the last step; empty: none
        self.is_unproved = False  # whether by the log the next step is late, and no line has had time to come yet
        self._begun = self._reading_since = now
        self._old_line_at = 0.0  # when a line was read last that had been printed long before
        self._settles = settles
        self._awaited_step: int | None = None  # the iteration that an earlier reader had seen, until this one has
        self._last_read_step: tuple[int | None, float] = (None, now)  # how far that one is, and since when
        self._key, self._thresholds = key, thresholds
        self._last: JobSample | None = None
        self._is_pausing = False
        self._xids: list[tuple[str, float]] = []
        self._open_alarms: dict[AlarmKind, Alarm] = {}  # alarms that last
        self._raised_events: set[tuple[AlarmKind, object]] = set()

    @property
    def active(self) -> tuple[Alarm, ...]:
        """Alarms whose cause persists, and single events."""
        return tuple(each for each in self.alarms if each.is_active)

    @property
    def has_step_cadence(self) -> bool:
        """Whether enough steps have been read to tell when the next one is late."""
        return self._last is not None and self._last.step is not None and not self.is_unproved

    def is_reading_old_lines(self, now: float) -> bool:
        """Whether the lines read just now are old, so that more lines may still be unread."""
        return now - self._old_line_at < OLD_LINE_SECONDS

    def feed_line(self, now: float, text: str, printed_at: float = 0.0) -> None:
        """Use a line of any rank; `printed_at` is its node's timestamp, used only for lines printed earlier."""
        early = now - self._reading_since < self._settles and printed_at
        if printed_at and now - printed_at > self._thresholds.late:
            self._old_line_at = now
        self.line_at, self.has_lines = min(now, printed_at) if early else now, True
        if "Xid" in text and _XID_LINE.search(text):
            self._xids.append((text.strip()[:200], self.line_at))
        elif any(word in text for word in _PAUSE_WORDS) and _PAUSE_LINE.search(text):
            self._is_pausing = True

    def on_reader_changed(self, now: float) -> None:
        """Note that another reader of the log takes over and reads earlier lines again."""
        self.silence_subject, self._reading_since = "no pod has", now
        if self._last is not None:
            self._awaited_step, self._last_read_step = self._last.step, (None, now)
            self._last = structs.replace(self._last, step=None, steps=0)

    def evaluate(self, now: float, sample: JobSample) -> list[Alarm]:
        """Evaluate the rules for the job's current sample; returns the new alarms."""
        if sample.stopped:
            if sample.finished:  # nobody can look whether the causes of its alarms are gone
                ended = "the job failed" if sample.failure else JOB_STOPPED
                for alarm in self._open_alarms.values():
                    self._replace_alarm(alarm, structs.replace(alarm, over=now, ended=ended))
                self._open_alarms, self.late_text, self.verdict = {}, "", ""
            return []
        if self._is_catching_up(now, sample):
            return []
        known = len(self.alarms)
        before = self._last
        if before is None or sample.step != before.step or sample.steps != before.steps or not sample.running:
            first = before is None or before.step is None or now - self._reading_since < self._settles
            is_old = first or sample.behind_log
            self.step_at = min(now, sample.step_at) if is_old and sample.step_at else now
            self._is_pausing = self._is_pausing and before is not None and sample.step == before.step
        if not sample.running or (before and before.restarts != sample.restarts):
            self.line_at = now
        self._raise_event_alarms(now, sample, before)
        self._update_lasting_alarms(now, sample)
        self._last = sample
        del self.alarms[: max(0, len(self.alarms) - MAX_ALARMS)]
        return self.alarms[min(known, len(self.alarms)) :]

    def _is_catching_up(self, now: float, sample: JobSample) -> bool:
        """Whether a new reader (see `on_reader_changed`) still reads steps that were read before."""
        if self._awaited_step is None:
            return False
        if sample.step != self._last_read_step[0]:
            self._last_read_step = sample.step, now
        there = sample.step is not None and sample.step >= self._awaited_step
        if (
            there
            or sample.finished
            or now - self._last_read_step[1] >= OLD_LINES_AT_FIRST_SECONDS
            or now - self._reading_since >= MAX_CATCH_UP_SECONDS
        ):
            self._awaited_step = None
        return self._awaited_step is not None

    def _raise_event_alarms(self, now: float, sample: JobSample, previous_sample: JobSample | None) -> None:
        """Raise the alarms of single events, once for each; restarts before the first sample raise none."""
        events: list[tuple[AlarmKind, object, str, float]] = [
            (AlarmKind.SPIKE, step, words, at) for step, at, words in sample.spikes if at > self._begun - self._settles
        ]
        events += [(AlarmKind.BUSBW, name, why, 0.0) for name, why in sample.failed_tests]
        if previous_sample is None:
            self._raised_events |= {(AlarmKind.RESTART, sample.restarts), (AlarmKind.FAILED, bool(sample.failure))}
        if sample.failure and not 0 < sample.ended_at < self._begun - self._settles:
            events.append((AlarmKind.FAILED, True, f"the job failed: {sample.failure}", sample.failed_at))
        if sample.restarts:
            why = f": {sample.restart_words}" if sample.restart_words else ""
            words = f"restarted, attempt {sample.restarts + 1}{why}"
            events.append((AlarmKind.RESTART, sample.restarts, words, 0.0))
        events += [(AlarmKind.GPU, text, text, at) for text, at in self._xids]
        self._xids = []
        for kind, name, words, at in events:
            if (kind, name) not in self._raised_events:
                self._raised_events.add((kind, name))
                ended = kind in {AlarmKind.FAILED, AlarmKind.RESTART} and sample.failed_node
                nodes = (sample.failed_node,) if ended else ()
                self._raise_alarm(Alarm(kind, words, now, *self._key, began=min(now, at), nodes=nodes))

    def _update_lasting_alarms(self, now: float, sample: JobSample) -> None:
        """Begin, update and end the alarms that last as long as their cause."""
        known = now - sample.missing_seconds
        stalled, since = self._no_step_text(known, sample)
        overdue, unproved, self.why_unknown = self.late_text, self.is_unproved, ""
        if sample.missing_seconds > SERVER_QUIET_SECONDS and not (stalled or overdue):
            silent, _ = self._no_step_text(now, sample)
            if silent or self.late_text or self.is_unproved:
                clock = datetime.fromtimestamp(known).astimezone()
                self.why_unknown = f"not known whether it makes steps: connection quiet since {clock:%H:%M:%S}"
            self.late_text, self.is_unproved = overdue, unproved
        worst = max(sample.behind, key=lambda each: each[1], default=(0, 0))
        late = sum(by >= self._thresholds.behind for _, by in sample.behind)
        behind = ""
        if late and sample.running:
            more = f" and {late - 1} more" if late > 1 else ""
            behind = f"pod {worst[0]}{more} {worst[1]} steps behind the leading pod"
        kept = sample.kept if sample.ended_at and known - sample.ended_at > self._thresholds.kept else ""
        saved = f"last checkpoint before: {sample.saved_words}" if sample.saved_words else ""
        late_pods = {pod for pod, by in sample.behind if by >= self._thresholds.behind}
        nodes = {
            AlarmKind.BEHIND: [node for pod, node in enumerate(sample.pod_nodes) if pod in late_pods and node],
            AlarmKind.GPU: sample.faulty_nodes,
        }
        blamed = sample.blamed if sample.blamed_at > self.step_at else ""
        found = blamed.startswith(INSPECTED_PREFIX) and (stalled or self.late_text)
        self.verdict = blamed.removeprefix(INSPECTED_PREFIX) if found else ""
        nodes[AlarmKind.STALL] = sample.blamed_nodes if self.verdict else ()
        for kind, words, beside, began in (
            (AlarmKind.STALL, stalled, blamed, since),
            (AlarmKind.BEHIND, behind, "", 0.0),
            (AlarmKind.KEPT, kept, "", sample.ended_at),
            (AlarmKind.NAN, sample.nan, saved, sample.nan_at),
            (AlarmKind.GPU, "; ".join(sample.gpu_faults[:3]), "", 0.0),
        ):
            held = sample.held if kind in _STOPPING_ALARMS else 0
            on = tuple(dict.fromkeys(nodes.get(kind, ())))
            alarm = Alarm(kind, words, now, *self._key, more=beside, held=held, began=min(now, began), nodes=on)
            self._update_alarm(alarm, "" if sample.running else _why_not_running(sample))

    def _update_alarm(self, alarm: Alarm, ended_state: str) -> None:
        """Begin or update an alarm, or end it if `alarm` has no text; `ended_state`: another cause of its end."""
        lasting = self._open_alarms.pop(alarm.kind, None)
        if not alarm.words:
            if lasting is not None:
                self._replace_alarm(lasting, structs.replace(lasting, over=alarm.time, ended=ended_state))
            return
        known = lasting or self._continued_stall(alarm)
        if known is None:
            if self._raise_alarm(alarm):
                self._open_alarms[alarm.kind] = alarm
            return
        self._open_alarms.pop(known.kind, None)
        began = known.began or alarm.began
        self._open_alarms[alarm.kind] = changed = structs.replace(alarm, time=known.time, began=began)
        self._replace_alarm(known, changed)

    def _continued_stall(self, alarm: Alarm) -> Alarm | None:
        """The last stall alarm if this stall began before that alarm, so that both are one stall; else None."""
        if alarm.kind is not AlarmKind.STALL:
            return None
        same = (each for each in reversed(self.alarms) if each.kind is alarm.kind)
        return next((each for each in same if alarm.began < each.time), None)

    def _replace_alarm(self, previous_alarm: Alarm, new_alarm: Alarm) -> None:
        self.alarms = [new_alarm if each is previous_alarm else each for each in self.alarms]

    def _raise_alarm(self, alarm: Alarm) -> bool:
        if alarm.kind in self._thresholds.off:
            return False
        self.alarms.append(alarm)
        return True

    def _no_step_text(self, now: float, sample: JobSample) -> tuple[str, float]:
        """(text of a stall or silence alarm, empty if a step may still come; start of the stall)."""
        if stalled := self._stall_text(now, sample):
            return stalled, self.step_at
        return self._silence_text(now, sample)

    def _stall_text(self, now: float, sample: JobSample) -> str:
        """The text of a stall alarm if a step is overdue, else empty; sets `late_text` to its delay in words."""
        self.late_text, self.is_unproved = "", False
        if not sample.running or sample.finished or sample.trained:
            return ""
        if sample.step is None:
            if sample.start is None or sample.behind_log:
                return ""
            self.step_at = min(now, sample.start.since or self.step_at)
            self.late_text = sample.start.late_text(now)
            return self.late_text if sample.start.is_stalled(now, self._thresholds) else ""
        quiet, rhythm = now - self.step_at, sample.rhythm
        late = rhythm.late_after(self._thresholds) if rhythm else self._thresholds.warm_up
        limit = rhythm.alarm_after(self._thresholds) if rhythm else self._thresholds.warm_up
        if self._is_pausing:
            late, limit = max(late, self._thresholds.pause), max(limit, self._thresholds.pause)
        words = _late_words(quiet, sample)
        listened = now - self._begun >= max(self._settles, 3 * rhythm.pace if rhythm else 0.0)
        proved = listened and not sample.behind_log
        self.is_unproved = quiet > min(late, limit) and not proved  # it has had no time to show that it lives
        self.late_text = words if quiet > late and proved else ""
        return words if quiet > limit and proved else ""

    def _silence_text(self, now: float, look: JobSample) -> tuple[str, float]:
        """(text of a stall alarm if no line has come for too long, else empty; time of the last line)."""
        if not look.running or look.finished or look.trained or now - self._begun < self._settles or look.behind_log:
            return "", 0.0
        known = self.has_lines and (look.step is None or look.steps >= MIN_STEPS_FOR_PACE) and not self._is_pausing
        limit = self._thresholds.silent if known and look.step is not None else self._thresholds.warm_up
        if look.rhythm is not None:  # who makes a step in twenty minutes may print nothing for as long
            limit = max(limit, look.rhythm.late_after(self._thresholds))
        if now - max(self.line_at, self.step_at if look.step is not None else 0.0) <= limit:
            return "", 0.0
        if look.step is None:
            return f"{self.silence_subject} printed a line for {format_duration(now - self.line_at)}", self.line_at
        return _late_words(now - self.step_at, look), self.step_at


def _late_words(silent_seconds: float, sample: JobSample) -> str:
    if sample.all_steps:
        return f"it has not ended {format_duration(silent_seconds)} after its last step, {sample.step:,}"
    if sample.row_bytes is not None and sample.pace is not None:
        return format_late_row(silent_seconds, sample.row_bytes, sample.pace)
    return format_late_step(silent_seconds, sample.step, sample.pace if sample.rhythm else None)


def _why_not_running(sample: JobSample) -> str:
    """The reason why the job no longer runs, with which its alarms end."""
    if sample.finished:
        return "the job failed" if sample.failure else "the job ended"
    return "its pods ended"
