"""Alarms: kinds, texts with next steps, and the number of jobs that are watched."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.connection_settings import OWN_NAME

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.job_progress import JobProgress


class AlarmKind(StrEnum):
    STALL = "stall"  # no new iteration, or no line of any rank while there has been none
    NAN = "nan"
    SPIKE = "spike"
    BUSBW = "busbw"  # a test of NCCL is under the line, or has wrong values
    BEHIND = "behind"  # a rank is behind the others
    RESTART = "restart"
    FAILED = "failed"  # the job is over, and it failed
    GPU = "gpu"  # an Xid, ECC errors, a clock that is held down
    KEPT = "kept"  # its program has ended, and its pods hold their GPUs for nothing

    @classmethod
    def _missing_(cls, value: object) -> AlarmKind | None:
        return cls.STALL if value == "silent" else None  # its name in run records of older versions

    @property
    def label(self) -> str:
        return "NaN" if self is AlarmKind.NAN else self

    @property
    def is_lasting(self) -> bool:
        """Whether the alarm ends with its cause; other kinds are single events."""
        return self in (AlarmKind.STALL, AlarmKind.NAN, AlarmKind.BEHIND, AlarmKind.GPU, AlarmKind.KEPT)


ALARM_GLYPH = "▲"
JOB_STOPPED = "the job was stopped"  # what ended an alarm of a job that was deleted before its end
INSPECTED_PREFIX = "inspected: "  # in `more`, before what an inspection of the processes found
_NEXT_STEPS = {  # command, which is the same wherever one reads of the alarm, and what it is for
    AlarmKind.STALL: ("hang", "shows which rank the others wait for"),
    AlarmKind.BEHIND: ("hang", "shows where each rank is"),
    AlarmKind.NAN: ("training", "shows its steps"),
    AlarmKind.SPIKE: ("training", "shows its steps"),
    AlarmKind.BUSBW: ("nccl", "shows the table"),
    AlarmKind.RESTART: ("logs", "shows the log"),
    AlarmKind.FAILED: ("why", "shows what failed first"),
    AlarmKind.GPU: ("gpus", "shows which GPU"),
    AlarmKind.KEPT: ("logs", "shows how it ended"),
}


class Alarm(Struct, frozen=True):
    kind: AlarmKind
    words: str  # what is wrong, in a sentence without its end
    time: float  # when it was noticed, in seconds since the epoch, by this machine's clock
    namespace: str = ""
    job: str = ""
    over: float = 0.0  # when its cause was gone; 0.0: it is still there, or it is something that happened
    more: str = ""  # what else is to be known of it: which rank the others wait for, the last checkpoint
    held: int = 0  # GPUs that a stop of the job frees
    began: float = 0.0  # when it happened: the last step before a stall, the first NaN; 0.0: not known
    ended: str = ""  # what ended it where that was not the end of its cause, such as "the job ended"
    nodes: tuple[str, ...] = ()  # the nodes that its cause is on, as far as they are known

    @property
    def since(self) -> float:
        """The time of the alarm's event (epoch seconds), else the time at which the alarm was raised."""
        return self.began or self.time

    @property
    def ended_text(self) -> str:
        """The event that ended the alarm ("until the job ended"), or "over"; empty while it is active."""
        return "" if not self.over else f"until {self.ended}" if self.ended else "over"

    @property
    def is_active(self) -> bool:
        """Whether the alarm is not over; active ones are shown beside their job."""
        return not self.over

    @property
    def lasted_to_job_end(self) -> bool:
        """Whether the alarm's cause persists, or did until somebody stopped the job."""
        return not self.over or self.ended == JOB_STOPPED

    @property
    def verdict(self) -> str:
        """The rank that the others wait for, by an inspection after the alarm; empty if unknown."""
        inspected = self.kind is AlarmKind.STALL and self.more.startswith(INSPECTED_PREFIX)
        return self.more.removeprefix(INSPECTED_PREFIX) if inspected else ""

    def next_step(
        self,
        owner: str = "",
        *,
        may_stop: bool = True,
        look: str = "",
        stop_key: str = "",
        act: str = "",
        has_checkpoint: bool = False,
    ) -> str:
        """The next step for the person, in words; empty without a job. `owner`: who launched it, "you" for this person.

        `look`, `stop_key` and `act` (a list of all actions) replace commands in the text by keys, where there are any.
        `has_checkpoint`: whether a new launch could resume from a checkpoint.
        """
        verb, why = _NEXT_STEPS[self.kind]
        shows = f"{look or f'a4 {verb} {self.job}'} {why}"
        if self.verdict and act and may_stop:
            begins = " from its last checkpoint" if has_checkpoint else ""
            shows = f"{act} lists what can be done, such as to launch it again{begins}"
        elif self.verdict:
            shows = (
                f"{look} shows where each rank is" if look else f"a4 hang {self.job} --bundle FILE keeps the evidence"
            )
        whose = f" (launched by {owner}, not by you)" if owner not in {"", OWN_NAME} else ""
        frees = f"; {stop_key or f'a4 stop {self.job}'} frees {self.held} GPUs{whose}" if self.held and may_stop else ""
        return f"{shows}{frees}" if self.job else ""

    def with_finding(self, newer: Alarm | None) -> Alarm:
        """The alarm with the verdict of `newer`, found by another console in the same stall, if the alarm has none."""
        if newer is None or self.kind is not AlarmKind.STALL or self.verdict or newer.time <= self.since:
            return self
        return replace(self, more=newer.more, nodes=newer.nodes)

    @property
    def text(self) -> str:
        """The problem, followed by details if there are any."""
        return f"{self.words}; {self.more}" if self.more else self.words


