"""Parses Kueue's messages on a Workload: why it has no quota, and which workload preempted it."""

from __future__ import annotations

from msgspec import Struct

from console.kube.objects.meta import GPU, condition, label_int
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.kueue_snapshot import cluster_queue_name, job_name
from console.scheduling.why import Category
from trainlog import lazy_pattern

_REASON_TOKENS = {
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
_MESSAGE_FORMS = (
    (lazy_pattern(r"pending the preemption of \d+|will fit after these preemptions complete"), Category.PREEMPTING),
    (lazy_pattern(r"queue \S+ is stopped|queue is stopped"), Category.STOPPED),
    (lazy_pattern(r"queue \S+ (doesn't exist|not found)|queue doesn't exist"), Category.MISSING_QUEUE),
    (lazy_pattern(r"queue \S+ is inactive"), Category.INACTIVE_QUEUE),
    (lazy_pattern(r"in podsready condition"), Category.PODS_NOT_READY),
    (lazy_pattern(r"failed admission checks"), Category.CHECKS),
    (lazy_pattern(r"insufficient unused quota|no longer fits after processing|overlapping preemption"), Category.QUOTA),
    (lazy_pattern(r"allows to fit only|allow to fit|requires topology"), Category.TOPOLOGY),
    (lazy_pattern(r"maximum capacity|insufficient quota"), Category.EXCEEDS),
    (
        lazy_pattern(r"node affinity|untolerated taint|flavor \S+ not found|unavailable in clusterqueue"),
        Category.NO_FLAVOR,
    ),
    (lazy_pattern(r"does not provide resource"), Category.NO_FLAVOR),
    (lazy_pattern(r"doesn't match clusterqueue selector"), Category.MISSING_QUEUE),
    (lazy_pattern(r"preemption.* gated|admission is gated"), Category.GATED),
)
"""(pattern, category), the first match counts; a message may have a clause per flavor, with more hope in the first."""
_MORE_QUOTA_NEEDED = lazy_pattern(
    r"insufficient unused quota (?:in cohort )?for (\S+) in flavor ([^\s,]+), (\S+) more needed"
)
_OVER_CAPACITY = lazy_pattern(r"insufficient quota for (\S+) in flavor ([^\s,]+),.*?> maximum capacity \(([^)]*)\)")
_EXCLUDED_NODES = lazy_pattern(r"Total nodes: (\d{1,9}); excluded: (.{1,2000})")
_EXCLUSION = lazy_pattern(r"(\w{1,40}(?: \"[^\"]{1,300}\")?): (\d{1,9})")
_UNCOVERED = lazy_pattern(r"resource (\S{1,300}) unavailable in ClusterQueue")
_TOPOLOGY_FITS = lazy_pattern(r"allows? to fit (?:only (\d{1,9}) out|any) of (\d{1,9}) (?:pod|slice)")


class KueueMessage(Struct, frozen=True):
    """The parts of a Kueue message; a part is empty if the message lacks it."""

    category: Category | None = None  # None: the message has none that is known
    text: str = ""
    resource: str = ""  # the resource that is short
    flavor: str = ""
    more: str = ""  # how much more of it would be needed, in Kueue's spelling
    fits: int = -1  # pods that the best place has room for; -1 if not known
    nodes: int = 0  # that Kueue looked at, where it says which it excluded
    excluded: tuple[tuple[str, int], ...] = ()  # why, such as `taint "team=b:NoSchedule"`, and how many
    uncovered: str = ""  # a resource that the ClusterQueue has no quota of at all

    @property
    def more_gpus(self) -> int:
        """The number of further GPUs needed; 0 if unknown, or if another resource is short."""
        return label_int(self.more, 0) if self.resource == GPU else 0


def read_message(workload: Workload) -> KueueMessage:
    """The parts of Kueue's reason why a workload has no quota; the condition's reason counts more than its text."""
    reserved = condition(workload.conditions, "QuotaReserved")
    if reserved is None or reserved.is_true:
        return KueueMessage()
    text = reserved.message
    named = (category for pattern, category in _MESSAGE_FORMS if pattern.search(text.lower()))
    category = _REASON_TOKENS.get(reserved.reason) or next(named, None)
    beyond = _OVER_CAPACITY.findall(text) if "> maximum capacity (" in text else ()  # to make a pattern takes longer
    clauses = [*_MORE_QUOTA_NEEDED.findall(text), *((resource, flavor, "") for resource, flavor, _ in beyond)]
    resource, flavor, more = next((each for each in clauses if each[0] == GPU), clauses[0] if clauses else ("", "", ""))
    fits = _TOPOLOGY_FITS.search(text) if " to fit " in text else None
    room = int(fits.group(1) or 0) if fits else -1
    left_out = _EXCLUDED_NODES.search(text) if "Total nodes: " in text else None
    uncovered = _UNCOVERED.search(text) if " unavailable in ClusterQueue" in text else None
    excluded = tuple((why, int(count)) for why, count in _EXCLUSION.findall(left_out.group(2))) if left_out else ()
    return KueueMessage(
        category,
        text,
        resource,
        flavor,
        more,
        room,
        nodes=int(left_out.group(1)) if left_out else 0,
        excluded=excluded,
        uncovered=uncovered.group(1) if uncovered else "",
    )


def lasting_reason(workload: Workload) -> str:
    """Kueue's reason not to admit a workload if waiting for GPUs or places will not change it; else empty."""
    message = read_message(workload)
    lasting = {Category.NO_FLAVOR, Category.CHECKS, Category.GATED, Category.MISSING_QUEUE}
    return message.text if message.excluded or message.category in lasting else ""


_PREEMPTOR = lazy_pattern(
    r"\(UID: ([^\s,)]+)(?:, JobUID: ([^\s,)]+))?\)(?: due to ([^;]+))?(?:; preemptor path: (\S+?)(?:;|$))?"
)


def preempted_by(workload: Workload, fleet: Fleet) -> tuple[str, str]:
    """(preemptor, cause) of a workload's preemption: "llama-70b (ClusterQueue a4, priority 1000)"; empty if unknown."""
    evicted = condition(workload.conditions, "Preempted") or condition(workload.conditions, "Evicted")
    found = _PREEMPTOR.search(evicted.message) if evicted else None
    if found is None:
        return "", ""
    uid, job_uid, reason, path = found.groups(default="")
    other = next((each for each in fleet.workloads.values() if each.uid == uid), None)
    queue = path.rpartition("/")[2] or (cluster_queue_name(other, fleet) if other else "")
    where = f"ClusterQueue {queue}" if queue else ""
    if other is not None:
        name = job_name(other) if other.namespace == workload.namespace else f"{other.namespace}/{job_name(other)}"
        whom = f"{name} ({', '.join(filter(None, (where, f'priority {other.priority}')))})"
    elif jobset := fleet.jobset_by_uid.get(job_uid):
        whom = f"{jobset.name} ({where})" if where else jobset.name
    else:
        whom = f"a job of {where} that is not listed (any more)" if where else ""
    return whom, reason.strip()
