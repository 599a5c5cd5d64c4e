"""What a job sounds an alarm for, and how much of it is enough (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AlarmKind(StrEnum):
    """What is wrong."""

    STALL = "stall"
    """No new iteration."""
    SILENT = "silent"
    """No new line of any rank."""
    NAN = "nan"
    SPIKE = "spike"
    BUSBW = "busbw"
    """A test of NCCL is under the line, or has wrong values."""
    BEHIND = "behind"
    """A rank is behind the others."""
    RESTART = "restart"
    FAILED = "failed"
    """The job is over, and it failed."""
    GPU = "gpu"
    """An Xid, ECC errors, a clock that is held down."""

    @property
    def passes(self) -> bool:
        """Whether it is over once its cause is; the others are things that happened."""
        return self in (AlarmKind.STALL, AlarmKind.SILENT, AlarmKind.NAN, AlarmKind.BEHIND, AlarmKind.GPU)


GLYPH = "▲"
_NEXT = {
    AlarmKind.STALL: ("H", "hang", "shows which rank the others wait for"),
    AlarmKind.SILENT: ("H", "hang", "shows which rank the others wait for"),
    AlarmKind.BEHIND: ("H", "hang", "shows where each rank is"),
    AlarmKind.NAN: ("t", "training", "shows the curve"),
    AlarmKind.SPIKE: ("t", "training", "shows the curve"),
    AlarmKind.BUSBW: ("b", "nccl", "shows the table"),
    AlarmKind.RESTART: ("l", "logs", "shows the log"),
    AlarmKind.FAILED: ("l", "why", "shows what failed first"),
    AlarmKind.GPU: ("h", "gpus", "shows which GPU"),
}
"""Key on the pages of jobs, command, and what it is for."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm of one job."""

    kind: AlarmKind
    words: str
    """What is wrong, in a sentence without its end."""
    time: float
    """When it was noticed, in seconds since the epoch, by this machine's clock."""
    namespace: str = ""
    job: str = ""
    over: float = 0.0
    """When its cause was gone; 0.0: it is still there, or it is something that happened."""
    more: str = ""
    """What else is to be known of it: which rank the others wait for, the last checkpoint."""
    held: int = 0
    """GPUs that a stop of the job frees."""
    began: float = 0.0
    """When it happened: the last step before a stall, the first one that is no number; 0.0: not known."""
    ended: str = ""
    """What ended it where that was not the end of its cause, such as "the job ended"."""

    @property
    def since(self) -> float:
        """When it happened, else when it was noticed."""
        return self.began or self.time

    @property
    def over_words(self) -> str:
        """That it is no more, and how; empty while it is there."""
        return "" if not self.over else f"until {self.ended}" if self.ended else "over"

    @property
    def now(self) -> bool:
        """Whether it is to be seen beside the job."""
        return not self.over

    @property
    def next(self) -> str:
        """What to do next, by key and by command."""
        key, verb, why = _NEXT[self.kind]
        frees = f"; x, or a4 stop {self.job}, frees {self.held} GPUs" if self.held else ""
        return f"{key}, or a4 {verb} {self.job}, {why}{frees}" if self.job else ""

    @property
    def said(self) -> str:
        """What is wrong, and what else is to be known of it."""
        return f"{self.words}; {self.more}" if self.more else self.words

    @property
    def full(self) -> str:
        """All of it in sentences."""
        return f"{self.said}. {self.next}." if self.next else f"{self.said}."


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How much is enough."""

    silent: float = 600.0
    """Seconds without a line of any rank."""
    late: float = 30.0
    """Seconds without a new step, at least, after which the next one is said to be late, without an alarm."""
    late_steps: float = 10.0
    """And so many usual steps; a run that makes longer pauses regularly has time for one of them."""
    stall: float = 60.0
    """Seconds without a new step, at least, after which that is an alarm."""
    stall_steps: float = 25.0
    """And so many usual steps, or the run's own longest pause and half of it again."""
    warm_up: float = 1800.0
    """Seconds without a line, or without an iteration, before there have been enough iterations to know the pace."""
    pause: float = 1800.0
    """Seconds without an iteration while the program evaluates, or saves or loads a checkpoint."""
    behind: int = 20
    """Steps that a rank is behind the foremost."""
    gpus: float = 120.0
    """Seconds between two looks at the GPUs; 0: none."""
    busbw: float = 0.0
    """GB/s that a test has to reach; 0: the usual line."""
    streams: int = 32
    """Logs that are followed at the same time for jobs whose page nobody opened; two for each job at first."""
    running: bool = True
    """Whether every running job is watched, not only those whose page was opened."""
    off: tuple[AlarmKind, ...] = ()
    """Alarms that nobody wants."""
    notify: bool = True
    """Whether the terminal is told (bell, OSC 9 and 777)."""


LEAST = {
    "silent": 1.0, "late": 1.0, "late_steps": 1.0, "stall": 1.0, "stall_steps": 1.0, "warm_up": 1.0, "pause": 1.0,
    "behind": 1, "gpus": 0.0, "busbw": 0.0, "streams": 0,
}  # fmt: skip
"""Numbers of `Thresholds`, and the least that each may be."""

SWITCHES = ("running", "notify")
"""Those of `Thresholds` that are on or off."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of which running jobs what is heard."""

    running: int = 0
    """Running jobs of the chosen namespaces."""
    heard: int = 0
    """Those whose log is followed."""
    streams: int = 0
    most: int = 0
    """Logs that are followed for them, and how many may be."""
    refused: tuple[str, ...] = ()
    """Why logs cannot be followed, each reason once."""

    @property
    def words(self) -> str:
        """It in a sentence."""
        jobs = "job" if self.running == 1 else "jobs"
        if not self.running:
            return "No job runs."
        said = f"Alarms watch {self.heard} of {self.running} running {jobs}"
        if self.heard == self.running:
            return f"{said}."
        left = self.running - self.heard
        others = "the other" if left == 1 else f"the {left} others"
        why = self.refused[0].rstrip(".") if self.refused else f"at most {self.most} logs are followed"
        return f"{said}; of {others} only restarts and failures are told ({why})."
