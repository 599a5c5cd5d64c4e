from __future__ import annotations

from typing import Any

import pytest

from console.models.node import Node, Provisioning
from tests.console.parsers.recorded import read, recorded

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
    assert found.faults == ()


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
    assert found.taints == (GKE + "impending-node-termination:NoSchedule",)


def test_values_that_are_no_values() -> None:
    found = node(
        {
            GKE + "scheduled-maintenance-time": "soon",
            "aiinfra/nccl-healthcheck-bandwidth": "None",
            GKE + "active-node-maintenance": "false",
        }
    )
    assert (found.maintenance_at, found.last_busbw, found.maintenance_active) == (0.0, None, False)


def test_a_node_with_nothing_but_a_name() -> None:
    found = node()
    assert (found.gpus, found.ready, found.not_ready_reason) == (0, False, "the node has not reported yet")
