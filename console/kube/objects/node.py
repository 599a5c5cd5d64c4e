"""Nodes, with GKE's labels for node pools, topology, provisioning, maintenance and faults."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from console.errors import Unreadable
from console.kube.objects.meta import (
    A4_PREFIX,
    GPU,
    ApiSchema,
    ClusterObject,
    ConditionSchema,
    Meta,
    ObjectSchema,
    annotations_of,
    identity_of,
    intern_text,
    label_int,
    labels_of,
    parse_time,
)
from console.kube.objects.pod import Quantities
from console.kube.objects.quantity import parse_amount


class Provisioning(StrEnum):
    """The way in which a machine was obtained: on demand, reserved, spot, flex-start or queued."""

    RESERVATION = "reservation"
    SPOT = "spot"
    FLEX_START = "flex-start"
    QUEUED = "queued"
    ON_DEMAND = "on demand"


STARTING_SECONDS = 900.0  # seconds after it was made in which a machine that was never ready is starting
NOT_REPORTED = "the node has not reported yet"  # why a node is not ready of which no kubelet has reported
_FIRST_REPORT_SECONDS = 120.0  # seconds in which a new kubelet says for the first time that it is not ready


class NodeFault(Struct, frozen=True):
    """One fault of a node, with the controller that reported it and its start time."""

    words: str
    by: str = ""  # who reported it
    since: float = 0.0  # since when; 0.0: not known


class Node(ClusterObject, frozen=True):
    """One node: its node pool, topology, GPUs and health."""

    pool: str = ""  # label cloud.google.com/gke-nodepool; empty on clusters that have no pools
    machine_type: str = ""
    zone: str = ""
    accelerator: str = ""
    provisioning: Provisioning = Provisioning.ON_DEMAND
    reservation: str = ""
    block: str = ""
    subblock: str = ""
    host: str = ""
    gpus: int = 0  # allocatable nvidia.com/gpu; says nothing of GPUs in use, which come from the requests of pods
    gpu_capacity: int = 0
    ready: bool = False
    not_ready_reason: str = ""  # reason and message of the Ready condition while it is not true
    not_ready_since: float = 0.0  # when it became so; 0.0: it is ready, or has not reported yet
    cordoned: bool = False
    cordon_reason: str = ""  # the reason given when it was cordoned by a4
    taints: tuple[str, ...] = ()  # key=value:effect, or key:effect
    maintenance_at: float = 0.0  # when maintenance is scheduled to start; 0.0 if none is
    maintenance_active: bool = False
    terminating: bool = False  # GCE has announced the end of this machine (impending-node-termination)
    fault: str = ""  # label cloud.google.com/fault-behavior: the host was reported as faulty
    fault_by: str = ""  # the program that set that label, as the API server noted it
    fault_since: float = 0.0  # when it did
    repair: str = ""  # label cloud.google.com/report-and-replace-status: how far the repair of a reported host is
    last_busbw: float | None = None  # GB/s, from the health scanner's label (aiinfra/nccl-healthcheck-bandwidth)
    scan_result: str = ""  # the health scanner's verdict on NCCL: "pass", "fail", …
    scanned_at: float = 0.0  # when it tested this node last, from its label; 0: not known
    version: str = ""
    internal_ip: str = ""

    @property
    def never_ready(self) -> bool:
        if self.ready or not self.not_ready_since:
            return not self.ready and self.not_ready_reason == NOT_REPORTED
        return self.not_ready_since - self.created < _FIRST_REPORT_SECONDS

    def is_starting(self, now: float) -> bool:
        """Whether the node is young and has never been ready, so that NotReady is not a fault."""
        return self.never_ready and bool(self.created) and now - self.created < STARTING_SECONDS

    def faults(self, now: float) -> tuple[str, ...]:
        """The faults of this node as the API words them; empty when it is healthy or starting."""
        return tuple(each.words for each in self.fault_reports(now))

    def fault_reports(self, now: float) -> tuple[NodeFault, ...]:
        found = []
        if not self.ready and not self.is_starting(now):
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


CORDON_REASON_ANNOTATION = f"{A4_PREFIX}cordon-reason"  # annotation with the reason that was given
GKE_PREFIX = "cloud.google.com/"  # prefix of most of GKE's labels and taints
_NCCL_HEALTHCHECK_PREFIX = "aiinfra/nccl-healthcheck-"


class TaintSchema(ApiSchema):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpecSchema(ApiSchema):
    unschedulable: bool | None = None
    taints: list[TaintSchema] | None = None


class NodeAddressSchema(ApiSchema):
    type: str | None = None
    address: str | None = None


class NodeInfoSchema(ApiSchema):
    kubelet_version: str | None = None


class NodeStatusSchema(ApiSchema):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[ConditionSchema] | None = None
    addresses: list[NodeAddressSchema] | None = None
    node_info: NodeInfoSchema | None = None


class ManagedFieldsSchema(ApiSchema):
    manager: str | None = None
    time: str | None = None
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class NodeMeta(Meta):
    managed_fields: list[ManagedFieldsSchema] | None = None


class NodeSchema(ObjectSchema):
    metadata: NodeMeta = msgspec.field(default_factory=NodeMeta)
    spec: NodeSpecSchema | None = None
    status: NodeStatusSchema | None = None


def _provisioning_of(labels: Mapping[str, str]) -> Provisioning:
    """The provisioning of a node by its labels; a queued node has the label of flex-start too."""

    def is_set(name: str) -> bool:
        return labels.get(GKE_PREFIX + name) == "true"

    word = labels.get(GKE_PREFIX + "gke-provisioning", "")
    if is_set("gke-queued"):
        return Provisioning.QUEUED
    if word == "flex-start" or is_set("gke-flex-start"):
        return Provisioning.FLEX_START
    if word in {"spot", "preemptible"} or is_set("gke-spot"):
        return Provisioning.SPOT
    return Provisioning.RESERVATION if labels.get(GKE_PREFIX + "reservation-name") else Provisioning.ON_DEMAND


def _maintenance_at(labels: Mapping[str, str]) -> float:
    """Start of the scheduled maintenance (seconds since the epoch, as GKE writes it); 0.0 if unknown."""
    text = labels.get(GKE_PREFIX + "scheduled-maintenance-time", "")
    if text.isdecimal():
        return float(text)
    try:
        return parse_time(text)
    except Unreadable:
        return 0.0


def _parse_busbw(labels: Mapping[str, str]) -> float | None:
    """GB/s in the health scanner's label; None if it is missing, a word such as "none", or -1 after a crash."""
    try:
        found = float(labels[_NCCL_HEALTHCHECK_PREFIX + "bandwidth"])
    except (KeyError, ValueError):
        return None
    return found if found >= 0 else None


