"""A form as lines: which fields of a recipe are in sight, section by section (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.widgets.form_values import COLLECTIONS, TEXTS, FormValues, Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from console.models.launch import Field

TALLEST = 8
"""Lines of a text that are in sight."""
MENTIONS = "Mentioned in the help of"
"""Section of what a search finds in descriptions only."""


class FormModel(FormValues):
    """What is typed, and the lines in which it is shown."""

    def __init__(self, fields: Sequence[Field] = (), texts: Mapping[str, str] | None = None) -> None:
        super().__init__(fields, texts)
        self.problems: dict[str, str] = {}
        """What is wrong, by path of a field."""
        self.rows: list[Row] = []
        self.advanced = False
        """Whether every field is in sight."""
        self.wanted = ""
        """What is searched for."""
        self._opened: set[str] = set()
        self._folded: set[str] = set()
        self._as_text: set[str] = set()
        self.lay_out()

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
        """The fields of a section."""
        return [field for field in self.fields if field.group == group]

    def changed_in(self, group: str) -> int:
        """How many fields of a section are not the default."""
        return sum(self.is_changed(field.path) for field in self.of(group))

    def reveal(self, path: str) -> None:
        """Puts that field in sight."""
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
