import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, ResourceFlavor, Usage
from console.kube.objects.workload import CheckState, PodSet, Workload
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.free_slots import eligible_nodes
from console.scheduling.pod_failure import rank_failures
from console.scheduling.why import Category, QuotaHolder, Why, frees_enough
from console.scheduling.why_workload import why_workload
from tests.fakes import fleet_of

BLOCK = "cloud.google.com/gce-topology-block"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"
DOOR = LocalQueue("default", "team", cluster_queue="a4")
ASSIGN = "couldn't assign flavors to pod set main: "
NOW = (Condition("Admitted", "True"), Condition("QuotaReserved", "True"))


def pending(reason: str, message: str = "") -> tuple[Condition, ...]:
    """As Kueue sorts them: the one that matters is neither first nor last."""
    return (
        Condition("BlockedOnPreemptionGates", "False", "Open"),
        Condition("QuotaReserved", "False", reason, message),
        Condition("Requeued", "True", "BackoffFinished"),
    )


def short(more: int, gpu: str = GPU) -> str:
    return (
        f"couldn't assign flavors to pod set main: insufficient unused quota for {gpu} in flavor a4, {more} more needed"
    )


def workload(name: str, pods: int = 4, conditions: tuple[Condition, ...] = (), **given_: object) -> Workload:
    group = given_.pop("group", PodSet("main", pods, ((GPU, 8),)))
    facts = {
        "queue": "team",
        "owner_kind": "JobSet",
        "owner_name": name,
        "owner_uid": f"js-{name}",
        "pod_sets": (group,),
    }
    return Workload(
        "default", f"jobset-{name}", uid=f"wl-{name}", conditions=conditions,
        **{**facts, **given_},  # type: ignore[arg-type]
    )  # fmt: skip


def holding(name: str, pods: int, cluster_queue: str = "a4", **given_: object) -> Workload:
    group = PodSet("main", pods, ((GPU, 8),), flavors=((GPU, "a4"),))
    return workload(name, pods, NOW, cluster_queue=cluster_queue, group=group, **given_)


def queue(nominal: int = 64, used: int = 0, name: str = "a4", **given_: Any) -> ClusterQueue:
    borrow, lend = given_.pop("borrow", None), given_.pop("lend", None)
    return ClusterQueue(
        name, quotas=(Quota("a4", GPU, nominal, borrow, lend),), reserved=(Usage("a4", GPU, used),),
        **given_,
    )  # fmt: skip


# quota


@pytest.mark.parametrize(
    "conditions",
    [
        pending("Pending", short(8)),
        pending("WaitingForQuota", short(8)),
        pending("WaitingForQuota"),
        pending("Pending"),
        (),
    ],
)
def test_quota_is_explained_with_and_without_kueues_words(conditions: tuple[Condition, ...]) -> None:
    mine = workload("three", 4, conditions)
    fleet = fleet_of(DOOR, queue(64, 40), holding("two", 4), holding("one", 1), mine)
    found = why_workload(mine, fleet)
    assert (
        found.sentence
        == "needs 32 GPUs of flavor a4; 64 own - 40 used = 24 free, 8 more needed; quota free when one ends"
    )
    assert (found.category, found.need, found.short_by, found.flavor) == (Category.QUOTA, 32, 8, "a4")
    assert [(each.name, each.gpus) for each in found.holders] == [("two", 32), ("one", 8)]
    assert [each.name for each in found.unblocks] == ["one"]
    assert (found.position, found.ahead) == (1, ())


def test_a_job_whose_end_frees_too_little_of_that_quota_is_not_named_as_freeing_it() -> None:
    mine = workload("three", 4)
    fleet = fleet_of(DOOR, queue(64, 48), holding("two", 4), holding("half", 1), mine)
    starts = {name: ExpectedStart(at=9.0, after_job=name) for name in ("two", "half", "elsewhere")}
    found = {name: why_workload(mine, fleet, start) for name, start in starts.items()}
    assert {name: (why.sentence.rpartition("; ")[2], why.brief) for name, why in found.items()} == {
        "two": ("quota free when two ends", "16 GPUs short · two"),
        "half": ("may start when half ends", "may start after half"),
        "elsewhere": ("may start when elsewhere ends", "may start after elsewhere"),
    }
    beside = {why.without_figures(starts[name]) for name, why in found.items()}
    assert beside == {"needs 32 GPUs of flavor a4, 16 more than are free"}
    assert found["two"].without_figures(None).endswith("16 more than are free; quota free when two ends")
    of_one_name = [QuotaHolder(namespace, "two", gpus=gpus) for namespace, gpus in (("ours", 8), ("theirs", 32))]
    assert not any(frees_enough(16, order, starts["two"]) for order in (of_one_name, of_one_name[::-1]))


