"""Why a Workload waits, in one sentence with the arithmetic.

Kueue says it twice: a reason token on the QuotaReserved condition, which most clusters leave at "Pending", and a message.
What can be counted from quotas, holders and places is counted here; Kueue's own words decide only where counting cannot
(flavors, checks, policies), and stay one key away as `api_text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from console.models.capacity import Capacity, capacity, cohort_members
from console.models.condition import condition
from console.models.order import ahead_of
from console.models.places import Block, blocks, largest_free
from console.models.pools import SLOT
from console.models.queue import GPU, ClusterQueue
from console.models.workload import PodSet, Workload, WorkloadState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from console.models.fleet import Fleet


class Category(StrEnum):
    """What kind of thing is waited for."""

    NONE = "none"
    """It does not wait."""
    QUOTA = "quota"
    EXCEEDS_QUOTA = "exceeds quota"
    TOPOLOGY = "topology"
    BEHIND = "behind others"
    STOPPED = "queue stopped"
    NO_QUEUE = "no queue"
    INACTIVE_QUEUE = "queue inactive"
    CHECK = "admission check"
    BACKOFF = "backoff"
    DEACTIVATED = "deactivated"
    FLAVOR = "no flavor"
    PREEMPTING = "preempting"
    PODS = "pods"
    """Admitted, and its pods are not up: see `why_job`."""
    FAILED = "failed"
    UNSEEN = "not looked at yet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds GPUs somebody else waits for."""

    name: str
    namespace: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Why:
    """The answer; `sentence` is empty when nothing is waited for."""

    category: Category = Category.NONE
    sentence: str = ""
    api_text: str = ""
    """What the controller itself wrote."""
    short_by: int = 0
    """GPUs missing."""
    holders: tuple[Holder, ...] = ()
    """Who holds them, largest first."""
    unblocks: tuple[str, ...] = ()
    """The fewest running jobs whose end would free enough."""
    ahead: tuple[str, ...] = ()
    """Jobs that Kueue looks at first."""


TOKENS = {
    "ExceedsMaxQuota": Category.EXCEEDS_QUOTA,
    "WaitingForQuota": Category.QUOTA,
    "TopologyPlacementFailed": Category.TOPOLOGY,
    "NoMatchingFlavor": Category.FLAVOR,
    "WaitingForPreemptedWorkloads": Category.PREEMPTING,
    "Suspended": Category.STOPPED,
    "Misconfigured": Category.NO_QUEUE,
}
"""Reasons of QuotaReserved=False where the cluster writes granular ones; they go stale, so counting comes first."""


def why(workload: Workload, fleet: Fleet) -> Why:
    """Why this Workload has not been admitted."""
    state = workload.state
    if state is WorkloadState.RESERVED:
        return _checks(workload)
    if state is WorkloadState.DEACTIVATED:
        return _deactivated(workload)
    if not workload.waits:
        return Why()
    for explain in (_queue, _backoff):
        found = explain(workload, fleet)
        if found:
            return found
    queue = fleet.cluster_queue_of(workload)
    assert queue is not None, "a missing queue has been answered above"
    return _in_queue(workload, queue, fleet)


def name_of(workload: Workload) -> str:
    """What people call it: the job it stands for."""
    return workload.owner_name or workload.name


def _checks(workload: Workload) -> Why:
    open_checks = [each for each in workload.checks if each.state != "Ready"]
    text = "; ".join(f"{each.name}: {each.message or each.state}" for each in open_checks)
    names = ", ".join(each.name for each in open_checks) or "its admission checks"
    return Why(Category.CHECK, f"has its quota, and waits for {names}" + (f" ({text})" if text else ""), text)


def _deactivated(workload: Workload) -> Why:
    target = condition(workload.conditions, "DeactivationTarget") or condition(workload.conditions, "Evicted")
    text = target.message if target else ""
    return Why(Category.DEACTIVATED, "is switched off (spec.active is false)" + (f": {text}" if text else ""), text)


def _queue(workload: Workload, fleet: Fleet) -> Why | None:
    """What is wrong with the queues themselves."""
    text = workload.pending_message
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    if door is None:
        sentence = f"its LocalQueue {workload.queue or '(none named)'} does not exist in namespace {workload.namespace}"
        return Why(Category.NO_QUEUE, sentence, text)
    queue = fleet.cluster_queues.get(("", door.cluster_queue))
    if queue is None:
        return Why(Category.NO_QUEUE, f"its ClusterQueue {door.cluster_queue} does not exist", text)
    for kind, each in (("LocalQueue", door), ("ClusterQueue", queue)):
        if each.stop_policy not in {"", "None"}:
            return Why(Category.STOPPED, f"{kind} {each.name} is stopped (stopPolicy {each.stop_policy})", text)
        if each.inactive_reason:
            return Why(Category.INACTIVE_QUEUE, f"{kind} {each.name} is not active: {each.inactive_reason}", text)
    return None


def _backoff(workload: Workload, fleet: Fleet) -> Why | None:
    wait = workload.requeue_at - fleet.at
    if wait <= 0:
        return None
    evicted = condition(workload.conditions, "Evicted")
    text = evicted.message if evicted else ""
    sentence = f"was evicted {_times(workload.requeue_count)} and is queued again in {wait:.0f} s"
    return Why(Category.BACKOFF, sentence + (f" ({evicted.reason})" if evicted else ""), text)


