"""Where Kueue puts pods: groups with a leader, slices in slices, nodes that failed, nodes that flavors share."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kueue_rules import (
    HOSTNAME,
    CohortQuota,
    CycleVerdict,
    Flavor,
    FlavorQuota,
    KueueRelease,
    QueueNode,
    Requirement,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
    TopologyTree,
    VirtualCluster,
    WantedPlaces,
    admission_cycle,
    assign_together,
)
from kueue_rules.admission_cycle import NO_LONGER_FITS, PLACELESS

GPU = "nvidia.com/gpu"
LEVELS = ["block", "rack", HOSTNAME]


def nodes(rooms: str) -> list[SnapshotNode]:
    """ "b1/r1/x1=4 …": a node with that many GPUs."""
    found = []
    for each in rooms.split():
        path, _, gpus = each.partition("=")
        labels = dict(zip(LEVELS, path.split("/"), strict=True))
        found.append(SnapshotNode(labels[HOSTNAME], labels, (), {GPU: int(gpus), "pods": 110_000}))
    return found


def tree(rooms: str, flavor: str = "a4") -> TopologyTree:
    return TopologyTree("net", LEVELS, Flavor(flavor, topology="net"), nodes(rooms), {})


def pods(name: str, count: int, gpus: int = 1, places: str = "", **asked: object) -> SnapshotPodSet:
    found = tuple(((host,), int(each)) for host, _, each in (one.partition(":") for one in places.split()))
    request = TopologyRequest(**asked)  # type: ignore[arg-type]
    return SnapshotPodSet(name, count, {GPU: count * gpus}, {GPU: gpus}, topology=request, places=found)


ROOMS = "b1/r1/x1=4 b1/r1/x2=4 b1/r2/x3=4 b1/r2/x4=2 b2/r3/x5=8"
WHY_STALE = (
    "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale domain x9"
)


@pytest.mark.parametrize(
    ("rooms", "asked", "failed", "expected"),
    [
        pytest.param(
            "b1/r1/x1=4 b1/r1/x2=4 b2/r2/x3=8",
            [pods("leader", 1, group="g", required="rack"), pods("workers", 7, group="g", required="rack")],
            "", ["x1:1", "x1:3 x2:4"], id="a leader takes its room from the rack of its workers",
        ),
        pytest.param(
            "b1/r1/x1=4 b1/r1/x2=3 b2/r2/x3=8",
            [pods("leader", 1, group="g", required="rack"), pods("workers", 7, group="g", required="rack")],
            "", ["x3:1", "x3:7"], id="and they go where both have room",
        ),
        pytest.param(
            "b1/r1/x1=4 b1/r1/x2=4",
            [pods("leader", 1, group="g", required="rack"), pods("workers", 8, group="g", required="rack")],
            "", 'topology "net" allows to fit only 8 out of 8 pod(s)', id="with no rack for both there is none",
        ),
        pytest.param(
            "b1/r1/x1=8 b1/r1/x2=6 b1/r2/x3=4 b1/r2/x4=4",
            [pods("main", 8, required="block", slice_level="rack", slice_size=4, inner_layers=((HOSTNAME, 4),))],
            "", ["x3:4 x4:4"], id="slices in slices stay together",
        ),
        pytest.param(
            "b1/r1/x1=3 b1/r1/x2=3",
            [pods("main", 4, required="block", slice_level="rack", slice_size=4, inner_layers=((HOSTNAME, 2),))],
            "", ["x1:2 x2:2"], id="and take whole ones of each host",
        ),
        pytest.param(
            "b1/r1/x1=3 b1/r1/x2=3",
            [pods("main", 6, required="block", slice_level="rack", slice_size=6, inner_layers=((HOSTNAME, 2),))],
            "", 'topology "net" doesn\'t allow to fit; 0/1 slice(s) fit on level rack; '
            "2/3 slice(s) fit on level kubernetes.io/hostname", id="or none",
        ),
        pytest.param(
            ROOMS, [pods("main", 4, slice_level="rack", slice_size=3, inner_layers=((HOSTNAME, 2),))],
            "", "additional slice layer size 2 must evenly divide parent layer size 3", id="sizes have to divide",
        ),
        pytest.param(
            ROOMS, [pods("main", 4, slice_level="rack", slice_size=0)],
            "", "slice topology requested, but slice size not provided", id="a slice has a size",
        ),
        pytest.param(
            ROOMS, [pods("main", 4, places="x3:2 x9:2", required="block")],
            "x9", ["x3:4"], id="a failed node is replaced in the block of the others",
        ),
        pytest.param(
            ROOMS, [pods("main", 4, places="x9:4", required="rack")],
            "x9", ["x3:4"], id="alone it may be replaced anywhere",
        ),
        pytest.param(
            ROOMS, [pods("main", 8, places="x3:4 x8:4", required="rack")],
            "x8", 'topology "net" allows to fit only 2 out of 4 pod(s). Total nodes: 5; '
            f'excluded: resource "{GPU}": 1, topologyDomain: 3', id="but not outside of the rack",
        ),
        pytest.param(
            ROOMS, [pods("main", 4, places="x8:2 x9:2", required="block")],
            "x8", WHY_STALE, id="nor beside a node that is gone too",
        ),
        pytest.param(
            ROOMS, [pods("main", 8, places="x1:4 x3:2 x8:2", preferred="block", slice_level="rack", slice_size=4)],
            "x8", ["x1:4 x3:4"], id="a slice that was broken is made whole in its own rack",
        ),
        pytest.param(
            ROOMS, [pods("main", 8, places="x1:4 x3:2 x8:2", slice_level="rack", slice_size=4)],
            "x8", "topology level not specified", id="but not if slices are all that it asks for",
        ),
        pytest.param(
            "b1/r1/x2=2 b1/r1/x3=2",
            [pods("leader", 1, places="x1:1", group="g"), pods("workers", 2, places="x1:1 x2:1", group="g")],
            "x1", ["x2:1", "x2:1 x3:1"], id="of a group each takes its room from the next",
        ),
    ],
)  # fmt: skip
def test_where_pods_go(rooms: str, asked: list[SnapshotPodSet], failed: str, expected: list[str] | str) -> None:
    there = tree(rooms)
    for each in asked:
        for values, count in each.places:
            there.add_usage(values, each.single, count)
    found, why = assign_together([WantedPlaces(there, each) for each in asked], failed=[failed] if failed else [])
    if isinstance(expected, str):
        assert why == expected
    else:
        assert [" ".join(f"{values[0]}:{count}" for values, count in each) for each in found] == expected, why


@pytest.mark.parametrize(
    ("minor", "verdict", "places"),
    [(19, CycleVerdict.ADMIT, [[(("x2",), 1)], [(("x1",), 2), (("x2",), 1)]]), (18, CycleVerdict.SKIP, [[], []])],
)
def test_from_0_19_on_a_leader_goes_where_it_costs_its_workers_no_room(
    minor: int, verdict: CycleVerdict, places: list[object]
) -> None:
    """Before, it may have no places, which Kueue tries again and again: the API server refuses that."""
    there = tree("b1/r1/x1=4 b1/r1/x2=3")
    snapshot = Snapshot([queue("q")], flavors=[there.flavor], trees={"a4": there}, release=KueueRelease(minor))
    leader, workers = pods("leader", 1, group="g", required="rack"), pods("workers", 3, 2, group="g", required="rack")
    (decision,) = admission_cycle([job("a", "q", leader, workers)], snapshot)
    assert (decision.verdict, [each.places for each in decision.choice.pod_sets]) == (verdict, places)


def test_one_that_gets_no_places_takes_its_quota_from_those_behind_it_in_each_cycle() -> None:
    there = tree("b1/r1/x1=4 b1/r1/x2=3")
    queues = [queue("q", cohort="lab"), queue("r", gpus=0, cohort="lab")]
    snapshot = Snapshot(queues, flavors=[there.flavor], trees={"a4": there}, release=KueueRelease(18))
    group = pods("leader", 1, group="g", required="rack"), pods("workers", 3, 2, group="g", required="rack")
    found = admission_cycle([job("a", "q", *group), job("b", "r", pods("main", 2))], snapshot)
    assert [(each.workload.uid, each.verdict, each.message) for each in found] == [
        ("a", CycleVerdict.SKIP, PLACELESS), ("b", CycleVerdict.SKIP, NO_LONGER_FITS),
    ]  # fmt: skip


def queue(name: str, flavors: Sequence[str] = ("a4",), gpus: int = 8, cohort: str = "", **rules: object) -> QueueNode:
    quotas = {(flavor, GPU): FlavorQuota(gpus) for flavor in flavors}
    node = QueueNode(name, quotas=quotas, cohort=cohort, groups=(ResourceGroup((GPU,), tuple(flavors)),))
    for rule, value in rules.items():
        setattr(node, rule, value)
    return node


def job(name: str, to: str, *pod_sets: SnapshotPodSet, priority: int = 0, flavor: str = "") -> SnapshotWorkload:
    for each in pod_sets:
        each.flavors = {GPU: flavor} if flavor else {}
    return SnapshotWorkload(("ns", name), name, to, priority, 0.0, list(pod_sets), reserved=1.0)


def shared(*holding: SnapshotWorkload, gpus: int = 8) -> Snapshot:
    """Two flavors over the same two nodes, each with its own queue."""
    trees = {name: tree("b1/r1/x1=4 b1/r1/x2=4", name) for name in ("high", "dws")}
    queues = [queue(name, (name,), gpus, cohort="lab") for name in trees]
    return Snapshot(queues, flavors=[each.flavor for each in trees.values()], trees=trees, holders=holding)


def test_what_one_flavor_uses_of_a_node_another_lacks() -> None:
    held = job("a", "high", pods("main", 4, places="x1:4", required=HOSTNAME), flavor="high")
    (decision,) = admission_cycle([job("b", "dws", pods("main", 8, required="rack"))], shared(held))
    assert (decision.verdict, decision.choice.by_quota.name) == (CycleVerdict.HOPELESS, "FIT")
    (decision,) = admission_cycle([job("b", "dws", pods("main", 4, required="rack"))], shared(held))
    assert decision.choice.pod_sets[0].places == [(("x2",), 4)]


def test_in_one_cycle_no_flavor_sees_what_another_takes_of_their_nodes() -> None:
    """Kueue adds up what all use of a node before its cycle: two may get the same one, and the next another."""
    snapshot = shared()
    heads = [job(name, name, pods("main", 4, required=HOSTNAME)) for name in ("high", "dws")]
    found = admission_cycle(heads, snapshot)
    assert [each.choice.pod_sets[0].places for each in found] == [[(("x1",), 4)]] * 2
    (decision,) = admission_cycle([job("b", "dws", pods("main", 4, required=HOSTNAME))], snapshot)
    assert decision.choice.pod_sets[0].places == [(("x2",), 4)]
    snapshot.remove_workload(snapshot.queues["high"].workloads["ns", "high"])
    for name in ("high", "dws"):
        assert snapshot.trees[name].leaf_of["x1",].used == {GPU: 4, "pods": 4000}


def test_who_waits_for_one_flavor_keeps_no_node_from_another() -> None:
    held = job("a", "high", pods("main", 4, places="x1:4", required=HOSTNAME), flavor="high")
    heads = [job("b", "high", pods("main", 8, required="rack"), priority=1), job("c", "dws", pods("main", 4))]
    found = admission_cycle(heads, shared(held, gpus=16))
    assert [each.verdict for each in found] == [CycleVerdict.HOPELESS, CycleVerdict.ADMIT]


def test_pod_sets_in_two_flavors_share_a_node_too() -> None:
    snapshot = shared()
    two = queue("both", ("high", "dws"))
    two.groups = (ResourceGroup((GPU,), ("high",)), ResourceGroup(("tpu",), ("dws",)))
    two.quotas = {("high", GPU): FlavorQuota(8), ("dws", "tpu"): FlavorQuota(8)}
    both = Snapshot([two], flavors=snapshot.flavors.values(), trees=snapshot.trees)
    first, second = pods("one", 4, required=HOSTNAME), pods("two", 4, required=HOSTNAME)
    second.requests = {"tpu": 4}
    (decision,) = admission_cycle([job("b", "both", first, second)], both)
    assert [one.places for one in decision.choice.pod_sets] == [[(("x2",), 4)], [(("x1",), 4)]]


def test_a_checkpoint_brings_back_what_shared_nodes_had() -> None:
    held = job("a", "high", pods("main", 4, places="x1:4"), flavor="high")
    cluster = VirtualCluster(shared(held), ())
    restore = cluster.checkpoint()
    for _ in range(2):
        cluster.submit(job("b", "dws", pods("main", 8, required="rack")))
        assert cluster.admit() == []
        cluster.end(held)
        assert [each.workload.key[1] for each in cluster.admit()] == ["b"]
        restore()


def late(*holding: SnapshotWorkload) -> Snapshot:
    """A queue whose nodes are provisioned once there is quota."""
    here = queue("dws", ("dws",), provisioned=frozenset({"dws"}))
    there = tree("b1/r1/x1=4 b1/r1/x2=4", "dws")
    return Snapshot([here], flavors=[there.flavor], trees={"dws": there}, holders=holding)


def test_nodes_that_a_check_brings_are_chosen_in_the_second_pass() -> None:
    snapshot = late()
    (first,) = admission_cycle([job("a", "dws", pods("main", 4, required="rack"))], snapshot)
    assert (first.verdict, first.choice.pod_sets[0].places, first.choice.pod_sets[0].delayed) == (
        CycleVerdict.ADMIT, [], True,
    )  # fmt: skip
    held = snapshot.queues["dws"].workloads["ns", "a"]
    held.second_pass = True
    (second,) = admission_cycle([held], snapshot)
    assert (second.verdict, second.choice.pod_sets[0].places) == (CycleVerdict.ADMIT, [(("x1",), 4)])
    assert snapshot.queues["dws"].used == {("dws", GPU): 4}
    assert snapshot.trees["dws"].leaf_of["x1",].used[GPU] == 4


@pytest.mark.parametrize(
    ("rooms", "verdict", "places"),
    [
        ("b1/r1/x1=4 b1/r1/x2=4", CycleVerdict.ADMIT, [(("x1",), 2), (("x2",), 2)]),
        ("b1/r1/x1=4 b2/r2/x2=4", CycleVerdict.EVICT, []),
    ],
)
def test_a_node_that_failed_is_replaced_or_the_quota_given_back(
    rooms: str, verdict: CycleVerdict, places: list[object]
) -> None:
    held = job("a", "q", pods("main", 4, places="x1:2 x9:2", required="rack"), flavor="a4")
    held.second_pass, held.failed_nodes = True, ("x9",)
    there = tree(rooms)
    there.add_usage(("x1",), {GPU: 1}, 2)  # of another
    snapshot = Snapshot([queue("q")], flavors=[there.flavor], trees={"a4": there}, holders=[held])
    (decision,) = admission_cycle([held], snapshot)
    assert decision.verdict is verdict
    if places:
        assert decision.choice.pod_sets[0].places == places
    else:
        assert decision.message == "Workload was evicted as there was no replacement for unhealthy node(s): x9"


@pytest.mark.parametrize(("minor", "nodes"), [(19, {"broken": "x2", "new": "x3"}), (18, {"broken": "x2", "new": "x3"})])
def test_a_node_that_is_replaced_is_free_from_the_next_cycle_on(minor: int, nodes: dict[str, str]) -> None:
    there = tree("b1/r1/x1=4 b1/r1/x2=4 b1/r1/x3=4")
    held = job("broken", "q", pods("main", 4, places="x1:4", required=HOSTNAME), flavor="a4")
    held.second_pass, held.failed_nodes = True, ("x1",)
    snapshot = Snapshot([queue("q")], flavors=[there.flavor], trees={"a4": there}, holders=[held],
                        release=KueueRelease(minor))  # fmt: skip
    decided = admission_cycle([held, job("new", "q", pods("main", 4, required=HOSTNAME))], snapshot)
    assert {each.workload.uid: each.choice.pod_sets[0].places[0][0][0] for each in decided} == nodes
    assert there.leaf_of["x1",].used[GPU] == 0


@pytest.mark.parametrize(("minor", "flavor"), [(19, "spot"), (18, "")])
def test_from_0_19_on_a_flavor_without_victims_is_worse_than_any_other(minor: int, flavor: str) -> None:
    own = queue("q", ("a4", "spot"), cohort="lab", within_queue="LowerPriority", preempts_before_borrowing=True)
    own.next_if_borrowing, own.next_if_preempting = True, True
    own.quotas = {("a4", GPU): FlavorQuota(4, 0), ("spot", GPU): FlavorQuota(0)}
    above = [CohortQuota("lab", "all"), CohortQuota("all", "", {("spot", GPU): FlavorQuota(4)})]
    high = job("high", "q", pods("main", 4), priority=9, flavor="a4")
    snapshot = Snapshot([own, queue("lender", gpus=4, cohort="lab")], above, [Flavor("a4"), Flavor("spot")],
                        holders=[high], release=KueueRelease(minor))  # fmt: skip
    (decision,) = admission_cycle([job("low", "q", pods("main", 4))], snapshot)
    assert (decision.choice.pod_sets[0].flavors[GPU] if decision.verdict is CycleVerdict.ADMIT else "") == flavor


@pytest.mark.parametrize(("first", "flavor"), [(False, "spot"), (True, "a4")])
def test_what_a_queue_prefers_to_borrowing_or_to_victims(first: bool, flavor: str) -> None:
    own = queue("q", ("a4", "spot"), cohort="lab", within_queue="LowerPriority", preempts_before_borrowing=first)
    own.next_if_borrowing = True
    own.quotas = {("a4", GPU): FlavorQuota(4), ("spot", GPU): FlavorQuota(0)}
    lender = queue("lender", ("spot",), cohort="lab")
    low = job("low", "q", pods("main", 4), priority=-1, flavor="a4")
    snapshot = Snapshot([own, lender], flavors=[Flavor("a4"), Flavor("spot")], holders=[low])
    (decision,) = admission_cycle([job("high", "q", pods("main", 4), priority=1)], snapshot)
    assert decision.choice.pod_sets[0].flavors == {GPU: flavor}
    assert bool(decision.targets) is first


def test_one_that_may_be_smaller_is_trimmed_to_the_nodes_too() -> None:
    there = tree("b1/r1/x1=4 b1/r2/x2=2")
    asked = pods("main", 6, required="rack")
    asked.min_count = 2
    snapshot = Snapshot([queue("q")], flavors=[there.flavor], trees={"a4": there})
    (decision,) = admission_cycle([job("a", "q", asked)], snapshot)
    assert (decision.verdict, decision.choice.pod_sets[0].places) == (CycleVerdict.ADMIT, [(("x1",), 4)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"refused": "limits of the namespace"}, "limits of the namespace"),
        ({"affinity": "two"}, "couldn't assign flavors to pod set main: flavor a4 doesn't match node affinity"),
    ],
)  # fmt: skip
def test_what_keeps_it_from_any_flavor_is_named(change: dict[str, str], words: str) -> None:
    one = pods("main", 1)
    if "affinity" in change:
        one.affinity = ((Requirement("kind", "In", (change["affinity"],)), Requirement("else", "Exists")),)
    asked = replace(job("a", "q", one), refused=change.get("refused", ""))
    snapshot = Snapshot([queue("q")], flavors=[Flavor("a4", labels={"kind": "one"})])
    (decision,) = admission_cycle([asked], snapshot)
    assert decision.message == words


def test_a_group_gets_one_flavor_for_all_its_pods() -> None:
    own = queue("q", ("a4", "spot"))
    own.quotas = {("a4", GPU): FlavorQuota(7), ("spot", GPU): FlavorQuota(9)}
    snapshot = Snapshot([own], flavors=[Flavor("a4"), Flavor("spot")])
    asked = [pods("leader", 1, group="g"), pods("workers", 7, group="g")]
    (decision,) = admission_cycle([job("a", "q", *asked)], snapshot)
    assert [one.flavors for one in decision.choice.pod_sets] == [{GPU: "spot"}, {GPU: "spot"}]


def test_pods_count_where_a_queue_has_a_quota_of_them() -> None:
    own = queue("q")
    own.groups = (ResourceGroup((GPU, "pods"), ("a4",)),)
    own.quotas = {("a4", GPU): FlavorQuota(8), ("a4", "pods"): FlavorQuota(2000)}
    three, two = (admission_cycle([job("a", "q", pods("main", each))], Snapshot([own], flavors=[Flavor("a4")]))[0]
                  for each in (3, 2))  # fmt: skip
    assert three.message.endswith("current podset request (3) > maximum capacity (2)")
    assert two.choice.usage() == {("a4", GPU): 2, ("a4", "pods"): 2000}


def test_a_taint_is_printed_as_kueue_prints_it() -> None:
    snapshot = Snapshot([queue("q")], flavors=[Flavor("a4", taints=("kind=spot:NoSchedule",))])
    (decision,) = admission_cycle([job("a", "q", pods("main", 1))], snapshot)
    assert decision.message.endswith("untolerated taint {kind spot NoSchedule <nil>} in flavor a4")
