"""What would become of a job: quota, machines and network at the edges, and who stands in the way."""

import gc
import re
import weakref
from typing import Any

import pytest
from msgspec.structs import replace

from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import DEFAULT_GPU_TOLERATIONS, GPU, NAMESPACE_NAME_LABEL as NAME_LABEL, Condition
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.objects.queue import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Preemption,
    Quota,
    ResourceFlavor,
    Topology,
    Usage,
)
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from console.scheduling.free_slots import eligible_nodes
from console.scheduling.launch_forecast import (
    Forecast,
    LaunchDemand,
    LaunchVerdict,
    demand_of,
    forecast,
    with_waiting_launch,
)
from console.scheduling.why_workload import why_workload
from kueue_rules import Requirement, Toleration
from tests.fakes import fleet_of

BLOCK, SUBBLOCK = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"
ALL, HALF = "32 free of flavor a4 in cq; ", "32 own - 16 used = 16 free of flavor a4 in cq; "
TAKES = f"{ALL}it would take "
POOL = "cloud.google.com/gke-nodepool"


def host(name: str, block: str = "b1", subblock: str = "s1", **more: Any) -> Node:
    made = Node(name, pool="a4", gpus=8, gpu_capacity=8, ready=True, block=block, subblock=subblock)
    return replace(made, **more)


HOSTS = (host("n1"), host("n2"), host("n3", subblock="s2"), host("n4", "b2", "s3"))
FLAVOR = ResourceFlavor("a4", node_labels=((POOL, "a4"),), topology="net")
TOPOLOGY = Topology("net", levels=(BLOCK, SUBBLOCK, "kubernetes.io/hostname"))
DOOR = LocalQueue("team", "lq", cluster_queue="cq")


def queue(nominal: int = 32, used: int = 0, **more: Any) -> ClusterQueue:
    facts: dict[str, Any] = {"quotas": (Quota("a4", GPU, nominal),), "reserved": (Usage("a4", GPU, used),), **more}
    return ClusterQueue("cq", **facts)


