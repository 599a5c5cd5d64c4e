"""The state of a form (texts by path, undo, visible lines) and of a launch in it (pure); lists: a line per entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from enum import Enum, auto
from typing import NamedTuple

from console.errors import BadInput
from console.kube.nested_values import Value, get_path, overlay_values, set_path
from console.launch.field_values import format_value, parse_changes, parse_value
from console.launch.recipes import Field, FieldKind, FieldProblem, LaunchPlan, Recipe
from console.scheduling.launch_forecast import NO_QUEUE, QueueChoice

CHOICE_KINDS = (FieldKind.BOOLEAN, FieldKind.CHOICE)  # kinds whose value is one of a few words
COLLECTION_KINDS = (FieldKind.LIST, FieldKind.MAP)  # kinds made of entries
TEXT_KINDS = (FieldKind.ROWS, FieldKind.BLOCK)  # kinds that are lines of one text
MAX_UNDO_STEPS = 200  # steps that can be taken back
MAX_TEXT_LINES = 8  # lines of a text that are in sight
MENTIONS = "Mentioned in the help of"  # section of what a search finds in descriptions only


class RowKind(Enum):
    SECTION = auto()
    FIELD = auto()
    ENTRY = auto()
    TEXT = auto()
    MORE = auto()
    GAP = auto()


class FormRow(NamedTuple):
    kind: RowKind
    path: str  # a field's path, or a section's title
    number: int = 0  # which entry, or which line of a text
    folded: bool = False  # of a section: its fields are out of sight

    @property
    def can_have_cursor(self) -> bool:
        if self.kind is RowKind.SECTION:
            return self.folded
        return self.kind is not RowKind.GAP and not (self.kind is RowKind.TEXT and self.number)


_UndoStep = tuple[dict[str, str], tuple[str, int]]  # what stood in the form before a step, and where it was made


class FormModel:
    """The fields of one recipe, the typed texts, and the lines that show them."""

    def __init__(self, fields: Sequence[Field] = ()) -> None:
        self.fields = tuple(fields)
        self.by_path = {field.path: field for field in fields}
        self.defaults = {field.path: format_value(field, field.default) for field in fields}
        self.texts = dict(self.defaults)
        self._undo_steps: list[_UndoStep] = []
        self._redo_steps: list[_UndoStep] = []
        self.problems: dict[str, str] = {}  # what is wrong, by path of a field
        self.rows: list[FormRow] = []
        self.advanced = False  # whether every field is in sight
        self.search_text = ""
        self._unfolded_sections: set[str] = set()
        self._folded: set[str] = set()
        self._paths_as_text: set[str] = set()
        self.lay_out()

    def is_changed(self, path: str) -> bool:
        return self.texts[path] != self.defaults[path]

    def entries(self, path: str) -> list[str]:
        """The entries of a list or map; one empty entry if it has none."""
        return self.texts[path].split("\n")

    def text_at(self, row: FormRow) -> str:
        return self.entries(row.path)[row.number] if row.kind is RowKind.ENTRY else self.texts[row.path]

    def set_text(self, row: FormRow, text: str) -> bool:
        """Set the text of a line; returns whether it changed. Consecutive letters are one undo step."""
        if row.kind is RowKind.ENTRY:
            entries = self.entries(row.path)
            entries[row.number] = text
            text = "\n".join(entries)
        if text == self.texts[row.path]:
            return False
        place = row.path, row.number
        if not self._undo_steps or self._undo_steps[-1][1] != place:
            self._store_undo(place)
        self._redo_steps.clear()
        self.texts[row.path] = text
        return True

    def set_texts(self, text_by_path: Mapping[str, str]) -> bool:
        """Set many texts as one undo step and reset all others; returns whether anything changed."""
        whole = self.defaults | {path: text for path, text in text_by_path.items() if path in self.by_path}
        if whole == self.texts:
            return False
        self._store_undo(("", 0))
        self.texts = whole
        self.lay_out()
        return True

    def reset(self, path: str) -> bool:
        """Reset a field to its default; returns whether it changed."""
        if not self.is_changed(path):
            return False
        self._store_undo((path, -1))
        self.texts[path] = self.defaults[path]
        self.lay_out(path)
        return True

    def add_entry(self, row: FormRow) -> FormRow:
        """Insert an empty entry below a line; returns the new line, for the cursor."""
        return self._replace_entries(row, row.number + 1, row.number + 1, [""])

    def add_entries(self, row: FormRow, texts: Sequence[str]) -> FormRow:
        """Insert entries, replacing the line if it is empty, else below; returns the last new line, for the cursor."""
        start = row.number + bool(self.text_at(row).strip())
        return self._replace_entries(row, start, row.number + 1, texts)

    def remove_entry(self, row: FormRow) -> FormRow:
        """Remove an entry; returns the line for the cursor."""
        return self._replace_entries(row, row.number, row.number + 1, [])

    def _replace_entries(self, row: FormRow, first_row: int, end_row: int, texts: Sequence[str]) -> FormRow:
        self._store_undo((row.path, -1))
        entries = self.entries(row.path)
        entries[first_row:end_row] = texts
        self.texts[row.path] = "\n".join(entries)
        self.lay_out(row.path)
        at = first_row + len(texts) - 1 if texts else min(first_row, len(entries) - 1)
        return FormRow(RowKind.ENTRY, row.path, max(0, at))

    # steps back

    def _store_undo(self, undo_key: tuple[str, int]) -> None:
        self._undo_steps.append((dict(self.texts), undo_key))
        del self._undo_steps[:-MAX_UNDO_STEPS]
        self._redo_steps.clear()

    def end_undo_step(self) -> None:
        """End the current undo step."""
        if self._undo_steps:
            self._undo_steps[-1] = self._undo_steps[-1][0], ("", -1)

    def undo_or_redo(self, step: int) -> str | None:
        """Undo (-1) or redo (1) one step; returns the path of the changed field, None if there is no step."""
        source, other = (self._undo_steps, self._redo_steps) if step < 0 else (self._redo_steps, self._undo_steps)
        while source:
            before, _ = source.pop()
            differ = [path for path, text in before.items() if self.texts[path] != text]
            if differ:
                other.append((dict(self.texts), ("", -1)))
                self.texts = dict(before)
                self.lay_out(differ[0])
                return differ[0]
        return None

    # the lines in which it is shown

    def toggle_text(self, path: str) -> None:
        """Switch a field between one text with all entries and a line for each entry."""
        self._paths_as_text ^= {path}
        self.lay_out(path)

    def toggle_section(self, group: str) -> None:
        if group in self._folded or not any(self._is_shown(field, "") for field in self.fields_in(group)):
            self._folded.discard(group)
            if not any(self._is_shown(field, "", is_open=False) for field in self.fields_in(group)):
                self._unfolded_sections.add(group)
        else:
            self._folded.add(group)
            self._unfolded_sections.discard(group)
        self.lay_out()

    def show_more_fields(self, group: str) -> None:
        self._unfolded_sections.add(group)
        self.lay_out()

    def set_advanced(self, advanced: bool, key_kept: str = "") -> None:
        """Show all fields or only common ones, and unfold all sections; the line `key_kept`, if any, stays."""
        self.advanced = advanced
        self._unfolded_sections.clear()
        self._folded.clear()
        self.lay_out(key_kept)

    def search(self, search_text: str, key_kept: str = "") -> None:
        """Show only fields whose title, path, section or help contain all words of `search_text`; empty shows all."""
        self.search_text = search_text.strip().lower()
        self.lay_out(key_kept)

    def fields_in(self, group: str) -> list[Field]:
        return [field for field in self.fields if field.group == group]

    def reveal(self, path: str) -> None:
        field = self.by_path[path]
        self.search_text = "" if self.search_text and not self._matches_search(field) else self.search_text
        self._folded.discard(field.group)
        self.lay_out(path)

    def lay_out(self, key_kept: str = "") -> None:
        """Rebuild the lines; the field `key_kept` stays visible in any case."""
        self.rows = list(self._search_rows() if self.search_text else self._section_rows(key_kept))

    def shown(self) -> tuple[str, ...]:
        kinds = (RowKind.SECTION, RowKind.MORE, RowKind.GAP)
        return tuple(dict.fromkeys(row.path for row in self.rows if row.kind not in kinds))

    def row_of(self, path: str) -> FormRow | None:
        return next((row for row in self.rows if row.path == path and row.can_have_cursor), None)

    def owner(self, path: str) -> str:
        """The path of the field that contains the value at `path`; empty if none does."""
        while path and path not in self.by_path:
            path = path.rpartition(".")[0]
        return path

    def _is_shown(self, field: Field, key_kept: str, *, is_open: bool = True) -> bool:
        return (
            self.advanced
            or not field.advanced
            or (is_open and field.group in self._unfolded_sections)
            or field.path == key_kept
            or field.path in self.problems
            or self.is_changed(field.path)
        )

    def _section_rows(self, key_kept: str) -> Iterator[FormRow]:
        for number, group in enumerate(dict.fromkeys(field.group for field in self.fields)):
            fields = self.fields_in(group)
            inside = any(field.path == key_kept for field in fields)
            shown = [] if group in self._folded and not inside else [f for f in fields if self._is_shown(f, key_kept)]
            if number and shown:
                yield FormRow(RowKind.GAP, group)
            yield FormRow(RowKind.SECTION, group, folded=not shown)
            for field in shown:
                yield from self._field_rows(field)
            if shown and len(shown) < len(fields):
                yield FormRow(RowKind.MORE, group, len(fields) - len(shown))

    def _search_rows(self) -> Iterator[FormRow]:
        named = [field for field in self.fields if self._matches_search(field, helped=False)]
        matching = [field for field in self.fields if field not in named and self._matches_search(field)]
        head = None
        for field in (*named, *matching):
            group = MENTIONS if field in matching else field.group
            if group != head:
                head = group
                yield FormRow(RowKind.SECTION, head)
            yield from self._field_rows(field)

    def _matches_search(self, field: Field, *, helped: bool = True) -> bool:
        text = f"{field.title} {field.path} {field.group} {field.description if helped else ''}".lower()
        return all(word in text for word in self.search_text.split())

    def _field_rows(self, field: Field) -> Iterator[FormRow]:
        if field.kind in TEXT_KINDS or field.path in self._paths_as_text:
            lines = self.texts[field.path].count("\n") + 1
            yield from (FormRow(RowKind.TEXT, field.path, index) for index in range(min(lines, MAX_TEXT_LINES)))
        elif field.kind in COLLECTION_KINDS:
            count = len(self.entries(field.path))
            yield from (FormRow(RowKind.ENTRY, field.path, index) for index in range(count))
        else:
            yield FormRow(RowKind.FIELD, field.path)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    recipe: str
    values: Mapping[str, Value] = dataclass_field(default_factory=dict)
    """Nested values as in LaunchPlan, only those that differ from the recipe's defaults."""
    name: str = ""  # release name to begin with; empty or taken: a free one is made
    compared_values: Mapping[str, Value] | None = None
    """The values to show the differences from; None: the recipe's defaults."""
    compared_name: str = ""  # what those values are called: "llama-3, launched 2 h ago"
    merges_values: bool = False
    """Whether the values are merged into those in the form, and the others stay; `recipe` may then be empty, for the
    recipe whose form is open."""
    message: str = ""  # message when the form opens; empty: the screen's own
    at_once: bool = False  # whether the review of the launch follows at once


