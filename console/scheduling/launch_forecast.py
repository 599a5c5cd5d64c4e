"""Forecasts the outcome of a job launched now, from quota, machines and topology.

Kueue decides by the same facts a moment later. It tries the flavors of a queue in their order; the best one is shown
here, since Kueue would end with it.

The choice of a queue considers only queues and quota, not machines: a command line does not list thousands of pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import structs

from console.kube.nested_values import Value, get_path
from console.kube.objects.meta import DEFAULT_GPU_TOLERATIONS, GPU, format_selector, selects_namespace
from console.kube.objects.node import GKE_PREFIX
from console.kube.objects.queue import ClusterQueue
from console.kube.objects.workload import PodSet as QueuedPodSet, Workload as QueuedWorkload
from console.kube.snapshot import Fleet, WatchState
from console.scheduling.free_slots import EligibleNodes, eligible_nodes, format_slots, jobs_blocking_placement
from console.scheduling.kueue_snapshot import closed_reason, gpu_flavors, queue_order
from console.scheduling.quota_ledger import QuotaLedger, as_quota_holder, flavor_account, quota_holders, quota_ledger
from console.scheduling.topology import BLOCK, MACHINE_GPUS, level_name
from console.scheduling.why import QuotaAccount, QuotaHolder, awaited_ends, free_when, frees_enough
from console.scheduling.why_quota import named_holders, quota_shortage
from kueue_rules import (
    HOSTNAME,
    FlavorAssigner,
    Mode,
    PreemptionSearch,
    SnapshotPodSet,
    SnapshotWorkload,
    Toleration,
    TopologyRequest,
    places_every_pod,
)

if TYPE_CHECKING:
    from console.scheduling.expected_start import ExpectedStart

_LAUNCH_NAME = "-launch-"  # names a workload that is not there, as none of a cluster can be named
_HOST_LEVEL = "host"
FORECAST_NOTE = "an estimate"  # to stand beside every forecast


class LaunchVerdict(StrEnum):
    """The possible outcomes of a launch, best first."""

    NOW = "fits now"
    SPLIT = "fits split over blocks"
    NO_QUEUE = "no queue"  # only machines were looked at: nothing holds a place for it
    WAITS = "waits"
    STOPPED = "queue stopped"
    UNKNOWN = "unknown"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class LaunchDemand:
    namespace: str
    queue: str = ""  # LocalQueue; empty: none
    gpus: int = MACHINE_GPUS
    topology: str = "none"  # preferred, required or none
    level: str = BLOCK  # Node label whose value the pods should or must share
    priority_class: str = ""
    priority: int | None = None  # the value of that class in the cluster; None: not known
    target_nodes: tuple[str, ...] = ()
    avoid_nodes: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = DEFAULT_GPU_TOLERATIONS  # taints that its pods put up with

    @property
    def size(self) -> int:
        return min(self.gpus, MACHINE_GPUS)

    @property
    def pods(self) -> int:
        """Number of pods that request GPUs."""
        return self.gpus // self.size if self.gpus > 0 else 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """Whether a launch would be admitted now, with a sentence that gives the numbers of GPUs."""

    verdict: LaunchVerdict
    sentence: str  # without a full stop
    flavor: str = ""
    need: int = 0
    free: int = 0  # what the queue could take now, by borrowing too
    total: int = 0  # what the queue can ever have in that flavor
    account: QuotaAccount = field(default_factory=QuotaAccount)  # how the free GPUs come about
    short_by: int = 0
    borrows: int = 0  # how much of it would be borrowed
    place: str = ""
    """The smallest topology domain that holds all pods, if Kueue assigns nodes: "host", "subblock" or "block"."""
    blocks: int = 0  # places of the level asked for that it would lie in; 0: not known
    holders: tuple[QuotaHolder, ...] = ()  # who has what is missing, most first
    ahead: tuple[QuotaHolder, ...] = ()  # who waits in the same queue and is tried first
    unblocks: tuple[QuotaHolder, ...] = ()  # the fewest jobs whose end would make room
    preempts: bool = False  # whether Kueue may evict others for it


def demand_of(values: Mapping[str, Value], namespace: str) -> LaunchDemand:
    selector = get_path(values, "placement.nodeSelector")
    labels = {str(key): str(value) for key, value in selector.items()} if isinstance(selector, dict) else {}
    if accelerator := get_path(values, "placement.accelerator"):
        labels[f"{GKE_PREFIX}gke-accelerator"] = str(accelerator)
    if get_path(values, "placement.flexStart"):
        labels[f"{GKE_PREFIX}gke-flex-start"] = "true"
    gpus = get_path(values, "gpus")
    return LaunchDemand(
        namespace=namespace,
        queue=str(get_path(values, "queue") or ""),
        gpus=gpus if isinstance(gpus, int) else 0,
        topology=str(get_path(values, "topology.request") or "none"),
        level=str(get_path(values, "topology.level") or BLOCK),
        priority_class=str(get_path(values, "priorityClass") or ""),
        target_nodes=_as_texts(get_path(values, "placement.targetNodes")),
        avoid_nodes=_as_texts(get_path(values, "placement.avoidNodes")),
        node_selector=tuple(sorted(labels.items())),
        tolerations=(*DEFAULT_GPU_TOLERATIONS, *_iter_tolerations(get_path(values, "placement.tolerations"))),
    )


def _iter_tolerations(value: Value) -> Iterator[Toleration]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            fields = {name: str(each.get(name) or "") for name in ("key", "value", "effect")}
            yield Toleration(fields["key"], str(each.get("operator") or "Equal"), fields["value"], fields["effect"])


def _as_texts(value: Value) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def unknown_reason(fleet: Fleet, plural: str, noun: str) -> str:
    """The reason why the objects of a kind are unknown; empty if they are known."""
    link = fleet.links.get(plural)
    if link is None or link.state is WatchState.LISTING:
        return f"the {noun} are still being listed"
    if link.state is WatchState.FORBIDDEN:
        return f"no permission to list {noun}"
    return f"this cluster has no {noun}" if link.state is WatchState.ABSENT else ""


def closed_queue_forecast(fleet: Fleet, demand: LaunchDemand) -> Forecast | None:
    if why := unknown_reason(fleet, "localqueues", "LocalQueues"):
        return Forecast(LaunchVerdict.UNKNOWN, why)
    door = fleet.local_queues.get((demand.namespace, demand.queue))
    if door is None:
        names = sorted(name for namespace, name in fleet.local_queues if namespace == demand.namespace)
        there = f"there are {', '.join(names[:6])}" if names else "the namespace has none"
        return Forecast(LaunchVerdict.NEVER, f"{demand.namespace} has no queue {demand.queue}; {there}")
    if why := unknown_reason(fleet, "clusterqueues", "ClusterQueues"):
        words = closed_reason(door)
        return Forecast(LaunchVerdict.STOPPED if words else LaunchVerdict.UNKNOWN, words or why)
    queue = fleet.cluster_queues.get(("", door.cluster_queue))
    if queue is None:
        words = f"queue {door.name} leads to ClusterQueue {door.cluster_queue}, which does not exist"
        return Forecast(LaunchVerdict.STOPPED, words)
    if selects_namespace(queue.namespaces, demand.namespace) is False:
        words = f"{queue.name} does not accept workloads of namespace {demand.namespace}"
        return Forecast(LaunchVerdict.NEVER, f"{words}; {format_selector(queue.namespaces)}")
    words = closed_reason(door) or closed_reason(queue)
    return Forecast(LaunchVerdict.STOPPED, words) if words else None


_BEST_FIRST = tuple(LaunchVerdict)


def forecast(fleet: Fleet, demand: LaunchDemand, expected_start: ExpectedStart | None = None) -> Forecast:
    """Forecast the launch from one snapshot, fast enough for each key press; `expected_start` is by simulation."""
    if demand.gpus <= 0:
        return Forecast(LaunchVerdict.NOW, "needs no GPU")
    if not demand.queue:
        return replace(_without_queue(fleet, demand), need=demand.gpus)
    found = closed_queue_forecast(fleet, demand) or _best_flavor_forecast(fleet, demand)
    known = not found.preempts and priority_of(fleet, demand) is not None
    waits = found.verdict is LaunchVerdict.WAITS and known and (found.short_by or found.unblocks)
    until = awaited_ends(found.unblocks, expected_start) if waits else ""
    frees = frees_enough(found.short_by, (*found.unblocks, *found.holders), expected_start)
    words = found.sentence + free_when(found.short_by, until, frees=frees)
    return replace(found, need=demand.gpus, sentence=words)


def free_quota_gpus(fleet: Fleet, demand: LaunchDemand) -> int:
    """The GPUs that the demand's queue could take now in its best flavor; the queue must be open."""
    queue = fleet.cluster_queues["", fleet.local_queues[demand.namespace, demand.queue].cluster_queue]
    books = (quota_ledger(fleet, each) for each in gpu_flavors(queue))
    usable = (each for each in books if each.flavor.matches(dict(demand.node_selector)))
    tolerated = (each for each in usable if not each.flavor.untolerated_taint(demand.tolerations))
    return max((each.account(queue.name).free for each in tolerated), default=0)


