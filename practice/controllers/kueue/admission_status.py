"""Changes of a Workload's status: quota reserved, admitted, evicted, requeued, finished."""

from __future__ import annotations

from kueue_rules import KueueRelease, SnapshotWorkload, open_checks, unadmitted_words
from practice.clock import format_timestamp, parse_timestamp
from practice.controllers.kueue.info import admission_checks, has_quota, lacks_places
from practice.controllers.objects import Object, find_condition, is_true, set_condition
from practice.controllers.quantity import format_quantity

_MAX_MESSAGE = 32768


def set_workload_condition(workload: Object, kind: str, status: bool, reason: str, message: str, now: float) -> bool:
    """Set a condition of a Workload (a draft), in order of type as Kueue; returns whether anything changed."""
    generation = workload["metadata"].get("generation", 1)
    changed = set_condition(workload, kind, status, reason, message[:_MAX_MESSAGE], now, generation=generation)
    workload["status"]["conditions"].sort(key=lambda item: item.get("type", ""))
    return changed


def reserve_quota(
    workload: Object, admission: Object, required_checks: frozenset[str], now: float, release: KueueRelease
) -> None:
    """Reserve quota; the Workload is admitted if it needs no checks or all are ready."""
    workload.setdefault("status", {})["admission"] = admission
    for each in ("resourceRequests", "unhealthyNodes"):
        workload["status"].pop(each, None)
    text = f"Quota reserved in ClusterQueue {admission['clusterQueue']}"
    set_workload_condition(workload, "QuotaReserved", True, "QuotaReserved", text, now)
    for kind in ("Evicted", "Preempted"):
        before = find_condition(workload, kind)
        if before is not None and before["status"] == "True":
            set_workload_condition(workload, kind, False, "QuotaReserved", f"Previously: {before['message']}", now)
    if required_checks <= {each.name for each in admission_checks(workload)}:
        sync_admitted(workload, now, release)


def sync_admitted(workload: Object, now: float, release: KueueRelease) -> None:
    """Update the Admitted condition from quota reservation and admission checks."""
    reserved, admitted = has_quota(workload), is_true(workload, "Admitted")
    ready = not open_checks(admission_checks(workload)) and not lacks_places(workload)
    if (reserved and ready) == admitted:
        return
    if reserved and ready:
        set_workload_condition(workload, "Admitted", True, "Admitted", "The workload is admitted", now)
        return
    since = find_condition(workload, "Admitted")
    status = workload["status"]
    past = status.get("accumulatedPastExecutionTimeSeconds", 0)
    if since is not None:
        status["accumulatedPastExecutionTimeSeconds"] = past + int(now - parse_timestamp(since["lastTransitionTime"]))
    set_workload_condition(
        workload, "Admitted", False, *unadmitted_words(release, reserved=reserved, is_ready=ready), now
    )


def sync_checks(workload: Object, required_checks: frozenset[str], now: float) -> None:
    """Set the admission checks that a Workload (a draft) needs; new ones are pending."""
    status = workload.setdefault("status", {})
    kept = [each for each in status.get("admissionChecks") or () if each["name"] in required_checks]
    missing = required_checks - {each["name"] for each in kept}
    fresh: Object = {"state": "Pending", "message": "", "lastTransitionTime": format_timestamp(now)}
    found = sorted([*kept, *({"name": name, **fresh} for name in missing)], key=lambda each: str(each["name"]))
    if found:
        status["admissionChecks"] = found
    else:
        status.pop("admissionChecks", None)


def _reset_checks(workload: Object, now: float) -> None:
    """Reset every check to pending after an eviction."""
    for each in workload["status"].get("admissionChecks") or ():
        before = each["state"]
        if before == "Pending":
            continue
        if before == "Retry":
            each["retryCount"] = each.get("retryCount", 0) + 1
        else:
            each.pop("retryCount", None)
        each.pop("podSetUpdates", None)
        each |= {
            "state": "Pending",
            "message": f"Reset to Pending after eviction. Previously: {before}",
            "lastTransitionTime": format_timestamp(now),
        }


def next_check_retry_at(workload: Object) -> float:
    """The latest time (epoch seconds) at which a check in state Retry may be retried, 0 if there is none."""
    return max(
        (
            parse_timestamp(each["lastTransitionTime"]) + each["requeueAfterSeconds"]
            for each in workload.get("status", {}).get("admissionChecks") or ()
            if each["state"] == "Retry" and each.get("requeueAfterSeconds") is not None
        ),
        default=0.0,
    )


def release_quota(workload: Object, reason: str, message: str, now: float, release: KueueRelease) -> None:
    """Record why a Workload has no quota, releasing it if it had any."""
    workload.setdefault("status", {}).pop("admission", None)
    set_workload_condition(workload, "QuotaReserved", False, reason, message, now)
    sync_admitted(workload, now, release)


def record_requests(workload: Object, snapshot_workload: SnapshotWorkload) -> None:
    """Write the requests of a waiting Workload into its status."""
    workload["status"]["resourceRequests"] = [
        {
            "name": item.name,
            "resources": {name: format_quantity(value) for name, value in sorted(item.requests.items())},
        }
        for item in snapshot_workload.pod_sets
    ]


def mark_evicted(workload: Object, reason: str, message: str, now: float, *, cause: str = "") -> None:
    """Mark a Workload as evicted, by `cause` if the reason has one; its job is stopped, and then its quota is free."""
    full = f"{reason}DueTo{cause}" if cause else reason
    set_workload_condition(workload, "Evicted", True, full, message, now)
    workload["status"].pop("unhealthyNodes", None)
    _reset_checks(workload, now)
    evictions = workload["status"].setdefault("schedulingStats", {}).setdefault("evictions", [])
    for found in evictions:
        if found["reason"] == reason and found.get("underlyingCause", "") == cause:
            found["count"] += 1
            return
    evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})


def set_requeued(workload: Object, reason: str, message: str, status: bool, now: float) -> None:
    """Set the Requeued condition, which says whether a Workload is back in its queue."""
    set_workload_condition(workload, "Requeued", status, reason, message, now)


def finish(workload: Object, reason: str, message: str, now: float) -> None:
    set_workload_condition(workload, "Finished", True, reason, message, now)


def queued_seconds(workload: Object, now: float) -> float:
    """Return the seconds that a Workload has waited since it was last queued."""
    again = find_condition(workload, "Requeued")
    since = again["lastTransitionTime"] if again else workload["metadata"]["creationTimestamp"]
    return max(now - parse_timestamp(since), 0.0)


def requeue_at(workload: Object) -> float:
    """Return the time (epoch seconds) before which a Workload may not be admitted, 0 when there is none."""
    moment = (workload.get("status", {}).get("requeueState") or {}).get("requeueAt")
    return parse_timestamp(moment) if moment else 0.0
