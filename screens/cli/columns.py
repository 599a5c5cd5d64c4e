"""What the listing commands show, declared once for text and for JSON.

A column's key is its JSON key, its value stands under it there, and one with a title is a column of the table too.
`a4 LIST --help` prints the keys with their meaning, so they are documented here.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from screens import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from console.kube.objects.jobset import JobSet
    from console.kube.objects.node import Node
    from console.kube.objects.pod import Pod
    from console.kube.objects.queue import ClusterQueue
    from console.kube.objects.workload import Workload
    from console.kube.snapshot import Fleet
    from console.metrics.health import Health
    from console.metrics.job_progress import JobProgress
    from console.scheduling.pools import Pool
    from console.scheduling.quota import Account, Held
    from console.scheduling.why_answer import Why

Row = dict[str, Any]
"""One object of a list, by column key."""
OfT = TypeVar("OfT")
FAULT_WIDTH = 36
"""Characters of a fault in a table; JSON has all of them."""


def plain(value: Any) -> str:
    """A value as a table shows it: nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


@dataclass(frozen=True, slots=True)
class Column(Generic[OfT]):
    """One key of a list's objects."""

    key: str
    meaning: str
    value: Callable[[OfT], Any] | None
    """None: only the session knows it."""
    title: str = ""
    """Of the table's column; empty: only in JSON."""
    say: Callable[[Any], str] = plain
    right: bool = False


@dataclass(frozen=True, slots=True)
class Layout(Generic[OfT]):
    """The columns of one list, and what its rows are made from."""

    kind: str
    """The kind without which there is not a list."""
    uses: tuple[str, ...]
    """Kinds that tell more where they can be read."""
    of: Callable[[Fleet, str | None], Iterable[OfT]]
    """What each row is about, in a namespace or (None) in all; what belongs to no namespace is always there."""
    columns: tuple[Column[OfT], ...]

    def rows(self, fleet: Fleet, namespace: str | None = None) -> list[Row]:
        return self.rows_of(self.of(fleet, namespace))

    def rows_of(self, each: Iterable[OfT]) -> list[Row]:
        return [{column.key: column.value(one) for column in self.columns if column.value} for one in each]


# what a row is about; each list imports what that is found by


def _pools(fleet: Fleet, namespace: str | None) -> Iterable[Pool]:
    from console.scheduling.pools import pools

    return pools(fleet)


class _Node(NamedTuple):
    node: Node
    fleet: Fleet

    @property
    def jobs(self) -> list[str]:
        pods = self.fleet.pods_by_node.get(self.node.name, ())
        return sorted({pod.jobset for pod in pods if pod.jobset and pod.holds_gpus})


def _nodes(fleet: Fleet, namespace: str | None) -> Iterable[_Node]:
    """Neighbours in the network together."""
    every = sorted(fleet.nodes.values(), key=lambda node: (node.pool, node.block, node.subblock, node.host, node.name))
    return (_Node(node, fleet) for node in every)


class _Queue(NamedTuple):
    queue: ClusterQueue
    account: Account
    local_queues: list[Row]


def _queues(fleet: Fleet, namespace: str | None) -> Iterable[_Queue]:
    from console.scheduling.quota import queue_account

    for queue in sorted(fleet.cluster_queues.values(), key=lambda each: each.name):
        doors = sorted(
            (each for each in fleet.local_queues.values() if each.cluster_queue == queue.name),
            key=lambda each: each.key,
        )
        local_queues = [
            {
                "namespace": door.namespace,
                "name": door.name,
                "used": door.in_use(),
                "admitted": door.admitted,
                "pending": door.pending,
                "stopped": _stopped(door.stop_policy, door.inactive_reason),
            }
            for door in doors
        ]
        yield _Queue(queue, queue_account(fleet, queue.name), local_queues)


def _stopped(policy: str, inactive: str) -> str | None:
    if policy not in {"", "None"}:
        return f"stopPolicy {policy}"
    return inactive or None


class _Workload(NamedTuple):
    workload: Workload
    cluster_queue: str
    position: int
    why: Why
    owner: str
    gpus: int