def _without_queue(fleet: Fleet, demand: LaunchDemand) -> Forecast:
    """The forecast of a launch that names no queue: only machines decide."""
    if why := unknown_reason(fleet, "nodes", "nodes"):
        return Forecast(LaunchVerdict.UNKNOWN, why)
    found = _eligible_nodes(fleet, "", demand)
    if found.total < demand.pods:
        return Forecast(LaunchVerdict.NEVER, _too_few_machines(demand, found))
    slots = f"{format_slots(demand.pods, demand.size, free=False)} {'is' if demand.pods == 1 else 'are'} free"
    return Forecast(LaunchVerdict.NO_QUEUE, f"no queue: it starts as soon as {slots}; {found.free} now")


def _best_flavor_forecast(fleet: Fleet, demand: LaunchDemand) -> Forecast:
    queue = fleet.cluster_queues["", fleet.local_queues[demand.namespace, demand.queue].cluster_queue]
    flavors = gpu_flavors(queue)
    if not flavors:
        return Forecast(LaunchVerdict.NEVER, f"ClusterQueue {queue.name} has no quota of GPUs")
    labelled = [each for each in flavors if quota_ledger(fleet, each).flavor.matches(dict(demand.node_selector))]
    if not labelled:
        labels = ", ".join(f"{key.rpartition('/')[2]}={value}" for key, value in demand.node_selector)
        return Forecast(LaunchVerdict.NEVER, f"no flavor of {queue.name} has machines with {labels}")
    tainted = {each: quota_ledger(fleet, each).flavor.untolerated_taint(demand.tolerations) for each in labelled}
    if all(tainted.values()):
        taints = ", ".join(f"{taint} of {flavor}" for flavor, taint in tainted.items())
        return Forecast(LaunchVerdict.NEVER, f"its pods do not tolerate {taints}: see Tolerations, under Placement")
    found = [_forecast_in_flavor(fleet, queue, flavor, demand) for flavor in labelled if not tainted[flavor]]
    best = min(found, key=lambda each: (_BEST_FIRST.index(each.verdict), each.short_by))
    if selects_namespace(queue.namespaces, demand.namespace) is None:
        unsure = f"if {demand.namespace} is one of its namespaces: {format_selector(queue.namespaces)}"
        best = replace(best, sentence=f"{best.sentence}; {unsure}")
    return best


