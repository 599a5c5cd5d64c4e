"""A column as shown in a page's table, in the command's table, and in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec import Struct

from console.kube.stream_completeness import SERVER_CLOCK
from screens.wording import Cell, Span, age, plain_text

if TYPE_CHECKING:
    from console.kube.snapshot import Fleet

RowT = TypeVar("RowT")
RowKey = tuple[str, ...]  # what a row stays itself by, whatever is shown: usually namespace and name
PAGE: Literal["page"] = "page"
COMMAND: Literal["command"] = "command"


class Column(Struct, Generic[RowT], frozen=True):
    """One column of a list: title, cell, JSON key and width."""

    title: str
    cell: Callable[[RowT], Cell]
    key: str = ""  # in JSON; empty: not there
    meaning: str = ""  # of the key, for the command's help
    value: Callable[[RowT], Any] | None = None  # in JSON, and to sort by; None: what the cell says
    only: Literal["", "page", "command", "json"] = ""  # shown nowhere else; a key is in JSON all the same
    width: int = 0  # columns of the screen; 0: as wide as its widest cell, between `least` and `most`
    least: int = 4
    most: int = 200
    fill: bool = False  # takes what is left of the line
    right: bool = False  # aligned to the right, as numbers are
    sort: Callable[[RowT], Any] | Literal[True] | None = None  # what `o` sorts by, True: the value; None: never sorted
    down: bool = False  # largest first when first sorted
    cut: Literal["end", "middle", "node"] = "end"  # where a text too long is cut; names differ at their ends
    style: str = ""
    drop: int = 0
    """Priority of dropping the column on a narrow line: 0 never, else the highest first. Below OPTIONAL_DROP only if
    the line is too short; from OPTIONAL_DROP on also to keep another column's text from being cut."""
    draw: Callable[[RowT, int], Cell] | None = None
    """Draws the cell for a given width (between `least` and `most`), such as a bar; None: `cell` draws it."""
    ages: bool = False  # what it shows changes with time alone

    @property
    def name(self) -> str:
        return self.title or self.key

    @property
    def values(self) -> Callable[[RowT], Any]:
        return self.value or self.cell

    @property
    def order(self) -> Callable[[RowT], Any] | None:
        """The sort key of rows by this column; None if rows cannot be sorted by it."""
        return self.values if self.sort is True else self.sort

    @property
    def floor(self) -> int:
        """The minimum width: room for the title and the sort arrow."""
        return max(self.width or self.least, len(self.title) + (self.sort is not None))

    def draw_cell(self, row: RowT, width: int) -> Cell:
        return self.draw(row, width) if self.draw else self.cell(row)


def fact(key: str, meaning: str, value: Callable[[RowT], Any]) -> Column[RowT]:
    """A column that appears in JSON only."""
    return Column("", lambda row: "", key, meaning, value, only="json")


def age_column(
    title: str, moment: Callable[[RowT], float], key: str = "", meaning: str = "", *, drop: int = 0
) -> Column[RowT]:
    """A column with the time since a moment of each row; 0.0 is shown as empty, in JSON null."""

    def cell(row: RowT) -> Cell:
        start = moment(row)
        return Span(age(SERVER_CLOCK.now() - start), "dim") if start else ""

    return Column(title, cell, key, meaning, lambda row: moment(row) or None, width=6, right=True, sort=moment,
                  down=True, drop=drop, ages=True)  # fmt: skip


CREATED = "created", "when it was made, seconds since the epoch"


class ListLayout(Struct, Generic[RowT], frozen=True):
    """The columns of one list, and how its rows are made."""

    main_kind: str
    """The main kind of the list: the list fails if it cannot be read."""
    uses: tuple[str, ...]
    """Further kinds, which add details if they can be read."""
    make_rows: Callable[[Fleet, str | None, Callable[[str], str]], Iterable[RowT]]
    """Makes the rows from (fleet, namespace or None for all, function that names an owner)."""
    columns: tuple[Column[RowT], ...]

    def rows(self, fleet: Fleet, namespace: str | None = None) -> list[dict[str, Any]]:
        return as_json(self.columns, self.make_rows(fleet, namespace, str))


def as_json(columns: Iterable[Column[RowT]], rows: Iterable[RowT]) -> list[dict[str, Any]]:
    keyed = [(column.key, column.values) for column in columns if column.key]
    return [{key: value(row) for key, value in keyed} for row in rows]


def text_table(columns: Iterable[Column[RowT]], rows: Iterable[RowT]) -> tuple[list[str], list[list[str]]]:
    """(titles, cells) of the table that a command prints; long sentences come last."""
    shown = sorted((column for column in columns if column.only in {"", COMMAND}), key=lambda column: column.fill)
    cells = [[plain_text(column.cell(row)) for column in shown] for row in rows]
    return [f"{'>' * column.right}{column.title}" for column in shown], cells