def _last_change_of_label(meta: NodeMeta, label: str) -> tuple[str, float]:
    """(field manager, time) of the last change of a label; ("", 0.0) where managedFields does not record it."""
    key = f'"f:{label}"'.encode()
    entry = next((each for each in meta.managed_fields or () if key in bytes(each.fields_v1)), None)
    return (entry.manager or "", parse_time(entry.time)) if entry else ("", 0.0)


def format_taint(taint: TaintSchema) -> str:
    """A taint as text: key=value:effect, or key:effect."""
    value = f"={taint.value}" if taint.value else ""
    return intern_text(f"{taint.key or ''}{value}:{taint.effect or ''}")


MAX_GPUS_PER_NODE = 4096  # of a node: each is drawn


def _gpu_count(amount: str | float) -> int:
    found = parse_amount(GPU, amount)
    if found > MAX_GPUS_PER_NODE:
        raise Unreadable("It says that it has more GPUs than any machine.")
    return found


def parse_node(node: NodeSchema) -> Node:
    """Build a Node; its GPU count is the allocatable one."""
    meta, spec, status = node.metadata, node.spec or NodeSpecSchema(), node.status or NodeStatusSchema()
    labels, taints = labels_of(meta), spec.taints or []
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    fault_by, fault_since = (
        _last_change_of_label(meta, f"{GKE_PREFIX}fault-behavior")
        if GKE_PREFIX + "fault-behavior" in labels
        else ("", 0.0)
    )
    broken = ready if ready and ready.status != "True" else ConditionSchema()
    tainted = {each.key for each in taints}
    active = labels.get(GKE_PREFIX + "active-node-maintenance", "").lower() not in {"", "false", "none", "pending"}
    addresses = {each.type: each.address for each in status.addresses or ()}
    capacity, allocatable = status.capacity or {}, status.allocatable or {}
    return Node(
        **identity_of(meta),
        pool=intern_text(labels.get(GKE_PREFIX + "gke-nodepool")),
        machine_type=intern_text(labels.get("node.kubernetes.io/instance-type")),
        zone=intern_text(labels.get("topology.kubernetes.io/zone")),
        accelerator=intern_text(labels.get(GKE_PREFIX + "gke-accelerator")),
        provisioning=_provisioning_of(labels),
        reservation=intern_text(labels.get(GKE_PREFIX + "reservation-name")),
        block=intern_text(labels.get(GKE_PREFIX + "gce-topology-block")),
        subblock=intern_text(labels.get(GKE_PREFIX + "gce-topology-subblock")),
        host=intern_text(labels.get(GKE_PREFIX + "gce-topology-host")),
        gpus=_gpu_count(allocatable.get(GPU, 0)),
        gpu_capacity=_gpu_count(capacity.get(GPU, 0)),
        ready=ready is not None and ready.status == "True",
        not_ready_reason=": ".join(filter(None, (broken.reason, broken.message))) if ready else NOT_REPORTED,
        not_ready_since=parse_time(broken.last_transition_time),
        cordoned=bool(spec.unschedulable),
        cordon_reason=annotations_of(meta).get(CORDON_REASON_ANNOTATION, "") if spec.unschedulable else "",
        taints=tuple(format_taint(each) for each in taints),
        maintenance_at=_maintenance_at(labels),
        maintenance_active=active or GKE_PREFIX + "maintenance-window-started" in tainted,
        terminating=GKE_PREFIX + "impending-node-termination" in tainted,
        fault=intern_text(labels.get(GKE_PREFIX + "fault-behavior")),
        fault_by=fault_by,
        fault_since=fault_since,
        repair=intern_text(labels.get(GKE_PREFIX + "report-and-replace-status")),
        last_busbw=_parse_busbw(labels),
        scan_result=intern_text(labels.get(_NCCL_HEALTHCHECK_PREFIX + "result")),
        scanned_at=float(label_int(labels.get(_NCCL_HEALTHCHECK_PREFIX + "runtime-sec"), 0)),
        version=intern_text(status.node_info.kubelet_version if status.node_info else None),
        internal_ip=addresses.get("InternalIP") or "",
    )


