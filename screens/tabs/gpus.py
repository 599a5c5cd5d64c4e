"""The GPUs of all ranks, live: utilization, memory, power, temperature, clock, ECC."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType

from console.alarms.seeing import faults
from console.models.gpu_board import DCGM, METRICS, SMI, STALE, Foremost, GpuBoard
from screens.tabs.tab import JobTab
from screens.widgets.gpu_table import USUAL, GpuRow, GpuTable
from screens.widgets.sentence_line import SentenceLine
from screens.wording import Run

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from console.models.fleet import Fleet
    from console.models.gpu_board import RankGpus, Source
    from screens.widgets.job_line import JobLine
    from screens.widgets.listing import RowKey


class GpusTab(JobTab):
    """Reads the GPUs while it is in front, and only then."""

    NAME = "gpus"
    KEY = "h"
    TITLE = "GPUs"
    DEFAULT_CSS: ClassVar[str] = """
    GpusTab {
        GpuTable { height: 1fr; }
        #gpu { height: auto; max-height: 4; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "metric(1)", "Metric", id="gpus.metric",
                tooltip="Utilization, memory, power, temperature, clock, NVLink, ECC in turn"),
        Binding("M", "metric(-1)", "Metric before", show=False, id="gpus.metric-before"),
        Binding("d", "source", "Source", id="gpus.source",
                tooltip="Read the DCGM exporters of the nodes, which tell Xids too, or nvidia-smi in the pods"),
    ]  # fmt: skip

    table = getters.query_one(GpuTable)
    about = getters.query_one("#about", SentenceLine)
    board = GpuBoard()
    _place = 0
    source: Source = ""
    _reading = False

    def __init__(self, key: tuple[str, str]) -> None:
        super().__init__(key)
        self._foremost = Foremost()

    def compose(self) -> ComposeResult:
        """What all of it comes to, the heat map, the rank under the cursor."""
        yield SentenceLine(id="about")
        yield GpuTable()
        yield SentenceLine(id="gpu")

    @property
    def keys_to(self) -> Widget:
        """The table."""
        return self.table

    def opened(self) -> None:
        """Begin to read."""
        if not self._reading:
            self._reading = True
            self._read()

    def connected_anew(self) -> None:
        """Read on."""
        if self.is_open:
            self._reading = True
            self._read()

    def go(self) -> None:
        """Nobody looks: the streams end."""
        super().go()
        self.workers.cancel_group(self, "gpus")
        self._reading = False

    @work(group="gpus", exclusive=True)
    async def _read(self) -> None:
        with self.live.report_errors(f"The GPUs of {self.key[1]} cannot be read"):
            async with aclosing(self.live.session.gpus.watch(*self.key, source=self.source)) as boards:
                async for board in boards:
                    self.board = board
                    self._show()
        self._reading = False

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        """Readings grow old."""
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The other source only where there is one."""
        if action == "source":
            return bool(self._exporter()) and not self.live.app.settings.read_only
        return super().check_action(action, parameters)

    def _exporter(self) -> str:
        if self.fleet is None or self.key not in self.fleet.jobsets or not self.live.app.connected:
            return ""
        return self.live.session.gpus.exporter_of(*self.key)

    def action_source(self) -> None:
        """The other one of the two."""
        self.source = SMI if self.source == DCGM else DCGM
        self.board = GpuBoard()
        self._reading = True
        self._read()
        self._show()

    def action_metric(self, step: int) -> None:
        """The next thing that is measured."""
        self._place = (self._place + step) % len(METRICS)
        self._show()

    @property
    def fault(self) -> str:
        """The GPUs with faults."""
        return "; ".join(faults(self.board)[:2])

    def _show(self) -> None:
        what, board = METRICS[self._place], self.board
        middle = board.median(what)
        ranks = {rank.rank: rank for rank in board.ranks}
        rows: dict[RowKey, GpuRow] = {
            (str(number),): GpuRow(ranks[number], what, middle, board.odd(what))
            for number in self._foremost.order(board, what)
        }
        self.table.fit_gpus(max((gpu.index + 1 for _, gpu in board.every), default=USUAL))
        self.table.show_rows(rows)
        faulty = sum(bool(gpu.faults) for _, gpu in board.every)
        self.note = f"✗ {faulty}" if faulty else ""
        unit = f" in {what.unit}" if what.unit else ""
        scale = f"▁ {what.least:.0f} … █ {what.most:.0f}, ▼ ▲ far from the others, ✗ a fault"
        self.about.runs = (
            Run(f"{what.title}{unit}", "strong"), Run(f"  {board.words}"), Run(f"  {scale}", "dim"),
        )  # fmt: skip
        self._tell_row()

    @on(GpuTable.Highlighted, "GpuTable")
    def choose(self, event: GpuTable.Highlighted) -> None:
        """The rank under the cursor is the one actions are about."""
        event.stop()
        if event.key is not None and self.is_open:
            self.post_message(self.Chosen(int(event.key[0])))
        self._tell_row()

    @on(GpuTable.Opened, "GpuTable")
    def open_rank(self, event: GpuTable.Opened) -> None:
        """Enter on a rank is its log."""
        event.stop()
        self.post_message(self.Chosen(int(event.key[0]), "log"))

    def _tell_row(self) -> None:
        row = self.table.row
        self.query_one("#gpu", SentenceLine).runs = tuple(row_words(row.gpus, time.time())) if row else ()


def row_words(rank: RankGpus, now: float) -> list[Run]:
    """One rank in words: what its worst GPU shows in everything that is measured."""
    runs = [Run(f"pod {rank.rank}", "strong"), Run(f"  {rank.node}", "dim")]
    if rank.problem:
        return [*runs, Run(f"  {rank.problem}", "waits")]
    for gpu in rank.gpus:
        if gpu.faults:
            runs.append(Run(f"  ✗ GPU {gpu.index}: {', '.join(gpu.faults)}", "bad"))
    for what in METRICS:
        values = [value for gpu in rank.gpus if (value := what.value(gpu)) is not None]
        if values:
            low, high = f"{min(values):.0f}", f"{max(values):.0f}"
            span = low if low == high else f"{low}–{high}"
            runs.append(Run(f"  {what.title.lower()} {span} {what.unit}"))
    if rank.at and now - rank.at > STALE:
        runs.append(Run(f"  read {now - rank.at:.0f} s ago", "waits"))
    return [*runs, Run(f"  {rank.source}", "dim")]
