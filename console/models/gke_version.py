"""Versions of GKE, such as "1.32.4-gke.1236000", and which is the older."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:.*?-gke\.(\d+))?")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers to compare; the last is GKE's own and missing elsewhere; empty if it is no version."""
    found = _VERSION.match(version)
    return tuple(int(each) for each in found.groups() if each is not None) if found else ()


def is_older(version: str, floor: str) -> bool:
    """Whether a version comes before another; without a number of GKE's own the first three decide."""
    mine, other = numbers(version), numbers(floor)
    length = min(len(mine), len(other))
    return mine[:length] < other[:length]


def is_gke(version: str) -> bool:
    """Whether it has a number of GKE's own."""
    return len(numbers(version)) == 4
