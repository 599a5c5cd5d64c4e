"""The pods of a Job: their template, missing indexes, and how finished ones count."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from practice.clock import parse_timestamp
from practice.controllers.objects import Object, annotations_of, is_being_deleted, owner_reference

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_LONGEST_STEM = 58
_BACKOFF_SECONDS = 10.0
_MAX_BACKOFF_SECONDS = 600.0


@dataclass
class JobPods:
    """The pods of one Job, grouped by state as its counters count them."""

    active: list[Object] = field(default_factory=list)
    succeeded: list[Object] = field(default_factory=list)  # finished well and not yet counted
    failed: list[Object] = field(default_factory=list)
    """Failed pods not yet counted, with pods deleted before they finished unless the Job waits for their end."""
    terminating: int = 0
    ready: int = 0

    @classmethod
    def group_by_state(cls, job: Object, pods: list[Object]) -> JobPods:
        found = cls()
        waits = counts_only_failed(job)
        for pod in pods:
            phase = pod.get("status", {}).get("phase", "Pending")
            tracked = TRACKING in (pod["metadata"].get("finalizers") or ())
            if phase == "Succeeded":
                if tracked:
                    found.succeeded.append(pod)
            elif phase == "Failed" or is_being_deleted(pod):
                if tracked and not (waits and phase != "Failed"):
                    found.failed.append(pod)
                if phase != "Failed":
                    found.terminating += 1
            else:
                found.active.append(pod)
                found.ready += is_ready(pod)
        return found


def counts_only_failed(job: Object) -> bool:
    """Whether a deleted pod is counted and replaced only after its containers have ended."""
    spec = job["spec"]
    return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy"))


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def index_of(pod: Object) -> int:
    """Return the completion index of a pod, -1 when it has none."""
    return int(annotations_of(pod).get(INDEX, "-1"))


def build_pod(job: Object, index: int | None) -> Object:
    """Return one pod of a Job, not yet stored; ``index`` for Jobs of Indexed completion."""
    template = copy.deepcopy(job["spec"]["template"])
    given = template.get("metadata") or {}
    meta: Object = {
        "namespace": job["metadata"]["namespace"],
        "generateName": f"{job['metadata']['name']}-",
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "finalizers": [*(given.get("finalizers") or ()), TRACKING],
        "ownerReferences": [owner_reference(job)],
    }
    if index is not None:
        ending = f"-{index}-"
        stem = f"{job['metadata']['name']}{ending}"
        if len(stem) > _LONGEST_STEM:
            stem = stem[: _LONGEST_STEM - len(ending)] + ending
        meta["generateName"] = stem
        meta["labels"][INDEX] = meta["annotations"][INDEX] = str(index)
        template["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
        for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
            _add_index_variable(container)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in meta.items() if value},
        "spec": template["spec"],
    }


def missing_indexes(job: Object, pods: JobPods, done_indexes: set[int]) -> list[int]:
    """Return the completion indexes that have no pod and are not done, lowest first."""
    busy = {index_of(pod) for pod in pods.active}
    total = job["spec"].get("completions", 1)
    return [index for index in range(total) if index not in busy and index not in done_indexes]


def parse_indexes(text: str) -> set[int]:
    """Return the numbers of ``"0-3,5"``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def format_indexes(numbers: set[int]) -> str:
    """Return numbers as the API writes them: ``"0-3,5"`` (two in a row stay apart by a comma)."""
    parts: list[str] = []
    ordered = sorted(numbers)
    while ordered:
        run = 1
        while run < len(ordered) and ordered[run] == ordered[0] + run:
            run += 1
        last = ordered[run - 1]
        parts.append(str(ordered[0]) if run == 1 else f"{ordered[0]}{',' if run == 2 else '-'}{last}")
        ordered = ordered[run:]
    return ",".join(parts)


def restart_counts(pods: list[Object]) -> int:
    """Return the number of in-place restarts of these pods' containers."""
    statuses = [status for pod in pods for status in pod.get("status", {}).get("containerStatuses") or ()]
    return sum(status.get("restartCount", 0) for status in statuses)


def wait_after_failure(failure_count: int, last_failure_at: float, now: float) -> float:
    """Return the seconds until a Job may create a pod again after ``failure_count`` in a row."""
    if not failure_count:
        return 0.0
    return float(last_failure_at + min(_BACKOFF_SECONDS * 2 ** (failure_count - 1), _MAX_BACKOFF_SECONDS) - now)


def finished_at(pod: Object) -> float:
    """Return when the last container of a pod ended, in epoch seconds; else when it was deleted, else 0."""
    moments = [
        status["state"]["terminated"]["finishedAt"]
        for status in pod.get("status", {}).get("containerStatuses") or ()
        if status.get("state", {}).get("terminated", {}).get("finishedAt")
    ]
    stopped = pod["metadata"].get("deletionTimestamp")
    return max((parse_timestamp(moment) for moment in moments), default=parse_timestamp(stopped) if stopped else 0.0)


def _add_index_variable(container: Object) -> None:
    env = container.setdefault("env", [])
    if all(variable["name"] != "JOB_COMPLETION_INDEX" for variable in env):
        path = f"metadata.labels['{INDEX}']"
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
        env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
