"""Explains why a JobSet does not run: its Workload while waiting, its pods, or its first failure.

Pods may lack their image, or be refused by the API server: then the Job tries again ever more seldom, and only an event
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.kube.objects.jobset import JobSet, JobState
from console.kube.objects.pod import Container
from console.kube.snapshot import Fleet, WatchState
from console.scheduling.pod_failure import first_deletion
from console.scheduling.pod_slots import PodSlot, first_failure, pod_slots
from console.scheduling.why import Category, Why
from console.scheduling.why_workload import why_workload
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.kube.objects.event import Event
    from console.scheduling.expected_start import ExpectedStart


_IMAGE_NAME = lazy_pattern(r'image "([^"]+)"')
_POD_PROBLEMS = (
    (("not found", "manifest unknown", "manifest_unknown"), "the image {image} does not exist"),
    (
        ("403 forbidden", "401 unauthorized", "access denied", "failed to authorize", "permission_denied", "denied:"),
        "the nodes have no permission to pull {image}, or it does not exist",
    ),
    (("429 too many", "toomanyrequests"), "the registry of {image} limits requests (too many requests)"),
    (("no space left", "disk pressure"), "a node has no disk space for {image}"),
    (("no match for platform", "exec format"), "{image} is built for another CPU architecture"),
    (
        ("i/o timeout", "no such host", "connection refused", "deadline exceeded", "network is unreachable"),
        "the nodes cannot reach the registry of {image}",
    ),
    (("invalid reference", "couldn't parse image", "invalidimagename"), "{image} is not a valid image name"),
)
"""(parts of a message in lower case, problem in words), the first match counts."""


def why_no_image(reason: str, message: str) -> str:
    """The reason why an image cannot be pulled, without a full stop; the API's text if the reason is unknown."""
    found = _IMAGE_NAME.search(message)
    image = found[1] if found else "its image"
    text = message.lower()
    for signs, words in _POD_PROBLEMS:
        if any(sign in text for sign in signs):
            return words.format(image=image)
    if message.startswith("Back-off pulling"):
        return f"{image} could not be pulled"
    return message or reason


_REFUSAL_REASONS = {"FailedCreate", "JobCreationFailed"}
"""Reasons of events: a Job could not create a pod, a JobSet could not create a Job."""
_POD_CREATED = "SuccessfulCreate"
_LASTING_SECONDS = 30.0  # seconds of refusals after which they count as final: controllers try again
_NEXT_STEPS = (
    (
        lazy_pattern(r'serviceaccount "([^"]+)" not found'),
        "Create the ServiceAccount (kubectl create serviceaccount {0} -n {namespace}), or launch with an existing one",
    ),
    (
        lazy_pattern(r"exceeded quota: ([^,]+),"),
        "Stop what uses ResourceQuota {0} of namespace {namespace}, launch with fewer GPUs, or ask for a larger quota",
    ),
    (
        lazy_pattern(r"failed quota: ([^:]+): must specify (.+)"),
        "ResourceQuota {0} of namespace {namespace} counts what every pod has to name: launch with {settings}",
    ),
    (
        lazy_pattern(r'violates PodSecurity "([^"]+)"'),
        "Namespace {namespace} enforces Pod Security level {0}: launch without those settings, or in another namespace",
    ),
    (
        lazy_pattern(r'admission webhook "([^"]+)" denied the request'),
        "A policy of the cluster ({0}) refuses it: change what it names, or ask the owner of that webhook",
    ),
    (
        lazy_pattern(r"ValidatingAdmissionPolicy '([^']+)'"),
        "A policy of the cluster ({0}) refuses it: change what it names, or ask the cluster administrator",
    ),
    (
        lazy_pattern(r"no PriorityClass with name (\S+) was found"),
        "PriorityClass {0} does not exist: launch with an existing one",
    ),
    (
        lazy_pattern(r"(?:maximum|minimum) \S+ usage per"),
        "A LimitRange of namespace {namespace} refuses it: request less",
    ),
)
"""(pattern of the API server's message, next step), the first match counts."""


def refused_pods(jobset: JobSet, fleet: Fleet) -> Why | None:
    """The explanation if the API server refuses pods of the JobSet, from its events; None if it refuses none."""
    uids = [jobset.uid, *(job.uid for job in fleet.jobs_by_jobset.get(jobset.uid, ()))]
    event = latest_refusal(event for uid in uids if uid for event in fleet.events_by_object.get(uid, ()))
    return why_refused(event, fleet.at) if event is not None else None


def latest_refusal(events: Iterable[Event]) -> Event | None:
    """The latest of these events that reports a refused pod, unless a pod was created since; None if there is none."""
    refused: dict[str, Event] = {}
    made: dict[str, float] = {}
    for event in events:
        if event.reason in _REFUSAL_REASONS:
            known = refused.get(event.object_uid)
            refused[event.object_uid] = event if known is None or event.last >= known.last else known
        elif event.reason == _POD_CREATED:
            made[event.object_uid] = max(event.last, made.get(event.object_uid, 0.0))
    lasting = [event for uid, event in refused.items() if event.last >= made.get(uid, 0.0)]
    return max(lasting, key=lambda each: each.last, default=None)


