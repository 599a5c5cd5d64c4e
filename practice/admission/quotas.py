"""ResourceQuotas: usage per namespace, and refusal of objects that exceed them.

Quotas with scopes are not enforced: no object of the practice cluster has a scope.
"""

from __future__ import annotations

from collections.abc import Iterable

from practice.controllers.quantity import (
    Amounts,
    add_amounts,
    format_quantity,
    parse_amounts,
    parse_milli,
    pod_requests,
)
from practice.objects.api_error import Object, forbidden_request
from practice.objects.resources import PODS, RESOURCEQUOTAS, RESOURCES, Resource
from practice.objects.storage import Storage

_ONE_OBJECT = 1000
_COUNTED_KINDS = frozenset({"configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services"})
"""Kinds whose count a quota also limits under their plain name, without ``count/``."""
_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def check_quotas(storage: Storage, resource: Resource, obj: Object) -> None:
    """Raise ApiError 403 if a new object would exceed a quota of its namespace."""
    if not resource.namespaced:
        return
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    for quota in _enforced_quotas(storage, namespace):
        hard = parse_amounts(quota["spec"]["hard"])
        label = quota["metadata"]["name"]
        if lacking := _format_missing_amounts(resource, obj, hard):
            raise forbidden_request(resource, name, f"failed quota: {label}: must specify {lacking}")
        wanted = {key: value for key, value in _usage_of_object(resource, obj).items() if key in hard}
        if not wanted:
            continue
        used = compute_usage(storage, namespace, hard)
        over = [key for key, value in wanted.items() if used[key] + value > hard[key]]
        if over:
            parts = (("requested", wanted), ("used", used), ("limited", hard))
            exceeded = ", ".join(f"{word}: {_format_listed(values, over)}" for word, values in parts)
            raise forbidden_request(resource, name, f"exceeded quota: {label}, {exceeded}")


def compute_usage(storage: Storage, namespace: str, names: Iterable[str]) -> Amounts:
    total: Amounts = dict.fromkeys(names, 0)
    for resource in _counted_kinds(total):
        for obj in storage.list(resource, namespace):
            if resource is not PODS or obj.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                add_amounts(
                    total, {key: value for key, value in _usage_of_object(resource, obj).items() if key in total}
                )
    return total


def format_amounts(values: Amounts) -> dict[str, str]:
    return {name: format_quantity(value) for name, value in sorted(values.items())}


def _enforced_quotas(storage: Storage, namespace: str) -> list[Object]:
    quotas = storage.list(RESOURCEQUOTAS, namespace)
    return [each for each in quotas if not (each["spec"].get("scopes") or each["spec"].get("scopeSelector"))]


def _counted_kinds(names: Iterable[str]) -> list[Resource]:
    """The kinds of objects that a ResourceQuota counts."""
    given = set(names)
    found = [kind for kind in RESOURCES if kind.namespaced and not given.isdisjoint(_count_keys(kind))]
    computing = any(name not in _COUNTED_KINDS and not name.startswith("count/") for name in given)
    return [*found, PODS] if computing and PODS not in found else found


def _count_keys(resource: Resource) -> set[str]:
    plain = {resource.plural} if not resource.group and resource.plural in _COUNTED_KINDS else set()
    return {f"count/{resource.qualified}", *plain}


def _usage_of_object(resource: Resource, obj: Object) -> Amounts:
    """The amounts that one object counts for."""
    found: Amounts = dict.fromkeys(_count_keys(resource), _ONE_OBJECT)
    if resource is PODS:
        spec = obj["spec"]
        found |= {f"requests.{name}": value for name, value in pod_requests(spec).items()}
        found |= {name: value for name, value in pod_requests(spec).items() if name in _COMPUTE_RESOURCES}
        for container in spec.get("containers") or ():
            limits = parse_amounts((container.get("resources") or {}).get("limits"))
            add_amounts(found, {f"limits.{name}": value for name, value in limits.items()})
    return found


def _format_missing_amounts(resource: Resource, obj: Object, hard: Amounts) -> str:
    """The counted requests or limits that a pod's containers lack: "limits.cpu for: main"; empty if none is missing."""
    if resource is not PODS:
        return ""
    lacking = {}
    for name in sorted(hard):
        side, _, kind = name.partition(".") if "." in name else ("requests", "", name)
        if kind not in ("cpu", "memory") or side not in ("requests", "limits"):
            continue
        silent = [
            each["name"]
            for each in obj["spec"].get("containers") or ()
            if not parse_milli(str(((each.get("resources") or {}).get(side) or {}).get(kind, "0")))
        ]
        if silent:
            lacking[name] = ",".join(sorted(silent))
    return "; ".join(f"{name} for: {who}" for name, who in lacking.items())


def _format_listed(values: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={format_quantity(values[name])}" for name in sorted(names))