def _forecast_in_flavor(fleet: Fleet, queue: ClusterQueue, flavor: str, demand: LaunchDemand) -> Forecast:
    have, priority = flavor_account(fleet, queue.name, flavor), priority_of(fleet, demand)
    own = max(0, have.nominal - have.used)
    pending = queue_order(fleet, queue.name).pending
    ahead = (each for each in pending if priority is not None and each.priority >= priority)
    draft = Forecast(
        LaunchVerdict.NOW,
        "",
        flavor=flavor,
        free=have.free,
        total=have.total,
        account=have,
        borrows=max(0, demand.gpus - own) if have.total > have.nominal else 0,
        ahead=tuple(as_quota_holder(each, fleet) for each in ahead),
    )
    if demand.gpus > have.total:
        words = f"needs {demand.gpus} GPUs, but {queue.name} can have at most {have.limit_text}"
        return replace(draft, verdict=LaunchVerdict.NEVER, sentence=words, short_by=demand.gpus - have.total)
    found, why = _machines(fleet, queue, flavor, demand)
    if found and found.total < demand.pods:
        return replace(draft, verdict=LaunchVerdict.NEVER, sentence=_too_few_machines(demand, found))
    if found and demand.topology == "required" and (never := found.why_never_fits(demand.pods, demand.level)):
        return replace(draft, verdict=LaunchVerdict.NEVER, sentence=never)
    if demand.gpus > have.free:
        return _forecast_without_quota(fleet, queue, demand, draft)
    if queue.strategy == "StrictFIFO" and pending and priority is None:
        words = f"{have.sum_text}, but {queue.name} is StrictFIFO, and {unknown_priority(demand)}"
        return replace(draft, verdict=LaunchVerdict.UNKNOWN, sentence=words)
    if queue.strategy == "StrictFIFO" and draft.ahead:
        words = f"{have.sum_text}, but {queue.name} is StrictFIFO: nothing passes {named_holders(draft.ahead)}"
        return replace(draft, verdict=LaunchVerdict.WAITS, sentence=words)
    if found is None:
        return replace(draft, sentence=f"there is quota ({have.sum_text}); {why}")
    return _forecast_placement(fleet, queue, demand, found, draft)


