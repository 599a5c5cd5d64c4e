"""The ranks of a job: matrix, table, first failure and latest events."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import Static

from console.kube.objects.jobset import JobState
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.job_measures import RankProgress
from console.scheduling.pod_failure import FailureCard, rank_failures
from console.scheduling.pod_slots import PodSlot
from rankscope import LateRank, SlowReport, describe_slow_rank, format_share
from screens import wording
from screens.columns.column import Column, RowKey, age_column
from screens.columns.job_header import events_of
from screens.columns.jobs import JobLine
from screens.job_tabs.tab import JobTab
from screens.widgets.job_pane import waiting_lines
from screens.widgets.log.log_lines import printable
from screens.widgets.side_pane import Lines
from screens.widgets.styled_text import CutLines, StyledWidget, wrap_text
from screens.widgets.table.events import EventTable
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, fold_spans
from screens.wording import Cell, Span
from trainlog import shorten_iteration_line


def rank_glyph(slot: PodSlot) -> Span:
    if slot.pod is None:
        return wording.IDLE
    if slot.failed:
        return wording.BAD
    return wording.pod_glyph(slot.status, is_ready=slot.ready)


def _status_cell(slot: PodSlot) -> Cell:
    style = "bad" if slot.failed else "" if slot.pod else "dim"
    return [rank_glyph(slot), Span(f" {slot.status if slot.pod else 'no pod'}", style)]


def _ended_cell(slot: PodSlot) -> Cell:
    if slot.exit_code is None:
        return ""
    return Span(str(slot.exit_code), "bad" if slot.exit_code else "dim")


class RankTable(ResourceTable[PodSlot]):
    LIST = "job_pods"
    NOUN = "pod"
    EMPTY = EmptyNotice("This job asks for no pods.")
    COLUMNS: ClassVar = (
        Column("POD", lambda rank: str(rank.number), width=4, right=True, sort=lambda rank: rank.number),
        Column("STATUS", _status_cell, least=13, most=26, sort=lambda rank: rank.status),
        Column(
            "NAME", lambda rank: rank.name or Span("─", "faint"), least=16, cut="middle", sort=lambda rank: rank.name
        ),
        Column("NODE", lambda rank: rank.node or Span("─", "faint"), least=12, cut="node", sort=lambda rank: rank.node),
        Column("GPUS", lambda rank: str(rank.gpus or ""), width=4, right=True, drop=5),
        Column(
            "RESTARTS",
            lambda rank: Span(str(rank.restarts), "waits" if rank.restarts else "dim"),
            width=8,
            right=True,
            drop=2,
        ),
        Column("EXIT", _ended_cell, width=4, right=True, drop=1),
        age_column("AGE", lambda rank: rank.pod.created if rank.pod else 0.0),
    )


MAX_CELLS_PER_LINE = 32
CELL_COLUMNS = 2
FRESHNESS_STYLES = ((10.0, "ok"), (60.0, "text"), (300.0, "dim"), (float("inf"), "faint"))
"""(maximum seconds since the last line of a running rank, style of its mark), brightest first."""
GUTTER_COLUMNS = 5
LONG_WAIT_SHARE = 0.1  # share of the step
SHORT_WAIT_MARK, LONG_WAIT_MARK = Span("△", "waits"), Span("▲", "bad")


def late_mark(late: LateRank) -> Span:
    """The mark of a late rank by the share of the step that others wait; ⚠ for a slow link (share unknown)."""
    return wording.CARE if late.share <= 0 else SHORT_WAIT_MARK if late.share < LONG_WAIT_SHARE else LONG_WAIT_MARK


def slow_lines(report: SlowReport, pod: int, gpus: int, width: int, now: float) -> Lines:
    """Lines on how long others wait for each rank of a pod and for the worst one, and what the marks mean."""
    here = [each for each in report.slow if each.pod_index in {pod, None}]
    spans = [Span(f"pod {pod}: none of its ranks is late for more than {format_share(report.bound)} of each step.")]
    if here:
        worst = max(here, key=lambda late: late.share)
        more = f" {len(here)} ranks are slow here." if here[1:] else ""
        spans = [late_mark(worst), Span(f" {wording.short_nodes(describe_slow_rank(worst))}{more}")]
    marks = {each.gpu: late_mark(each) for each in sorted(here, key=lambda late: late.share) if each.pod_index == pod}
    each_gpu = [Span(f"GPUs 0 to {gpus - 1} of pod {pod}:", "dim")] if marks and gpus > 1 else []
    for gpu in range(gpus if each_gpu else 0):
        each_gpu += [Span(" "), marks.get(gpu, wording.OK)]
    limit = format_share(LONG_WAIT_SHARE)
    legend = [
        SHORT_WAIT_MARK,
        Span(f" less than {limit}, ", "dim"),
        LONG_WAIT_MARK,
        Span(f" {limit} and more of each step that the others wait for a rank of the pod, ", "dim"),
        wording.CARE,
        Span(" for a share that is not known ", "dim"),
        Span(f"(NCCL asked {wording.age(now - report.at)} ago)", "dim"),
    ]
    return [*fold_spans(spans, width), *([each_gpu] if each_gpu else []), *fold_spans(legend, width)]


@dataclass(frozen=True, slots=True)
class PodCell:
    number: int
    glyph: Span
    last_line_at: float = 0.0  # when it printed its last line; 0.0 if that is not known
    steps_behind: int = 0  # steps behind the leading pod rank
    late_mark: Span | None = None  # of a pod with a slow rank: for what share of the step the others wait for that

    def span(self, now: float) -> Span:
        """The pod's mark: the more recent its last line the brighter; ▼ if it is behind the others."""
        if self.steps_behind and self.glyph.style != "bad":
            return Span("▼", "bad")
        if self.late_mark is not None and self.glyph.style == "ok":
            return self.late_mark
        if self.glyph.style != "ok" or not self.last_line_at:
            return self.glyph
        quiet = now - self.last_line_at
        return Span(self.glyph.text, next(style for limit, style in FRESHNESS_STYLES if quiet < limit))


