"""ResourceQuotas: usage per namespace, and refusal of what exceeds them.

Quotas with scopes are not kept: nothing of the practice cluster has any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.controllers.quantity import Amounts, add, amounts, milli, pod_requests, words
from practice.objects.refusal import Object, forbidden
from practice.objects.resources import PODS, RESOURCEQUOTAS, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from practice.objects.resources import Resource
    from practice.objects.storage import Storage

_ONE = 1000
_COUNTED = frozenset({"configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "secrets", "services"})
"""Kinds whose number has a name of its own beside ``count/KIND``."""
_PLAIN = ("cpu", "memory", "ephemeral-storage")


def check(storage: Storage, resource: Resource, obj: Object) -> None:
    """Raise ApiError 403 if a new object would exceed a quota of its namespace."""
    if not resource.namespaced:
        return
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    for quota in _enforced_quotas(storage, namespace):
        hard = amounts(quota["spec"]["hard"])
        label = quota["metadata"]["name"]
        if lacking := _unsaid(resource, obj, hard):
            raise forbidden(resource, name, f"failed quota: {label}: must specify {lacking}")
        wanted = {key: value for key, value in _of(resource, obj).items() if key in hard}
        if not wanted:
            continue
        used = usage(storage, namespace, hard)
        over = [key for key, value in wanted.items() if used[key] + value > hard[key]]
        if over:
            parts = (("requested", wanted), ("used", used), ("limited", hard))
            told = ", ".join(f"{word}: {_listed(values, over)}" for word, values in parts)
            raise forbidden(resource, name, f"exceeded quota: {label}, {told}")


def usage(storage: Storage, namespace: str, names: Iterable[str]) -> Amounts:
    total: Amounts = dict.fromkeys(names, 0)
    for resource in _concerned(total):
        for obj in storage.list(resource, namespace):
            if resource is not PODS or obj.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                add(total, {key: value for key, value in _of(resource, obj).items() if key in total})
    return total


def written(values: Amounts) -> dict[str, str]:
    return {name: words(value) for name, value in sorted(values.items())}


def _enforced_quotas(storage: Storage, namespace: str) -> list[Object]:
    quotas = storage.list(RESOURCEQUOTAS, namespace)
    return [each for each in quotas if not (each["spec"].get("scopes") or each["spec"].get("scopeSelector"))]


def _concerned(names: Iterable[str]) -> list[Resource]:
    """The kinds that such a quota counts."""
    given = set(names)
    found = [kind for kind in RESOURCES if kind.namespaced and not given.isdisjoint(_numbers(kind))]
    computing = any(name not in _COUNTED and not name.startswith("count/") for name in given)
    return [*found, PODS] if computing and PODS not in found else found


def _numbers(resource: Resource) -> set[str]:
    plain = {resource.plural} if not resource.group and resource.plural in _COUNTED else set()
    return {f"count/{resource.qualified}", *plain}


def _of(resource: Resource, obj: Object) -> Amounts:
    """The amounts that one object counts for."""
    found: Amounts = dict.fromkeys(_numbers(resource), _ONE)
    if resource is PODS:
        spec = obj["spec"]
        found |= {f"requests.{name}": value for name, value in pod_requests(spec).items()}
        found |= {name: value for name, value in pod_requests(spec).items() if name in _PLAIN}
        for container in spec.get("containers") or ():
            limits = amounts((container.get("resources") or {}).get("limits"))
            add(found, {f"limits.{name}": value for name, value in limits.items()})
    return found


def _unsaid(resource: Resource, obj: Object, hard: Amounts) -> str:
    """The counted requests or limits that a pod's containers lack: "limits.cpu for: main"."""
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
            if not milli(str(((each.get("resources") or {}).get(side) or {}).get(kind, "0")))
        ]
        if silent:
            lacking[name] = ",".join(sorted(silent))
    return "; ".join(f"{name} for: {who}" for name, who in lacking.items())


def _listed(values: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={words(values[name])}" for name in sorted(names))
