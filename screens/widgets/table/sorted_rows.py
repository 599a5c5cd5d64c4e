"""Sorts and filters the rows of a table, without drawing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, chain, compress, islice
from operator import is_not
from typing import Any, Generic

from screens.columns.column import RowKey, RowT

MANY_ROWS = 2000
"""Number of rows from which on sort values and search texts of unchanged rows are cached; with fewer rows all are
computed again, as some change with time."""
FEW_CHANGES_PART = 2
"""Divisor of the number of rows: if more rows than the quotient have changed, all rows are arranged again."""
FEW_MOVED_PART = 100
"""Divisor of the number of rows: up to so many rows that have moved are put in their places one by one."""
ROWS_PER_SAMPLED, RECURRING_PART = 16, 0.75
"""One of so many rows is sampled for its sort value; if at most this share of the sampled values differ, only the
distinct values are sorted, and rows are grouped by them."""
ROWS_SEARCHED_PER_SLICE, ROWS_SORTED_PER_SLICE = 4000, 8000
"""Rows whose search texts are made, and rows that are sorted ahead, before other tasks get their turn."""


def _is_moved(sort: Callable[[Any], Any] | None, changed_rows: Iterable[tuple[int, RowKey, RowT | None, RowT]]) -> bool:
    """Whether any row is new, or has another sort value than before."""
    return sort is not None and any(old is None or sort(old) != sort(row) for *_, old, row in changed_rows)


def _sorted_places(values: Sequence[Any], *, descending: bool) -> list[int]:
    """The order of rows by their sort values; equal rows stay in the given order."""
    first = values[: len(values) // ROWS_PER_SAMPLED + 1]
    if len(set(first)) > len(first) * RECURRING_PART:
        return sorted(range(len(values)), key=values.__getitem__, reverse=descending)
    places: dict[Any, list[int]] = {value: [] for value in sorted(set(values), reverse=descending)}
    for place, value in enumerate(values):
        places[value].append(place)
    return list(chain.from_iterable(places.values()))


def _sort_again(order: list[int], values: Sequence[Any], moved: Collection[int], *, descending: bool) -> list[int]:
    """The order after the values of the rows at the places `moved` have changed; equal rows stand by their place."""
    if len(moved) > len(order) // FEW_MOVED_PART:
        return _sorted_places(values, descending=descending)
    is_moved = bytearray(len(order))
    for place in moved:
        is_moved[place] = True
    stay, arranged, start = [place for place in order if not is_moved[place]], list[int](), 0
    for place in sorted(sorted(moved), key=values.__getitem__, reverse=descending):
        value, low, high = values[place], start, len(stay)
        while low < high:
            middle = (low + high) // 2
            other = values[stay[middle]]
            is_before = stay[middle] < place if other == value else (other < value) is not descending
            low, high = (middle + 1, high) if is_before else (low, middle)
        arranged += stay[start:low]
        arranged.append(place)
        start = low
    return arranged + stay[start:]


def _sort_in_slices(listing: SortedRows[Any], sort: Callable[[Any], Any], *, descending: bool) -> Iterator[None]:
    """Sort the rows into `order_ahead`, yielding after each slice; merging the sorted slices at the end is quick."""
    values, order = listing.values_ahead, list[int]()
    while some := listing._all[len(values) : len(values) + ROWS_SORTED_PER_SLICE]:
        values += [sort(listing.rows[key]) for key in some]
        order += sorted(range(len(order), len(values)), key=values.__getitem__, reverse=descending)
        yield
    order.sort(key=values.__getitem__, reverse=descending)
    listing.order_ahead = order


class SortedRows(Generic[RowT]):
    """Rows by key, filtered and sorted; an update costs by the changed rows only, as some tables grow without end."""

    def __init__(self, text: Callable[[RowT], str]) -> None:
        self.rows: Mapping[RowKey, RowT] = {}
        self.is_behind = False  # whether not all rows that were given are among them yet
        self.changes: list[tuple[RowT | None, RowT | None]] = []
        """(old row, new row) of each row changed by the last update; None: the row was or is missing."""
        self.lacks_texts = False  # whether texts of rows are missing, which then are not shown
        self._given_rows: Mapping[RowKey, RowT] = self.rows
        self._partial: dict[RowKey, RowT] = {}  # `rows` while they are behind
        self._due: Iterator[tuple[int, RowKey, RowT | None, RowT]] = iter(())
        """(index or -1 if unknown, key, old row or None, new row) of given rows that are new or changed."""
        self._is_in_place = True  # whether no row that was there before has gone or moved
        self._text_of: Callable[[RowT], str] = lambda row: text(row).casefold() or " "
        self._sort: Callable[[RowT], Any] | None = None
        self._descending = False
        self._wanted_words: list[str] = []
        self._unwanted_words: list[str] = []
        self._all: list[RowKey] = []  # keys of `rows` in their order; a row's place in it is that in these:
        self._values: list[Any] = []  # what rows are sorted by; empty if they are not
        self._texts: list[str] = []  # what the filter searches: "" where it is missing; empty before the first filter
        self._order: list[int] = []  # the places of all rows, top to bottom
        self._is_unsorted = False  # whether rows stand in it as they came: they are sorted once all have
        self._shown_indexes = self._order  # those of the rows that are shown
        self._keys: list[RowKey] | None = []  # of the rows that are shown; None until they are asked for
        self._last_index = 0  # of the row that was looked for last
        self._next_sort: tuple[Callable[[RowT], Any], bool] | None = None  # by what rows are sorted ahead, and how
        self.values_ahead: list[Any] = []
        self.order_ahead: list[int] = []  # empty until it is complete
        self.moved_ahead: set[int] = set()  # places of rows whose value has changed since sorting ahead began
        self._slices_ahead: Iterator[None] = iter(())
        self._missing_texts: Iterator[int] = iter(())  # those of the rows whose text is not made yet

    def update(self, rows: Mapping[RowKey, RowT], max_changes: int = sys.maxsize) -> bool:
        """Take new rows, but at most `max_changes` changed ones per call; returns whether any row moved."""
        if rows is self.rows:
            self.changes = []
            return False
        going_on = self.is_behind and rows is self._given_rows
        gone = set[RowKey]() if going_on else self._changed_keys(rows)
        before = self.rows
        touched = list(islice(self._due, max_changes))
        self.is_behind = len(touched) == max_changes
        self.changes = [(old, row) for _, _, old, row in touched] + [(before[key], None) for key in gone]
        if not self.is_behind:
            self.rows = rows
        else:
            if not going_on:
                self._partial = {key: row for key, row in before.items() if key not in gone} if gone else dict(before)
            self._partial.update((key, row) for _, key, _, row in touched)
            self.rows = self._partial
        if not touched and not gone and self._is_in_place and not self._is_unsorted:
            return False
        if not self.is_large or len(touched) > len(self.rows) // FEW_CHANGES_PART:
            shown = self.keys
            self._arrange_all()
            return self.keys != shown
        if self._next_sort is not None and (gone or _is_moved(self._next_sort[0], touched)):
            is_known = self._is_in_place and all(place >= 0 for place, *_ in touched)
            for place, _, _, row in touched if is_known else ():
                if place < len(self.values_ahead):
                    self.values_ahead[place] = self._next_sort[0](row)
                    self.moved_ahead.add(place)
            self._next_sort = self._next_sort if is_known else None
        if moved := self._arrange_anew(touched, gone):
            self._show_matches(self._order)
        return moved

    def _changed_keys(self, rows: Mapping[RowKey, RowT]) -> Set[RowKey]:
        """Compare the given rows with the known ones and note the differences; returns the keys that are gone."""
        before, keys, self._given_rows = self.rows, self._all, rows
        known, now = len(before), list(rows.values())
        places = list(compress(range(known), map(is_not, before.values(), now)))
        if known < MANY_ROWS:
            self._is_in_place = list(islice(rows, known)) == keys
        else:  # keys are not compared: a row belongs to one key, so that those of unchanged rows are where they were
            self._is_in_place = len(now) >= known and all(rows.get(keys[place]) is now[place] for place in places)
        if not self._is_in_place:
            self._due = ((-1, key, old, row) for key, row in rows.items() if (old := before.get(key)) is not row)
            return before.keys() - rows.keys()
        new = ((-1, key, None, rows[key]) for key in (islice(rows, known, None) if len(now) > known else ()))
        self._due = chain(((place, keys[place], before[keys[place]], now[place]) for place in places), new)
        return set()

    def sort_by(self, sort: Callable[[RowT], Any] | None, *, descending: bool = False) -> None:
        """Sort rows by a column; None keeps the given order."""
        self._sort, self._descending = sort, descending
        if self._next_sort != (sort, descending) or len(self.values_ahead) < len(self._all):
            self._sort_anew()
        else:
            for _ in self._slices_ahead:
                pass
            self._values = self.values_ahead
            self._order = _sort_again(self.order_ahead, self._values, self.moved_ahead, descending=descending)
        self._next_sort = None
        self._show_matches(self._order)

    def expect_sort(self, sort: Callable[[RowT], Any], *, descending: bool) -> None:
        """Begin to sort the rows by the column that is likely to be next, if there are many."""
        if self.is_large and not self.is_behind and self._next_sort != (sort, descending):
            self._next_sort, self.values_ahead, self.order_ahead = (sort, descending), [], []
            self.moved_ahead = set()
            self._slices_ahead = _sort_in_slices(self, sort, descending=descending)

    @property
    def sorting_ahead(self) -> bool:
        """Whether `expect_sort` has begun an order that `sort_ahead` has yet to complete."""
        return self._next_sort is not None and not self.order_ahead

    def sort_ahead(self) -> None:
        next(self._slices_ahead, None)

    def filter_by(self, text: str) -> None:
        """Show rows that contain every word, and none of the words prefixed with "!"."""
        wanted, unwanted = self._wanted_words, self._unwanted_words
        words = text.casefold().split()
        self._wanted_words = [word for word in words if not word.startswith("!")]
        self._unwanted_words = [word[1:] for word in words if word.startswith("!") and len(word) > 1]
        narrower = all(any(old in new for new in self._wanted_words) for old in wanted) and {*unwanted} <= {
            *self._unwanted_words
        }
        if self.has_filter and not (self._texts and self.is_large):
            self.rebuild_search_texts()
            narrower = False
        self._show_matches(self._shown_indexes if narrower and not self.lacks_texts else self._order)

    @property
    def is_large(self) -> bool:
        return len(self.rows) >= MANY_ROWS

    @property
    def has_filter(self) -> bool:
        return bool(self._wanted_words or self._unwanted_words)

    def __len__(self) -> int:
        """The number of rows shown."""
        return len(self._shown_indexes)

    @property
    def keys(self) -> list[RowKey]:
        """The keys of the shown rows, top to bottom."""
        if self._keys is None:
            self._keys = list(map(self._all.__getitem__, self._shown_indexes))
        return self._keys

    def key_at(self, index: int) -> RowKey:
        return self._all[self._shown_indexes[index]]

    def index(self, key: RowKey) -> int | None:
        """The index of a row among the shown rows; None if it is not shown."""
        try:
            if not (self._last_index < len(self._all) and self._all[self._last_index] == key):
                self._last_index = self._all.index(key)
            return self._shown_indexes.index(self._last_index)
        except ValueError:
            return None

    def forget_search_texts(self) -> None:
        self._texts, self.lacks_texts = [], False
        if self.has_filter:
            self.rebuild_search_texts()
            self._show_matches(self._order)

    def prepare_search_texts(self) -> None:
        """Begin to prepare the texts that the filter searches, if there are many."""
        if not self._texts and self.is_large:
            self.rebuild_search_texts()

    def rebuild_search_texts(self) -> None:
        """Begin to make the search texts of all rows again, those of the first shown rows first."""
        self._texts = texts = [""] * len(self._all)
        first = self._order[:ROWS_SEARCHED_PER_SLICE]
        self._missing_texts = (place for place in chain(first, range(len(texts))) if not texts[place])
        self._make_texts()

    def prepare_next_texts(self) -> None:
        """Prepare the next texts for the filter; when all are ready, the matching rows are shown."""
        self._make_texts()
        if not self.lacks_texts:
            self._show_matches(self._order)

    def _make_texts(self) -> None:
        made = 0
        for place in islice(self._missing_texts, ROWS_SEARCHED_PER_SLICE):
            self._texts[place], made = self._text_of(self.rows[self._all[place]]), made + 1
        self.lacks_texts = made == ROWS_SEARCHED_PER_SLICE

    def _sort_anew(self) -> None:
        self._values = list(map(self._sort, self.rows.values())) if self._sort is not None else []
        self._is_unsorted = False
        self._order = (
            _sorted_places(self._values, descending=self._descending) if self._values else list(range(len(self._all)))
        )

    def _arrange_all(self) -> None:
        """Filter and sort all rows anew."""
        self._all, self._texts, self.lacks_texts, self._next_sort = list(self.rows), [], False, None
        self._sort_anew()
        if self.has_filter:
            self.rebuild_search_texts()
        self._show_matches(self._order)

    def _arrange_anew(self, touched: Sequence[tuple[int, RowKey, RowT | None, RowT]], gone_keys: Set[RowKey]) -> bool:
        """Filter and sort only the rows that changed; returns whether any may have moved."""
        sort, texts, known = self._sort, self._texts, len(self._all) - len(gone_keys)
        new = {key: row for _, key, old, row in touched if old is None}
        changed = {key: place for place, key, old, row in touched if old is not None}
        moved = _is_moved(sort, touched)
        if gone_keys:
            self._remove(gone_keys)
            texts = self._texts
        differs, moved_places = False, set(range(known, known + len(new)))
        places: Iterable[int] = changed.values() if moved or texts else ()
        if -1 in places:
            places = compress(range(known), map(changed.__contains__, self._all))
        for place in places:
            row = self.rows[self._all[place]]
            if sort is not None and (value := sort(row)) != self._values[place]:
                self._values[place] = value
                moved_places.add(place)
            if texts:
                before, texts[place] = texts[place], self._text_of(row)
                differs |= self._finds(before) != self._finds(texts[place])
        self._all += new
        self._order += range(known, len(self._all))
        if texts:
            texts += map(self._text_of, new.values())
        if not self._is_in_place and self._all != list(self.rows):
            self._arrange_all()
            return True
        if sort is not None:
            self._values += map(sort, new.values())
            moved |= self._is_unsorted
            if moved and not self.is_behind:
                places = range(known + len(new)) if self._is_unsorted else moved_places
                self._order = _sort_again(self._order, self._values, places, descending=self._descending)
            self._is_unsorted = self.is_behind and moved
        return bool(moved or new or gone_keys or differs)

    def _remove(self, gone_keys: Set[RowKey]) -> None:
        stay = [key not in gone_keys for key in self._all]
        at = list(accumulate(stay, initial=0))
        self._order = [at[place] for place in self._order if stay[place]]
        self._all, self._values = list(compress(self._all, stay)), list(compress(self._values, stay))
        self._texts = texts = list(compress(self._texts, stay))
        self._missing_texts = (place for place in range(at[-1]) if not texts[place])

    def _finds(self, text: str) -> bool:
        return all(map(text.__contains__, self._wanted_words)) and not any(map(text.__contains__, self._unwanted_words))

    def _show_matches(self, indexes: list[int]) -> None:
        """Show those of the rows at these indexes that pass the filter; returns whether any row moved."""
        texts = self._texts
        if self.has_filter and self.lacks_texts:
            indexes = list(filter(texts.__getitem__, indexes))
        for word in self._wanted_words:
            if self._sort is not None and len(indexes) > len(texts) // 2:  # memory is read faster in its own order
                found = [word in text for text in texts]
                indexes = [place for place in indexes if found[place]]
            else:
                indexes = [place for place in indexes if word in texts[place]]
        for word in self._unwanted_words:
            indexes = [place for place in indexes if word not in texts[place]]
        self._shown_indexes, self._keys = indexes, None
