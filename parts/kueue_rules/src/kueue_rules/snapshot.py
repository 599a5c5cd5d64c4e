"""The state an admission cycle works on: workloads, queues, flavors, nodes, and a snapshot that allows trials.

An admission check is a further approval needed after the quota, for all workloads of a ClusterQueue or for those that
get one of its flavors. Ports Kueue 0.18 and 0.19, with the messages of 0.17.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field, field as msgspec_field
from msgspec.structs import replace

from kueue_rules.node_constraints import Requirement, Toleration, first_untolerated_taint
from kueue_rules.quota_tree import CohortQuota, Quantities, QuotaNode, build_cohort_trees

if TYPE_CHECKING:
    from kueue_rules.flavor_assignment import FlavorChoice
    from kueue_rules.topology_assignment import TopologyTree


Amounts = dict[str, int]  # by name of the resource
Key = tuple[str, str]  # namespace and name
Place = tuple[tuple[str, ...], int]  # the values of each level, and the pods there
TriedFlavors = tuple[Mapping[str, int], ...]
"""By pod set and resource the index of the last flavor tried, after which the next try begins; empty: at the first."""

UNLIMITED_PODS = 1_000_000  # pods of a node: the kubelet's own limit is never what a GPU job lacks

BACK_OF_QUEUE = frozenset({"PodsReadyTimeout", "AdmissionCheck"})
"""Eviction reasons after which a workload queues by the time of the eviction; after others it keeps its place."""


class KueueRelease(Struct, frozen=True):
    """A Kueue version, with those of its decisions and messages that differ from 0.18."""

    minor: int = 18  # of 0.18
    observability: bool = False
    """Feature gate UnadmittedWorkloadsObservability, on from 0.20: the condition's reason is why a workload waits."""
    off: frozenset[str] = frozenset()
    """The disabled ones of the feature gates PartialAdmission, TASRecomputeAssignmentWithinSchedulingCycle and
    TASFailedNodeReplacementFailFast."""


def queue_order_key(priority: int, queued: float, uid: str) -> tuple[int, float, str]:
    """Sort key of a queue's workloads: those of the highest priority first, then those that were queued first."""
    return -priority, queued, uid


class TopologyRequest(Struct, frozen=True):
    """A pod set's topology request; levels are node labels."""

    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None  # None: nothing is said of it
    slice_level: str = ""
    slice_size: int = 1  # 0: none was given
    inner_layers: tuple[tuple[str, int], ...] = ()
    """(level, pods that stay together in a domain of it) of slices within slices, wider levels first."""
    group: str = ""  # of two pod sets that are placed together: the smaller one is the leader

    @property
    def layers(self) -> tuple[tuple[str, int], ...]:
        """All layers of slices, wider ones first."""
        return ((self.slice_level, self.slice_size), *self.inner_layers) if self.slice_level else ()

    @property
    def explicit(self) -> bool:
        """Whether the pod set requests topology itself."""
        return bool(self.required or self.preferred or self.slice_level) or self.unconstrained is not None


class SnapshotPodSet(Struct, eq=False):
    """One pod set: total requests, requests of one pod, and node constraints."""

    name: str
    count: int
    requests: Amounts
    single: Amounts
    topology: TopologyRequest = field(default_factory=TopologyRequest)
    selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    """Terms of the required node affinity, one of which has to match; None: no node affinity."""
    has_affinity: bool = False  # of any kind
    tolerations: tuple[Toleration, ...] = ()
    flavors: Mapping[str, str] = field(default_factory=dict)  # resource -> flavor, once it holds quota
    places: tuple[Place, ...] = ()  # once it holds quota, if topology places it
    min_count: int | None = None  # the fewest pods with which it may be admitted; None: all
    asked: int = 0  # pods, if it was admitted with fewer

    def scaled(self, count: int) -> SnapshotPodSet:
        return replace(self, count=count, requests={name: value * count for name, value in self.single.items()})

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether node selector and node affinity allow a node with these labels."""
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return False
        if self.affinity is None:
            return True
        marks = {**labels, "metadata.name": name}
        return any(all(each.matches(marks) for each in term) for term in self.affinity)


class SnapshotWorkload(Struct, eq=False):
    key: Key
    uid: str
    cluster_queue: str
    priority: int
    queued: float  # the moment it queues by
    pod_sets: list[SnapshotPodSet]
    reserved: float = 0.0  # since when it holds quota
    evicted: bool = False  # whether it holds its quota only until its pods are gone
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    tried: TriedFlavors = ()
    second_pass: bool = False  # it holds quota, and is tried for the nodes that it lacks
    failed_nodes: tuple[str, ...] = ()  # of its nodes, those to replace in that pass
    refused: str = ""  # why it is not tried at all, such as limits of its namespace
    _shape: str = ""  # of `shape`, once it was asked for

    def usage(self) -> Quantities:
        total: Quantities = {}
        for pod_set in self.pod_sets:
            for resource, flavor in pod_set.flavors.items():
                if resource in pod_set.requests:
                    at = (flavor, resource)
                    total[at] = total.get(at, 0) + pod_set.requests[resource]
        return total

    def order(self) -> tuple[int, float, str]:
        return queue_order_key(self.priority, self.queued, self.uid)

    @property
    def may_shrink(self) -> bool:
        """Whether the workload may be admitted with fewer pods than it requests."""
        return any(each.min_count not in {None, each.count} for each in self.pod_sets)

    def shape(self) -> str:
        """A key that workloads which fit alike share, so that only one of them needs to be tried."""
        if not self._shape:
            parts = [
                (
                    each.name,
                    each.count,
                    each.min_count,
                    sorted(each.requests.items()),
                    each.topology,
                    sorted(each.selector.items()),
                    each.affinity,
                    each.tolerations,
                )
                for each in self.pod_sets
            ]
            self._shape = sys.intern(repr((parts, self.priority)))
        return self._shape


class Flavor(Struct, frozen=True):
    """A ResourceFlavor and the nodes it selects."""

    name: str
    labels: Mapping[str, str] = msgspec_field(default_factory=dict)
    taints: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""

    def matches(self, selector: Mapping[str, str], affinity: Sequence[Sequence[Requirement]] | None = None) -> bool:
        """Whether no label of the flavor contradicts the node selector and the node affinity of the pods."""
        if any(self.labels.get(key, value) != value for key, value in selector.items()):
            return False
        terms = [[each for each in term if each.key in self.labels] for term in affinity or ()]
        return not terms or any(all(each.matches(self.labels) for each in term) for term in terms)

    def untolerated_taint(self, tolerations: Iterable[Toleration]) -> str:
        """The flavor's first taint that is not tolerated; empty if all are."""
        return first_untolerated_taint(self.taints, (*tolerations, *self.tolerations))


