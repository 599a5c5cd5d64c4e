"""The state of a job's checkpoints, from its log and from its folder (pure)."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.metrics.lost_work import CHECKPOINTS_IN_PODS, SeenFolder

if TYPE_CHECKING:
    from console.kube.nested_values import Value
    from console.kube.objects.jobset import JobSet
    from console.metrics.job_measures import JobMeasures

REREAD_SECONDS = 300.0  # seconds after which the checkpoints of a job that is looked at are read again


@dataclass(frozen=True, slots=True)
class SavedState:
    """The findings of one reading of a job's checkpoint folder."""

    read_at: float
    folder: str = ""  # the folder, as the log names it
    survey: Survey | None = None
    problem: str = ""  # why there is none, a sentence
    by: str = ""  # what the reading took
    folder_missing: bool = False  # whether the problem is that there is no such folder

    @property
    def in_folder(self) -> SeenFolder | None:
        """The folder's last complete checkpoint, or the reason why it has none; None if it could not be read."""
        if self.folder_missing:
            return SeenFolder(self.folder, self.read_at, absent=self.problem[:1].lower() + self.problem[1:].rstrip("."))
        if self.survey is None:
            return None
        last, every = self.survey.last_complete, self.survey.checkpoints
        if last is not None:
            return SeenFolder(self.folder, self.read_at, True, last.step, last.modified)
        count = f"none of the {len(every)} checkpoints" if len(every) > 1 else "the only checkpoint"
        known = "known to be complete" if len(every) > 1 else "not known to be complete"
        none = f"{count} in {self.folder} is {known}" if every else f"there is no checkpoint in {self.folder}"
        return SeenFolder(self.folder, self.read_at, absent=none)

    def should_be_read_again(self, now: float, measures: JobMeasures | None) -> bool:
        """Whether to read the folder again: not too soon, if the log names a later save or the last is incomplete."""
        if now - self.read_at < REREAD_SECONDS:
            return False
        last = last_logged_save(measures)
        whole = self.survey is not None and self.survey.last_complete in self.survey.checkpoints[-1:]
        return not whole or (last is not None and last[1] > self.read_at)


def last_logged_save(measures: JobMeasures | None) -> tuple[int, float] | None:
    """(step, print time in epoch seconds) of the last checkpoint that the log names; None if it names none."""
    marks = [mark for track in measures.tracks for mark in track.checkpoints] if measures is not None else []
    found = next((mark for mark in reversed(marks) if mark.step is not None), None)
    return (int(found.step), found.time) if found is not None and found.step is not None else None


def list_checkpoint_faults(survey: Survey) -> list[str]:
    """A sentence for each incomplete or unfinished checkpoint, newest first, and for each wrong pointer file."""
    found = []
    for each in reversed(survey.checkpoints):
        name = _describe_checkpoint(each)
        if each.state is CheckpointState.INCOMPLETE:
            found.append(f"{name} is incomplete: {each.problems[0]}")
        elif each.state is CheckpointState.WRITING:
            found.append(f"{name} is being written")
    return [*found, *survey.notes]


STARTING_WEIGHT_FIELDS = ("recipe.train.checkpoint", "recipe.swift.load")  # the weights that a run begins with


def values_to_resume(
    saved: SavedState, paths: Collection[str], jobset: JobSet | None = None
) -> tuple[dict[str, Value], str]:
    """(values that make a recipe with these fields resume from the last complete checkpoint, else {}; a sentence)."""
    if jobset is not None and saved.folder and jobset.outlives_pods(saved.folder) is False:
        return {}, f"It begins as the job did: {CHECKPOINTS_IN_PODS}."
    last = saved.survey.last_complete if saved.survey is not None else None
    if last is None:
        why = saved.problem or "None of its checkpoints is known to be complete."
        return {}, f"It begins as the job did: {why}"
    if saved.folder.startswith("gs:"):
        found = _describe_checkpoint(last)
        return {}, f"Its last complete checkpoint is {found} in {saved.folder}: choose the weights to begin with."
    # Megatron takes the folder around its steps, and goes by the pointer in it.
    around = last.format.startswith("Megatron")
    folder = posixpath.normpath(posixpath.join(saved.folder, posixpath.dirname(last.path) if around else last.path))
    wrong = f" But {saved.survey.notes[0]}." if around and saved.survey is not None and saved.survey.notes else ""
    values: dict[str, Value] = {}
    for path in STARTING_WEIGHT_FIELDS:
        if path in paths:
            group, part, field = path.split(".")
            values = {group: {part: {field: folder}}}
    return values, f"It begins with the weights of {_describe_checkpoint(last)}, in {folder}.{wrong}"


def _describe_checkpoint(checkpoint: Checkpoint) -> str:
    return f"step {checkpoint.step:,}" if checkpoint.step is not None else checkpoint.path or "the folder"
