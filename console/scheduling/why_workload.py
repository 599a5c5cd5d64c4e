"""Explains why a Workload waits, in one sentence: Kueue's message, verified against the snapshot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.kube.objects.meta import GPU, condition, is_condition_true
from console.kube.objects.workload import Workload, WorkloadState
from console.kube.snapshot import Fleet, WatchState, per_snapshot
from console.scheduling.free_slots import eligible_nodes
from console.scheduling.kueue_messages import KueueMessage, preempted_by, read_message
from console.scheduling.kueue_snapshot import (
    closed_reason,
    cluster_queue_name,
    gpu_flavors,
    job_name,
    queue_order,
    queue_position,
)
from console.scheduling.quota_ledger import best_flavor, flavor_account
from console.scheduling.why import Category, Why
from console.scheduling.why_quota import explain_quota
from console.scheduling.why_topology import TopologyDemand, explain_topology, refused_flavor, topology_demand_of
from kueue_rules import AdmissionCheck, AdmissionVerdict, open_checks

if TYPE_CHECKING:
    from console.scheduling.expected_start import ExpectedStart

_RETRYING_PREFIX = re.compile(r"^Retrying after failure: ")
_EVICTION_WORDS = {
    "Preempted": "was preempted",
    "PodsReadyTimeout": "its pods were not ready in time",
    "AdmissionCheck": "an admission check evicted it",
    "ClusterQueueStopped": "its queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "one of its nodes failed",
    "MaximumExecutionTimeExceeded": "it reached its maximum execution time",
}
"""Descriptions of an eviction by its reason."""
_STUCK_SECONDS = 600.0  # seconds after an eviction in which pods go and Kueue takes the quota
_QUEUE_WAITS = {None, Category.QUOTA, Category.TOPOLOGY, Category.PREEMPTING, Category.NOT_EVALUATED, Category.UNKNOWN}
"""Categories that change as other workloads come and end."""


def why_workload(workload: Workload, fleet: Fleet, expected_start: ExpectedStart | None = None) -> Why:
    """The reason why a workload waits; `expected_start` names the job after whose end it starts."""
    return _explain_workload(fleet, workload.key).with_end(expected_start)


@per_snapshot
def _explain_workload(fleet: Fleet, key: tuple[str, str]) -> Why:
    workload = fleet.workloads[key]
    draft = _common_facts(workload, fleet)
    answer = (
        _explained_by_state(workload, fleet, draft)
        or _why_queue(workload, fleet, draft)
        or _why_delayed(workload, fleet, draft)
    )
    return answer or _why_pending(workload, fleet, read_message(workload), draft)


def _common_facts(workload: Workload, fleet: Fleet) -> Why:
    """An explanation with the facts that all explanations have: demand, flavor, account, position."""
    queue, position, text = cluster_queue_name(workload, fleet), queue_position(workload, fleet), read_message(workload)
    given = [dict(group.flavors).get(GPU, "") for group in workload.pod_sets]
    flavor = next((each for each in given if each), "")
    if not flavor and workload.total(GPU):
        flavor = _likely_flavor(workload, fleet, queue, text)
    return Why(
        sentence="",
        category=Category.UNKNOWN,
        api_text=text.text,
        need=workload.total(GPU),
        flavor=flavor,
        account=flavor_account(fleet, queue, flavor) if flavor and ("", queue) in fleet.cluster_queues else None,
        position=position,
        ahead=tuple(map(job_name, queue_order(fleet, queue).pending[: max(0, position - 1)])),
    )


def _likely_flavor(workload: Workload, fleet: Fleet, queue: str, message: KueueMessage) -> str:
    """The flavor on which the explanation is based while Kueue has assigned none."""
    wish, refused = topology_demand_of(workload), ""
    if message.category is Category.TOPOLOGY and not message.flavor and wish:
        refused = refused_flavor(wish, gpu_flavors(fleet.cluster_queues.get(("", queue))), message, fleet)
    return refused or best_flavor(fleet, queue, message)


def _explained_by_state(workload: Workload, fleet: Fleet, why: Why) -> Why | None:
    """The explanation for states in which the workload does not wait for quota; None for others."""
    state = workload.state
    evicted = condition(workload.conditions, "Evicted")
    if state is WorkloadState.FINISHED:
        return replace(why, category=Category.FINISHED, api_text=_message(workload, "Finished"))
    if state is WorkloadState.DEACTIVATED:
        return _why_deactivated(workload, why)
    if evicted and evicted.is_true and is_condition_true(workload.conditions, "QuotaReserved"):
        lost, then = _eviction_text(workload, fleet), "its pods are being deleted"
        link = fleet.links.get("pods")
        listed = link is not None and link.state is WatchState.LIVE and workload.owner_kind == "JobSet"
        if not listed or fleet.pods_by_jobset.get(workload.owner_uid):
            return replace(why, sentence=f"{lost}; {then}", category=Category.EVICTED, api_text=evicted.message)
        then = "its quota is about to be released"
        if stuck := fleet.at - evicted.since > _STUCK_SECONDS:
            then = f"it still holds {why.need} GPUs and has no pods: its eviction is stuck"
        advice = f"Delete its Workload ({workload.name}), which Kueue makes again" if stuck else ""
        words = f"{lost}; {then}"
        return replace(why, sentence=words, category=Category.EVICTED, api_text=evicted.message, next=advice)
    if state is WorkloadState.RESERVED:
        return _explained_by_admission_checks(workload, why)
    return _why_admitted(workload, why) if state is WorkloadState.ADMITTED else None


def _message(workload: Workload, kind: str) -> str:
    """The message of a condition; empty if the condition is missing."""
    found = condition(workload.conditions, kind)
    return found.message if found else ""


def _eviction_text(workload: Workload, fleet: Fleet) -> str:
    """A Workload's last eviction in words, with the preemptor if it was preempted; empty if there was none."""
    evicted = condition(workload.conditions, "Evicted")
    if evicted is None:
        return ""
    preemptor = preempted_by(workload, fleet)[0] if evicted.reason == "Preempted" else ""
    return f"{_EVICTION_WORDS.get(evicted.reason, evicted.reason)}{f' by {preemptor}' if preemptor else ''}"