def _workloads(fleet: Fleet, namespace: str | None) -> Iterable[_Workload]:
    """Unfinished ones by ClusterQueue: those that wait in Kueue's order, then the others."""
    from console.kube.objects.meta import GPU
    from console.kube.objects.workload import WorkloadState
    from console.scheduling.order import cluster_queue_name, queue_order
    from console.scheduling.why import why

    found: list[tuple[Workload, str, int]] = []
    for name in sorted({cluster_queue_name(each, fleet) for each in fleet.workloads.values()}):
        queue = queue_order(fleet, name)
        found += [(each.workload, name, each.position) for each in queue.pending]
        found += [(each, name, 0) for each in queue.running]
    switched_off = (each for each in fleet.workloads.values() if each.state is WorkloadState.DEACTIVATED)
    found += [(each, cluster_queue_name(each, fleet), 0) for each in switched_off]
    for workload, name, position in found:
        if namespace in {None, workload.namespace}:
            jobset = fleet.jobset_by_uid.get(workload.owner_uid)
            owner = jobset.owner if jobset else ""
            yield _Workload(workload, name, position, why(workload, fleet), owner, workload.total(GPU))


def _held(jobs: Sequence[Held]) -> list[Row]:
    return [{"namespace": job.namespace, "name": job.name, "gpus": job.gpus, "owner": job.owner} for job in jobs]


class _Job(NamedTuple):
    job: JobSet
    health: Health
    why: Why
    pods: list[Row]


def jobs_of(fleet: Fleet, namespace: str | None, glances: Mapping[str, JobProgress] | None = None) -> Iterable[_Job]:
    """Youngest first; `glances`: what the ends of logs say, by uid."""
    from console.metrics.health import job_health
    from console.scheduling.ranks import ranks
    from console.scheduling.why_job import why_jobset

    for job in sorted(fleet.jobsets.values(), key=lambda each: (-each.created, each.key)):
        if namespace not in {None, job.namespace}:
            continue
        pods: list[Row] = [
            {
                "pod_index": rank.number,
                "group": rank.replicated_job,
                "pod": rank.pod.name if rank.pod else None,
                "node": rank.pod.node if rank.pod else None,
                "phase": rank.pod.phase if rank.pod else None,
                "status": rank.status,
                "exit_code": rank.exit_code,
                "restarts": rank.pod.restarts if rank.pod else 0,
            }
            for rank in ranks(job, fleet)
        ]
        health = job_health(job, fleet, glance=(glances or {}).get(job.uid))
        yield _Job(job, health, why_jobset(job, fleet), pods)


def _pods(fleet: Fleet, namespace: str | None) -> Iterable[Pod]:
    return (pod for _, pod in sorted(fleet.pods.items()) if namespace in {None, pod.namespace})


# how a table shows some values


def busbw(value: float | None) -> str:
    """GB/s without its unit."""
    return "" if value is None else f"{value:.0f}"


def briefly(faults: Sequence[str]) -> str:
    """Every fault, each cut to what a table has room for."""
    return "; ".join(shorten(each, FAULT_WIDTH, placeholder=" …") for each in faults)


def pods_done(ranks: Sequence[Row]) -> str:
    """How many of the ranks run or have succeeded."""
    return f"{sum(rank['phase'] in {'Running', 'Succeeded'} for rank in ranks)}/{len(ranks)}"


def health_json(health: Health) -> Row:
    return {"state": health.state, "level": health.level, "words": health.words}


def health_words(health: Row) -> str:
    """A mark where something is wrong or late, and the word."""
    bad = wording.BAD.text if health["state"] == "failed" else "▲"
    return {"bad": f"{bad} ", "late": "◐ "}.get(health["level"], "") + str(health["state"])


