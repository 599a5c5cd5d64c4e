"""What would follow from a change: who starts, who is preempted, what is left; the cluster stays as it is."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.errors import BadInput, NotFound, NotThere
from console.kube.objects.jobset import JobSet
from console.kube.objects.queue import LocalQueue, Preemption, ResourceFlavor, Topology
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.start_simulation import expected_starts
from console.scheduling.what_if import Changes, NextVictims, WhatIf, next_victims, what_if
from screens.cli.forecast_and_what_if import result_lines
from screens.cli.why import _preempted_next
from tests.console.scheduling.test_expected_starts import placed, runs, waits
from tests.fakes import fleet_of
from tests.screens.queue_scene import cluster_queue, job
from tests.screens.scene import a4, rank


def scene(*jobs: tuple[JobSet, Workload], **queue: object) -> Fleet:
    used = sum(workload.total("nvidia.com/gpu") for _, workload in jobs if workload.cluster_queue)
    made = structs.replace(cluster_queue("a4", used), **queue)
    doors = (LocalQueue("default", name, cluster_queue="a4") for name in ("a4", "door"))
    return fleet_of(made, *doors, ResourceFlavor("a4"),
                    *(each for pair in jobs for each in pair))  # fmt: skip


def consequences_of(found: WhatIf) -> dict[str, str]:
    return {each.job: f"{each.what} {each.by}".strip() for each in found.consequences}


def asked(fleet: Fleet, **changes: tuple[str, ...]) -> dict[str, str]:
    return consequences_of(what_if(fleet, "default", Changes(**changes)))


PREEMPTING = Preemption(within_queue="LowerPriority")


def test_a_new_job_starts_where_there_is_room_and_waits_where_there_is_none() -> None:
    fleet = scene(runs("a", 4))
    found = what_if(fleet, "default", Changes(submit=("a4:32",)))
    assert consequences_of(found) == {"new-1": "starts"}
    (free,) = found.free
    assert (free.queue, free.flavor, free.now, free.then) == ("a4", "a4", 32, 0)
    assert (free.machines_now, free.machines_then) == (None, None), "the flavor has no topology"
    assert asked(fleet, submit=("door:40",)) == {"new-1": "waits"}
    assert asked(fleet, submit=("door:16", "a4:24")) == {"new-1": "starts", "new-2": "waits"}


def test_a_job_larger_than_its_queue_could_ever_be_never_starts() -> None:
    for gpus in (72, 8 * 10**18):
        (found,) = what_if(scene(runs("a", 4)), "default", Changes(submit=(f"a4:{gpus}",))).consequences
        assert (found.what, found.most, found.position) == ("never starts", 64, 0)


def test_a_higher_priority_preempts_and_the_victim_waits() -> None:
    fleet = scene(runs("low", 4, priority=1), runs("high", 4, priority=9), preemption=PREEMPTING)
    found = what_if(fleet, "default", Changes(submit=("a4:16:5",)))
    assert consequences_of(found) == {"new-1": "starts", "low": "preempted new-1"}
    assert [each.position for each in found.consequences] == [0, 1]
    assert asked(fleet, submit=("a4:16:1",)) == {"new-1": "waits"}
    assert what_if(fleet, "default", Changes(submit=("a4:16:1",))).consequences[0].position == 1


def test_a_priority_is_a_number_or_the_name_of_a_class() -> None:
    fleet = scene(runs("low", 4, priority=1), runs("high", 4, priority=9), preemption=PREEMPTING)
    by_name = Changes(submit=("a4:16:medium",), priority=("high:medium", "low:-3"))
    assert by_name.priority_classes == ["medium", "medium"]
    by_number = Changes(submit=("a4:16:5",), priority=("high:5", "low:-3"))
    assert by_number.priority_classes == []
    classes = {"medium": 5, "none": 0}
    assert what_if(fleet, "default", by_name, classes) == what_if(fleet, "default", by_number)
    with pytest.raises(NotThere, match=r"no WorkloadPriorityClass top\. There are: medium, none\."):
        what_if(fleet, "default", Changes(submit=("a4:16:top",)), classes)


def test_stopping_a_job_and_another_priority_let_others_start() -> None:
    fleet = scene(runs("a", 8), waits("first", 6, created=1.0), waits("second", 4, created=2.0))
    assert asked(fleet, stop=("a",)) == {"a": "stopped", "first": "starts"}
    assert asked(fleet, stop=("a",), priority=("second:5",)) == {"a": "stopped", "second": "starts"}
    assert asked(fleet, stop=("a", "a", "first")) == {"a": "stopped", "first": "stopped", "second": "starts"}


def test_more_quota_lets_one_start_and_less_takes_from_nobody() -> None:
    fleet = scene(runs("a", 8), waits("b", 2))
    assert asked(fleet, quota=("a4:a4:80",)) == {"b": "starts"}
    assert asked(fleet, quota=("a4:a4:8",)) == {}
    assert what_if(fleet, "default", Changes(quota=("a4:a4:8",))).free[0].then == 0


def test_what_would_happen_anyway_is_not_reported() -> None:
    fleet = scene(runs("a", 4), waits("soon", 2), waits("later", 4))
    assert asked(fleet, quota=("a4:a4:65",)) == {}, "soon starts without it too"


def placed_fleet(spare: int) -> Fleet:
    nodes = [
        structs.replace(a4(number), block="blk", pool="pool", host=f"host-{number}") for number in range(2 + spare)
    ]
    parts = [*placed("a", nodes[0]), *placed("b", nodes[1])]
    return fleet_of(
        cluster_queue("a4", 16), LocalQueue("default", "door", cluster_queue="a4"),
        ResourceFlavor("a4", topology="net"), Topology("net", levels=("kubernetes.io/hostname",)), *nodes, *parts,
    )  # fmt: skip


def test_the_jobs_of_a_lost_host_start_elsewhere_or_wait() -> None:
    with_spare, without = placed_fleet(1), placed_fleet(0)
    found = what_if(with_spare, "default", Changes(drain=("host-0",)))
    assert consequences_of(found) == {"a": "moves"}
    assert (found.free[0].machines_now, found.free[0].machines_then) == (8, 0)
    assert (found.free[0].now, found.free[0].then) == (48, 48), "quota is not lost with a machine"
    assert asked(without, drain=("host-0",)) == {"a": "leaves"}
    assert asked(with_spare, drain=("pool",)) == {"a": "leaves", "b": "leaves"}
    assert not found.notes


def test_machines_of_a_flavor_without_topology_are_reported_as_not_counted() -> None:
    made, workload = runs("a", 1)
    fleet = fleet_of(cluster_queue("a4", 8), LocalQueue("default", "a4", cluster_queue="a4"), ResourceFlavor("a4"),
                     a4(0), made, workload, rank(made, 0, a4(0).name))  # fmt: skip
    (note,) = what_if(fleet, "default", Changes(drain=(a4(0).name,))).notes
    assert note.startswith("flavor a4 has no topology, so Kueue counts quota alone and not machines")


def test_a_closed_queue_admits_nothing() -> None:
    found = what_if(scene(runs("a", 1), stop_policy="Hold"), "default", Changes(submit=("door:8",)))
    assert consequences_of(found) == {"new-1": "waits"}
    assert found.notes == ("new-1 waits: queue a4 is stopped (stop policy Hold) and admits nothing",)


def test_the_cluster_stays_as_it_is() -> None:
    fleet = scene(runs("low", 4, priority=1), runs("b", 4, priority=9), waits("c", 4), preemption=PREEMPTING)
    left = {"uid-b": 60.0}
    before = expected_starts(fleet, left)
    asked(fleet, submit=("a4:16:5",), stop=("b",), quota=("a4:a4:8",), priority=("c:7",))
    assert expected_starts(fleet, left) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"submit": ("a4",)}, "--submit a4 has to be QUEUE:GPUS[:PRIORITY]."),
        ({"submit": ("a4:many",)}, "--submit a4:many has to be QUEUE:GPUS[:PRIORITY], and many is no whole number."),
        ({"submit": ("a4:12",)}, "--submit a4:12: GPUs have to be 1 to 8, or a multiple of 8."),
        ({"submit": ("b4:8",)}, "--submit b4:8: there is no queue b4. There are: a4, door."),
        ({"quota": ("a4:spot:8",)},
         "--quota a4:spot:8: there is no GPU quota in ClusterQueue a4 of flavor spot. There are: a4."),
        ({"quota": ("b4:a4:8",)}, "--quota b4:a4:8: there is no ClusterQueue b4. There are: a4."),
        ({"quota": ("a4:a4:-8",)}, "--quota a4:a4:-8: GPUs have to be 0 or more."),
        ({"priority": ("a",)}, "--priority a has to be JOB:PRIORITY."),
        ({"priority": ("a:top",)}, "--priority a:top: there is no WorkloadPriorityClass top. There are: none."),
        ({"drain": ("nowhere",)}, "There is no node, pool or host nowhere. Pools: none; a4 nodes lists nodes."),
    ],
)  # fmt: skip
def test_a_change_of_what_is_not_there_is_refused(changes: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        asked(scene(runs("a", 1)), **changes)
    assert str(caught.value) == words


def test_a_job_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="There is no job b in namespace default"):
        asked(scene(runs("a", 1)), stop=("b",))
    free = job("free", 1)
    with pytest.raises(NotThere, match="free neither holds GPUs of a queue nor is among the first that wait"):
        what_if(fleet_of(cluster_queue("a4", 0), free), "default", Changes(stop=("free",)))
    done = structs.replace(free, name="done", terminal_state="Completed")
    with pytest.raises(NotThere, match=r"done has ended \(succeeded\) and holds no GPUs: nothing would change\."):
        what_if(fleet_of(cluster_queue("a4", 0), done), "default", Changes(priority=("done:3",)))


def test_a_node_goes_by_the_short_names_that_screens_show() -> None:
    fleet = placed_fleet(1)
    assert [asked(fleet, drain=(name,)) for name in ("0000", "a4-pool/0000")] == [{"a": "moves"}] * 2
    spot = structs.replace(a4(0), name="gke-train-spot-0000")
    fleet = replace(fleet, nodes={**fleet.nodes, ("", spot.name): spot})
    assert asked(fleet, drain=("a4-pool/0000",)) == {"a": "moves"}
    with pytest.raises(BadInput, match=rf"^0000 is the end of several nodes' names: {a4(0).name}, {spot.name}\."):
        asked(fleet, drain=("0000",))


def test_the_next_victims_of_the_highest_waiting_priority_are_named_in_kueues_order() -> None:
    running = runs("low", 2, priority=1), runs("high", 2, priority=9), runs("lowest", 4, priority=0)
    asks = waits("vip", 16, priority=5), waits("small", 1, priority=0)
    fleet = scene(*running, *asks, preemption=PREEMPTING)
    assert next_victims(fleet) == NextVictims("vip", "a4", 5, (("default", "lowest"), ("default", "low")))
    found = what_if(fleet, "default", Changes(submit=("a4:8",)))
    assert found.next_victims == next_victims(fleet)
    assert result_lines(found, fleet)[-1] == (
        "For more jobs of priority 5 in queue a4, where vip waits, Kueue would preempt first lowest, then low."
    )
    by_name = {job.name: job for job, _ in running}
    words = (
        "low is number 2 of those that Kueue would preempt for more jobs of priority 5 in queue a4, where vip waits."
    )
    assert _preempted_next(fleet, by_name["low"]) == (2, words)
    assert _preempted_next(fleet, by_name["high"]) == (0, "")


def test_nobody_is_a_victim_where_nothing_waits_or_nobody_may_be_preempted() -> None:
    assert next_victims(scene(runs("a", 8), preemption=PREEMPTING)) is None
    assert next_victims(scene(runs("a", 8), waits("vip", 4, priority=5))) is None
    assert next_victims(scene(runs("a", 8, priority=5), waits("b", 4), preemption=PREEMPTING)) is None
