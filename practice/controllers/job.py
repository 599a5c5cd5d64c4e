"""The Job controller: creates and counts pods, and decides when a Job is complete or failed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import suppress

from practice.clock import format_timestamp, parse_timestamp
from practice.controllers.base import Controller, ControlPlane
from practice.controllers.job_failure import matching_failure
from practice.controllers.job_pods import (
    TRACKING,
    JobPods,
    build_pod,
    counts_only_failed,
    finished_at,
    format_indexes,
    index_of,
    is_ready,
    missing_indexes,
    parse_indexes,
    restart_counts,
    wait_after_failure,
)
from practice.controllers.objects import (
    Key,
    Object,
    controlled_by,
    drop_finalizer,
    find_condition,
    is_being_deleted,
    is_true,
    key_of,
    owner_keys,
    set_condition,
)
from practice.objects.api_error import ApiError
from practice.objects.resources import JOBS, PODS, Resource

_RETRY_SECONDS, _RETRY_MOST = 1.0, 60.0


class JobController(Controller):
    """Ports the Job controller of Kubernetes 1.36: Indexed and not, suspend, backoff limit, failure policy, TTL."""

    source = "job-controller"

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._refused: dict[Key, tuple[float, float]] = {}
        """(last delay in seconds, time of the next try) of each Job whose pod was refused."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {JOBS: lambda obj: [key_of(obj)], PODS: lambda obj: owner_keys(obj, JOBS)}

    def reconcile(self, key: Key) -> None:
        job = self.storage.find(JOBS, *key)
        if job is None:
            self._refused.pop(key, None)
            self._untrack_orphans(key)
            return
        pods = controlled_by(self.storage.list(PODS, key[0]), job)
        if is_true(job, "Complete") or is_true(job, "Failed"):
            self._untrack_pods(pods)
            self.delete_when_expired(JOBS, job)
            return
        draft = copy.deepcopy(job)
        draft.setdefault("status", {})
        counted = _count_ended_pods(draft, JobPods.group_by_state(draft, pods))
        self._update_job(draft, JobPods.group_by_state(draft, pods))
        if draft["status"] != job.get("status"):
            self.storage.update(JOBS, draft, subresource="status")
        self._untrack_pods(counted)
        self._record_changes(draft, job)

    def _update_job(self, job: Object, pods: JobPods) -> None:
        """Create and delete pods of a Job, and write the status that results."""
        spec, status = job["spec"], job["status"]
        if not status.get("startTime") and not spec.get("suspend"):
            status["startTime"] = format_timestamp(self.clock.now())
        active = len(pods.active)
        if not (find_condition(job, "FailureTarget") or find_condition(job, "SuccessCriteriaMet")):
            self._set_verdict_conditions(job, pods)
        if find_condition(job, "FailureTarget") or find_condition(job, "SuccessCriteriaMet"):
            for pod in pods.active:
                self._delete_pod(job, pod)
            gone, pods.ready = active, 0
            active = 0
        elif spec.get("suspend"):
            gone = self._delete_pods(job, pods.active)
            active, pods.ready = 0, 0
            self._set_suspended_condition(job, suspended=True)
        else:
            gone, active = self._scale_pods(job, pods)
            self._set_suspended_condition(job, suspended=False)
        terminating = pods.terminating + gone
        status.update(active=active, ready=pods.ready, terminating=terminating)
        status["uncountedTerminatedPods"] = {}
        for name in ("active", "failed", "succeeded"):
            if not status.get(name):
                status.pop(name, None)
        self._finish_job(job, active + terminating)

    def _set_verdict_conditions(self, job: Object, pods: JobPods) -> None:
        """Set FailureTarget or SuccessCriteriaMet when the conditions for it are met."""
        spec, status, now = job["spec"], job["status"], self.clock.now()
        limit = spec.get("backoffLimit", 6)
        on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
        restarted = restart_counts(pods.active) if on_failure else 0
        text = matching_failure(spec.get("podFailurePolicy"), pods.failed)
        if text:
            self._set_condition(job, "FailureTarget", "PodFailurePolicy", text)
        elif status.get("failed", 0) > limit or (restarted > 0 and restarted >= limit):
            self._set_condition(
                job, "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            )
        elif spec.get("activeDeadlineSeconds") is not None and not spec.get("suspend"):
            left = parse_timestamp(status["startTime"]) + spec["activeDeadlineSeconds"] - now
            if left > 0:
                self.requeue(key_of(job), left)
            else:
                text = "Job was active longer than specified deadline"
                self._set_condition(job, "FailureTarget", "DeadlineExceeded", text)
        completions = spec.get("completions")
        succeeded = status.get("succeeded", 0)
        done = succeeded >= completions if completions is not None else succeeded > 0
        if done and not pods.active and not find_condition(job, "FailureTarget"):
            text = "Reached expected number of succeeded pods"
            self._set_condition(job, "SuccessCriteriaMet", "CompletionsReached", text)

    def _scale_pods(self, job: Object, pods: JobPods) -> tuple[int, int]:
        """Create missing pods or delete surplus ones; return how many are deleted and how many are active."""
        spec, status = job["spec"], job["status"]
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        surplus = len(pods.active) - max(wanted, 0)
        if surplus > 0:
            extra = sorted(pods.active, key=index_of)[-surplus:]
            pods.ready -= sum(is_ready(pod) for pod in extra)
            return self._delete_pods(job, extra), len(pods.active) - surplus
        missing = -surplus
        if counts_only_failed(job):
            missing -= pods.terminating
        wait = wait_after_failure(*self._count_failures(job), self.clock.now()) if missing > 0 else 0.0
        if wait > 0:
            self.requeue(key_of(job), wait)
        if wait > 0 or missing <= 0 or is_being_deleted(job):
            return 0, len(pods.active)
        indexes: list[int | None] = [None] * missing
        if spec.get("completionMode") == "Indexed":
            done = parse_indexes(status.get("completedIndexes", ""))
            indexes = [*missing_indexes(job, pods, done)[:missing]]
        return 0, len(pods.active) + self._create_pods(job, indexes)

    def _create_pods(self, job: Object, indexes: list[int | None]) -> int:
        """Create pods of a Job and return their number; after a refusal retry with growing delays."""
        key = key_of(job)
        left = self._refused.get(key, (0.0, 0.0))[1] - self.clock.now()
        if left > 0:
            self.requeue(key, left)
            return 0
        for made, index in enumerate(indexes):
            try:
                pod = self.storage.create(PODS, build_pod(job, index))
            except ApiError as error:
                text = f"Error creating: {error.message}"
                self.record_event(job, "FailedCreate", text, "Warning")
                pause = min(2 * self._refused.get(key, (_RETRY_SECONDS / 2, 0.0))[0], _RETRY_MOST)
                self._refused[key] = pause, self.clock.now() + pause
                self.requeue(key, pause)
                return made
            self.record_event(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")
        self._refused.pop(key, None)
        return len(indexes)

    def _count_failures(self, job: Object) -> tuple[int, float]:
        """Return the failures in a row since the last success, and the time of the last one."""
        pods = controlled_by(self.storage.list(PODS, job["metadata"]["namespace"]), job)
        ended = sorted((finished_at(pod), pod["status"]["phase"]) for pod in pods if finished_at(pod))
        row = 0
        for _, phase in reversed(ended):
            if phase == "Succeeded":
                break
            row += 1
        return row, ended[-1][0] if ended else 0.0

    def _delete_pods(self, job: Object, pods: list[Object]) -> int:
        """Delete pods without counting them as failures."""
        for pod in pods:
            self._untrack_pods([pod])
            self._delete_pod(job, pod)
        return len(pods)

    def _delete_pod(self, job: Object, pod: Object) -> None:
        with suppress(ApiError):  # gone already
            self.storage.delete(PODS, *key_of(pod))
            self.record_event(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _set_suspended_condition(self, job: Object, *, suspended: bool) -> None:
        found = find_condition(job, "Suspended")
        if (found is not None and found["status"] == ("True" if suspended else "False")) or (
            found is None and not suspended
        ):
            return
        reason = "JobSuspended" if suspended else "JobResumed"
        self._set_condition(job, "Suspended", reason, "Job suspended" if suspended else "Job resumed", status=suspended)
        if suspended:
            job["status"].pop("startTime", None)
        else:
            job["status"]["startTime"] = format_timestamp(self.clock.now())

    def _finish_job(self, job: Object, nodes_left: int) -> None:
        """Set Complete or Failed once no pod of the Job is left."""
        if nodes_left:
            return
        for target, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            found = find_condition(job, target)
            if found is not None and find_condition(job, final) is None:
                self._set_condition(job, final, found["reason"], found["message"])
                if final == "Complete":
                    job["status"]["completionTime"] = format_timestamp(self.clock.now())

    def _set_condition(self, job: Object, kind: str, reason: str, message: str, *, status: bool = True) -> None:
        set_condition(job, kind, status, reason, message, self.clock.now())
        (find_condition(job, kind) or {})["lastProbeTime"] = format_timestamp(self.clock.now())

    def _record_changes(self, new: Object, old: Object) -> None:
        before, after = find_condition(old, "Suspended"), find_condition(new, "Suspended")
        if after is not None and (before is None or before["status"] != after["status"]):
            self.record_event(new, "Suspended" if after["status"] == "True" else "Resumed", after["message"])
        if is_true(new, "Complete"):
            self.record_event(new, "Completed", "Job completed")
        failure = find_condition(new, "Failed")
        if failure is not None:
            self.record_event(new, failure["reason"], failure["message"], "Warning")

    def _untrack_pods(self, pods: list[Object]) -> None:
        """Remove the tracking finalizer from counted pods."""
        for pod in pods:
            if TRACKING in (pod["metadata"].get("finalizers") or ()):
                self.storage.modify(PODS, *key_of(pod), lambda obj: drop_finalizer(obj, TRACKING))

    def _untrack_orphans(self, key: Key) -> None:
        for pod in self.storage.list(PODS, key[0]):
            if key in owner_keys(pod, JOBS) and self.storage.find(JOBS, *key) is None:
                self._untrack_pods([pod])


def _count_ended_pods(job: Object, pods: JobPods) -> list[Object]:
    """Add newly ended pods to the counters of a draft, and return them."""
    status = job["status"]
    if job["spec"].get("completionMode") == "Indexed":
        done = parse_indexes(status.get("completedIndexes", "")) | {index_of(pod) for pod in pods.succeeded}
        if done:
            status["completedIndexes"] = format_indexes(done)
        status["succeeded"] = len(done)
    else:
        status["succeeded"] = status.get("succeeded", 0) + len(pods.succeeded)
    status["failed"] = status.get("failed", 0) + len(pods.failed)
    return [*pods.succeeded, *pods.failed]
