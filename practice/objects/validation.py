"""Validation of objects: names, labels, required and immutable fields, worded as by the API."""

from __future__ import annotations

import re
from collections.abc import Iterator

from practice.objects import resources as kinds
from practice.objects.api_error import FieldCause, Object, invalid_object
from practice.objects.resources import Resource

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_NAMES = (kinds.NAMESPACES, kinds.SERVICES)
_FREE_NAMES = (kinds.ROLES, kinds.ROLEBINDINGS, kinds.CLUSTERROLES, kinds.CLUSTERROLEBINDINGS)
_MUTABLE_POD_SPEC = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_POD_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_create(resource: Resource, obj: Object) -> None:
    """Raise ApiError 422 with every fault of a new object."""
    causes = [*_name_causes(resource, obj["metadata"]), *_label_causes(obj["metadata"]), *_spec_causes(resource, obj)]
    if causes:
        raise invalid_object(resource, obj["metadata"].get("name", ""), causes)


def check_update(resource: Resource, new: Object, old: Object, subresource: str) -> None:
    """Raise ApiError 422 for an invalid object or a change of an immutable field."""
    causes = list(_label_causes(new["metadata"]))
    if not subresource:
        causes += [*_spec_causes(resource, new), *_immutable_causes(resource, new, old)]
    if causes:
        raise invalid_object(resource, old["metadata"]["name"], causes)


def _name_causes(resource: Resource, meta: Object) -> Iterator[FieldCause]:
    name, prefix = meta.get("name") or "", meta.get("generateName") or ""
    if not name and not prefix:
        yield FieldCause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
        return
    if resource in _FREE_NAMES or not name:
        return
    pattern, text, longest = (_SUBDOMAIN, _SUBDOMAIN_TEXT, 253)
    if resource in _LABEL_NAMES:
        pattern, text, longest = (_LABEL, _LABEL_TEXT, 63)
    if len(name) > longest:
        yield _invalid_cause("metadata.name", name, f"must be no more than {longest} characters")
    elif not pattern.fullmatch(name):
        yield _invalid_cause("metadata.name", name, text)


def _label_causes(meta: Object) -> Iterator[FieldCause]:
    for value in (meta.get("labels") or {}).values():
        if len(value) > 63:
            yield _invalid_cause("metadata.labels", value, "must be no more than 63 bytes")
        elif not _VALUE.fullmatch(value):
            yield _invalid_cause("metadata.labels", value, _VALUE_TEXT)


def _spec_causes(resource: Resource, obj: Object) -> Iterator[FieldCause]:
    if resource is kinds.NODES:
        yield from _taint_causes(obj.get("spec", {}).get("taints") or [])


def _taint_causes(taints: list[Object]) -> Iterator[FieldCause]:
    for at, taint in enumerate(taints):
        for name in ("key", "effect"):
            if not taint.get(name):
                yield FieldCause(f"spec.taints[{at}].{name}", "Required value", "FieldValueRequired")


def _immutable_causes(resource: Resource, new: Object, old: Object) -> Iterator[FieldCause]:
    if resource is kinds.PODS and _immutable_part(new.get("spec", {})) != _immutable_part(old.get("spec", {})):
        yield FieldCause("spec", f"Forbidden: {_POD_TEXT}", "FieldValueForbidden")
    if resource is kinds.JOBS:
        for field in ("completionMode", "selector"):
            before, after = old.get("spec", {}).get(field), new.get("spec", {}).get(field)
            if before is not None and after != before:
                yield FieldCause(f"spec.{field}", f"Invalid value: {after!r}: field is immutable", "FieldValueInvalid")
    if resource is kinds.SECRETS and new.get("type", "Opaque") != old.get("type", "Opaque"):
        yield _invalid_cause("type", new.get("type", ""), "field is immutable")
    if resource in (kinds.SECRETS, kinds.CONFIGMAPS) and old.get("immutable"):
        for field in ("data", "binaryData", "stringData"):
            if new.get(field) != old.get(field):
                yield FieldCause(field, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")


def _immutable_part(spec: Object) -> Object:
    """Return the immutable part of a pod's spec."""
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_POD_SPEC}
    for group in ("containers", "initContainers"):
        if kept.get(group):
            kept[group] = [{**container, "image": ""} for container in kept[group]]
    return kept


def _invalid_cause(field: str, value: str, text: str) -> FieldCause:
    return FieldCause(field, f'Invalid value: "{value}": {text}', "FieldValueInvalid")
