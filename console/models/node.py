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


YOUNG = 900.0
"""Seconds after it was made in which a machine that was never ready is starting."""
NOT_REPORTED = "the node has not reported yet"
"""Why a node is not ready of which no kubelet has said anything."""
_FIRST_WORD = 120.0
"""Seconds in which a new kubelet says for the first time that it is not ready."""


@dataclass(frozen=True, slots=True)
class NodeFault:
    """One thing that is wrong with a node."""

    words: str
    by: str = ""
    """Who reported it."""
    since: float = 0.0
    """Since when; 0.0: not known."""


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
    not_ready_since: float = 0.0
    """When it became so; 0.0: it is ready, or has not reported yet."""
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
    fault_by: str = ""
    """The program that set that label, as the API server noted it."""
    fault_since: float = 0.0
    """When it did."""
    repair: str = ""
    """Label cloud.google.com/report-and-replace-status: how far the repair of a reported host is."""
    last_busbw: float | None = None
    """GB/s, from the health scanner's label (aiinfra/nccl-healthcheck-bandwidth)."""
    scan_result: str = ""
    """The health scanner's verdict on NCCL: "pass", "fail", … ."""
    version: str = ""
    internal_ip: str = ""

    @property
    def never_ready(self) -> bool:
        """Whether it has not been ready since it was made."""
        if self.ready or not self.not_ready_since:
            return not self.ready and self.not_ready_reason == NOT_REPORTED
        return self.not_ready_since - self.created < _FIRST_WORD

    def starts(self, now: float) -> bool:
        """Whether it is on its way: made a while ago, and never ready so far."""
        return self.never_ready and bool(self.created) and now - self.created < YOUNG

    def faults(self, now: float) -> tuple[str, ...]:
        """What is wrong with this node, in the API's own words; empty when it is fit for work, or starts."""
        return tuple(each.words for each in self.reports(now))

    def reports(self, now: float) -> tuple[NodeFault, ...]:
        """The same, with who reported it and since when."""
        found = []
        if not self.ready and not self.starts(now):
            never = "never ready since it was made: " if self.never_ready and self.created else ""
            since = self.created if never else self.not_ready_since
            found.append(
                NodeFault(f"{never}{self.not_ready_reason or 'not ready'}", "the node's Ready condition", since)
            )
        if self.terminating:
            found.append(NodeFault("termination announced", "Compute Engine"))
        if self.fault:
            by = self.fault_by or "label cloud.google.com/fault-behavior"
            found.append(NodeFault(f"reported faulty: {self.fault}", by, self.fault_since))
        if self.repair:
            found.append(NodeFault(f"repair: {self.repair}", "GKE"))
        if self.maintenance_active:
            found.append(NodeFault("maintenance under way", "GKE"))
        if self.scan_result.lower() in {"fail", "failed"}:
            found.append(NodeFault("failed the last NCCL health scan", "the cluster's health scanner"))
        return tuple(found)

    @property
    def takes_pods(self) -> bool:
        """Whether the scheduler may place a GPU pod here now."""
        return self.ready and not self.cordoned and not self.terminating and not self.maintenance_active
