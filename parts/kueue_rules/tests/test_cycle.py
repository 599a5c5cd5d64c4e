"""The library of Kueue's rules by itself: state in, decisions of one admission cycle out."""

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from kueue_rules import (
    HOSTNAME,
    AdmissionCheck,
    AdmissionVerdict,
    CohortQuota,
    CycleVerdict,
    Flavor,
    FlavorQuota,
    KueueRelease,
    Mode,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
    TopologyTree,
    admission_cycle,
    open_checks,
    refusal_words,
    required_checks,
    unadmitted_words,
    worst_check_state,
)

GPU = "nvidia.com/gpu"
AT = ("a4", GPU)
BLOCK = "cloud.google.com/gce-topology-block"


def queue(name: str, gpus: int, cohort: str = "", borrow: int | None = None, **rules: str) -> QueueNode:
    return QueueNode(
        name, quotas={AT: FlavorQuota(gpus * 1000, borrow)}, cohort=cohort, groups=(ResourceGroup((GPU,), ("a4",)),),
        within_queue=rules.get("within", "Never"), reclaim=rules.get("reclaim", "Never"),
    )  # fmt: skip


def workload(
    name: str, to: str, pods: int, priority: int = 0, *, holds: bool = False, level: str = ""
) -> SnapshotWorkload:
    single = {GPU: 8000}
    group = SnapshotPodSet("main", pods, {GPU: pods * 8000}, single, topology=TopologyRequest(required=level))
    if holds:
        group.flavors = {GPU: "a4"}
    return SnapshotWorkload(("default", name), name, to, priority, 0.0, [group], reserved=1.0 if holds else 0.0)


def test_who_borrows_least_goes_first_then_the_higher_priority() -> None:
    snapshot = Snapshot([queue("a", 16, "lab"), queue("b", 16, "lab")], flavors=[Flavor("a4")])
    heads = [workload("greedy", "a", 3, 9), workload("modest", "b", 2)]
    found = admission_cycle(heads, snapshot)
    assert [(each.workload.uid, each.verdict) for each in found] == [
        ("modest", CycleVerdict.ADMIT), ("greedy", CycleVerdict.SKIP),
    ]  # fmt: skip
    assert found[1].message == "Workload no longer fits after processing another workload"


def test_own_quota_is_reclaimed_from_whoever_borrowed_last() -> None:
    guests = [workload(f"guest-{n}", "b", 1, holds=True) for n in range(3)]
    for n, each in enumerate(guests):
        each.reserved = float(n)
    snapshot = Snapshot([queue("a", 16, "lab", reclaim="Any"), queue("b", 8, "lab")], flavors=[Flavor("a4")],
                        holders=guests)  # fmt: skip
    (found,) = admission_cycle([workload("mine", "a", 1)], snapshot)
    assert (found.verdict, [each.workload.uid for each in found.targets]) == (CycleVerdict.PREEMPT, ["guest-2"])
    assert "Pending the preemption of 1 workload(s)" in found.message


def test_missing_quota_and_missing_places_are_different_reasons() -> None:
    snapshot = Snapshot([queue("a", 16)], flavors=[Flavor("a4")], holders=[workload("one", "a", 1, holds=True)])
    short, never = admission_cycle([workload("mine", "a", 2), workload("huge", "a", 3)], snapshot)
    assert (short.verdict, never.verdict) == (CycleVerdict.HOPELESS, CycleVerdict.HOPELESS)
    assert "insufficient unused quota for nvidia.com/gpu in flavor a4, 8 more needed" in short.message
    assert "current podset request (24) > maximum capacity (16)" in never.message
    nodes = [
        SnapshotNode(f"n{n}", {BLOCK: f"b{n // 2}", HOSTNAME: f"n{n}"}, (), {GPU: 8000, "pods": 110000})
        for n in range(4)
    ]
    flavor = Flavor("a4", topology="net")
    tree = TopologyTree("net", (BLOCK, HOSTNAME), flavor, nodes, {})
    placed = Snapshot([queue("a", 32)], flavors=[flavor], trees={"a4": tree})
    (wide,) = admission_cycle([workload("wide", "a", 3, level=BLOCK)], placed)
    assert 'topology "net" allows to fit only 2 out of 3 pod(s)' in wide.message
    (near,) = admission_cycle([workload("near", "a", 2, level=BLOCK)], placed)
    assert near.choice.pod_sets[0].places == [(("n0",), 1), (("n1",), 1)]


