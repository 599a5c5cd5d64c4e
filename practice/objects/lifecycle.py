"""Metadata changes by a write: what is kept, what is incremented, and when an object may be deleted."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec

from practice.objects.api_error import ApiError, Object
from practice.objects.resources import (
    CLUSTERQUEUES,
    JOBSETS,
    LOCALQUEUES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    WORKLOADS,
    Resource,
)

_REQUIRED_SPEC: dict[Resource, Object] = {
    WORKLOADS: {"queueName": ""},
    JOBSETS: {"replicatedJobs": []},
    CLUSTERQUEUES: {"resourceGroups": []},
    LOCALQUEUES: {"clusterQueue": ""},
    NODES: {},
}
"""By kind the zero values of spec fields that may be omitted, as controllers of Go types see them."""


def copy_of(obj: Object) -> Object:
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def timestamp(seconds: float) -> str:
    """Return epoch seconds as the API writes a time: ``2026-11-21T06:33:39Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def initialize_object(resource: Resource, obj: Object, *, keep_status: bool) -> None:
    """Initialise a new object: no status except the initial one, generation 1, no deletion."""
    meta = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        meta.pop(name, None)
    if resource.generation:
        meta["generation"] = 1
    if resource.status and not keep_status and resource is not NODES:
        obj.pop("status", None)
    if resource is PODS:
        obj.setdefault("status", {}).setdefault("phase", "Pending")
    if resource is NAMESPACES:
        obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
        obj.setdefault("status", {}).setdefault("phase", "Active")
    normalize_for_storage(resource, obj)
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind


def normalize_for_storage(resource: Resource, obj: Object) -> None:
    """Normalise an object for storage: a Secret's stringData as data, and required fields."""
    if resource is SECRETS:
        obj.setdefault("type", "Opaque")
        for key, text in obj.pop("stringData", {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()
    if resource in _REQUIRED_SPEC:
        obj["spec"] = {**copy_of(_REQUIRED_SPEC[resource]), **(obj.get("spec") or {})}


def desired_state(obj: Object) -> Object:
    """Return the desired state of an object: everything except metadata and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def with_new_status(old: Object, obj: Object) -> Object:
    """Return the old object with the status of the new."""
    new = {**old, "metadata": dict(old["metadata"])}
    if "managedFields" in obj["metadata"]:
        new["metadata"]["managedFields"] = obj["metadata"]["managedFields"]
    new.pop("status", None)
    if "status" in obj:
        new["status"] = obj["status"]
    return new


def with_old_status(resource: Resource, old: Object, obj: Object) -> Object:
    """Return a copy of the new object with the status of the old."""
    new = copy_of(obj)
    if resource.status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def copy_identity(resource: Resource, new: Object, old: Object) -> None:
    """Copy to the new object what a write may not change: uid, times, version, deletion."""
    meta, before = new["metadata"], old["metadata"]
    for name in ("uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp"):
        meta.pop(name, None)
        if name in before:
            meta[name] = before[name]
    if "deletionGracePeriodSeconds" in before:
        meta["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
    if resource.namespaced:
        meta["namespace"] = before["namespace"]
    new["apiVersion"], new["kind"] = resource.api_version, resource.kind


def can_be_removed(obj: Object) -> bool:
    """Whether the object is being deleted and nothing holds it any more."""
    meta = obj["metadata"]
    waiting = meta.get("deletionTimestamp") and not meta.get("deletionGracePeriodSeconds")
    return bool(waiting) and not has_finalizers(obj)


def has_finalizers(obj: Object) -> bool:
    """Whether a finalizer holds the object."""
    return bool(obj["metadata"].get("finalizers")) or (
        obj.get("kind") == "Namespace" and bool(obj.get("spec", {}).get("finalizers"))
    )


def drop_empty_metadata(meta: Object) -> None:
    """Remove empty fields from metadata, which the API never stores."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "selfLink", "generateName"):
        if name in meta and not meta[name]:
            del meta[name]


def check_preconditions(resource: Resource, meta: Object, uid: str, version: str) -> None:
    """Raise ApiError 409 when a delete names another uid or version."""
    if uid and uid != meta["uid"]:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']}). "
        raise _stale_delete(resource, meta["name"], why + "The object might have been deleted and then recreated")
    newest = meta["resourceVersion"]
    if version and version != newest:
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
        raise _stale_delete(resource, meta["name"], f"{why}({newest}). The object might have been modified")


def _stale_delete(resource: Resource, name: str, why: str) -> ApiError:
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: Object = {"name": name, "group": resource.group, "kind": resource.kind}
    text = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return ApiError(409, "Conflict", text, {key: value for key, value in details.items() if value})


def grace_period_seconds(resource: Resource, obj: Object, wanted: int | None) -> int:
    """Return the seconds a kubelet has to end a pod: those wanted, else the pod's own; 0 for anything else."""
    if resource is not PODS or not obj.get("spec", {}).get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if wanted is not None:
        return max(wanted, 0)
    return int(obj["spec"].get("terminationGracePeriodSeconds", 30))
