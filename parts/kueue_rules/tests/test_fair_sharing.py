"""Fair sharing: the cases of Kueue's own tests of it (preemption_fair_test.go), and who comes first in a cycle."""

import pytest

from kueue_rules import (
    DEFAULT_STRATEGIES,
    LESS_OR_EQUAL_TO_FINAL,
    LESS_THAN_INITIAL,
    CohortQuota,
    CycleVerdict,
    Flavor,
    FlavorQuota,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotPodSet,
    SnapshotWorkload,
    admission_cycle,
)

AT = ("default", "cpu")
RECLAIM, FAIR, OWN = "InCohortReclamation", "InCohortFairSharing", "InClusterQueue"
UNITS = "b1:1 b2:1 b3:1 b4:1 b5:1"
HALVES = "a1:0.5 a2:0.5 a3:3 b1:0.5 b2:0.5 b3:3"


def queue(name: str, cpus: float = 3, cohort: str = "all", weight: float = 1) -> QueueNode:
    return QueueNode(
        name, weight=weight, quotas={AT: FlavorQuota(int(cpus * 1000))}, cohort=cohort,
        groups=(ResourceGroup(("cpu",), ("default",)),), within_queue="LowerPriority", reclaim="Any",
    )  # fmt: skip


def workload(text: str, *, holds: bool = True) -> SnapshotWorkload:
    """Such as b1:2@5: of queue b, 2 CPUs, priority 5."""
    name, _, rest = text.partition(":")
    cpus, _, priority = rest.partition("@")
    amount = int(float(cpus) * 1000)
    pods = SnapshotPodSet("main", 1, {"cpu": amount}, {"cpu": amount}, flavors={"cpu": "default"} if holds else {})
    return SnapshotWorkload(
        ("ns", name), name, name.rstrip("0123456789"), int(priority or 0), 0.0, [pods], reserved=1.0
    )


def victims(snapshot: Snapshot, incoming: str) -> dict[str, str]:
    """Who would have to go, and why; whoever does not go holds its quota as before."""
    used = {name: each.used.get(AT, 0) for name, each in snapshot.queues.items()}
    (found,) = admission_cycle([workload(incoming, holds=False)], snapshot)
    if found.verdict is CycleVerdict.HOPELESS:
        assert {name: each.used.get(AT, 0) for name, each in snapshot.queues.items()} == used
    return {each.workload.uid: each.reason for each in found.targets}


@pytest.mark.parametrize(
    ("held", "incoming", "expected"),
    [
        (f"a1:1 a2:1 a3:1 {UNITS} c1:1", "c:1", {"b1": RECLAIM}),
        ("a1:3 a2:1 b1:2 b2:3", "c:3", {"a1": RECLAIM}),
        (f"a1:1 a2:1 a3:1 {UNITS} c1:1", "a:1", {"b1": FAIR}),
        (HALVES, "c:2", {"a1": RECLAIM, "b1": RECLAIM}),
        ("a1:1 a2:1 a3:1 b1:1 b2:1 b3:1 c1:1 c2:1 c3:1", "c:1", {}),
        (f"a1:1 a2:1 a3:1 {UNITS}", "a:2", {}),
        (f"a1:1@-1 a2:1@-1 a3:1 a4:1 {UNITS}", "a:2", {"a1": OWN, "a2": OWN}),
        (f"a1:1@-1 a2:1 a3:1 {UNITS} b6:1", "a:2", {"a1": OWN, "b1": FAIR}),
        ("b1:9", "a:2", {"b1": RECLAIM}),
        ("a1:2 b1:7", "a:5", {}),
        ("b1:2 b2:2 b3:3", "a:6", {}),
        ("a1:2@-1 a2:1@-1 b1:3 b2:3", "a:4", {"a1": OWN, "b1": FAIR}),
        ("b1:2 b2:1 b3:2 c1:1", "a:3.5", {"b2": FAIR}),
        ("b1:2 b2:2.5 c1:2 c2:2.5", "a:3.5", {"b1": FAIR, "c1": FAIR}),
        ("a1:3.5 b2:2.5 c2:2.5", "b:2", {}),
        ("b1:3 b2:3 c1:3", "a:4", {}),
        ("a1:1 a2:1 a3:1 b1:1 b2:1 b3:1 none1:1@-3 none2:1@-3 none3:1@-3", "a:2", {}),
    ],
)
def test_who_has_to_go(held: str, incoming: str, expected: dict[str, str]) -> None:
    queues = [queue("a"), queue("b"), queue("c"), queue("none", 0)]
    snapshot = Snapshot(queues, (), [Flavor("default")], None, map(workload, held.split()), DEFAULT_STRATEGIES)
    assert victims(snapshot, incoming) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"), [(LESS_THAN_INITIAL, {"b1": FAIR}), (LESS_OR_EQUAL_TO_FINAL, {"b2": FAIR})]
)
def test_one_strategy_alone(strategy: str, expected: dict[str, str]) -> None:
    held = map(workload, ["a1:3", "b1:5", "b2:1@1"])
    snapshot = Snapshot([queue("a"), queue("b"), queue("c")], (), [Flavor("default")], None, held, (strategy,))
    assert victims(snapshot, "a:1") == expected