def _machines(fleet: Fleet, queue: ClusterQueue, flavor: str, demand: LaunchDemand) -> tuple[EligibleNodes | None, str]:
    """The nodes that the launch could use, or the reason why none are known (unlisted, or created on demand)."""
    if why := unknown_reason(fleet, "nodes", "nodes") or unknown_reason(fleet, "pods", "pods"):
        return None, why
    if queue.checks:
        named = ", ".join(queue.checks)
        return None, f"nodes are provisioned when the admission check {named} requests them, and when is not known"
    return _eligible_nodes(fleet, flavor, demand), ""


def _eligible_nodes(fleet: Fleet, flavor: str, demand: LaunchDemand) -> EligibleNodes:
    tolerations = (*demand.tolerations, *quota_ledger(fleet, flavor).flavor.tolerations)
    return eligible_nodes(
        fleet, demand.size, flavor, demand.node_selector, demand.target_nodes, demand.avoid_nodes, tolerations
    )


def _too_few_machines(demand: LaunchDemand, nodes: EligibleNodes) -> str:
    among = "the target nodes have" if demand.target_nodes else "the nodes it may use have"
    return f"needs {format_slots(demand.pods, demand.size, free=False)}, and {among} {nodes.total}"


def _forecast_without_quota(fleet: Fleet, queue: ClusterQueue, demand: LaunchDemand, draft: Forecast) -> Forecast:
    """The forecast if quota is short: its holders, and the ends or evictions of jobs that would free enough."""
    short = demand.gpus - draft.free
    held = quota_holders(fleet, queue.name, draft.flavor)
    book = quota_ledger(fleet, draft.flavor)
    evicted = _find_victims(fleet, book, queue.name, demand)
    words, unblocks = quota_shortage(book, queue.name, demand.gpus, held, [each.gpus for each in draft.ahead], evicted)
    if draft.ahead:
        words += f"; {len(draft.ahead)} ahead in the queue"
    if priority_of(fleet, demand) is None:
        words, unblocks = f"{words}; {unknown_priority(demand)}", ()
    return replace(
        draft,
        verdict=LaunchVerdict.WAITS,
        sentence=words,
        short_by=short,
        holders=held,
        unblocks=evicted or unblocks,
        preempts=bool(evicted),
    )


def _find_victims(fleet: Fleet, ledger: QuotaLedger, queue: str, demand: LaunchDemand) -> tuple[QuotaHolder, ...]:
    """The jobs that Kueue would evict for a launch; empty if none or if eviction does not suffice."""
    flavor, resource = ledger.at
    if (priority := priority_of(fleet, demand)) is None:
        return ()
    asks = SnapshotPodSet("all", 1, {resource: demand.gpus}, {}, tolerations=demand.tolerations)
    asked = SnapshotWorkload(("", ""), "", queue, priority, float("inf"), [asks])
    preemption = PreemptionSearch(ledger.snapshot, asked)
    choice = FlavorAssigner(asked, ledger.snapshot.queues[queue], ledger.snapshot, preemption.simulate).assign()
    found = preemption.targets(choice) if Mode.NO_FIT < choice.mode < Mode.FIT else ()
    return tuple(as_quota_holder(fleet.workloads[each.workload.key], fleet, flavor) for each in found)


