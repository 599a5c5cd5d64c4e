"""What became of a pod, and who takes its place."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from console.models.ranks import ranks

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.pod import Pod


class Fate(StrEnum):
    """What became of it."""

    HERE = "here"
    """It runs as before."""
    REPLACED = "replaced"
    """It is gone or going, and something will make another."""
    OVER = "over"
    """It has ended, or is gone, and nothing makes another."""


def fate(fleet: Fleet, pod: Pod) -> Fate:
    """What the picture says of a pod."""
    now = fleet.pods.get(pod.key)
    if now is not None and now.uid == pod.uid and now.phase == "Running" and not now.deleting_since:
        return Fate.HERE
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    return Fate.REPLACED if jobset is not None and not jobset.finished else Fate.OVER


def successor(fleet: Fleet, pod: Pod) -> Pod | None:
    """The running pod that fills the same place of its job now; None while there is none, or it is the same pod."""
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    if jobset is None:
        return None
    place = pod.replicated_job, pod.job_index, max(0, pod.completion_index)
    for rank in ranks(jobset, fleet):
        if (rank.replicated_job, rank.job_index, rank.completion_index) == place:
            found = rank.pod
            return found if found and found.uid != pod.uid and found.phase == "Running" else None
    return None
