"""Pods: where everything is, exactly."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from textual import getters, on

from screens.pod_actions import PodActions
from screens.widgets.pod_table import PodTable
from screens.widgets.summary_line import SummaryLine
from screens.widgets.table import ResourceTable
from screens.wording import Run, count, pod_glyph

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.models.fleet import Fleet
    from console.models.pod import Pod
    from screens.pod_actions import Key


def pod_summary(pods: list[Pod]) -> tuple[Run, ...]:
    """How many pods there are, by status, most frequent first."""
    runs = [Run(f"{count(len(pods), 'pod')}   ", "strong")]
    ready = {pod.status: pod.ready for pod in pods}
    for status, number in Counter(pod.status for pod in pods).most_common():
        runs += [pod_glyph(status, ready=ready[status]), Run(f" {number:,} {status}   ", "dim")]
    return tuple(runs)


class AllPods(PodTable):
    """Pods of the whole cluster, by name."""

    SORTED_BY = "NAME"


class PodsScreen(PodActions):
    """All pods, found by typing."""

    KINDS = ("pods",)
    table = getters.query_one(AllPods)
    summary = getters.query_one(SummaryLine)

    def body(self) -> ComposeResult:
        """A line of figures and the table."""
        yield SummaryLine()
        yield AllPods()

    def show_fleet(self, fleet: Fleet) -> None:
        """All pods."""
        self.table.show_rows(fleet.pods, fleet.links.get("pods"))
        self.summary.runs = pod_summary(list(fleet.pods.values())) if fleet.pods else ()

    @property
    def pod_keys(self) -> list[Key]:
        """The marked pods, else the one under the cursor."""
        return self.table.chosen

    @on(ResourceTable.Opened)
    def _open_pod(self, event: ResourceTable.Opened) -> None:
        self.app.open_page("pod", *event.key)