POOLS: Layout[Pool] = Layout(
    "nodes",
    ("pods",),
    _pools,
    (
        Column("name", "the pool; a machine type in brackets where nodes belong to no pool", lambda it: it.name,
               "POOL"),
        Column("machine_type", "GCE machine type", lambda it: it.machine_type, "MACHINE"),
        Column("zones", "zones of its nodes", lambda it: it.zones),
        Column("accelerator", "GPU type as the nodes' label has it", lambda it: it.accelerator),
        Column("provisioning", "reservation, spot, flex-start, queued or on demand", lambda it: it.provisioning,
               "PROVISIONING"),
        Column("reservation", "name of the reservation", lambda it: it.reservation),
        Column("nodes", "number of nodes", lambda it: it.nodes_total, "NODES", right=True),
        Column("ready", "nodes that are ready", lambda it: it.nodes_ready, "READY", right=True),
        Column("gpus", "allocatable GPUs", lambda it: it.gpus_total, "GPUS", right=True),
        Column("used", "GPUs requested by its pods", lambda it: it.gpus_used, "USED", right=True),
        Column("out", "GPUs of machines that take no pods, and lost ones; used + out + free = gpus",
               lambda it: it.gpus_out, "OUT", right=True),
        Column("free", "GPUs a new pod could have now", lambda it: it.gpus_free, "FREE", right=True),
        Column("free_slots", "hosts with all 8 GPUs free", lambda it: it.slots8, "x8", right=True),
        Column("free_large_slots", "times 64 GPUs on whole hosts of one block are free", lambda it: it.slots64, "x64",
               right=True),
        Column("faulty", "nodes with something wrong", lambda it: sorted({node for node, _ in it.faults}), "FAULTY"),
        Column("cordoned", "nodes that take no new pods", lambda it: [each.name for each in it.nodes if each.cordoned]),
        Column("maintenance", "nodes with maintenance scheduled or under way",
               lambda it: [each.node for each in it.maintenance], "MAINTENANCE"),
    ),
)  # fmt: skip

NODES: Layout[_Node] = Layout(
    "nodes",
    ("pods",),
    _nodes,
    (
        Column("name", "its name", lambda it: it.node.name, "NAME"),
        Column("pool", "node pool", lambda it: it.node.pool, "POOL"),
        Column("machine_type", "GCE machine type", lambda it: it.node.machine_type),
        Column("zone", "zone", lambda it: it.node.zone, "ZONE"),
        Column("provisioning", "reservation, spot, flex-start, queued or on demand", lambda it: it.node.provisioning),
        Column("reservation", "name of the reservation", lambda it: it.node.reservation),
        Column("block", "block of the network", lambda it: it.node.block, "BLOCK"),
        Column("subblock", "subblock of the network", lambda it: it.node.subblock, "SUBBLOCK"),
        Column("host", "physical host", lambda it: it.node.host),
        Column("ready", "whether it is ready", lambda it: it.node.ready, "READY"),
        Column("cordoned", "whether it takes no new pods", lambda it: it.node.cordoned, "CORDONED"),
        Column("gpus", "allocatable GPUs", lambda it: it.node.gpus, "GPUS", right=True),
        Column("used", "GPUs requested by its pods", lambda it: it.fleet.gpus_used.get(it.node.name, 0), "USED",
               right=True),
        Column("free", "GPUs a new pod could have now", lambda it: it.fleet.gpus_free(it.node), "FREE", right=True),
        Column("jobs", "JobSets with pods on it", lambda it: it.jobs, "JOBS"),
        Column("starting", "whether it was made a while ago and never ready so far",
               lambda it: it.node.starts(it.fleet.at), "STARTING", lambda starts: "yes" if starts else ""),
        Column("faults", "what is wrong with it", lambda it: it.node.faults(it.fleet.at), "FAULTS", briefly),
        Column("fault_reports", "the same: fault, by (who reported it), since (seconds since the epoch, or null)",
               lambda it: [{"fault": each.words, "by": each.by, "since": each.since or None}
                           for each in it.node.reports(it.fleet.at)]),
        Column("maintenance_at", "when maintenance is scheduled, seconds since the epoch",
               lambda it: it.node.maintenance_at or None),
        Column("last_busbw", "GB/s of its last NCCL health scan", lambda it: it.node.last_busbw, "BUSBW", busbw,
               right=True),
        Column("version", "kubelet version", lambda it: it.node.version),
        Column("created", "when it was made, seconds since the epoch", lambda it: it.node.created or None, "AGE",
               wording.since, right=True),
    ),
)  # fmt: skip

