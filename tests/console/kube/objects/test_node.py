from typing import Any

import pytest

from console.kube.objects.node import Node, Provisioning
from tests.console.kube.objects.recorded import read, recorded

GKE = "cloud.google.com/"


def node(labels: dict[str, str] | None = None, **fields: Any) -> Node:
    found = read("nodes", metadata={"labels": labels or {}}, **fields)
    assert isinstance(found, Node)
    return found


def test_a_recorded_a4_node() -> None:
    found = recorded("nodes")["", "gke-lab-a4-reserved-0000"]
    assert (found.pool, found.machine_type, found.zone) == ("a4-reserved", "a4-highgpu-8g", "us-central1-b")
    assert (found.block, found.subblock, found.host) == ("block-0", "block-0-sub-0", "host-0-0000")
    assert (found.gpus, found.gpu_capacity, found.ready, found.accelerator) == (8, 8, True, "nvidia-b200")
    assert found.provisioning is Provisioning.RESERVATION
    assert found.taints == ("nvidia.com/gpu=present:NoSchedule",)
    assert found.faults(found.created + 60) == ()


@pytest.mark.parametrize(
    ("labels", "provisioning"),
    [
        ({}, Provisioning.ON_DEMAND),
        ({"gke-provisioning": "standard"}, Provisioning.ON_DEMAND),
        ({"gke-provisioning": "standard", "reservation-name": "r"}, Provisioning.RESERVATION),
        ({"gke-provisioning": "spot"}, Provisioning.SPOT),
        ({"gke-spot": "true"}, Provisioning.SPOT),
        ({"gke-provisioning": "preemptible"}, Provisioning.SPOT),
        ({"gke-flex-start": "true"}, Provisioning.FLEX_START),
        ({"gke-provisioning": "flex-start", "gke-queued": "true"}, Provisioning.QUEUED),
    ],
)
def test_how_it_was_obtained(labels: dict[str, str], provisioning: Provisioning) -> None:
    assert node({GKE + name: value for name, value in labels.items()}).provisioning is provisioning


def test_maintenance_and_faults() -> None:
    found = node(
        {
            GKE + "scheduled-maintenance-time": "1795244400",
            GKE + "active-node-maintenance": "ONGOING",
            GKE + "fault-behavior": "XID",
            GKE + "report-and-replace-status": "OperationRUNNING",
            "aiinfra/nccl-healthcheck-result": "fail",
            "aiinfra/nccl-healthcheck-bandwidth": "187.5",
            "aiinfra/nccl-healthcheck-runtime-sec": "1795200000",
        },
        spec={"taints": [{"key": GKE + "impending-node-termination", "effect": "NoSchedule"}], "unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "gone"}]
        },
    )
    assert (found.maintenance_at, found.maintenance_active) == (1795244400.0, True)
    assert (found.terminating, found.cordoned, found.ready) == (True, True, False)
    assert found.not_ready_reason == "NodeStatusUnknown: gone"
    assert (found.fault, found.repair, found.last_busbw, found.scan_result) == (
        "XID",
        "OperationRUNNING",
        187.5,
        "fail",
    )
    assert found.scanned_at == 1795200000.0
    assert found.taints == (GKE + "impending-node-termination:NoSchedule",)


@pytest.mark.parametrize("where", ["allocatable", "capacity"])
def test_a_node_of_more_gpus_than_any_machine_is_not_made(where: str) -> None:
    with pytest.raises(AssertionError, match="more GPUs than any machine"):
        node({}, status={where: {"nvidia.com/gpu": "9" * 30}})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"aiinfra/nccl-healthcheck-result": "crash", "aiinfra/nccl-healthcheck-bandwidth": "-1"},
         {"last_busbw": None, "scan_result": "crash", "scanned_at": 0.0}),
        ({GKE + "scheduled-maintenance-time": "soon", "aiinfra/nccl-healthcheck-bandwidth": "None",
          GKE + "active-node-maintenance": "false"},
         {"maintenance_at": 0.0, "last_busbw": None, "maintenance_active": False}),
        ({}, {"gpus": 0, "ready": False, "not_ready_reason": "the node has not reported yet"}),
    ],
    ids=["a scan that crashed", "no values", "nothing but a name"],
)  # fmt: skip
def test_what_a_node_does_not_say(labels: dict[str, str], expected: dict[str, object]) -> None:
    found = node(labels)
    assert {name: getattr(found, name) for name in expected} == expected


NOT_YET = {
    "type": "Ready", "status": "False", "reason": "KubeletNotReady",
    "message": "container runtime network not ready: NetworkPluginNotReady message:cni plugin not initialized",
}  # fmt: skip


def young(since: str, **metadata: Any) -> Node:
    found = read(
        "nodes",
        metadata={"creationTimestamp": "2026-04-12T12:00:00Z", **metadata},
        status={"conditions": [{**NOT_YET, "lastTransitionTime": since}]},
    )
    assert isinstance(found, Node)
    return found


def test_a_machine_that_was_never_ready_starts_for_a_while_and_is_a_fault_then() -> None:
    found = young("2026-04-12T12:00:20Z")
    assert found.is_starting(found.created + 180)
    assert found.faults(found.created + 180) == ()
    assert not found.is_starting(found.created + 1200)
    (fault,) = found.fault_reports(found.created + 1200)
    assert fault.words.startswith("never ready since it was made: KubeletNotReady: container runtime network")
    assert (fault.by, fault.since) == ("the node's Ready condition", found.created)
    bare = read("nodes", metadata={"creationTimestamp": "2026-04-12T12:00:00Z"})
    assert isinstance(bare, Node)
    assert bare.is_starting(bare.created + 60)


def test_a_machine_that_was_ready_and_is_no_more_is_a_fault_at_once() -> None:
    found = young("2026-04-12T12:10:00Z")
    assert not found.is_starting(found.created + 610)
    (fault,) = found.fault_reports(found.created + 610)
    assert (fault.words[:15], fault.since) == ("KubeletNotReady", found.created + 600)


def test_who_reported_a_host_and_when() -> None:
    label = GKE + "fault-behavior"
    managed = [
        {"manager": "kubelet", "time": "2026-04-12T12:01:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}},
        {"manager": "kubectl-label", "time": "2026-04-12T12:30:00Z",
         "fieldsV1": {"f:metadata": {"f:labels": {f"f:{label}": {}}}}},
    ]  # fmt: skip
    found = node({label: "PERFORMANCE"})
    (fault, *_) = [each for each in found.fault_reports(0.0) if "faulty" in each.words]
    assert (fault.by, fault.since) == (f"label {label}", 0.0)
    named = young("2026-04-12T12:10:00Z", labels={label: "PERFORMANCE"}, managedFields=managed)
    (fault,) = [each for each in named.fault_reports(named.created) if "faulty" in each.words]
    assert (fault.words, fault.by, fault.since) == (
        "reported faulty: PERFORMANCE", "kubectl-label", named.created + 1800,
    )  # fmt: skip
