"""Pods in a table: what they are, where they are, how they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from console.kube.objects.pod import Pod
from screens.widgets.table.column import Column, Notice, since
from screens.widgets.table.table import ResourceTable
from screens.wording import Cell, Run, pod_glyph

if TYPE_CHECKING:
    from collections.abc import Sequence


def status_cell(pod: Pod) -> Cell:
    status = pod.status
    mark = pod_glyph(status, ready=pod.ready)
    return [mark, Run(f" {status}", "bad" if mark.ink == "bad" else "")]


def ready_cell(pod: Pod) -> Cell:
    """Ready containers of all that do work."""
    mains = [each for each in pod.containers if not each.init]
    return f"{sum(each.ready for each in mains)}/{len(mains)}" if mains else ""


def restarts_cell(pod: Pod) -> Cell:
    """Restarts, marked when there were any."""
    restarts = pod.restarts
    return Run(str(restarts), "waits") if restarts else Run("0", "faint")


class PodTable(ResourceTable[Pod]):
    """Pods of the whole cluster, or of one node."""

    NOUN = "pod"
    EMPTY = Notice("No pods.", "5 launches a job.")
    COLUMNS: ClassVar[Sequence[Column[Any]]] = (
        Column("NAMESPACE", lambda pod: pod.namespace, most=20, ink="dim", drop=7,
               sort=lambda pod: (pod.namespace, pod.name)),
        Column("NAME", lambda pod: pod.name, least=16, most=63, sort=lambda pod: pod.name),
        Column("READY", ready_cell, width=5, right=True, drop=5),
        Column("STATUS", status_cell, least=13, most=26, sort=lambda pod: pod.status),
        Column("RESTARTS", restarts_cell, width=8, right=True, drop=6, sort=lambda pod: pod.restarts, down=True),
        Column("GPUS", lambda pod: str(pod.gpus or ""), width=4, right=True, sort=lambda pod: pod.gpus, down=True),
        Column("JOB", lambda pod: pod.jobset or pod.owner_name, most=40, ink="dim", drop=8,
               sort=lambda pod: (not pod.jobset, pod.jobset or pod.owner_name, pod.name)),
        Column("NODE", lambda pod: pod.node, least=12, most=50, tail=True, drop=2, sort=lambda pod: pod.node),
        Column("IP", lambda pod: Run(pod.ip, "dim"), width=15, drop=9, sort=lambda pod: pod.ip),
        since("AGE", lambda pod: pod.created),
    )  # fmt: skip

    def row_text(self, row: Pod) -> str:
        return f"{row.namespace} {row.name} {row.status} {row.jobset or row.owner_name} {row.node} {row.ip}"
