"""The floor map: blocks, subblocks and hosts of the node pools in the colours of their jobs, at three zoom levels.

A mark is a GPU, a host or a subblock: the first of these with which the whole map fits, or the one that was asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, groupby
from typing import ClassVar, NamedTuple

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.scheduling.topology import GpuState, Host, HostGpu, PoolFloor
from screens.widgets.styled_text import PaintedLines, cut_sentence, fit_spans, fit_text, line, merge_segments
from screens.widgets.table.row_painter import cell_width
from screens.wording import Span

FREE_PIP = Span("·", "text")
PARTLY_USED = "▒"
GAP_COLUMNS = 2  # columns between hosts
MAX_HOST_COLUMNS = 6  # most columns of a host's short name
MAX_PLACE_COLUMNS = 10  # most columns of a block's or subblock's name


class MapZoom(StrEnum):
    """The zoom level of the map: one mark stands for a GPU, a host or a subblock."""

    GPUS = "GPU"
    HOSTS = "host"
    SUBBLOCKS = "subblock"


class MapShape(NamedTuple):
    """One way to draw the map: what a mark is, which names are shown, and lines per host."""

    zoom: MapZoom
    shows_names: bool = False  # of the hosts, or of the subblocks where a mark is a host
    rows: int = 1  # lines of a host: its GPUs, its job, its last bandwidth, an empty one


MAP_SHAPES = (
    *(MapShape(MapZoom.GPUS, shows_names=True, rows=rows) for rows in (4, 3, 2, 1)), MapShape(MapZoom.GPUS),
    MapShape(MapZoom.HOSTS, shows_names=True), MapShape(MapZoom.HOSTS), MapShape(MapZoom.SUBBLOCKS),
)  # fmt: skip
"""All shapes of the map, the one that needs most room first."""


class MapPanel(NamedTuple):
    """The marks of some hosts behind the names of their block and subblock; without hosts, a gap."""

    block: str
    subblock: str
    marks: tuple[tuple[Host, ...], ...]


class FloorLine(Struct, frozen=True):
    """One line of the map: a pool's heading, or panels side by side."""

    heading: tuple[Span, ...] = ()
    panels: tuple[MapPanel, ...] = ()
    panel_columns: int = 0  # columns of a panel
    mark_columns: int = 1  # columns of a mark


def short_name(name: str) -> str:
    """The last part of a node's name, which distinguishes it from its neighbours."""
    return name.rsplit("-", 1)[-1][-MAX_HOST_COLUMNS:]


def map_panels(floor: PoolFloor, shape: MapShape) -> list[MapPanel]:
    """A panel for each subblock, or for each block where subblocks have no names of their own."""
    found = []
    for block in floor.blocks:
        name = block.name or "─"
        if shape.zoom is MapZoom.SUBBLOCKS:
            found.append(MapPanel(name, "", tuple(each.hosts for each in block.subblocks)))
        elif shape.zoom is MapZoom.HOSTS and not shape.shows_names:
            parted = (mark for each in block.subblocks for mark in ((), *zip(each.hosts, strict=True)))
            found.append(MapPanel(name, "", tuple(parted)[1:]))
        else:
            for each in block.subblocks:
                found.append(MapPanel(name, each.name or "─", tuple(zip(each.hosts, strict=True))))
                name = ""  # names appear where they change
    return found


