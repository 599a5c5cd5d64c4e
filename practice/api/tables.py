"""The columns kubectl prints for each kind, filled from an object."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from practice.api.pod_columns import pod_cells
from practice.objects import resources as kinds
from practice.objects.api_error import Object
from practice.objects.resources import Resource

Cell = str | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: heading, function for its cell, and priority (1 if only ``-o wide`` shows it)."""

    name: str
    fill: Callable[[Object], Cell]
    priority: int = 0
    type: str = "string"


def column_definitions(resource: Resource) -> list[Object]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": "",
            "priority": column.priority,
        }
        for column in _columns_of(resource)
    ]


def row_cells(resource: Resource, obj: Object) -> list[Cell]:
    return [column.fill(obj) for column in _columns_of(resource)]


def _columns_of(resource: Resource) -> tuple[Column, ...]:
    if resource is kinds.PODS:
        return _PODS
    if resource is kinds.EVENTS:
        return _EVENTS
    name = Column("Name", lambda obj: str(obj["metadata"]["name"]))
    return (name, *_COLUMNS.get(resource, (_AGE,)))


def format_age(text: str | None) -> str:
    """Return the age of an RFC 3339 time as kubectl writes it: 5s, 3m20s, 47m, 5h12m, 3d; <unknown> without one."""
    if not text:
        return "<unknown>"
    return format_duration(time.time() - datetime.fromisoformat(text).timestamp())


_DURATION_UNITS = (
    (120, "s", 1, ""),
    (600, "m", 60, "s"),
    (10800, "m", 60, ""),
    (28800, "h", 3600, "m"),
    (172800, "h", 3600, ""),
)


def format_duration(seconds: float) -> str:
    """Return a length of time in at most two units."""
    whole = max(int(seconds), 0)
    for below, unit, size, rest in _DURATION_UNITS:
        if whole < below:
            left = whole % size // (60 if rest == "m" else 1)
            return f"{whole // size}{unit}" + (f"{left}{rest}" if rest and left else "")
    days, hours = whole // 86400, whole % 86400 // 3600
    return f"{days}d{hours}h" if days < 8 and hours else f"{days}d"


def _field_reader(path: str) -> Callable[[Object], Any]:
    parts = path.split(".")

    def read(obj: Object) -> Any:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    return read


def _text_cell(path: str, empty_text: str = "") -> Callable[[Object], Cell]:
    read = _field_reader(path)

    def fill(obj: Object) -> Cell:
        value = read(obj)
        if value is None:
            return empty_text
        return str(value).lower() if isinstance(value, bool) else str(value)

    return fill


def _age_cell(path: str) -> Callable[[Object], Cell]:
    read = _field_reader(path)
    return lambda obj: format_age(read(obj))


def _condition_cell(kind: str) -> Callable[[Object], Cell]:
    return _typed_cell("conditions", kind, "status", "")


def _typed_cell(listed: str, kind: str, field: str, empty_text: str) -> Callable[[Object], Cell]:
    """Return the function for a cell that shows a field of the status list's item of that type."""

    def fill(obj: Object) -> Cell:
        items = obj.get("status", {}).get(listed) or []
        return next((str(item.get(field)) for item in items if item.get("type") == kind), empty_text)

    return fill


def _node_status(obj: Object) -> str:
    ready = _condition_cell("Ready")(obj)
    word = "Ready" if ready == "True" else "NotReady" if ready else "Unknown"
    return f"{word},SchedulingDisabled" if obj.get("spec", {}).get("unschedulable") else word


def _node_roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or "<none>"


def _job_status(obj: Object) -> str:
    for kind in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _condition_cell(kind)(obj) == "True":
            return kind
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(obj: Object) -> str:
    wanted = obj.get("spec", {}).get("completions")
    return f"{obj.get('status', {}).get('succeeded', 0)}/{wanted if wanted is not None else 1}"


def _job_duration(obj: Object) -> str:
    status = obj.get("status", {})
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    finish = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return format_duration((finish - datetime.fromisoformat(status["startTime"])).total_seconds())


def _event_object(obj: Object) -> str:
    about = obj.get("involvedObject", {})
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(obj: Object) -> str:
    source = obj.get("source") or {}
    parts = (source.get("component") or obj.get("reportingComponent"), source.get("host"))
    return ", ".join(part for part in parts if part)