def test_kueues_own_words_are_kept() -> None:
    mine = workload("three", 4, pending("Pending", short(8)))
    assert why_workload(mine, fleet_of(DOOR, queue(64, 40), mine)).api_text == short(8)


def test_the_fewest_jobs_are_named_whose_end_is_enough() -> None:
    mine = workload("big", 8)
    fleet = fleet_of(DOOR, queue(64, 64), *(holding(f"j{n}", n) for n in (1, 2, 4)), holding("k", 1), mine)
    assert why_workload(mine, fleet).short_by == 64
    assert [each.name for each in why_workload(mine, fleet).unblocks] == ["j4", "j2", "k", "j1"]
    ten = workload("ten", 5)
    fleet = fleet_of(DOOR, queue(64, 64), holding("a", 1), holding("b", 2), holding("c", 2), holding("d", 3), ten)
    assert [each.name for each in why_workload(ten, fleet).unblocks] == ["d", "b"]


def test_a_holder_has_an_owner_and_a_queue() -> None:
    mine = workload("three", 4)
    owner = JobSet("default", "two", "js-two", owner="mira")
    fleet = fleet_of(DOOR, queue(64, 64), owner, holding("two", 8, priority=100), mine)
    assert why_workload(mine, fleet).holders == (QuotaHolder("default", "two", "mira", "team", "a4", 64, 100),)


def test_what_is_borrowed_and_lent_is_shown() -> None:
    mine = workload("mine", 4)
    fleet = fleet_of(
        DOOR, queue(32, 16, cohort="lab"), queue(32, 40, "research", cohort="lab"),
        holding("own", 2), holding("theirs", 5, "research"), mine,
    )  # fmt: skip
    found = why_workload(mine, fleet)
    assert found.sentence == (
        "needs 32 GPUs of flavor a4; 32 own - 16 used - 8 lent = 8 free, 24 more needed; what is lent has research; "
        "quota free when theirs ends"
    )
    assert [each.name for each in found.unblocks] == ["theirs"]


def test_jobs_of_a_queue_that_does_not_lend_do_not_unblock() -> None:
    mine = workload("mine", 5)
    fleet = fleet_of(
        DOOR, queue(32, 0, cohort="lab", borrow=8), queue(64, 64, "research", cohort="lab", lend=0),
        holding("theirs", 8, "research"), mine,
    )  # fmt: skip
    assert why_workload(mine, fleet).unblocks == ()


def test_victims_are_named_while_they_leave() -> None:
    mine = workload("urgent", 4, pending("Pending", f"{short(8)}. Pending the preemption of 1 workload(s)"), priority=9)
    victim = holding("victim", 4)
    told = Condition(
        "Preempted", "True", "InClusterQueue", "Preempted to accommodate a workload (UID: wl-urgent, JobUID: x)"
    )
    victim = structs.replace(victim, conditions=(*victim.conditions, told, Condition("Evicted", "True", "Preempted")))
    fleet = fleet_of(DOOR, queue(64, 40), victim, mine)
    assert why_workload(mine, fleet).category is Category.PREEMPTING
    words = "waits for victim to leave; needs 32 GPUs of flavor a4; 64 own - 40 used = 24 free, 8 more needed"
    assert why_workload(mine, fleet).sentence == words, "nobody else is named"
    assert why_workload(victim, fleet).category is Category.EVICTED


# one workload in its queue

