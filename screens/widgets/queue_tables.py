"""Tables of queues and of the workloads in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from console.models.health import Level
from console.models.queue import GPU, LocalQueue
from console.models.why import why
from console.models.workload import WorkloadState
from screens import wording
from screens.widgets.bars import quota_bar, share_of
from screens.widgets.column import Column
from screens.widgets.job_line import health_runs
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.fleet import Fleet
    from console.models.health import Health
    from console.models.queue import ClusterQueue
    from console.models.quota import Account
    from console.models.workload import Workload
    from screens.wording import Cell

ROOMY = 130
"""Screen columns from which bars are long."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A ClusterQueue and its account in one picture."""

    queue: ClusterQueue
    account: Account


@dataclass(frozen=True, slots=True)
class WorkloadLine:
    """A workload, where it stands, and the picture its reason is worked out from when it is drawn."""

    workload: Workload
    position: int
    """1 is tried first; 0: it holds quota."""
    queue: str
    """ClusterQueue."""
    owner: str
    fleet: Fleet
    health: Health | None = None
    """How its job is; None: it stands for none that is seen."""
    whose: str = ""
    """Its owner, "you" for whoever looks."""

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return self.workload.total(GPU)

    @property
    def since(self) -> float:
        """When its wait began, or when it got its quota."""
        if self.position:
            return self.workload.queued_since
        reserved = next((each for each in self.workload.conditions if each.type == "QuotaReserved"), None)
        return reserved.since if reserved else self.workload.created


def queue_state(stop_policy: str, inactive_reason: str) -> Cell:
    """Whether a queue hands out anything, and if not, why."""
    if stop_policy == "HoldAndDrain":
        return [Run("✗ ", "bad"), Run("stopped, drained", "bad")]
    if stop_policy not in {"", "None"}:
        return [Run("‖ ", "waits"), Run("stopped", "waits"), Run(": admits nobody new", "dim")]
    if inactive_reason:
        return [Run("✗ ", "bad"), Run(f"inactive: {wording.sentence(inactive_reason)}", "bad")]
    return [Run("● ", "ok"), Run("active", "dim")]


def _number(amount: int, ink: str = "") -> Cell:
    return Run(f"{amount:,}", ink) if amount else Run("0", "faint")


def queue_columns(bar: int) -> Sequence[Column[QueueLine]]:
    """Columns of the ClusterQueues, with bars of that width."""

    def used(line: QueueLine) -> Cell:
        account = line.account
        amounts = Run(" " + share_of(account.used, account.nominal))
        return [*quota_bar(account.used, account.nominal, account.borrowed, bar), amounts]

    return (
        Column("CLUSTERQUEUE", lambda line: Run(line.queue.name, "strong"), least=8, sort=lambda line: line.queue.name),
        Column("COHORT", lambda line: Run(line.queue.cohort or "─", "dim"), most=16, drop=4),
        Column("GPUS USED / QUOTA", used, width=max(17, bar + 12)),
        Column("FREE", lambda line: _number(line.account.free, "ok"), width=4, right=True),
        Column("BORROWED", lambda line: _number(line.account.borrowed, "waits"), width=8, right=True, drop=2),
        Column("LENT", lambda line: _number(line.account.lent, "waits"), width=4, right=True, drop=2),
        Column("RUN", lambda line: _number(line.queue.admitted), width=4, right=True, key="ADMITTED"),
        Column("WAIT", lambda line: _number(line.queue.pending, "waits"), width=4, right=True, key="PENDING"),
        Column("ORDER", lambda line: Run(line.queue.strategy, "dim"), width=14, drop=5),
        Column("STATE", lambda line: queue_state(line.queue.stop_policy, line.queue.inactive_reason), fill=True),
    )


class ClusterQueueTable(ResourceTable[QueueLine]):
    """The pools of quota; Enter shows only that queue's workloads."""

    EMPTY = Notice("This cluster has no ClusterQueues.", "Jobs without a queue start at once, or not at all.")
    NOUN = "ClusterQueue"

    def on_resize(self) -> None:
        """Longer bars where there is room."""
        self.set_columns(queue_columns(24 if self.size.width >= ROOMY else 12))
        super().on_resize()


