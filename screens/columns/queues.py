"""Cells and columns of queues and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, LocalQueue
from console.kube.objects.workload import Workload, WorkloadState
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.health import HealthLevel, JobHealth
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.kueue_snapshot import cluster_queue_name, gpu_flavors, queue_order
from console.scheduling.quota_ledger import flavor_account, queue_account
from console.scheduling.why import QuotaAccount, QuotaHolder, Why
from console.scheduling.why_workload import why_workload
from screens import wording
from screens.columns.column import COMMAND, Column, ListLayout, as_json, fact
from screens.columns.jobs import health_spans, start_json, start_time
from screens.wording import Cell, Span

if TYPE_CHECKING:
    from typing import Any


OWN_QUOTA, BORROWED_QUOTA, FREE_QUOTA = "█", "▓", "░"


def quota_bar(used: int, nominal: int, borrowed: int, width: int) -> list[Span]:
    """A bar scaled to the larger of quota and usage: own usage full, borrowed shaded, free light."""
    whole = max(nominal, used)
    if whole <= 0 or width <= 0:
        return [Span(" " * max(0, width))]
    own = max(0, used - borrowed)
    ends = [round(width * part / whole) for part in (own, used)]
    if own and not ends[0]:
        ends[0] = 1
    if borrowed and ends[1] <= ends[0]:
        ends = [min(ends[0], width - 1), min(ends[0], width - 1) + 1]
    ends[1] = max(ends)
    if used < whole:
        ends = [min(end, width - 1) for end in ends]
    runs = [
        Span(OWN_QUOTA * ends[0], "accent"),
        Span(BORROWED_QUOTA * (ends[1] - ends[0]), "waits"),
        Span(FREE_QUOTA * (width - ends[1]), "faint"),
    ]
    return [run for run in runs if run.text]


class WaitingStart(Struct, frozen=True):
    """The expected start of a waiting workload, as a row shows it."""

    workload: Workload
    start: ExpectedStart
    snapshot_at: float  # of the snapshot


class QueueLine(Struct, frozen=True):
    queue: ClusterQueue
    account: QuotaAccount
    local_queues: tuple[LocalQueue, ...] = ()
    flavors: tuple[tuple[str, int], ...] = ()  # GPUs free of each: a workload gets those of one
    waiting: tuple[WaitingStart, ...] = ()  # in Kueue's order, if somebody has asked

    @property
    def flavor_text(self) -> str:
        """The free quota by flavor, as a workload uses only one: "a 8, b 16"; empty for fewer than two."""
        return ", ".join(f"{name} {free:,}" for name, free in self.flavors) if len(self.flavors) > 1 else ""

    @property
    def sum_text(self) -> str:
        return f"{self.account.sum_text}{f', by flavor {self.flavor_text}' if self.flavor_text else ''}"


@dataclass(frozen=True)
class WorkloadLine:
    """A row with a workload, its position in the queue, and the snapshot that explains it."""

    workload: Workload
    position: int  # 1 is tried first; 0: it holds quota
    queue: str  # ClusterQueue; "": none
    owner: str
    fleet: Fleet
    health: JobHealth | None = None  # how its job is; None: it stands for none that is seen
    owner_text: str = ""  # its owner, "you" for whoever looks
    start: ExpectedStart | None = None  # when it would start, if it waits and somebody has asked

    @property
    def gpus(self) -> int:
        return self.workload.total(GPU)

    @cached_property
    def why(self) -> Why:
        return why_workload(self.workload, self.fleet, self.start)

    @property
    def state_since(self) -> float:
        """The time (epoch seconds) when the workload began to wait, or when it got its quota."""
        if self.position:
            return self.workload.queued_since
        reserved = next((each for each in self.workload.conditions if each.type == "QuotaReserved"), None)
        return reserved.since if reserved else self.workload.created


def queue_state(stop_policy: str, inactive_reason: str) -> Cell:
    """A cell that shows whether a queue admits workloads, and if not, why."""
    if stop_policy == "HoldAndDrain":
        return [Span("✗ ", "bad"), Span("stopped, drained", "bad")]
    if stop_policy not in {"", "None"}:
        return [Span("‖ ", "waits"), Span("stopped", "waits"), Span(": admits no new workloads", "dim")]
    if inactive_reason:
        return [Span("✗ ", "bad"), Span(f"inactive: {wording.sentence(inactive_reason)}", "bad")]
    return [Span("● ", "ok"), Span("active", "dim")]


def _amount(amount: int, style: str = "") -> Cell:
    return Span(f"{amount:,}", style) if amount else Span("0", "dim")


def _position_cell(line: WorkloadLine) -> Cell:
    return Span(str(line.position), "strong") if line.position else Span("─", "faint")


def _wait_cell(line: WorkloadLine) -> Cell:
    since = wording.age(SERVER_CLOCK.now() - line.state_since) if line.state_since else ""
    return Span(since, "waits" if line.position else "dim")


def _reason_cell(line: WorkloadLine) -> Cell:
    state = line.workload.state
    if not line.position and state is WorkloadState.ADMITTED:
        if line.health is not None and line.health.level in {HealthLevel.BAD, HealthLevel.LATE}:
            glyph, word = health_spans(line.health)
            return [glyph, Span(f"{word.text} {_flavors_text(line.workload)}".rstrip(), word.style)]
        return [Span("● ", "ok"), Span(f"running {_flavors_text(line.workload)}".rstrip(), "dim")]
    sentence = wording.sentence(line.why.brief)
    glyph = wording.job_glyph(state)
    return [Span(f"{glyph.text} ", glyph.style), Span(sentence or str(state))]


def _flavors_text(workload: Workload) -> str:
    names = sorted({flavor for group in workload.pod_sets for resource, flavor in group.flavors if resource == GPU})
    return f"on {', '.join(names)}" if names else ""


def name_of(workload: Workload) -> str:
    return workload.owner_name or workload.name


def _used_bar(line: QueueLine, width: int) -> Cell:
    """A bar of used and borrowed quota, with both numbers."""
    account = line.account
    bar = quota_bar(account.used, account.nominal, account.borrowed, width - 12)
    return [*bar, Span(f" {account.used:>4} / {account.nominal:<4}")]


def _free_cell(line: QueueLine) -> Cell:
    """A cell with the free quota of each flavor, joined by "+" and not added: a workload uses only one."""
    parts = [free for _, free in line.flavors if free] if len(line.flavors) > 1 else [line.account.free]
    return Span("+".join(f"{free:,}" for free in parts) or "0", "ok" if any(parts) else "dim")


def why_stopped(queue: ClusterQueue | LocalQueue) -> str | None:
    """The reason why a queue is stopped, by its policy or status; None if it is not stopped."""
    if queue.stop_policy not in {"", "None"}:
        return f"stopPolicy {queue.stop_policy}"
    return queue.inactive_reason or None


LOCAL_QUEUES: tuple[Column[LocalQueue], ...] = (
    fact("name", "", lambda queue: queue.name),
    fact("namespace", "", lambda queue: queue.namespace),
    fact("used", "", lambda queue: queue.in_use()),
    fact("admitted", "", lambda queue: queue.admitted),
    fact("pending", "", lambda queue: queue.pending),
    fact("stopped", "", why_stopped),
)


def queue_lines(
    fleet: Fleet,
    _namespace: str | None,
    _whose: Callable[[str], str],
    expected_starts: Mapping[tuple[str, str], ExpectedStart] | None = None,
) -> Iterable[QueueLine]:
    known = expected_starts or {}
    for queue in sorted(fleet.cluster_queues.values(), key=lambda each: each.name):
        locals_ = (each for each in fleet.local_queues.values() if each.cluster_queue == queue.name)
        waiting = (each for each in queue_order(fleet, queue.name).pending if each.key in known)
        expected = tuple(WaitingStart(each, known[each.key], fleet.at) for each in waiting)
        yield queue_line(queue, fleet, tuple(sorted(locals_, key=lambda each: each.key)), expected)


def queue_line(
    queue: ClusterQueue, fleet: Fleet, local_queues: tuple[LocalQueue, ...] = (), starts: tuple[WaitingStart, ...] = ()
) -> QueueLine:
    flavors = tuple((flavor, flavor_account(fleet, queue.name, flavor).free) for flavor in gpu_flavors(queue))
    return QueueLine(queue, queue_account(fleet, queue.name), local_queues, flavors, starts)


def _starts_json(line: QueueLine) -> list[dict[str, Any]]:
    return [
        {
            "namespace": each.workload.namespace,
            "job": name_of(each.workload),
            "expected_start": start_json(each.start, each.snapshot_at),
        }
        for each in line.waiting
    ]


def workload_lines(
    fleet: Fleet,
    namespace: str | None,
    name_owner: Callable[[str], str],
    expected_starts: Mapping[tuple[str, str], ExpectedStart] | None = None,
) -> Iterable[WorkloadLine]:
    """Unfinished workloads (`namespace` None: of all) by ClusterQueue: waiting ones in Kueue's order, then others."""
    found: list[tuple[Workload, str, int]] = []
    for name in sorted({cluster_queue_name(each, fleet) for each in fleet.workloads.values()}):
        queue = queue_order(fleet, name)
        found += [(each, name, position) for position, each in enumerate(queue.pending, start=1)]
        found += [(each, name, 0) for each in queue.running]
    switched_off = (each for each in fleet.workloads.values() if each.state is WorkloadState.DEACTIVATED)
    found += [(each, cluster_queue_name(each, fleet), 0) for each in switched_off]
    for workload, name, position in found:
        if namespace in {None, workload.namespace}:
            jobset = fleet.jobset_by_uid.get(workload.owner_uid)
            owner = jobset.owner if jobset else ""
            start = (expected_starts or {}).get(workload.key) if position else None
            yield WorkloadLine(workload, position, name, owner, fleet, owner_text=name_owner(owner), start=start)