PENDING = CheckState("capacity", "Pending", "asked"), CheckState("budget", "Pending")
INACTIVE = Condition("Active", "False", "FlavorNotFound", "Can't admit: references missing ResourceFlavor(s): a4.")
REQUEUED = Condition("Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded", "exceeded the maximum number")
NOT_READY = Condition("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")
PREEMPTED = Condition("Evicted", "True", "Preempted")
TOO_MUCH = (
    f"{ASSIGN}insufficient quota for {GPU} in flavor a4, previously considered podsets requests (0) + current podset "
    "request (128) > maximum capacity (64)"
)
UNCOVERED = f"{ASSIGN}resource networking.gke.io.networks/gpu0 unavailable in ClusterQueue"
WAITING = [workload(f"w{number}", 8, created=float(number)) for number in range(3)]
WELL = DOOR, queue(64)
ANSWERS: list[tuple[Workload, tuple[Any, ...], Category, str]] = [
    (workload("cpu", 1, pending("Pending", short(4, "cpu"))), WELL, Category.QUOTA,
     "needs 4 more cpu of flavor a4 than is unused"),
    (workload("mine", 8), (DOOR, queue(32, 32, cohort="lab"), queue(64, 16, "research", cohort="lab")), Category.QUOTA,
     "needs 64 GPUs of flavor a4; 32 own + 48 to borrow - 32 used = 48 free, 16 more needed…"),
    (workload("mine", 4, pending("Pending", short(8))), (), Category.QUOTA,
     "needs 8 more GPUs of flavor a4 than are unused"),
    *((workload("huge", 16, conditions), WELL, Category.EXCEEDS,
       "needs 128 GPUs of flavor a4, but its queue can have at most 64")
      for conditions in ((), pending("ExceedsMaxQuota"), pending("Pending", TOO_MUCH))),
    (workload("big", conditions=pending("Pending", UNCOVERED)), WELL, Category.NO_FLAVOR,
     "ClusterQueue a4 does not cover networking.gke.io.networks/gpu0…"),
    (workload("mine", 1, created=9.0), (DOOR, queue(64, 48), *WAITING), Category.BEHIND, "behind w2 and 2 more"),
    *((workload("new", 2, conditions), WELL, Category.NOT_EVALUATED,
       "is next, Kueue has not evaluated it yet; 16 of the 64 free GPUs would do")
      for conditions in ((), pending("PendingEvaluation"), pending("PendingEvaluation", "not yet"))),
    (workload("mine"), (structs.replace(DOOR, stop_policy="Hold"), queue()), Category.STOPPED,
     "queue team is stopped…"),
    (workload("mine"), (DOOR, queue(stop_policy="HoldAndDrain")), Category.STOPPED, "…drained…"),
    (workload("mine", 4, pending("Inadmissible", "ClusterQueue a4 is inactive")),
     (DOOR, queue(conditions=(INACTIVE,))), Category.INACTIVE_QUEUE, f"queue a4 is not active: {INACTIVE.message}"),
    (workload("lost", queue="tema"), WELL, Category.MISSING_QUEUE, "queue tema does not exist in default"),
    (workload("lost"), (structs.replace(DOOR, cluster_queue="b4"), queue()), Category.MISSING_QUEUE,
     "cluster queue b4 does not exist"),
    *((workload("mine", 4, (Condition("QuotaReserved", "True"),), cluster_queue="a4", checks=checks),
       (DOOR, queue(64, 32)), Category.CHECKS, words)
      for checks, words in (
          ((CheckState("ready", "Ready"), CheckState("dws-prov", "Pending", "Waiting for resources")),
           "has quota, waits for the check dws-prov: Waiting for resources"),
          ((*PENDING, CheckState("own", "Ready")), "has quota, waits for the checks budget, capacity"),
          ((PENDING[0], CheckState("b", "Rejected", "no machine")), "was refused by the check b: no machine"))),
    (workload("mine", 4, (PREEMPTED, *pending("Pending", short(8)))), (DOOR, queue(64, 40)), Category.QUOTA,
     "was preempted; needs 32 GPUs of flavor a4; 64 own - 40 used = 24 free, 8 more needed…"),
    (workload("mine", 4, (REQUEUED,), active=False, requeue_count=5), WELL, Category.DEACTIVATED,
     "…after 5 requeues (RequeuingLimitExceeded)…"),
    (workload("mine", 4, (*NOW, NOT_READY), cluster_queue="a4"), WELL, Category.PODS_NOT_READY, "…"),
    (workload("mine", 4, NOW, cluster_queue="a4"), WELL, Category.RUNNING, ""),
    (workload("mine", 4, (Condition("Finished", "True"),), cluster_queue="a4"), WELL, Category.FINISHED, ""),
]  # fmt: skip
"""A workload, what is there besides, and the answer; of its sentence what is between dots is left out."""