def _event_last_seen(obj: Object) -> str:
    return format_age(obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp"))


def _service_ports(obj: Object) -> str:
    ports = obj.get("spec", {}).get("ports") or []
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _containers_cell(name: str) -> Callable[[Object], Cell]:
    def fill(obj: Object) -> Cell:
        containers = obj.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or []
        return ",".join(str(container.get(name, "")) for container in containers)

    return fill


_AGE = Column("Age", _age_cell("metadata.creationTimestamp"))
_DATE = Column("Age", _age_cell("metadata.creationTimestamp"), type="date")

_POD_HEADINGS = ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates")


def _pod_column(index: int) -> Column:
    if _POD_HEADINGS[index] == "Age":
        return _AGE
    return Column(_POD_HEADINGS[index], lambda obj: pod_cells(obj)[index], 1 if index > 4 else 0)


_PODS = tuple(_pod_column(at) for at in range(len(_POD_HEADINGS)))

_COLUMNS: dict[Resource, tuple[Column, ...]] = {
    kinds.NODES: (
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _text_cell("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _typed_cell("addresses", "InternalIP", "address", "<none>"), 1),
        Column("External-IP", _typed_cell("addresses", "ExternalIP", "address", "<none>"), 1),
        Column("OS-Image", _text_cell("status.nodeInfo.osImage", "<unknown>"), 1),
        Column("Kernel-Version", _text_cell("status.nodeInfo.kernelVersion", "<unknown>"), 1),
        Column("Container-Runtime", _text_cell("status.nodeInfo.containerRuntimeVersion", "<unknown>"), 1),
    ),
    kinds.JOBS: (
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
        Column("Containers", _containers_cell("name"), 1),
        Column("Images", _containers_cell("image"), 1),
    ),
    kinds.NAMESPACES: (Column("Status", _text_cell("status.phase", "Active")), _AGE),
    kinds.SERVICES: (
        Column("Type", _text_cell("spec.type", "ClusterIP")),
        Column("Cluster-IP", _text_cell("spec.clusterIP", "<none>")),
        Column("External-IP", _text_cell("spec.externalName", "<none>")),
        Column("Port(s)", _service_ports),
        _AGE,
    ),
    kinds.CONFIGMAPS: (Column("Data", lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})), _AGE),
    kinds.SECRETS: (
        Column("Type", _text_cell("type", "Opaque")),
        Column("Data", lambda obj: len(obj.get("data") or {})),
        _AGE,
    ),
    kinds.JOBSETS: (
        Column("TerminalState", _text_cell("status.terminalState")),
        Column("Restarts", _text_cell("status.restarts")),
        Column("Completed", _condition_cell("Completed")),
        Column("Suspended", _text_cell("spec.suspend")),
        _DATE,
    ),
    kinds.CLUSTERQUEUES: (
        Column("Cohort", _text_cell("spec.cohortName")),
        Column("Strategy", _text_cell("spec.queueingStrategy"), 1),
        Column("Pending Workloads", _field_reader("status.pendingWorkloads"), type="integer"),
        Column("Admitted Workloads", _field_reader("status.admittedWorkloads"), 1, "integer"),
    ),
    kinds.LOCALQUEUES: (
        Column("ClusterQueue", _text_cell("spec.clusterQueue")),
        Column("Pending Workloads", _field_reader("status.pendingWorkloads"), type="integer"),
        Column("Admitted Workloads", _field_reader("status.admittedWorkloads"), type="integer"),
    ),
    kinds.WORKLOADS: (
        Column("Queue", _text_cell("spec.queueName")),
        Column("Reserved in", _text_cell("status.admission.clusterQueue")),
        Column("Admitted", _condition_cell("Admitted")),
        Column("Finished", _condition_cell("Finished")),
        _DATE,
    ),
    kinds.CUSTOMRESOURCEDEFINITIONS: (Column("Created At", _text_cell("metadata.creationTimestamp")),),
    kinds.WORKLOADPRIORITYCLASSES: (Column("Value", _field_reader("value"), type="integer"),),
    kinds.PRIORITYCLASSES: (
        Column("Value", _field_reader("value"), type="integer"),
        Column("Global-Default", lambda obj: str(bool(obj.get("globalDefault"))).lower()),
        _AGE,
    ),
}

_EVENTS: tuple[Column, ...] = (
    Column("Last Seen", _event_last_seen),
    Column("Type", _text_cell("type")),
    Column("Reason", _text_cell("reason")),
    Column("Object", _event_object),
    Column("Subobject", _text_cell("involvedObject.fieldPath"), 1),
    Column("Source", _event_source, 1),
    Column("Message", lambda obj: str(obj.get("message", "")).strip()),
    Column("First Seen", _age_cell("firstTimestamp"), 1),
    Column("Count", _text_cell("count", "1"), 1),
    Column("Name", lambda obj: str(obj["metadata"]["name"]), 1),
)
