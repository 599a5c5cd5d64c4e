"""Why a JobSet does not run: its Workload while it waits, its pods once it may start, its first failure at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.deletion import first_deletion
from console.models.explanation import Category, Why
from console.models.image_trouble import why_no_image
from console.models.job import JobState
from console.models.link import LinkState
from console.models.ranks import first_failure, ranks
from console.models.refused_pods import refused_pods
from console.models.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.pod import Container, Pod
    from console.models.ranks import Rank

_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_NOT_SET_UP = {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady"}
"""Reasons of the kubelet's events."""
_ON_ITS_WAY = {"", "ContainerCreating", "PodInitializing"}
_BEFORE_PODS = {Category.RUNNING, Category.PODS_NOT_READY, Category.FINISHED}
"""Answers about a Workload that say nothing of why its pods are not up."""


def why_jobset(jobset: JobSet, fleet: Fleet) -> Why:
    """Why that JobSet is not running, or that it is."""
    state = jobset.state
    if state is JobState.STOPPING:
        return Why("is being stopped", Category.STOPPING, need=jobset.gpus)
    if state is JobState.SUCCEEDED:
        return Why("", Category.FINISHED, need=jobset.gpus)
    if state is JobState.FAILED:
        return _failed(jobset, fleet)
    workload = fleet.workload_of(jobset)
    waits = why(workload, fleet) if workload else None
    if waits and waits.category not in _BEFORE_PODS:
        return waits
    return _suspended(jobset, fleet) if jobset.suspended else _of_pods(jobset, fleet)


def _failed(jobset: JobSet, fleet: Fleet) -> Why:
    first = first_failure(jobset, fleet)
    after = f" after {_count(jobset.restarts, 'restart')}" if jobset.restarts else ""
    told = jobset.failure
    deleted = first_deletion(jobset, fleet)
    if deleted is not None and deleted.attempt == jobset.restarts and not _ended_before(first, deleted.time):
        words = f"failed{after}: pod {deleted.rank} was deleted"
    else:
        words = f"failed{after}: {_ending(first)}" if first else f"failed{after}{f': {told}' if told else ''}"
    return Why(words, Category.FAILED, api_text=told, need=jobset.gpus)


def _ended_before(first: Rank | None, moment: float) -> bool:
    """Whether a rank failed before that moment; containers end in whole seconds."""
    return first is not None and first.ended is not None and first.ended.finished < int(moment)


def _suspended(jobset: JobSet, fleet: Fleet) -> Why:
    link = fleet.links.get("workloads")
    if not jobset.queue:
        return Why("is suspended and names no queue, so nothing will start it", Category.NO_QUEUE, need=jobset.gpus)
    if link and link.state is LinkState.ABSENT:
        words = f"waits for queue {jobset.queue}, but this cluster has no Kueue to start it"
        return Why(words, Category.NO_QUEUE, api_text=link.why, need=jobset.gpus)
    if fleet.workload_of(jobset):
        return Why("is admitted and about to start", Category.STARTING, need=jobset.gpus)
    words = f"waits for queue {jobset.queue}; Kueue has made no workload of it yet"
    return Why(words, Category.NOT_EVALUATED, need=jobset.gpus)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """One way in which ranks are not up, most telling first in `_TROUBLES`."""

    category: Category
    of: Callable[[Rank], str | None]
    """Its particulars in words, None if the rank has no such trouble."""
    many: str = ""
    """What it is for several ranks; empty where the particulars are a sentence of their own."""
    single: str = ""


def _waiting(rank: Rank) -> Container | None:
    """The container that keeps the pod from going on; the first that waits for anything but its turn."""
    waiting = [each for each in rank.pod.containers if each.state == "waiting"] if rank.pod else []
    return next((each for each in waiting if each.reason not in _ON_ITS_WAY), None)


def _image(rank: Rank) -> str | None:
    waiting = _waiting(rank)
    return why_no_image(waiting.reason, waiting.message) if waiting and waiting.reason in _IMAGE else None


def _crashing(rank: Rank) -> str | None:
    waiting = _waiting(rank)
    if rank.failed or not (waiting and waiting.last_exit_code):
        return _ending(rank) if rank.failed else None
    why_ended = f" ({waiting.last_reason})" if waiting.last_reason not in {"", "Error"} else ""
    return f"pod {rank.number} keeps ending with exit code {waiting.last_exit_code}{why_ended}{_on(rank.node)}"