@pytest.mark.parametrize(("mine", "others", "category", "words"), ANSWERS)
def test_the_answer_of_one_workload(mine: Workload, others: tuple[Any, ...], category: Category, words: str) -> None:
    found = why_workload(mine, fleet_of(*others, mine))
    assert found.category is category
    assert re.fullmatch(re.escape(words).replace("…", ".*"), found.sentence), found.sentence
    assert others or found.account is None
    assert category is not Category.EXCEEDS or found.short_by == 64


# topology


def floor(*busy: int) -> list[Node | Pod]:
    nodes = [
        Node(f"n{n:02}", gpus=8, gpu_capacity=8, ready=True, block=f"blk-{n // 8}", subblock=f"sub-{n // 4}", pool="a4")
        for n in range(16)
    ]
    pods = [
        Pod("default", f"p{n}", node=f"n{n:02}", gpus=8, phase="Running", jobset=f"job-{n}", jobset_uid=f"u{n}")
        for n in busy
    ]
    return [*nodes, *pods]


TOPOLOGY = 'couldn\'t assign flavors to pod set main: topology "gke-default" allows to fit only 5 out of 8 pod(s)'
TOGETHER = PodSet("main", 8, ((GPU, 8),), required_topology=BLOCK)
FLAVOR = ResourceFlavor("a4", node_labels=(("cloud.google.com/gke-nodepool", "a4"),), topology="gke-default")


@pytest.mark.parametrize(
    "conditions",
    [
        (),
        pending("TopologyPlacementFailed"),
        pending("Pending", TOPOLOGY),
        pending("TopologyPlacementFailed", TOPOLOGY),
    ],
)
def test_quota_is_there_but_no_block_has_room(conditions: tuple[Condition, ...]) -> None:
    mine = workload("wide", 8, conditions, group=TOGETHER)
    jobs = [JobSet("default", f"job-{n}", f"u{n}") for n in range(16)]
    fleet = fleet_of(DOOR, FLAVOR, queue(128, 64), mine, *jobs, *floor(0, 1, 2, 8, 9, 10, 11, 12))
    found = why_workload(mine, fleet)
    assert (
        found.sentence == "quota is there (flavor a4: 128 own - 64 used = 64 free) but no block has 8 free hosts: "
        "blk-0 has 5, blk-1 has 3; room free when job-2, job-1 and job-0 end"
    )
    assert (found.category, found.room) == (Category.TOPOLOGY, 5)
    nodes = eligible_nodes(fleet, 8, "a4")
    assert (nodes.slots(BLOCK), nodes.capacity(BLOCK)) == ({"blk-0": 5, "blk-1": 3}, {"blk-0": 8, "blk-1": 8})
    assert sorted(each.name for each in found.unblocks) == ["job-0", "job-1", "job-2"]


def test_a_place_that_is_too_small_for_ever_is_reported() -> None:
    mine = workload("wide", 8, group=structs.replace(TOGETHER, required_topology=SUBBLOCK))
    found = why_workload(mine, fleet_of(DOOR, FLAVOR, queue(128), mine, *floor()))
    assert found.sentence.endswith("; it never fits: it needs 8 hosts in one subblock, and the largest subblock has 4")
    assert found.unblocks == ()
    assert why_workload(mine, fleet_of(DOOR, FLAVOR, queue(128, 96), mine, *floor())).sentence.endswith(
        "; it never fits: it needs 8 hosts in one subblock, and the largest subblock has 4"
    )


def test_the_flavor_that_kueue_refused_is_the_one_named() -> None:
    said = TOPOLOGY.replace("5 out of 8", "1 out of 2")
    mine = workload("pair", 2, pending("Pending", said))
    spot = structs.replace(FLAVOR, name="spot", node_labels=(("cloud.google.com/gke-nodepool", "spot"),))
    both = structs.replace(queue(16), quotas=(Quota("a4", GPU, 16), Quota("spot", GPU, 64)))
    free = [structs.replace(node, name=f"s{node.name}", pool="spot") for node in floor() if isinstance(node, Node)]
    fleet = fleet_of(DOOR, FLAVOR, spot, both, mine, *floor(*range(15)), *free)
    found = why_workload(mine, fleet)
    assert found.flavor == "a4"
    words = "quota is there (flavor a4: 16 free) but it needs 2 free hosts and there is 1; room free when job-0 ends"
    assert found.sentence == words


