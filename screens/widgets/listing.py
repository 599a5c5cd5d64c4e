"""Listing: which rows a table shows and in which order; sorting and filtering without drawing."""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic

from screens.widgets.column import RowT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RowKey = tuple[str, ...]
"""What a row stays itself by, whatever is shown: usually namespace and name."""


class Listing(Generic[RowT]):
    """Rows by key, those that match the filter, in order."""

    def __init__(self, text: Callable[[RowT], str]) -> None:
        self.rows: Mapping[RowKey, RowT] = {}
        self.keys: list[RowKey] = []
        """Keys of the shown rows, top to bottom."""
        self.changes: list[tuple[RowT | None, RowT | None]] = []
        """Rows before and after the last update, where they are not the same object; None: there was or is none."""
        self._text = text
        self._given: list[RowKey] = []
        self._sort: Callable[[RowT], Any] | None = None
        self._descending = False
        self._wanted: list[str] = []
        self._unwanted: list[str] = []
        self._index: dict[RowKey, int] | None = None

    def update(self, rows: Mapping[RowKey, RowT]) -> bool:
        """Take new rows; whether anything moved. Rows that are the same objects cost next to nothing."""
        before, self.rows = self.rows, rows
        self.changes = []
        if rows is before:
            return False
        given = list(rows)
        if given == self._given:
            pairs = zip(before.values(), rows.values(), strict=True)
            self.changes = list(compress(pairs, map(is_not, before.values(), rows.values())))
            if not any(self._moves(old, new) for old, new in self.changes if old is not None and new is not None):
                return False
        else:
            self.changes = [(before.get(key), row) for key, row in rows.items() if before.get(key) is not row]
            self.changes += [(row, None) for key, row in before.items() if key not in rows]
        self._given = given
        return self._arrange()

    def sort_by(self, sort: Callable[[RowT], Any] | None, *, descending: bool = False) -> None:
        """Order by that value of a row; None keeps the order in which rows are given."""
        self._sort, self._descending = sort, descending
        self._arrange()

    def filter_by(self, text: str) -> None:
        """Keep rows that contain every word, and none of the words that start with "!"."""
        words = text.casefold().split()
        self._wanted = [word for word in words if not word.startswith("!")]
        self._unwanted = [word[1:] for word in words if word.startswith("!") and len(word) > 1]
        self._arrange()

    def index(self, key: RowKey) -> int | None:
        """Where that row is, None if it is not shown."""
        if self._index is None:
            self._index = {each: number for number, each in enumerate(self.keys)}
        return self._index.get(key)

    def matches(self, row: RowT) -> bool:
        """Whether the filter lets that row through."""
        if not self._wanted and not self._unwanted:
            return True
        text = self._text(row).casefold()
        return all(word in text for word in self._wanted) and not any(word in text for word in self._unwanted)

    def _moves(self, old: RowT, new: RowT) -> bool:
        if self._sort is not None and self._sort(old) != self._sort(new):
            return True
        return self.matches(old) != self.matches(new)

    def _arrange(self) -> bool:
        rows = self.rows
        keys = [key for key in self._given if self.matches(rows[key])] if self._filters else list(self._given)
        sort = self._sort
        if sort is not None:
            keys.sort(key=lambda key: sort(rows[key]), reverse=self._descending)
        if keys == self.keys:
            return False
        self.keys, self._index = keys, None
        return True

    @property
    def _filters(self) -> bool:
        return bool(self._wanted or self._unwanted)
