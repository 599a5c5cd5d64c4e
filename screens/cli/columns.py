"""What the listing commands show: each list is a table of declared columns, the same for text and for JSON.

A column's key is its JSON key; `a4 LIST --help` prints them with their meaning, so this is also where they are documented.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.models.why import why, why_jobset
from screens import wording
from screens.cli import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.models.fleet import Fleet

Value = str | int | float | bool | None | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One key of a listing's JSON objects, and one column of its table unless `wide`."""

    key: str
    meaning: str
    wide: bool = False
    """Only in JSON."""
    title: str = ""
    say: Callable[[Any], str] = lambda value: "" if value is None else str(value)
    """The value as the table shows it."""
    right: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing command: what it watches, its columns, and the rows of a picture."""

    needs: tuple[str, ...]
    """Kinds it cannot do without; the first is the one it lists."""
    uses: tuple[str, ...]
    """Kinds that tell it more where they can be read."""
    columns: tuple[Column, ...]
    rows: Callable[[Fleet, str | None], list[dict[str, Value]]]
    """Rows of a picture, in a namespace or (None) in all."""