def test_another_flavor_that_only_lacks_places_is_named_too() -> None:
    said = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor spot"
    said += ", 8 more needed"
    mine = workload("pair", 2, pending("Pending", said))
    spot = structs.replace(FLAVOR, name="spot", node_labels=(("cloud.google.com/gke-nodepool", "spot"),))
    both = structs.replace(queue(16), quotas=(Quota("a4", GPU, 16), Quota("spot", GPU, 8)))
    found = why_workload(mine, fleet_of(DOOR, FLAVOR, spot, both, mine, *floor(*range(15))))
    assert found.flavor == "spot"
    assert found.sentence.endswith("; flavor a4 has quota for it, but it needs 2 free hosts and there is 1")


def test_a_refusal_that_no_longer_holds_is_no_contradiction() -> None:
    mine = workload("wide", 8, pending("Pending", TOPOLOGY), group=TOGETHER)
    assert why_workload(mine, fleet_of(DOOR, FLAVOR, queue(128), mine, *floor())).sentence == (
        "quota is there (flavor a4: 128 free) and blk-0 has 8 free hosts now, but Kueue has not assigned them yet"
    )


def test_an_unknown_level_has_kueues_number() -> None:
    mine = workload(
        "wide", 8, pending("Pending", TOPOLOGY), group=structs.replace(TOGETHER, required_topology="example.com/rack")
    )
    found = why_workload(mine, fleet_of(DOOR, FLAVOR, queue(128), mine, *floor()))
    assert (
        found.sentence
        == "quota is there (flavor a4: 128 free) but the topology has room for only 5 of its 8 pods in one rack"
    )
    assert found.room == -1


@pytest.mark.parametrize(
    ("label", "value"), [("gke-nodepool", "b4"), ("gke-provisioning", "spot"), ("gke-spot", "true")]
)
def test_nodes_of_other_flavors_do_not_count(label: str, value: str) -> None:
    mine = workload("wide", 8, group=TOGETHER)
    other = structs.replace(FLAVOR, node_labels=((f"cloud.google.com/{label}", value),))
    assert why_workload(mine, fleet_of(DOOR, other, queue(128), mine, *floor())).category is Category.NOT_EVALUATED


# order


def test_behind_others_of_a_strict_queue() -> None:
    first, mine = workload("first", 8, created=1.0), workload("mine", 4, pending("Pending", short(8)), created=2.0)
    fleet = fleet_of(DOOR, queue(64, 48, strategy="StrictFIFO"), holding("one", 6), first, mine)
    found = why_workload(mine, fleet)
    assert (found.category, found.position, found.ahead) == (Category.BEHIND, 2, ("first",))
    assert found.sentence.startswith(
        "behind first, and a4 is StrictFIFO: nothing passes; then needs 32 GPUs of flavor a4; 64 own - 48 used"
    )


# after admission, after eviction, at the end


@pytest.mark.parametrize(
    ("wait", "then"),
    [
        (40, "queues again in 40 s (attempt 3)"),
        (-600, "was to queue again 10 min ago, and Kueue has not requeued it (attempt 3)"),
    ],
)
def test_backs_off(wait: float, then: str) -> None:
    evicted = Condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout default/jobset-mine")
    conditions = (evicted, Condition("Requeued", "False", "PodsReadyTimeout"))
    mine = workload("mine", 4, conditions, requeue_at=4e9, requeue_count=2)
    fleet = replace(fleet_of(DOOR, queue(), mine), at=4e9 - wait)
    found = why_workload(mine, fleet)
    assert (found.category, found.sentence) == (Category.BACKOFF, f"its pods were not ready in time; {then}")