def next_step(alarm: Alarm, watch: WatchedCluster) -> str:
    """The next step after an alarm, in words; stopping, with the job's owner, is only suggested if allowed."""
    from console.kube.find_job import with_namespace_option

    jobset = watch.fleet.jobsets.get((alarm.namespace, alarm.job))
    if jobset is None and alarm.ended and alarm.job:  # it was there, and is gone
        return with_namespace_option(
            f"a4 history {alarm.job} shows its run, if you launched it", watch.namespace_if_not_default(alarm.namespace)
        )
    owner = watch.format_owner(jobset.owner) if jobset is not None else ""
    text = alarm.next_step(owner, may_stop=not watch.read_only)
    return with_namespace_option(text, watch.namespace_if_not_default(alarm.namespace))


def format_alarm(alarm: Alarm, watch: WatchedCluster) -> str:
    text = next_step(alarm, watch)
    return f"{alarm.text}. {text}." if text else f"{alarm.text}."


class AlarmReport(Struct, frozen=True):
    """The alarms found in a job within a few seconds."""

    alarms: tuple[Alarm, ...] = ()
    late_message: str = ""  # that its next step is late, in words; empty: it is not, or that is not known
    refused: str = ""  # why its log cannot be followed, if it cannot
    follows_steps: bool = False  # whether steps came as they were printed, so that the times in its log do not count
    progress: JobProgress | None = None  # how far it is by its log; None too where that was not read to its end
    unread_reason: str = ""  # why nothing is known of its present steps though its log can be read, in words
    phase_text: str = ""  # of a job that has made no step: what it does by its log, and since when


class AlarmCoverage(Struct, frozen=True):
    """The number of running jobs that are watched for alarms, and the reasons if not all are."""

    running: int = 0  # running jobs of the chosen namespaces
    heard: int = 0  # jobs whose log is followed
    most: int = 0  # logs that may be followed for them
    refused: tuple[str, ...] = ()  # why logs cannot be followed, each reason once
    read: int = 0  # running jobs of whose log a line was read

    @property
    def words(self) -> str:
        jobs = "job" if self.running == 1 else "jobs"
        if not self.running:
            return "No job runs."
        text = f"Alarms watch {self.heard} of {self.running} running {jobs}"
        if self.heard == self.running:
            return f"{text}."
        left = self.running - self.heard
        others = "the other" if left == 1 else f"the {left} others"
        why = self.refused[0].rstrip(".") if self.refused else f"at most {self.most} logs are followed"
        return f"{text}; {others}: only restarts and failures are watched ({why})."
