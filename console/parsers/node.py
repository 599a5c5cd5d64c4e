"""Node objects, with GKE's labels for pools, placement, provisioning, maintenance and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from console.errors import Unreadable
from console.models.node import NOT_REPORTED, Node, Provisioning
from console.models.queue import GPU
from console.parsers.meta import ConditionWire, Meta, ObjectWire, Wire, labels_of, shared
from console.parsers.podspec import Amounts
from console.parsers.quantity import parse_amount
from console.parsers.timestamp import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping


GKE = "cloud.google.com/"
"""Prefix of most of GKE's labels and taints."""
_SCAN = "aiinfra/nccl-healthcheck-"


class TaintWire(Wire):
    """A taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpecWire(Wire):
    """spec of a node."""

    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class AddressWire(Wire):
    """An entry of status.addresses."""

    type: str | None = None
    address: str | None = None


class NodeInfoWire(Wire):
    """What the kubelet says of itself."""

    kubelet_version: str | None = None


class NodeStatusWire(Wire):
    """Status of a node."""

    capacity: Amounts | None = None
    allocatable: Amounts | None = None
    conditions: list[ConditionWire] | None = None
    addresses: list[AddressWire] | None = None
    node_info: NodeInfoWire | None = None


class ManagedWire(Wire):
    """An entry of metadata.managedFields: who set which fields last, and when."""

    manager: str | None = None
    time: str | None = None
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


class NodeMeta(Meta):
    """metadata of a node."""

    managed_fields: list[ManagedWire] | None = None


class NodeWire(ObjectWire):
    """A Node."""

    metadata: NodeMeta = msgspec.field(default_factory=NodeMeta)
    spec: NodeSpecWire | None = None
    status: NodeStatusWire | None = None


def _provisioning(labels: Mapping[str, str]) -> Provisioning:
    """How the machine was obtained; a queued machine is flex-start too, so the narrower word wins."""

    def said(name: str) -> bool:
        return labels.get(GKE + name) == "true"

    word = labels.get(GKE + "gke-provisioning", "")
    if said("gke-queued"):
        return Provisioning.QUEUED
    if word == "flex-start" or said("gke-flex-start"):
        return Provisioning.FLEX_START
    if word in {"spot", "preemptible"} or said("gke-spot"):
        return Provisioning.SPOT
    return Provisioning.RESERVATION if labels.get(GKE + "reservation-name") else Provisioning.ON_DEMAND


def _maintenance_at(labels: Mapping[str, str]) -> float:
    """GKE writes seconds since the epoch, for a label cannot hold colons; anything else is no date we know."""
    text = labels.get(GKE + "scheduled-maintenance-time", "")
    if text.isdecimal():
        return float(text)
    try:
        return parse_time(text)
    except Unreadable:
        return 0.0


def _busbw(labels: Mapping[str, str]) -> float | None:
    """The scanner's figure, None where the label is missing or holds a word such as "none"."""
    try:
        return float(labels[_SCAN + "bandwidth"])
    except (KeyError, ValueError):
        return None


def _not_ready(ready: ConditionWire | None) -> str:
    if ready is None:
        return NOT_REPORTED
    if ready.status == "True":
        return ""
    return ": ".join(text for text in (ready.reason, ready.message) if text)


def _label_set(meta: NodeMeta, label: str) -> tuple[str, float]:
    """Who set a label last, and when, as far as the API server noted it."""
    key = f'"f:{label}"'.encode()
    entry = next((each for each in meta.managed_fields or () if key in bytes(each.fields_v1)), None)
    return (entry.manager or "", parse_time(entry.time)) if entry else ("", 0.0)


def taint_words(wire: TaintWire) -> str:
    """A taint as the models write it: key=value:effect, or key:effect."""
    value = f"={wire.value}" if wire.value else ""
    return shared(f"{wire.key or ''}{value}:{wire.effect or ''}")


def parse_node(wire: NodeWire) -> Node:
    """A node; GPUs are what it can allocate, whoever has them."""
    meta, spec, status = wire.metadata, wire.spec or NodeSpecWire(), wire.status or NodeStatusWire()
    labels, taints = labels_of(meta), spec.taints or []
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    fault_by, fault_since = _label_set(meta, f"{GKE}fault-behavior") if GKE + "fault-behavior" in labels else ("", 0.0)
    tainted = {each.key for each in taints}
    active = labels.get(GKE + "active-node-maintenance", "").lower() not in {"", "false", "none", "pending"}
    addresses = {each.type: each.address for each in status.addresses or ()}
    capacity, allocatable = status.capacity or {}, status.allocatable or {}
    return Node(
        name=shared(meta.name),
        uid=meta.uid or "",
        created=parse_time(meta.creation_timestamp),
        pool=shared(labels.get(GKE + "gke-nodepool")),
        machine_type=shared(labels.get("node.kubernetes.io/instance-type")),
        zone=shared(labels.get("topology.kubernetes.io/zone")),
        accelerator=shared(labels.get(GKE + "gke-accelerator")),
        provisioning=_provisioning(labels),
        reservation=shared(labels.get(GKE + "reservation-name")),
        block=shared(labels.get(GKE + "gce-topology-block")),
        subblock=shared(labels.get(GKE + "gce-topology-subblock")),
        host=shared(labels.get(GKE + "gce-topology-host")),
        gpus=parse_amount(GPU, allocatable.get(GPU, 0)),
        gpu_capacity=parse_amount(GPU, capacity.get(GPU, 0)),
        ready=ready is not None and ready.status == "True",
        not_ready_reason=_not_ready(ready),
        not_ready_since=parse_time(ready.last_transition_time) if ready and ready.status != "True" else 0.0,
        cordoned=bool(spec.unschedulable),
        taints=tuple(taint_words(each) for each in taints),
        maintenance_at=_maintenance_at(labels),
        maintenance_active=active or GKE + "maintenance-window-started" in tainted,
        terminating=GKE + "impending-node-termination" in tainted,
        fault=shared(labels.get(GKE + "fault-behavior")),
        fault_by=fault_by,
        fault_since=fault_since,
        repair=shared(labels.get(GKE + "report-and-replace-status")),
        last_busbw=_busbw(labels),
        scan_result=shared(labels.get(_SCAN + "result")),
        version=shared(status.node_info.kubelet_version if status.node_info else None),
        internal_ip=addresses.get("InternalIP") or "",
    )
