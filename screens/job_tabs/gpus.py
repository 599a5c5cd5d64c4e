"""The GPUs of a job, live: a heat map, and a table of utilization, memory, power and temperature."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.gpu_metrics import (
    DCGM,
    GPU_METRICS,
    NVIDIA_SMI,
    STALE_READING_SECONDS,
    Gpu,
    GpuBoard,
    GpuMetric,
    GpuSource,
    OutlierOrder,
    PodGpus,
    sum_rates,
)
from console.metrics.job_monitor import gpu_faults
from screens.columns.column import Column, RowKey
from screens.columns.jobs import JobLine
from screens.job_tabs.tab import JobTab
from screens.widgets.styled_text import CutLines
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Cell, Span, heat_bar, short_node

MIN_GPU_COLUMNS = 8  # columns of GPUs at least: an A4 machine has eight
_CELL_COLUMNS = 6
LINES_OF_PAGE = 8  # lines of title, job, tabs and keys
MAX_LINES_AROUND = 6  # lines of what stands above and below the table


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A row with the GPUs of one pod, and the median of the shown metric over all pods."""

    gpus: PodGpus
    metric: GpuMetric
    median: float | None
    outlier_distance: float  # how far from it a GPU stands out

    def gpu(self, index: int) -> Gpu | None:
        return next((each for each in self.gpus.gpus if each.index == index), None)

    def is_outlier(self, gpu: Gpu) -> bool:
        value = self.metric.value(gpu)
        if value is None or self.median is None:
            return False
        return (self.median - value if self.metric.low_is_bad else value - self.median) > self.outlier_distance


def gpu_cell(row: GpuRow, index: int) -> Cell:
    """A cell with a bar and a number; ✗ marks a fault, ▼ and ▲ outliers."""
    gpu = row.gpu(index)
    if gpu is None:
        return ""
    value, share = row.metric.value(gpu), row.metric.share_of_range(gpu)
    number = "─" if value is None else f"{value:.0f}"
    if gpu.faults:
        return [Span("✗", "bad"), Span(f"{number:>{_CELL_COLUMNS - 2}}", "bad")]
    if share is None:
        return Span(f"{number:>{_CELL_COLUMNS - 1}}", "dim")
    if row.is_outlier(gpu):
        return [Span("▼" if row.metric.low_is_bad else "▲", "waits"), Span(f"{number:>{_CELL_COLUMNS - 2}}", "waits")]
    mark = heat_bar(share, low_is_bad=row.metric.low_is_bad)
    return [mark, Span(f"{number:>{_CELL_COLUMNS - 2}}", mark.style if mark.style == "bad" else "")]


def _rdma_cell(row: GpuRow) -> Cell:
    links = row.gpus.rdma
    received, sent = sum_rates([each.received for each in links]), sum_rates([each.sent for each in links])
    if received is None or sent is None:
        return Span("not known" if row.gpus.gpus else "", "dim")
    return f"{received / 1e9:.1f} {sent / 1e9:6.1f}"


def gpu_columns(gpus: int) -> Sequence[Column[GpuRow]]:
    return (
        Column("POD", lambda row: f"{row.gpus.rank}", least=4, right=True, sort=lambda row: row.gpus.rank),
        *(Column(f"GPU {at}", partial(gpu_cell, index=at), width=_CELL_COLUMNS, right=True) for at in range(gpus)),
        Column("RDMA IN/OUT GB/s", _rdma_cell, width=16, right=True, drop=3),
        Column(
            "NODE",
            lambda row: Span(row.gpus.node, "dim"),
            least=8,
            most=48,
            cut="node",
            drop=2,
            sort=lambda row: row.gpus.node,
        ),
        Column("", lambda row: Span(row.gpus.problem, "waits"), fill=True, least=0, drop=1),
    )