def _why_deactivated(workload: Workload, why: Why) -> Why:
    target, evicted = (condition(workload.conditions, each) for each in ("DeactivationTarget", "Evicted"))
    cause = target or evicted
    category = cause.reason.removeprefix("DeactivatedDueTo").removeprefix("Deactivated") if cause else ""
    after = f" ({category})" if category else ""
    times = f" after {workload.requeue_count} requeues" if workload.requeue_count > 1 else ""
    refused = _failed_checks(workload)
    words = f"is deactivated{times}{f': {refused}' if refused else after}; set spec.active=true to resume"
    return replace(why, sentence=words, category=Category.DEACTIVATED, api_text=cause.message if cause else "")


def _failed_checks(workload: Workload) -> str:
    """The rejected or retried admission checks with their messages, as words; empty if there are none."""
    failed = [each for each in workload.checks if each.state in {AdmissionVerdict.REJECTED, AdmissionVerdict.RETRY}]
    messages = (_RETRYING_PREFIX.sub("", each.message) for each in failed)
    named = [
        f"{check.name} failed{f' ({message})' if message else ''}"
        for check, message in zip(failed, messages, strict=True)
    ]
    return f"admission check {' and '.join(named)}" if failed else ""


def _explained_by_admission_checks(workload: Workload, why: Why) -> Why:
    admitted, text = condition(workload.conditions, "Admitted"), _message(workload, "Admitted")
    open_ = open_checks(AdmissionCheck(each.name, each.state, each.message) for each in workload.checks)
    if not open_:
        delayed = admitted is not None and admitted.reason == "PendingDelayedTopologyRequests"
        wait = "a topology assignment of its pods" if delayed else "its admission checks"
        return replace(why, sentence=f"has quota, waits for {wait}", category=Category.CHECKS, api_text=text)
    first = open_[0]
    verb = {"Rejected": "was refused by", "Retry": "is requeued by"}.get(first.state, "has quota, waits for")
    others = [each.name for each in open_ if each.state == first.state]
    which = f"checks {', '.join(others)}" if len(others) > 1 else f"check {first.name}"
    words = f"{verb} the {which}{f': {first.message}' if first.message and len(others) == 1 else ''}"
    return replace(why, sentence=words, category=Category.CHECKS, api_text=first.message or text)


def _why_admitted(workload: Workload, why: Why) -> Why:
    ready = condition(workload.conditions, "PodsReady")
    if ready and not ready.is_true:
        words = f"is admitted, but its pods are not ready{f': {ready.message}' if ready.message else ''}"
        return replace(why, sentence=words, category=Category.PODS_NOT_READY, api_text=ready.message)
    return replace(why, category=Category.RUNNING)