QUEUES: Layout[_Queue] = Layout(
    "clusterqueues",
    ("localqueues", "workloads", "cohorts"),
    _queues,
    (
        Column("name", "the ClusterQueue", lambda it: it.queue.name, "CLUSTERQUEUE"),
        Column("cohort", "queues it lends to and borrows from", lambda it: it.queue.cohort, "COHORT"),
        Column("strategy", "BestEffortFIFO or StrictFIFO", lambda it: it.queue.strategy),
        Column("nominal", "GPUs of its own", lambda it: it.account.nominal, "GPUS", right=True),
        Column("used", "GPUs reserved by its workloads", lambda it: it.account.used, "USED", right=True),
        Column("borrowed", "GPUs it uses beyond its own", lambda it: it.account.borrowed),
        Column("can_borrow", "GPUs of others it could have now, beyond those", lambda it: it.account.can_borrow),
        Column("borrows", "borrowed and can_borrow together", lambda it: it.account.borrows, "TO BORROW", right=True),
        Column("lent", "GPUs of its own in use by others", lambda it: it.account.lent, "LENT", right=True),
        Column("sum", "how that comes about: own + to borrow - used - lent = free", lambda it: it.account.words),
        Column("free", "GPUs a new workload could have now, borrowing included", lambda it: it.account.free, "FREE",
               right=True),
        Column("maximum", "GPUs its workloads could ever have at once", lambda it: it.account.total),
        Column("admitted", "admitted workloads", lambda it: it.queue.admitted, "ADMITTED", right=True),
        Column("pending", "waiting workloads", lambda it: it.queue.pending, "PENDING", right=True),
        Column("stopped", "why it admits nothing",
               lambda it: _stopped(it.queue.stop_policy, it.queue.inactive_reason), "STOPPED"),
        Column("local_queues", "its LocalQueues: namespace, name, used, admitted, pending, stopped",
               lambda it: it.local_queues, "LOCALQUEUES",
               lambda local: ", ".join(f"{each['namespace']}/{each['name']}" for each in local)),
    ),
)  # fmt: skip

WORKLOADS: Layout[_Workload] = Layout(
    "workloads",
    ("localqueues", "clusterqueues", "cohorts", "resourceflavors", "topologies", "nodes", "pods", "jobsets"),
    _workloads,
    (
        Column("cluster_queue", "its ClusterQueue", lambda it: it.cluster_queue, "CLUSTERQUEUE"),
        Column("position", "place in the queue, 1 is next; null: it waits in none", lambda it: it.position or None, "#",
               right=True),
        Column("namespace", "its namespace", lambda it: it.workload.namespace, "NAMESPACE"),
        Column("job", "the job it belongs to", lambda it: it.workload.owner_name or it.workload.name, "JOB"),
        Column("name", "its own name", lambda it: it.workload.name),
        Column("queue", "its LocalQueue", lambda it: it.workload.queue),
        Column("owner", "who launched its job", lambda it: it.owner, "OWNER"),
        Column("state", "pending (after an eviction too: see evictions), reserved, admitted, deactivated or finished",
               lambda it: "pending" if it.workload.waits else it.workload.state, "STATE"),
        Column("gpus", "GPUs it asks for", lambda it: it.gpus, "GPUS", right=True),
        Column("priority_class", "its priority class", lambda it: it.workload.priority_class, "PRIORITY CLASS"),
        Column("priority", "its priority", lambda it: it.workload.priority, "PRIORITY", right=True),
        Column("queued_since", "when its present wait began, seconds since the epoch; null: it waits in no queue",
               lambda it: it.workload.queued_since or None if it.position else None, "WAITS", wording.since,
               right=True),
        Column("category", "what kind of thing it waits for", lambda it: it.why.category),
        Column("why", "why it waits, in one sentence", lambda it: it.why.sentence, "WHY"),
        Column("short_by", "GPUs missing", lambda it: it.why.short_by),
        Column("holders", "who holds what it could use: namespace, name, gpus, owner",
               lambda it: _held(it.why.holders)),
        Column("unblocks", "the fewest running jobs whose end would make room, as in holders",
               lambda it: _held(it.why.unblocks)),
        Column("ahead", "jobs that Kueue evaluates first", lambda it: it.why.ahead),
        Column("kueue_says", "Kueue's own message", lambda it: it.why.api_text),
        Column("evictions", "how often it was evicted, by reason", lambda it: dict(it.workload.evictions)),
    ),
)  # fmt: skip

