"""Sorts and filters the rows of a table, without drawing."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain, compress, islice
from operator import is_not
from typing import Any, Generic

from screens.columns.column import RowKey, RowT

MANY = 2000
"""Rows from which on values to sort by are kept of those that have not changed; of fewer all are asked for anew, as
some change with time."""
FEW = 2
"""Of how many rows one may be new where it is quicker to put each in its place than to sort all of them."""


class Listing(Generic[RowT]):
    """Rows by key, filtered and sorted.

    A table that grows without an end is arranged by what is new in it: nothing is called for each row there is.
    """

    def __init__(self, text: Callable[[RowT], str]) -> None:
        self.rows: Mapping[RowKey, RowT] = {}
        self.behind = False  # whether not all rows that were given are among them yet
        self.keys: list[RowKey] = []  # keys of the shown rows, top to bottom
        self.changes: list[tuple[RowT | None, RowT | None]] = []
        """Rows before and after the last update, where they are not the same object; None: there was or is none."""
        self._given: Mapping[RowKey, RowT] = self.rows
        self._taken: dict[RowKey, RowT] = {}  # `rows` while they are behind
        self._due: Iterator[tuple[RowKey, RowT | None, RowT]] = iter(())
        """Of the rows given those that are new or others than before, with what they were before."""
        self._in_place = True  # whether no row that was there before has gone or moved
        self._text = text
        self._sort: Callable[[RowT], Any] | None = None
        self._values: dict[RowKey, Any] = {}  # what rows are sorted by
        self._ascending: list[RowKey] = []  # the shown rows of a sorted table, by that value: equal ones are in the
        self._order: list[Any] = []  # order of `rows`, or in the opposite one if the table is shown descending
        self._descending = False
        self._wanted: list[str] = []
        self._unwanted: list[str] = []

    def update(self, rows: Mapping[RowKey, RowT], at_once: int = sys.maxsize) -> bool:
        """Take new rows; returns whether any moved. Rows that are the same objects are not compared.

        No more than `at_once` that are not are taken: the table is `behind` until it was told the others again.
        """
        if rows is self.rows:
            self.changes = []
            return False
        going_on = self.behind and rows is self._given
        gone = set[RowKey]() if going_on else self._compare(rows)
        before = self.rows
        touched = list(islice(self._due, at_once))
        self.behind = len(touched) == at_once
        self.changes = [(old, row) for _, old, row in touched] + [(before[key], None) for key in gone]
        if not self.behind:
            self.rows = rows
        else:
            if not going_on:
                self._taken = {key: row for key, row in before.items() if key not in gone} if gone else dict(before)
            self._taken.update((key, row) for key, _, row in touched)
            self.rows = self._taken
        moves = (
            not self._in_place
            or (touched and touched[-1][1] is None)
            or any(self._moves(key, old, row) for key, old, row in touched if old is not None)
        )
        return bool(moves) and self._arrange_anew(touched, gone)

    def _compare(self, rows: Mapping[RowKey, RowT]) -> Set[RowKey]:
        """Start to take these rows; returns the keys that are gone."""
        before, self._given = self.rows, rows
        known = len(before)
        self._in_place = len(rows) >= known and list(islice(rows, known)) == list(before)
        if not self._in_place:
            self._due = ((key, old, row) for key, row in rows.items() if (old := before.get(key)) is not row)
            return before.keys() - rows.keys()
        # nothing has gone or moved: no key has to be looked up
        differ = map(is_not, before.values(), rows.values())
        pairs = zip(rows, before.values(), rows.values(), strict=False)
        new = ((key, None, row) for key, row in islice(rows.items(), known, None))
        self._due = chain(compress(pairs, differ), new)
        return set()

    def sort_by(self, sort: Callable[[RowT], Any] | None, *, descending: bool = False) -> None:
        """Sort by that value of a row; None keeps the given order."""
        self._sort, self._descending = sort, descending
        self._arrange()

    def filter_by(self, text: str) -> None:
        """Show rows that contain every word, and none of the words prefixed with "!"."""
        words = text.casefold().split()
        self._wanted = [word for word in words if not word.startswith("!")]
        self._unwanted = [word[1:] for word in words if word.startswith("!") and len(word) > 1]
        self._arrange()

    def index(self, key: RowKey) -> int | None:
        try:
            if self._sort is None:
                return self.keys.index(key)
            value = self._values[key]
            start = bisect_left(self._order, value)
            at = self._ascending.index(key, start, bisect_right(self._order, value, start))
        except (ValueError, KeyError):
            return None
        return len(self.keys) - 1 - at if self._descending else at

    def matches(self, row: RowT) -> bool:
        if not self._wanted and not self._unwanted:
            return True
        text = self._text(row).casefold()
        return all(word in text for word in self._wanted) and not any(word in text for word in self._unwanted)

    def _moves(self, key: RowKey, old: RowT, new: RowT) -> bool:
        if self._sort is not None and self._values.get(key) != self._sort(new):
            return True
        return self._filters and self.matches(old) != self.matches(new)

    def _arrange(self) -> bool:
        """Filter and sort all rows, as after another filter or order."""
        rows, sort = self.rows, self._sort
        keys = [key for key, row in rows.items() if self.matches(row)] if self._filters else list(rows)
        self._values = values = {key: sort(row) for key, row in rows.items()} if sort is not None else {}
        if sort is None:
            return self._show(keys)
        keys.sort(key=values.__getitem__, reverse=self._descending)
        if self._descending:
            keys.reverse()
        self._ascending, self._order = keys, [values[key] for key in keys]
        return self._show_sorted()

    def _arrange_anew(self, touched: Sequence[tuple[RowKey, RowT | None, RowT]], gone: Set[RowKey]) -> bool:
        """Filter and sort only the changed rows, if they are few."""
        if len(self.rows) < MANY or len(touched) > len(self.rows) // FEW:
            return self._arrange()
        if self._sort is None and not self._filters:
            return self._show(list(self.rows))
        moved = [(key, row) for key, old, row in touched if old is None or self._moves(key, old, row)]
        hidden = gone | {key for key, _ in moved}
        new = [(key, row) for key, row in moved if self.matches(row)]
        if self._sort is None:
            shown = set(self.keys).difference(hidden).union(key for key, _ in new)
            return self._show([key for key in self.rows if key in shown])
        if not hidden.isdisjoint(self._values):
            stay = [key not in hidden for key in self._ascending]
            self._ascending, self._order = list(compress(self._ascending, stay)), list(compress(self._order, stay))
        for key in gone:
            self._values.pop(key, None)
        self._values.update((key, self._sort(row)) for key, row in moved)
        self._insert([key for key, _ in new])
        return self._show_sorted()

    def _insert(self, new: list[RowKey]) -> None:
        """Insert these keys in order: sorting 100,000 rows again takes as long as drawing four frames."""
        values, keys, order = self._values, self._ascending, self._order
        new.sort(key=values.__getitem__, reverse=self._descending)
        if self._descending:
            new.reverse()
        place = bisect_left if self._descending else bisect_right
        self._ascending, self._order, start = [], [], 0
        for key in new:
            at = place(order, values[key], start)
            self._ascending += keys[start:at]
            self._ascending.append(key)
            self._order += order[start:at]
            self._order.append(values[key])
            start = at
        self._ascending += keys[start:]
        self._order += order[start:]

    def _show_sorted(self) -> bool:
        return self._show(self._ascending[::-1] if self._descending else self._ascending)

    def _show(self, keys: list[RowKey]) -> bool:
        if keys == self.keys:
            return False
        self.keys = keys
        return True

    @property
    def _filters(self) -> bool:
        return bool(self._wanted or self._unwanted)