def holding(name: str, gpus: int, priority: int = 0, cluster_queue: str = "cq", at: str = "") -> list[Any]:
    """A job that has quota, and runs on a node if one is named."""
    groups = (PodSet("w", gpus // 8, requests=((GPU, 8),), flavors=((GPU, "a4"),)),)
    admitted = (Condition("QuotaReserved", "True"), Condition("Admitted", "True"))
    made: list[Any] = [
        Workload("team", f"w-{name}", uid=f"w-{name}", queue="lq", cluster_queue=cluster_queue, priority=priority,
                 owner_name=name, owner_uid=name, pod_sets=groups, conditions=admitted),
        JobSet("team", name, uid=name, queue="lq"),
    ]  # fmt: skip
    if at:
        made.append(Pod("team", f"p-{name}", node=at, gpus=8, phase="Running", jobset=name, jobset_uid=name))
    return made


def waiting(name: str, gpus: int, priority: int = 0) -> Workload:
    groups = (PodSet("w", gpus // 8, requests=((GPU, 8),)),)
    return Workload("team", f"w-{name}", uid=name, queue="lq", priority=priority, owner_name=name, pod_sets=groups)


def cluster(*more: Any, queues: tuple[Any, ...] = ()) -> Fleet:
    return fleet_of(*HOSTS, FLAVOR, TOPOLOGY, *(queues or (DOOR, queue())), *more)


def forecast_of(fleet: Fleet, gpus: int = 16, **more: Any) -> Forecast:
    return forecast(fleet, LaunchDemand("team", **{"queue": "lq", "gpus": gpus, **more}))


@pytest.mark.parametrize(
    ("gpus", "nominal", "used", "topology", "verdict", "place", "sentence"),
    [
        (8, 32, 0, "none", LaunchVerdict.NOW, "host", TAKES + "1 of 4 free hosts (n1)"),
        (4, 32, 0, "none", LaunchVerdict.NOW, "host", TAKES + "1 of 8 free places for 4 GPUs (n1)"),
        (16, 32, 0, "preferred", LaunchVerdict.NOW, "subblock", TAKES + "2 of 4 free hosts, in one subblock (s1)"),
        (24, 32, 0, "preferred", LaunchVerdict.NOW, "block", TAKES + "3 of 4 free hosts, in one block (b1)"),
        (32, 32, 0, "none", LaunchVerdict.NOW, "", TAKES + "4 of 4 free hosts"),
        (32, 32, 0, "preferred", LaunchVerdict.SPLIT, "", TAKES + "4 of 4 free hosts, but split over 2 blocks"),
        (32, 32, 0, "required", LaunchVerdict.NEVER, "", "needs 4 hosts in one block, and the largest block has 3"),
        (24, 32, 0, "required", LaunchVerdict.NOW, "block", TAKES + "3 of 4 free hosts, in one block (b1)"),
        (40, 64, 0, "none", LaunchVerdict.NEVER, "", "needs 5 hosts, and the nodes it may use have 4"),
        (40, 32, 0, "none", LaunchVerdict.NEVER, "", "needs 40 GPUs, but cq can have at most 32"),
        (16, 32, 16, "none", LaunchVerdict.NOW, "subblock",
         HALF + "it would take 2 of 4 free hosts, in one subblock (s1)"),
        (16, 32, 17, "none", LaunchVerdict.WAITS, "",
         "needs 16 GPUs of flavor a4; 32 own - 17 used = 15 free, 1 more needed"),
        (16, 16, 0, "none", LaunchVerdict.NOW, "subblock",
         TAKES.replace("32", "16") + "2 of 4 free hosts, in one subblock (s1)"),
        (0, 16, 16, "none", LaunchVerdict.NOW, "", "needs no GPU"),
    ],
)  # fmt: skip
def test_verdicts_at_the_edges(
    gpus: int, nominal: int, used: int, topology: str, verdict: LaunchVerdict, place: str, sentence: str
) -> None:
    found = forecast_of(cluster(queues=(DOOR, queue(nominal, used))), gpus, topology=topology)
    assert (found.verdict, found.place, found.sentence) == (verdict, place, sentence)


@pytest.mark.parametrize(
    ("gpus", "topology", "words"),
    [
        (8, "preferred", "1 of 4 free hosts (n4)"),
        (4, "preferred", "1 of 8 free places for 4 GPUs (n4)"),
        (8, "required", "1 of 4 free hosts (n4)"),
        (8, "none", "1 of 4 free hosts (n1)"),
    ],
)
def test_the_node_is_reported_that_kueue_chooses(gpus: int, topology: str, words: str) -> None:
    """Of the blocks it takes the one with least room; without a request, the first of the nodes with least."""
    found = forecast_of(cluster(), gpus, topology=topology)
    assert (found.sentence, found.place) == (TAKES + words, "host")


@pytest.mark.parametrize("gpus", [8, 16])
def test_no_node_is_reported_where_kube_scheduler_chooses(gpus: int) -> None:
    plain = replace(FLAVOR, name="other", topology="")
    two = queue(32, quotas=(Quota("a4", GPU, 32), Quota("other", GPU, 0)))
    for fleet in (
        fleet_of(*HOSTS, replace(FLAVOR, topology=""), DOOR, queue()),
        fleet_of(*HOSTS, FLAVOR, DOOR, queue()),  # the Topology may not be listed
        fleet_of(*HOSTS, FLAVOR, plain, TOPOLOGY, DOOR, two),
    ):
        found = forecast_of(fleet, gpus, topology="none")
        assert (found.sentence, found.place) == (f"{TAKES}{gpus // 8} of 4 free hosts", "")


def test_the_numbers_behind_the_sentence() -> None:
    jobs = [*holding("big", 16, at="n1"), *holding("small", 8, at="n4")]
    found = forecast_of(cluster(*jobs, waiting("first", 64), queues=(DOOR, queue(32, 24))))
    assert (found.verdict, found.need, found.free, found.total, found.short_by) == (LaunchVerdict.WAITS, 16, 8, 32, 8)
    assert [(each.name, each.gpus) for each in found.holders] == [("big", 16), ("small", 8)]
    assert [each.name for each in found.unblocks] == ["small"]
    assert [each.name for each in found.ahead] == ["first"]
    assert found.sentence == (
        "needs 16 GPUs of flavor a4; 32 own - 24 used = 8 free, 8 more needed; 1 ahead in the queue; "
        "quota free when small ends"
    )


def test_a_launch_and_a_job_that_waits_name_the_same_jobs_in_the_same_words() -> None:
    fleet = cluster(*holding("big", 16, at="n1"), *holding("small", 8, at="n4"), queues=(DOOR, queue(32, 24)))
    with_it, key = with_waiting_launch(fleet, LaunchDemand("team", "lq", 16))
    assert forecast_of(fleet, 16).sentence == why_workload(with_it.workloads[key], with_it).sentence
    assert forecast_of(fleet, 16).unblocks == why_workload(with_it.workloads[key], with_it).unblocks


def test_lower_priorities_may_be_evicted() -> None:
    strict = queue(16, 16, preemption=Preemption(within_queue="LowerPriority"))
    jobs = [*holding("low", 8, 1), *holding("high", 8, 100)]
    urgent = replace(waiting("other", 8, 50), priority_class="urgent")
    fleet = cluster(*jobs, urgent, queues=(DOOR, strict))
    assert not forecast_of(fleet, 8).preempts
    found = forecast_of(fleet, 8, priority_class="urgent")
    assert (found.verdict, found.preempts, [each.name for each in found.unblocks]) == (
        LaunchVerdict.WAITS,
        True,
        ["low"],
    )
    assert "Kueue may evict low (8) for it" in found.sentence
    assert not forecast_of(fleet, 16, priority_class="urgent").preempts, "the other one has a higher priority"


def test_those_are_named_whom_kueue_would_evict_not_the_fewest() -> None:
    rules = queue(32, 32, preemption=Preemption(within_queue="LowerPriority"))
    jobs = [*holding("large", 16, 5), *holding("first", 8, 1, at="n3"), *holding("second", 8, 1, at="n4")]
    urgent = replace(waiting("other", 8, 50), priority_class="urgent")
    found = forecast_of(cluster(*jobs, urgent, queues=(DOOR, rules)), 16, priority_class="urgent")
    assert sorted(each.name for each in found.unblocks) == ["first", "second"], "the lowest priority goes first"


def test_own_quota_is_taken_back_from_borrowers() -> None:
    mine = ClusterQueue("cq", cohort="all", quotas=(Quota("a4", GPU, 16),),
                        preemption=Preemption(reclaim_within_cohort="Any"))  # fmt: skip
    theirs = ClusterQueue("other", cohort="all", quotas=(Quota("a4", GPU, 8),), reserved=(Usage("a4", GPU, 24),))
    fleet = cluster(*holding("guest", 24, cluster_queue="other"), queues=(DOOR, mine, theirs, Cohort("all")))
    found = forecast_of(fleet, 16)
    assert (found.verdict, found.preempts, found.total) == (LaunchVerdict.WAITS, True, 24)
    assert not forecast_of(fleet, 24).preempts, "what is beyond its own quota is not taken back"


def test_with_fair_sharing_the_larger_borrower_makes_room() -> None:
    def forecast_for(weight: float, *, fair: bool) -> Forecast:
        mine = ClusterQueue("cq", cohort="all", quotas=(Quota("a4", GPU, 8),), weight=weight, shares_fairly=fair,
                            preemption=Preemption(reclaim_within_cohort="Any"))  # fmt: skip
        theirs = ClusterQueue("other", cohort="all", quotas=(Quota("a4", GPU, 8),), shares_fairly=fair)
        spare = ClusterQueue("spare", cohort="all", quotas=(Quota("a4", GPU, 16),), shares_fairly=fair)
        jobs = [*holding("own", 8), *holding("g1", 8, cluster_queue="other"), *holding("g2", 8, cluster_queue="other"),
                *holding("g3", 8, cluster_queue="other")]  # fmt: skip
        used = [
            replace(mine, reserved=(Usage("a4", GPU, 8),)),
            replace(theirs, reserved=(Usage("a4", GPU, 24),)),
            spare,
        ]
        return forecast_of(cluster(*jobs, queues=(DOOR, *used, Cohort("all"))), 8)

    assert not forecast_for(1, fair=False).preempts, "what is beyond its own quota is not taken back"
    found = forecast_for(1, fair=True)
    assert (found.preempts, [each.gpus for each in found.unblocks]) == (True, [8])
    assert not forecast_for(0, fair=True).preempts, "a queue of weight 0 borrows only what nobody wants"


def test_borrowed_quota_counts_and_says_so() -> None:
    mine = ClusterQueue("cq", cohort="all", quotas=(Quota("a4", GPU, 8),))
    theirs = ClusterQueue("other", cohort="all", quotas=(Quota("a4", GPU, 16),))
    found = forecast_of(cluster(queues=(DOOR, mine, theirs, Cohort("all"))), 16)
    assert (found.verdict, found.borrows) == (LaunchVerdict.NOW, 8)
    assert found.sentence.startswith("8 own + 16 to borrow = 24 free of flavor a4 in cq (8 of its 16 by borrowing)")
    never = forecast_of(cluster(queues=(DOOR, mine, theirs, Cohort("all"))), 32)
    assert never.sentence == "needs 32 GPUs, but cq can have at most 24 (8 of its own, 16 by borrowing)"


def test_a_priority_class_of_no_workload_has_its_value_in_the_cluster_or_is_not_known() -> None:
    rules = queue(32, 32, preemption=Preemption(within_queue="LowerPriority"))
    fleet = cluster(*holding("low", 32, 1), waiting("first", 8, 50), queues=(DOOR, rules))
    known = forecast_of(fleet, 16, priority_class="urgent", priority=100)
    assert (known.preempts, known.ahead) == (True, ())
    unknown = forecast_of(fleet, 16, priority_class="urgent")
    assert (unknown.verdict, unknown.preempts, unknown.ahead) == (LaunchVerdict.WAITS, False, ())
    assert unknown.sentence.endswith("which priority urgent has is not known")
    strict = cluster(waiting("first", 64), queues=(DOOR, queue(32, 8, strategy="StrictFIFO")))
    assert forecast_of(strict, 8, priority_class="urgent").verdict is LaunchVerdict.UNKNOWN
    assert forecast_of(strict, 8, priority_class="urgent", priority=1).verdict is LaunchVerdict.NOW


def test_no_block_is_free_and_who_would_have_to_end() -> None:
    jobs = [*holding("a", 8, at="n1"), *holding("b", 8, at="n4")]
    found = forecast_of(cluster(*jobs, queues=(DOOR, queue(64, 16))), 24, topology="required")
    assert found.verdict is LaunchVerdict.WAITS
    assert found.sentence.endswith("is free, but no block has 3 free hosts: b1 has 2, b2 has 0; room free when a ends")
    assert [each.name for each in found.unblocks] == ["a"]


def test_a_second_flavor_with_room_is_taken() -> None:
    two = ClusterQueue("cq", quotas=(Quota("a4", GPU, 8), Quota("spot", GPU, 8)), reserved=(Usage("a4", GPU, 8),))
    spot = ResourceFlavor("spot", node_labels=((POOL, "spot"),))
    found = forecast_of(cluster(host("s1", "b9", "s9", pool="spot"), spot, queues=(DOOR, two)), 8)
    assert (found.verdict, found.flavor) == (LaunchVerdict.NOW, "spot")


def test_what_complete_values_ask_for() -> None:
    from tests.chart.plans import CATALOGUE, PLANS

    plan = PLANS["interactive-everything"]
    assert demand_of(CATALOGUE.values(plan), "team") == LaunchDemand(
        "team",
        queue="a4-high",
        gpus=32,
        topology="required",
        level=SUBBLOCK,
        priority_class="high",
        target_nodes=("node-1", "node-2", "node-3", "node-4"),
        avoid_nodes=("node-7",),
        node_selector=(("cloud.google.com/gke-accelerator", "nvidia-b200"), (POOL, "a4-pool")),
        tolerations=(*DEFAULT_GPU_TOLERATIONS, Toleration("dedicated", "Equal", "mine", "NoSchedule")),
    )


TAINT = "reserved=true:NoSchedule"
PUTS_UP = Toleration("reserved", "Equal", "true")
CORDONED = [replace(each, cordoned=True) for each in HOSTS[:3]]
MARKED = [replace(each, taints=(TAINT, "node.kubernetes.io/unreachable:NoExecute")) for each in HOSTS[:3]]
NOWHERE = [host(f"n{number}", "", "") for number in range(5, 9)]  # Kueue leaves these out of its tree
INACTIVE = Condition("Active", "False", "FlavorNotFound", "no flavor")
FIRST, SOME = waiting("first", 64), "it would take 2 of 4 free hosts, in one"
NOW, WAITS, NEVER = LaunchVerdict.NOW, LaunchVerdict.WAITS, LaunchVerdict.NEVER
STOPPED, UNKNOWN, NO_QUEUE = LaunchVerdict.STOPPED, LaunchVerdict.UNKNOWN, LaunchVerdict.NO_QUEUE
FORECASTS: list[tuple[Fleet, int, dict[str, Any], LaunchVerdict, str]] = [
    # queues
    *((cluster(queues=queues), 16, {}, verdict, words) for queues, verdict, words in (
        ((replace(DOOR, stop_policy="Hold"), queue()), STOPPED, "queue lq is stopped (stop policy Hold)…"),
        ((DOOR, queue(stop_policy="HoldAndDrain")), STOPPED, "queue cq is stopped…"),
        ((DOOR, queue(conditions=(INACTIVE,))), STOPPED, "queue cq is not active: no flavor…"),
        ((replace(DOOR, cluster_queue="gone"), queue()), STOPPED, "…which does not exist…"),
        ((replace(DOOR, name="other"), queue()), NEVER, "team has no queue lq; there are other…"),
        ((DOOR, ClusterQueue("cq")), NEVER, "…ClusterQueue cq has no quota of GPUs…"),
    )),
    *((cluster(queues=(DOOR, queue(namespaces=selector))), 16, {}, verdict, words) for selector, verdict, words in (
        ((), NOW, f"…{SOME}…"),
        (None, NEVER, "…cq does not accept workloads of namespace team; it has no namespaceSelector and accepts none…"),
        ((Requirement(NAME_LABEL, "In", ("team", "ops")),), NOW, f"…{SOME}…"),
        ((Requirement(NAME_LABEL, "NotIn", ("team",)),), NEVER, f"…with {NAME_LABEL} other than team…"),
        ((Requirement("kind", "In", ("ml",)),), NOW, "…; if team is one of its namespaces: it accepts namespaces…"),
        ((Requirement("kind", "Exists"), Requirement(NAME_LABEL, "In", ("x",))), NEVER, "…with label kind, …"),
        ((Requirement(NAME_LABEL, "DoesNotExist"),), NEVER, f"…no label {NAME_LABEL}…"),
    )),
    (cluster(FIRST, queues=(DOOR, queue(32, 8, strategy="StrictFIFO"))), 8, {}, WAITS,
     "32 own - 8 used = 24 free, but cq is StrictFIFO: nothing passes first (64)"),
    (cluster(FIRST, queues=(DOOR, queue(32, 8))), 8, {}, NOW, "…"),
    # what may not be seen
    *((fleet_of(*HOSTS, FLAVOR, DOOR, queue(), **{kind: WatchStatus(kind, state)}), 16, {}, verdict, words)
      for kind, state, verdict, words in (
        ("localqueues", WatchState.LISTING, UNKNOWN, "…the LocalQueues are still being listed…"),
        ("localqueues", WatchState.FORBIDDEN, UNKNOWN, "…no permission to list LocalQueues…"),
        ("clusterqueues", WatchState.FORBIDDEN, UNKNOWN, "…no permission to list ClusterQueues…"),
        ("localqueues", WatchState.ABSENT, UNKNOWN, "…this cluster has no LocalQueues…"),
        ("nodes", WatchState.FORBIDDEN, NOW, "…there is quota (32 free); no permission to list nodes…"),
        ("nodes", WatchState.LISTING, NOW, "…the nodes are still being listed…"),
    )),
    # machines
    *((cluster(), 16, wish, verdict, words) for wish, verdict, words in (
        ({"target_nodes": ("n1", "n4")}, NOW, "…it would take 2 of 2 free hosts…"),
        ({"target_nodes": ("n1",)}, NEVER, "needs 2 hosts, and the target nodes have 1…"),
        ({"avoid_nodes": ("n1", "n2", "n3")}, NEVER, "…the nodes it may use have 1…"),
        ({"node_selector": ((POOL, "spot"),)}, NEVER, "no flavor of cq has machines with gke-nodepool=spot…"),
        ({"node_selector": ((BLOCK, "b2"),)}, NEVER, "…the nodes it may use have 1…"),
        ({"node_selector": (("team/disk", "fast"),)}, NOW, "…it would take 2 of 4 free hosts…"),
        ({"topology": "required", "level": SUBBLOCK}, NOW, "…in one subblock (s1)…"),
        ({"queue": ""}, NO_QUEUE, "no queue: it starts as soon as 2 hosts are free; 4 now"),
    )),
    (cluster(), 64, {"queue": ""}, NEVER, "…"),
    (fleet_of(*CORDONED, HOSTS[3], FLAVOR, DOOR, queue()), 16, {}, WAITS,
     "quota of flavor a4 is free, but it needs 2 free hosts and there is 1"),
    (fleet_of(*MARKED, HOSTS[3], FLAVOR, DOOR, queue()), 16, {}, NEVER,
     "needs 2 hosts, and the nodes it may use have 1"),
    (fleet_of(*MARKED, HOSTS[3], FLAVOR, DOOR, queue()), 16,
     {"tolerations": (*DEFAULT_GPU_TOLERATIONS, PUTS_UP)}, NOW, "…"),
    (cluster(*NOWHERE, queues=(DOOR, queue(64))), 32, {"topology": "required", "level": BLOCK}, NEVER,
     "needs 4 hosts in one block, and the largest block has 3"),
    (cluster(queues=(DOOR, queue(128, checks=("dws",)))), 64, {}, NOW,
     "there is quota (128 free); nodes are provisioned when the admission check dws requests them, and when is not…"),
]  # fmt: skip
"""What there is, how many GPUs and what else is asked for; the verdict and its words, of which dots leave some out."""


@pytest.mark.parametrize(("fleet", "gpus", "wish", "verdict", "words"), FORECASTS)
def test_the_forecast_of_a_launch(
    fleet: Fleet, gpus: int, wish: dict[str, Any], verdict: LaunchVerdict, words: str
) -> None:
    found = forecast_of(fleet, gpus, **wish)
    assert found.verdict is verdict
    assert re.fullmatch(re.escape(words).replace("…", ".*"), found.sentence), found.sentence


@pytest.mark.parametrize(
    ("taints", "own", "asked", "verdict"),
    [
        ((TAINT,), (), (), LaunchVerdict.NEVER),
        ((TAINT,), (PUTS_UP,), (), LaunchVerdict.NOW),
        ((TAINT,), (), (PUTS_UP,), LaunchVerdict.NOW),
        ((TAINT,), (), (Toleration("reserved", "Equal", "false"),), LaunchVerdict.NEVER),
        ((TAINT,), (), (Toleration(operator="Exists"),), LaunchVerdict.NOW),
        ((TAINT,), (), (Toleration("reserved", "Exists", effect="NoExecute"),), LaunchVerdict.NEVER),
        (("reserved=true:PreferNoSchedule",), (), (), LaunchVerdict.NOW),
        (("nvidia.com/gpu=present:NoSchedule",), (), (), LaunchVerdict.NOW),
    ],
)
def test_a_flavor_whose_taints_nobody_tolerates_is_left_out(
    taints: tuple[str, ...], own: Any, asked: Any, verdict: LaunchVerdict
) -> None:
    flavor = replace(FLAVOR, taints=taints, tolerations=own)
    found = forecast_of(fleet_of(*HOSTS, flavor, DOOR, queue()), tolerations=(*DEFAULT_GPU_TOLERATIONS, *asked))
    assert found.verdict is verdict
    if verdict is LaunchVerdict.NEVER:
        assert found.sentence == f"its pods do not tolerate {TAINT} of a4: see Tolerations, under Placement"


def test_another_flavor_without_taints_is_taken() -> None:
    two = ClusterQueue("cq", quotas=(Quota("a4", GPU, 32), Quota("spot", GPU, 32)))
    spot = ResourceFlavor("spot", node_labels=((POOL, "spot"),))
    tainted = replace(FLAVOR, taints=(TAINT,))
    found = forecast_of(fleet_of(*HOSTS, host("s1", pool="spot"), tainted, spot, DOOR, two), 8)
    assert (found.verdict, found.flavor) == (LaunchVerdict.NOW, "spot")


def test_what_is_counted_of_a_picture_does_not_keep_it() -> None:
    fleet = cluster()
    found, kept = eligible_nodes(fleet, 8, "a4"), weakref.ref(fleet)
    assert (found.slots(BLOCK), found.capacity(SUBBLOCK)) == ({"b1": 3, "b2": 1}, {"s1": 2, "s2": 1, "s3": 1})
    assert (found.slots("cloud.google.com/gce-topology-host"), found.slots("rack")) == ({}, {})
    del fleet
    gc.collect()
    assert kept() is None