_DAY_NAMES = {
    "MO": "Mondays",
    "TU": "Tuesdays",
    "WE": "Wednesdays",
    "TH": "Thursdays",
    "FR": "Fridays",
    "SA": "Saturdays",
    "SU": "Sundays",
}
_FREQUENCY_WORDS = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly"}


def format_maintenance_window(recurrence: str, start_time: float, end_time: float) -> str:
    """A maintenance window in words: "Saturdays and Sundays, 02:00 to 08:00 UTC"; `recurrence` is an RFC 5545 rule."""
    rule = dict(part.split("=", 1) for part in recurrence.removeprefix("RRULE:").split(";") if "=" in part)
    days = [_DAY_NAMES.get(day, day) for day in rule.get("BYDAY", "").split(",") if day]
    named = " and ".join(filter(None, (", ".join(days[:-1]), days[-1]))) if days else ""
    pace = named or _FREQUENCY_WORDS.get(rule.get("FREQ", ""), recurrence)
    known = {"FREQ", "BYDAY", "WKST"}
    rest = f" ({recurrence})" if set(rule) - known else ""
    return f"{pace}, {_format_time_of_day(start_time)} to {_format_time_of_day(end_time)} UTC{rest}"


def format_maintenance_exclusion(name: str, start_time: float, end_time: float) -> str:
    """A maintenance exclusion in words: "none from 26 Nov to 3 Dec (big-run)"."""
    return f"none from {_format_day(start_time)} to {_format_day(end_time)} ({name})"


def _format_time_of_day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M}"


def _format_day(moment: float) -> str:
    when = datetime.fromtimestamp(moment, UTC)
    return f"{when.day} {when:%b}"
