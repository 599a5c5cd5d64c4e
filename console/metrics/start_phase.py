"""The phases of a job before its first step, by the lines of its log, with their durations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from console.durations import format_duration
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.alarm_thresholds import Thresholds
    from console.scheduling.pod_slots import PodSlot

LAUNCHER_STAGE = (
    lazy_pattern(  # number and name of a launcher's stage; run, seconds, why skipped, exit code, or what SIGTERM left
        r"(?:^|[\]>\sZ])step (\d{1,6}) ([^:]{1,200}): "
        r"(?:(run)|done in (\d{1,9}) s|skip: (.{0,1000})|failed with exit code (\d{1,3})"
        r"|(?:ended by (?:the )?SIGTERM|did not end in the grace period).{0,200})\s*$"
    )
)
PULL_PHASE = "the pull of its image"
_PHASE_LINES = (  # what a line begins, in the words of a sentence
    (
        "NCCL's init",
        lazy_pattern(
            r"NCCL INFO (?:Bootstrap|ncclCommInit\w* .{0,200}Init START)|NCCL version \d"
            r"|> initializing torch distributed"
        ),
    ),
    (
        "its first step",
        lazy_pattern(
            r"NCCL INFO .{0,200}Init COMPLETE|\[before the start of training step\]"
            r"|\*{5} Running training \*{5}"
        ),
    ),
    ("a compilation", lazy_pattern(r"> compiling (?:dataset|and loading)|^\[\d+/\d+\] \S{0,200}nvcc ")),
    ("an installation", lazy_pattern(r"^ *(?:Collecting \S|Installing collected packages: )")),
    ("a download", lazy_pattern(r"^Fetching \d+ files\b|^Downloading (?:Model|shards)\b")),
)
_PHASE_HINTS = (
    "NCCL ",
    "initializing",
    "before the start",
    "Running",
    "ompiling",
    "nvcc",
    "Collecting",
    "Installing",
    "Fetching",
    "Downloading",
)
_LATE_FACTOR, _LATE_SECONDS = 3.0, 120.0  # times the longest of earlier runs, and seconds more than that
_LOG_START_SECONDS = 60.0  # seconds after the start of a container in which its log is read from the beginning
MAX_PHASES, MAX_STAGE_CHARACTERS = 100, 40  # of one run, and characters of the name of a launcher's stage
MAX_LAST_LINE_CHARACTERS = 160  # characters of the last line of a log that a sentence has


class StartPhase(Struct, frozen=True):
    """A job's phase before its first step, as of the pod that has been in its phase for longest."""

    name: str = ""  # empty: not known
    since: float = 0.0  # when that began, by the clock of its node
    printed: float = 0.0  # when its pods printed a line last; 0.0: they have printed none
    line: str = ""  # that line
    longest: float = 0.0  # seconds that the phase took at most in earlier runs; 0.0: not known

    def late_text(self, now: float) -> str:
        """The delay of the phase in words; empty if there is none, or if its usual length is unknown."""
        limit = max(_LATE_FACTOR * self.longest, self.longest + _LATE_SECONDS)
        return self.words(now) if self.name and self.longest and now - self.since > limit else ""

    def is_stalled(self, now: float, limits: Thresholds) -> bool:
        """Whether the phase is late and the log has been silent for longer than the phase ever took in earlier runs."""
        quiet = now - max(self.since, self.printed)
        return bool(self.late_text(now)) and quiet > max(limits.stall, self.longest)

    def words(self, now: float) -> str:
        """The phase as text: "in stage 12 train since 23 min, at most 4 min before"; empty if unknown."""
        if not self.name:
            return ""
        before = f", at most {format_duration(max(1.0, self.longest))} before" if self.longest else ""
        return f"in {self.name} since {format_duration(max(0.0, now - self.since))}{before}"

    def sentence(self, now: float) -> str:
        """The phase as text, with the pod's last line and its age."""
        last = f"its last line came {format_duration(max(0.0, now - self.printed))} ago: {self.line}"
        return "; ".join(filter(None, (self.words(now), last if self.printed else "")))


class StartRecorder:
    """Follows the phases of one pod from its first line to its first step."""

    def __init__(self) -> None:
        self.phase_seconds: dict[str, float] = {}  # the longest time in each phase that has ended well, in seconds
        self.name, self.since = "", 0.0
        self.printed, self.line = 0.0, ""
        self._stage = ""
        self._is_whole_log: bool | None = None  # whether its log is read from the beginning; None: nothing is read yet

    def feed(self, time: float, text: str, started_at: float = 0.0) -> None:
        """Use a line to find the phase; `started_at`: start time of the container, 0.0 if unknown.

        Some lines count only in a log that is read from its start, since later lines of a job may look the same.
        """
        if self._is_whole_log is None:
            self._is_whole_log = time - started_at <= _LOG_START_SECONDS
        if time < started_at:
            return
        if text.strip():
            self.printed, self.line = time, text.strip()[:MAX_LAST_LINE_CHARACTERS]
        if "step " in text and (found := LAUNCHER_STAGE.search(text)):
            failed = found.group(4) is None and found.group(3) is None and found.group(5) is None
            self._is_whole_log = True
            self._stage = f"stage {found.group(1)} {found.group(2)[:MAX_STAGE_CHARACTERS]}" if found.group(3) else ""
            self._begin_phase(self._stage, time, has_ended=not failed)
        elif self._is_whole_log and any(hint in text for hint in _PHASE_HINTS):
            mark = next((name for name, pattern in _PHASE_LINES if pattern.search(text)), "")
            if mark:
                self._begin_phase(f"{mark} ({self._stage})" if self._stage else mark, time, has_ended=True)

    def end(self, time: float) -> None:
        """Record that the first step was made at `time` (epoch seconds)."""
        self._begin_phase("", time, has_ended=True)

    def _begin_phase(self, name: str, time: float, *, has_ended: bool) -> None:
        if name == self.name:
            return
        if self.name and has_ended and (self.name in self.phase_seconds or len(self.phase_seconds) < MAX_PHASES):
            self.phase_seconds[self.name] = max(self.phase_seconds.get(self.name, 0.0), time - self.since)
        self.name, self.since = name, time


def pull_seconds(ranks: Sequence[PodSlot]) -> float:
    """The longest of the pods' times from scheduling to the start of the program, in seconds; 0.0 if unknown."""
    mains = [(rank.pod, rank.pod.main) for rank in ranks if rank.pod is not None and not rank.restarts]
    took = [main.started - pod.started for pod, main in mains if pod.started and main is not None and main.started]
    return max(took, default=0.0)


def pull_phase(ranks: Sequence[PodSlot], longest: float) -> StartPhase | None:
    """The image pull of pods with a node but not started, None without such; `longest`: seconds in earlier runs."""
    pods = [rank.pod for rank in ranks if rank.pod is not None and not rank.restarts]
    since = [each.started for each in pods if each.started and each.main is not None and each.main.state == "waiting"]
    return StartPhase(PULL_PHASE, min(since), longest=longest) if since else None


def longest_phases(phase_seconds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The longest duration of each phase in these runs, by name; the "step N" of older records is a stage."""
    found: dict[str, float] = {}
    for recorded, seconds in (phase for run in phase_seconds for phase in run.items()):
        name = re.sub(r"\bstep (?=\d)", "stage ", recorded)
        found[name] = max(found.get(name, 0.0), seconds)
    return found
