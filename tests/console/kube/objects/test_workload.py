import json

import pytest

from console.errors import Unreadable
from console.kube.objects.meta import condition
from console.kube.objects.workload import (
    AssignmentSchema,
    IndividualValuesSchema,
    LevelValuesSchema,
    PodCountsSchema,
    SliceSchema,
    TopologyDomain,
    WorkloadState,
    domains_of,
)
from tests.console.kube.objects.recorded import kind, read, recorded


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_recorded_workloads_in_both_versions(version: str) -> None:
    found = {each.owner_name: each for each in recorded("workloads", version).values()}
    train, big = found["train"], found["big"]
    assert (train.state, train.cluster_queue, train.queue) == (WorkloadState.ADMITTED, "a4", "a4")
    assert train.total("nvidia.com/gpu") == 16
    (group,) = train.pod_sets
    assert group.flavors == (("nvidia.com/gpu", "a4"),)
    assert group.domains == tuple(TopologyDomain((f"gke-lab-a4-reserved-000{each}",), 1) for each in (0, 1))
    assert (big.state, big.is_waiting, big.total("nvidia.com/gpu")) == (WorkloadState.PENDING, True, 320)
    reserved = condition(big.conditions, "QuotaReserved")
    assert reserved is not None
    assert not reserved.is_true
    assert "insufficient quota for nvidia.com/gpu in flavor a4" in reserved.message
    assert big.owner_uid == recorded("jobsets")["default", "big"].uid


def test_an_assignment_of_several_slices_and_levels() -> None:
    rack = LevelValuesSchema(individual=IndividualValuesSchema(prefix="rack-", roots=["1", "2"], suffix="-x"))
    one = SliceSchema(2, [LevelValuesSchema(universal="block-1"), rack], PodCountsSchema(universal=3))
    two = SliceSchema(
        1,
        [LevelValuesSchema(universal="block-2"), LevelValuesSchema(universal="rack-9")],
        PodCountsSchema(individual=[5]),
    )
    assert domains_of(AssignmentSchema(slices=[one, two])) == (
        TopologyDomain(("block-1", "rack-1-x"), 3),
        TopologyDomain(("block-1", "rack-2-x"), 3),
        TopologyDomain(("block-2", "rack-9"), 5),
    )


def test_an_assignment_that_contradicts_itself() -> None:
    wrong = SliceSchema(
        3, [LevelValuesSchema(individual=IndividualValuesSchema(roots=["1"]))], PodCountsSchema(universal=1)
    )
    with pytest.raises(Unreadable, match="3 domains"):
        domains_of(AssignmentSchema(slices=[wrong]))


def test_a_workload_with_one_costs_only_itself() -> None:
    bad = {"slices": [{"domainCount": 2, "valuesPerLevel": [], "podCounts": {"individual": [1]}}]}
    admission = {"podSetAssignments": [{"name": "main", "topologyAssignment": bad}]}
    items = [
        {"metadata": {"name": "good", "namespace": "n"}},
        {
            "metadata": {"name": "bad", "namespace": "n"},
            "spec": {"podSets": [{"name": "main"}]},
            "status": {"admission": admission},
        },
    ]
    reader = kind("workloads").reader
    models, odd = reader.build_models(reader.read_page(json.dumps({"items": items}).encode()).items)
    assert (list(models), list(odd)) == ([("n", "good")], [("n", "bad")])


@pytest.mark.parametrize("counts", [[10**30], [100_001], [60_000] * 2])
def test_an_assignment_that_speaks_of_domains_without_end_is_not_made(counts: list[int]) -> None:
    slices = [SliceSchema(each, [LevelValuesSchema(universal="a")], PodCountsSchema(universal=1)) for each in counts]
    with pytest.raises(Unreadable, match="more than any cluster has"):
        domains_of(AssignmentSchema(slices=slices))


def test_priority_classes_in_both_spellings() -> None:
    old = read("workloads", spec={"priorityClassName": "high", "priority": 750})
    new = read(
        "workloads", spec={"priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "high"}, "priority": 750}
    )
    assert (old.priority_class, old.priority) == (new.priority_class, new.priority) == ("high", 750)


def test_what_happened_to_it() -> None:
    found = read(
        "workloads",
        spec={"active": False},
        status={
            "requeueState": {"count": 2, "requeueAt": "2026-11-21T07:00:00Z"},
            "admissionChecks": [{"name": "dws", "state": "Retry", "message": "no capacity"}],
            "schedulingStats": {
                "evictions": [
                    {"reason": "Preempted", "underlyingCause": "a", "count": 1},
                    {"reason": "Preempted", "underlyingCause": "b", "count": 2},
                ]
            },
        },
    )
    assert (found.state, found.requeue_count, found.requeue_at) == (WorkloadState.DEACTIVATED, 2, 1795244400.0)
    assert (found.evictions, found.checks[0].state) == ((("Preempted", 3),), "Retry")


def test_conditions_count_by_type_not_by_place() -> None:
    conditions = [
        {"type": "Admitted", "status": "True"},
        {"type": "Evicted", "status": "False"},
        {"type": "Zed", "status": "True"},
    ]
    for order in (conditions, conditions[::-1]):
        assert read("workloads", status={"conditions": order}).state is WorkloadState.ADMITTED