def with_waiting_launch(fleet: Fleet, demand: LaunchDemand) -> tuple[Fleet, tuple[str, str]]:
    """The snapshot with the launch waiting in its queue, and the key of its workload there."""
    required = demand.level if demand.topology == "required" else ""
    pods = QueuedPodSet("workload", demand.pods, ((GPU, demand.size),), required_topology=required)
    rank, where = priority_of(fleet, demand) or 0, (demand.namespace, _LAUNCH_NAME)
    waiting = QueuedWorkload(*where, _LAUNCH_NAME, fleet.at, demand.queue, priority=rank, pod_sets=(pods,))
    return structs.replace(fleet, workloads={**fleet.workloads, waiting.key: waiting}), waiting.key


def priority_of(fleet: Fleet, demand: LaunchDemand) -> int | None:
    """The value of a launch's priority class, from the cluster or other workloads; None if unknown."""
    if not demand.priority_class or demand.priority is not None:
        return demand.priority or 0
    same = (each.priority for each in fleet.workloads.values() if each.priority_class == demand.priority_class)
    return next(same, None)


def unknown_priority(demand: LaunchDemand) -> str:
    return f"which priority {demand.priority_class} has is not known"


def _forecast_placement(
    fleet: Fleet, queue: ClusterQueue, demand: LaunchDemand, nodes: EligibleNodes, draft: Forecast
) -> Forecast:
    """The forecast if quota is free: whether machines are, and how close to each other."""
    required = demand.level if demand.topology == "required" and nodes.slots(demand.level) else ""
    if missing := nodes.shortage(demand.pods, required):
        blockers = jobs_blocking_placement(fleet, nodes, demand.pods, required)
        words, unblocks = f"quota of flavor {draft.flavor} is free, but {missing}", () if draft.ahead else blockers
        return replace(draft, verdict=LaunchVerdict.WAITS, sentence=words, holders=blockers, unblocks=unblocks)
    quota = f"{draft.account.sum_text} of flavor {draft.flavor} in {queue.name}"
    if draft.borrows:
        quota += f" ({draft.borrows} of its {demand.gpus} by borrowing)"
    quota += f"; it would take {demand.pods} of {format_slots(nodes.free, demand.size)}"
    places = _assigned_places(fleet, queue, demand, nodes, draft.flavor)
    level = demand.level
    over = len({each[level] for each in places if level in each}) or nodes.spread(demand.pods, level)
    if demand.topology == "preferred" and over > 1:
        words = f"{quota}, but split over {over} {level_name(demand.level)}s"
        return replace(draft, verdict=LaunchVerdict.SPLIT, sentence=words, blocks=over)
    place, name = _narrowest_common(places)
    where = f", in one {place}" if place and place != _HOST_LEVEL else ""
    return replace(draft, sentence=f"{quota}{where}{f' ({name})' if name else ''}", place=place, blocks=1)


def _assigned_places(
    fleet: Fleet, queue: ClusterQueue, demand: LaunchDemand, nodes: EligibleNodes, flavor: str
) -> list[dict[str, str]]:
    """By level the domains that Kueue would assign; empty where it leaves the nodes to kube-scheduler."""
    flavors = [fleet.flavors.get(("", each.flavor)) for each in queue.quotas]
    mine = fleet.flavors.get(("", flavor))
    topology = fleet.topologies.get(("", mine.topology)) if mine and mine.topology else None
    required, preferred = (demand.level if demand.topology == kind else "" for kind in ("required", "preferred"))
    asked = TopologyRequest(required, preferred)
    if topology is None or not (
        asked.explicit or places_every_pod([each.topology if each else "" for each in flavors])
    ):
        return []
    return nodes.assigned(demand.pods, topology.levels, asked)


