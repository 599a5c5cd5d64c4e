"""What the listing commands show: declared columns, the same for text and for JSON.

A column's key is its JSON key. `a4 LIST --help` prints the keys with their meaning, so they are documented here.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from screens import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = dict[str, Any]
"""One object of a list, by column key."""
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
class Column:
    """One key of a list's objects."""

    key: str
    meaning: str
    title: str = ""
    """Of the table's column; empty: only in JSON."""
    say: Callable[[Any], str] = plain
    right: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one list, and the kinds of object they are made from."""

    kind: str
    """The kind without which there is not a list."""
    uses: tuple[str, ...]
    """Kinds that tell more where they can be read."""
    columns: tuple[Column, ...]


def busbw(value: float | None) -> str:
    """GB/s without its unit."""
    return "" if value is None else f"{value:.0f}"


def briefly(faults: Sequence[str]) -> str:
    """The first of the faults, cut to what a table has room for, and how many more there are."""
    if not faults:
        return ""
    more = f" +{len(faults) - 1}" if len(faults) > 1 else ""
    return shorten(faults[0], FAULT_WIDTH, placeholder=" …") + more


def pods_done(ranks: Sequence[Row]) -> str:
    """How many of the ranks run or have succeeded."""
    return f"{sum(rank['phase'] in {'Running', 'Succeeded'} for rank in ranks)}/{len(ranks)}"


def _yes_only(value: bool) -> str:
    return "yes" if value else ""


def health_words(health: Row) -> str:
    """A mark where something is wrong or late, and the word."""
    return {"bad": "▲ ", "late": "◐ "}.get(health["level"], "") + str(health["state"])


NAME = Column("name", "its name", "NAME")
NAMESPACE = Column("namespace", "its namespace", "NAMESPACE")
CREATED = Column("created", "when it was made, seconds since the epoch", "AGE", wording.since, right=True)

POOLS = Layout(
    "nodes",
    ("pods",),
    (
        Column("name", "the pool; a machine type in brackets where nodes belong to no pool", "POOL"),
        Column("machine_type", "GCE machine type", "MACHINE"),
        Column("zones", "zones of its nodes"),
        Column("accelerator", "GPU type as the nodes' label has it"),
        Column("provisioning", "reservation, spot, flex-start, queued or on demand", "PROVISIONING"),
        Column("reservation", "name of the reservation"),
        Column("nodes", "number of nodes", "NODES", right=True),
        Column("ready", "nodes that are ready", "READY", right=True),
        Column("gpus", "allocatable GPUs", "GPUS", right=True),
        Column("used", "GPUs requested by its pods", "USED", right=True),
        Column("out", "GPUs of machines that take no pods, and lost ones; used + out + free = gpus", "OUT", right=True),
        Column("free", "GPUs a new pod could have now", "FREE", right=True),
        Column("free_slots", "hosts with all 8 GPUs free", "x8", right=True),
        Column("free_large_slots", "times 64 GPUs on whole hosts of one block are free", "x64", right=True),
        Column("faulty", "nodes with something wrong", "FAULTY"),
        Column("cordoned", "nodes that take no new pods"),
        Column("maintenance", "nodes with maintenance scheduled or under way", "MAINTENANCE"),
    ),
)

NODES = Layout(
    "nodes",
    ("pods",),
    (
        NAME,
        Column("pool", "node pool", "POOL"),
        Column("machine_type", "GCE machine type"),
        Column("zone", "zone", "ZONE"),
        Column("provisioning", "reservation, spot, flex-start, queued or on demand"),
        Column("reservation", "name of the reservation"),
        Column("block", "block of the network", "BLOCK"),
        Column("subblock", "subblock of the network", "SUBBLOCK"),
        Column("host", "physical host"),
        Column("ready", "whether it is ready", "READY"),
        Column("cordoned", "whether it takes no new pods", "CORDONED"),
        Column("gpus", "allocatable GPUs", "GPUS", right=True),
        Column("used", "GPUs requested by its pods", "USED", right=True),
        Column("free", "GPUs a new pod could have now", "FREE", right=True),
        Column("jobs", "JobSets with pods on it", "JOBS"),
        Column("starting", "whether it was made a while ago and never ready so far", "STARTING", _yes_only),
        Column("faults", "what is wrong with it", "FAULTS", briefly),
        Column("fault_reports", "the same: fault, by (who reported it), since (seconds since the epoch, or null)"),
        Column("maintenance_at", "when maintenance is scheduled, seconds since the epoch"),
        Column("last_busbw", "GB/s of its last NCCL health scan", "BUSBW", busbw, right=True),
        Column("version", "kubelet version"),
        CREATED,
    ),
)

QUEUES = Layout(
    "clusterqueues",
    ("localqueues", "workloads", "cohorts"),
    (
        Column("name", "the ClusterQueue", "CLUSTERQUEUE"),
        Column("cohort", "queues it lends to and borrows from", "COHORT"),
        Column("strategy", "BestEffortFIFO or StrictFIFO"),
        Column("nominal", "GPUs of its own", "GPUS", right=True),
        Column("used", "GPUs reserved by its workloads", "USED", right=True),
        Column("borrowed", "GPUs it uses beyond its own", "BORROWED", right=True),
        Column("can_borrow", "GPUs of others it could have now"),
        Column("lent", "GPUs of its own in use by others", "LENT", right=True),
        Column("sum", "how that comes about: own + to borrow - used - lent = free"),
        Column("free", "GPUs a new workload could have now, borrowing included", "FREE", right=True),
        Column("maximum", "GPUs its workloads could ever have at once"),
        Column("admitted", "admitted workloads", "ADMITTED", right=True),
        Column("pending", "waiting workloads", "PENDING", right=True),
        Column("stopped", "why it admits nothing", "STOPPED"),
        Column("local_queues", "its LocalQueues: namespace, name, used, admitted, pending, stopped", "LOCALQUEUES",
               lambda doors: ", ".join(f"{door['namespace']}/{door['name']}" for door in doors)),
    ),
)  # fmt: skip

WORKLOADS = Layout(
    "workloads",
    ("localqueues", "clusterqueues", "cohorts", "resourceflavors", "topologies", "nodes", "pods", "jobsets"),
    (
        Column("cluster_queue", "its ClusterQueue", "CLUSTERQUEUE"),
        Column("position", "place in the queue, 1 is next; 0: it holds quota", "#", right=True),
        NAMESPACE,
        Column("job", "the job it belongs to", "JOB"),
        Column("name", "its own name"),
        Column("queue", "its LocalQueue"),
        Column("owner", "who launched its job", "OWNER"),
        Column("state", "pending, reserved, admitted, evicted, deactivated or finished", "STATE"),
        Column("gpus", "GPUs it asks for", "GPUS", right=True),
        Column("priority", "its priority", "PRIORITY", right=True),
        Column("priority_class", "its priority class"),
        Column(
            "queued_since", "when its present wait began, seconds since the epoch", "WAITS", wording.since, right=True
        ),
        Column("category", "what kind of thing it waits for"),
        Column("why", "why it waits, in one sentence", "WHY"),
        Column("short_by", "GPUs missing"),
        Column("holders", "who holds what it could use: namespace, name, gpus, owner"),
        Column("unblocks", "the fewest running jobs whose end would make room, as in holders"),
        Column("ahead", "jobs that Kueue evaluates first"),
        Column("kueue_says", "Kueue's own message"),
        Column("evictions", "how often it was evicted, by reason"),
    ),
)

JOBS = Layout(
    "jobsets",
    ("pods", "jobs", "workloads", "localqueues", "clusterqueues", "cohorts", "nodes", "resourceflavors", "events"),
    (
        NAMESPACE,
        Column("name", "the JobSet", "JOB"),
        Column("recipe", "the recipe it was launched from", "RECIPE"),
        Column("queue", "its LocalQueue", "QUEUE"),
        Column("owner", "who launched it", "OWNER"),
        Column("state", "of its JobSet: pending, starting, running, restarting, succeeded, failed or stopping"),
        Column("health", "how it is, by the end of its log too: state (also diverged, stalled, late, refused), level"
               " (well: nothing is known to be wrong; waits, late or bad), words", "STATE", health_words),
        Column("gpus", "GPUs of all its pods", "GPUS", right=True),
        Column("pods", "its pods: pod_index, group, pod, node, phase, status, exit_code, restarts", "PODS",
               pods_done, right=True),
        Column("ranks", "the same by an older name, with rank for pod_index"),
        Column("restarts", "restarts of the whole JobSet", "RESTARTS", right=True),
        Column("max_restarts", "restarts allowed"),
        Column("category", "what kind of thing it waits for"),
        Column("why", "why it does not run, or what is wrong with it, in one sentence", "WHY"),
        Column("next", "what to do about it, where that is known"),
        Column("removed", "when it goes by itself, seconds since the epoch; null while it runs, or if it stays"),
        Column("finished", "when it ended, seconds since the epoch; null while it has not"),
        CREATED,
        Column("mine", "whether that was the account that asks"),
    ),
)  # fmt: skip

PODS = Layout(
    "pods",
    (),
    (
        NAMESPACE,
        NAME,
        Column("phase", "Pending, Running, Succeeded or Failed"),
        Column("status", "its reason, or its phase", "STATUS"),
        Column("ready", "whether all containers are ready", "READY"),
        Column("restarts", "restarts of its containers", "RESTARTS", right=True),
        Column("gpus", "GPUs it asks for", "GPUS", right=True),
        Column("node", "the node it is on", "NODE"),
        Column("ip", "its address"),
        Column("jobset", "the JobSet it belongs to", "JOB"),
        Column("replicated_job", "its group in the JobSet"),
        Column("job_index", "index of its Job in the group; null outside JobSets"),
        Column("completion_index", "index of the pod in its Job; null outside Indexed Jobs", "INDEX", right=True),
        Column("attempt", "restart attempt of the JobSet"),
        Column("message", "what the API says of it"),
        CREATED,
    ),
)

WAIT_KINDS = (JOBS.kind, *JOBS.uses)
"""What the reason for a wait is made of."""

LAYOUTS = {"pools": POOLS, "nodes": NODES, "queues": QUEUES, "workloads": WORKLOADS, "jobs": JOBS, "pods": PODS}
