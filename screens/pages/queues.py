"""The queues page: Kueue's queues and workloads, and why each workload waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from msgspec import structs
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.objects.workload import WorkloadState
from console.kube.snapshot import Fleet, WatchState
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.quota_ledger import queue_account
from screens import wording
from screens.alarm_toasts import has_changed, live_job_line
from screens.columns.column import RowKey
from screens.columns.jobs import JobLine, start_time, state_cell
from screens.columns.queues import (
    QUEUES,
    WORKLOADS,
    QueueLine,
    WorkloadLine,
    name_of,
    queue_line,
    why_stopped,
    workload_lines,
)
from screens.dialogs.why import MANY_LINES, WHY, show_why
from screens.list_and_pane import ReasonScreen
from screens.live_screen import ONLY_MINE, WHAT_IF
from screens.widgets.job_pane import course_lines, job_entry, job_lines, reason_lines, start_lines, waiting_lines
from screens.widgets.side_pane import Lines
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, fold_spans
from screens.wording import Span, spans_of

WIDE_COLUMNS = 130  # screen columns from which bars are long

MIN_LINES_PER_JOB = 5  # lines of each job that holds quota


class ClusterQueueTable(ResourceTable[QueueLine]):
    EMPTY = EmptyNotice("This cluster has no ClusterQueues.", "Jobs without a queue start at once, or not at all.")
    LIST = "cluster_queues"
    NOUN = "ClusterQueue"
    COLUMNS = QUEUES.columns

    def on_resize(self) -> None:
        width = 36 if self.size.width >= WIDE_COLUMNS else 24
        self.set_columns([structs.replace(each, width=width) if each.draw else each for each in self.COLUMNS])
        super().on_resize()


class WorkloadTable(ResourceTable[WorkloadLine]):
    EMPTY = EmptyNotice("Nothing waits and nothing runs in these queues.", "Launch a job with 5.")
    LIST = "workloads"
    COLUMNS = WORKLOADS.columns
    NOUN = "workload"

    def row_text(self, row: WorkloadLine) -> str:
        return f"{super().row_text(row)} {wording.owner_words(row.owner_text, row.owner)}"


class QueuesScreen(ReasonScreen):
    """The Queues page: ClusterQueues, their workloads in order, and why the selected one waits."""

    CSS_PATH = "queues.tcss"
    KINDS = ("clusterqueues", "localqueues", "workloads", "jobsets")
    BELOW = 35  # two lists stand above it
    BINDINGS: ClassVar[list[BindingType]] = [
        WHY,
        ONLY_MINE,
        Binding("y", "manifest", "YAML", id="queues.manifest", tooltip="The object under the cursor as YAML"),
        Binding("n", "launch", "Launch", id="queues.launch", tooltip="Start a job"),
        WHAT_IF,
    ]

    cluster_queues = getters.query_one(ClusterQueueTable)
    workloads = getters.query_one(WorkloadTable)
    caption = getters.query_one("#of-queue", SentenceLine)

    only: RowKey | None = None
    """The row key of the ClusterQueue whose workloads are shown; None: all queues."""

    def body(self) -> ComposeResult:
        yield from self.with_reason(
            ClusterQueueTable(), SentenceLine(id="of-queue", classes="of-snapshot"), WorkloadTable()
        )

    def on_mount(self) -> None:
        self._drawn_courses = {}
        self.workloads.focus()
        self.follow_jobs(lambda: [each.jobset.key for each in self._running_lines])

    _running_lines: Sequence[JobLine] = ()
    """The rows of running workloads' jobs; their progress may change without a new snapshot."""
    _drawn_courses: dict[tuple[str, int, int], Lines]  # of the jobs that hold quota, as drawn since the last tick

    def tick(self) -> None:
        self._drawn_courses = {}
        if any(has_changed(self.app, line) for line in self._running_lines):
            self._show_workloads(self.app.fleet)
        super().tick()

    def show_fleet(self, fleet: Fleet) -> None:
        self._show_workloads(fleet)
        self.redraw_pane()

    def _show_workloads(self, fleet: Fleet) -> None:
        lines = [queue_line(queue, fleet) for _, queue in sorted(fleet.cluster_queues.items())]
        self.cluster_queues.show_rows({(line.queue.name,): line for line in lines}, fleet.links.get("clusterqueues"))
        narrowed = self.app.only_namespace
        jobs: list[JobLine] = []
        every = list(self._iter_workloads(fleet, jobs))
        self._running_lines, self._drawn_courses = jobs, {}
        rows: dict[RowKey, WorkloadLine] = {
            line.workload.key: line for line in every if narrowed in {"", line.workload.namespace}
        }
        self.workloads.show_rows(rows, fleet.links.get("workloads"))
        self._show_sums(rows.values(), sum(line.position > 0 for line in every if line.workload.key not in rows))
        self._show_row_reason()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        """The pane of the Queues page: the job of the selected workload, or why a workload waits."""
        row = self.workloads.row
        if row is None:
            return []
        jobset = row.fleet.jobset_by_uid.get(row.workload.owner_uid)
        if jobset is not None:
            line = live_job_line(self.app, jobset, row.fleet)
            measures = self.session.measures.find_followed(jobset.key) if self.app.connected else None
            return job_lines(line, measures, width, height, now, self.app.format_owner)
        return [[Span(name_of(row.workload), "strong")], *self._reason_lines(row, width, now)]

    def _reason_lines(self, row: WorkloadLine, width: int, now: float) -> Lines:
        jobset = row.fleet.jobset_by_uid.get(row.workload.owner_uid)
        if jobset is not None:
            return reason_lines(live_job_line(self.app, jobset, row.fleet), width, now, self.app.format_owner)
        words = wording.sentence(row.why.without_figures(row.start))
        own = wording.quotation(row.why, row.why.sentence)
        spans = [Span(words or "It does not wait."), Span(f"  {own}" if own else "", "dim")]
        starts = start_lines(row.start, width, now)
        waits = waiting_lines(row.why, width, self.app.format_owner)
        return [*fold_spans(spans, width), [], *starts, *waits]

    def action_why(self) -> None:
        if (row := self.workloads.row) is not None:
            show_why(self, name_of(row.workload), self._reason_lines(row, MANY_LINES, SERVER_CLOCK.now()))

    def under_lines(self, width: int, height: int, now: float) -> Lines:
        """The jobs that hold quota with their progress, below the lists of the Queues page."""
        found, row = list[list[Span]](), self.workloads.row
        for left, job in zip(range(len(self._running_lines), 0, -1), self._running_lines, strict=True):
            room = height - len(found) - MIN_LINES_PER_JOB * (left - 1) - 2
            found += job_entry(job, spans_of(state_cell(job))[0], now, width, state=False)
            if row is None or row.workload.owner_uid != job.jobset.uid:
                place = (job.jobset.uid, width, room)
                if place not in self._drawn_courses:
                    measures = self.session.measures.find_followed(job.jobset.key) if self.app.connected else None
                    without = "curves", "log", "steps"
                    lines = course_lines(job, measures, width, room, now, without=without, shows_saved=True)[:room]
                    self._drawn_courses[place] = lines
                found += self._drawn_courses[place]
        return [[Span("hold quota", "head")], *found] if found else []

    def _iter_workloads(self, fleet: Fleet, jobs: list[JobLine]) -> Iterable[WorkloadLine]:
        """Yield the rows of waiting workloads; append the jobs of workloads with quota to `jobs`."""
        starts = self.session.forecasts.starts if self.app.connected else None
        for line in workload_lines(fleet, None, self.app.format_owner, starts):
            if line.workload.state is not WorkloadState.DEACTIVATED and self.only in (None, (line.queue,)):
                jobset = fleet.jobset_by_uid.get(line.workload.owner_uid)
                if jobset is None or line.position:
                    yield line
                else:
                    jobs.append(live_job_line(self.app, jobset, fleet))
                    yield replace(line, health=jobs[-1].health)

    def _count_local_queues(self) -> str:
        """A text with the number of LocalQueues that lead to the listed queues; empty if unknown."""
        fleet = self.app.fleet
        link = fleet.links.get("localqueues")
        if link is None or link.state not in {WatchState.LIVE, WatchState.STALE}:
            return ""
        here = [
            each
            for each in fleet.local_queues.values()
            if self.app.only_namespace in {"", each.namespace} and self.only in (None, (each.cluster_queue,))
        ]
        shut = sum(why_stopped(each) is not None for each in here)
        return f"; {wording.count(len(here), 'LocalQueue')}" + (f", {shut} stopped" if shut else "")

    def _show_sums(self, lines: Iterable[WorkloadLine], waiting_elsewhere: int) -> None:
        """Show the totals of the listed workloads; `waiting_elsewhere`: the number waiting in other namespaces."""
        every = list(lines)
        waiting = [line for line in every if line.position]
        where = "all queues" if self.only is None else self.only[0]
        words = f"{wording.count(len(waiting), 'workload')} waiting for {sum(line.gpus for line in waiting):,} GPUs, "
        words += f"{len(every) - len(waiting):,} running on {sum(line.gpus for line in every if not line.position):,}"
        if self.app.only_namespace:
            words = f"in {self.app.only_namespace}: {words}; {waiting_elsewhere:,} more waiting in other namespaces"
        words += self._count_local_queues()
        if self.only is not None:
            words += f"; GPUs of quota, all flavors together: {queue_account(self.app.fleet, self.only[0]).sum_text}"
        back = [Span("   esc shows all queues", "dim")] if self.only else []
        self.caption.runs = (Span("── ", "faint"), Span(f"{where} ", "head"), Span(f"  {words}", "dim"), *back)

    @on(ResourceTable.Highlighted, "WorkloadTable")
    def _show_row_reason(self) -> None:
        if (line := self.workloads.row) is None:
            self.show_reason()
            return
        why = line.why
        runs = [Span(f"{name_of(line.workload)} ", "strong")]
        if line.start is not None and (line.start.at or line.start.earliest):
            runs.append(Span(f"{'' if line.start.checks else 'starts '}{start_time(line.start, line.fleet.at)}  "))
        runs.append(Span(wording.sentence(why.sentence) or "does not wait"))
        self.show_reason(*runs, Span(f"  {wording.quotation(why, why.sentence)}", "dim"))

    @on(ResourceTable.Opened)
    def open_row(self, event: ResourceTable.Opened) -> None:
        event.stop()
        if event.table is not self.workloads:
            self.only = None if self.only == event.key else event.key
            self.show_fleet(self.app.fleet)
            self.workloads.focus()
            return
        line = self.workloads.row
        if line is not None and line.workload.owner_uid in line.fleet.jobset_by_uid:
            self.app.open_page("job", line.workload.namespace, line.workload.owner_name)
        elif line is not None:
            what = f"{line.workload.owner_kind or 'It'} {line.workload.owner_name}".strip()
            self.notify(f"{what} is not a JobSet; y shows the Workload itself.")

    def action_back(self) -> None:
        """Show all queues again; if all are shown already, leave the page."""
        if self.only is not None and not self.workloads.filter_text:
            self.only = None
            self.show_fleet(self.app.fleet)
        else:
            super().action_back()

    def action_mine(self) -> None:
        """Toggle between all workloads and those that this person launched."""
        self.set_focus(self.workloads)
        super().action_mine()

    def action_manifest(self) -> None:
        table = self.focused if isinstance(self.focused, ResourceTable) else self.workloads
        if table.cursor:
            *namespace, name = table.cursor
            kind = "ClusterQueue" if table is self.cluster_queues else "Workload"
            self.app.open_page("object_yaml", kind, "".join(namespace), name)

    def action_what_if(self) -> None:
        row = self.workloads.row
        namespace, typed = (row.workload.namespace, f"stop {name_of(row.workload)}") if row else ("", "")
        self.app.open_page("what_if", namespace, typed)

    async def action_launch(self) -> None:
        await self.app.action_switch_mode("launch")