@pytest.mark.parametrize(
    ("weights", "incoming", "held", "expected"),
    [
        ((2, 1), "a:2", f"a1:1 a2:1 a3:1 {UNITS} b6:1", {"b1": FAIR, "b2": FAIR}),
        ((1, 0), "a:3", f"a1:1 a2:1 a3:1 {UNITS} b6:1", {"b1": FAIR, "b2": FAIR, "b3": FAIR}),
        ((1, 0), "a:1", "a1:1 a2:1 a3:1 b1:1 b2:1 b3:1 c1:3", {}),
    ],
)
def test_weights(weights: tuple[float, float], incoming: str, held: str, expected: dict[str, str]) -> None:
    queues = [queue("a", weight=weights[0]), queue("b", weight=weights[1]), queue("c")]
    snapshot = Snapshot(queues, (), [Flavor("default")], None, map(workload, held.split()), DEFAULT_STRATEGIES)
    assert victims(snapshot, incoming) == expected


def test_shares_are_compared_where_the_ways_to_two_queues_part() -> None:
    queues = [
        queue("a", 1, "left", 2), queue("b", 1, "left"), queue("c", 1, "root"), queue("d", 1, "right"),
        queue("e", 1, "right", 0.99),
    ]  # fmt: skip
    five = {AT: FlavorQuota(5000)}
    cohorts = [CohortQuota("root", "", five), CohortQuota("left", "root", five, 2), CohortQuota("right", "root", five)]
    held = [f"{name}{n}:1@{n}" for name in "bcde" for n in range(1, 6)]
    snapshot = Snapshot(queues, cohorts, [Flavor("default")], None, map(workload, held), DEFAULT_STRATEGIES)
    assert victims(snapshot, "a:5") == {"b1": FAIR, "b2": FAIR, "c1": FAIR, "c2": FAIR, "e1": FAIR}


def test_without_a_cohort_only_priority_counts() -> None:
    snapshot = Snapshot([queue("a", 1, "")], (), [Flavor("default")], None, [workload("a1:1")], DEFAULT_STRATEGIES)
    assert victims(snapshot, "a:1@9") == {"a1": OWN}


def test_the_head_comes_first_whose_queue_would_have_the_smaller_share() -> None:
    heads = [workload("b9:1@100", holds=False), workload("a9:1", holds=False)]
    for strategies, order in (((), ["b9", "a9"]), (DEFAULT_STRATEGIES, ["a9", "b9"])):
        queues, held = [queue("a", 2), queue("b", 2), queue("c", 4)], map(workload, ("a1:2", "b1:3"))
        snapshot = Snapshot(queues, (), [Flavor("default")], None, held, strategies)
        assert [each.workload.uid for each in admission_cycle(heads, snapshot)] == order
