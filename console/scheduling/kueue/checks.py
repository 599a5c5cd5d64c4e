"""Admission checks: what else must approve a workload that has quota, before its pods are created.

A check is for all workloads of a ClusterQueue, or for those that get one of the flavors it names. Ports Kueue 0.18,
with the words of 0.17 and 0.19.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from console.scheduling.kueue.state import QueueNode, Release


class CheckState(StrEnum):
    """The verdict of an admission check on a workload."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"  # it gives its quota back, and is tried again later
    REJECTED = "Rejected"  # it is deactivated


class Check(Struct, frozen=True):
    """The state of one admission check of a workload."""

    name: str
    state: str
    message: str = ""


def required_checks(queue: QueueNode, flavors: Collection[str] | None) -> frozenset[str]:
    """The checks that a workload with these flavors needs; None: those needed whatever the flavors."""
    every = {name for group in queue.groups for name in group.flavors}
    if flavors is None:
        return frozenset(name for name, on in queue.checks.items() if (on or every) >= every)
    return frozenset(name for name, on in queue.checks.items() if (on or every) & set(flavors))


def open_checks(checks: Iterable[Check]) -> list[Check]:
    """The checks that a workload with quota still waits for, rejections first; empty if it can be admitted."""
    order: dict[str, int] = {CheckState.REJECTED: 0, CheckState.RETRY: 1}
    left = [each for each in checks if each.state != CheckState.READY]
    return sorted(left, key=lambda each: (order.get(each.state, 2), each.name))


def fatal_state(checks: Iterable[Check]) -> CheckState | None:
    """REJECTED or RETRY if a check is in that state, which makes the workload lose its quota."""
    states = {each.state for each in checks}
    return next((each for each in (CheckState.REJECTED, CheckState.RETRY) if each in states), None)


def refusal_words(checks: Iterable[Check], state: CheckState, release: Release) -> str:
    """Kueue's message for checks in a state that makes a workload lose its quota."""
    found = sorted((each for each in checks if each.state == state), key=lambda each: each.name)
    if release.minor < 18:
        names = ",".join(each.name for each in found)
        retry = state is CheckState.RETRY
        return "At least one admission check is false" if retry else f"Admission check(s): {names}, were rejected"
    named = "; ".join(f'"{each.name}" ({each.message})' if each.message else f'"{each.name}"' for each in found)
    words = f"AdmissionCheck{'s' if len(found) > 1 else ''} in {state} state: {named}"
    return f"Evicted due to {words}" if state is CheckState.RETRY else words


def unadmitted_words(release: Release, *, reserved: bool, ready: bool) -> tuple[str, str]:
    """(reason, message) of the condition of a workload that is no longer admitted."""
    if reserved:
        reason = "UnsatisfiedAdmissionChecks" if release.observability else "UnsatisfiedChecks"
        return reason, "The workload has not all checks ready"
    if ready or release.observability:
        return "NoReservation", "The workload has no reservation"
    return "NoReservationUnsatisfiedChecks", "The workload has no reservation and not all checks ready"
