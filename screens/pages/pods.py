"""The page of all pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.app import ComposeResult

from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.yielding import keys_soon
from screens.columns.pods import PODS
from screens.dialogs.pod_actions import Key, PodActions
from screens.pages.pod import container_cell, exit_cell, pod_facts
from screens.paned import PanedScreen
from screens.widgets.pane import Lines, event_lines, fact_lines
from screens.widgets.sentence_line import SummaryLine
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable
from screens.wording import Span, count, pod_glyph, runs_of

AT_ONCE, AT_ONCE_AMONG_KEYS = 4_000, 2_000
"""New pods that one picture takes, and while keys are likely, which may have to wait for it."""


class Tally:
    """Counts pods by status, updated by changes."""

    def __init__(self) -> None:
        self._numbers: Counter[str] = Counter()
        self._ready: dict[str, bool] = {}

    def take(self, changes: Iterable[tuple[Pod | None, Pod | None]]) -> None:
        """Update the counts by (old, new) pairs; None stands for a missing pod."""
        for old, new in changes:
            if old is not None:
                self._numbers[old.status] -= 1
            if new is not None:
                self._numbers[new.status] += 1
                self._ready[new.status] = new.ready

    @property
    def runs(self) -> tuple[Span, ...]:
        """The counts as spans: the total, then by status, most frequent first."""
        total = self._numbers.total()
        if not total:
            return ()
        runs = [Span(f"{count(total, 'pod')}   ", "strong")]
        for status, number in sorted((+self._numbers).items(), key=lambda each: (-each[1], each[0])):
            runs += [pod_glyph(status, ready=self._ready[status]), Span(f" {number:,} {status}   ", "dim")]
        return tuple(runs)


class PodTable(ResourceTable["Pod"]):
    """Pods of the whole cluster or of one node."""

    LIST = "pods"
    NOUN = "pod"
    EMPTY = Notice("No pods.", "5 launches a job.")
    COLUMNS: ClassVar = PODS.columns

    def row_text(self, row: Pod) -> str:
        return f"{row.namespace} {row.name} {row.status} {row.jobset or row.owner_name} {row.node} {row.ip}"


class AllPods(PodTable):
    SORTED_BY = "JOB"


class PodsScreen(PanedScreen, PodActions):
    """All pods, with a filter by typing."""

    KINDS = ("pods",)
    OPENS = "pod"
    table = getters.query_one(AllPods)
    summary = getters.query_one(SummaryLine)

    def __init__(self) -> None:
        super().__init__()
        self._tally = Tally()

    def body(self) -> ComposeResult:
        yield SummaryLine(classes="of-snapshot")
        yield from self.beside_pane(AllPods())

    def show_fleet(self, fleet: Fleet) -> None:
        at_once = AT_ONCE_AMONG_KEYS if keys_soon() else AT_ONCE
        self.table.show_rows(self.narrowed(fleet.pods), fleet.links.get("pods"), at_once)
        self._tally.take(self.table.listing.changes)
        self.summary.runs = self._tally.runs
        self.pane.renew()

    def pane_lines(self, width: int, height: int, now: float) -> Lines:
        pod = self.table.row
        if pod is None:
            return []
        found = [[Span(pod.name, "strong")], [], *fact_lines(pod_facts(pod, now), width), []]
        for each in pod.containers:
            exit_code = runs_of(exit_cell(each))
            label = [Span("exit code ", "dim")] if each.exit_code is not None else []
            found.append([*runs_of(container_cell(each)), Span(f"  {each.name}  ", "dim"), *label, *exit_code])
        events = reversed(self.app.fleet.events_by_object.get(pod.uid, ()))
        return [*found, *event_lines(events, now, height - len(found))]

    @property
    def pod_keys(self) -> list[Key]:
        return self.table.chosen
