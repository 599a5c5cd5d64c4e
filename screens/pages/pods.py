"""The page of all pods, and the page of one: state, containers, conditions and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.objects.pod import Container, Pod
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.work_slices import key_expected
from screens.columns.column import Column, age_column
from screens.columns.pods import PODS, status_cell
from screens.dialogs.pod_actions import Key, PodActions
from screens.list_and_pane import PanedScreen
from screens.live_screen import ONLY_MINE
from screens.widgets.side_pane import FactsWidget, Lines, event_lines, fact_lines, whole_lines
from screens.widgets.table.events import EventTable
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SummaryLine
from screens.wording import (
    BAD,
    DONE,
    OK,
    UNDER_WAY,
    Cell,
    Fact,
    Span,
    clock,
    count,
    duration,
    moment,
    pod_glyph,
    sentence,
    spans_of,
)

ROWS_AT_ONCE, ROWS_AT_ONCE_AMONG_KEYS = 4_000, 2_000
"""Maximum new pods that one drawing adds to the table; the second while keys are likely, as they would wait for it."""


class PodTally:
    """Counts of pods by status, updated from changes without counting all pods again."""

    def __init__(self) -> None:
        self._count_by_status: Counter[str] = Counter()
        self._ready_by_status: dict[str, bool] = {}

    def count_changes(self, changes: Iterable[tuple[Pod | None, Pod | None]]) -> None:
        """Update the counts by (old, new) pairs; None stands for a missing pod."""
        for old, new in changes:
            if old is not None:
                self._count_by_status[old.status] -= 1
            if new is not None:
                self._count_by_status[new.status] += 1
                self._ready_by_status[new.status] = new.ready

    @property
    def spans(self) -> tuple[Span, ...]:
        """The counts as spans: the total, then by status, most frequent first."""
        total = self._count_by_status.total()
        if not total:
            return ()
        runs = [Span(f"{count(total, 'pod')}   ", "strong")]
        for status, number in sorted((+self._count_by_status).items(), key=lambda each: (-each[1], each[0])):
            runs += [pod_glyph(status, is_ready=self._ready_by_status[status]), Span(f" {number:,} {status}   ", "dim")]
        return tuple(runs)


class PodTable(ResourceTable["Pod"]):
    """A table of pods, of the whole cluster or of one node."""

    LIST = "pods"
    NOUN = "pod"
    EMPTY = EmptyNotice("No pods.", "5 launches a job.")
    COLUMNS: ClassVar = PODS.columns

    def row_text(self, row: Pod) -> str:
        return f"{row.namespace} {row.name} {row.status} {row.jobset or row.owner_name} {row.node} {row.ip}"


class AllPods(PodTable):
    SORTED_BY = "JOB"
    owners: Mapping[Key, str] = MappingProxyType({})  # the words by which owners of jobs are found

    def row_text(self, row: Pod) -> str:
        return f"{super().row_text(row)} {self.owners.get((row.namespace, row.jobset), '')}"

    def show_owners(self, owners: Mapping[Key, str]) -> None:
        if owners != self.owners:
            self.owners = owners
            self.forget_search_texts()


class PodsScreen(PanedScreen, PodActions):
    KINDS = ("pods",)
    ROW_PAGE = "pod"
    BINDINGS: ClassVar[list[BindingType]] = [ONLY_MINE]
    table = getters.query_one(AllPods)
    summary = getters.query_one(SummaryLine)

    def __init__(self) -> None:
        super().__init__()
        self._tally = PodTally()

    def body(self) -> ComposeResult:
        yield SummaryLine(classes="of-snapshot")
        yield from self.beside_pane(AllPods())

    def show_fleet(self, fleet: Fleet) -> None:
        self.table.show_owners({key: self.app.owner_words(*key) for key in fleet.jobsets})
        at_once = ROWS_AT_ONCE_AMONG_KEYS if key_expected() else ROWS_AT_ONCE
        self.table.show_rows(self.in_chosen_namespace(fleet.pods), fleet.links.get("pods"), at_once)
        self._tally.count_changes(self.table.listing.changes)
        self.summary.runs = self._tally.spans
        self.redraw_pane()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        pod = self.table.row
        if pod is None:
            return []
        found = [*whole_lines([Span(pod.name, "strong")], width), [], *fact_lines(pod_facts(pod, now), width), []]
        for each in pod.containers:
            exit_code = spans_of(exit_cell(each))
            label = [Span("exit code ", "dim")] if each.exit_code is not None else []
            found.append([*spans_of(container_cell(each)), Span(f"  {each.name}  ", "dim"), *label, *exit_code])
        events = reversed(self.app.fleet.events_by_object.get(pod.uid, ()))
        return [*found, *event_lines(events, now, width, height - len(found))]

    @property
    def pod_keys(self) -> list[Key]:
        return self.table.chosen_keys


def container_cell(container: Container) -> Cell:
    mark = OK if container.state == "running" and container.ready else UNDER_WAY
    if container.state == "terminated":
        mark = BAD if container.exit_code else DONE
    return [mark, Span(f" {container.state} {container.reason}".rstrip())]


def exit_cell(container: Container) -> Cell:
    if container.exit_code is not None:
        return Span(str(container.exit_code), "bad" if container.exit_code else "dim")
    if container.last_exit_code is not None:
        return Span(f"before: exit code {container.last_exit_code} {container.last_reason}".rstrip(), "waits")
    return ""


class ContainerTable(ResourceTable[Container]):
    NOUN = "container"
    EMPTY = EmptyNotice("No container has been reported yet.")
    COLUMNS: ClassVar = (
        Column("CONTAINER", lambda each: Span(each.name, "strong"), least=9, most=40),
        Column("", lambda each: Span("init" if each.init else "", "dim"), width=4, drop=3),
        Column("STATE", container_cell, least=12, most=40),
        Column("EXIT CODE", exit_cell, least=9, most=40),
        Column("RESTARTS", lambda each: str(each.restarts), width=8, right=True, drop=2),
        age_column("UP", lambda each: each.started if each.state == "running" else 0.0),
        Column("MESSAGE", lambda each: sentence(each.message), fill=True, least=8, drop=1),
    )


def pod_facts(pod: Pod, now: float) -> tuple[Fact, ...]:
    rank = f"{pod.replicated_job} job {pod.job_index}, index {pod.completion_index}" if pod.replicated_job else ""
    return (
        ("Status", status_cell(pod)),
        ("Namespace", pod.namespace),
        ("Node", pod.node),
        ("IP", pod.ip),
        ("GPUs", str(pod.gpus or "")),
        ("Job", pod.jobset),
        ("Controlled by", f"{pod.owner_kind} {pod.owner_name}".strip()),
        ("Index", rank),
        ("Attempt", str(pod.attempt) if pod.attempt else ""),
        ("Created", f"{duration(now - pod.created)} ago, {clock(pod.created)}" if pod.created else ""),
        ("Started", moment(pod.started, now)),
        ("Ready", "yes" if pod.ready else "no"),
        ("Gates", Span(", ".join(pod.gated), "waits")),
        ("Going since", Span(moment(pod.deletion_asked_at, now), "waits")),
        ("Not placed", Span(sentence(pod.unschedulable), "waits")),
        ("Message", Span(sentence(pod.message), "waits")),
    )


class PodScreen(PodActions):
    CSS_PATH = "pods.tcss"
    KINDS = ("pods", "events")
    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "open_job", "Its job", id="pod.job")]
    facts = getters.query_one(FactsWidget)
    containers = getters.query_one(ContainerTable)
    events = getters.query_one(EventTable)

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self.key = (namespace, name)
        self.trail_name = name

    def body(self) -> ComposeResult:
        yield FactsWidget(classes="of-snapshot")
        yield ContainerTable()
        yield EventTable()

    def show_fleet(self, fleet: Fleet) -> None:
        pod = fleet.pods.get(self.key)
        if pod is None:
            self.facts.facts = (("Status", Span("gone: the pod was deleted, or never was", "waits")),)
            self.containers.show_rows({}, fleet.links.get("pods"))
        else:
            self.facts.facts = pod_facts(pod, SERVER_CLOCK.now())
            self.containers.styles.height = len(pod.containers) + 2
            self.containers.show_rows({(each.name,): each for each in pod.containers}, fleet.links.get("pods"))
        events = fleet.events_by_object.get(pod.uid, ()) if pod else ()
        rows = {(event.namespace, event.name): event for event in reversed(events)}
        self.events.show_rows(rows, fleet.links.get("events"))

    @property
    def pod_keys(self) -> list[Key]:
        return [self.key]

    @property
    def container(self) -> str:
        return self.containers.cursor[0] if self.containers.cursor else ""

    def action_open_job(self) -> None:
        pod = self.app.fleet.pods.get(self.key)
        if pod is not None and pod.jobset:
            self.app.open_page("job", pod.namespace, pod.jobset)

    def offers(self) -> dict[str, object]:
        pod = self.app.fleet.pods.get(self.key)
        return {"open_job": pod and pod.jobset}

    @on(ResourceTable.Opened)
    def _open_log(self, event: ResourceTable.Opened) -> None:
        self.app.open_page("log", *self.key, event.key[0])
