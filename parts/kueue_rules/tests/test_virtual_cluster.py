"""The copy of a cluster tries fewer workloads than Kueue does, and decides the same."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given, settings, strategies as st

from kueue_rules import (
    DEFAULT_STRATEGIES,
    HOSTNAME,
    CohortQuota,
    CycleVerdict,
    Decision,
    Flavor,
    FlavorChoice,
    FlavorQuota,
    Move,
    PodSetChoice,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
    TopologyTree,
    TriedFlavorMemory,
    TriedFlavors,
    VirtualCluster,
    admission_cycle,
    without_quota,
)
from kueue_rules.virtual_cluster import MAX_PREEMPTION_ROUNDS

GPU = "nvidia.com/gpu"
BLOCK = "block"
NEAR = (TopologyRequest(), TopologyRequest(required=BLOCK), TopologyRequest(preferred=BLOCK))
POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")


class PlainCluster:
    """Every waiting workload goes through cycles one by one, those that may be tried first; nothing is remembered."""

    def __init__(self, snapshot: Snapshot, strict: Sequence[str]) -> None:
        self.snapshot, self._strict = snapshot, strict
        self.waiting: dict[str, list[SnapshotWorkload]] = {name: [] for name in snapshot.queues}
        self._parked: list[SnapshotWorkload] = []
        self._hopeless: set[tuple[str, str]] = set()
        self._freed: list[object] = []
        self._first: list[SnapshotWorkload] = []
        self._turns: list[object] = []
        self._tried: dict[str, dict[str, TriedFlavors]] = {name: {} for name in snapshot.queues}
        self._messages: dict[str, str] = {}

    def submit(self, workload: SnapshotWorkload) -> None:
        self.waiting[workload.cluster_queue].append(workload)
        self.waiting[workload.cluster_queue].sort(key=SnapshotWorkload.order)
        if (workload.cluster_queue, workload.shape()) in self._hopeless:
            self._parked.append(workload)

    def end(self, workload: SnapshotWorkload) -> None:
        self.snapshot.remove_workload(workload)
        self._freed.append(self.snapshot.queues[workload.cluster_queue].root)
        self._tried[workload.cluster_queue].clear()
        self._turns = []

    def admit(self, now: float) -> list[Move]:
        moves: list[Move] = []
        leaving: list[SnapshotWorkload] = []
        rounds = 0
        while True:
            heads = [head for name in self.waiting for head in self._candidates(name)[:1]]
            for head in heads:
                head.tried = self._tried[head.cluster_queue].get(head.uid, ())
            used = {node: dict(node.used) for node in self.snapshot.nodes}
            decisions = admission_cycle(heads, self.snapshot) if heads else []
            for node, before in used.items():
                node.used = before
            changed = [self._apply(each, moves, leaving, now) for each in decisions]
            turn = sorted((each.uid, self._messages.get(each.uid), str(self._tried[each.cluster_queue].get(each.uid)))
                          for each in heads)  # fmt: skip
            if any(changed) or (any(map(goes_on, decisions)) and turn not in self._turns):
                self._turns.append(turn)
                continue
            if self._freed:
                again = [each for each in self._parked if self.snapshot.queues[each.cluster_queue].root in self._freed]
                self._parked = [each for each in self._parked if each not in again]
                names = {name for name, queue in self.snapshot.queues.items() if queue.root in self._freed}
                self._hopeless = {each for each in self._hopeless if each[0] not in names}
                self._freed, self._turns = [], []
            elif leaving:
                for victim in leaving:
                    self.end(victim)
                    victim.evicted = False
                for victim in leaving:
                    self.submit(without_quota(victim))
                leaving = []
                rounds += 1
                if rounds > MAX_PREEMPTION_ROUNDS:
                    return moves
            else:
                return moves

    def _candidates(self, name: str) -> list[SnapshotWorkload]:
        """Those that may be tried: first who waits for its victims."""
        active = [each for each in self.waiting[name] if each not in self._parked]
        return sorted(active, key=lambda each: each not in self._first)

    def _apply(self, decision: Decision, moves: list[Move], leaving: list[SnapshotWorkload], now: float) -> bool:
        workload, name = decision.workload, decision.workload.cluster_queue
        known = self._messages.get(workload.uid) == decision.message
        self._messages[workload.uid] = decision.message
        self._tried[name].pop(workload.uid, None)
        if decision.verdict is CycleVerdict.ADMIT:
            self.waiting[name].remove(workload)
            del self._messages[workload.uid]
            self._tried[name].clear()
            held = self.snapshot.queues[name].workloads[workload.key]
            held.reserved = now
            for at, amount in held.usage().items():
                self.snapshot.queues[name].add_usage(at, amount)
            moves.append(Move(held))
            self._turns = []
            return True
        if decision.verdict is CycleVerdict.PREEMPT:
            victims = [each.workload for each in decision.targets if not each.workload.evicted]
            for victim in victims:
                victim.evicted = True
                self._tried[victim.cluster_queue].clear()
                self._turns = []
            moves += [Move(each, workload) for each in victims]
            leaving += victims
            if name not in self._strict:
                self._first = [each for each in self._first if each.cluster_queue != name] + [workload]
            return bool(victims)
        if goes_on(decision) and known:
            self._tried[name][workload.uid] = tuple(each.tried for each in decision.choice.pod_sets)
        if goes_on(decision) or decision.verdict is CycleVerdict.SKIP or name in self._strict:
            return False
        alike = [workload]
        if decision.verdict is CycleVerdict.HOPELESS:
            self._hopeless.add((name, workload.shape()))
            alike = [each for each in self._candidates(name) if each.shape() == workload.shape()]
        self._parked += alike
        return True


def goes_on(decision: Decision) -> bool:
    return decision.verdict is CycleVerdict.HOPELESS and decision.choice.flavors_left


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Snapshot, Snapshot, list[str], list[SnapshotWorkload]]:
    """The same cluster twice, its strict queues, and workloads in the order in which they come."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    flavors = ["first", "second"][: draw(st.integers(1, 2))]
    placed, fair = draw(st.booleans()), draw(st.booleans())
    rules = [
        (
            draw(st.sampled_from(("", "all", "all", "inner"))),
            {flavor: draw(st.sampled_from((0, 8, 16, 32))) for flavor in flavors},
            draw(st.sampled_from((None, 0, 8))),
            draw(st.sampled_from((None, 8))),
            draw(st.sampled_from(POLICIES)),
            draw(st.sampled_from(("Never", "LowerPriority", "Any"))),
            draw(st.sampled_from((None, -1))),
        )
        for _ in names
    ]

    def snapshot() -> Snapshot:
        known = [Flavor(flavor, topology="net" if placed else "") for flavor in flavors]
        trees = {}
        for flavor in known if placed else ():
            nodes = [
                SnapshotNode(f"{flavor.name}-{at}", {BLOCK: f"{at // 2}", HOSTNAME: f"{flavor.name}-{at}"}, (),
                     {GPU: 8, "pods": 1000})
                for at in range(5)
            ]  # fmt: skip
            trees[flavor.name] = TopologyTree("net", (BLOCK, HOSTNAME), flavor, nodes, {})
        queues = [
            QueueNode(
                name, quotas={(each, GPU): FlavorQuota(gpus, borrowing, lending) for each, gpus in own.items()},
                cohort=cohort, groups=(ResourceGroup((GPU,), tuple(flavors)),), within_queue=within, reclaim=reclaim,
                borrow_within=borrow,
            )
            for name, (cohort, own, borrowing, lending, within, reclaim, borrow) in zip(names, rules, strict=True)
        ]  # fmt: skip
        cohorts = [CohortQuota("all", quotas={(flavors[0], GPU): FlavorQuota(8)}), CohortQuota("inner", "all")]
        return Snapshot(queues, cohorts, known, trees, (), DEFAULT_STRATEGIES if fair else ())

    workloads = []
    for number in range(draw(st.integers(1, 14))):
        nodes, near = draw(st.integers(1, 4)), draw(st.sampled_from(NEAR))
        topology = near if placed else NEAR[0]
        pods = SnapshotPodSet("main", nodes, {GPU: 8 * nodes}, {GPU: 8}, topology=topology)
        name, priority = draw(st.sampled_from(names)), draw(st.sampled_from((0, 0, 0, 5)))
        workloads.append(SnapshotWorkload(("ns", f"w{number}"), f"{number:02}", name, priority, float(number), [pods]))
    return snapshot(), snapshot(), [name for name in names if draw(st.booleans())], workloads


