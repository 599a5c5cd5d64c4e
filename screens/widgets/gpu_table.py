"""The GPUs of a job as a heat map: a row for each rank, a cell for each GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.gpu_network import added
from screens.widgets.column import Column
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.models.gpu import Gpu
    from console.models.gpu_board import Metric, RankGpus
    from screens.wording import Cell

BARS = "▁▂▃▄▅▆▇█"
USUAL = 8
"""Columns of GPUs at least: an A4 machine has eight."""
_CELL = 6


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One rank, and against what its GPUs are held."""

    gpus: RankGpus
    metric: Metric
    middle: float | None
    """The middle of all GPUs."""
    odd: float
    """How far from it a GPU stands out."""

    def gpu(self, index: int) -> Gpu | None:
        """The GPU in that column."""
        return next((each for each in self.gpus.gpus if each.index == index), None)

    def stands_out(self, gpu: Gpu) -> bool:
        """Whether it is far from the others on the bad side."""
        value = self.metric.value(gpu)
        if value is None or self.middle is None:
            return False
        return (self.middle - value if self.metric.low_is_bad else value - self.middle) > self.odd


def gpu_cell(row: GpuRow, index: int) -> Cell:
    """A bar and a number: ✗ a fault, ▼ and ▲ far from the others."""
    gpu = row.gpu(index)
    if gpu is None:
        return ""
    value, share = row.metric.value(gpu), row.metric.share(gpu)
    number = "─" if value is None else f"{value:.0f}"
    if gpu.faults:
        return [Run("✗", "bad"), Run(f"{number:>{_CELL - 2}}", "bad")]
    if share is None:
        return Run(f"{number:>{_CELL - 1}}", "dim")
    bar = BARS[min(len(BARS) - 1, int(share * len(BARS)))]
    if row.stands_out(gpu):
        return [Run("▼" if row.metric.low_is_bad else "▲", "waits"), Run(f"{number:>{_CELL - 2}}", "waits")]
    ink = _ink(share, low_is_bad=row.metric.low_is_bad)
    return [Run(bar, ink), Run(f"{number:>{_CELL - 2}}", ink if ink == "bad" else "")]


def _ink(share: float, *, low_is_bad: bool) -> str:
    if low_is_bad:
        return "faint" if share < 0.05 else "dim" if share < 0.5 else "ok"
    return "bad" if share > 0.97 else "waits" if share > 0.85 else "ok"


def _column(index: int) -> Column[GpuRow]:
    cell: Callable[[GpuRow], Cell] = lambda row: gpu_cell(row, index)  # noqa: E731
    return Column(f"GPU {index}", cell, width=_CELL, right=True)


def _rdma(row: GpuRow) -> Cell:
    """What goes over all network cards of a pod."""
    links = row.gpus.rdma
    received, sent = added([each.received for each in links]), added([each.sent for each in links])
    if received is None or sent is None:
        return Run("not known" if row.gpus.gpus else "", "faint")
    return f"{received / 1e9:.1f} {sent / 1e9:6.1f}"


def columns(gpus: int) -> Sequence[Column[GpuRow]]:
    """Columns for that many GPUs a rank."""
    return (
        Column("POD", lambda row: f"{row.gpus.rank}", least=4, right=True, sort=lambda row: row.gpus.rank),
        *(_column(index) for index in range(gpus)),
        Column("RDMA IN/OUT GB/s", _rdma, width=16, right=True, drop=3),
        Column("NODE", lambda row: Run(row.gpus.node, "dim"), least=8, most=48, drop=2, sort=lambda row: row.gpus.node),
        Column("", lambda row: Run(row.gpus.problem, "waits") if row.gpus.problem else "", fill=True, least=0, drop=1),
    )


class GpuTable(ResourceTable[GpuRow]):
    """The ranks, those that stand out first."""

    NOUN = "pod"
    EMPTY = Notice("No GPU has been read yet.", "Each pod's nvidia-smi is asked every two seconds.")
    _gpus = 0

    def fit_gpus(self, gpus: int) -> None:
        """As many columns as the rank with the most GPUs needs."""
        if gpus != self._gpus:
            self._gpus = gpus
            self.set_columns(columns(max(USUAL, gpus)))

    def on_mount(self) -> None:
        """The usual columns."""
        self.fit_gpus(USUAL)

    def row_text(self, row: GpuRow) -> str:
        """Rank, node, faults."""
        faults = " ".join(word for gpu in row.gpus.gpus for word in gpu.faults)
        return f"pod {row.gpus.rank} {row.gpus.pod} {row.gpus.node} {row.gpus.problem} {faults}"