GPUS = st.integers(0, 6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(GPUS, st.none() | GPUS, st.sampled_from(("", "lab", "far"))), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), max_size=6),
)
def test_a_cycle_never_gives_out_more_than_there_is(
    queues: list[tuple[int, int | None, str]], heads: list[tuple[int, int, int]]
) -> None:
    made = [
        queue(f"q{n}", nominal * 8, cohort, None if borrow is None else borrow * 8000)
        for n, (nominal, borrow, cohort) in enumerate(queues)
    ]
    snapshot = Snapshot(made, [CohortQuota("lab", "org"), CohortQuota("far", "org")], [Flavor("a4")])
    asked = [workload(f"w{n}", f"q{to % len(made)}", pods, prio) for n, (to, pods, prio) in enumerate(heads)]
    first = {each.cluster_queue: each for each in reversed(asked)}
    found = admission_cycle(first.values(), snapshot)
    assert len(found) == len(first)
    for each in made:
        assert each.available(AT) >= 0
        root = each.root
        assert root.used.get(AT, 0) <= root.subtree.get(AT, 0)
    held = sum(each.workload.usage().get(AT, 0) for each in found)
    assert held == 0, "what was asked is as before"
    given_out = sum(sum(one.requests[GPU] for one in each.workload.pod_sets) for each in found
                    if each.verdict is CycleVerdict.ADMIT)  # fmt: skip
    assert given_out == sum(each.used.get(AT, 0) for each in made)


def test_which_checks_a_workload_needs_and_what_they_decide() -> None:
    two = queue("team", 64)
    two.groups = (ResourceGroup((GPU,), ("a4", "spot")),)
    two.checks = {"all": frozenset(), "both": frozenset({"a4", "spot"}), "spot": frozenset({"spot"})}
    assert required_checks(two, None) == {"all", "both"}
    assert required_checks(two, {"a4"}) == {"all", "both"}
    assert required_checks(two, {"spot"}) == {"all", "both", "spot"}
    ready, waits = AdmissionCheck("a", "Ready"), AdmissionCheck("b", "Pending", "asked")
    again, never = AdmissionCheck("d", "Retry"), AdmissionCheck("c", "Rejected", "no capacity")
    assert open_checks([ready]) == []
    assert open_checks([waits, again, never, ready]) == [never, again, waits]
    assert (worst_check_state([waits, again]), worst_check_state([again, never]), worst_check_state([waits])) == (
        AdmissionVerdict.RETRY, AdmissionVerdict.REJECTED, None,
    )  # fmt: skip
    rejected = [never, AdmissionCheck("a", "Rejected")]
    assert refusal_words(rejected, AdmissionVerdict.REJECTED, KueueRelease()) == (
        'AdmissionChecks in Rejected state: "a"; "c" (no capacity)'
    )
    assert (
        refusal_words([again], AdmissionVerdict.RETRY, KueueRelease())
        == 'Evicted due to AdmissionCheck in Retry state: "d"'
    )
    assert (
        refusal_words(rejected, AdmissionVerdict.REJECTED, KueueRelease(17)) == "Admission check(s): a,c, were rejected"
    )
    assert refusal_words([again], AdmissionVerdict.RETRY, KueueRelease(17)) == "At least one admission check is false"


@pytest.mark.parametrize(
    ("release", "reasons"),
    [
        (KueueRelease(18), ["UnsatisfiedChecks", "NoReservation", "NoReservationUnsatisfiedChecks"]),
        (KueueRelease(19), ["UnsatisfiedChecks", "NoReservation", "NoReservationUnsatisfiedChecks"]),
        (KueueRelease(19, observability=True), ["UnsatisfiedAdmissionChecks", "NoReservation", "NoReservation"]),
    ],
)
def test_a_workload_that_is_no_longer_admitted_says_why_as_its_version_does(
    release: KueueRelease, reasons: list[str]
) -> None:
    states = ((True, False), (False, True), (False, False))
    assert [unadmitted_words(release, reserved=reserved, is_ready=ready)[0] for reserved, ready in states] == reasons


