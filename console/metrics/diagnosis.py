"""Result of an inspection of a job: the rank that the others wait for, as all consoles and commands show it (pure)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from console.scheduling.ranks import ranks

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.snapshot import Fleet


class DiagnosisKind(StrEnum):
    HANG = "hang"  # the rank that the others wait for, in a job that makes no steps
    SLOW = "slow"  # for which rank they wait in each step
    SLOWER = "slower"  # that its steps take longer than before, since `at`
    PACE = "pace"  # that its owner took such steps for its pace
    CONSENT = "consent"  # what was answered to whether its pods may be looked into unasked: yes or no
    LATE = "late"  # which rank launches later than the others, who may or may not wait for it


class Diagnosis(Struct, frozen=True):
    """The last one of its kind of a job; a later one that found nothing takes its place."""

    uid: str  # of the JobSet
    kind: DiagnosisKind
    at: float  # when it was made, in seconds since the epoch
    words: str = ""  # the rank that the others wait for, as a phrase; empty: none
    short: str = ""  # the same without its node and bounds, for a column
    nodes: tuple[str, ...] = ()  # nodes of the ranks that the others wait for
    blames_program: bool = False  # its program, data or storage is at fault, so that other nodes would not help
    advice: tuple[str, ...] = ()  # what to do next, in sentences
    threshold: float = 0.0  # of slower steps: what one costs, below which the job is as fast again

    def is_of_attempt(self, jobset: JobSet, fleet: Fleet) -> bool:
        """Whether it was made since the processes of the job last started."""
        started = (rank.pod.main.started for rank in ranks(jobset, fleet) if rank.pod and rank.pod.main)
        return self.uid == jobset.uid and self.at > max((each for each in started if each), default=0.0)