NAME = "name"  # path of the release's name, which is no value of the chart


class LaunchDraft:
    """A recipe with its form, and those of its values that no text can express."""

    def __init__(self, recipe: Recipe, fields: Sequence[Field], name: str) -> None:
        self.recipe = recipe
        self.fields = tuple(fields)
        group = fields[0].group if fields else ""
        words = "Name of the Helm release and of its JobSet: small letters, digits and dashes."
        self.model = FormModel([Field(NAME, "Name", words, FieldKind.TEXT, name, group=group, required=True), *fields])
        self.compared_values: Mapping[str, Value] | None = None
        """The values to show the differences from; None: the recipe's defaults."""
        self.compared_name = ""
        self.server_problems: dict[str, str] = {}
        """The API server's refusals of the last launch, by path; cleared by typing."""
        self.yaml = ""  # the values as YAML, as they were written or typed last; its comments live on
        self._exact_values: dict[str, tuple[str, Value]] = {}
        """By path (text, exact value) of values that their text cannot express, such as a list entry with a comma."""
        self._unknown_queue = ""  # why it is not known which queues there are

    @property
    def queue_path(self) -> str:
        """The path of the LocalQueue field; empty if there is none."""
        return next((field.path for field in self.fields if field.choices_from == "localqueues"), "")

    @property
    def filled_queue(self) -> str:
        """The queue that the console chose; empty if a person chose it, or if there is none."""
        path = self.queue_path
        return self.model.defaults[path] if path and not self.model.is_changed(path) else ""

    def follow_queue(self, choice: QueueChoice) -> bool:
        """Fill in the recommended queue unless a person typed one; returns whether it changed."""
        path, texts, self._unknown_queue = self.queue_path, self.model.texts, choice.why_unknown
        if not path or self.model.is_changed(path) or self.model.defaults[path] == choice.queue:
            return False
        texts[path] = self.model.defaults[path] = choice.queue
        return True

    def rename(self, name: str) -> None:
        self.model.texts[NAME] = self.model.defaults[NAME] = name

    def plan(self, namespace: str) -> tuple[LaunchPlan, tuple[FieldProblem, ...]]:
        """The plan from the current texts, and the problems of texts that cannot be parsed."""
        texts = self.model.texts
        exact = {path: value for path, (text, value) in self._exact_values.items() if texts[path] == text}
        queue = self.queue_path
        if queue and texts[queue].strip() == NO_QUEUE:
            exact[queue] = ""
        values, unread = parse_changes([field for field in self.fields if field.path not in exact], texts)
        for path, value in exact.items():
            set_path(values, path, value)
        if self._unknown_queue and not texts[queue].strip():
            words = f"Name one, or type {NO_QUEUE} to bypass Kueue: {self._unknown_queue}."
            unread = (*unread, FieldProblem(queue, words))
        return LaunchPlan(self.recipe.id, texts[NAME].strip(), namespace, values), unread

    def texts_for(self, values: Mapping[str, Value], name: str = "") -> dict[str, str]:
        """By field the form texts for these values, remembered exactly; `name` empty: the form's present name."""
        texts = {NAME: name or self.model.texts[NAME]}
        for field in self.fields:
            given = get_path(values, field.path)
            if given is None:
                continue
            whole = given
            if field.kind is FieldKind.MAP and isinstance(given, dict) and isinstance(field.default, dict):
                # Only the names that differ are given, None for those that go.
                laid = overlay_values(field.default, given)
                whole = {name: item for name, item in laid.items() if item is not None}
            text = texts[field.path] = format_value(field, whole)
            try:
                same = parse_value(field, text) == whole
            except BadInput:
                same = False
            if not same:
                self._exact_values[field.path] = (text, given)
        return texts

    def unknown_keys(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        known = {field.path for field in self.fields}
        return tuple(path for path in _leaf_paths(values, known) if path not in known)


def _leaf_paths(values: Mapping[str, Value], paths: set[str], parent_path: str = "") -> list[str]:
    found: list[str] = []
    for name, value in values.items():
        path = f"{parent_path}{name}"
        inside = any(each.startswith(f"{path}.") for each in paths)
        if path not in paths and inside and isinstance(value, dict):
            found += _leaf_paths(value, paths, f"{path}.")
        else:
            found.append(path)
    return found