def _why_queue(workload: Workload, fleet: Fleet, why: Why) -> Why | None:
    """The explanation if something is wrong with the workload's queues; None if not, or if they are unknown."""
    door = fleet.local_queues.get((workload.namespace, workload.queue))
    name = cluster_queue_name(workload, fleet)
    queue = fleet.cluster_queues.get(("", name))
    if door is None and fleet.local_queues:
        words = f"queue {workload.queue} does not exist in {workload.namespace}"
        return replace(why, sentence=words if workload.queue else "names no queue", category=Category.MISSING_QUEUE)
    if queue is None and name and fleet.cluster_queues:
        return replace(why, sentence=f"cluster queue {name} does not exist", category=Category.MISSING_QUEUE)
    for each in (door, queue):
        if each is not None and (words := closed_reason(each)):
            if each.stop_policy != "None":
                return replace(why, sentence=words, category=Category.STOPPED)
            text = why.api_text or each.inactive_reason
            return replace(why, sentence=words, category=Category.INACTIVE_QUEUE, api_text=text)
    return None


def _why_delayed(workload: Workload, fleet: Fleet, why: Why) -> Why | None:
    wait, requeued = workload.requeue_at - fleet.at, condition(workload.conditions, "Requeued")
    held = workload.requeue_at > 0 and requeued is not None and not requeued.is_true
    if wait <= 0 and not held:
        return None
    evicted = condition(workload.conditions, "Evicted")
    known = evicted is not None and (evicted.is_true or evicted.reason in _EVICTION_WORDS)
    lost = _failed_checks(workload) or (_eviction_text(workload, fleet) if known else "lost its quota")
    when = f"{abs(wait):.0f} s" if abs(wait) < 120 else f"{abs(wait) / 60:.0f} min"
    due = f"queues again in {when}" if wait > 0 else f"was to queue again {when} ago, and Kueue has not requeued it"
    words = f"{lost}; {due} (attempt {workload.requeue_count + 1})"
    return replace(why, sentence=words, category=Category.BACKOFF, api_text=_message(workload, "Evicted"))


