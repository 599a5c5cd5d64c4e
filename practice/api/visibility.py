"""Kueue's visibility API: the pending workloads of a queue in the order they will be tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from practice.api.paths_and_versions import ApiPath, no_such_path, parse_number
from practice.objects.api_error import Object
from practice.objects.resources import CLUSTERQUEUES, LOCALQUEUES, WORKLOADS
from practice.objects.storage import Storage

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
_DEFAULT_LIMIT = 1000


def pending_workloads(storage: Storage, target: ApiPath, query: Mapping[str, str]) -> Object:
    """Return one PendingWorkloadsSummary. Raises ApiError 404 when there is no such queue."""
    if target.subresource != "pendingworkloads" or target.version not in VERSIONS:
        raise no_such_path()
    if target.plural == "clusterqueues":
        storage.get(CLUSTERQUEUES, "", target.name)
        cluster_queue = target.name
    elif target.plural == "localqueues":
        cluster_queue = storage.get(LOCALQUEUES, target.namespace, target.name)["spec"].get("clusterQueue", "")
    else:
        raise no_such_path()
    items = _pending_items(storage, cluster_queue, f"{GROUP}/{target.version}")
    if target.plural == "localqueues":
        own = (target.namespace, target.name)
        items = [item for item in items if (item["metadata"]["namespace"], item["localQueueName"]) == own]
    offset, limit = parse_number(query, "offset") or 0, parse_number(query, "limit") or _DEFAULT_LIMIT
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{target.version}",
        "metadata": {"creationTimestamp": None},
        "items": items[offset : offset + limit],
    }


def _pending_items(storage: Storage, cluster_queue: str, api_version: str) -> list[Object]:
    queues = {
        (queue["metadata"]["namespace"], queue["metadata"]["name"])
        for queue in storage.list(LOCALQUEUES)
        if queue["spec"].get("clusterQueue") == cluster_queue
    }
    waiting = [
        workload
        for workload in storage.list(WORKLOADS)
        if (workload["metadata"]["namespace"], workload["spec"].get("queueName")) in queues and _is_pending(workload)
    ]
    waiting.sort(key=lambda workload: (-workload["spec"].get("priority", 0), _queue_time(workload)))
    seen: Counter[tuple[str, str]] = Counter()
    items = []
    for position, workload in enumerate(waiting):
        meta, spec = workload["metadata"], workload["spec"]
        local = (meta["namespace"], spec.get("queueName", ""))
        kept = ("name", "namespace", "ownerReferences", "creationTimestamp")
        items.append(
            {
                "kind": "PendingWorkload",
                "apiVersion": api_version,
                "metadata": {key: meta[key] for key in kept if key in meta},
                "priority": spec.get("priority", 0),
                "localQueueName": spec.get("queueName", ""),
                "positionInClusterQueue": position,
                "positionInLocalQueue": seen[local],
            }
        )
        seen[local] += 1
    return items


def _is_pending(workload: Object) -> bool:
    if workload["spec"].get("active") is False:
        return False
    true = {
        one.get("type") for one in workload.get("status", {}).get("conditions") or [] if one.get("status") == "True"
    }
    return not true & {"QuotaReserved", "Finished"}


def _queue_time(workload: Object) -> float:
    """Return when (epoch seconds) the workload joined the queue: created, or evicted as its pods were not ready."""
    for one in workload.get("status", {}).get("conditions") or []:
        if one.get("type") == "Evicted" and one.get("status") == "True" and one.get("reason") == "PodsReadyTimeout":
            return datetime.fromisoformat(one["lastTransitionTime"]).timestamp()
    return datetime.fromisoformat(workload["metadata"]["creationTimestamp"]).timestamp()