def _holders_json(jobs: Sequence[QuotaHolder]) -> list[dict[str, Any]]:
    return [{"namespace": job.namespace, "name": job.name, "gpus": job.gpus, "owner": job.owner} for job in jobs]


QUEUES: ListLayout[QueueLine] = ListLayout(
    "clusterqueues",
    ("localqueues", "workloads", "cohorts"),
    queue_lines,
    (
        Column("CLUSTERQUEUE", lambda line: line.queue.name, "name", "the ClusterQueue", least=8, sort=True,
               style="strong"),
        Column("COHORT", lambda line: Span(line.queue.cohort or "─", "dim"), "cohort",
               "queues it lends to and borrows from", lambda line: line.queue.cohort, most=16, drop=4),
        fact("nominal", "GPUs of its own", lambda line: line.account.nominal),
        Column("GPUS USED / QUOTA", lambda line: f"{line.account.used} / {line.account.nominal}", "used",
               "GPUs reserved by its workloads", lambda line: line.account.used, width=24, draw=_used_bar),
        fact("borrowed", "GPUs it uses beyond its own", lambda line: line.account.borrowed),
        fact("can_borrow", "GPUs of others it could have now, beyond those", lambda line: line.account.can_borrow),
        Column("TO BORROW", lambda line: _amount(line.account.borrows), "borrows", "borrowed and can_borrow together",
               lambda line: line.account.borrows, width=9, right=True, drop=2),
        Column("LENT", lambda line: _amount(line.account.lent, "waits"), "lent", "GPUs of its own in use by others",
               lambda line: line.account.lent, width=4, right=True, drop=2),
        fact("sum", "how that comes about: own + to borrow - used - lent = free", lambda line: line.sum_text),
        Column("FREE", _free_cell, "free",
               "GPUs that are free now, borrowing included, of all its flavors together: a workload gets those of one",
               lambda line: line.account.free, least=5, most=16, right=True),
        Column("BY FLAVOR", lambda line: Span(line.flavor_text, "dim"), least=9, most=32, drop=6),
        fact("flavors", "flavor -> the part of free that it has", lambda line: dict(line.flavors)),
        fact("maximum", "GPUs its workloads could ever have at once", lambda line: line.account.total),
        Column("RUN", lambda line: _amount(line.queue.admitted), "admitted", "admitted workloads",
               lambda line: line.queue.admitted, width=4, right=True),
        Column("WAIT", lambda line: _amount(line.queue.pending, "waits"), "pending", "waiting workloads",
               lambda line: line.queue.pending, width=4, right=True),
        fact("waiting", "what waits in it, in Kueue's order: namespace, job, and expected_start as a4 workloads has it",
             _starts_json),
        Column("ORDER", lambda line: line.queue.strategy, "strategy", "BestEffortFIFO or StrictFIFO", width=14, drop=5,
               style="dim"),
        Column("LOCALQUEUES", lambda line: ", ".join(f"{each.namespace}/{each.name}" for each in line.local_queues),
               "local_queues", "its LocalQueues: namespace, name, used, admitted, pending, stopped",
               lambda line: as_json(LOCAL_QUEUES, line.local_queues), COMMAND),
        Column("STATE", lambda line: queue_state(line.queue.stop_policy, line.queue.inactive_reason), "stopped",
               "why it admits nothing", lambda line: why_stopped(line.queue), fill=True, least=8),
    ),
)  # fmt: skip

