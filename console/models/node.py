"""A machine of the cluster, as its Node object describes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Provisioning(StrEnum):
    """How the machine was obtained."""

    RESERVATION = "reservation"
    SPOT = "spot"
    FLEX_START = "flex-start"
    QUEUED = "queued"
    ON_DEMAND = "on demand"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its pool, place in the network, GPUs and health."""

    name: str
    uid: str = ""
    created: float = 0.0
    pool: str = ""
    """Label cloud.google.com/gke-nodepool; empty on clusters that have no pools."""
    machine_type: str = ""
    zone: str = ""
    accelerator: str = ""
    provisioning: Provisioning = Provisioning.ON_DEMAND
    reservation: str = ""
    block: str = ""
    subblock: str = ""
    host: str = ""
    gpus: int = 0
    """Allocatable nvidia.com/gpu; says nothing of GPUs in use, which come from the requests of pods."""
    gpu_capacity: int = 0
    ready: bool = False
    not_ready_reason: str = ""
    """Reason and message of the Ready condition while it is not true."""
    cordoned: bool = False
    taints: tuple[str, ...] = ()
    """key=value:effect, or key:effect."""
    maintenance_at: float = 0.0
    """When maintenance is scheduled to start; 0.0 if none is."""
    maintenance_active: bool = False
    terminating: bool = False
    """GCE has announced the end of this machine (impending-node-termination)."""
    fault: str = ""
    """Label cloud.google.com/fault-behavior: the host was reported as faulty."""
    repair: str = ""
    """Label cloud.google.com/report-and-replace-status: how far the repair of a reported host is."""
    last_busbw: float | None = None
    """GB/s, from the health scanner's label (aiinfra/nccl-healthcheck-bandwidth)."""
    scan_result: str = ""
    """The health scanner's verdict on NCCL: "pass", "fail", … ."""
    version: str = ""
    internal_ip: str = ""

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with this node, in the API's own words; empty when it is fit for work."""
        found = []
        if not self.ready:
            found.append(self.not_ready_reason or "not ready")
        if self.terminating:
            found.append("termination announced")
        if self.fault:
            found.append(f"reported faulty: {self.fault}")
        if self.repair:
            found.append(f"repair: {self.repair}")
        if self.maintenance_active:
            found.append("maintenance under way")
        if self.scan_result.lower() in {"fail", "failed"}:
            found.append("failed the last NCCL health scan")
        return tuple(found)

    @property
    def takes_pods(self) -> bool:
        """Whether the scheduler may place a GPU pod here now."""
        return self.ready and not self.cordoned and not self.terminating and not self.maintenance_active
