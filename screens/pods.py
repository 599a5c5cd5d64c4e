"""Pods: where everything is, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters

from screens.base import LiveScreen
from screens.widgets.column import Column, since
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import Run, pod_glyph

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.models.fleet import Fleet
    from console.models.pod import Pod


class PodTable(ResourceTable["Pod"]):
    """All pods."""

    NOUN = "pod"
    EMPTY = Notice("No pods.", "Launch a job with 5.")
    COLUMNS: ClassVar = (
        Column(
            "NAMESPACE",
            lambda pod: pod.namespace,
            most=20,
            ink="dim",
            sort=lambda pod: (pod.namespace, pod.name),
            drop=6,
        ),
        Column("NAME", lambda pod: pod.name, least=16, sort=lambda pod: pod.name),
        Column(
            "STATUS",
            lambda pod: [pod_glyph(pod.status, ready=pod.ready), Run(f" {pod.status}")],
            width=18,
            sort=lambda pod: pod.status,
        ),
        Column("GPUS", lambda pod: str(pod.gpus or ""), width=4, right=True, sort=lambda pod: pod.gpus, down=True),
        Column("NODE", lambda pod: pod.node, least=8, sort=lambda pod: pod.node),
        since("AGE", lambda pod: pod.created),
    )

    def row_text(self, row: Pod) -> str:
        return f"{row.namespace} {row.name} {row.status} {row.node}"


class PodsScreen(LiveScreen):
    """All pods, found by typing."""

    KINDS = ("pods",)
    table = getters.query_one(PodTable)

    def body(self) -> ComposeResult:
        """The table."""
        yield PodTable()

    def show_fleet(self, fleet: Fleet) -> None:
        """All pods."""
        self.table.show_rows(fleet.pods, fleet.links.get("pods"))
