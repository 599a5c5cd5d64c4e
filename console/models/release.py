"""Releases as a whole: what goes when one is stopped, what is left of others, and what of one can still be changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class StopPlan:
    """What stopping a job would remove, and what it would leave."""

    namespace: str
    name: str
    release: str = ""
    """Helm release that would be uninstalled; empty: the JobSet alone would be deleted."""
    goes: tuple[str, ...] = ()
    """Objects, as "Kind name"."""
    stays: tuple[str, ...] = ()
    """Objects that are kept, and the places where data is: "PersistentVolumeClaim data", "bucket gs://runs (/gcs)"."""
    pods: int = 0
    gpus: int = 0
    """GPUs that would be free."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of the chart whose release is gone, a release whose job is, or a Pod or Service made by hand."""

    kind: str
    """"Release", or the kind of the object."""
    namespace: str
    """Empty for what belongs to none."""
    name: str
    release: str
    """Empty for what was made by hand."""
    why: str
    """One sentence."""
    holds_data: bool = False
    """A volume or a claim: it was kept on purpose, and removing it may remove what somebody wrote there."""
    runs: bool = False
    """Made by hand and not ended: somebody may be using it."""
    goes: tuple[str, ...] | None = None
    """Of a release: the objects that were named as going with it."""


class Fate(StrEnum):
    """What becomes of an object when its release is changed."""

    SAME = "stays as it is"
    CHANGED = "changes"
    ADDED = "is made"
    REMOVED = "goes"
    KEPT = "is kept"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What a change of a release means for one of its objects."""

    kind: str
    name: str
    fate: Fate
    lines: tuple[str, ...] = ()
    """A unified diff of its YAML, without its head; values of Secrets are masked."""
    refused: str = ""
    """Why the cluster does not let it happen, in one sentence; empty: it does."""


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """What a change of a release would do, object by object, as the API server judged it."""

    namespace: str
    name: str
    objects: tuple[ObjectChange, ...]

    @property
    def refused(self) -> tuple[ObjectChange, ...]:
        """Objects that stand in its way."""
        return tuple(each for each in self.objects if each.refused)

    @property
    def idle(self) -> bool:
        """Whether nothing would change."""
        return all(each.fate in {Fate.SAME, Fate.KEPT} for each in self.objects)