class PodMatrix(StyledWidget, can_focus=True):
    """A grid with one cell per pod and a cursor; Enter opens the pod's log."""

    DEFAULT_CSS: ClassVar[str] = "PodMatrix { height: auto; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "Previous pod", show=False, id="ranks.left"),
        Binding("right", "move(1, 0)", "Next pod", show=False, id="ranks.right"),
        Binding("up", "move(0, -1)", "Pods above", show=False, id="ranks.up"),
        Binding("down", "move(0, 1)", "Pods below", show=False, id="ranks.down"),
        Binding("enter", "open", "Open", id="ranks.open", tooltip="The log of this pod"),
    ]

    cells: reactive[tuple[PodCell, ...]] = reactive(())
    cursor: reactive[int] = reactive(0)

    @dataclass
    class Opened(Message):
        number: int

    @dataclass
    class Pointed(Message):
        number: int

    def ranks_per_line(self, width: int) -> int:
        """Number of ranks per line: the largest power of two that fits, at most 32."""
        fitting = max(1, (width - GUTTER_COLUMNS) // CELL_COLUMNS)
        return min(MAX_CELLS_PER_LINE, 1 << (fitting.bit_length() - 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return -(-len(self.cells) // self.ranks_per_line(width))

    def watch_cells(self, old_cells: tuple[PodCell, ...], cells: tuple[PodCell, ...]) -> None:
        if len(old_cells) != len(cells):
            self.refresh(layout=True)
        self.cursor = max(0, min(self.cursor, len(cells) - 1))

    def render_line(self, y: int) -> Strip:
        ground, now = self.rich_style, SERVER_CLOCK.now()
        count = self.ranks_per_line(self.size.width)
        first = y * count
        segments = [Segment(f"{first:>{GUTTER_COLUMNS - 1}} ", ground + self.style_of("dim"))]
        for index, cell in enumerate(self.cells[first : first + count], first):
            back = ground + self.ground("cursor") if self.has_focus and index == self.cursor else ground
            mark = cell.span(now)
            segments.append(Segment(mark.text, back + self.style_of(mark.style)))
            segments.append(Segment(" ", ground))
        return Strip(segments).adjust_cell_length(self.size.width, ground)

    def action_move(self, across: int, down: int) -> None:
        self._move_cursor(self.cursor + across + down * self.ranks_per_line(self.size.width))

    def _move_cursor(self, cell_index: int) -> None:
        if 0 <= cell_index < len(self.cells):
            self.cursor = cell_index
            self.post_message(self.Pointed(self.cells[cell_index].number))

    def action_open(self) -> None:
        if self.cells:
            self.post_message(self.Opened(self.cells[self.cursor].number))

    def on_click(self, event: events.Click) -> None:
        count = self.ranks_per_line(self.size.width)
        column = (event.x - GUTTER_COLUMNS) // CELL_COLUMNS
        index = event.y * count + column
        if 0 <= column < count and index < len(self.cells):
            again = index == self.cursor
            self._move_cursor(index)
            if again and event.chain > 1:
                self.action_open()


MIN_CARD_LOG_LINES = 3  # printed lines that stay when there is room for little; the newest always does


def card_lines(card: FailureCard, width: int, room: int) -> list[str]:
    """The failure card in at most `room` lines: its first line, and the newest log lines."""
    room = max(2, room)
    text, printed = card.text_lines(), len(card.lines)
    head = [
        line
        for part in text[: len(text) - printed]
        for line in wrap_text(printable(wording.short_nodes(part)), max(1, width))
    ]
    high = max(1, room - min(MIN_CARD_LOG_LINES, printed, room - 1))
    if len(head) > high:
        head = [*head[: high - 1], f"{head[high - 1]} …"]
    newest = max(0, room - len(head))
    return head + [_format_log_line(line) for line in text[len(text) - printed :][-newest:] if newest]


def _format_log_line(line: str) -> str:
    """A line of the log; lines of training steps are shortened, so that the loss is not cut off."""
    short = shorten_iteration_line(line)
    return f"  {short}" if short else printable(line)


class FailureCardView(Static):
    """The failure card with a limited height; hidden without a failure."""

    DEFAULT_CSS: ClassVar[str] = """
    FailureCardView { display: none; height: auto; margin: 1 1 0 1; padding: 0 1; border-left: outer $error;
        text-wrap: nowrap; text-overflow: ellipsis; }
    """

    card: reactive[FailureCard | None] = reactive(None, init=False)
    room: reactive[int] = reactive(0, init=False)  # lines there are for it

    def __init__(self) -> None:
        super().__init__(markup=False)

    def watch_card(self) -> None:
        self.display = self.card is not None
        self.watch_room()

    def on_resize(self) -> None:
        self.watch_room()

    def watch_room(self) -> None:
        if self.card is not None:
            self.update("\n".join(card_lines(self.card, self.size.width, self.room)) if self.size.width else "")


MIN_EVENT_LINES = 6  # lines the latest events keep beside the card of a failure: a head, and some of them
REDRAW_SECONDS = 0.5  # seconds between two looks at how fresh the ranks are
FEW_RANKS = 8  # up to so many ranks the table alone shows them all at a glance


def _slow_ranks(line: JobLine) -> tuple[LateRank, ...]:
    """The ranks that the others wait for, by NCCL's answer since the job runs; empty if NCCL was not asked."""
    return line.slow.slow if line.slow is not None and not line.jobset.finished else ()


class RanksTab(JobTab):
    """The tab with a matrix and a table of pods, which share a cursor; Enter opens a pod's log."""

    NAME = "pods"
    KEY = "r"
    TITLE = "Pods"
    DEFAULT_CSS: ClassVar[str] = """
    RanksTab {
        #waits { margin: 1 0 0 0; max-height: 60%; }
        PodMatrix { max-height: 8; margin: 1 0 0 0; }
        RankTable { height: auto; min-height: 4; max-height: 48vh; margin: 1 0 0 0; }
        &.-failed RankTable { max-height: 35vh; }
        #caption { height: 1; margin: 1 0 0 0; }
        EventTable { height: 1fr; min-height: 3; }
    }
    """

    card = getters.query_one(FailureCardView)
    waits = getters.query_one("#waits", CutLines)
    matrix = getters.query_one(PodMatrix)
    table = focus_target = getters.query_one(RankTable)
    latest = getters.query_one(EventTable)
    _rank_progress: RankProgress | None = None
    _is_following = False
    _described_failures = (0, 0)
    _drawn_fleet: Fleet | None = None

    def compose(self) -> ComposeResult:
        yield FailureCardView()
        yield PodMatrix()
        yield CutLines(id="waits")
        yield RankTable(classes="pods")
        yield SentenceLine(id="caption")
        yield EventTable()

    def on_mount(self) -> None:
        self.query_one("#caption", SentenceLine).runs = (Span("── ", "faint"), Span("latest events", "head"))

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        if line is None:
            return
        if fleet is not self._drawn_fleet:  # else only how far the job is has changed
            self._drawn_fleet = fleet
            rows: dict[RowKey, PodSlot] = {(str(rank.number),): rank for rank in line.pod_slots}
            began = self.table.cursor is None
            self.table.show_rows(rows, fleet.links.get("pods"))
            if began:
                self.table.move_to((str(self.rank),))
            self.latest.show_rows(events_of(line), fleet.links.get("events"))
        many = len(line.pod_slots) > FEW_RANKS
        self.matrix.display = many or bool(_slow_ranks(line))
        self._show_cells(line)
        # All ranks are listened to once they are too many to look at one by one and one of them runs.
        if not self._is_following and many and any(rank.phase == "Running" for rank in line.pod_slots):
            self._is_following = True
            self._follow_lines()
        about = (line.jobset.restarts, len(rank_failures(line.jobset, line.fleet)))
        if any(about) and about != self._described_failures:  # more has ended badly
            self._described_failures = about
            self._read_card()
        self._show_waits(line)
        self._make_room()

    def _show_waits(self, line: JobLine) -> None:
        """Show why a waiting job waits and when it would start, or how long ranks wait for the chosen pod."""
        width, lines, now = self.live.size.width - 3, Lines(), SERVER_CLOCK.now()
        if line.jobset.state is JobState.PENDING:
            lines = waiting_lines(line.why, width, self.live.app.format_owner)
        elif line.slow is not None and _slow_ranks(line):
            gpus = line.pod_slots[self.rank].gpus if self.rank < len(line.pod_slots) else 0
            lines = slow_lines(line.slow, self.rank, gpus, width, now)
        self.waits.lines = tuple(map(tuple, lines))
        self.waits.styles.height = len(lines)
        self.waits.display = bool(lines)

    def watch_rank(self) -> None:
        if not self.is_open:
            self.table.move_to((str(self.rank),))  # another tab led there
        elif self.line is not None:
            self._show_waits(self.line)
            self._make_room()

    def _show_cells(self, line: JobLine) -> None:
        pulse = self._rank_progress
        last_lines, behind = (pulse.last_line_at, pulse.steps_behind) if pulse else ({}, lambda rank: 0)
        slow = sorted(_slow_ranks(line), key=lambda late: late.share)
        late = {each.pod_index: late_mark(each) for each in slow}  # of several in a pod the last, which is the worst
        self.matrix.cells = tuple(
            PodCell(
                rank.number,
                rank_glyph(rank),
                last_lines.get(rank.number, 0.0),
                behind(rank.number),
                late.get(rank.number),
            )
            for rank in line.pod_slots
        )
        self.matrix.refresh()

    @work(group="pulse", exclusive=True)
    async def _follow_lines(self) -> None:
        with self.live.report_errors("The pods cannot be watched"):
            async with self.live.session.measures.open_job(*self.key) as job, aclosing(job.follow_changes()) as changes:
                async for _ in changes:
                    self._rank_progress = job.ranks
                    if self.is_open and self.line is not None:
                        self._show_cells(self.line)
                    await asyncio.sleep(REDRAW_SECONDS)

    def resume_after_reconnect(self) -> None:
        if self._is_following:
            self._follow_lines()

    @work(group="card", exclusive=True)
    async def _read_card(self) -> None:
        with self.live.report_errors("What failed first is not known"):
            self.card.card = await self.live.session.logs.first_failure(*self.key)
            self.set_class(self.card.card is not None, "-failed")

    def on_resize(self) -> None:
        if self.line is not None:
            self._show_waits(self.line)
        self.call_after_refresh(self._make_room)  # by then it is known whether the page is a low one

    def _make_room(self) -> None:
        """Give the failure card the space that ranks and events do not need."""
        self.card.room = self.size.height - self._lines_of_others(self.size.height)

    def spare_lines(self, height: int) -> int:
        """The number of lines that the tab leaves free for the progress of the job."""
        card, line = self.card.card if self.card.display else None, self.line
        waits = self.waits.display and line is not None and line.jobset.state is JobState.PENDING
        if waits or (card is not None and card.lines):
            return 0
        ranks = len(self.table.listing.rows) + 1
        lines = len(card_lines(card, self.size.width, height)) + 1 if card is not None else 0
        return height - lines - self._lines_of_others(height) - max(0, min(ranks, height * 11 // 20) - height * 2 // 5)

    def _lines_of_others(self, height: int) -> int:
        low, size = not self.latest.display, self.size
        ranks = len(self.table.listing.rows) + 1
        others = max(4, min(ranks, height * 2 // 5)) + (0 if low else 1)
        if self.matrix.display:
            others += self.matrix.get_content_height(size, size, size.width) + (0 if low else 1)
        if self.waits.display:
            others += len(self.waits.lines) + (0 if low else 1)
        if not low:
            others += 2 + max(4, min(len(self.latest.listing.rows) + 1, MIN_EVENT_LINES)) + 1
        return others

    @on(PodMatrix.Pointed)
    def choose_cell(self, event: PodMatrix.Pointed) -> None:
        self.table.move_to((str(event.number),))

    @on(PodMatrix.Opened)
    def open_cell(self, event: PodMatrix.Opened) -> None:
        self.post_message(self.Chosen(event.number, "log"))
