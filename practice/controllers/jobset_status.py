"""The status of a JobSet during one reconciliation: conditions, counts and events."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from practice.clock import format_timestamp
from practice.controllers.jobset_children import REPLICATED_JOB, RESTARTS, restart_count
from practice.controllers.objects import Object, is_true, labels_of

_EXCLUSIVE = {
    ("StartupPolicyInProgress", "StartupPolicyCompleted"),
    ("StartupPolicyCompleted", "StartupPolicyInProgress"),
}


@dataclass
class ChildJobs:
    """The Jobs of a JobSet, grouped by attempt and outcome for its policies."""

    active: list[Object] = field(default_factory=list)
    successful: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)
    previous: list[Object] = field(default_factory=list)

    @classmethod
    def group_by_state(cls, jobset: Object, jobs: list[Object]) -> ChildJobs:
        """The Jobs of a JobSet, grouped by attempt and outcome."""
        found = cls()
        for job in jobs:
            if int(labels_of(job).get(RESTARTS, "0")) < restart_count(jobset):
                found.previous.append(job)
            elif is_true(job, "Failed"):
                found.failed.append(job)
            elif is_true(job, "Complete"):
                found.successful.append(job)
            else:
                found.active.append(job)
        return found

    def names(self) -> set[str]:
        every = (*self.active, *self.successful, *self.failed, *self.previous)
        return {job["metadata"]["name"] for job in every}


class StatusDraft:
    """A JobSet whose status is being changed; it is stored once, and then its events are recorded."""

    def __init__(self, jobset: Object, now: float) -> None:
        self.jobset = {**jobset, "status": copy.deepcopy(jobset.get("status", {}))}
        self.status: Object = self.jobset["status"]
        self.events: list[tuple[str, str, str]] = []  # (type, reason, message)
        self.changed = False
        self._now = now

    def set_condition(self, kind: str, status: bool, reason: str, message: str, *, event: str = "Normal") -> None:
        """Set a condition as JobSet does: False ones are not added, a True one resets its opposite."""
        conditions = self.status.setdefault("conditions", [])
        word = "True" if status else "False"
        new = {
            "type": kind,
            "status": word,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_timestamp(self._now),
        }
        found = changed = False
        for index, old in enumerate(conditions):
            if old["type"] == kind:
                found = True
                if old["status"] == word:
                    new["lastTransitionTime"] = old["lastTransitionTime"]
                if old != new:
                    conditions[index] = new
                    changed = True
            elif (old["type"], kind) in _EXCLUSIVE and old["status"] == "True" and status:
                old["status"] = "False"
                changed = True
        if not found and status:
            conditions.append(new)
            changed = True
        if changed:
            self.changed = True
            self.events.append((event, reason, message))

    def count_replicated_jobs(self, jobs: ChildJobs) -> list[Object]:
        """Write replicatedJobsStatus from the existing Jobs, and return it."""
        rows = {
            job["name"]: {"name": job["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
            for job in self.jobset["spec"]["replicatedJobs"]
        }
        for job in jobs.active:
            row = rows.get(labels_of(job).get(REPLICATED_JOB, ""))
            if row is not None:
                _count_active(row, job)
        for job in jobs.successful:
            rows[labels_of(job)[REPLICATED_JOB]]["succeeded"] += 1
        for job in jobs.failed:
            rows[labels_of(job)[REPLICATED_JOB]]["failed"] += 1
        counted = sorted(rows.values(), key=lambda row: row["name"], reverse=True)
        if self.status.get("replicatedJobsStatus") != counted:
            self.status.setdefault("restarts", 0)
            self.status["replicatedJobsStatus"] = counted
            self.changed = True
        return counted

    def finish(self, kind: str, reason: str, message: str) -> None:
        """Set the JobSet Completed or Failed."""
        failed = kind == "Failed"
        self.set_condition(kind, True, reason, message, event="Warning" if failed else "Normal")
        if failed:
            self.set_condition("RestartingJobSet", False, "JobSetFailed", "jobset failed")
        else:
            self.set_condition("RestartingJobSet", False, "JobSetCompleted", message)
        self.status["terminalState"] = kind
        self.changed = True


def _count_active(row: Object, job: Object) -> None:
    spec, status = job["spec"], job.get("status", {})
    pods = spec.get("parallelism", 1)
    pods = min(pods, spec.get("completions") or pods)
    if status.get("succeeded", 0) + status.get("ready", 0) >= pods:
        row["ready"] += 1
    if status.get("active", 0) > 0:
        row["active"] += 1
    if spec.get("suspend"):
        row["suspended"] += 1
