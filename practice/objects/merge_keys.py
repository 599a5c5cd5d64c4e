"""How lists and maps of the API merge: by which key an item is known, which are sets, which are replaced whole."""

from __future__ import annotations

from typing import Any

_NAMED = (
    "containers initContainers ephemeralContainers env volumes imagePullSecrets schedulingGates resourceClaims "
    "replicatedJobs replicatedJobsStatus podSets podSetAssignments admissionChecks secrets"
)
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_NAMED.split(), ("name",)),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "conditions": ("type",),
    "addresses": ("type",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_DEFAULTS = {"protocol": "TCP"}
_SETS = frozenset({"finalizers"})
_ATOMIC_MAPS = frozenset(
    {
        "selector",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "nodeLabels",
        "secretKeyRef",
        "configMapKeyRef",
        "fieldRef",
        "resourceFieldRef",
        "involvedObject",
        "roleRef",
        "scopeSelector",
    }
)

Path = tuple[str, ...]  # field names from the top of an object, without list items


def list_keys(path: Path) -> tuple[str, ...]:
    """Return the fields that name an item of the list at ``path``; empty when the list is no map of items."""
    name = path[-1] if path else ""
    if name == "ports":
        return (
            ("containerPort", "protocol") if "containers" in path or "initContainers" in path else ("port", "protocol")
        )
    if name == "admissionChecks" and "status" not in path:
        return ()
    return _KEYS.get(name, ())


def strategic_key(path: Path) -> str:
    """Return the one merge key strategic merge patch knows an item by; empty when the list is replaced."""
    keys = list_keys(path)
    return keys[0] if keys else ""


def is_set(path: Path) -> bool:
    """Whether the list at ``path`` is a set of plain values."""
    return bool(path) and path[-1] in _SETS


def is_atomic_map(path: Path) -> bool:
    """Whether the map at ``path`` is owned and replaced as a whole."""
    return bool(path) and path[-1] in _ATOMIC_MAPS


def key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    """Return what names an item of a map-like list; None when it lacks a key, and is no such item."""
    if not isinstance(item, dict):
        return None
    values = tuple(item.get(key, _DEFAULTS.get(key)) for key in keys)
    return None if any(value is None for value in values) else values
