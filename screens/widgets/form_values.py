"""What is typed into a form: text by path, and every step back (pure).

A list or a map is lines of text, one an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from console.models.launch import Field, FieldKind, spell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PICKED = (FieldKind.BOOLEAN, FieldKind.CHOICE)
"""Kinds whose value is one of a few words."""
COLLECTIONS = (FieldKind.LIST, FieldKind.MAP)
"""Kinds made of entries."""
TEXTS = (FieldKind.ROWS, FieldKind.BLOCK)
"""Kinds that are lines of one text."""
STEPS = 200
"""Steps that can be taken back."""


class RowKind(Enum):
    """What one line of the form is."""

    SECTION = auto()
    FIELD = auto()
    ENTRY = auto()
    TEXT = auto()
    MORE = auto()
    GAP = auto()


class Row(NamedTuple):
    """One line of the form."""

    kind: RowKind
    path: str
    """A field's path, or a section's title."""
    number: int = 0
    """Which entry, or which line of a text."""
    folded: bool = False
    """Of a section: its fields are out of sight."""

    @property
    def takes_keys(self) -> bool:
        """Whether the cursor can stand here."""
        if self.kind is RowKind.SECTION:
            return self.folded
        return self.kind is not RowKind.GAP and not (self.kind is RowKind.TEXT and self.number)


@dataclass(frozen=True, slots=True)
class _Before:
    """What stood in the form before a step, and where that step was made."""

    texts: dict[str, str]
    place: tuple[str, int]


class FormValues:
    """The fields of one recipe, and what a person has typed into them."""

    def __init__(self, fields: Sequence[Field] = (), texts: Mapping[str, str] | None = None) -> None:
        self.fields = tuple(fields)
        self.by_path = {field.path: field for field in fields}
        self.defaults = {field.path: spell(field, field.default) for field in fields}
        known = {path: text for path, text in (texts or {}).items() if path in self.by_path}
        self.texts: dict[str, str] = self.defaults | known
        self._back: list[_Before] = []
        self._forth: list[_Before] = []

    def lay_out(self, keep: str = "") -> None:
        """Called when lines have come or gone; the field `keep` stays in sight."""

    def is_changed(self, path: str) -> bool:
        """Whether another text than the default stands there."""
        return self.texts[path] != self.defaults[path]

    def entries(self, path: str) -> list[str]:
        """The entries of a list or map; one empty one if there are none."""
        return self.texts[path].split("\n")

    def text_at(self, row: Row) -> str:
        """What is typed in that line."""
        return self.entries(row.path)[row.number] if row.kind is RowKind.ENTRY else self.texts[row.path]

    def put(self, row: Row, text: str) -> bool:
        """Types that text there; whether anything is different. Letters after one another are one step."""
        if row.kind is RowKind.ENTRY:
            entries = self.entries(row.path)
            entries[row.number] = text
            text = "\n".join(entries)
        if text == self.texts[row.path]:
            return False
        place = row.path, row.number
        if not self._back or self._back[-1].place != place:
            self._remember(place)
        self._forth.clear()
        self.texts[row.path] = text
        return True

    def put_all(self, texts: Mapping[str, str]) -> bool:
        """Types many texts in one step; fields that are not named have their default. Whether anything is different."""
        whole = self.defaults | {path: text for path, text in texts.items() if path in self.by_path}
        if whole == self.texts:
            return False
        self._remember(("", 0))
        self._forth.clear()
        self.texts = whole
        self.lay_out()
        return True

    def reset(self, path: str) -> bool:
        """The default again; whether it was another."""
        if not self.is_changed(path):
            return False
        self._remember((path, -1))
        self.texts[path] = self.defaults[path]
        self.lay_out(path)
        return True

    def add_entry(self, row: Row, text: str = "") -> Row:
        """An entry below this one."""
        self._insert(row.path, row.number + 1, [text])
        return Row(RowKind.ENTRY, row.path, row.number + 1)

    def add_entries(self, row: Row, texts: Sequence[str]) -> Row:
        """Entries in this one's place if it is empty, else below it."""
        empty = not self.text_at(row).strip()
        at = row.number if empty else row.number + 1
        self._insert(row.path, at, texts, instead=empty)
        return Row(RowKind.ENTRY, row.path, at + len(texts) - 1)

    def _insert(self, path: str, at: int, texts: Sequence[str], *, instead: bool = False) -> None:
        self._remember((path, -1))
        entries = self.entries(path)
        entries[at : at + instead] = texts
        self.texts[path] = "\n".join(entries)
        self.lay_out(path)

    def remove_entry(self, row: Row) -> Row:
        """Without that entry; where the cursor goes."""
        self._remember((row.path, -1))
        entries = self.entries(row.path)
        del entries[row.number]
        self.texts[row.path] = "\n".join(entries)
        self.lay_out(row.path)
        return Row(RowKind.ENTRY, row.path, max(0, min(row.number, len(entries) - 1)))

    # steps back

    def _remember(self, place: tuple[str, int]) -> None:
        self._back.append(_Before(dict(self.texts), place))
        del self._back[:-STEPS]
        self._forth.clear()

    def rest(self) -> None:
        """The next letter begins a step of its own."""
        if self._back and self._back[-1].place[1] >= 0:
            self._back[-1] = _Before(self._back[-1].texts, ("", -1))

    def undo(self) -> str | None:
        """Takes the last step back; the path it was made at ("" for many), None if there is none."""
        return self._swap(self._back, self._forth)

    def redo(self) -> str | None:
        """Takes back the last undo."""
        return self._swap(self._forth, self._back)

    def _swap(self, source: list[_Before], other: list[_Before]) -> str | None:
        while source:
            before = source.pop()
            if before.texts == self.texts:
                continue
            differ = [path for path, text in before.texts.items() if self.texts[path] != text]
            other.append(_Before(dict(self.texts), ("", -1)))
            self.texts = dict(before.texts)
            self.lay_out(differ[0])
            return differ[0]
        return None
