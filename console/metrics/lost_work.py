"""The work lost by ending a job now: since its last complete checkpoint on storage that outlives the pods (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from console.durations import format_duration
from console.kube.objects.jobset import JobSet, RecipeKind, recipe_kind
from console.metrics.gpu_time_ledger import format_gpu_time
from console.metrics.time_spans import SpanKind, TimeSpan
from console.settings_file import current_config

if TYPE_CHECKING:
    from console.errors import ConsoleError
    from console.kube.snapshot import Fleet
    from console.metrics.job_measures import JobMeasures


class SeenFolder(NamedTuple):
    """The content of a checkpoint folder at its last reading."""

    folder: str  # a folder or an address
    read: float
    complete: bool = False
    step: int | None = None  # of the last complete one; None: its folder names none
    written_at: float = 0.0  # when that was written
    absent: str = ""  # why none counts, a sentence without its end; empty: one does, or it is not known


class LostWork(NamedTuple):
    """The work that ending a job would lose, at most all of it since its pods started."""

    gpus: int
    since: float  # what was done since then is lost; 0.0: not known
    step: int | None = None  # of the checkpoint that counts; None: none does
    saved_at: float = 0.0  # when that was written; 0.0: none counts
    by_folder: bool = False  # whether its folder tells that, not its log
    why: str = ""  # why none counts, without its end
    training_ended_at: float = 0.0  # when the training was over; 0.0: it is not

    @property
    def is_all(self) -> bool:
        """Whether the last checkpoint is older than the pods, so that all their work is lost."""
        return bool(self.saved_at) and self.since > self.saved_at

    def gpu_hours(self, now: float) -> float | None:
        """The lost GPU-hours; None if unknown."""
        return self.gpus * max(0.0, (self.training_ended_at or now) - self.since) / 3600 if self.since else None

    def cost(self, now: float) -> str:
        """The lost GPU-time as text: "6.1 GPU-hours", with "up to" if it may be less."""
        hours = self.gpu_hours(now)
        if hours is None:
            return "how much is not known"
        return f"{'' if self.saved_at else 'up to '}{format_gpu_time(hours * 3600)}"

    def sentence(self, now: float) -> str:
        """The loss as text: "the work since step 1,240 was saved 23 min ago: 6.1 GPU-hours"."""
        step = f"step {self.step:,}" if self.step is not None else "its last checkpoint"
        if not self.saved_at:
            return f"{self.cost(now)}, as {self.why}"
        if self.is_all:
            ran = format_duration(max(0.0, now - self.since))
            return f"all its work of {ran}, as {step} was saved before its pods ran: {self.cost(now)}"
        return f"the work since {step} was saved {format_duration(max(0.0, now - self.since))} ago: {self.cost(now)}"


CHECKPOINTS_IN_PODS = "the job's checkpoints are deleted with its pods"


def find_lost_work(
    jobset: JobSet,
    fleet: Fleet,
    spans: Sequence[TimeSpan],
    now: float,
    *,
    path: str = "",
    folder: SeenFolder | None = None,
    why_unread: str = "",
) -> LostWork | None:
    """The work that a job would lose, None if none. `spans`, `path`: by its log; `why_unread`: why it was not read."""
    gpus, started, containers = _running_gpus(jobset, fleet)
    complete = folder is not None and folder.complete
    if not gpus or (recipe_kind(jobset.recipe) is RecipeKind.NCCL and not complete):
        return None
    if why_unread:
        return LostWork(gpus, started, why=why_unread)
    steps = [span for span in spans if span.kind is SpanKind.FIRST or span.steps > 0]
    if not steps and not complete:
        return LostWork(gpus, started, why="its log tells of no step")
    over = next((span.start for span in spans if span.kind in {SpanKind.IDLE, SpanKind.ENDED}), 0.0)
    saved = next((span for span in reversed(spans) if span.kind is SpanKind.SAVED), None)
    if saved is not None and folder is not None and saved.start <= folder.read and (folder.complete or folder.absent):
        saved = None  # its folder says more
    last: tuple[float, int | None] | None = (saved.start, saved.last) if saved is not None else None
    if last is None and folder is not None and folder.complete:
        last = folder.written_at, folder.step
    if last is None and over:
        return None  # what was not saved then is gone already
    stays = jobset.outlives_pods((folder.folder if folder is not None else "") or path)
    if last is not None and stays:
        return LostWork(gpus, max(last[0], containers), last[1], last[0], by_folder=saved is None) if not over else None
    if last is not None:
        why = CHECKPOINTS_IN_PODS if stays is False else "whether its checkpoints outlive its pods is not known"
    elif folder is not None and folder.absent:
        why = folder.absent
    else:
        since_start = format_duration(max(0.0, now - max(steps[0].start, containers)))
        why = f"no checkpoint of the last {since_start} is in its log"
    return LostWork(gpus, started or (steps[0].start if steps else 0.0), why=why, training_ended_at=over)


def find_followed_lost_work(
    jobset: JobSet, fleet: Fleet, measures: JobMeasures, folder: SeenFolder | None, now: float
) -> LostWork | None:
    """The work a job would lose if it ended now, by a log that is followed or was read to its end; None if none."""
    unread = "its log of before is still being read" if measures.is_reading_old_lines else ""
    if measures.unread and not any(measures.tracks):
        unread = unread_words(measures.unread[0])
    if measures.tests and not (folder is not None and folder.complete):
        return None
    spans = measures.list_spans(now, current_config().config.alarms)
    return find_lost_work(jobset, fleet, spans, now, path=saved_folder(measures), folder=folder, why_unread=unread)


def unread_words(error: ConsoleError) -> str:
    return f"its log could not be read ({error.message.rstrip('.')})"


def saved_folder(measures: JobMeasures | None) -> str:
    """The folder of the last checkpoint that the log names; empty if it names none."""
    tracks = measures.tracks if measures is not None else ()
    return next((track.checkpoint_folder for track in reversed(tracks) if track.checkpoint_folder), "")


def has_checkpoint(jobset: JobSet, measures: JobMeasures | None, folder: SeenFolder | None) -> bool | None:
    """Whether a launch could resume from a job's checkpoint, by its folder and log; None if unknown."""
    if folder is not None and (folder.complete or folder.absent):
        return folder.complete and jobset.outlives_pods(folder.folder)
    if recipe_kind(jobset.recipe) is RecipeKind.NCCL:
        return False
    if measures is None or measures.is_reading_old_lines:
        return None
    if any(track.checkpoints for track in measures.tracks):
        return jobset.outlives_pods(saved_folder(measures))
    return False if any(measures.tracks) or measures.tests else None


def _running_gpus(jobset: JobSet, fleet: Fleet) -> tuple[int, float, float]:
    """(GPUs that a job holds, start of its pods, start of its containers); times are 0.0 if unknown."""
    pods = fleet.pods_by_jobset.get(jobset.uid, ())
    holding = [pod for pod in pods if pod.holds_gpus]
    started = min((each for pod in holding if (each := pod.started)), default=0.0)
    containers = min((each for pod in holding if (each := pod.main.started if pod.main else 0.0)), default=0.0)
    gpus = sum(pod.holds_gpus for pod in holding)
    if not pods and not jobset.finished and not jobset.suspended:
        gpus = jobset.gpus
    return gpus, started or containers, containers or started
