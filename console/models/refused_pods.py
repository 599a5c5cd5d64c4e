"""Pods that the API server refuses to a Job: which, why in its own words, and what to do (pure).

The Job runs on without them and tries again ever more seldom; nothing but an event of it says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.models.explanation import Category, Why

if TYPE_CHECKING:
    from collections.abc import Iterable

    from console.models.event import Event
    from console.models.fleet import Fleet
    from console.models.job import JobSet

_REFUSED = {"FailedCreate", "JobCreationFailed"}
"""Reasons of events: of the Job controller about a pod, of the JobSet controller about a Job."""
_MADE = "SuccessfulCreate"
_NEXT = (
    (
        re.compile(r'serviceaccount "([^"]+)" not found'),
        "Make the ServiceAccount (kubectl create serviceaccount {0} -n {namespace}), or launch with one that is there",
    ),
    (
        re.compile(r"exceeded quota: ([^,]+),"),
        "Stop what uses ResourceQuota {0} of namespace {namespace}, launch with fewer GPUs, or have it made larger",
    ),
    (
        re.compile(r"failed quota: ([^:]+): must specify (.+?) for:"),
        "ResourceQuota {0} of namespace {namespace} wants every pod to say its {1}: set resources of the job",
    ),
    (
        re.compile(r'violates PodSecurity "([^"]+)"'),
        "Namespace {namespace} enforces Pod Security level {0}: launch without what it names, or in another namespace",
    ),
    (
        re.compile(r'admission webhook "([^"]+)" denied the request'),
        "A policy of the cluster ({0}) refuses it: change what it names, or ask who runs that webhook",
    ),
    (
        re.compile(r"ValidatingAdmissionPolicy '([^']+)'"),
        "A policy of the cluster ({0}) refuses it: change what it names, or ask who runs the cluster",
    ),
    (re.compile(r"no PriorityClass with name (\S+) was found"), "Launch with a priority class that is there, not {0}"),
    (
        re.compile(r"(?:maximum|minimum) \S+ usage per"),
        "A LimitRange of namespace {namespace} refuses it: ask for less",
    ),
)
"""What the API server says, and what to do next."""


def refused_pods(jobset: JobSet, fleet: Fleet) -> Why | None:
    """Why pods of a JobSet are refused; None if none is, as far as events tell."""
    uids = [jobset.uid, *(job.uid for job in fleet.jobs_by_jobset.get(jobset.uid, ()))]
    event = latest_refusal(event for uid in uids if uid for event in fleet.events_by_object.get(uid, ()))
    return why_refused(event, jobset.gpus) if event is not None else None


def latest_refusal(events: Iterable[Event]) -> Event | None:
    """The last of these that tells of a refusal, if that object got no pod since."""
    refused: dict[str, Event] = {}
    made: dict[str, float] = {}
    for event in events:
        if event.reason in _REFUSED:
            known = refused.get(event.object_uid)
            refused[event.object_uid] = event if known is None or event.last >= known.last else known
        elif event.reason == _MADE:
            made[event.object_uid] = max(event.last, made.get(event.object_uid, 0.0))
    lasting = [event for uid, event in refused.items() if event.last >= made.get(uid, 0.0)]
    return max(lasting, key=lambda each: each.last, default=None)


def why_refused(event: Event, need: int = 0) -> Why:
    """A refusal as an answer, with the API server's words."""
    said = event.message.removeprefix("Error creating: ").strip()
    short = re.sub(r'^pods "[^"]*" is forbidden: ', "", said).rstrip(".")
    return Why(
        f"its pods are refused: {short}", Category.REFUSED, api_text=said, need=need, next=_next(said, event.namespace)
    )


def _next(said: str, namespace: str) -> str:
    for pattern, words in _NEXT:
        if found := pattern.search(said):
            return words.format(*found.groups(), namespace=namespace)
    return "Change what it names, then launch again"