def _in_queue(workload: Workload, queue: ClusterQueue, fleet: Fleet) -> Why:
    """What it needs against what there is."""
    text = workload.pending_message
    ahead = tuple(name_of(each) for each in ahead_of(workload, fleet))
    reserved = condition(workload.conditions, "QuotaReserved")
    token = TOKENS.get(reserved.reason) if reserved and not reserved.is_true else None
    room = capacity(queue, fleet)
    need = workload.total(GPU)
    if token is Category.PREEMPTING:
        return Why(token, f"others are being evicted for it: needs {_gpus(need)} of {queue.name}", text, ahead=ahead)
    if need > room.maximum:
        return Why(Category.EXCEEDS_QUOTA, _exceeds(need, queue, room), text, need - room.maximum, ahead=ahead)
    if need > room.free:
        return _short(workload, queue, room, fleet, ahead)
    if token in {None, Category.TOPOLOGY} and (token or _speaks_of_places(text)):
        return Why(Category.TOPOLOGY, _scattered(workload, fleet), text, ahead=ahead)
    if token is Category.FLAVOR or "flavor" in text and "doesn't match" in text:
        return Why(Category.FLAVOR, f"no flavor of {queue.name} takes it: {text}", text, ahead=ahead)
    if ahead and (queue.strategy == "StrictFIFO" or not text):
        return Why(Category.BEHIND, f"behind {_names(ahead)} in {queue.name} ({queue.strategy})", text, ahead=ahead)
    if not text:
        return Why(Category.UNSEEN, "has just arrived; Kueue has not looked at it yet", text, ahead=ahead)
    return Why(token or Category.UNKNOWN, text, text, ahead=ahead)


def _exceeds(need: int, queue: ClusterQueue, room: Capacity) -> str:
    more = f", with all it may borrow {room.maximum}" if room.maximum > room.nominal else ""
    return f"can never start here: needs {_gpus(need)}, {queue.name} has {room.nominal}{more}"


def _short(workload: Workload, queue: ClusterQueue, room: Capacity, fleet: Fleet, ahead: tuple[str, ...]) -> Why:
    """Not enough is free: how much is missing, who holds it, and whose end would do."""
    need = workload.total(GPU)
    missing = need - room.free
    holders = _holders(queue, fleet)
    unblocks = fewest(holders, missing)
    parts = [f"needs {_gpus(need)} of {queue.name}; {room.free} of {room.nominal} are free, {missing} more needed"]
    if room.lent:
        parts.append(f"{room.lent} are lent to {_names(_borrowers(queue, fleet))}")
    if holders:
        parts.append(f"biggest holder: {holders[0].name} ({holders[0].gpus})")
    if len(unblocks) == 1 and unblocks[0] != holders[0].name:
        parts.append(f"the end of {unblocks[0]} would do")
    if ahead:
        parts.append(f"behind {_names(ahead)}")
    sentence = "; ".join(parts)
    return Why(Category.QUOTA, sentence, workload.pending_message, missing, holders, unblocks, ahead)


def _holders(queue: ClusterQueue, fleet: Fleet) -> tuple[Holder, ...]:
    """Who holds quota that this queue could use: its own workloads, and those of the cohort that borrow."""
    names = {queue.name, *_borrowers(queue, fleet)}
    held = [
        Holder(name_of(each), each.namespace, each.total(GPU))
        for each in fleet.workloads.values()
        if each.cluster_queue in names and each.state in {WorkloadState.ADMITTED, WorkloadState.RESERVED}
    ]
    return tuple(sorted((each for each in held if each.gpus), key=lambda each: (-each.gpus, each.name)))


def _borrowers(queue: ClusterQueue, fleet: Fleet) -> list[str]:
    return sorted(other.name for other in cohort_members(queue, fleet) if other.borrowed())


def fewest(holders: Iterable[Holder], missing: int) -> tuple[str, ...]:
    """The fewest holders that together have at least `missing`; of single ones the smallest that does."""
    largest_first = sorted(holders, key=lambda each: (-each.gpus, each.name))
    enough = [each for each in largest_first if each.gpus >= missing]
    if enough:
        return (enough[-1].name,)
    taken: list[str] = []
    for each in largest_first:
        taken.append(each.name)
        missing -= each.gpus
        if missing <= 0:
            return tuple(taken)
    return ()


def _speaks_of_places(text: str) -> bool:
    return "topology" in text.lower()


def _scattered(workload: Workload, fleet: Fleet) -> str:
    """Quota is there, and no place is large enough."""
    floor = blocks(fleet.nodes.values(), fleet)
    group = max(workload.pod_sets, key=lambda each: each.total(GPU), default=PodSet(""))
    hosts = group.count
    if group.required_topology.endswith("subblock"):
        free = [(sub.name, sub.free_hosts) for block in floor for sub in block.subblocks]
        return _no_place("subblock", hosts, free)
    if group.required_topology.endswith("block"):
        return _no_place("block", hosts, [(block.name, block.free_hosts) for block in floor])
    return _no_hosts(hosts, floor)


def _no_place(kind: str, hosts: int, free: list[tuple[str, int]]) -> str:
    best = sorted(free, key=lambda each: (-each[1], each[0]))[:3]
    said = ", ".join(f"{name} has {count}" for name, count in best)
    return f"its quota is free, but no {kind} has {hosts} free hosts: {said or 'none is known'}"


def _no_hosts(hosts: int, floor: tuple[Block, ...]) -> str:
    free = largest_free(floor).anywhere // SLOT
    return f"its quota is free, but only {free} hosts are wholly free and it needs {hosts}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _times(count: int) -> str:
    return "once" if count <= 1 else f"{count} times"


def _names(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:2]) + (f" and {len(every) - 2} more" if len(every) > 2 else "")
