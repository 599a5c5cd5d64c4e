"""A picture as rows for the listing commands; each list imports what its rows are made by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.kube.objects.queue import ClusterQueue
    from console.kube.objects.workload import Workload
    from console.kube.snapshot import Fleet
    from console.metrics.health import Health
    from console.metrics.job_progress import JobProgress
    from console.scheduling.explanation import Held
    from console.scheduling.ranks import Rank
    from screens.cli.columns import Row


def pool_rows(fleet: Fleet, namespace: str | None) -> list[Row]:
    """One row per node pool."""
    from console.scheduling.pools import pools

    return [
        {
            "name": pool.name,
            "machine_type": pool.machine_type,
            "zones": pool.zones,
            "accelerator": pool.accelerator,
            "provisioning": pool.provisioning,
            "reservation": pool.reservation,
            "nodes": pool.nodes_total,
            "ready": pool.nodes_ready,
            "gpus": pool.gpus_total,
            "used": pool.gpus_used,
            "out": pool.gpus_out,
            "free": pool.gpus_free,
            "free_slots": pool.slots8,
            "free_large_slots": pool.slots64,
            "faulty": sorted({node for node, _ in pool.faults}),
            "cordoned": [node.name for node in pool.nodes if node.cordoned],
            "maintenance": [each.node for each in pool.maintenance],
        }
        for pool in pools(fleet)
    ]


def node_rows(fleet: Fleet, namespace: str | None) -> list[Row]:
    """One row per node, neighbours in the network together."""
    every = sorted(fleet.nodes.values(), key=lambda node: (node.pool, node.block, node.subblock, node.host, node.name))
    return [
        {
            "name": node.name,
            "pool": node.pool,
            "machine_type": node.machine_type,
            "zone": node.zone,
            "provisioning": node.provisioning,
            "reservation": node.reservation,
            "block": node.block,
            "subblock": node.subblock,
            "host": node.host,
            "ready": node.ready,
            "cordoned": node.cordoned,
            "gpus": node.gpus,
            "used": fleet.gpus_used.get(node.name, 0),
            "free": fleet.gpus_free(node),
            "jobs": sorted(
                {pod.jobset for pod in fleet.pods_by_node.get(node.name, ()) if pod.jobset and pod.holds_gpus}
            ),
            "starting": node.starts(fleet.at),
            "faults": node.faults(fleet.at),
            "fault_reports": [
                {"fault": each.words, "by": each.by, "since": each.since or None} for each in node.reports(fleet.at)
            ],
            "maintenance_at": node.maintenance_at or None,
            "last_busbw": node.last_busbw,
            "version": node.version,
            "created": node.created or None,
        }
        for node in every
    ]


def queue_rows(fleet: Fleet, namespace: str | None) -> list[Row]:
    """One row per ClusterQueue with its LocalQueues."""
    return [_queue_row(queue, fleet) for queue in sorted(fleet.cluster_queues.values(), key=lambda each: each.name)]


def _queue_row(queue: ClusterQueue, fleet: Fleet) -> Row:
    from console.scheduling.quota import queue_account

    room = queue_account(fleet, queue.name)
    doors = sorted(
        (each for each in fleet.local_queues.values() if each.cluster_queue == queue.name), key=lambda each: each.key
    )
    return {
        "name": queue.name,
        "cohort": queue.cohort,
        "strategy": queue.strategy,
        "nominal": room.nominal,
        "used": room.used,
        "borrowed": room.borrowed,
        "can_borrow": room.can_borrow,
        "lent": room.lent,
        "sum": room.words,
        "free": room.free,
        "maximum": room.total,
        "admitted": queue.admitted,
        "pending": queue.pending,
        "stopped": _stopped(queue.stop_policy, queue.inactive_reason),
        "local_queues": [
            {
                "namespace": door.namespace,
                "name": door.name,
                "used": door.in_use(),
                "admitted": door.admitted,
                "pending": door.pending,
                "stopped": _stopped(door.stop_policy, door.inactive_reason),
            }
            for door in doors
        ],
    }


def _stopped(policy: str, inactive: str) -> str | None:
    if policy not in {"", "None"}:
        return f"stopPolicy {policy}"
    return inactive or None


def workload_rows(fleet: Fleet, namespace: str | None) -> list[Row]:
    """One row per unfinished workload, by ClusterQueue: those that wait in Kueue's order, then the others."""
    from console.kube.objects.workload import WorkloadState
    from console.scheduling.order import cluster_queue_name, queue_order

    found: list[Row] = []
    for name in sorted({cluster_queue_name(each, fleet) for each in fleet.workloads.values()}):
        queue = queue_order(fleet, name)
        found += [_workload_row(each.workload, name, each.position, fleet) for each in queue.pending]
        found += [_workload_row(each, name, 0, fleet) for each in queue.running]
    switched_off = (each for each in fleet.workloads.values() if each.state is WorkloadState.DEACTIVATED)
    found += [_workload_row(each, cluster_queue_name(each, fleet), 0, fleet) for each in switched_off]
    return [row for row in found if namespace is None or row["namespace"] == namespace]