class SnapshotNode(Struct, frozen=True):
    """A node that is ready and takes pods."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    allocatable: Amounts


class ResourceGroup(Struct, frozen=True):
    """Resources of a ClusterQueue that share one flavor, and their flavors in the order of trying."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class QueueNode(QuotaNode, eq=False):
    """A ClusterQueue in the quota tree, with its rules and the workloads that hold its quota."""

    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    within_queue: str = "Never"  # or LowerPriority, LowerOrNewerEqualPriority
    reclaim: str = "Never"  # within the cohort; or LowerPriority, Any
    borrow_within: int | None = None  # the highest priority that may go while borrowing, -1: any lower; None: none
    next_if_preempting: bool = True  # whether the next flavor is tried where this one would need preemption
    next_if_borrowing: bool = False
    preempts_before_borrowing: bool = (
        False  # which of two flavors is better: one without borrowing, or one without victims
    )
    namespaces: tuple[Requirement, ...] | None = ()  # None: of no namespace
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Admission checks, each with the flavors it is needed for; no flavors: for all."""
    provisioned: frozenset[str] = frozenset()
    """Flavors whose nodes a provisioning check creates: topology is assigned only once all checks are ready."""
    workloads: dict[Key, SnapshotWorkload] = field(default_factory=dict)

    def accepts_namespace(self, labels: Mapping[str, str]) -> bool:
        return self.namespaces is not None and all(each.matches(labels) for each in self.namespaces)

    def add_workload(self, workload: SnapshotWorkload) -> None:
        self.workloads[workload.key] = workload
        for at, value in workload.usage().items():
            self.add_usage(at, value)

    def remove_workload(self, workload: SnapshotWorkload) -> None:
        self.workloads.pop(workload.key, None)
        for at, value in workload.usage().items():
            self.remove_usage(at, value)


class Snapshot:
    def __init__(
        self,
        queues: Iterable[QueueNode],
        cohorts: Iterable[CohortQuota] = (),
        flavors: Iterable[Flavor] = (),
        trees: Mapping[str, TopologyTree] | None = None,
        holders: Iterable[SnapshotWorkload] = (),
        fair_sharing: Sequence[str] = (),
        release: KueueRelease = KueueRelease(),  # noqa: B008
    ) -> None:
        """`trees`: by flavor; `fair_sharing`: the preemption strategies in order, empty disables fair sharing."""
        self.fair_sharing, self.release = tuple(fair_sharing), release
        self.queues = {each.name: each for each in queues}
        self.flavors = {each.name: each for each in flavors}
        self.trees = trees or {}  # by flavor, of those that have a topology
        taken: dict[str, Amounts] = {}  # by node: flavors may share nodes, and what one uses the others lack
        for tree in self.trees.values():
            tree.weighs_leaders = release.minor > 18
            if tree.of_nodes:
                for leaf in tree.leaves:
                    leaf.used = taken.setdefault(leaf.values[-1], leaf.used)
        by_node = [tree for tree in self.trees.values() if tree.of_nodes]
        self._sharing = by_node if sum(len(tree.leaves) for tree in by_node) > len(taken) else []
        build_cohort_trees(cohorts, ((queue, queue.cohort) for queue in self.queues.values()))
        self.nodes = list(dict.fromkeys(node for each in self.queues.values() for node in (each, *each.ancestors())))
        self.failures: dict[tuple[object, ...], FlavorChoice] | None = None
        """Choices that fit by no quota, by workload shape and usage, for repeated cycles; None: not remembered."""
        for workload in holders:
            self.add_workload(workload)

    def add_workload(self, workload: SnapshotWorkload) -> None:
        """Add a workload's quota and topology usage."""
        if workload.cluster_queue in self.queues:
            self.queues[workload.cluster_queue].add_workload(workload)
        self._place_pods(workload, 1)

    def remove_workload(self, workload: SnapshotWorkload) -> None:
        if workload.cluster_queue in self.queues:
            self.queues[workload.cluster_queue].remove_workload(workload)
        self._place_pods(workload, -1)

    def _place_pods(self, workload: SnapshotWorkload, sign: int) -> None:
        for pod_set in workload.pod_sets:
            tree = next((self.trees[name] for name in pod_set.flavors.values() if name in self.trees), None)
            if tree is not None:
                for values, pods in pod_set.places:
                    tree.add_usage(values, pod_set.single, sign * pods)

    @contextmanager
    def one_cycle(self) -> Iterator[None]:
        """During this block flavors that share nodes see each other's usage as before it, as in a cycle of Kueue."""
        for tree in self._sharing:
            tree.before = {}
        yield
        changes = [
            (leaf, shared, {name: value - shared.get(name, 0) for name, value in leaf.used.items()})
            for tree in self._sharing
            for values, shared in (tree.before or {}).items()
            for leaf in (tree.leaf_of[values],)
        ]
        for leaf, shared, more in changes:
            leaf.used = shared
            for name, value in more.items():
                shared[name] = shared.get(name, 0) + value
        for tree in self._sharing:
            tree.before = None

    @contextmanager
    def without_workloads(self, workloads: Iterable[SnapshotWorkload]) -> Iterator[None]:
        """Remove some workloads during this block."""
        gone = [item for item in workloads if item.key in self.queues[item.cluster_queue].workloads]
        for item in gone:
            self.remove_workload(item)
        try:
            yield
        finally:
            for item in gone:
                self.add_workload(item)