def outcomes(moves: Sequence[Move]) -> list[object]:
    return [
        (each.workload.uid, each.preempted_by and each.preempted_by.uid,
         [(group.flavors, group.places) for group in each.workload.pod_sets])
        for each in moves
    ]  # fmt: skip


@pytest.mark.slow(reason="many random examples")
@settings(max_examples=150, deadline=None)
@given(scenes(), st.data())
def test_it_decides_as_if_every_workload_were_tried(
    scene: tuple[Snapshot, Snapshot, list[str], list[SnapshotWorkload]], data: st.DataObject
) -> None:
    one, other, strict, workloads = scene
    quick, plain = VirtualCluster(one, strict), PlainCluster(other, strict)
    restore = quick.checkpoint()
    for workload in workloads:  # what it has learned in another rollout changes nothing
        quick.submit(workload)
        quick.admit()
    restore()
    for now, workload in enumerate(workloads):
        quick.submit(workload)
        plain.submit(deepcopy(workload))  # both note in it which flavors they have tried
        if data.draw(st.integers(0, 2)):
            continue
        assert outcomes(quick.admit(now)) == outcomes(plain.admit(now))
        assert quick.waiting.keys() == plain.waiting.keys()
        for name, listed in plain.waiting.items():
            assert [each.uid for each in quick.waiting[name]] == [each.uid for each in listed]
        running = sorted((key, name) for name, queue in one.queues.items() for key in queue.workloads)
        if running:
            key, name = data.draw(st.sampled_from(running))
            for cluster in (quick, plain):
                cluster.end(cluster.snapshot.queues[name].workloads[key])
        for node, same in zip(one.nodes, other.nodes, strict=True):
            assert {at: value for at, value in node.used.items() if value} == {
                at: value for at, value in same.used.items() if value
            }


