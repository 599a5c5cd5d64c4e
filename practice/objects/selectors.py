"""Label and field selectors as predicates on objects."""

from __future__ import annotations

import re
from collections.abc import Callable

from practice.objects.api_error import ApiError, Object, bad_request
from practice.objects.label_selectors import label_terms
from practice.objects.resources import Resource

Predicate = Callable[[Object], bool]

_FIELD_TERM = re.compile(r"^\s*([^=!\s]+)\s*(==|!=|=)\s*(.*?)\s*$")

_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase", "name"),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("batch", "Job"): ("status.successful",),
    ("", "Event"): (
        *(f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}


def label_predicate(text: str) -> Predicate:
    """Return a predicate for a label selector such as ``a=b,c in (d,e),!f``. Raises ApiError 400 if invalid."""
    terms = label_terms(text)

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def field_predicate(text: str, resource: Resource) -> Predicate:
    """Return a predicate for a field selector such as ``spec.nodeName=n``. Raises ApiError 400 for unknown fields."""
    allowed = ("metadata.name", "metadata.namespace", *_FIELDS.get((resource.group, resource.kind), ()))
    terms: list[tuple[list[str], bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        found = _FIELD_TERM.match(part)
        if found is None:
            raise bad_request(f"invalid field selector: {part}")
        name, op, value = found.groups()
        if name not in allowed:
            raise _unknown_field_error(resource, name)
        path = {"name": "metadata.name", "source": "source.component"}.get(name, name)
        terms.append((path.split("."), op != "!=", value))

    def matches(obj: Object) -> bool:
        return all((_field_text(obj, path) == value) is wanted for path, wanted, value in terms)

    return matches


def _unknown_field_error(resource: Resource, name: str) -> ApiError:
    if resource.is_custom or (resource.group, resource.kind) in _FIELDS:
        return bad_request(f"field label not supported: {name}")
    return bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _field_text(obj: Object, path: list[str]) -> str:
    value: object = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
