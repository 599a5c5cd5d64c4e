"""Pods in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from console.kube.objects.pod import Pod
from screens.columns.pods import PODS
from screens.widgets.table.row_painter import Notice
from screens.widgets.table.table import ResourceTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from screens.columns.column import Column


class PodTable(ResourceTable[Pod]):
    """Pods of the whole cluster, or of one node."""

    LIST = "pods"
    NOUN = "pod"
    EMPTY = Notice("No pods.", "5 launches a job.")
    COLUMNS: ClassVar[Sequence[Column[Any]]] = PODS.columns

    def row_text(self, row: Pod) -> str:
        return f"{row.namespace} {row.name} {row.status} {row.jobset or row.owner_name} {row.node} {row.ip}"
