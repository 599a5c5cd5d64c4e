"""What Kueue says of a Workload without quota: reason tokens where its gate is on, else the text of the message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.condition import condition
from console.models.explanation import Category
from console.models.queue import GPU

if TYPE_CHECKING:
    from console.models.workload import Workload

_TOKENS = {
    "Deactivated": Category.DEACTIVATED,
    "OnHold": Category.GATED,
    "Misconfigured": Category.MISSING_QUEUE,
    "NoMatchingFlavor": Category.NO_FLAVOR,
    "Suspended": Category.STOPPED,
    "AdmissionGated": Category.GATED,
    "WaitingForPodsReady": Category.PODS_NOT_READY,
    "Waiting": Category.PODS_NOT_READY,
    "ExceedsMaxQuota": Category.EXCEEDS,
    "WaitingForQuota": Category.QUOTA,
    "TopologyPlacementFailed": Category.TOPOLOGY,
    "WaitingForPreemptedWorkloads": Category.PREEMPTING,
    "PendingEvaluation": Category.NOT_EVALUATED,
}
_TEXTS = (
    (re.compile(r"pending the preemption of \d+"), Category.PREEMPTING),
    (re.compile(r"queue \S+ is stopped|queue is stopped"), Category.STOPPED),
    (re.compile(r"queue \S+ (doesn't exist|not found)|queue doesn't exist"), Category.MISSING_QUEUE),
    (re.compile(r"queue \S+ is inactive"), Category.INACTIVE_QUEUE),
    (re.compile(r"in podsready condition"), Category.PODS_NOT_READY),
    (re.compile(r"failed admission checks"), Category.CHECKS),
    (re.compile(r"insufficient unused quota|no longer fits after processing|overlapping preemption"), Category.QUOTA),
    (re.compile(r"allows to fit only|allow to fit|requires topology"), Category.TOPOLOGY),
    (re.compile(r"maximum capacity|insufficient quota"), Category.EXCEEDS),
    (
        re.compile(r"node affinity|untolerated taint|flavor \S+ not found|unavailable in clusterqueue"),
        Category.NO_FLAVOR,
    ),
    (re.compile(r"does not provide resource"), Category.NO_FLAVOR),
    (re.compile(r"doesn't match clusterqueue selector"), Category.MISSING_QUEUE),
    (re.compile(r"preemption.* gated|admission is gated"), Category.GATED),
)
"""Over several flavors the message has several clauses; the one that may still come true comes first here."""
_MORE = re.compile(r"insufficient unused quota (?:in cohort )?for (\S+) in flavor ([^\s,]+), (\S+) more needed")
_OVER = re.compile(r"insufficient quota for (\S+) in flavor ([^\s,]+),.*?> maximum capacity \(([^)]*)\)")
_FITS = re.compile(r"allows? to fit (?:only (\d+) out|any) of (\d+) (?:pod|slice)")


@dataclass(frozen=True, slots=True)
class Said:
    """What could be read out of it; empty where it says nothing."""

    category: Category | None = None
    """None: nothing known was said."""
    text: str = ""
    resource: str = ""
    """The resource that is short."""
    flavor: str = ""
    more: str = ""
    """How much more of it would be needed, in Kueue's spelling."""
    fits: int = -1
    """Pods that the best place has room for; -1 if not said."""

    @property
    def more_gpus(self) -> int:
        """How many more GPUs, 0 if it is not said or something else is short."""
        return int(self.more) if self.resource == GPU and self.more.isdecimal() else 0


def said_of(workload: Workload) -> Said:
    """Reads the condition by type and status; a token counts before the text, "Pending" and unknown tokens do not."""
    reserved = condition(workload.conditions, "QuotaReserved")
    if reserved is None or reserved.is_true:
        return Said()
    text = reserved.message
    category = _TOKENS.get(reserved.reason) or _category_of(text)
    clauses = [*_MORE.findall(text), *((resource, flavor, "") for resource, flavor, _ in _OVER.findall(text))]
    resource, flavor, more = next((each for each in clauses if each[0] == GPU), clauses[0] if clauses else ("", "", ""))
    fits = _FITS.search(text)
    room = int(fits.group(1) or 0) if fits else -1
    return Said(category, text, resource, flavor, more, room)


def _category_of(text: str) -> Category | None:
    words = text.lower()
    return next((category for pattern, category in _TEXTS if pattern.search(words)), None)