def test_the_reason_of_a_wait_is_a_token_where_the_gate_is_on() -> None:
    """Kueue 0.19 resolves it in flavorassigner.go, resolveNoFitReason, and scheduler.go, processEntry."""
    on = KueueRelease(19, observability=True)
    two = queue("two", 16)
    two.groups = (ResourceGroup((GPU,), ("gone", "a4")),)
    two.quotas = {AT: FlavorQuota(16_000), ("gone", GPU): FlavorQuota(16_000)}
    queues = [queue("full", 16, within="LowerPriority"), queue("small", 8), queue("stuck", 8), two]
    queues[2].namespaces = None
    held = [workload("low", "full", 2, holds=True), workload("busy", "two", 2, holds=True)]
    snapshot = Snapshot(queues, flavors=[Flavor("a4")], holders=held, release=on)
    heads = [workload("high", "full", 1, 9), workload("huge", "small", 2), workload("stranger", "stuck", 1),
             workload("waits", "two", 1)]  # fmt: skip
    found = {each.workload.uid: each.reason(on) for each in admission_cycle(heads, snapshot)}
    assert found == {
        "high": "WaitingForPreemptedWorkloads", "huge": "ExceedsMaxQuota", "stranger": "Misconfigured",
        "waits": "WaitingForQuota",
    }  # fmt: skip
    (wrong,) = admission_cycle([workload("mine", "other", 1)], Snapshot([queue("other", 8)], release=on))
    assert wrong.reason(on) == "NoMatchingFlavor"
    assert wrong.reason(KueueRelease()) == "Pending"


@pytest.mark.parametrize(("minor", "verdict"), [(17, CycleVerdict.SKIP), (18, CycleVerdict.ADMIT)])
def test_places_that_another_head_took_are_looked_for_anew_from_0_18_on(minor: int, verdict: CycleVerdict) -> None:
    nodes = [
        SnapshotNode(f"n{n}", {BLOCK: f"b{n}", HOSTNAME: f"n{n}"}, (), {GPU: 8000, "pods": 110000}) for n in range(2)
    ]
    flavor = Flavor("a4", topology="net")
    tree = TopologyTree("net", (BLOCK, HOSTNAME), flavor, nodes, {})
    snapshot = Snapshot([queue("a", 8), queue("b", 8)], (), [flavor], {"a4": tree}, release=KueueRelease(minor))
    heads = [workload("one", "a", 1, level=BLOCK), workload("two", "b", 1, level=BLOCK)]
    assert [each.verdict for each in admission_cycle(heads, snapshot)] == [CycleVerdict.ADMIT, verdict]


def reduced(pods: int, least: int | None, quota: int, **queues: int) -> tuple[CycleVerdict, int, str]:
    """What comes of a workload that may be made smaller: how many pods it gets, and what is said."""
    head = workload("mine", "a", pods)
    head.pod_sets[0].min_count = least
    others = [queue(name, gpus, "lab") for name, gpus in queues.items()]
    snapshot = Snapshot([queue("a", quota, "lab"), *others], flavors=[Flavor("a4")])
    (found,) = admission_cycle([head], snapshot)
    held = snapshot.queues["a"].used.get(AT, 0) // 8000
    return found.verdict, held, found.message


@pytest.mark.parametrize(
    ("pods", "least", "quota", "verdict", "held"),
    [
        (6, 2, 32, CycleVerdict.ADMIT, 4),  # as many as there is quota for
        (6, 4, 32, CycleVerdict.ADMIT, 4),
        (6, 2, 64, CycleVerdict.ADMIT, 6),  # all of them where that can be
        (6, 5, 32, CycleVerdict.HOPELESS, 0),
        (6, None, 32, CycleVerdict.HOPELESS, 0),
        (100, 1, 8, CycleVerdict.ADMIT, 1),
    ],
)
def test_a_workload_that_may_be_smaller_gets_the_most_pods_that_fit(
    pods: int, least: int | None, quota: int, verdict: CycleVerdict, held: int
) -> None:
    got, count, message = reduced(pods, least, quota)
    assert (got, count) == (verdict, held)
    assert ("maximum capacity" in message) == (verdict is CycleVerdict.HOPELESS), (
        "of all its pods it is said what is missing"
    )


def test_each_pod_set_gives_its_share_of_the_pods_that_are_left_out() -> None:
    head = workload("mine", "a", 8)
    head.pod_sets[0].min_count = 4
    head.pod_sets.append(SnapshotPodSet("more", 4, {GPU: 32000}, {GPU: 8000}, min_count=2))
    snapshot = Snapshot([queue("a", 72)], flavors=[Flavor("a4")])
    (found,) = admission_cycle([head], snapshot)
    assert found.verdict is CycleVerdict.ADMIT
    assert [one.pod_set.count for one in found.choice.pod_sets] == [6, 3]
    assert [each.count for each in head.pod_sets] == [8, 4], "what was asked is as before"


