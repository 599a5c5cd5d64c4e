"""When waiting workloads would start: quota and places that running jobs free, in Kueue's order."""

import time

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import GPU
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.objects.queue import LocalQueue, Preemption, Quota, ResourceFlavor, Topology
from console.kube.objects.workload import TopologyDomain, Workload
from console.kube.snapshot import Fleet
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.start_simulation import expected_starts
from console.scheduling.why import awaited_ends
from screens.columns.jobs import start_json, start_time, start_words
from tests.fakes import fleet_of, present
from tests.screens.queue_scene import claim, cluster_queue, job, queue_scene
from tests.screens.scene import a4, rank

DAY = time.mktime((2026, 5, 4, 0, 0, 0, 0, 0, -1))  # midnight


def uid(fleet: Fleet, name: str) -> str:
    return fleet.jobsets["default", name].uid


def start_of(fleet: Fleet, name: str, **left: float) -> tuple[float, str, bool, str]:
    """Seconds until it starts, after which job, whether sooner is possible, and why it is not known."""
    starts = expected_starts(fleet, {uid(fleet, each): seconds for each, seconds in left.items()})
    workload = present(fleet.workload_of(fleet.jobsets["default", name]))
    found = starts[workload.key]
    return found.at and round(found.at - fleet.at, 3), found.after_job, found.latest, found.unknown


def bounds_of(fleet: Fleet, name: str, **left: float) -> tuple[float, tuple[str, ...]]:
    """Seconds until it starts at the earliest, and whose end lets it start at once."""
    starts = expected_starts(fleet, {uid(fleet, each): seconds for each, seconds in left.items()})
    workload = present(fleet.workload_of(fleet.jobsets["default", name]))
    found = starts[workload.key]
    return found.earliest and round(found.earliest - fleet.at, 3), found.sooner


def test_a_start_that_is_not_known_to_the_minute_has_bounds() -> None:
    """64 GPUs; of a nobody knows the end, b ends in 500 s."""
    fleet = scene(runs("a", 2), runs("b", 6), waits("wide", 8))
    assert start_of(fleet, "wide", b=500) == (0, "", False, "how long a still runs is not known")
    assert bounds_of(fleet, "wide", b=500) == (500, ()), "whatever becomes of a"
    (start,) = expected_starts(fleet, {uid(fleet, "b"): 500.0}).values()
    assert start_words(start, fleet.at).endswith(", when b ends; how long a still runs is not known")
    assert awaited_ends((), start) == "b ends", "its reason names the same"
    either = scene(runs("a", 4), runs("b", 4), waits("c", 4))
    assert start_of(either, "c", b=500) == (500, "b", True, "")
    assert bounds_of(either, "c", b=500) == (0, ("a",))
    assert bounds_of(either, "c") == (0, ("a", "b"))
    assert bounds_of(either, "c", a=100, b=500) == (0, ()), "it is known"
    behind = scene(runs("a", 4), runs("b", 4), waits("c", 4, created=1.0), waits("d", 4, created=2.0))
    assert bounds_of(behind, "d", a=100, b=500) == (100, ()), "c may end at once"


@pytest.mark.parametrize(
    ("start", "words", "short"),
    [
        (ExpectedStart(DAY + 3600), "about 01:00, in 1 h", "about 01:00"),
        (ExpectedStart(unknown="how long a still runs is not known"), "not known: how long a still runs is not known",
         "not known"),
        (ExpectedStart(unknown="how long a still runs is not known", earliest=DAY + 3600),
         "not before 01:00: how long a still runs is not known", "not before 01:00"),
        (ExpectedStart(unknown="how long a still runs is not known", earliest=DAY + 3600, earliest_after="b"),
         "not before 01:00, when b ends; how long a still runs is not known", "not before 01:00"),
        (ExpectedStart(DAY + 3600, "b", latest=True, sooner=("a",)),
         "at once if a ends; at the latest 01:00, in 1 h, when b ends", "by 01:00"),
        (ExpectedStart(DAY + 7200, "b", latest=True, earliest=DAY + 3600),
         "not before 01:00; at the latest 02:00, in 2 h, when b ends", "by 02:00"),
        (ExpectedStart(DAY + 3600, "b", checks=("dws",)),
         "quota about 01:00, in 1 h, when b ends; then machines are provisioned (admission check dws), "
         "when is not known",
         "quota about 01:00"),
    ],
)  # fmt: skip
def test_bounds_in_words(start: ExpectedStart, words: str, short: str) -> None:
    assert start_words(start, DAY) == words
    assert start_time(start, DAY) == short


