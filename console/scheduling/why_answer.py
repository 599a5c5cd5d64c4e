"""The explanation of why something does not run: category, numbers, and who could change it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from console.scheduling.quota_accounts import QuotaAccount, QuotaHolder


WAIT_KINDS = (
    "jobsets", "pods", "jobs", "workloads", "localqueues", "clusterqueues", "cohorts", "nodes", "resourceflavors",
    "events",
)  # fmt: skip
"""What the reason for a wait is made of."""


class Category(StrEnum):
    """What keeps a Workload or a JobSet from running; the last ones are of JobSets."""

    QUOTA = "quota"  # fits the limits, but not into what is unused now
    EXCEEDS = "exceeds quota"  # asks for more than its queue can ever have
    TOPOLOGY = "topology"  # quota is there, but not close enough together
    PREEMPTING = "preempting"  # others are being evicted for it
    BEHIND = "behind others"
    STOPPED = "stopped queue"
    MISSING_QUEUE = "missing queue"
    INACTIVE_QUEUE = "inactive queue"
    CHECKS = "admission checks"
    EVICTED = "evicted"
    BACKOFF = "backoff"  # evicted, and queued again only later
    DEACTIVATED = "deactivated"
    PODS_NOT_READY = "pods not ready"
    """Its own pods are not up, or Kueue waits for those of jobs admitted before."""
    NO_FLAVOR = "no flavor"  # no flavor of the queue has what it asks for, or lets it in
    GATED = "gated"  # held back on purpose by a gate or by its owner
    NOT_EVALUATED = "not evaluated"
    NOT_ALLOWED = "not allowed"  # the account may not see what it waits for
    UNKNOWN = "unknown"  # Kueue gives a reason that is not known here; its own words are the answer
    RUNNING = "running"
    FINISHED = "finished"

    NO_QUEUE = "no queue"  # suspended, and no queue will ever start it
    REFUSED = "refused"  # the API server refuses its pods
    UNSCHEDULABLE = "unschedulable"
    IMAGE = "image"
    STARTING = "starting"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPING = "stopping"


class Why(Struct, frozen=True):
    """Why something does not run, as a sentence and numbers; amounts are GPUs."""

    sentence: str  # empty when nothing is waited for
    category: Category
    api_text: str = ""  # the controller's own message
    agrees: bool = False  # whether that message tells the same as the sentence, so that it adds nothing
    said_at: float = 0.0
    """When the controller said it, where the sentence, by the cluster as it is now, tells otherwise; 0.0: not known."""
    differs: bool = False  # whether the sentence tells otherwise than that message, which is of some time ago
    next: str = ""  # what to do about it, where that is known; a sentence without its end
    need: int = 0
    short_by: int = 0  # more GPUs that would have to be free; 0 where quota is not what is missing
    flavor: str = ""
    account: QuotaAccount | None = None  # its ClusterQueue's quota of GPUs in that flavor
    holders: tuple[QuotaHolder, ...] = ()  # jobs that hold quota it could use, most first
    unblocks: tuple[QuotaHolder, ...] = ()
    """The fewest running jobs whose end would make room; empty if no end would."""
    room: int = -1  # pods that the best place of the level they must share has room for; -1: not known
    position: int = 0  # in its ClusterQueue; 1 is tried first, 0 stands in no queue
    ahead: tuple[str, ...] = ()  # names of the jobs that are tried before it