@pytest.mark.parametrize(
    ("there", "whom"),
    [
        ((holding("urgent", 4, priority=1000),), "urgent (ClusterQueue a4, priority 1000)"),
        ((structs.replace(holding("urgent", 4, priority=7), namespace="team-b"),),
         "team-b/urgent (ClusterQueue a4, priority 7)"),
        ((JobSet("default", "urgent", "js-urgent"),), "urgent (ClusterQueue a4)"),
        ((), "a job of ClusterQueue a4 that is not listed (any more)"),
    ],
)  # fmt: skip
def test_a_preempted_job_says_for_whom(there: tuple[Any, ...], whom: str) -> None:
    text = (
        "Preempted to accommodate a workload (UID: wl-urgent, JobUID: js-urgent) due to reclamation within the cohort; "
        "preemptor path: /lab/a4; preemptee path: /lab/research"
    )
    told = (Condition("Evicted", "True", "Preempted", text), Condition("Preempted", "True", "InCohort", text))
    mine = workload("mine", 4, (*told, *pending("Pending", short(8))))
    job = JobSet("default", "mine", "js-mine", queue="team", suspended=True)
    fleet = fleet_of(DOOR, queue(64, 40), job, mine, *there)
    assert why_workload(mine, fleet).sentence.startswith(
        f"was preempted by {whom}; needs 32 GPUs of flavor a4; 64 own - 40 used"
    )
    (ending,) = rank_failures(job, fleet)
    assert (ending.sentence, ending.message) == (
        "The job was preempted.", f"Kueue preempted it for {whom}: reclamation within the cohort.",
    )  # fmt: skip


# reasons


@pytest.mark.parametrize(
    ("reason", "message", "category"),
    [
        ("NoMatchingFlavor", "", Category.NO_FLAVOR),
        ("Pending", "Workload has overlapping preemption targets with another workload, but will fit after these "
         "preemptions complete", Category.PREEMPTING),
        ("Pending", f"{ASSIGN}flavor a4 doesn't match node affinity", Category.NO_FLAVOR),
        ("Pending", f"{ASSIGN}resource rdma unavailable in ClusterQueue", Category.NO_FLAVOR),
        ("Waiting", "waiting for all admitted workloads to be in PodsReady condition", Category.PODS_NOT_READY),
        ("WaitingForPodsReady", "", Category.PODS_NOT_READY),
        ("OnHold", "", Category.GATED),
        ("AdmissionGated", "", Category.GATED),
        ("Misconfigured", "", Category.MISSING_QUEUE),
        ("Suspended", "", Category.STOPPED),
        ("Inadmissible", "ClusterQueue a4 is inactive", Category.INACTIVE_QUEUE),
        ("Inadmissible", "LocalQueue team doesn't exist", Category.MISSING_QUEUE),
        ("Inadmissible", "LocalQueue team is stopped", Category.STOPPED),
        ("Pending", "The workload has failed admission checks", Category.CHECKS),
        ("Pending", "Workload namespace doesn't match ClusterQueue selector", Category.MISSING_QUEUE),
        ("Pending", "Failed to admit workload: some error", Category.UNKNOWN),
        ("SomethingNew", "a reason of tomorrow", Category.UNKNOWN),
    ],
)  # fmt: skip
def test_every_reason_has_a_sentence(reason: str, message: str, category: Category) -> None:
    mine = workload("mine", 2, pending(reason, message))
    found = why_workload(mine, fleet_of(DOOR, queue(64), mine))
    assert found.category is category
    assert found.sentence
    assert found.api_text == message


REASONS = [
    "Pending",
    "WaitingForQuota",
    "TopologyPlacementFailed",
    "ExceedsMaxQuota",
    "Tomorrow",
    "WaitingForPreemptedWorkloads",
]


