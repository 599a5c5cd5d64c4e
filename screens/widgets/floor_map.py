"""The floor map: blocks, subblocks and hosts of the node pools, one mark per GPU in the colour of its job."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.scheduling.topology import GpuState, format_gpu_sum
from screens.widgets.line import CutLines, Inked, changed_columns, fit, fit_runs, joined, line
from screens.widgets.table.row_painter import cell_width
from screens.wording import Span, count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.segment import Segment
    from textual import events

    from console.scheduling.topology import Floor, Holder, Host, HostGpu


LABEL = 6  # most columns of a host's short name
PLACE = 10  # most columns of a block's or subblock's name


@dataclass(frozen=True, slots=True)
class FloorLine:
    """One line of the map: a pool's heading, or place names followed by hosts."""

    block: str = ""
    subblock: str = ""
    hosts: tuple[Host, ...] = ()
    heading: tuple[Span, ...] = ()


def short_name(name: str) -> str:
    """The last part of a node's name, which distinguishes it from its neighbours."""
    return name.rsplit("-", 1)[-1][-LABEL:]


def floor_lines(floor: Floor, per_line: int) -> list[FloorLine]:
    """The floor in lines of at most `per_line` hosts; each subblock starts a line, names appear when they change."""
    lines: list[FloorLine] = []
    for block in floor.blocks:
        name = block.name or "─"
        for subblock in block.subblocks:
            label = subblock.name or "─"
            for start in range(0, len(subblock.hosts), per_line):
                lines.append(FloorLine(name, label, subblock.hosts[start : start + per_line]))
                name = label = ""
    return lines


def widest(names: Sequence[str]) -> int:
    """Number of columns that the longest of these place names takes."""
    return min(PLACE, max((cell_len(name) for name in names), default=0) or 1)


def host_mark(host: Host) -> Span:
    """The most important fact about a host besides its GPUs, as one character."""
    node = host.node
    if host.out_of_use == host.total:
        return Span(" ")  # its pips say it
    if host.faults and not (node.maintenance_active and len(host.faults) == 1):
        return Span("✗", "bad")
    if node.maintenance_active or node.maintenance_at:
        return Span("⚠", "waits")
    return Span("‖", "waits") if node.cordoned else Span(" ")


def host_caption(host: Host) -> str:
    """The text below a host: its job, or why it has none."""
    names = list(dict.fromkeys(pip.holder.name for pip in host.pips if pip.holder))
    if len(names) > 1:
        return f"{len(names)} jobs"
    if names:
        return names[0]
    if host.starting:
        return "starting"
    if host.faults:
        return "faulty"
    return "cordoned" if host.node.cordoned else ""


def legend(
    holders: Sequence[tuple[Holder, int]],
    width: int,
    ink_of: Callable[[str], str],
    glyph_of: Callable[[str], str],
    whose: Callable[[str], str],
) -> list[Span]:
    """One line with the GPU holders and their owners, most GPUs first; those that do not fit are counted."""
    runs: list[Span] = []
    left = width
    for number, (holder, gpus) in enumerate(holders):
        owner = f"{whose(holder.owner)}, " if holder.owner else ""
        entry = [Span(f"{glyph_of(holder.uid)} ", ink_of(holder.uid)), Span(holder.name, "text"),
                 Span(f" ({owner}{gpus})   ", "dim")]  # fmt: skip
        need = cell_width(entry)
        rest = len(holders) - number
        if need > left - (12 if rest > 1 else 0):
            return [*runs, Span(f"+ {rest} more", "dim")]
        runs += entry
        left -= need
    return runs


def stretch_words(floor: Floor) -> list[Span]:
    if not floor.total:
        return []
    largest = floor.largest
    if not largest.in_all:
        loose = f"; {count(floor.free, 'GPU')} free on shared hosts" if floor.free else ""
        return [Span(f"{format_gpu_sum(floor)}. No host is wholly free{loose}.", "dim")]
    where = f" in one subblock ({largest.subblock})" if largest.subblock else " in one subblock"
    runs = [Span("Largest free: ", "dim"), Span(f"{largest.in_subblock} GPUs", "strong"), Span(where, "dim")]
    if largest.in_block > largest.in_subblock:
        runs += [Span(", ", "dim"), Span(f"{largest.in_block}", "strong"), Span(" in one block", "dim")]
    if largest.in_all > largest.in_block:
        runs += [Span(", ", "dim"), Span(f"{largest.in_all}", "strong"), Span(" in all", "dim")]
    return [*runs, Span(f". {format_gpu_sum(floor)}.", "dim")]