def lay_out(
    all_panels: Sequence[MapPanel], shape: MapShape, width: int, name_columns: int, mark: int, max_mark_columns: int = 0
) -> list[FloorLine]:
    """The lines of the map, with as many panels side by side as fit.

    `name_columns`: those of the names before the marks; `mark`: those of a mark, up to `max_mark_columns` if they fit.
    """
    most = max(1, min((width - name_columns) // mark, max((len(panel.marks) for panel in all_panels), default=0)))
    across = max(1, min(width // (name_columns + most * mark), len(all_panels)))
    # GPUs take the whole width, so that their columns are those of other pools too; small marks are compared close by
    panel = width // across if shape.zoom is MapZoom.GPUS else name_columns + most * mark
    cut = [
        MapPanel("" if start else each.block, "" if start else each.subblock, each.marks[start : start + most])
        for each in all_panels
        for start in range(0, len(each.marks), most)
    ]
    mark = max(mark, min(max_mark_columns, (panel - name_columns) // most))
    return [FloorLine((), tuple(cut[at : at + across]), panel, mark) for at in range(0, len(cut), across)]


def name_columns(names: Sequence[str]) -> int:
    """Number of columns that the longest of these place names takes."""
    return min(MAX_PLACE_COLUMNS, max((cell_len(name) for name in names), default=0) or 1)


def host_mark(host: Host) -> Span:
    """One character for the most important fact about a host that its GPU marks do not show; else a space."""
    node = host.node
    if not host.gpus or host.gpus[0].state is GpuState.OUT:
        return Span(" ")  # its pips say it
    if host.faults and not (node.maintenance_active and len(host.faults) == 1):
        return Span("✗", "bad")
    if node.maintenance_active or node.maintenance_at:
        return Span("⚠", "waits")
    return Span("‖", "waits") if node.cordoned else Span(" ")


def host_caption(host: Host) -> str:
    """The text below a host: its job, or why it has none."""
    names = list(dict.fromkeys(pip.holder.name for pip in host.gpus if pip.holder))
    if len(names) > 1:
        return f"{len(names)} jobs"
    if names:
        return names[0]
    if host.is_starting:
        return "starting"
    if host.faults:
        return "faulty"
    return "cordoned" if host.node.cordoned else ""


class MapPosition(NamedTuple):
    y: int
    x: int
    width: int
    hosts: tuple[Host, ...]


class FloorMap(ScrollView, PaintedLines, can_focus=True, inherit_bindings=False):
    """The map of the hosts of node pools; arrow keys move, Enter opens the node or zooms in on a subblock."""

    DEFAULT_CSS = "FloorMap { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open node", id="floor.open"),
        Binding("left", "step(-1)", "Left", show=False, id="floor.left"),
        Binding("right", "step(1)", "Right", show=False, id="floor.right"),
        Binding("up,k", "line(-1)", "Up", show=False, id="floor.up"),
        Binding("down,j", "line(1)", "Down", show=False, id="floor.down"),
    ]

    class Moved(Message):
        """The message that the cursor may be on another host or subblock."""

    @dataclass
    class Opened(Message):
        node: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._floors: tuple[tuple[tuple[Span, ...], PoolFloor], ...] = ()
        self._job_styles: Mapping[str, str] = {}
        self._holder_marks: Mapping[str, Span] = {}
        self._shown_lines: list[FloorLine] = []
        self._spots: list[MapPosition] = []
        self._index_by_node: dict[str, int] = {}
        self._cursor = ""
        self._label_columns = 0
        self._gpu_columns = 0
        self._name_columns = (0, 0)
        self.lines_wanted = 1  # of the whole map as it would be drawn with room for each host's name and job
        self.columns_wanted = 0  # of the headings, whole
        self._chosen_zoom: MapZoom | None = None
        self._shape = MAP_SHAPES[0]
        self._line_tops = [0]
        self._drawn_rows: dict[int, Strip] = {}

    def show_floors(self, floors: Sequence[tuple[tuple[Span, ...], PoolFloor]], style_of: Callable[[str], str]) -> None:
        """Show these pools' floors; `style_of` gives the style for a holder's uid."""
        self._job_styles = {holder.uid: style_of(holder.uid) for _, floor in floors for holder, _ in floor.holders}
        self._holder_marks = {uid: Span(self.glyph(uid), style) for uid, style in self._job_styles.items()}
        self._floors = tuple(floors)
        self._lay_out_lines()
        self.repaint_changed()  # a snapshot changes few marks of a large floor

    def move_to(self, floor: int) -> None:
        """Scroll to the floor with that index and put the cursor on its first host."""
        headings = [y for y, line in enumerate(self._shown_lines) if line.heading]
        if floor < len(headings):
            first = next((n for n, spot in enumerate(self._spots) if spot.y > self._line_tops[headings[floor]]), None)
            if first is not None:
                self._cursor = self._spots[first].hosts[0].node.name
            self.scroll_to(y=self._line_tops[headings[floor]], animate=False, immediate=True, force=True)
            self.refresh()

    def go_to_next_fault(self) -> None:
        """Put the cursor on the next mark with a faulty host; after the last, and from elsewhere, on the first."""
        faulty = [n for n, spot in enumerate(self._spots) if any(host.faults for host in spot.hosts)]
        here = self._cursor_index() if self.has_focus else None
        self.focus()
        self._move_cursor(next((n for n in faulty if here is not None and n > here), faulty[0]))

    @property
    def hosts(self) -> tuple[Host, ...]:
        index = self._cursor_index()
        return () if index is None else self._spots[index].hosts

    @property
    def zoom(self) -> MapZoom:
        return self._shape.zoom

    def change_zoom(self, step: int) -> None:
        """Zoom in (`step` -1: less of the map, larger) or out (1)."""
        zooms = list(MapZoom)
        self._chosen_zoom = zooms[max(0, min(len(zooms) - 1, zooms.index(self.zoom) + step))]
        if self._choose_shape(None)[0].zoom is self._chosen_zoom:
            self._chosen_zoom = None  # so that it follows the size of the terminal again
        self._lay_out_lines()
        index = self._cursor_index()
        if index is not None:
            self._move_cursor(index)
        self.refresh()

    def gpu_mark(self, pip: HostGpu, host: Host) -> Span:
        if pip.state is GpuState.FREE:
            return FREE_PIP
        if pip.state is GpuState.OUT:
            return Span("✗", "bad") if host.faults else Span("◐", "waits") if host.is_starting else Span("‖", "dim")
        return self._holder_marks[pip.holder.uid if pip.holder else ""]

    def glyph(self, uid: str) -> str:
        """The character for a holder; without colours each holder gets its own letter."""
        if not self.app.no_color:
            return "■"
        order = list(self._job_styles)
        return chr(ord("a") + order.index(uid) % 26) if uid in order else "?"

    # where things are

    def _lay_out_lines(self) -> None:
        width = self.size.width
        if not width:
            return
        floors = [floor for _, floor in self._floors]
        hosts = [host for floor in floors for host in floor.hosts]
        self._name_columns = (
            name_columns([block.name for floor in floors for block in floor.blocks]),
            name_columns([each.name for floor in floors for each in floor.subblocks]),
        )
        self._label_columns = max((len(short_name(host.node.name)) for host in hosts), default=0)
        self._gpu_columns = max((host.total for host in hosts), default=0)
        self.columns_wanted = 3 + max((cell_width(list(heading)) for heading, _ in self._floors), default=0)
        self.lines_wanted = sum(1 if line.heading else 3 for line in self._floor_lines(MAP_SHAPES[1]))
        self._shape, self._shown_lines = self._choose_shape(self._chosen_zoom)
        if self._shape.rows > 1:
            self._shown_lines = self._floor_lines(
                self._shape, max((cell_len(host_caption(host)) for host in hosts), default=0) + GAP_COLUMNS
            )
        left = self._name_width(self._shape)
        self._line_tops = [0, *accumulate(1 if line.heading else self._shape.rows for line in self._shown_lines)]
        self._spots = [
            MapPosition(start, at * line.panel_columns + left + number * line.mark_columns, line.mark_columns, marked)
            for start, line in zip(self._line_tops, self._shown_lines, strict=False)
            for at, panel in enumerate(line.panels)
            for number, marked in enumerate(panel.marks)
            if marked
        ]
        self._drawn_rows = {}
        self._index_by_node = {host.node.name: number for number, spot in enumerate(self._spots) for host in spot.hosts}
        if self._cursor_index() is None:
            self._cursor = self._spots[0].hosts[0].node.name if self._spots else ""
        self.virtual_size = Size(width, self._line_tops[-1])
        self.post_message(self.Moved())

    def _choose_shape(self, zoom: MapZoom | None) -> tuple[MapShape, list[FloorLine]]:
        """The first shape of that zoom (or of any) in which the whole map is visible; else one that scrolls."""
        scanned = any(host.node.last_busbw for _, floor in self._floors for host in floor.hosts)
        shapes = [shape for shape in MAP_SHAPES if zoom in (None, shape.zoom) and shape.rows < 4 + scanned]
        folded: dict[tuple[MapZoom, bool], list[FloorLine]] = {}
        for shape in shapes:
            key = shape.zoom, shape.shows_names
            lines = folded[key] = folded.get(key) or self._floor_lines(shape)
            if sum(1 if line.heading else shape.rows for line in lines) <= self.size.height:
                return shape, lines
        shape = next(each for each in shapes if each.rows == 1) if zoom else shapes[-1]
        return shape, folded[shape.zoom, shape.shows_names]

    def _floor_lines(self, shape: MapShape, width: int = 0) -> list[FloorLine]:
        left, mark = self._name_width(shape), self._mark_columns(shape)
        return [
            line
            for heading, floor in self._floors
            for line in (
                FloorLine(heading),
                *lay_out(map_panels(floor, shape), shape, self.size.width, left, mark, width),
            )
        ]

    def _name_width(self, shape: MapShape) -> int:
        """The columns that names before the marks take."""
        block, subblock = self._name_columns
        if shape.zoom is MapZoom.GPUS:
            return block + subblock + 5
        return block + 3 + (subblock + 1 if shape.shows_names else 0)

    def _mark_columns(self, shape: MapShape) -> int:
        """The minimum width of a mark in columns."""
        if shape.zoom is not MapZoom.GPUS:
            return 1
        return (self._label_columns + 1 if shape.shows_names else 0) + 1 + self._gpu_columns + GAP_COLUMNS

    # drawing

    def on_resize(self) -> None:
        self._lay_out_lines()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        self.refresh()

    def draw_line(self, y: int) -> Strip:
        at = y + self.scroll_offset.y
        if at >= self._line_tops[-1]:
            return Strip.blank(self.size.width, self.rich_style)
        index = self._cursor_index()
        if self.has_focus and index is not None and 0 <= at - self._spots[index].y < self._shape.rows:
            return self._draw_row(at)
        if at not in self._drawn_rows:
            self._drawn_rows[at] = self._draw_row(at)
        return self._drawn_rows[at]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.__dict__["_drawn_rows"] = {}

    def _draw_row(self, at: int) -> Strip:
        width = self.size.width
        number = bisect_right(self._line_tops, at) - 1
        row, part = self._shown_lines[number], at - self._line_tops[number]
        if row.heading:
            return line([Span("  "), *cut_sentence(row.heading, width - 2)], width, self.over(self.ground("head")))
        back = self.rich_style.background_style
        block, subblock = self._name_columns
        left = self._name_width(self._shape)
        segments: list[Segment] = []
        for panel in row.panels:
            within = fit_text(panel.subblock, subblock) if panel.subblock else ""
            names = [Span(f"  {fit_text(panel.block, block)} ", "head"), Span(within, "dim")]
            segments += fit_spans([] if part else names, left, self.over(back))
            if self.zoom is MapZoom.GPUS:
                for (host,) in panel.marks:
                    segments += self._host_segments(host, part, row.mark_columns)
            else:
                segments += self._panel_segments(panel)
            segments += fit_spans([], row.panel_columns - left - len(panel.marks) * row.mark_columns, self.over(back))
        return Strip(merge_segments(segments)).adjust_cell_length(width, back)

    def _host_segments(self, host: Host, part: int, width: int) -> list[Segment]:
        plain = self.rich_style.background_style
        here = self.has_focus and part < max(2, self._shape.rows - 1) and host.node.name == self._cursor
        back = self.over(self.ground("cursor") if here else plain)
        if part:
            scan = f"{host.node.last_busbw:,.0f} GB/s" if self._shape.rows > 3 and host.node.last_busbw else ""
            runs = [Span(host_caption(host), "text") if part == 1 else Span(scan if part == 2 else "", "dim")]
        else:
            runs = (
                [Span(fit_text(short_name(host.node.name), self._label_columns) + " ", "dim")]
                if self._shape.shows_names
                else []
            )
            pips = groupby(self.gpu_mark(pip, host) for pip in host.gpus)  # fewer runs: many hosts are redrawn at once
            runs += [host_mark(host), *(Span(pip.text * len(list(same)), pip.style) for pip, same in pips)]
        return [*fit_spans(runs, width - GAP_COLUMNS, back), *fit_spans([], GAP_COLUMNS, self.over(plain))]

    def _panel_segments(self, panel: MapPanel) -> list[Segment]:
        """The marks of a panel as segments, neighbours of one colour joined, as thousands are drawn."""
        plain, index = self.rich_style.background_style, self._cursor_index() if self.has_focus else None
        cursor = self._spots[index].hosts if index is not None else None
        segments: list[Segment] = []
        marks = ((hosts is cursor, self._mark_of(hosts)) for hosts in panel.marks)
        for (here, style), same in groupby(marks, lambda each: (each[0], each[1].style)):
            text = "".join(mark.text for _, mark in same)
            segments.append(Segment(text, self.over(self.ground("cursor") if here else plain)(style)))
        return segments

    def _mark_of(self, hosts: tuple[Host, ...]) -> Span:
        """One mark for these hosts: a fault if there is one, else whose jobs use their GPUs."""
        marks = {self._host_mark(host) for host in hosts}
        if len(marks) < 2:
            return marks.pop() if marks else Span(" ")
        for glyph in "✗⚠":
            if worst := [mark for mark in marks if mark.text == glyph]:
                return worst[0]
        used = [mark for mark in marks if mark.text not in "·◐‖"]
        if not used:
            return FREE_PIP if FREE_PIP in marks else Span("◐", "waits")
        styles = {mark.style for mark in used}
        full = len(used) == len(marks) and all(mark.text != PARTLY_USED for mark in used)
        return Span("■" if full else PARTLY_USED, styles.pop() if len(styles) == 1 else "text")

    def _host_mark(self, host: Host) -> Span:
        """One mark for a host, by its first and last GPU: the GPUs of one job are next to each other."""
        mark, first, last = host_mark(host), host.gpus[0], host.gpus[-1]
        if mark.text != " ":
            return mark
        if first is last or (first.state is last.state and first.holder == last.holder):
            return self.gpu_mark(first, host)
        if first.state is GpuState.FREE:
            return FREE_PIP
        alone = all(pip.holder in (first.holder, None) for pip in host.gpus)
        style = self.gpu_mark(first, host).style if alone else "text"
        return Span("■" if last.state is GpuState.HELD else PARTLY_USED, style)

    # moving

    def action_step(self, hosts: int) -> None:
        index = self._cursor_index()
        if index is not None:
            self._move_cursor(max(0, min(len(self._spots) - 1, index + hosts)))

    def action_line(self, lines: int) -> None:
        index = self._cursor_index()
        if index is None:
            return
        here = self._spots[index]
        ys = sorted({spot.y for spot in self._spots})
        y = ys[max(0, min(len(ys) - 1, ys.index(here.y) + lines))]
        self._move_cursor(min((abs(spot.x - here.x), n) for n, spot in enumerate(self._spots) if spot.y == y)[1])

    def action_open(self) -> None:
        if self.zoom is MapZoom.SUBBLOCKS:
            self.change_zoom(-1)
        elif self._cursor:
            self.post_message(self.Opened(self._cursor))

    async def _on_click(self, event: events.Click) -> None:
        event.stop()
        y = event.y + self.scroll_offset.y
        for index, spot in enumerate(self._spots):
            if spot.y <= y < spot.y + self._shape.rows and spot.x <= event.x < spot.x + spot.width:
                self._move_cursor(index)
                if event.chain == 2:
                    self.action_open()

    def _cursor_index(self) -> int | None:
        return self._index_by_node.get(self._cursor)

    def _move_cursor(self, index: int) -> None:
        before, spot = self._cursor_index(), self._spots[index]
        self._cursor = spot.hosts[0].node.name
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        if not top <= spot.y < top + height:
            self.scroll_to(y=spot.y if spot.y < top else spot.y - height + 1, animate=False, immediate=True, force=True)
        for number in {index, before if before is not None else index}:
            y = self._spots[number].y - self.scroll_offset.y
            self.refresh(Region(0, y, self.size.width, self._shape.rows))
        self.post_message(self.Moved())
