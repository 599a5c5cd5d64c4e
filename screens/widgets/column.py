"""Columns: how a table's rows become cells, and how wide the cells are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.cells import cell_len

from screens.wording import Cell, Run, age

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SENTENCE = 40
"""Columns that a sentence at the end of a line is worth."""
RowT = TypeVar("RowT")
GAP = 2
EXTRA = 5
"""Columns with this `drop` or more are shown only where all others have their full width."""


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One column: its title, what a row shows in it, how wide it may be."""

    title: str
    cell: Callable[[RowT], Cell]
    width: int = 0
    """Columns of the screen; 0: as wide as its widest cell, between `least` and `most`."""
    least: int = 4
    most: int = 200
    fill: bool = False
    """Takes what is left of the line."""
    right: bool = False
    """Aligned to the right, as numbers are."""
    sort: Callable[[RowT], Any] | None = None
    """What `o` sorts by; without it the column is never sorted."""
    down: bool = False
    """Largest first when first sorted."""
    tail: bool = False
    """Of a text too long its end is kept: that is where node names differ."""
    ink: str = ""
    drop: int = 0
    """0: always shown; else the highest number is the first to go when the line is too short: below EXTRA only when
    it must, from EXTRA on before another column's text is cut."""
    drawn: Callable[[RowT, int], Cell] | None = None
    """Draws the cell for the width it gets, as a bar wants; its column is between `least` and `most` wide."""
    key: str = ""
    """Name to sort by in code; empty: the title."""
    ages: bool = False
    """What it shows changes with time alone."""

    @property
    def name(self) -> str:
        """What it is called in code."""
        return self.key or self.title

    @property
    def floor(self) -> int:
        """The narrowest it can be: its title has room, and the arrow if it can be sorted."""
        return max(self.width or self.least, len(self.title) + (self.sort is not None))

    def measure(self, row: RowT) -> int:
        """Screen columns the cell of that row wants."""
        return self.most if self.drawn else cell_width(self.cell(row))

    def at(self, row: RowT, width: int) -> Cell:
        """The cell of that row in a column of that width."""
        return self.drawn(row, width) if self.drawn else self.cell(row)


def since(title: str, moment: Callable[[RowT], float], *, width: int = 6, drop: int = 0) -> Column[RowT]:
    """A column that counts up from a moment of each row; a moment of 0.0 is shown as nothing."""

    def cell(row: RowT) -> Cell:
        start = moment(row)
        return Run(age(time.time() - start), "dim") if start else ""

    return Column(title, cell, width=width, right=True, sort=moment, down=True, drop=drop, ages=True)


def cell_width(cell: Cell) -> int:
    """Screen columns of a cell's text."""
    if isinstance(cell, str):
        return len(cell) if cell.isascii() else cell_len(cell)
    if isinstance(cell, Run):
        return cell_width(cell.text)
    return sum(cell_width(run.text) for run in cell)


def share(columns: Sequence[Column[RowT]], wants: Sequence[int], room: int) -> list[tuple[Column[RowT], int]]:
    """The columns that fit in `room` and their widths; `wants` is the widest cell of each."""
    kept = list(zip(columns, wants, strict=True))
    while kept:
        last = max(kept, key=lambda pair: pair[0].drop)
        enough = _wanted if last[0].drop >= EXTRA else _least
        if not last[0].drop or sum(enough(*pair) + GAP for pair in kept) - GAP <= room:
            break
        kept.remove(last)
    widths = {id(column): column.floor for column, _ in kept}
    spare = room - sum(widths.values()) - GAP * max(0, len(kept) - 1)
    for column, want in sorted(kept, key=_turn):
        if not column.width:
            more = max(0, min(spare, min(column.most, want) - column.floor))
            widths[id(column)] += more
            spare -= more
    filling = [column for column, _ in kept if column.fill]
    for column in filling:
        widths[id(column)] += max(0, spare // len(filling))
    return [(column, widths[id(column)]) for column, _ in kept]


def _turn(pair: tuple[Column[RowT], int]) -> int:
    """Text that is cut anywhere else takes its width first, then what fills the line, and bars take what is left."""
    column, _ = pair
    return 2 if column.drawn else 1 if column.fill else 0


def _least(column: Column[RowT], want: int) -> int:
    return column.floor


def _wanted(column: Column[RowT], want: int) -> int:
    if column.drawn:
        return column.floor
    return max(column.floor, min(SENTENCE if column.fill else column.most, want))