def two_flavors(nodes: int, **rules: str) -> Snapshot:
    """One queue with quota for that many nodes of each of two flavors, which have two nodes each."""
    flavors = [Flavor("one", topology="net"), Flavor("two", topology="net")]
    trees = {
        each.name: TopologyTree("net", (HOSTNAME,), each, machines(f"{each.name}-a", f"{each.name}-b"), {})
        for each in flavors
    }
    quotas = {(each.name, GPU): FlavorQuota(nodes * 8000) for each in flavors}
    team = QueueNode("team", quotas=quotas, groups=(ResourceGroup((GPU,), ("one", "two")),),
                     within_queue=rules.get("within", "Never"))  # fmt: skip
    return Snapshot([team], flavors=flavors, trees=trees)


def machines(*names: str) -> list[SnapshotNode]:
    return [SnapshotNode(name, {HOSTNAME: name}, (), {GPU: 8000, "pods": 110_000}) for name in names]


def test_the_pod_sets_of_a_workload_take_nodes_beside_each_other() -> None:
    snapshot = two_flavors(nodes=4)
    asked = workload("driver-and-workers", "team", 1)
    asked.pod_sets = [replace(asked.pod_sets[0], name=name) for name in ("driver", "workers")]
    (found,) = admission_cycle([asked], snapshot)
    assert [one.places for one in found.choice.pod_sets] == [[(("one-a",), 1)], [(("one-b",), 1)]]


def test_pod_sets_that_fit_only_one_by_one_do_not_fit() -> None:
    snapshot = two_flavors(nodes=4)
    asked = workload("driver-and-workers", "team", 2)
    asked.pod_sets = [replace(asked.pod_sets[0], name=name) for name in ("driver", "workers")]
    (found,) = admission_cycle([asked], snapshot)
    assert (found.verdict, found.choice.mode) == (CycleVerdict.HOPELESS, Mode.NO_FIT)


def test_a_flavor_without_nodes_leads_to_the_next_one_in_the_next_try() -> None:
    snapshot = two_flavors(nodes=4)
    snapshot.trees["one"].add_usage(("one-a",), {GPU: 8000}, 1)
    asked = workload("job", "team", 2)
    (found,) = admission_cycle([asked], snapshot)
    assert (found.verdict, found.choice.flavors_left) == (CycleVerdict.HOPELESS, True)
    asked.tried = tuple(one.tried for one in found.choice.pod_sets)
    (found,) = admission_cycle([asked], snapshot)
    assert (found.verdict, found.choice.pod_sets[0].flavors) == (CycleVerdict.ADMIT, {GPU: "two"})


def test_nodes_that_victims_will_leave_are_kept_for_their_preemptor_during_the_cycle() -> None:
    snapshot = two_flavors(nodes=2, within="LowerPriority")
    other = QueueNode("other", quotas={("one", GPU): FlavorQuota(16_000)}, groups=(ResourceGroup((GPU,), ("one",)),))
    snapshot = Snapshot([snapshot.queues["team"], other], flavors=snapshot.flavors.values(), trees=snapshot.trees)
    snapshot.queues["team"].quotas = {("one", GPU): FlavorQuota(8000)}
    snapshot.queues["team"].groups = other.groups
    (first,) = admission_cycle([workload("victim", "team", 1)], snapshot)
    assert first.verdict is CycleVerdict.ADMIT
    snapshot.trees["one"].add_usage(("one-b",), {GPU: 8000}, 1)
    heads = [workload("urgent", "team", 1, 9), workload("late", "other", 1)]
    found = {each.workload.uid: each.verdict for each in admission_cycle(heads, snapshot)}
    assert found == {"urgent": CycleVerdict.PREEMPT, "late": CycleVerdict.HOPELESS}
    assert snapshot.trees["one"].leaves[0].used[GPU] == 8000


def test_one_without_victims_is_tried_again_once_another_reserved_quota_in_the_same_cycle() -> None:
    flavor = Flavor("a4", topology="net")
    tree = TopologyTree("net", (HOSTNAME,), flavor, machines("a", "b", "c", "d"), {})
    small, guest = workload("small", "alone", 1, holds=True), workload("guest", "guests", 3, holds=True)
    for holder, hosts in ((small, "a"), (guest, "bcd")):
        holder.pod_sets[0].places = tuple(((host,), 1) for host in hosts)
    queues = [queue("owners", 16, "lab", reclaim="Any"), queue("guests", 16, "lab"), queue("alone", 8)]
    snapshot = Snapshot(queues, flavors=[flavor], trees={"a4": tree}, holders=[small, guest])
    first, second = admission_cycle([workload("late", "guests", 1), workload("mine", "owners", 2)], snapshot)
    assert (first.workload.uid, first.verdict) == ("mine", CycleVerdict.PREEMPT)
    short = "insufficient unused quota for nvidia.com/gpu in flavor a4, 8 more needed"
    assert second.message == f"couldn't assign flavors to pod set main: {short}"
