"""Kubernetes quantities in milli-units."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_SUFFIXES = {
    "": 1000,
    "m": 1,
    "k": 10**6,
    "M": 10**9,
    "G": 10**12,
    "T": 10**15,
    "P": 10**18,
    "E": 10**21,
    "Ki": 1000 * 2**10,
    "Mi": 1000 * 2**20,
    "Gi": 1000 * 2**30,
    "Ti": 1000 * 2**40,
    "Pi": 1000 * 2**50,
    "Ei": 1000 * 2**60,
}

Amounts = dict[str, int]  # resource name -> milli-units


@lru_cache(maxsize=4096)
def parse_milli(text: str) -> int:
    """Return a quantity in milli-units: ``"500m"`` -> 500, ``"8"`` -> 8000. Raises ValueError for anything else."""
    digits = text.rstrip("kKMGTPEim")
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"not a quantity: {text!r}")
    return round(float(digits) * _SUFFIXES[suffix])


def parse_amounts(amounts: dict[str, Any] | None) -> Amounts:
    return {name: parse_milli(str(value)) for name, value in (amounts or {}).items()}


def format_quantity(value: int) -> str:
    """Format milli-units as the shortest exact quantity: 8000 -> ``8``, 1500 -> ``1500m``, 2**30*1000 -> ``1Gi``."""
    if value % 1000:
        return f"{value}m"
    whole = value // 1000
    for suffix, factor in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if whole and whole % factor == 0:
            return f"{whole // factor}{suffix}"
    return str(whole)


def add_amounts(total: Amounts, added: Amounts, times: int = 1) -> None:
    """Add ``added``, multiplied by ``times``, to ``total``."""
    for name, value in added.items():
        total[name] = total.get(name, 0) + value * times


def pod_requests(spec: dict[str, Any]) -> Amounts:
    """Return the requests of one pod: the sum of its containers, or its largest init container."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add_amounts(total, _container_requests(container))
    for container in spec.get("initContainers") or ():
        for name, value in _container_requests(container).items():
            total[name] = max(total.get(name, 0), value)
    return total


def _container_requests(container: dict[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return parse_amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
