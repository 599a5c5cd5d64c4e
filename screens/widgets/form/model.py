"""The state of a form: typed text by path, undo, and the lines in sight, section by section (pure).

A list or a map is lines of text, one an entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from console.launch.recipes import Field, FieldKind, spell

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


PICKED = (FieldKind.BOOLEAN, FieldKind.CHOICE)  # kinds whose value is one of a few words
COLLECTIONS = (FieldKind.LIST, FieldKind.MAP)  # kinds made of entries
TEXTS = (FieldKind.ROWS, FieldKind.BLOCK)  # kinds that are lines of one text
STEPS = 200  # steps that can be taken back
TALLEST = 8  # lines of a text that are in sight
MENTIONS = "Mentioned in the help of"  # section of what a search finds in descriptions only


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
    path: str  # a field's path, or a section's title
    number: int = 0  # which entry, or which line of a text
    folded: bool = False  # of a section: its fields are out of sight

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


class FormModel:
    """The fields of one recipe, what a person has typed into them, and the lines in which that is shown."""

    def __init__(self, fields: Sequence[Field] = (), texts: Mapping[str, str] | None = None) -> None:
        self.fields = tuple(fields)
        self.by_path = {field.path: field for field in fields}
        self.defaults = {field.path: spell(field, field.default) for field in fields}
        known = {path: text for path, text in (texts or {}).items() if path in self.by_path}
        self.texts: dict[str, str] = self.defaults | known
        self._back: list[_Before] = []
        self._forth: list[_Before] = []
        self.problems: dict[str, str] = {}  # what is wrong, by path of a field
        self.rows: list[Row] = []
        self.advanced = False  # whether every field is in sight
        self.wanted = ""  # what is searched for
        self._opened: set[str] = set()
        self._folded: set[str] = set()
        self._as_text: set[str] = set()
        self.lay_out()

    def is_changed(self, path: str) -> bool:
        return self.texts[path] != self.defaults[path]

    def entries(self, path: str) -> list[str]:
        """The entries of a list or map; one empty one if there are none."""
        return self.texts[path].split("\n")

    def text_at(self, row: Row) -> str:
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

    # the lines in which it is shown

    def is_text(self, path: str) -> bool:
        """Whether that field is typed as lines of one text."""
        return self.by_path[path].kind in TEXTS or path in self._as_text

    def toggle_text(self, path: str) -> bool:
        """Entries as one text, or one by one again; False for a field that has none."""
        if self.by_path[path].kind not in COLLECTIONS:
            return False
        self._as_text ^= {path}
        self.lay_out(path)
        return True

    def toggle_section(self, group: str, keep: str = "") -> None:
        """Opens a folded section with all its fields, or folds it."""
        if self.is_folded(group):
            self._folded.discard(group)
            if not self._plain(group):
                self._opened.add(group)
        else:
            self._folded.add(group)
            self._opened.discard(group)
        self.lay_out(keep)

    def open_rest(self, group: str) -> None:
        """Puts the advanced fields of a section in sight too."""
        self._opened.add(group)
        self.lay_out()

    def set_advanced(self, advanced: bool, keep: str = "") -> None:
        """Every field in sight, or only those that people change; sections that were folded open."""
        self.advanced = advanced
        self._opened.clear()
        self._folded.clear()
        self.lay_out(keep)

    def search(self, wanted: str, keep: str = "") -> None:
        """Only the fields whose title, path, section or help have all these words; empty: as before."""
        self.wanted = wanted.strip().lower()
        self.lay_out(keep)

    def is_folded(self, group: str) -> bool:
        """Whether the fields of that section are out of sight."""
        return group in self._folded or not any(self._shown(field, "") for field in self.of(group))

    def of(self, group: str) -> list[Field]:
        return [field for field in self.fields if field.group == group]

    def changed_in(self, group: str) -> int:
        """How many fields of a section are not the default."""
        return sum(self.is_changed(field.path) for field in self.of(group))

    def reveal(self, path: str) -> None:
        field = self.by_path[path]
        self.wanted = "" if self.wanted and not self._found(field) else self.wanted
        self._folded.discard(field.group)
        self.lay_out(path)

    def lay_out(self, keep: str = "") -> None:
        """Makes the lines anew; the field `keep` stays in sight whatever it holds."""
        self.rows = list(self._search_rows() if self.wanted else self._section_rows(keep))

    def shown(self) -> tuple[str, ...]:
        """Paths of the fields in sight, from top to bottom."""
        kinds = (RowKind.SECTION, RowKind.MORE, RowKind.GAP)
        return tuple(dict.fromkeys(row.path for row in self.rows if row.kind not in kinds))

    def row_of(self, path: str) -> Row | None:
        """The first line of a field in sight."""
        return next((row for row in self.rows if row.path == path and row.takes_keys), None)

    def owner(self, path: str, among: Collection[str] | None = None) -> str:
        """The path of the field that holds this path; empty if none does."""
        known = self.by_path if among is None else among
        while path and path not in known:
            path = path.rpartition(".")[0]
        return path

    def _plain(self, group: str) -> bool:
        return any(self._shown(field, "", opened=False) for field in self.of(group))

    def _shown(self, field: Field, keep: str, *, opened: bool = True) -> bool:
        return (
            self.advanced
            or not field.advanced
            or (opened and field.group in self._opened)
            or field.path == keep
            or field.path in self.problems
            or self.is_changed(field.path)
        )

    def _section_rows(self, keep: str) -> Iterator[Row]:
        for number, group in enumerate(dict.fromkeys(field.group for field in self.fields)):
            fields = self.of(group)
            inside = any(field.path == keep for field in fields)
            shown = [] if group in self._folded and not inside else [f for f in fields if self._shown(f, keep)]
            if number and shown:
                yield Row(RowKind.GAP, group)
            yield Row(RowKind.SECTION, group, folded=not shown)
            for field in shown:
                yield from self._field_rows(field)
            if shown and len(shown) < len(fields):
                yield Row(RowKind.MORE, group, len(fields) - len(shown))

    def _search_rows(self) -> Iterator[Row]:
        named = [field for field in self.fields if self._found(field, helped=False)]
        told = [field for field in self.fields if field not in named and self._found(field)]
        group = None
        for field in named:
            if field.group != group:
                group = field.group
                yield Row(RowKind.SECTION, group)
            yield from self._field_rows(field)
        if told:
            yield Row(RowKind.SECTION, MENTIONS)
        for field in told:
            yield from self._field_rows(field)

    def _found(self, field: Field, *, helped: bool = True) -> bool:
        text = f"{field.title} {field.path} {field.group} {field.description if helped else ''}".lower()
        return all(word in text for word in self.wanted.split())

    def _field_rows(self, field: Field) -> Iterator[Row]:
        if self.is_text(field.path):
            lines = self.texts[field.path].count("\n") + 1
            yield from (Row(RowKind.TEXT, field.path, index) for index in range(min(lines, TALLEST)))
        elif field.kind in COLLECTIONS:
            count = len(self.entries(field.path))
            yield from (Row(RowKind.ENTRY, field.path, index) for index in range(count))
        else:
            yield Row(RowKind.FIELD, field.path)