def test_the_time_of_the_quota_is_never_the_start_where_machines_have_to_be_provisioned() -> None:
    fleet = scene(runs("a", 8), waits("c", 4), checks=("dws",))
    (start,) = expected_starts(fleet, {uid(fleet, "a"): 600.0}).values()
    fields = start_json(start, fleet.at)
    assert (fields["at"], fields["window"], fields["not_after"]) == (None, None, None)
    assert (fields["quota_at"], fields["checks"]) == (fleet.at + 600, ("dws",))
    plain = start_json(ExpectedStart(DAY, latest=True, earliest=DAY - 60, sooner=("a",)), DAY - 600)
    assert [plain[key] for key in ("at", "not_before", "not_after", "at_once_if_ends")] == [DAY, DAY - 60, DAY, ("a",)]


def scene(*jobs: tuple[JobSet, Workload], gpus: int = 64, **queue: object) -> Fleet:
    made = structs.replace(cluster_queue("a4", gpus), **queue)
    return fleet_of(made, LocalQueue("default", "a4", cluster_queue="a4"), ResourceFlavor("a4"),
                    *(each for pair in jobs for each in pair))  # fmt: skip


def runs(name: str, nodes: int, **more: object) -> tuple[JobSet, Workload]:
    made = job(name, nodes)
    return made, structs.replace(claim(made), **more)


def waits(name: str, nodes: int, *, created: float = 0.0, **more: object) -> tuple[JobSet, Workload]:
    made = job(name, nodes, suspended=True)
    workload = claim(made, waits="couldn't assign flavors to pod set workload: insufficient unused quota")
    return made, structs.replace(workload, **({"created": created} if created else {}), **more)


def test_those_in_front_take_the_room_first_and_small_ones_pass_them() -> None:
    fleet = scene(runs("a", 4), runs("b", 4), waits("big", 8, created=1.0), waits("small", 2, created=2.0))
    assert start_of(fleet, "small", a=100, b=200)[:2] == (100, "a")
    assert start_of(fleet, "big", a=100, b=200)[3] == (
        "others start before it (small), and how long they will run is not known"
    )
    strict = scene(runs("a", 4), runs("b", 4), waits("big", 8, created=1.0), waits("small", 2, created=2.0),
                   strategy="StrictFIFO")  # fmt: skip
    assert start_of(strict, "big", a=100, b=200)[:2] == (200, "b")
    assert start_of(strict, "small", a=100, b=200)[3].startswith("others start before it (big)")


NO_ROOM = "it has no room even when all that runs has ended"


@pytest.mark.parametrize(
    ("fleet", "name", "left", "start"),
    [
        (queue_scene(), "dpo-b", {"llama": 600.0}, (600, "llama", False, "")),
        (queue_scene(), "dpo-b", {}, (0, "", False, "how long llama still runs is not known")),
        (scene(runs("a", 4), runs("b", 4), waits("c", 4)), "c", {"a": 100.0}, (100, "a", True, "")),
        (scene(runs("a", 4), waits("huge", 9)), "huge", {"a": 100.0}, (0, "", False, NO_ROOM)),
        (scene(runs("a", 4), waits("huge", 9)), "huge", {}, (0, "", False, NO_ROOM)),
        (scene(runs("a", 8), waits("c", 4), stop_policy="Hold"), "c", {"a": 1.0},
         (0, "", False, "queue a4 is stopped (stop policy Hold) and admits nothing")),
    ],
)  # fmt: skip
def test_a_start_is_when_what_it_waits_for_is_free_or_why_it_is_not_known(
    fleet: Fleet, name: str, left: dict[str, float], start: tuple[float, str, bool, str]
) -> None:
    assert start_of(fleet, name, **left) == start


def test_what_is_preempted_and_starts_again_does_not_end_when_it_would_have() -> None:
    preempting = Preemption(within_queue="LowerPriority")
    fleet = scene(runs("a", 4), runs("low", 4, priority=1), waits("high", 4, priority=9), waits("last", 4),
                  preemption=preempting)  # fmt: skip
    assert start_of(fleet, "last", a=50, low=100)[:2] == (0, "")