def _why_pending(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    """The explanation for a workload in a working queue: quota, topology, others, or Kueue's message."""
    answer = (
        _strictly_behind(workload, fleet, message, why)
        or _explained_by_message(workload, fleet, message, why)
        or _explained_by_quota(workload, fleet, message, why)
    )
    evicted = condition(workload.conditions, "Evicted")
    if evicted and evicted.is_true and evicted.reason in _EVICTION_WORDS:
        answer = replace(answer, sentence=f"{_eviction_text(workload, fleet)}; {answer.sentence}")
    return _compared_with_message(answer, message, workload, fleet)


def _compared_with_message(answer: Why, message: KueueMessage, workload: Workload, fleet: Fleet) -> Why:
    """The explanation compared with Kueue's message, which may be outdated."""
    if message.category is None or not message.text or answer.category is Category.UNKNOWN:
        return answer
    same_room = -1 in {message.fits, answer.room} or message.fits == answer.room
    if message.category is answer.category and message.more_gpus in {0, answer.short_by} and same_room:
        return replace(answer, agrees=True)
    repeated = [each.last for each in fleet.events_by_object.get(workload.uid, ()) if message.text in each.message]
    reserved = condition(workload.conditions, "QuotaReserved")
    return replace(answer, differs=True, reported_at=max(repeated, default=reserved.since if reserved else 0.0))


def _strictly_behind(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why | None:
    """The explanation for a workload that is not the first in a StrictFIFO queue; None for others."""
    queue = fleet.cluster_queue_of(workload)
    if not why.ahead or queue is None or queue.strategy != "StrictFIFO" or message.category not in _QUEUE_WAITS:
        return None
    answer = why
    if why.account and why.need > why.account.free:
        answer = explain_quota(workload, fleet, KueueMessage(), why)
    then = f"; then {answer.sentence}" if answer.sentence else ""
    words = f"behind {_join_names(why.ahead)}, and {queue.name} is StrictFIFO: nothing passes{then}"
    category = Category.EXCEEDS if answer.category is Category.EXCEEDS else Category.BEHIND
    return replace(answer, sentence=words, category=category)


def _explained_by_message(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why | None:
    """The explanation from Kueue's message; None if the message does not suffice."""
    wish = topology_demand_of(workload)
    fits = why.account is not None and 0 < why.need <= why.account.free
    overtaken = fits and not message.more and not message.resource  # Kueue gave no number, and quota is there by now
    if message.category in {Category.QUOTA, Category.EXCEEDS} and not overtaken:
        return _why_quota(workload, fleet, message, why)
    if message.category is Category.TOPOLOGY and wish:
        return explain_topology(wish, fleet, message, why)
    if message.category is Category.PREEMPTING:
        return _why_preempting(workload, fleet, message, why)
    if message.category is Category.NO_FLAVOR:
        if message.uncovered:
            queue = cluster_queue_name(workload, fleet)
            words = f"ClusterQueue {queue} does not cover {message.uncovered}: it has no quota of it (coveredResources)"
            return replace(why, sentence=words, category=Category.NO_FLAVOR)
        clause = message.text.rpartition("pod set ")[2] or message.text
        return replace(why, sentence=f"no node of its queue fits: {clause}", category=Category.NO_FLAVOR)
    plain = {
        Category.PODS_NOT_READY: "waits until the pods of the jobs admitted before it are ready",
        Category.GATED: "is held back by an admission gate",
        Category.STOPPED: "its queue is stopped",
        Category.MISSING_QUEUE: "its queue is missing or misconfigured",
        Category.INACTIVE_QUEUE: "its queue is not active",
        Category.CHECKS: "an admission check refused it",
        Category.DEACTIVATED: "is deactivated",
    }
    if message.category not in plain:
        return None
    if message.category is Category.CHECKS and (failed := _failed_checks(workload)):
        return replace(why, sentence=failed, category=Category.CHECKS)
    hidden = not message.text or message.category in {Category.PODS_NOT_READY, Category.STOPPED}
    text = "" if hidden else f" ({message.text})"
    return replace(why, sentence=plain[message.category] + text, category=message.category)


def _explained_by_quota(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    """The explanation from calculated quota, or else Kueue's unchanged message."""
    have, wish = why.account, topology_demand_of(workload)
    if have and why.need > have.free:
        return _why_quota(workload, fleet, message, why)
    if have and wish and wish.label and eligible_nodes(fleet, wish.gpus, why.flavor).shortage(wish.pods, wish.label):
        return explain_topology(wish, fleet, message, why)
    if why.ahead:
        return replace(why, sentence=f"behind {_join_names(why.ahead)}", category=Category.BEHIND)
    if message.text and message.category is not Category.NOT_EVALUATED:
        return replace(why, sentence=message.text, category=Category.UNKNOWN)
    fits = f"; {why.need} of the {have.free} free GPUs would do" if have and why.need else ""
    return replace(why, sentence=f"is next, Kueue has not evaluated it yet{fits}", category=Category.NOT_EVALUATED)


def _join_names(jobs: tuple[str, ...]) -> str:
    return jobs[-1] if len(jobs) == 1 else f"{jobs[-1]} and {len(jobs) - 1} more"


def _why_quota(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    """The explanation if quota is short; also if its pods can never be placed."""
    answer, wish = explain_quota(workload, fleet, message, why), topology_demand_of(workload)
    if wish is None:
        return answer
    never = eligible_nodes(fleet, wish.gpus, answer.flavor).why_never_fits(wish.pods, wish.label)
    more = f"it never fits: it {never}" if never else _other_flavor_lacks_places(workload, fleet, wish, answer)
    return replace(answer, sentence=f"{answer.sentence}; {more}") if more else answer


def _other_flavor_lacks_places(workload: Workload, fleet: Fleet, demand: TopologyDemand, answer: Why) -> str:
    """A clause on another flavor that has quota but no topology domain with room; empty if there is none."""
    queue = fleet.cluster_queue_of(workload)
    for flavor in gpu_flavors(queue):
        if queue is None or flavor == answer.flavor or answer.need > flavor_account(fleet, queue.name, flavor).free:
            continue
        if lacking := eligible_nodes(fleet, demand.gpus, flavor).shortage(demand.pods, demand.label):
            return f"flavor {flavor} has quota for it, but {lacking}"
    return ""


def _why_preempting(workload: Workload, fleet: Fleet, message: KueueMessage, why: Why) -> Why:
    preempted = (each for each in fleet.workloads.values() if is_condition_true(each.conditions, "Preempted"))
    leaving = [job_name(each) for each in preempted if workload.uid and workload.uid in _message(each, "Preempted")]
    whom = f"{' and '.join(sorted(leaving)[:2])} to leave" if leaving else "the jobs it preempts to leave"
    answer = explain_quota(workload, fleet, message, why)
    need = f"; {answer.sentence}" if answer.short_by else ""
    return replace(answer, sentence=f"waits for {whom}{need}", category=Category.PREEMPTING, unblocks=())