@given(
    st.integers(0, 20), st.integers(0, 128), st.integers(0, 160), st.sampled_from(REASONS),
    st.sampled_from(["", short(8), TOPOLOGY, "words"]), st.booleans(),
)  # fmt: skip
def test_every_explanation_is_one_sentence(
    pods: int, nominal: int, used: int, reason: str, message: str, together: bool
) -> None:
    group = PodSet("main", pods, ((GPU, 8),), required_topology=BLOCK if together else "")
    mine = workload("mine", pods, pending(reason, message), group=group)
    found = why_workload(
        mine, fleet_of(DOOR, FLAVOR, queue(nominal, used), holding("other", used // 8), mine, *floor(0, 1, 2))
    )
    assert isinstance(found, Why)
    assert found.sentence
    assert "\n" not in found.sentence
    assert found.short_by >= 0
    assert sum(each.gpus for each in found.unblocks) >= found.short_by or not found.unblocks or found.room >= 0


def test_a_message_that_tells_the_same_is_not_quoted_beside_the_answer() -> None:
    mine = workload("three", 4, pending("Pending", short(8)))
    found = why_workload(mine, fleet_of(DOOR, queue(64, 40), mine))
    assert (found.short_by, found.agrees, found.differs) == (8, True, False)


def test_a_message_of_another_time_gives_way_to_what_is_there_now_and_tells_its_age() -> None:
    """Others have ended since Kueue looked: it found 32 GPUs too few, and 8 are."""
    mine = workload("three", 4, pending("Pending", short(32)))
    told = Event("default", "e", object_uid="wl-three", reason="Pending", message=short(32), last=1_000.0)
    found = why_workload(mine, fleet_of(DOOR, queue(64, 40), mine, told))
    assert found.sentence.startswith("needs 32 GPUs of flavor a4; 64 own - 40 used = 24 free, 8 more needed")
    assert (found.short_by, found.agrees, found.differs, found.reported_at) == (8, False, True, 1_000.0)
    enough = why_workload(mine, fleet_of(DOOR, queue(64, 24), mine, told))
    assert enough.sentence == "needs 32 GPUs of flavor a4; 64 own - 24 used = 40 free, but Kueue has not assigned them"
    assert (enough.short_by, enough.differs) == (0, True)


# Kueue's own reasons, where GPUs and places alone tell otherwise

EXCLUDED = (
    f'{ASSIGN}topology "gke-default" allows to fit only 1 out of 4 pod(s). Total nodes: 14; excluded: resource "cpu": '
    '10, taint "team=b:NoSchedule": 3, nodeSelector: 1'
)
RETRY = CheckState("dws-prov", "Retry", "Retrying after failure: Max nodepool size reached")


def test_nodes_that_kueue_excludes_come_before_the_count_of_gpus() -> None:
    group = PodSet("main", 4, ((GPU, 8),), required_topology=BLOCK)
    waiting = workload("big", conditions=pending("Pending", EXCLUDED), group=group)
    free = (Node(f"n{at}", gpus=8, gpu_capacity=8, ready=True, block="blk-0", pool="a4") for at in range(8))
    answer = why_workload(waiting, fleet_of(waiting, queue(128), DOOR, *free))
    assert 'room for only 1 of its 4 pods: of 14 nodes it excludes 10 for resource "cpu"' in answer.sentence
    assert '3 for taint "team=b:NoSchedule", 1 for nodeSelector' in answer.sentence
    assert (answer.category, answer.api_text) == (Category.TOPOLOGY, EXCLUDED)
    assert "has not assigned" not in answer.sentence


def test_an_admission_check_that_failed_has_its_name_and_message() -> None:
    evicted = Condition("Evicted", "False", "QuotaReserved", "Previously: At least one admission check is false")
    conditions = (*pending("Pending", "The workload has failed admission checks"), evicted)
    waiting = workload("big", conditions=conditions, checks=(RETRY,), requeue_at=2e10, requeue_count=3)
    answer = why_workload(waiting, fleet_of(waiting, queue(128), DOOR))
    assert answer.sentence.startswith("admission check dws-prov failed (Max nodepool size reached); queues again in ")
    assert answer.sentence.endswith("(attempt 4)")
    refused = structs.replace(waiting, active=False, checks=(CheckState("dws-prov", "Rejected", "no capacity"),))
    words = why_workload(refused, fleet_of(refused, queue(128), DOOR)).sentence
    assert "admission check dws-prov failed (no capacity)" in words


def test_an_eviction_without_pods_that_keeps_its_quota_is_stuck() -> None:
    evicted = Condition("Evicted", "True", "PodsReadyTimeout", "Exceeded", since=1.0)
    held = structs.replace(holding("ghost", 4), conditions=(*NOW, evicted))
    answer = why_workload(held, fleet_of(held, queue(128), DOOR))
    assert "still holds 32 GPUs and has no pods" in answer.sentence
    assert answer.next == "Delete its Workload (jobset-ghost), which Kueue makes again"
    pod = Pod("default", "ghost-w-0-0", jobset_uid="js-ghost")
    assert "its pods are being deleted" in why_workload(held, fleet_of(held, queue(128), DOOR, pod)).sentence