def _narrowest_common(domains: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """(kind, name) of the narrowest topology domain that holds all places; empty texts if none does."""
    for level in reversed(list(domains[0]) if domains else []):
        if len({each[level] for each in domains}) == 1:
            return _HOST_LEVEL if level == HOSTNAME else level_name(level), domains[0][level]
    return "", ""


QUEUE_KINDS = ("localqueues", "clusterqueues", "resourceflavors", "cohorts")  # what the choice stands on
NO_QUEUE = "none"  # the word for a launch past Kueue


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """The LocalQueue chosen for a launch, and the reason for the choice."""

    queue: str = ""  # empty: there is none to choose
    why: str = ""  # in a few words, to stand behind its name; for none, a whole sentence with what to do
    other_queues: tuple[str, ...] = ()
    why_unknown: str = ""  # why nobody knows which queues there are; then a launch without one is no choice of anybody


@dataclass(frozen=True, slots=True)
class _QueueCandidate:
    name: str
    is_closed: bool
    fits: bool
    free: int | None  # GPUs of quota; None: not known


def choose_queue(fleet: Fleet, demand: LaunchDemand) -> QueueChoice:
    """The namespace's only LocalQueue, else a fitting one with the most free quota; closed ones last."""
    if demand.gpus <= 0:
        return QueueChoice("", "It requests no GPU, so it needs no queue.")
    found = _rank_queues(fleet, demand)
    if not found:
        link, why = fleet.links.get("localqueues"), unknown_reason(fleet, "localqueues", "LocalQueues")
        if link is not None and link.state is WatchState.STALE:
            why = "the connection was lost"
        if why and (link is None or link.state is not WatchState.ABSENT):
            return QueueChoice(why_unknown=f"the LocalQueues of {demand.namespace} are not known: {why}")
        text = why[:1].upper() + why[1:] if why else f"{demand.namespace} has no LocalQueue"
        return QueueChoice("", f"{text}. Name one with --queue, or create one: a4 preflight RECIPE --fix localqueue.")
    return QueueChoice(found[0].name, _why_chosen(found, demand), tuple(each.name for each in found[1:]))


def rank_queues(fleet: Fleet, demand: LaunchDemand) -> tuple[str, ...]:
    """The LocalQueues of the namespace, best first."""
    return tuple(each.name for each in _rank_queues(fleet, demand))


def _rank_queues(fleet: Fleet, demand: LaunchDemand) -> list[_QueueCandidate]:
    """The queues: fitting ones first, by free quota; closed ones last."""
    names = (name for where, name in fleet.local_queues if where == demand.namespace)
    found = (_queue_candidate(fleet, demand, name) for name in names)
    return sorted(found, key=lambda each: (each.is_closed, not each.fits, -(each.free or 0), each.name))


def _queue_candidate(fleet: Fleet, demand: LaunchDemand, name: str) -> _QueueCandidate:
    named = replace(demand, queue=name)
    trouble = closed_queue_forecast(fleet, named)
    closed = trouble is not None and trouble.verdict is not LaunchVerdict.UNKNOWN
    free = free_quota_gpus(fleet, named) if trouble is None else None
    return _QueueCandidate(name, closed, free is not None and free >= demand.gpus, free)


def _why_chosen(candidates: list[_QueueCandidate], demand: LaunchDemand) -> str:
    best, fitting = candidates[0], sum(each.fits for each in candidates)
    if len(candidates) == 1:
        return f"the only LocalQueue of {demand.namespace}"
    if best.is_closed:
        return f"none of the {len(candidates)} LocalQueues of {demand.namespace} admits anything now"
    if best.free is None:
        return f"one of {len(candidates)}; how much quota is free in them is not known"
    if not best.fits:
        count = len(candidates)
        return f"none of the {count} LocalQueues has {demand.gpus:,} GPUs free now; this one has most, {best.free:,}"
    if fitting == 1:
        return f"the only one of the {len(candidates)} LocalQueues with enough GPUs free now ({best.free:,})"
    return f"the one with the most GPUs free ({best.free:,}) of the {fitting} LocalQueues with enough now"