def _workload_row(workload: Workload, queue: str, position: int, fleet: Fleet) -> Row:
    from console.kube.objects.meta import GPU
    from console.scheduling.why import why

    reason = why(workload, fleet)
    jobset = fleet.jobset_by_uid.get(workload.owner_uid)
    return {
        "cluster_queue": queue,
        "position": position,
        "namespace": workload.namespace,
        "job": workload.owner_name or workload.name,
        "name": workload.name,
        "queue": workload.queue,
        "owner": jobset.owner if jobset else "",
        "state": workload.state,
        "gpus": workload.total(GPU),
        "priority": workload.priority,
        "priority_class": workload.priority_class,
        "queued_since": workload.queued_since or None,
        "category": reason.category,
        "why": reason.sentence,
        "short_by": reason.short_by,
        "holders": [_held(each) for each in reason.holders],
        "unblocks": [_held(each) for each in reason.unblocks],
        "ahead": reason.ahead,
        "kueue_says": reason.api_text,
        "evictions": dict(workload.evictions),
    }


def _held(job: Held) -> Row:
    return {"namespace": job.namespace, "name": job.name, "gpus": job.gpus, "owner": job.owner}


def health_json(health: Health) -> Row:
    return {"state": health.state, "level": health.level, "words": health.words}


def job_rows(fleet: Fleet, namespace: str | None, glances: Mapping[str, JobProgress] | None = None) -> list[Row]:
    """One row per JobSet, youngest first; `glances`: what the ends of logs say, by uid."""
    from console.metrics.health import job_health
    from console.scheduling.ranks import ranks
    from console.scheduling.why_job import why_jobset

    found = []
    for job in sorted(fleet.jobsets.values(), key=lambda each: (-each.created, each.key)):
        if namespace is not None and job.namespace != namespace:
            continue
        reason = why_jobset(job, fleet)
        pods = [_job_pod(rank) for rank in ranks(job, fleet)]
        health = job_health(job, fleet, glance=(glances or {}).get(job.uid))
        found.append(
            {
                "namespace": job.namespace,
                "name": job.name,
                "recipe": job.recipe,
                "queue": job.queue,
                "owner": job.owner,
                "state": job.state,
                "health": health_json(health),
                "gpus": job.gpus,
                "pods": pods,
                "ranks": [{"rank": each["pod_index"], **each} for each in pods],
                "restarts": job.restarts,
                "max_restarts": job.max_restarts,
                "category": reason.category,
                "why": health.words or reason.sentence,
                "next": reason.next,
                "removed": job.removed_at or None,
                "finished": job.finished_at or None,
                "created": job.created or None,
            }
        )
    return found


def _job_pod(rank: Rank) -> Row:
    return {
        "pod_index": rank.number,
        "group": rank.replicated_job,
        "pod": rank.pod.name if rank.pod else None,
        "node": rank.pod.node if rank.pod else None,
        "phase": rank.pod.phase if rank.pod else None,
        "status": rank.status,
        "exit_code": rank.exit_code,
        "restarts": rank.pod.restarts if rank.pod else 0,
    }


def pod_rows(fleet: Fleet, namespace: str | None) -> list[Row]:
    """One row per pod."""
    return [
        {
            "namespace": pod.namespace,
            "name": pod.name,
            "phase": pod.phase,
            "status": pod.status,
            "ready": pod.ready,
            "restarts": pod.restarts,
            "gpus": pod.gpus,
            "node": pod.node,
            "ip": pod.ip,
            "jobset": pod.jobset,
            "replicated_job": pod.replicated_job,
            "job_index": None if pod.job_index < 0 else pod.job_index,
            "completion_index": None if pod.completion_index < 0 else pod.completion_index,
            "attempt": pod.attempt,
            "message": pod.message or pod.unschedulable,
            "created": pod.created or None,
        }
        for key, pod in sorted(fleet.pods.items())
        if namespace is None or pod.namespace == namespace
    ]


ROWS: dict[str, Callable[[Fleet, str | None], list[Row]]] = {
    "pools": pool_rows,
    "nodes": node_rows,
    "queues": queue_rows,
    "workloads": workload_rows,
    "jobs": job_rows,
    "pods": pod_rows,
}
"""Rows of a picture, in a namespace or (None) in all; what belongs to no namespace is always shown."""
