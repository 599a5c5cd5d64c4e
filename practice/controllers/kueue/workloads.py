"""The Workload controller: applies queues' stop policies, deactivation, checks and requeuing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kueue_rules import AdmissionVerdict, open_checks, refusal_words, required_checks, worst_check_state
from practice.clock import format_timestamp, parse_timestamp
from practice.controllers.base import Controller
from practice.controllers.kueue import admission_status as status
from practice.controllers.kueue.info import admission_checks, has_quota, is_active, lacks_places, local_queue_of
from practice.controllers.kueue.jobs import release_orphan
from practice.controllers.kueue.label_names import JOB_UID
from practice.controllers.kueue.snapshot import read_queue, read_release
from practice.controllers.objects import Key, Object, find_condition, is_being_deleted, is_true, key_of, labels_of
from practice.objects.resources import CLUSTERQUEUES, LOCALQUEUES, WORKLOADS, Resource


class WorkloadController(Controller):
    """Ports the Workload reconciler of Kueue 0.18."""

    source = "kueue-workload-controller"

    def watches(self) -> dict[Resource, Callable[[Object], Iterable[Key]]]:
        """Return the Workloads to reconcile when one of them or one of their queues changes."""
        return {
            WORKLOADS: lambda obj: [key_of(obj)],
            LOCALQUEUES: self._workloads_in_queue,
            CLUSTERQUEUES: lambda _: [key_of(obj) for obj in self.storage.list(WORKLOADS)],
        }

    def _workloads_in_queue(self, queue: Object) -> list[Key]:
        name, namespace = queue["metadata"]["name"], queue["metadata"]["namespace"]
        items = self.storage.list(WORKLOADS, namespace)
        return [key_of(obj) for obj in items if local_queue_of(obj) == name]

    def reconcile(self, key: Key) -> None:
        workload = self.storage.find(WORKLOADS, *key)
        if workload is None:
            return
        if not workload["metadata"].get("ownerReferences") and (
            is_being_deleted(workload) or JOB_UID in labels_of(workload)
        ):
            release_orphan(self.storage, workload, self.clock.now())
            return
        if is_true(workload, "Finished") or is_being_deleted(workload):
            return
        if not is_active(workload):
            self._evict_deactivated(workload)
            return
        if is_true(workload, "DeactivationTarget"):
            self.storage.modify(WORKLOADS, *key, lambda draft: draft["spec"].update(active=False))
            return
        if self._waits_for_retry(workload) or self._requeue_if_possible(workload) or self._sync_checks(workload):
            return
        if has_quota(workload):
            if self._evict_if_check_failed(workload):
                return
            self._check_queues(workload)
            self._check_execution_time(workload)
        else:
            self._record_inadmissible(workload)

    def _evict_deactivated(self, workload: Object) -> None:
        if is_true(workload, "Evicted") or not has_quota(workload):
            if not is_true(workload, "Evicted"):
                self._evict(workload, "Deactivated", "The workload is deactivated", is_quiet=True)
            return
        target = find_condition(workload, "DeactivationTarget")
        text, cause = "The workload is deactivated", ""
        if target is not None:
            text, cause = f"{text} due to {target['message']}", target["reason"]
        self._evict(workload, "Deactivated", text, cause=cause)

    def _waits_for_retry(self, workload: Object) -> bool:
        """Whether a Workload keeps its quota until a time that a check or an eviction has set."""
        again, before, now = status.next_check_retry_at(workload), status.requeue_at(workload), self.clock.now()
        if again > max(now, before):
            moment = {"requeueAt": format_timestamp(again)}
            self._modify_status(workload, lambda draft: draft["status"].setdefault("requeueState", {}).update(moment))
        elif before > now:
            self.requeue(key_of(workload), before - now)
        return max(again, before) > now

    def _requeue_if_possible(self, workload: Object) -> bool:
        """Put a Workload back into its queue if the obstacle is over; return whether it was."""
        again = find_condition(workload, "Requeued")
        if again is None or again["status"] == "True":
            return False
        local, cluster = self._find_queues(workload)
        reason = ""
        if again["reason"].startswith("Deactivated"):
            reason, text = "Reactivated", "The workload was reactivated"
        elif again["reason"] == "LocalQueueStopped" and _accepts_workloads(local):
            reason, text = "LocalQueueRestarted", "The LocalQueue was restarted after being stopped"
        elif again["reason"] == "ClusterQueueStopped" and _accepts_workloads(cluster):
            reason, text = "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"
        elif again["reason"] in ("PodsReadyTimeout", "AdmissionCheck"):
            reason, text = "BackoffFinished", "The workload backoff was finished"
        if not reason:
            return False
        now = self.clock.now()

        def change(obj: Object) -> None:
            obj["status"].get("requeueState", {}).pop("requeueAt", None)
            status.set_requeued(obj, reason, text, True, now)

        self._modify_status(workload, change)
        return True

    def _sync_checks(self, workload: Object) -> bool:
        """Set the checks that the queue requires, and admit if all are ready; return whether anything changed."""
        _, cluster = self._find_queues(workload)
        if cluster is None:
            return False
        admission, now = workload.get("status", {}).get("admission"), self.clock.now()
        assigned = admission["podSetAssignments"] if admission else ()
        flavors = {flavor for each in assigned for flavor in (each.get("flavors") or {}).values()}
        required = required_checks(read_queue(cluster), flavors if admission else None)
        if required != {each.name for each in admission_checks(workload)}:
            self._modify_status(workload, lambda draft: status.sync_checks(draft, required, now))
            return True
        reserved = find_condition(workload, "QuotaReserved")
        if is_true(workload, "Admitted") or not has_quota(workload) or reserved is None:
            return False
        if open_checks(admission_checks(workload)) or lacks_places(workload):
            return False
        release = read_release(self.storage)
        self._modify_status(workload, lambda draft: status.sync_admitted(draft, now, release))
        waited = now - parse_timestamp(reserved["lastTransitionTime"])
        text = f"Admitted by ClusterQueue {admission['clusterQueue']}, wait time since reservation was {waited:.0f}s"
        self.record_event(workload, "Admitted", text)
        return True

    def _evict_if_check_failed(self, workload: Object) -> bool:
        """Evict a Workload that a check refuses; return whether one did."""
        checks = admission_checks(workload)
        state = worst_check_state(checks)
        if state is None or is_true(workload, "Evicted"):
            return False
        release, now = read_release(self.storage), self.clock.now()
        text = refusal_words(checks, state, release)
        if state is AdmissionVerdict.RETRY:
            self._evict(workload, "AdmissionCheck", text)
            return True
        self._modify_status(
            workload,
            lambda draft: status.set_workload_condition(draft, "DeactivationTarget", True, "AdmissionCheck", text, now),
        )
        self.record_event(workload, "AdmissionCheckRejected", f"Deactivated due to {text}", "Warning")
        return True

    def _check_queues(self, workload: Object) -> None:
        """Evict a Workload if one of its queues is being drained."""
        if is_true(workload, "Evicted"):
            return
        for queue, kind in zip(self._find_queues(workload), ("LocalQueue", "ClusterQueue"), strict=True):
            if queue is not None and queue["spec"].get("stopPolicy") == "HoldAndDrain":
                self._evict(workload, f"{kind}Stopped", f"The {kind} is stopped")
                return

    def _check_execution_time(self, workload: Object) -> None:
        limit, admitted = workload["spec"].get("maximumExecutionTimeSeconds"), find_condition(workload, "Admitted")
        if limit is None or admitted is None or admitted["status"] != "True":
            return
        past = workload["status"].get("accumulatedPastExecutionTimeSeconds", 0)
        left = limit - past - (self.clock.now() - parse_timestamp(admitted["lastTransitionTime"]))
        if left > 0:
            self.requeue(key_of(workload), left)
            return
        now, text = self.clock.now(), "exceeding the maximum execution time"
        reason = "MaximumExecutionTimeExceeded"
        self._modify_status(
            workload, lambda draft: status.set_workload_condition(draft, "DeactivationTarget", True, reason, text, now)
        )
        self.record_event(workload, reason, f"The maximum execution time ({limit}s) exceeded", "Warning")

    def _record_inadmissible(self, workload: Object) -> None:
        """Record why a Workload cannot be tried at all."""
        local, cluster = self._find_queues(workload)
        name = local_queue_of(workload)
        reason = text = ""
        if local is None:
            reason, text = "Misconfigured", f"LocalQueue {name} doesn't exist"
        elif not _accepts_workloads(local):
            reason, text = "Suspended", f"LocalQueue {name} is inactive"
        elif cluster is None:
            reason, text = "Misconfigured", f"ClusterQueue {local['spec']['clusterQueue']} doesn't exist"
        elif not is_true(cluster, "Active"):
            reason, text = "Suspended", f"ClusterQueue {local['spec']['clusterQueue']} is inactive"
        if text:
            now, release = self.clock.now(), read_release(self.storage)
            reason = reason if release.observability else "Inadmissible"
            self._modify_status(workload, lambda draft: status.release_quota(draft, reason, text, now, release))

    def _evict(self, workload: Object, reason: str, text: str, *, cause: str = "", is_quiet: bool = False) -> None:
        now = self.clock.now()

        def change(obj: Object) -> None:
            conditions = obj.setdefault("status", {}).get("conditions") or []
            obj["status"]["conditions"] = [item for item in conditions if item.get("type") != "DeactivationTarget"]
            if reason != "AdmissionCheck":
                obj["status"].pop("requeueState", None)
            status.mark_evicted(obj, reason, text, now, cause=cause)

        self._modify_status(workload, change)
        if not is_quiet:
            word = f"EvictedDueTo{reason}" + (f"DueTo{cause}" if cause else "")
            self.record_event(workload, word, text)

    def _find_queues(self, workload: Object) -> tuple[Object | None, Object | None]:
        local = self.storage.find(LOCALQUEUES, workload["metadata"]["namespace"], local_queue_of(workload))
        cluster = self.storage.find(CLUSTERQUEUES, "", local["spec"]["clusterQueue"]) if local is not None else None
        return local, cluster

    def _modify_status(self, workload: Object, modify: Callable[[Object], object]) -> None:
        self.storage.modify_status(WORKLOADS, *key_of(workload), modify)


def _accepts_workloads(queue: Object | None) -> bool:
    return queue is not None and queue["spec"].get("stopPolicy", "None") == "None"