def cluster_of(queues: Sequence[QueueNode], **nodes: int) -> VirtualCluster:
    """Queues in one cohort, or without one, and so many nodes of each flavor."""
    trees = {}
    for name, count in nodes.items():
        named = [f"{name}-{at}" for at in range(count)]
        machines = [SnapshotNode(each, {HOSTNAME: each}, (), {GPU: 8, "pods": 1000}) for each in named]
        trees[name] = TopologyTree("net", (HOSTNAME,), Flavor(name, topology="net"), machines, {})
    return VirtualCluster(Snapshot(queues, (), [tree.flavor for tree in trees.values()], trees), ())


def team(name: str, quota: dict[str, int], cohort: str = "", reclaim: str = "Never") -> QueueNode:
    return QueueNode(
        name, quotas={(flavor, GPU): FlavorQuota(gpus) for flavor, gpus in quota.items()}, cohort=cohort,
        groups=(ResourceGroup((GPU,), tuple(quota)),), within_queue="LowerPriority", reclaim=reclaim,
    )  # fmt: skip


def job(name: str, queue: str, nodes: int, priority: int = 0) -> SnapshotWorkload:
    return SnapshotWorkload(
        ("ns", name), name, queue, priority, 0.0, [SnapshotPodSet("main", nodes, {GPU: 8 * nodes}, {GPU: 8})]
    )


def words(moves: Sequence[Move]) -> list[str]:
    return [f"{each.workload.uid}{' out' if each.preempted_by else ''}" for each in moves]


def test_what_is_preempted_starts_again_where_there_is_room() -> None:
    queues = [team("mine", {"first": 16}, "all", "Any"), team("guests", {"first": 0, "second": 16}, "all")]
    cluster = cluster_of(queues, first=2, second=2)
    cluster.submit(job("guest", "guests", 2))
    assert words(cluster.admit()) == ["guest"]
    cluster.submit(job("owner", "mine", 2))
    moves = cluster.admit()
    assert words(moves) == ["guest out", "owner", "guest"]
    assert moves[-1].workload.pod_sets[0].flavors == {GPU: "second"}