class FloorKey(CutLines):
    DEFAULT_CSS = "FloorKey { height: 2; }"


class Spot(NamedTuple):
    y: int
    x: int
    host: Host


class FloorMap(ScrollView, Inked, can_focus=True, inherit_bindings=False):
    """The hosts of the node pools; arrow keys move between hosts, Enter opens the node."""

    DEFAULT_CSS = "FloorMap { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open node", id="floor.open"),
        Binding("left", "step(-1)", "Left", show=False, id="floor.left"),
        Binding("right", "step(1)", "Right", show=False, id="floor.right"),
        Binding("up,k", "line(-1)", "Up", show=False, id="floor.up"),
        Binding("down,j", "line(1)", "Down", show=False, id="floor.down"),
    ]

    @dataclass
    class Moved(Message):
        host: Host | None

    @dataclass
    class Opened(Message):
        node: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._floors: tuple[tuple[tuple[Span, ...], Floor], ...] = ()
        self._inks: Mapping[str, str] = {}
        self._lines: list[FloorLine] = []
        self._spots: list[Spot] = []
        self._numbers: dict[str, int] = {}
        self._cursor = ""
        self._label = 0
        self._pips = 0
        self._place = (0, 0)
        self._rows = 1
        self._starts = [0]
        self._drawn: dict[int, Strip] = {}
        self._painted: dict[int, Strip] = {}

    def show_floors(self, floors: Sequence[tuple[tuple[Span, ...], Floor]], ink_of: Callable[[str], str]) -> None:
        """Show these pools' floors; `ink_of` gives the style for a holder's uid."""
        self._inks = {holder.uid: ink_of(holder.uid) for _, floor in floors for holder, _ in floor.holders}
        self._floors = tuple(floors)
        self._arrange()
        self._repaint_changed()

    def move_to(self, floor: int) -> None:
        """Scroll to the floor with that index and put the cursor on its first host."""
        headings = [y for y, line in enumerate(self._lines) if line.heading]
        if floor < len(headings):
            first = next((n for n, spot in enumerate(self._spots) if spot.y > self._starts[headings[floor]]), None)
            if first is not None:
                self._cursor = self._spots[first].host.node.name
            self.scroll_to(y=self._starts[headings[floor]], animate=False, immediate=True, force=True)
            self.refresh()

    @property
    def host(self) -> Host | None:
        index = self._index()
        return None if index is None else self._spots[index].host

    def pip(self, pip: HostGpu, host: Host) -> Span:
        if pip.state is GpuState.FREE:
            return Span("·", "text")
        if pip.state is GpuState.OUT:
            return Span("✗", "bad") if host.faults else Span("◐", "waits") if host.starting else Span("‖", "dim")
        uid = pip.holder.uid if pip.holder else ""
        return Span(self.glyph(uid), self._inks.get(uid, "dim"))

    def glyph(self, uid: str) -> str:
        """The character for a holder; without colours each holder gets its own letter."""
        if not self.app.no_color:
            return "■"
        order = list(self._inks)
        return chr(ord("a") + order.index(uid) % 26) if uid in order else "?"

    # where things are

    def _arrange(self) -> None:
        width = self.size.width
        if not width:
            return
        hosts = [host for _, floor in self._floors for host in floor.hosts]
        blocks = [block.name for _, floor in self._floors for block in floor.blocks]
        subblocks = [each.name for _, floor in self._floors for each in floor.subblocks]
        self._place = (widest(blocks), widest(subblocks))
        self._label = max((len(short_name(host.node.name)) for host in hosts), default=0)
        self._pips = max((host.total for host in hosts), default=0)
        lines = self._fold()
        if len(lines) > self.size.height and self._label:
            self._label = 0  # so many hosts that names would push half of them out of sight
            lines = self._fold()
        full = sum(not line.heading for line in lines)
        room = self.size.height - (len(lines) - full)
        self._rows = next((rows for rows in (3, 2) if self._label and full * rows <= room), 1)
        self._lines = lines
        self._starts = [0, *accumulate(1 if line.heading else self._rows for line in lines)]
        self._spots = [
            Spot(self._starts[number], self._left + index * self._cell, host)
            for number, line in enumerate(lines)
            for index, host in enumerate(line.hosts)
        ]
        self._drawn = {}
        self._numbers = {spot.host.node.name: number for number, spot in enumerate(self._spots)}
        if self.host is None:
            self._cursor = self._spots[0].host.node.name if self._spots else ""
        self.virtual_size = Size(width, self._starts[-1])
        self.post_message(self.Moved(self.host))

    def _fold(self) -> list[FloorLine]:
        per_line = max(1, (self.size.width - self._left) // self._cell)
        return [
            row
            for heading, floor in self._floors
            for row in (FloorLine(heading=heading), *floor_lines(floor, per_line))
        ]

    @property
    def _left(self) -> int:
        return sum(self._place) + 5

    @property
    def _cell(self) -> int:
        return (self._label + 1 if self._label else 0) + 1 + self._pips + 2

    # drawing

    def on_resize(self) -> None:
        self._arrange()
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()
        self.post_message(self.Moved(self.host))

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        strip = self._painted[y] = self._line(y)
        return strip

    def _repaint_changed(self) -> None:
        """Repaint only the columns that changed: a snapshot changes few marks of a large floor."""
        for y in range(self.size.height):
            old, new = self._painted.get(y), self._line(y)
            left, end = changed_columns(old, new) if old is not None else (0, self.size.width)
            if left < end:
                self.refresh(Region(left, y, end - left, 1))

    def _line(self, y: int) -> Strip:
        at = y + self.scroll_offset.y
        if at >= self._starts[-1]:
            return Strip.blank(self.size.width, self.rich_style)
        index = self._index()
        if self.has_focus and index is not None and 0 <= at - self._spots[index].y < self._rows:
            return self._strip(at)
        if at not in self._drawn:
            self._drawn[at] = self._strip(at)
        return self._drawn[at]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.__dict__["_drawn"] = {}

    def _strip(self, at: int) -> Strip:
        width = self.size.width
        number = bisect_right(self._starts, at) - 1
        row, part = self._lines[number], at - self._starts[number]
        if row.heading:
            return line([Span("  "), *row.heading], width, self.over(self.ground("head")))
        back = self.rich_style.background_style
        block, subblock = self._place
        names = [Span(f"  {fit(row.block, block)} ", "head"), Span(f"{fit(row.subblock, subblock)}  ", "dim")]
        segments = fit_runs([] if part else names, self._left, self.over(back))
        for host in row.hosts:
            segments += self._host(host, part)
        return Strip(joined(segments)).adjust_cell_length(width, back)

    def _host(self, host: Host, part: int) -> list[Segment]:
        plain = self.rich_style.background_style
        here = self.has_focus and host.node.name == self._cursor and part != 2
        if part:
            runs = [Span(host_caption(host) if part == 1 else "", "dim")]
        else:
            runs = [Span(fit(short_name(host.node.name), self._label) + " ", "dim")] if self._label else []
            pips = groupby(self.pip(pip, host) for pip in host.pips)  # fewer runs: a thousand hosts are redrawn at once
            runs += [host_mark(host), *(Span(pip.text * len(list(same)), pip.ink) for pip, same in pips)]
        back = self.ground("cursor") if here else plain
        return [*fit_runs(runs, self._cell - 2, self.over(back)), *fit_runs([], 2, self.over(plain))]

    # moving

    def action_step(self, hosts: int) -> None:
        index = self._index()
        if index is not None:
            self._point(max(0, min(len(self._spots) - 1, index + hosts)))

    def action_line(self, lines: int) -> None:
        index = self._index()
        if index is None:
            return
        here = self._spots[index]
        ys = sorted({spot.y for spot in self._spots})
        y = ys[max(0, min(len(ys) - 1, ys.index(here.y) + lines))]
        self._point(min((abs(spot.x - here.x), n) for n, spot in enumerate(self._spots) if spot.y == y)[1])

    def action_open(self) -> None:
        if self._cursor:
            self.post_message(self.Opened(self._cursor))

    async def _on_click(self, event: events.Click) -> None:
        event.stop()
        y = event.y + self.scroll_offset.y
        for index, spot in enumerate(self._spots):
            if spot.y <= y < spot.y + self._rows and spot.x <= event.x < spot.x + self._cell:
                self._point(index)
                if event.chain == 2:
                    self.action_open()

    def _index(self) -> int | None:
        return self._numbers.get(self._cursor)

    def _point(self, index: int) -> None:
        before, spot = self._index(), self._spots[index]
        self._cursor = spot.host.node.name
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        if not top <= spot.y < top + height:
            self.scroll_to(y=spot.y if spot.y < top else spot.y - height + 1, animate=False, immediate=True, force=True)
        for number in {index, before if before is not None else index}:
            y = self._spots[number].y - self.scroll_offset.y
            self.refresh(Region(0, y, self.size.width, self._rows))
        self.post_message(self.Moved(spot.host))