def test_what_is_preempted_waits_again_and_takes_the_room_of_those_behind_it() -> None:
    """Three nodes that high leaves over are not enough for low; when b ends, low comes before last."""
    preempting = Preemption(within_queue="LowerPriority")
    fleet = scene(runs("b", 3, priority=9), runs("low", 5, priority=1), waits("high", 2, priority=9),
                  waits("last", 4, created=2.0), preemption=preempting)  # fmt: skip
    assert start_of(fleet, "last", b=50)[:2] == (0, "")
    alone = scene(
        runs("b", 3, priority=9), runs("low", 5, priority=1), waits("last", 3, created=2.0), preemption=preempting
    )
    assert start_of(alone, "last", b=50)[:2] == (50, "b")


BLOCK = "cloud.google.com/gce-topology-block"
POOL = "cloud.google.com/gke-nodepool"


def placed(name: str, node: Node, flavor: str = "a4") -> tuple[JobSet, Workload, Pod]:
    """A job of one pod, which runs on that node."""
    made = job(name, 1)
    held = claim(made)
    group = structs.replace(held.pod_sets[0], domains=(TopologyDomain((node.name,), 1),), flavors=((GPU, flavor),))
    return made, structs.replace(held, pod_sets=(group,)), rank(made, 0, node.name)


def test_places_count_as_well_as_quota() -> None:
    """Four nodes in two blocks: the quota is there, but a block is free only once both of its jobs have ended."""
    nodes = [structs.replace(a4(number), block=f"blk-{number // 2}", pool="pool") for number in range(4)]
    jobs = [placed(name, node) for name, node in zip("abc", nodes, strict=False)]
    wide = job("wide", 2, suspended=True)
    wish = claim(wide, waits="topology")
    group = structs.replace(wish.pod_sets[0], required_topology=BLOCK)
    flavor = ResourceFlavor("a4", topology="net")
    fleet = fleet_of(
        cluster_queue("a4", 48), LocalQueue("default", "a4", cluster_queue="a4"), flavor, *nodes,
        Topology("net", levels=(BLOCK, "kubernetes.io/hostname")),
        *(each for parts in jobs for each in parts), wide, structs.replace(wish, pod_sets=(group,)),
    )  # fmt: skip
    assert start_of(fleet, "wide", a=100, b=300, c=200)[:2] == (200, "c"), "blk-1 has one node free already"
    assert start_of(fleet, "wide", a=100, b=300)[:3] == (300, "b", True)


def test_only_holders_whose_end_could_matter_are_named_as_the_reason() -> None:
    """The quota of a4 is there and two nodes together are not: Kueue stays with it, and who holds spot is no reason.

    Where a4 has too little quota as well, spot is tried, and its holder is a reason too.
    """
    nodes = [structs.replace(a4(number), block="blk-0" if number < 2 else "blk-9",
                             pool="pool" if number < 2 else "spot") for number in range(4)]  # fmt: skip
    jobs = [placed("b", nodes[0]), placed("idle", nodes[1]), placed("cheap", nodes[2], "spot")]
    wide = job("wide", 2, suspended=True)
    wish = claim(wide, waits="topology")
    group = structs.replace(wish.pod_sets[0], required_topology=BLOCK)
    flavors = [ResourceFlavor(name, node_labels=((POOL, pool),), topology="net")
               for name, pool in (("a4", "pool"), ("spot", "spot"))]  # fmt: skip
    both = structs.replace(cluster_queue("a4", 16), quotas=(Quota("a4", GPU, 32), Quota("spot", GPU, 32)))
    fleet = fleet_of(
        both, LocalQueue("default", "a4", cluster_queue="a4"), *flavors, *nodes,
        Topology("net", levels=(BLOCK, "kubernetes.io/hostname")),
        *(each for parts in jobs for each in parts), wide, structs.replace(wish, pod_sets=(group,)),
    )  # fmt: skip
    assert start_of(fleet, "wide")[3] == "how long b, idle still run is not known"
    assert start_of(fleet, "wide", b=100)[3] == "how long idle still runs is not known"
    assert start_of(fleet, "wide", b=100, idle=300)[:2] == (300, "idle")
    less = structs.replace(both, quotas=(Quota("a4", GPU, 16), Quota("spot", GPU, 16)))
    short = replace(fleet, cluster_queues={("", "a4"): less})
    assert start_of(short, "wide")[3] == "how long cheap, b, idle still run is not known"
