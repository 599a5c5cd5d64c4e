"""Manages Jobs and JobSets for Kueue: creates their Workloads, starts and stops them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from practice.controllers.base import Controller, ControlPlane
from practice.controllers.kueue import admission_status as status
from practice.controllers.kueue.info import has_quota, local_queue_of
from practice.controllers.kueue.label_names import IN_USE
from practice.controllers.kueue.podsets import (
    add_to_template,
    admission_additions,
    allows_partial_admission,
    assigned_counts,
    build_workload,
    iter_templates,
    queue_name,
    remove_from_template,
    workload_matches_job,
)
from practice.controllers.kueue.snapshot import read_release
from practice.controllers.objects import (
    Key,
    Object,
    controlled_by,
    controller_of,
    drop_finalizer,
    find_condition,
    is_being_deleted,
    is_true,
    key_of,
    owner_keys,
)
from practice.objects.resources import JOBS, JOBSETS, WORKLOADS, Resource
from practice.objects.storage import Storage

_EVICTION_SECONDS = 1.0
"""Minimum seconds of an eviction, so that two queues that preempt each other do so slowly enough to watch."""


class ManagedJobs(Controller):
    """Ports the job framework of Kueue 0.18 for one kind: JobSets, or Jobs that nothing else owns."""

    def __init__(self, plane: ControlPlane, resource: Resource) -> None:
        super().__init__(plane)
        self.resource = resource
        self._leaving: dict[str, bool] = {}
        """By uid of an evicted Workload that still holds quota: whether its minimum eviction time has passed."""
        self.source = "jobset.x-k8s.io/jobset-kueue-controller" if resource is JOBSETS else "batch/job-kueue-controller"

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        return {self.resource: lambda obj: [key_of(obj)], WORKLOADS: lambda obj: owner_keys(obj, self.resource)}

    def reconcile(self, key: Key) -> None:
        job = self.storage.find(self.resource, *key)
        if job is None or is_being_deleted(job):
            self._release_deleted(key)
            return
        if self.resource is JOBS and self._is_managed_child(job):
            return
        if not queue_name(job):
            return
        workload = self._ensure_one_workload(job)
        if workload is not None and is_true(workload, "Finished"):
            self._release_workload(workload)
            return
        if workload is not None and is_being_deleted(workload):
            self._stop_job(job, workload, "Workload is deleted")
            self._release_workload(workload)
            return
        if self._finish_job(job, workload):
            return
        if workload is None:
            if not _has_active_pods(job):
                created = self.storage.create(WORKLOADS, build_workload(job, self.storage))
                self.record_event(job, "CreatedWorkload", f"Created Workload: {'/'.join(key_of(created))}")
            return
        self._record_reclaimable_pods(job, workload)
        self._run_or_stop(job, self.storage.get(WORKLOADS, *key_of(workload)))

    def _run_or_stop(self, job: Object, workload: Object) -> None:
        evicted = find_condition(workload, "Evicted")
        suspended = bool(job["spec"].get("suspend"))
        if evicted is not None and evicted["status"] == "True":
            self._stop_job(job, workload, evicted["message"])
            if not has_quota(workload) or not self._eviction_delay_passed(workload, key_of(job)):
                return
            if not _has_active_pods(self.storage.get(self.resource, *key_of(job))):
                del self._leaving[workload["metadata"]["uid"]]
                self._release_quota(workload, evicted)
        elif suspended and is_true(workload, "Admitted"):
            self._start_job(job, workload)
        elif suspended and queue_name(job) != local_queue_of(workload):
            name = queue_name(job)
            self.storage.modify(WORKLOADS, *key_of(workload), lambda draft: draft["spec"].update(queueName=name))
        elif not suspended and not is_true(workload, "Admitted"):
            self._stop_job(job, workload, "Not admitted by cluster queue")

    def _eviction_delay_passed(self, workload: Object, job: Key) -> bool:
        uid = workload["metadata"]["uid"]

        def over() -> None:
            self._leaving[uid] = True
            self.requeue(job)

        if uid not in self._leaving:
            self._leaving[uid] = False
            self.clock.call_later(_EVICTION_SECONDS, over)
        return self._leaving[uid]

    def _release_quota(self, workload: Object, evicted: Object) -> None:
        """Release the quota of an evicted Workload whose pods have ended."""
        now, reason, text = self.clock.now(), evicted["reason"], evicted["message"]
        release = read_release(self.storage)

        def change(obj: Object) -> None:
            back = reason in ("Preempted", "NodeFailures")
            status.set_requeued(obj, reason, text, back, now)
            status.release_quota(obj, "Pending", text, now, release)

        self.storage.modify_status(WORKLOADS, *key_of(workload), change)

    def _ensure_one_workload(self, job: Object) -> Object | None:
        """Return the Workload that matches the job, None if there is none; update or delete all others."""
        found = controlled_by(self.storage.list(WORKLOADS, job["metadata"]["namespace"]), job)
        matching = [item for item in found if workload_matches_job(item, job)]
        rest = [item for item in found if item not in matching[:1]]
        suspended = bool(job["spec"].get("suspend"))
        if not matching and rest and suspended and not has_quota(rest[0]):
            return self._update_workload(job, rest[0])
        if not matching and not suspended and _job_outcome(job) is None:
            text = "Missing Workload; unable to restore pod templates"
            if len(rest) == 1:
                text = "No matching Workload; restoring pod templates according to existent Workload"
            self._stop_job(job, rest[0] if len(rest) == 1 else None, text)
        for item in rest:
            self.storage.delete(WORKLOADS, *key_of(item))
            self._release_workload(item)
            self.record_event(job, "DeletedWorkload", f"Deleted not matching Workload: {'/'.join(key_of(item))}")
        return matching[0] if matching else None

    def _update_workload(self, job: Object, workload: Object) -> Object:
        wanted = build_workload(job, self.storage)["spec"]
        updated = self.storage.modify(
            WORKLOADS, *key_of(workload), lambda draft: draft["spec"].update(podSets=wanted["podSets"])
        )
        name = "/".join(key_of(workload))
        self.record_event(job, "UpdatedWorkload", f"Updated not matching Workload for suspended job: {name}")
        return updated

    def _finish_job(self, job: Object, workload: Object | None) -> bool:
        outcome = _job_outcome(job)
        if outcome is None:
            return False
        if workload is not None:
            now = self.clock.now()
            reason, text = ("Succeeded" if outcome[0] else "Failed"), outcome[1]
            key = key_of(workload)
            self.storage.modify_status(WORKLOADS, *key, lambda draft: status.finish(draft, reason, text, now))
            self.record_event(job, "FinishedWorkload", f"Workload '{'/'.join(key)}' is declared finished")
        return True

    def _start_job(self, job: Object, workload: Object) -> None:
        info, counts = admission_additions(workload, self.storage), assigned_counts(workload)

        def change(obj: Object) -> None:
            obj["spec"]["suspend"] = False
            for (name, template, _, _), add in zip(list(iter_templates(obj)), info, strict=True):
                add_to_template(template, add)
                if allows_partial_admission(obj):
                    obj["spec"]["parallelism"] = counts[name]

        self.storage.modify(self.resource, *key_of(job), change)
        name = workload["status"]["admission"]["clusterQueue"]
        self.record_event(job, "Started", f"Admitted by clusterQueue {name}")

    def _stop_job(self, job: Object, workload: Object | None, text: str) -> None:
        if job["spec"].get("suspend"):
            return

        def change(obj: Object) -> None:
            obj["spec"]["suspend"] = True
            if workload is not None:
                for (_, template, _, _), pod_set in zip(iter_templates(obj), workload["spec"]["podSets"], strict=False):
                    remove_from_template(template, pod_set)
                    if allows_partial_admission(obj):
                        obj["spec"]["parallelism"] = pod_set["count"]

        if self.resource is JOBS:
            # the real one suspends first, and touches the template only when the start time is gone
            self.storage.modify(JOBS, *key_of(job), lambda draft: draft["spec"].update(suspend=True))
            self.storage.modify_status(JOBS, *key_of(job), lambda draft: draft["status"].pop("startTime", None))
        self.storage.modify(self.resource, *key_of(job), change)
        self.record_event(job, "Stopped", text)

    def _record_reclaimable_pods(self, job: Object, workload: Object) -> None:
        """Record how many pods of each pod set are done and need no quota any more."""
        rows = job.get("status", {}).get("replicatedJobsStatus") or () if self.resource is JOBSETS else ()
        done = {row["name"]: row["succeeded"] for row in rows if row.get("succeeded")}
        given = []
        for name, _, count, ranks in iter_templates(job):
            if name in done:
                per_job = count // max(ranks.get("subGroupCount", 1), 1)
                given.append({"name": name, "count": min(done[name] * per_job, count)})
        if given != (workload.get("status", {}).get("reclaimablePods") or []):
            self.storage.modify_status(
                WORKLOADS, *key_of(workload), lambda draft: draft.setdefault("status", {}).update(reclaimablePods=given)
            )

    def _is_managed_child(self, job: Object) -> bool:
        """Whether Kueue manages a Job's owner, so that the Job may run only after the owner's admission."""
        owner = controller_of(job)
        if owner is None or owner["kind"] != "JobSet":
            return False
        jobset = self.storage.find(JOBSETS, job["metadata"]["namespace"], owner["name"])
        if jobset is not None and queue_name(jobset) and not job["spec"].get("suspend") and _job_outcome(job) is None:
            found = controlled_by(self.storage.list(WORKLOADS, job["metadata"]["namespace"]), jobset)
            if not any(is_true(item, "Admitted") or is_true(item, "Finished") for item in found):
                self.storage.modify(JOBS, *key_of(job), lambda draft: draft["spec"].update(suspend=True))
                self.record_event(job, "Suspended", "Kueue managed child job suspended")
        return True

    def _release_deleted(self, key: Key) -> None:
        for workload in self.storage.list(WORKLOADS, key[0]):
            if key in owner_keys(workload, self.resource):
                release_orphan(self.storage, workload, self.clock.now())

    def _release_workload(self, workload: Object) -> None:
        if IN_USE in (workload["metadata"].get("finalizers") or ()) and self.storage.find(WORKLOADS, *key_of(workload)):
            self.storage.modify(WORKLOADS, *key_of(workload), lambda draft: drop_finalizer(draft, IN_USE))


def release_orphan(storage: Storage, workload: Object, now: float) -> None:
    """Finish a Workload without owner to free its quota, and let its deletion proceed."""
    key = key_of(workload)
    if not is_being_deleted(workload) and not is_true(workload, "Finished"):
        text = "The workload's owner no longer exists"
        storage.modify_status(WORKLOADS, *key, lambda draft: status.finish(draft, "OwnerNotFound", text, now))
    elif IN_USE in (workload["metadata"].get("finalizers") or ()) and is_being_deleted(workload):
        storage.modify(WORKLOADS, *key, lambda draft: drop_finalizer(draft, IN_USE))


def _job_outcome(job: Object) -> tuple[bool, str] | None:
    """Return (succeeded, message) of a finished job; None if it has not finished."""
    for kind, good in (("Completed", True), ("Complete", True), ("Failed", False)):
        found = find_condition(job, kind)
        if found is not None and found["status"] == "True":
            return good, str(found["message"])
    return None


def _has_active_pods(job: Object) -> bool:
    """Whether pods of the job still exist."""
    if job["kind"] == "Job":
        return bool(job.get("status", {}).get("active"))
    rows = job.get("status", {}).get("replicatedJobsStatus") or ()
    return any(row.get("active") for row in rows)
