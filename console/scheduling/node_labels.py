"""The node labels for topology and hardware that queues and topologies refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.kube.objects.node import GKE, Provisioning
from console.scheduling.kueue.topology_assignment import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.kube.objects.node import Node

BLOCK, SUBBLOCK = f"{GKE}gce-topology-block", f"{GKE}gce-topology-subblock"
LEVELS = {BLOCK: "block", SUBBLOCK: "subblock", f"{GKE}gce-topology-host": "host", HOSTNAME: "node"}
_PROVISIONING = {Provisioning.SPOT: "spot", Provisioning.FLEX_START: "flex-start", Provisioning.QUEUED: "flex-start"}
"""GKE's word for how a machine was obtained; reserved ones are standard too."""
_LABELS: dict[str, Callable[[Node], str]] = {
    BLOCK: lambda node: node.block,
    SUBBLOCK: lambda node: node.subblock,
    f"{GKE}gce-topology-host": lambda node: node.host,
    HOSTNAME: lambda node: node.name,
    f"{GKE}gke-nodepool": lambda node: node.pool,
    f"{GKE}gke-accelerator": lambda node: node.accelerator,
    f"{GKE}reservation-name": lambda node: node.reservation,
    "node.kubernetes.io/instance-type": lambda node: node.machine_type,
    "topology.kubernetes.io/zone": lambda node: node.zone,
    f"{GKE}gke-provisioning": lambda node: _PROVISIONING.get(node.provisioning, "standard"),
    f"{GKE}gke-spot": lambda node: str(node.provisioning is Provisioning.SPOT).lower(),
    f"{GKE}gke-queued": lambda node: str(node.provisioning is Provisioning.QUEUED).lower(),
}
"""What nodes say of the labels that are kept of them."""


def level_name(label: str) -> str:
    """The common name of a topology level, such as "block"."""
    return LEVELS.get(label) or label.rpartition("/")[2]


def label_of(node: Node, label: str) -> str | None:
    """The value of a node's label; None for a label that is not stored."""
    return _LABELS[label](node) if label in _LABELS else None