JOBS: Layout[_Job] = Layout(
    "jobsets",
    ("pods", "jobs", "workloads", "localqueues", "clusterqueues", "cohorts", "nodes", "resourceflavors", "events"),
    jobs_of,
    (
        Column("namespace", "its namespace", lambda it: it.job.namespace, "NAMESPACE"),
        Column("name", "the JobSet", lambda it: it.job.name, "JOB"),
        Column("recipe", "the recipe it was launched from", lambda it: it.job.recipe, "RECIPE"),
        Column("queue", "its LocalQueue", lambda it: it.job.queue, "QUEUE"),
        Column("owner", "who launched it", lambda it: it.job.owner, "OWNER"),
        Column("state", "how it is, by the end of its log too: its phase, or diverged, stalled, late or refused",
               lambda it: it.health.state),
        Column("phase", "of its JobSet: pending, starting, running, restarting, succeeded, failed or stopping",
               lambda it: it.job.state),
        Column("health", "the same state, with level"
               " (well: nothing is known to be wrong; waits, late or bad), words",
               lambda it: health_json(it.health), "STATE", health_words),
        Column("gpus", "GPUs of all its pods", lambda it: it.job.gpus, "GPUS", right=True),
        Column("pods", "its pods: pod_index, group, pod, node, phase, status, exit_code, restarts", lambda it: it.pods,
               "PODS", pods_done, right=True),
        Column("ranks", "the same by an older name, with rank for pod_index",
               lambda it: [{"rank": each["pod_index"], **each} for each in it.pods]),
        Column("restarts", "restarts of the whole JobSet", lambda it: it.job.restarts, "RESTARTS", right=True),
        Column("max_restarts", "restarts allowed", lambda it: it.job.max_restarts),
        Column("category", "what kind of thing it waits for", lambda it: it.why.category),
        Column("why", "why it does not run, or what is wrong with it, in one sentence",
               lambda it: it.health.words or it.why.sentence, "WHY"),
        Column("next", "what to do about it, where that is known", lambda it: it.why.next),
        Column("removed", "when it goes by itself, seconds since the epoch; null while it runs, or if it stays",
               lambda it: it.job.removed_at or None),
        Column("finished", "when it ended, seconds since the epoch; null while it has not",
               lambda it: it.job.finished_at or None),
        Column("created", "when it was made, seconds since the epoch", lambda it: it.job.created or None, "AGE",
               wording.since, right=True),
        Column("mine", "whether that was the account that asks", None),
    ),
)  # fmt: skip

PODS: Layout[Pod] = Layout(
    "pods",
    (),
    _pods,
    (
        Column("namespace", "its namespace", lambda it: it.namespace, "NAMESPACE"),
        Column("name", "its name", lambda it: it.name, "NAME"),
        Column("phase", "Pending, Running, Succeeded or Failed", lambda it: it.phase),
        Column("status", "its reason, or its phase", lambda it: it.status, "STATUS"),
        Column("ready", "whether all containers are ready", lambda it: it.ready, "READY"),
        Column("restarts", "restarts of its containers", lambda it: it.restarts, "RESTARTS", right=True),
        Column("gpus", "GPUs it asks for", lambda it: it.gpus, "GPUS", right=True),
        Column("node", "the node it is on", lambda it: it.node, "NODE"),
        Column("ip", "its address", lambda it: it.ip),
        Column("jobset", "the JobSet it belongs to", lambda it: it.jobset, "JOB"),
        Column("replicated_job", "its group in the JobSet", lambda it: it.replicated_job),
        Column("job_index", "index of its Job in the group; null outside JobSets",
               lambda it: None if it.job_index < 0 else it.job_index),
        Column("completion_index", "index of the pod in its Job; null outside Indexed Jobs",
               lambda it: None if it.completion_index < 0 else it.completion_index, "INDEX", right=True),
        Column("attempt", "restart attempt of the JobSet", lambda it: it.attempt),
        Column("message", "what the API says of it", lambda it: it.message or it.unschedulable),
        Column("created", "when it was made, seconds since the epoch", lambda it: it.created or None, "AGE",
               wording.since, right=True),
    ),
)  # fmt: skip

WAIT_KINDS = (JOBS.kind, *JOBS.uses)
"""What the reason for a wait is made of."""

LAYOUTS: dict[str, Layout[Any]] = {
    "pools": POOLS, "nodes": NODES, "queues": QUEUES, "workloads": WORKLOADS, "jobs": JOBS, "pods": PODS,
}  # fmt: skip