class LocalQueueTable(ResourceTable[LocalQueue]):
    """The doors to them, by namespace."""

    EMPTY = Notice("No LocalQueues.", "A job needs one in its namespace: ask who runs the cluster.")
    NOUN = "LocalQueue"
    COLUMNS: ClassVar = (
        Column("LOCALQUEUE", lambda queue: queue.name, least=8, sort=lambda queue: queue.name),
        Column("NAMESPACE", lambda queue: Run(queue.namespace, "dim"), least=9, sort=lambda queue: queue.namespace),
        Column("CLUSTERQUEUE", lambda queue: queue.cluster_queue or "─", least=8),
        Column("GPUS", lambda queue: _number(queue.in_use()), width=5, right=True),
        Column("RUN", lambda queue: _number(queue.admitted), width=4, right=True),
        Column("WAIT", lambda queue: _number(queue.pending, "waits"), width=4, right=True),
        Column("STATE", lambda queue: queue_state(queue.stop_policy, queue.inactive_reason), fill=True),
    )


def _place(line: WorkloadLine) -> Cell:
    return Run(str(line.position), "strong") if line.position else Run("─", "faint")


def _wait(line: WorkloadLine) -> Cell:
    since = wording.age(line.fleet.at - line.since) if line.since else ""
    return Run(since, "waits" if line.position else "dim")


def _reason(line: WorkloadLine) -> Cell:
    state = line.workload.state
    if not line.position and state is WorkloadState.ADMITTED:
        if line.health is not None and line.health.level in {Level.BAD, Level.LATE}:
            glyph, word = health_runs(line.health)
            return [glyph, Run(f"{word.text} {_where(line.workload)}".rstrip(), word.ink)]
        return [Run("● ", "ok"), Run(f"runs {_where(line.workload)}".rstrip(), "dim")]
    told = wording.sentence(why(line.workload, line.fleet).sentence)
    glyph = wording.job_glyph(state)
    return [Run(f"{glyph.text} ", glyph.ink), Run(told or str(state))]


def _where(workload: Workload) -> str:
    names = sorted({flavor for group in workload.pod_sets for resource, flavor in group.flavors if resource == GPU})
    return f"on {', '.join(names)}" if names else ""


def workload_columns(reason: int) -> Sequence[Column[WorkloadLine]]:
    """Columns of the workloads; the reason has at least that much room."""
    return (
        Column("#", _place, width=3, right=True),
        Column("WORKLOAD", lambda line: name_of(line.workload), least=12, most=40),
        Column("OWNER", lambda line: wording.owner(line.whose or line.owner), least=5, most=12, drop=2),
        Column("QUEUE", lambda line: Run(line.queue, "dim"), least=5, most=20, drop=3),
        Column("GPUS", lambda line: f"{line.gpus or ''}", width=4, right=True),
        Column("PRIORITY", lambda line: _priority(line.workload), width=8, drop=4),
        Column("SINCE", _wait, width=6, right=True),
        Column("WHY", _reason, fill=True, least=reason),
    )


class WorkloadTable(ResourceTable[WorkloadLine]):
    """Workloads in Kueue's order; Enter opens the job."""

    EMPTY = Notice("Nothing waits and nothing runs in these queues.", "Launch a job with 5.")
    NOUN = "workload"

    def row_text(self, row: WorkloadLine) -> str:
        """Every cell, and whose it is."""
        return f"{super().row_text(row)} {wording.whose(row.whose, row.owner)}"

    def on_resize(self) -> None:
        """The reason gets two fifths of the line; columns that matter less make room."""
        self.set_columns(workload_columns(max(24, 2 * self.size.width // 5)))
        super().on_resize()


def name_of(workload: Workload) -> str:
    """What people call it: the job it stands for."""
    return workload.owner_name or workload.name


def _priority(workload: Workload) -> Cell:
    return Run(workload.priority_class or str(workload.priority or "─"), "dim")