def test_what_started_with_fewer_pods_is_tried_with_all_again_once_it_was_preempted() -> None:
    cluster = cluster_of([team("mine", {"first": 32})], first=4)
    cluster.submit(job("runs", "mine", 2, 1))
    smaller = job("smaller", "mine", 4)
    smaller.pod_sets[0].min_count = 1
    cluster.submit(smaller)
    _, fewer = cluster.admit()
    cluster.submit(job("urgent", "mine", 2, 9))
    assert words(cluster.admit()) == ["smaller out", "urgent"]
    for each in list(cluster.snapshot.queues["mine"].workloads.values()):
        cluster.end(each)
    (whole,) = cluster.admit()
    assert [each.workload.pod_sets[0].count for each in (fewer, whole)] == [2, 4]


def test_a_flavor_whose_nodes_are_taken_leads_to_the_next_one() -> None:
    cluster = cluster_of([team("mine", {"first": 64, "second": 64})], first=1, second=2)
    for name in ("one", "two"):
        cluster.submit(job(name, "mine", 1))
    moves = cluster.admit()
    assert [each.workload.pod_sets[0].flavors[GPU] for each in moves] == ["first", "second"]


def test_only_its_own_cohort_is_tried_again_when_something_ends() -> None:
    cluster = cluster_of([team("mine", {"first": 64}), team("others", {"first": 64})], first=1)
    cluster.submit(job("running", "mine", 1))
    (running,) = cluster.admit()
    cluster.submit(job("waiting", "others", 1))
    cluster.submit(job("next", "mine", 1))
    assert cluster.admit() == []
    cluster.end(running.workload)
    assert words(cluster.admit()) == ["next"]


def test_what_was_tried_in_vain_twice_begins_with_the_first_flavor_again() -> None:
    cluster = cluster_of([team("mine", {"first": 16, "second": 0}), team("others", {"first": 32})], first=5, second=5)
    cluster.submit(job("short", "mine", 1))
    (short,) = cluster.admit()
    cluster.end(short.workload)
    cluster.submit(job("large", "others", 4, priority=1))
    cluster.submit(job("waiting", "mine", 2))
    assert words(cluster.admit()) == ["large"], "the first flavor has one node left, the second no quota"
    cluster.submit(job("other", "mine", 1))
    (other,) = cluster.admit()
    cluster.end(cluster.snapshot.queues["others"].workloads["ns", "large"])
    cluster.end(other.workload)
    assert words(cluster.admit()) == ["waiting"]


def test_one_that_waits_for_its_victims_starts_when_they_are_gone_whichever_flavor_has_its_turn() -> None:
    queues = [team("mine", {"first": 16, "second": 16}, "all"), team("others", {"first": 0, "second": 8}, "all")]
    cluster = cluster_of(queues, first=1, second=1)
    for name, priority in (("above", 9), ("victim", 0)):
        cluster.submit(job(name, "mine", 1, priority))
    assert words(cluster.admit()) == ["above", "victim"]
    cluster.submit(job("beside", "others", 1, 9))
    assert cluster.admit() == []
    cluster.submit(job("urgent", "mine", 1, 5))
    assert words(cluster.admit()) == ["victim out", "urgent"]


def test_a_try_begins_with_the_first_flavor_again_once_something_was_written() -> None:
    turns, waiting = TriedFlavorMemory(), job("waiting", "mine", 1)
    first = FlavorChoice([PodSetChoice(waiting.pod_sets[0], tried={GPU: 0})])
    turns.note(waiting, "no room", first)
    assert turns.tried_flavors(waiting) == (), "the message was written to it"
    assert turns.meet_anew([waiting])
    turns.note(waiting, "no room", first)
    assert turns.tried_flavors(waiting) == ({GPU: 0},)
    assert turns.meet_anew([waiting])
    turns.written("mine")
    assert turns.tried_flavors(waiting) == ()
    assert turns.meet_anew([waiting])
    assert not turns.meet_anew([waiting]), "it went round"


def test_one_that_no_longer_fits_beside_a_head_is_tried_beside_it_in_each_of_its_turns() -> None:
    queues = [team("mine", {"first": 16, "second": 16}, "all"), team("others", {"first": 8}, "all")]
    cluster = VirtualCluster(cluster_of(queues, first=2, second=1).snapshot, ["mine"])
    for name, queue, nodes, priority in (("above", "others", 1, 9), ("wide", "mine", 2, 1)):
        cluster.submit(job(name, queue, nodes, priority))
    assert words(cluster.admit()) == ["above"]
    cluster.submit(job("narrow", "others", 1))
    assert words(cluster.admit()) == ["narrow"], "it fits while the other tries the second flavor"
