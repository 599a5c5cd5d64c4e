import pytest

from tests.console.kube.objects.recorded import read, recorded


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_recorded_cluster_queue_in_both_versions(version: str) -> None:
    found = recorded("clusterqueues", version)["", "a4"]
    assert (found.cohort, found.strategy, found.stop_policy, found.inactive_reason) == (
        "a4",
        "BestEffortFIFO",
        "None",
        "",
    )
    assert (found.nominal(), found.in_use()) == (128, 16)
    assert [quota.flavor for quota in found.quotas] == ["a4", "a4-spot"]
    assert (found.pending, found.admitted) == (1, 1)
    assert found.preemption.within_queue == "LowerPriority"
    assert (found.preemption.reclaim_within_cohort, found.preemption.borrow_within_cohort) == ("Any", "Never")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_recorded_local_queue_in_both_versions(version: str) -> None:
    found = recorded("localqueues", version)["default", "a4"]
    assert (found.cluster_queue, found.in_use(), found.pending) == ("a4", 16, 1)


def test_recorded_flavors_lead_to_a_topology() -> None:
    flavor = recorded("resourceflavors", "v1beta2")["", "a4"]
    assert flavor.node_labels == (("cloud.google.com/gke-nodepool", "a4-reserved"),)
    levels = recorded("topologies", "v1beta2")["", flavor.topology].levels
    assert levels[-1] == "kubernetes.io/hostname"
    assert len(levels) == 4


def test_limits_of_zero_are_not_missing_limits() -> None:
    resources = [
        {"name": "nvidia.com/gpu", "nominalQuota": 64, "borrowingLimit": "0", "lendingLimit": 8},
        {"name": "memory", "nominalQuota": "1Gi"},
    ]
    found = read("clusterqueues", spec={"resourceGroups": [{"flavors": [{"name": "a4", "resources": resources}]}]})
    gpu, memory = found.quotas
    assert (gpu.nominal, gpu.borrowing_limit, gpu.lending_limit) == (64, 0, 8)
    assert (memory.nominal, memory.borrowing_limit, memory.lending_limit) == (2**30, None, None)


def test_whether_a_queue_shares_fairly_and_with_what_weight() -> None:
    plain = read("clusterqueues", spec={})
    assert (plain.weight, plain.shares_fairly) == (1.0, False)
    none = read("clusterqueues", spec={"fairSharing": {"weight": "0"}}, status={"fairSharing": {"weightedShare": 0}})
    assert (none.weight, none.shares_fairly) == (0.0, True)
    large = read("clusterqueues", spec={}, status={"fairSharing": {"weightedShare": 2**63 - 1}})
    assert large.shares_fairly
    assert read("cohorts", spec={"fairSharing": {"weight": "1500m"}}).weight == 1.5


def test_admission_checks_in_both_spellings() -> None:
    old = read("clusterqueues", spec={"admissionChecks": ["dws-prov"], "cohort": "c"})
    new = read(
        "clusterqueues",
        spec={"admissionChecksStrategy": {"admissionChecks": [{"name": "dws-prov"}]}, "cohortName": "c"},
    )
    assert (old.checks, old.cohort) == (new.checks, new.cohort) == (("dws-prov",), "c")


def test_a_stopped_queue_says_why() -> None:
    conditions = [{"type": "Active", "status": "False", "reason": "Stopped", "message": "Can't admit: it is stopped"}]
    found = read("clusterqueues", spec={"stopPolicy": "Hold"}, status={"conditions": conditions})
    assert (found.stop_policy, found.inactive_reason) == ("Hold", "Can't admit: it is stopped")


def test_a_cohort_has_a_parent_by_either_name() -> None:
    assert read("cohorts", spec={"parentName": "p"}).parent == read("cohorts", spec={"parent": "p"}).parent == "p"
    assert read("cohorts").quotas == ()