def is_passing_denial(event: Event, now: float) -> bool:
    """Whether a webhook's denial may pass: it did not find the job yet, and has denied for a short time only."""
    is_unknown = "admission webhook" in event.message and "not found" in event.message
    return is_unknown and max(now, event.last) - event.first < _LASTING_SECONDS


def why_refused(event: Event, now: float) -> Why:
    """The explanation of a refusal by the API server; a refusal that may still pass counts as STARTING."""
    text = event.message.removeprefix("Error creating: ").strip()
    short = re.sub(r'^pods "[^"]*" is forbidden: ', "", text).rstrip(".")
    if is_passing_denial(event, now):
        return Why(f"the creation of its pods is tried again: {short}", Category.STARTING, api_text=text)
    if max(now, event.last) - event.first < _LASTING_SECONDS:
        words, category, otherwise = "its pods were refused and are tried again", Category.STARTING, ""
    else:
        words, category, otherwise = "its pods are refused", Category.REFUSED, "Change what it names, then launch again"
    return Why(f"{words}: {short}", category, api_text=text, next=_next_step(text, event.namespace) or otherwise)


def _next_step(message: str, namespace: str) -> str:
    for pattern, words in _NEXT_STEPS:
        if found := pattern.search(message):
            return words.format(*found.groups(), namespace=namespace, settings=_settings_for_quota(message))
    return ""


def _settings_for_quota(message: str) -> str:
    """--set options for the requests that a ResourceQuota misses, by its message: "requests.cpu for: main"."""
    named = re.findall(r"([\w.-]+) for: ", message)
    return ", ".join(f"--set {each if '.' in each else f'requests.{each}'}=AMOUNT" for each in named)


_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_SETUP_REASONS = {"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady"}
"""Reasons of the kubelet's events about a pod that cannot be set up."""
_STARTING_REASONS = {"", "ContainerCreating", "PodInitializing"}
_POD_CATEGORIES = {Category.RUNNING, Category.PODS_NOT_READY, Category.FINISHED}
"""Categories of a Workload that do not explain why its pods do not run."""


def why_job(jobset: JobSet, fleet: Fleet, expected_start: ExpectedStart | None = None) -> Why:
    """The reason why a job does not run, with its workload's `expected_start` if known."""
    state = jobset.state
    if state is JobState.STOPPING:
        return Why("is being stopped", Category.STOPPING, need=jobset.gpus)
    if state is JobState.SUCCEEDED:
        return Why("", Category.FINISHED, need=jobset.gpus)
    if state is JobState.FAILED:
        return replace(_why_failed(jobset, fleet), need=jobset.gpus)
    workload = fleet.workload_of(jobset)
    waits = why_workload(workload, fleet, expected_start) if workload else None
    if waits and waits.category not in _POD_CATEGORIES:
        return waits
    return replace(_why_suspended(jobset, fleet) if jobset.suspended else _pods_wait(jobset, fleet), need=jobset.gpus)


def _why_failed(jobset: JobSet, fleet: Fleet) -> Why:
    first = first_failure(jobset, fleet)
    after = f" after {_count_text(jobset.restarts, 'restart')}" if jobset.restarts else ""
    failure = jobset.failure
    deleted = first_deletion(jobset, fleet)
    ended = first.ended.finished_at if first and first.ended else float("inf")  # in whole seconds
    if deleted is not None and deleted.attempt == jobset.restarts and ended >= deleted.time:
        words = f"failed{after}: pod {deleted.rank} was deleted"
    else:
        words = f"failed{after}: {_why_ending(first)}" if first else f"failed{after}{f': {failure}' if failure else ''}"
    return Why(words, Category.FAILED, api_text=failure)


def _why_suspended(jobset: JobSet, fleet: Fleet) -> Why:
    link = fleet.links.get("workloads")
    if not jobset.queue:
        return Why("is suspended and has no queue, so no controller starts it", Category.NO_QUEUE)
    if fleet.workload_of(jobset):
        return Why("is admitted and about to start", Category.STARTING)
    state, text = (link.state, link.why) if link else (WatchState.LIVE, "")
    ending, category = {
        WatchState.ABSENT: (", but this cluster has no Kueue to start it", Category.NO_QUEUE),
        WatchState.FORBIDDEN: ("; what for is not known: no permission to list workloads", Category.NOT_ALLOWED),
        WatchState.LISTING: ("; what for is not known: workloads are not listed yet", Category.NOT_EVALUATED),
    }.get(state, ("; Kueue has not created its Workload yet", Category.NOT_EVALUATED))
    return Why(f"waits for queue {jobset.queue}{ending}", category, api_text=text)


class _PodTrouble(Struct, frozen=True):
    """One kind of problem that keeps ranks from running; `_POD_TROUBLES` has the most telling first."""

    category: Category
    describe: Callable[[PodSlot, Fleet], str]  # its particulars in words, empty if the rank has no such trouble
    plural_words: str = ""  # what it is for several ranks; empty where the particulars are a sentence of their own


