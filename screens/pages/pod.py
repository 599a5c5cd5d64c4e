"""The page of one pod: state, containers, conditions and events."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.objects.pod import Container, Pod
from console.kube.snapshot import Fleet
from screens.columns.column import Column, since
from screens.columns.pods import status_cell
from screens.dialogs.pod_actions import Key, PodActions
from screens.widgets.pane import Fact, Facts
from screens.widgets.table.events import EventTable
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import BAD, DONE, OK, WAITS, Cell, Span, clock, duration, moment, sentence


def container_cell(container: Container) -> Cell:
    mark = OK if container.state == "running" and container.ready else WAITS
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
    EMPTY = Notice("No container has been reported yet.")
    COLUMNS: ClassVar = (
        Column("CONTAINER", lambda each: Span(each.name, "strong"), least=9, most=40),
        Column("", lambda each: Span("init" if each.init else "", "dim"), width=4, drop=3),
        Column("STATE", container_cell, least=12, most=40),
        Column("EXIT CODE", exit_cell, least=9, most=40),
        Column("RESTARTS", lambda each: str(each.restarts), width=8, right=True, drop=2),
        since("UP", lambda each: each.started if each.state == "running" else 0.0),
        Column("MESSAGE", lambda each: sentence(each.message), fill=True, least=8, drop=1),
    )


def pod_facts(pod: Pod, now: float) -> tuple[Fact, ...]:
    rank = f"{pod.replicated_job} job {pod.job_index}, index {pod.completion_index}" if pod.replicated_job else ""
    return (
        ("Status", status_cell(pod)),
        ("Node", pod.node),
        ("IP", pod.ip),
        ("GPUs", str(pod.gpus or "")),
        ("Job", pod.jobset),
        ("Owner", f"{pod.owner_kind} {pod.owner_name}".strip()),
        ("Index", rank),
        ("Attempt", str(pod.attempt) if pod.attempt else ""),
        ("Created", f"{duration(now - pod.created)} ago, {clock(pod.created)}" if pod.created else ""),
        ("Started", moment(pod.started, now)),
        ("Ready", "yes" if pod.ready else "no"),
        ("Gates", Span(", ".join(pod.gated), "waits")),
        ("Going since", Span(moment(pod.deleting_since, now), "waits")),
        ("Not placed", Span(sentence(pod.unschedulable), "waits")),
        ("Message", Span(sentence(pod.message), "waits")),
    )


class PodScreen(PodActions):
    CSS_PATH = "pods.tcss"
    KINDS = ("pods", "events")
    OF_CLUSTER = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "open_job", "Its job", id="pod.job"),
    ]
    facts = getters.query_one(Facts)
    containers = getters.query_one(ContainerTable)
    events = getters.query_one(EventTable)

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self.key = (namespace, name)
        self.crumb = name

    def body(self) -> ComposeResult:
        yield Facts(classes="of-snapshot")
        yield ContainerTable()
        yield EventTable()

    def show_fleet(self, fleet: Fleet) -> None:
        pod = fleet.pods.get(self.key)
        if pod is None:
            self.facts.facts = (("Status", Span("gone: the pod was deleted, or never was", "waits")),)
            self.containers.show_rows({}, fleet.links.get("pods"))
        else:
            self.facts.facts = pod_facts(pod, time.time())
            self.containers.styles.height = len(pod.containers) + 2
            self.containers.show_rows({(each.name,): each for each in pod.containers}, fleet.links.get("pods"))
        told = fleet.events_by_object.get(pod.uid, ()) if pod else ()
        rows = {(event.namespace, event.name): event for event in reversed(told)}
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
