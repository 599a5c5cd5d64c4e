"""The merge strategy of lists and maps: by merge key, as a set, or as a whole."""

from __future__ import annotations

from typing import Any

_LISTS_BY_NAME = (
    "containers initContainers ephemeralContainers env volumes imagePullSecrets schedulingGates resourceClaims "
    "replicatedJobs replicatedJobsStatus podSets podSetAssignments admissionChecks secrets"
)
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_LISTS_BY_NAME.split(), ("name",)),
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
    """Return the key fields of the list at ``path``; empty if it is not a map-like list."""
    name = path[-1] if path else ""
    if name == "ports":
        return (
            ("containerPort", "protocol") if "containers" in path or "initContainers" in path else ("port", "protocol")
        )
    if name == "admissionChecks" and "status" not in path:
        return ()
    return _KEYS.get(name, ())


def strategic_key(path: Path) -> str:
    """Return the merge key of strategic merge patch; empty if the list is replaced."""
    keys = list_keys(path)
    return keys[0] if keys else ""


def is_set(path: Path) -> bool:
    """Whether the list at ``path`` is a set of plain values."""
    return bool(path) and path[-1] in _SETS


def is_atomic_map(path: Path) -> bool:
    """Whether the map at ``path`` is owned and replaced as a whole."""
    return bool(path) and path[-1] in _ATOMIC_MAPS


def item_key(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    """Return the key of an item in a map-like list; None if it lacks a key field."""
    if not isinstance(item, dict):
        return None
    values = tuple(item.get(key, _DEFAULTS.get(key)) for key in keys)
    return None if any(value is None for value in values) else values