def _blocking_container(slot: PodSlot) -> Container | None:
    """The container that blocks the pod: the first that waits for something else than its turn; None if none does."""
    waiting = [each for each in slot.pod.containers if each.state == "waiting"] if slot.pod else []
    return next((each for each in waiting if each.reason not in _STARTING_REASONS), None)


def _why_image(slot: PodSlot, fleet: Fleet) -> str:
    waiting = _blocking_container(slot)
    return why_no_image(waiting.reason, waiting.message) if waiting and waiting.reason in _IMAGE_REASONS else ""


def _why_crashing(slot: PodSlot, fleet: Fleet) -> str:
    if slot.failed:
        return _why_ending(slot)
    waiting = _blocking_container(slot)
    if waiting is None or not waiting.last_exit_code:
        return ""
    why_ended = f" ({waiting.last_reason})" if waiting.last_reason not in {"", "Error"} else ""
    return (
        f"pod {slot.number} keeps ending with exit code {waiting.last_exit_code}{why_ended}{_on_node_text(slot.node)}"
    )


def _describe_waiting_pod(slot: PodSlot, fleet: Fleet) -> str:
    waiting = _blocking_container(slot)
    return f"{waiting.reason}{f': {waiting.message}' if waiting.message else ''}" if waiting else ""


def _not_set_up(slot: PodSlot, fleet: Fleet) -> str:
    """The problem, by its last event, that keeps the kubelet from starting a container; empty if there is none."""
    events = fleet.events_by_object.get(slot.pod.uid, ()) if slot.pod and slot.phase == "Pending" else ()
    last = max(events, key=lambda each: each.last, default=None)
    return f"{last.reason}: {last.message}" if last is not None and last.reason in _SETUP_REASONS else ""


def _describe_unready_pod(slot: PodSlot, fleet: Fleet) -> str:
    if slot.pod is None or slot.ready or slot.phase == "Succeeded":
        return ""
    running = slot.phase == "Running" and all(each.state == "running" for each in slot.pod.containers if not each.init)
    return "running, not ready yet" if running else slot.status


_POD_TROUBLES = (
    _PodTrouble(Category.RESTARTING, _why_crashing),
    _PodTrouble(Category.IMAGE, _why_image, "cannot get their image"),
    _PodTrouble(Category.STARTING, _describe_waiting_pod, "cannot start"),
    _PodTrouble(Category.STARTING, _not_set_up, "cannot start"),
    _PodTrouble(
        Category.UNSCHEDULABLE,
        lambda rank, _: rank.pod.unschedulable if rank.pod and not rank.pod.gated else "",
        "cannot be scheduled",
    ),
    _PodTrouble(
        Category.GATED,
        lambda rank, _: ", ".join(rank.pod.gated) if rank.pod else "",
        "are held back by a scheduling gate",
    ),
    _PodTrouble(Category.STARTING, _describe_unready_pod, "are starting"),
)
_POD_ABSENT = _PodTrouble(Category.STARTING, lambda *_: "not created yet", "are pending")


def _pods_wait(jobset: JobSet, fleet: Fleet) -> Why:
    found = pod_slots(jobset, fleet)
    there, absent = [rank for rank in found if rank.pod], [rank for rank in found if not rank.pod]
    if absent and (refused := refused_pods(jobset, fleet)) is not None:
        return refused
    for trouble, some in (*((each, there) for each in _POD_TROUBLES), (_POD_ABSENT, absent)):
        hit = [(rank, words) for rank in some if (words := trouble.describe(rank, fleet))]
        if hit:
            return _explain_trouble(jobset, trouble, hit, len(found))
    return Why("", Category.RUNNING)


def _explain_trouble(jobset: JobSet, reason: _PodTrouble, hit: Sequence[tuple[PodSlot, str]], total: int) -> Why:
    rank, text = min(hit, key=lambda each: each[0].ended.finished_at if each[0].ended else 0.0)
    category, again = reason.category, ""
    if jobset.restarts or category is Category.RESTARTING:
        category = Category.RESTARTING if category is Category.STARTING else category
        again = f"; restart {jobset.restarts} of {jobset.max_restarts}" if jobset.restarts else ""
    verb = reason.plural_words if len(hit) > 1 else reason.plural_words.replace("are ", "is ").replace("their", "its")
    words = f"{len(hit)} of {_count_text(total, 'pod')} {verb}: {text}" if verb else text
    pod = rank.pod
    message = next((each.message for each in pod.containers if each.message), "") if pod else ""
    return Why(f"{words}{again}", category, api_text=(pod.message or pod.unschedulable or message) if pod else "")


def _why_ending(slot: PodSlot) -> str:
    ended, pod = slot.ended, slot.pod
    if ended and ended.exit_code:
        reason = f" ({ended.reason})" if ended.reason not in {"", "Error"} else ""
        return f"pod {slot.number} ended first with exit code {ended.exit_code}{reason}{_on_node_text(slot.node)}"
    reason = (pod.reason or pod.message or "no reason given") if pod else "no reason given"
    return f"pod {slot.number} failed first ({reason}){_on_node_text(slot.node)}"


def _on_node_text(node: str) -> str:
    return f" on {node}" if node else ""


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
