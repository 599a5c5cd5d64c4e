from hypothesis import given, strategies as st

from console.kube.objects.meta import Condition
from console.kube.objects.queue import LocalQueue
from console.kube.objects.workload import Workload
from console.scheduling.kueue_snapshot import queue_order, queue_position, queue_timestamp
from tests.fakes import fleet_of

DOOR = LocalQueue("default", "team", cluster_queue="a4")
OTHER = LocalQueue("lab", "team", cluster_queue="a4")


def workload(name: str, created: float = 0.0, priority: int = 0, **given_: object) -> Workload:
    facts = {"namespace": "default", "queue": "team"}
    return Workload(
        name=name,
        uid=name,
        created=created,
        priority=priority,
        **{**facts, **given_},  # type: ignore[arg-type]
    )


def held(since: float) -> tuple[Condition, ...]:
    return (Condition("Admitted", "True", since=since), Condition("QuotaReserved", "True", since=since))


def test_priority_comes_before_age() -> None:
    fleet = fleet_of(DOOR, workload("old", 1), workload("young", 2), workload("urgent", 3, 100))
    order = queue_order(fleet, "a4")
    assert [each.name for each in order.pending] == ["urgent", "old", "young"]
    assert [queue_position(each, fleet) for each in order.pending] == [1, 2, 3]


def test_running_ones_come_longest_first_and_have_no_position() -> None:
    fleet = fleet_of(
        DOOR,
        workload("b", conditions=held(20), cluster_queue="a4"),
        workload("a", conditions=held(10), cluster_queue="a4"),
        workload("waits"),
    )
    order = queue_order(fleet, "a4")
    assert [each.name for each in order.running] == ["a", "b"]
    assert queue_position(fleet.workloads["default", "a"], fleet) == 0


def test_finished_and_deactivated_workloads_stand_nowhere() -> None:
    fleet = fleet_of(DOOR, workload("done", conditions=(Condition("Finished", "True"),)), workload("off", active=False))
    assert queue_order(fleet, "a4").pending == ()


def test_an_eviction_for_readiness_sends_to_the_back_and_a_preemption_does_not() -> None:
    late = workload("late", 1, conditions=(Condition("Evicted", "True", "PodsReadyTimeout", since=50),))
    kept = workload("kept", 2, conditions=(Condition("Evicted", "True", "Preempted", since=60),))
    fleet = fleet_of(DOOR, late, kept, workload("new", 3))
    assert [each.name for each in queue_order(fleet, "a4").pending] == ["kept", "new", "late"]
    assert (queue_timestamp(late), queue_timestamp(kept)) == (50, 2)


def test_positions_count_over_all_namespaces() -> None:
    fleet = fleet_of(
        DOOR,
        OTHER,
        workload("a", 1),
        workload("b", 2, namespace="lab"),
        workload("c", 3),
        workload("d", 4, namespace="lab"),
    )
    pending = [each for each in queue_order(fleet, "a4").pending if each.namespace == "lab"]
    assert [(each.name, queue_position(each, fleet)) for each in pending] == [("b", 2), ("d", 4)]


def test_a_queue_nobody_knows_is_empty() -> None:
    assert queue_order(fleet_of(), "none").pending == ()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12))
def test_positions_count_without_gaps_in_kueues_order(facts: list[tuple[int, int]]) -> None:
    made = [workload(f"w{n}", created, priority) for n, (priority, created) in enumerate(facts)]
    fleet = fleet_of(DOOR, *made)
    pending = queue_order(fleet, "a4").pending
    assert [queue_position(each, fleet) for each in pending] == list(range(1, len(made) + 1))
    keys = [(-each.priority, each.created, each.uid) for each in pending]
    assert keys == sorted(keys)
