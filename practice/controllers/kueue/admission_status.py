"""How the status of a Workload changes: quota reserved, admitted, evicted, sent back to the queue, finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.clock import seconds_of
from practice.controllers.kueue.info import has_quota
from practice.controllers.objects import condition, is_true, set_condition
from practice.controllers.quantity import words

if TYPE_CHECKING:
    from console.scheduling.kueue.state import Workload
    from practice.controllers.objects import Object

_LONGEST = 32768


def mark(workload: Object, kind: str, status: bool, reason: str, message: str, now: float) -> bool:
    """Set a condition of a Workload (a draft); Kueue keeps them in order of type."""
    generation = workload["metadata"].get("generation", 1)
    changed = set_condition(workload, kind, status, reason, message[:_LONGEST], now, generation=generation)
    workload["status"]["conditions"].sort(key=lambda item: item.get("type", ""))
    return changed


def reserve(workload: Object, admission: Object, now: float) -> None:
    workload.setdefault("status", {})["admission"] = admission
    workload["status"].pop("resourceRequests", None)
    text = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    mark(workload, "QuotaReserved", True, "QuotaReserved", text, now)
    for kind in ("Evicted", "Preempted"):
        before = condition(workload, kind)
        if before is not None and before["status"] == "True":
            mark(workload, kind, False, "QuotaReserved", f"Previously: {before['message']}", now)
    sync_admitted(workload, now)


def sync_admitted(workload: Object, now: float) -> None:
    """Bring the Admitted condition in step with the quota reservation."""
    reserved, admitted = has_quota(workload), is_true(workload, "Admitted")
    if reserved == admitted:
        return
    if reserved:
        mark(workload, "Admitted", True, "Admitted", "The workload is admitted", now)
        return
    since = condition(workload, "Admitted")
    status = workload["status"]
    past = status.get("accumulatedPastExecutionTimeSeconds", 0)
    if since is not None:
        status["accumulatedPastExecutionTimeSeconds"] = past + int(now - seconds_of(since["lastTransitionTime"]))
    mark(workload, "Admitted", False, "NoReservation", "The workload has no reservation", now)


def unreserve(workload: Object, reason: str, message: str, now: float) -> None:
    """Say why a Workload has no quota, and take it away if it had."""
    workload.setdefault("status", {}).pop("admission", None)
    mark(workload, "QuotaReserved", False, reason, message, now)
    sync_admitted(workload, now)


def keep_requests(workload: Object, info: Workload) -> None:
    """Write what a waiting Workload asks for into its status."""
    workload["status"]["resourceRequests"] = [
        {"name": item.name, "resources": {name: words(value) for name, value in sorted(item.requests.items())}}
        for item in info.pod_sets
    ]


def evict(workload: Object, reason: str, message: str, now: float, *, cause: str = "") -> None:
    """Mark a Workload as evicted; its job is stopped, and then its quota is free."""
    full = f"{reason}DueTo{cause}" if cause else reason
    mark(workload, "Evicted", True, full, message, now)
    workload["status"].pop("unhealthyNodes", None)
    evictions = workload["status"].setdefault("schedulingStats", {}).setdefault("evictions", [])
    for found in evictions:
        if found["reason"] == reason and found.get("underlyingCause", "") == cause:
            found["count"] += 1
            return
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})


def requeued(workload: Object, reason: str, message: str, status: bool, now: float) -> None:
    """Say whether a Workload is back in its queue."""
    mark(workload, "Requeued", status, reason, message, now)


def finish(workload: Object, reason: str, message: str, now: float) -> None:
    mark(workload, "Finished", True, reason, message, now)


def queued_seconds(workload: Object, now: float) -> float:
    """Return how long a Workload waited since it was queued last."""
    again = condition(workload, "Requeued")
    since = again["lastTransitionTime"] if again else workload["metadata"]["creationTimestamp"]
    return max(now - seconds_of(since), 0.0)


def requeue_at(workload: Object) -> float:
    """Return the moment before which a Workload may not be admitted, 0 when there is none."""
    moment = (workload.get("status", {}).get("requeueState") or {}).get("requeueAt")
    return seconds_of(moment) if moment else 0.0
