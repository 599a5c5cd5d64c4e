"""Writes through the API: create, replace, patch, delete, and subresources with effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from practice.api import managed_fields, schema
from practice.api.bodies import check_object, decode_body, media_type
from practice.api.listing import parse_selectors
from practice.api.paths_and_versions import SERVED, ApiPath, ServedKind, parse_dry_run, parse_flag, parse_number
from practice.api.required import missing_fields
from practice.objects import patch, validation
from practice.objects.api_error import ApiError, Object, bad_request, conflict_error, invalid_object, not_found
from practice.objects.lifecycle import copy_of
from practice.objects.resources import PODS
from practice.objects.storage import Storage


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write request: target, query, body and user agent."""

    target: ApiPath
    query: Mapping[str, str]
    body: bytes
    content_type: str
    agent: str
    warnings: list[str] = field(default_factory=list)
    """Warnings sent to the client along with the successful result."""

    @property
    def served(self) -> ServedKind:
        """The served kind and version of the target."""
        return self.target.served

    @property
    def manager(self) -> str:
        """The field manager: the one named, else the first word of the user agent."""
        return self.query.get("fieldManager") or self.agent.split("/")[0] or "unknown"

    @property
    def dry_run(self) -> bool:
        return parse_dry_run(self.query)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: the object, and whether it is new."""

    object: Object
    created: bool = False
    deleted: bool = False


class ObjectWriter:
    """Executes write requests on the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def create(self, write: WriteRequest) -> WriteResult:
        """Execute a POST of a new object, or of a pod's binding or eviction."""
        target, resource = write.target, write.served.resource
        if target.name:
            return self._bind_or_evict(write)
        obj = self._decode_object(write, decode_body(write.body, write.content_type))
        return WriteResult(self._store_new(write, resource, obj, managed_fields.UPDATE), created=True)

    def replace(self, write: WriteRequest) -> WriteResult:
        """Execute a PUT of a whole object."""
        target, resource = write.target, write.served.resource
        obj = self._decode_object(write, decode_body(write.body, write.content_type))
        old = self._storage.find(resource, target.namespace, target.name)
        if old is None:
            raise not_found(resource, target.name)
        return WriteResult(self._store_update(write, obj, old))

    def patch(self, write: WriteRequest) -> WriteResult:
        """Execute a PATCH of the type that its content type names; server-side apply may create the object."""
        target, resource = write.target, write.served.resource
        media = media_type(write.content_type)
        patch.check_media_type(media, resource)
        body = decode_body(write.body, write.content_type)
        old = self._storage.find(resource, target.namespace, target.name)
        if media == patch.APPLY:
            return self._server_side_apply(write, body, old)
        if old is None:
            raise not_found(resource, target.name)
        seen = write.served.from_storage(old)
        patched = patch.apply_patch(media, copy_of(seen), body, resource)
        given = patched.get("metadata", {}).get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict_error(resource, target.name)
        new = self._decode_object(write, patched)
        return WriteResult(self._store_update(write, new, old))

    def delete(self, write: WriteRequest) -> WriteResult:
        target, resource = write.target, write.served.resource
        options = self._parse_delete_options(write)
        gone = self._storage.delete(resource, target.namespace, target.name, **options)
        held = self._storage.find(resource, target.namespace, target.name) is not None
        return WriteResult(gone, deleted=not held)

    def delete_collection(self, write: WriteRequest) -> list[Object]:
        """Execute a DELETE of all objects that match the selectors; return these."""
        target, resource = write.target, write.served.resource
        matches = parse_selectors(write.query, resource)
        options = self._parse_delete_options(write)
        deleted = []
        for obj in self._storage.list(resource, target.namespace):
            if matches is None or matches(obj):
                meta = obj["metadata"]
                deleted.append(self._storage.delete(resource, meta.get("namespace"), meta["name"], **options))
        return deleted

    def _decode_object(self, write: WriteRequest, body: Any) -> Object:
        """Return the object of a body as it is stored; unknown fields are dropped with a warning, or refused."""
        served = write.served
        obj = check_object(body, served, write.target)
        unknown = [f'unknown field "{path}"' for path in schema.normalize_object(served, obj)]
        directive = write.query.get("fieldValidation", "Warn")
        if unknown and directive == "Strict":
            kind = served.resource.kind
            text = f'{kind} in version "{served.version}" cannot be handled as a {kind}: strict decoding error: '
            raise bad_request(text + ", ".join(unknown))
        if directive == "Warn":
            write.warnings.extend(unknown)
        _check_required_fields(served, obj, write.target)
        return served.to_storage(obj)

    def _store_new(self, write: WriteRequest, resource: Any, obj: Object, operation: str) -> Object:
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        validation.check_create(resource, obj)
        if operation == managed_fields.UPDATE:
            obj = managed_fields.record_update(None, obj, write.manager, write.target)
        return self._storage.create(resource, obj, dry_run=write.dry_run)

    def _store_update(self, write: WriteRequest, new: Object, old: Object) -> Object:
        target, resource = write.target, write.served.resource
        validation.check_update(resource, new, old, target.subresource)
        new = managed_fields.record_update(old, new, write.manager, target)
        subresource = target.subresource if target.subresource == "status" else ""
        return self._storage.update(resource, new, subresource=subresource, dry_run=write.dry_run)

    def _server_side_apply(self, write: WriteRequest, body: Any, old: Object | None) -> WriteResult:
        target, resource = write.target, write.served.resource
        if not write.query.get("fieldManager"):
            text = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
            cause = {"reason": "FieldValueRequired", "message": "Required value: is required for apply patch"}
            details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [{**cause, "field": "fieldManager"}]}
            raise ApiError(422, "Invalid", text, details)
        applied = check_object(body, write.served, target)
        unknown = schema.normalize_object(write.served, applied, keep_empty=True)
        if unknown:
            place = f"{target.namespace}/{target.name}; {write.served.api_version}, Kind={resource.kind}"
            text = f"failed to create typed patch object ({place}): .{unknown[0]}: field not declared in schema"
            raise ApiError(500, "", text)
        applied = write.served.to_storage(applied)
        if applied["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        applied["metadata"].pop("creationTimestamp", None)
        force = parse_flag(write.query, "force")
        if old is None and (target.subresource or applied["metadata"].get("uid")):
            raise not_found(resource, target.name)
        merged = managed_fields.server_side_apply(old, applied, write.manager, target, force=force)
        _check_required_fields(SERVED[target.group, resource.version, target.plural], merged, target)
        if old is None:
            return WriteResult(self._store_new(write, resource, merged, managed_fields.APPLY), created=True)
        validation.check_update(resource, merged, old, target.subresource)
        subresource = target.subresource if target.subresource == "status" else ""
        return WriteResult(self._storage.update(resource, merged, subresource=subresource, dry_run=write.dry_run))

    def _parse_delete_options(self, write: WriteRequest) -> dict[str, Any]:
        body = decode_body(write.body, write.content_type) if write.body.strip() else {}
        body = schema.normalize_request(body, "v1", "DeleteOptions")
        preconditions = body.get("preconditions") or {}
        grace = body.get("gracePeriodSeconds")
        orphan = body.get("orphanDependents")
        propagation = body.get("propagationPolicy") or write.query.get("propagationPolicy")
        if propagation is None and orphan is not None:
            propagation = "Orphan" if orphan else "Background"
        return {
            "propagation": propagation or "Background",
            "grace_seconds": parse_number(write.query, "gracePeriodSeconds") if grace is None else int(grace),
            "uid": preconditions.get("uid") or "",
            "version": preconditions.get("resourceVersion") or "",
            "dry_run": write.dry_run or body.get("dryRun") == ["All"],
        }

    def _bind_or_evict(self, write: WriteRequest) -> WriteResult:
        target, resource = write.target, write.served.resource
        if resource is not PODS or target.subresource not in ("binding", "eviction"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        version, kind = ("v1", "Binding") if target.subresource == "binding" else ("policy/v1", "Eviction")
        body = schema.normalize_request(decode_body(write.body, write.content_type), version, kind)
        pod = self._storage.get(PODS, target.namespace, target.name)
        if target.subresource == "binding":
            if pod["spec"].get("nodeName"):
                why = f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
                raise conflict_error(PODS, target.name, why)
            node = body.get("target", {}).get("name", "")
            return WriteResult(self._storage.modify(PODS, target.namespace, target.name, _bind_to(node)), created=True)
        grace = (body.get("deleteOptions") or {}).get("gracePeriodSeconds")
        if not write.dry_run:
            self._storage.modify_status(
                PODS, target.namespace, target.name, partial(_set_disruption_target, self._storage.moment)
            )
        gone = self._storage.delete(PODS, target.namespace, target.name, grace_seconds=grace, dry_run=write.dry_run)
        return WriteResult(gone, created=True, deleted=True)


def _set_disruption_target(moment: str, pod: Object) -> None:
    """Set the DisruptionTarget condition, as the API server does before it deletes an evicted pod."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": moment,
    }
    others = [each for each in pod["status"].get("conditions") or () if each["type"] != "DisruptionTarget"]
    pod["status"]["conditions"] = [*others, condition]


def _check_required_fields(served: ServedKind, obj: Object, target: ApiPath) -> None:
    """Raise ApiError 422 if a custom object lacks required fields."""
    missing = missing_fields(served, obj, target.subresource)
    if missing:
        raise invalid_object(served.resource, obj["metadata"].get("name", ""), missing)


def _bind_to(node: str) -> Any:
    def bind(pod: Object) -> None:
        pod["spec"]["nodeName"] = node

    return bind
