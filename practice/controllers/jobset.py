"""The JobSet controller: creates Jobs, restarts by the failure policy, and decides on completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from practice.controllers.base import Controller
from practice.controllers.jobset_children import (
    REPLICATED_JOB,
    build_job,
    build_service,
    job_name,
    restart_count,
    service_name,
)
from practice.controllers.jobset_status import ChildJobs, StatusDraft
from practice.controllers.objects import (
    Key,
    Object,
    controlled_by,
    find_condition,
    is_being_deleted,
    is_true,
    key_of,
    labels_of,
    owner_keys,
)
from practice.objects.api_error import ApiError
from practice.objects.resources import JOBS, JOBSETS, SERVICES, Resource


class JobSetController(Controller):
    """Ports jobset v0.12, with the same order of steps and the same messages."""

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {
            JOBSETS: lambda obj: [key_of(obj)],
            JOBS: lambda obj: owner_keys(obj, JOBSETS),
            SERVICES: lambda obj: owner_keys(obj, JOBSETS),
        }

    def reconcile(self, key: Key) -> None:
        jobset = self.storage.find(JOBSETS, *key)
        if jobset is None or is_being_deleted(jobset):
            return
        if (
            jobset["spec"].get("managedBy", "jobset.sigs.k8s.io/jobset-controller")
            != "jobset.sigs.k8s.io/jobset-controller"
        ):
            return
        draft = StatusDraft(jobset, self.clock.now())
        self._update_jobset(draft)
        if not draft.changed:
            return
        self.storage.update(JOBSETS, draft.jobset, subresource="status")
        for kind, reason, message in draft.events:
            self.record(jobset, kind, reason, message, source="jobset", action="Reconciling")

    def _update_jobset(self, draft: StatusDraft) -> None:
        jobset = draft.jobset
        jobs = ChildJobs.group_by_state(
            jobset, controlled_by(self.storage.list(JOBS, jobset["metadata"]["namespace"]), jobset)
        )
        counts = draft.count_replicated_jobs(jobs)
        if is_true(jobset, "Completed") or is_true(jobset, "Failed"):
            self._delete_jobs(jobs.active)
            self.delete_when_expired(JOBSETS, jobset, "Foreground")
            return
        self._delete_jobs(jobs.previous)
        suspended = bool(jobset["spec"].get("suspend"))
        total = sum(job.get("replicas", 1) for job in jobset["spec"]["replicatedJobs"])
        if not suspended and total == sum(row["ready"] + row["succeeded"] for row in counts):
            draft.set_condition("RestartingJobSet", False, "JobsReady", "all jobs are ready")
        if jobs.failed:
            apply_failure_policy(draft, jobs.failed)
            return
        if jobs.successful and _success_policy_met(jobset, jobs.successful):
            draft.finish("Completed", "AllJobsCompleted", "jobset completed successfully")
            return
        self._create_service(jobset)
        self._create_jobs(draft, jobs, counts)
        if suspended:
            self._suspend_jobs(draft, jobs.active)
        else:
            self._resume_jobs(draft, jobs.active, counts)

    def _delete_jobs(self, jobs: list[Object]) -> None:
        for job in jobs:
            if not is_being_deleted(job):
                self.storage.delete(JOBS, *key_of(job), propagation="Foreground")

    def _create_service(self, jobset: Object) -> None:
        if not jobset["spec"].get("network", {}).get("enableDNSHostnames", True):
            return
        if self.storage.find(SERVICES, jobset["metadata"]["namespace"], service_name(jobset)) is None:
            self.storage.create(SERVICES, build_service(jobset))

    def _create_jobs(self, draft: StatusDraft, jobs: ChildJobs, replicated_statuses: list[Object]) -> None:
        jobset, spec = draft.jobset, draft.jobset["spec"]
        in_order = _starts_in_order(jobset) and not spec.get("suspend")
        policy = (spec.get("failurePolicy") or {}).get("restartStrategy")
        waits = policy == "BlockingRecreate" and bool(jobs.previous)
        taken = jobs.names()
        for replicated in spec["replicatedJobs"]:
            if not _can_start_next(jobset, replicated, replicated_statuses):
                continue
            if in_order and _has_started(replicated, replicated_statuses):
                continue
            for index in range(0 if waits else replicated.get("replicas", 1)):
                if job_name(jobset, replicated, index) not in taken:
                    self._create_job(jobset, build_job(jobset, replicated, index))
            if in_order:
                _set_startup_in_progress(draft)
                return
        if in_order:
            text = "in order startup policy has completed"
            draft.set_condition("StartupPolicyCompleted", True, "InOrderStartupPolicyCompleted", text)

    def _create_job(self, jobset: Object, job: Object) -> None:
        try:
            self.storage.create(JOBS, job)
        except ApiError as error:
            text = f'job "{job["metadata"]["name"]}" creation failed with error: {error.message}'
            self.record(jobset, "Warning", "JobCreationFailed", text, source="jobset", action="Reconciling")
            raise

    def _suspend_jobs(self, draft: StatusDraft, active_jobs: list[Object]) -> None:
        for job in active_jobs:
            if not job["spec"].get("suspend"):
                self.storage.modify(JOBS, *key_of(job), lambda obj: obj["spec"].update(suspend=True))
        draft.set_condition("Suspended", True, "SuspendedJobs", "jobset is suspended")
        draft.set_condition("RestartingJobSet", False, "JobSetSuspended", "jobset is suspended")

    def _resume_jobs(self, draft: StatusDraft, active_jobs: list[Object], replicated_statuses: list[Object]) -> None:
        jobset = draft.jobset
        for replicated in jobset["spec"]["replicatedJobs"]:
            if not _can_start_next(jobset, replicated, replicated_statuses):
                continue
            if _starts_in_order(jobset) and _has_started(replicated, replicated_statuses):
                continue
            for job in active_jobs:
                if labels_of(job).get(REPLICATED_JOB) == replicated["name"] and job["spec"].get("suspend"):
                    self._resume_job(job, replicated["template"]["spec"]["template"])
            if _starts_in_order(jobset):
                _set_startup_in_progress(draft)
                return
        draft.set_condition("Suspended", False, "ResumeJobs", "jobset is resumed")

    def _resume_job(self, job: Object, template: Object) -> None:
        if job.get("status", {}).get("startTime"):
            self.storage.modify_status(JOBS, *key_of(job), lambda obj: obj["status"].pop("startTime"))

        def resume(obj: Object) -> None:
            obj["spec"]["suspend"] = False
            merge_template(obj["spec"]["template"], template)

        self.storage.modify(JOBS, *key_of(job), resume)


def merge_template(into: Object, template: Object) -> None:
    """Copy the fields that may change while suspended (set by Kueue) to a Job's pod template."""
    meta = into.setdefault("metadata", {})
    for name in ("labels", "annotations"):
        meta[name] = {**(meta.get(name) or {}), **(template.get("metadata", {}).get(name) or {})}
    spec = into["spec"]
    if template["spec"].get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **template["spec"]["nodeSelector"]}
    for name in ("tolerations", "schedulingGates"):
        more = [item for item in template["spec"].get(name) or () if item not in (spec.get(name) or ())]
        if more:
            spec[name] = [*(spec.get(name) or ()), *more]


