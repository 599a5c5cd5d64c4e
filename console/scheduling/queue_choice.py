"""Chooses the LocalQueue of a launch if none is named, for the form and `a4 launch` alike.

Only queues and their quota count, not machines: who launches from a command line does not list thousands of pods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.scheduling.launch_forecast import Verdict, closed_queue_forecast, free_quota_gpus, unknown_reason

if TYPE_CHECKING:
    from console.kube.snapshot import Fleet
    from console.scheduling.launch_forecast import LaunchDemand

KINDS = ("localqueues", "clusterqueues", "resourceflavors", "cohorts")  # what the choice stands on
PAST = "none"  # the word for a launch past Kueue


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """The chosen LocalQueue and the reason."""

    queue: str = ""  # empty: there is none to choose
    why: str = ""  # in a few words, to stand behind its name; for none, a whole sentence with what to do
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    shut: bool
    fits: bool
    free: int | None  # GPUs of quota; None: not known


def choose_queue(fleet: Fleet, ask: LaunchDemand) -> QueueChoice:
    """The namespace's only LocalQueue, else a fitting one with the most free quota; closed ones last."""
    if ask.gpus <= 0:
        return QueueChoice("", "It requests no GPU, so it needs no queue.")
    found = _ranked(fleet, ask)
    if not found:
        why = unknown_reason(fleet, "localqueues", "LocalQueues")
        said = (
            f"The LocalQueues of {ask.namespace} are not known: {why}" if why else f"{ask.namespace} has no LocalQueue"
        )
        return QueueChoice("", f"{said}. Name one with --queue, or create one: a4 preflight RECIPE --fix localqueue.")
    return QueueChoice(found[0].name, _why(found, ask), tuple(each.name for each in found[1:]))


def rank_queues(fleet: Fleet, ask: LaunchDemand) -> tuple[str, ...]:
    """The LocalQueues of the namespace, best first."""
    return tuple(each.name for each in _ranked(fleet, ask))


def _ranked(fleet: Fleet, ask: LaunchDemand) -> list[_Candidate]:
    """The queues: fitting ones first, by free quota; closed ones last."""
    names = (name for where, name in fleet.local_queues if where == ask.namespace)
    found = (_candidate(fleet, ask, name) for name in names)
    return sorted(found, key=lambda each: (each.shut, not each.fits, -(each.free or 0), each.name))


def _candidate(fleet: Fleet, ask: LaunchDemand, name: str) -> _Candidate:
    named = replace(ask, queue=name)
    trouble = closed_queue_forecast(fleet, named)
    closed = trouble is not None and trouble.verdict is not Verdict.UNKNOWN
    free = free_quota_gpus(fleet, named) if trouble is None else None
    return _Candidate(name, closed, free is not None and free >= ask.gpus, free)


def _why(found: list[_Candidate], ask: LaunchDemand) -> str:
    best, fitting = found[0], sum(each.fits for each in found)
    if len(found) == 1:
        return f"the only LocalQueue of {ask.namespace}"
    if best.shut:
        return f"none of the {len(found)} LocalQueues of {ask.namespace} admits anything now"
    if best.free is None:
        return f"one of {len(found)}; how much quota is free in them is not known"
    if not best.fits:
        return f"none of the {len(found)} LocalQueues has {ask.gpus:,} GPUs free now; this one has most, {best.free:,}"
    if fitting == 1:
        return f"the only one of the {len(found)} LocalQueues with enough GPUs free now ({best.free:,})"
    return f"the one with the most GPUs free ({best.free:,}) of the {fitting} LocalQueues with enough now"
