"""What the end of a job now would lose of its work, in the words of every place that tells of it (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from console.metrics.ledger import find_unsaved, format_gpu_time
from console.metrics.step_cadence import format_duration

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet
    from console.metrics.job_measures import JobMeasures
    from console.metrics.seen_time import Span


class SavedInFolder(NamedTuple):
    """The last complete checkpoint of a folder that was read."""

    step: int | None
    at: float  # when it was written
    read: float  # when the folder was read


class Loss(NamedTuple):
    """The work that would be lost: never more than the job did since its pods run."""

    since: float  # what was done since then is in no checkpoint
    step: int | None = None  # of the last checkpoint; None: none is known
    saved: float = 0.0  # when that was written
    by_folder: bool = False  # whether its folder tells that, not its log
    heard: float = 0.0  # since when its log was read, where that tells of no checkpoint

    @property
    def is_all(self) -> bool:
        """Whether the last checkpoint is older than the run of its pods, so that all they did is lost."""
        return self.step is not None and self.since > self.saved

    def seconds(self, now: float) -> float:
        """How much time of each GPU, as exactly as it is told, so that what follows from it can be checked."""
        seconds = max(0.0, now - self.since)
        unit = 1 if seconds < 60 else 60 if seconds < 86_400 else 3600
        return (ceil(seconds / unit) if self.step is None else seconds // unit) * float(unit)

    def cost(self, now: float, gpus: int) -> str:
        """Such as "6.1 GPU-hours", with "up to" where a checkpoint may exist of which nothing is known."""
        return f"{'up to ' if self.step is None else ''}{format_gpu_time(self.seconds(now) * gpus)}"

    def sentence(self, now: float, gpus: int) -> str:
        """Such as "the work since step 1,240 was saved 23 min ago: 6.1 GPU-hours"."""
        cost = self.cost(now, gpus)
        if self.step is None:
            heard = format_duration(max(0.0, now - (self.heard or self.since)))
            return f"{cost}: its log tells of no checkpoint in the last {heard}"
        if self.is_all:
            ran = format_duration(self.seconds(now))
            return f"all its work of {ran}, as step {self.step:,} was saved before its pods ran: {cost}"
        return f"the work since step {self.step:,} was saved {format_duration(self.seconds(now))} ago: {cost}"


def find_loss(spans: Iterable[Span], ran: float, folder: SavedInFolder | None = None) -> Loss | None:
    """What a job that trains would lose, by its log and by its folder; None without steps, or once training is over.

    `ran`: since when its pods run (0.0: not known), beyond which nothing can be lost: what was not saved before a
    restart is lost already.
    """
    by_log = find_unsaved(spans)
    if by_log is None:
        return None
    if folder is not None and folder.step is not None and (by_log.step is None or by_log.since <= folder.read):
        return Loss(max(folder.at, ran), folder.step, folder.at, by_folder=True)
    if by_log.step is not None:  # also of what was saved since the folder was read, of which its log alone tells
        return Loss(max(by_log.since, ran), by_log.step, by_log.since)
    return Loss(ran or by_log.since, heard=max(by_log.since, ran))


def has_checkpoint(recipe: str, measures: JobMeasures | None, folder: SavedInFolder | None) -> bool | None:
    """Whether a launch could go on from a checkpoint of a job, by its folder and by its log; None: not known.

    A test of NCCL saves nothing.
    """
    if folder is not None:
        return True
    if recipe.startswith("nccl"):
        return False
    if measures is None or measures.is_reading_old_lines:
        return None
    if any(track.checkpoints for track in measures.tracks):
        return True
    return False if any(measures.tracks) or measures.tests else None


def find_start(jobset: JobSet | None, fleet: Fleet) -> float:
    """Since when the pods of a job run; 0.0: not known."""
    pods = fleet.pods_by_jobset.get(jobset.uid, ()) if jobset is not None else ()
    started = [(pod.main.started if pod.main else 0.0) or pod.started for pod in pods if pod.holds_gpus]
    return min((each for each in started if each), default=0.0)