class GpuTable(ResourceTable[GpuRow]):
    NOUN = "pod"
    EMPTY = EmptyNotice("No GPU has been read yet.", "Each pod's nvidia-smi is asked every two seconds.")
    _gpus = 0

    def fit_gpus(self, gpus: int) -> None:
        if gpus != self._gpus:
            self._gpus = gpus
            self.set_columns(gpu_columns(max(MIN_GPU_COLUMNS, gpus)))

    def on_mount(self) -> None:
        self.fit_gpus(MIN_GPU_COLUMNS)

    def row_text(self, row: GpuRow) -> str:
        faults = " ".join(word for gpu in row.gpus.gpus for word in gpu.faults)
        return f"pod {row.gpus.rank} {row.gpus.pod} {row.gpus.node} {row.gpus.problem} {faults}"


class GpusTab(JobTab):
    CHANGES_CLUSTER = frozenset({"source"})
    NAME = "gpus"
    KEY = "h"
    TITLE = "GPUs"
    SHOWS = frozenset({"gpus"})
    DEFAULT_CSS: ClassVar[str] = """
    GpusTab {
        GpuTable { height: 1fr; }
        #gpu { height: auto; max-height: 4; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "metric(1)", "Metric", id="gpus.metric", tooltip="Utilization, memory, power and so on, in turn"),
        Binding("M", "metric(-1)", "Metric before", show=False, id="gpus.metric-before"),
        Binding(
            "d",
            "source",
            "Source",
            id="gpus.source",
            tooltip="Read the DCGM exporters of the nodes, which tell Xids too, or nvidia-smi in the pods",
        ),
    ]

    table = focus_target = getters.query_one(GpuTable)
    about = getters.query_one("#about", SentenceLine)
    all_metrics = getters.query_one("#metrics", CutLines)
    board = GpuBoard()
    _metric_index = 0
    source: GpuSource = ""
    _is_reading = False

    def __init__(self, key: tuple[str, str]) -> None:
        super().__init__(key)
        self._outlier_order = OutlierOrder()

    def compose(self) -> ComposeResult:
        yield SentenceLine(id="about")
        yield GpuTable(classes="pods")
        yield SentenceLine(id="gpu")
        yield CutLines(id="metrics")

    def spare_lines(self, height: int) -> int:
        others = len(self.all_metrics.lines) if self.all_metrics.display else 0
        return height - self.table.lines_wanted - others - MAX_LINES_AROUND

    def _show_all_metrics(self) -> None:
        """Show the range of each metric by pod, if rows leave room for that."""
        lines = metric_lines(self.board)
        left = self.live.size.height - self.table.lines_wanted - MAX_LINES_AROUND - LINES_OF_PAGE
        self.all_metrics.display = bool(self.board.ranks) and len(lines) <= left
        if self.all_metrics.display:
            self.all_metrics.lines = lines
            self.all_metrics.styles.height = len(lines)
        self._show_row_words()

    on_resize = _show_all_metrics

    def opened(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._read_gpus()

    def resume_after_reconnect(self) -> None:
        if self.is_open:
            self._is_reading = True
            self._read_gpus()

    def deactivated(self) -> None:
        super().deactivated()
        self.workers.cancel_group(self, "gpus")
        self._is_reading = False

    @work(group="gpus", exclusive=True)
    async def _read_gpus(self) -> None:
        with self.live.report_errors(f"The GPUs of {self.key[1]} cannot be read"):
            async with aclosing(self.live.session.gpus.follow_boards(*self.key, source=self.source)) as boards:
                async for board in boards:
                    self.board = board
                    self._show_board()
        self._is_reading = False

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        self._show_board()

    def offers(self) -> dict[str, object]:
        return {"source": self._exporter_text()}

    def _exporter_text(self) -> str:
        if self.fleet is None or self.key not in self.fleet.jobsets or not self.live.app.connected:
            return ""
        return self.live.session.gpus.exporter_of(*self.key)

    def action_source(self) -> None:
        self.source = NVIDIA_SMI if self.source == DCGM else DCGM
        self.board = GpuBoard()
        self._is_reading = True
        self._read_gpus()
        self._show_board()

    def action_metric(self, step: int) -> None:
        self._metric_index = (self._metric_index + step) % len(GPU_METRICS)
        self._show_board()

    @property
    def fault(self) -> str:
        return "; ".join(gpu_faults(self.board)[:2])

    def _show_board(self) -> None:
        what, board = GPU_METRICS[self._metric_index], self.board
        middle = board.median(what)
        ranks = {rank.rank: rank for rank in board.ranks}
        rows: dict[RowKey, GpuRow] = {
            (str(number),): GpuRow(ranks[number], what, middle, board.outlier_distance(what))
            for number in self._outlier_order.sort_ranks(board, what)
        }
        self.table.fit_gpus(max((gpu.index + 1 for _, gpu in board.all_gpus), default=MIN_GPU_COLUMNS))
        self.table.show_rows(rows)
        faulty = sum(bool(gpu.faults) for _, gpu in board.all_gpus)
        self.note = f"✗ {faulty}" if faulty else ""
        unit = f" in {what.unit}" if what.unit else ""
        scale = f"▁ {what.scale_min:.0f} … █ {what.scale_max:.0f}, ▼ ▲ far from the others, ✗ a fault"
        self.about.runs = (Span(f"{what.title}{unit}", "strong"), Span(f"  {board.summary}"), Span(f"  {scale}", "dim"))
        self._show_all_metrics()

    @on(GpuTable.Highlighted, "GpuTable")
    def _show_row_words(self) -> None:
        row = self.table.row
        self.query_one("#gpu", SentenceLine).runs = (
            tuple(row_words(row.gpus, SERVER_CLOCK.now(), shows_ranges=not self.all_metrics.display)) if row else ()
        )


def metric_lines(board: GpuBoard) -> tuple[tuple[Span, ...], ...]:
    """A blank line, the names of metrics, and by pod the lowest and highest value of each."""
    heads = [f"{each.title.split(',')[0].lower()} {each.unit}" for each in GPU_METRICS]
    rows = [["pod", *heads]]
    for pod in board.ranks:
        ranges = (_range([value for gpu in pod.gpus if (value := each.value(gpu)) is not None]) for each in GPU_METRICS)
        rows.append([f"{pod.rank}", *ranges])
    wide = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    text = ["".join(f"{cell:>{width}}" for cell, width in zip(row, wide, strict=True)) for row in rows]
    return ((), *((Span(line, "" if at else "head"),) for at, line in enumerate(text)))


def _range(values: Sequence[float]) -> str:
    low, high = (f"{min(values):.0f}", f"{max(values):.0f}") if values else ("─", "─")
    return low if low == high else f"{low}–{high}"


def row_words(rank: PodGpus, now: float, *, shows_ranges: bool = True) -> list[Span]:
    """The faults of a rank's GPUs and, with `shows_ranges`, those of every metric, as text."""
    runs = [Span(f"pod {rank.rank}", "strong"), Span(f"  {short_node(rank.node)}", "dim")]
    if rank.problem:
        return [*runs, Span(f"  {rank.problem}", "waits")]
    for gpu in rank.gpus:
        if gpu.faults:
            runs.append(Span(f"  ✗ GPU {gpu.index}: {', '.join(gpu.faults)}", "bad"))
    for what in GPU_METRICS if shows_ranges else ():
        values = [value for gpu in rank.gpus if (value := what.value(gpu)) is not None]
        if values:
            runs.append(Span(f"  {what.title.lower()} {_range(values)} {what.unit}"))
    if rank.at and now - rank.at > STALE_READING_SECONDS:
        runs.append(Span(f"  read {now - rank.at:.0f} s ago", "waits"))
    return [*runs, Span(f"  {rank.source}", "dim")]