def _other(rank: Rank) -> str | None:
    waiting = _waiting(rank)
    return f"{waiting.reason}{f': {waiting.message}' if waiting.message else ''}" if waiting else None


def _not_set_up(rank: Rank, fleet: Fleet) -> str | None:
    """What the kubelet cannot do before it starts a container; only its last event says so."""
    if rank.pod is None or rank.phase != "Pending":
        return None
    last = max(fleet.events_by_object.get(rank.pod.uid, ()), key=lambda each: each.last, default=None)
    return f"{last.reason}: {last.message}" if last is not None and last.reason in _NOT_SET_UP else None


def _unplaced(rank: Rank) -> str | None:
    return (rank.pod.unschedulable or None) if rank.pod and not rank.pod.gated else None


def _gated(rank: Rank) -> str | None:
    return ", ".join(rank.pod.gated) or None if rank.pod else None


def _unready(rank: Rank) -> str | None:
    if rank.pod is None or rank.ready or rank.phase == "Succeeded":
        return None
    running = rank.phase == "Running" and all(each.state == "running" for each in rank.pod.containers if not each.init)
    return "running, not ready yet" if running else rank.status


def _absent(rank: Rank) -> str | None:
    return None if rank.pod else "not created yet"


_TROUBLES = (
    _Trouble(Category.RESTARTING, _crashing),
    _Trouble(Category.IMAGE, _image, "cannot get their image", "cannot get its image"),
    _Trouble(Category.STARTING, _other, "cannot start", "cannot start"),
    _Trouble(Category.UNSCHEDULABLE, _unplaced, "find no node", "finds no node"),
    _Trouble(Category.GATED, _gated, "are held back by a gate", "is held back by a gate"),
    _Trouble(Category.STARTING, _unready, "are starting", "is starting"),
    _Trouble(Category.STARTING, _absent, "are to come", "is to come"),
)


def _of_pods(jobset: JobSet, fleet: Fleet) -> Why:
    found = ranks(jobset, fleet)
    if any(rank.pod is None for rank in found) and (refused := refused_pods(jobset, fleet)) is not None:
        return refused
    not_set_up = _Trouble(Category.STARTING, lambda rank: _not_set_up(rank, fleet), "cannot start", "cannot start")
    for trouble in (*_TROUBLES[:3], not_set_up, *_TROUBLES[3:]):
        hit = [(rank, said) for rank in found if (said := trouble.of(rank)) is not None]
        if hit:
            return _told(jobset, trouble, hit, len(found))
    return Why("", Category.RUNNING, need=jobset.gpus)


def _told(jobset: JobSet, trouble: _Trouble, hit: Sequence[tuple[Rank, str]], of: int) -> Why:
    rank, said = min(hit, key=lambda each: each[0].ended.finished if each[0].ended else 0.0)
    category, again = trouble.category, ""
    if jobset.restarts or category is Category.RESTARTING:
        category = Category.RESTARTING if category is Category.STARTING else category
        again = f"; restart {jobset.restarts} of {jobset.max_restarts}" if jobset.restarts else ""
    verb = trouble.single if len(hit) == 1 else trouble.many
    words = f"{len(hit)} of {_count(of, 'pod')} {verb}: {said}" if verb else said
    return Why(f"{words}{again}", category, api_text=_message(rank.pod), need=jobset.gpus)


def _message(pod: Pod | None) -> str:
    """What the API says of that pod."""
    if pod is None:
        return ""
    told = next((each.message for each in pod.containers if each.message), "")
    return pod.message or pod.unschedulable or told


def _ending(rank: Rank) -> str:
    """How a rank ended, in words."""
    ended, pod = rank.ended, rank.pod
    if ended and ended.exit_code:
        reason = f" ({ended.reason})" if ended.reason not in {"", "Error"} else ""
        return f"pod {rank.number} ended first with exit code {ended.exit_code}{reason}{_on(rank.node)}"
    reason = (pod.reason or pod.message or "no reason given") if pod else "no reason given"
    return f"pod {rank.number} failed first ({reason}){_on(rank.node)}"


def _on(node: str) -> str:
    return f" on {node}" if node else ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