def apply_failure_policy(draft: StatusDraft, failed_jobs: list[Object]) -> None:
    """Fail or restart the JobSet by its failure policy for the first failed Job."""
    policy = draft.jobset["spec"].get("failurePolicy")
    if policy is None:
        first = _first_failed(failed_jobs)
        draft.finish("Failed", "FailedJobs", _with_failed_job("jobset failed due to one or more job failures", first))
        return
    rule, job = _matching_rule(policy.get("rules") or (), failed_jobs)
    action = rule["action"] if rule else "RestartJobSet"
    counted = draft.status.get("restartsCountTowardsMax", 0)
    if action == "FailJobSet":
        text = _with_failed_job("applying FailJobSet failure policy action", job)
        draft.finish("Failed", "FailJobSetFailurePolicyAction", text)
        return
    if action == "RestartJobSet" and counted >= policy.get("maxRestarts", 0):
        text = _with_failed_job("jobset failed due to reaching max number of restarts", job)
        draft.finish("Failed", "ReachedMaxRestarts", text)
        return
    text = _with_failed_job(f"applying {action} failure policy action", job)
    draft.status["restarts"] = restart_count(draft.jobset) + 1
    if action == "RestartJobSet":
        draft.status["restartsCountTowardsMax"] = counted + 1
    draft.changed = True
    reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
    draft.set_condition("RestartingJobSet", True, reason, text, event="Warning")
    draft.events.append(("Warning", f"{action}FailurePolicyAction", text))


def _with_failed_job(text: str, job: Object) -> str:
    return f"{text} (first failed job: {job['metadata']['name']})"


def _first_failed(failed_jobs: list[Object]) -> Object:
    return min(failed_jobs, key=lambda job: (find_condition(job, "Failed") or {}).get("lastTransitionTime", ""))


def _matching_rule(rules: Iterable[Object], failed_jobs: list[Object]) -> tuple[Object | None, Object]:
    for rule in rules:
        matching = [job for job in failed_jobs if _rule_matches(rule, job)]
        if matching:
            return rule, _first_failed(matching)
    return None, _first_failed(failed_jobs)


def _rule_matches(rule: Object, job: Object) -> bool:
    failure = find_condition(job, "Failed") or {}
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    if reasons and failure.get("reason") not in reasons:
        return False
    if patterns and not any(re.search(pattern, failure.get("message", "")) for pattern in patterns):
        return False
    return not targets or labels_of(job).get(REPLICATED_JOB) in targets


def _success_policy_met(jobset: Object, successful: list[Object]) -> bool:
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [job["name"] for job in jobset["spec"]["replicatedJobs"]]
    done: int = sum(labels_of(job).get(REPLICATED_JOB) in targets for job in successful)
    if policy.get("operator", "All") == "Any":
        return done >= 1
    wanted: int = sum(job.get("replicas", 1) for job in jobset["spec"]["replicatedJobs"] if job["name"] in targets)
    return done >= wanted


def _starts_in_order(jobset: Object) -> bool:
    return (jobset["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _set_startup_in_progress(draft: StatusDraft) -> None:
    text = "in order startup policy is in progress"
    draft.set_condition("StartupPolicyInProgress", True, "InOrderStartupPolicyInProgress", text)


def _has_started(replicated: Object, replicated_statuses: list[Object]) -> bool:
    row = next(row for row in replicated_statuses if row["name"] == replicated["name"])
    return bool(replicated.get("replicas", 1) == row["failed"] + row["ready"] + row["succeeded"])


def _can_start_next(jobset: Object, replicated: Object, replicated_statuses: list[Object]) -> bool:
    rows = {row["name"]: row for row in replicated_statuses}
    replicas = {job["name"]: job.get("replicas", 1) for job in jobset["spec"]["replicatedJobs"]}
    for before in replicated.get("dependsOn") or ():
        row = rows.get(before["name"])
        if row is None:
            return False
        reached = row["succeeded"]
        if before["status"] == "Ready":
            reached += row["failed"] + row["ready"]
        if reached != replicas[before["name"]]:
            return False
    return True