WORKLOADS: ListLayout[WorkloadLine] = ListLayout(
    "workloads",
    ("localqueues", "clusterqueues", "cohorts", "resourceflavors", "topologies", "nodes", "pods", "jobsets"),
    workload_lines,
    (
        Column("#", _position_cell, "position", "place in the queue, 1 is next; null: it waits in none",
               lambda line: line.position or None, width=3, right=True),
        Column("NAMESPACE", lambda line: line.workload.namespace, "namespace", "its namespace",
               least=9, most=16, drop=9, style="dim"),
        Column("WORKLOAD", lambda line: name_of(line.workload), "job", "the job it belongs to", least=12, most=40,
               cut="middle"),
        fact("name", "its own name", lambda line: line.workload.name),
        Column("OWNER", lambda line: wording.owner(line.owner_text or line.owner), "owner", "who launched its job",
               lambda line: line.owner, least=5, most=12, drop=3),
        Column("QUEUE", lambda line: Span(line.queue or "no queue", "dim"), "cluster_queue", "its ClusterQueue",
               lambda line: line.queue, least=5, most=20, drop=1),
        fact("queue", "its LocalQueue", lambda line: line.workload.queue),
        Column("STATE", lambda line: "pending" if line.workload.is_waiting else line.workload.state, "state",
               "pending (after an eviction too: see evictions), reserved, admitted, deactivated or finished",
               only=COMMAND),
        Column("GPUS", lambda line: f"{line.gpus or ''}", "gpus", "GPUs it asks for", lambda line: line.gpus, width=4,
               right=True),
        Column("PRIORITY", lambda line: Span(line.workload.priority_class or str(line.workload.priority or "─"), "dim"),
               "priority", "its priority", lambda line: line.workload.priority, width=8, drop=4),
        fact("priority_class", "its priority class", lambda line: line.workload.priority_class),
        Column("SINCE", _wait_cell, "queued_since",
               "when its present wait began, seconds since the epoch; null: it waits in no queue",
               lambda line: line.workload.queued_since or None if line.position else None, width=6, right=True,
               ages=True),
        Column("WHEN", lambda line: Span(start_time(line.start, line.fleet.at) if line.start else "", "dim"),
               "expected_start", "when it would start: at (seconds since the epoch; null: not known), after, "
               "latest, window, bounds, unknown and words as a4 forecast has them; null: it does not wait",
               lambda line: start_json(line.start, line.fleet.at) if line.start else None, least=15, most=35, drop=2),
        fact("category", "what kind of thing it waits for", lambda line: line.why.category),
        Column("WHY", _reason_cell, "why", "why it waits, in one sentence", lambda line: line.why.sentence, fill=True,
               least=27),
        fact("short_by", "GPUs missing", lambda line: line.why.short_by),
        fact("holders", "who holds what it could use: namespace, name, gpus, owner",
             lambda line: _holders_json(line.why.holders)),
        fact("unblocks", "jobs whose end it waits for: by expected_start, else the fewest that would do; as in holders",
             lambda line: _holders_json(line.why.unblocks)),
        fact("ahead", "jobs that Kueue evaluates first", lambda line: line.why.ahead),
        fact("kueue_says", "Kueue's own message", lambda line: line.why.api_text),
        fact("evictions", "how often it was evicted, by reason", lambda line: dict(line.workload.evictions)),
    ),
)  # fmt: skip