class AdmissionVerdict(StrEnum):
    """The verdict of an admission check on a workload."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"  # it gives its quota back, and is tried again later
    REJECTED = "Rejected"  # it is deactivated


class AdmissionCheck(Struct, frozen=True):
    name: str
    state: str
    message: str = ""


def required_checks(queue: QueueNode, flavors: Collection[str] | None) -> frozenset[str]:
    """The admission checks for a workload with these flavors; None: only those needed with any flavor."""
    every = {name for group in queue.groups for name in group.flavors}
    if flavors is None:
        return frozenset(name for name, on in queue.checks.items() if (on or every) >= every)
    return frozenset(name for name, on in queue.checks.items() if (on or every) & set(flavors))


def open_checks(checks: Iterable[AdmissionCheck]) -> list[AdmissionCheck]:
    """The checks that a workload with quota still waits for, rejections first; empty if it can be admitted."""
    order: dict[str, int] = {AdmissionVerdict.REJECTED: 0, AdmissionVerdict.RETRY: 1}
    left = [each for each in checks if each.state != AdmissionVerdict.READY]
    return sorted(left, key=lambda each: (order.get(each.state, 2), each.name))


def worst_check_state(checks: Iterable[AdmissionCheck]) -> AdmissionVerdict | None:
    """The state, REJECTED or RETRY, in which a check takes the quota from the workload; None if none does."""
    states = {each.state for each in checks}
    return next((each for each in (AdmissionVerdict.REJECTED, AdmissionVerdict.RETRY) if each in states), None)


def refusal_words(checks: Iterable[AdmissionCheck], state: AdmissionVerdict, release: KueueRelease) -> str:
    """Kueue's message for checks in a state that makes a workload lose its quota."""
    found = sorted((each for each in checks if each.state == state), key=lambda each: each.name)
    if release.minor < 18:
        names = ",".join(each.name for each in found)
        retry = state is AdmissionVerdict.RETRY
        return "At least one admission check is false" if retry else f"Admission check(s): {names}, were rejected"
    named = "; ".join(f'"{each.name}" ({each.message})' if each.message else f'"{each.name}"' for each in found)
    words = f"AdmissionCheck{'s' if len(found) > 1 else ''} in {state} state: {named}"
    return f"Evicted due to {words}" if state is AdmissionVerdict.RETRY else words


def unadmitted_words(release: KueueRelease, *, reserved: bool, is_ready: bool) -> tuple[str, str]:
    """(reason, message) of the condition of a workload that is no longer admitted."""
    if reserved:
        reason = "UnsatisfiedAdmissionChecks" if release.observability else "UnsatisfiedChecks"
        return reason, "The workload has not all checks ready"
    if is_ready or release.observability:
        return "NoReservation", "The workload has no reservation"
    return "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
