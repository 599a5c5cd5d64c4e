"""A form generated from field descriptions: every field of the schema appears, with help and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from console.launch.field_choices import FieldChoices
from console.launch.recipes import Field, FieldKind
from screens.widgets.form.editors import ChoiceList, Edited, Pasted, complete_text, part_typed
from screens.widgets.form.form_lines import FormLines, FormPage, FormSearch
from screens.widgets.form.form_model import CHOICE_KINDS, COLLECTION_KINDS, FormModel, FormRow, RowKind
from screens.wording import count


class Form(Vertical):
    """Fields in sections; its screen validates them and supplies the choices."""

    DEFAULT_CSS: ClassVar[str] = "Form { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "Previous field", show=False, id="form.previous"),
        Binding("down", "step(1)", "Next field", show=False, id="form.next"),
        Binding("shift+tab", "skip(-1)", "Previous field", show=False, id="form.tab-previous"),
        Binding("tab", "skip(1)", "Next field", show=False, id="form.tab-next"),
        Binding("pageup", "section(-1)", "Previous section", show=False, id="form.section-previous"),
        Binding("pagedown", "section(1)", "Next section", show=False, id="form.section-next"),
        Binding("enter", "enter", "Choose or go on", show=False, id="form.enter",
                tooltip="What the cluster has to choose from; another entry of a list; else the next field"),
        Binding("escape", "leave", "Back", show=False, id="form.leave"),
        Binding("ctrl+f", "search", "Search", id="form.search", tooltip="Fields by title, path or help"),
        Binding("ctrl+g", "reset", "Default", id="form.reset", tooltip="Reset this field to its default"),
        Binding("ctrl+n", "add", "Add", id="form.add", tooltip="Another entry below this one"),
        Binding("ctrl+d", "remove", "Remove", id="form.remove", tooltip="Remove this entry"),
        Binding("ctrl+l", "as_text", "As text", show=False, id="form.text",
                tooltip="All entries as one text, or one by one again"),
        Binding("f7", "fold", "Fold", show=False, id="form.fold", tooltip="Fold this section, or open it"),
        Binding("ctrl+z", "undo_or_redo(-1)", "Undo", show=False, id="form.undo", tooltip="Undo the last change"),
        Binding("ctrl+y", "undo_or_redo(1)", "Redo", show=False, id="form.redo", tooltip="Redo the last undone change"),
    ]  # fmt: skip

    @dataclass
    class Asked(Message):
        """The message that the choices of a field were opened, to which the page may add."""

        kind: str  # as in `Field.choices_from`

    @dataclass
    class Filled(Message):
        """The message that a choice has filled several fields."""

        name: str
        count: int

    @dataclass
    class Changed(Message):
        """The message that a text was changed; `path` is empty when many fields changed at once."""

        path: str
        text: str

    @dataclass
    class Entered(Message):
        """The message that the cursor is on another line; `field` is None on a section title."""

        field: Field | None
        problem: str

    class Left(Message):
        """The message that Esc was pressed with nothing left to close in the form."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.finder = FormSearch(self)
        self.page = FormPage(self)

    def compose(self) -> ComposeResult:
        yield self.finder
        yield self.page

    @property
    def model(self) -> FormModel:
        """The form's model, including text typed just now."""
        self.commit_editor()
        return self.page.model

    @property
    def cursor_rows(self) -> list[FormRow]:
        return [row for row in self.page.model.rows if row.can_have_cursor]

    def _first_field_row(self) -> FormRow | None:
        return next(iter(self.cursor_rows), None)

    def focus_row(self, row: FormRow | None) -> None:
        self.commit_editor()
        if row in self.page.model.rows:
            self.page.go(row)
            self.show_field_help()

    def place_cursor(self, path: str = "", to: FormRow | None = None) -> None:
        """After the model's lines changed: move the cursor to line `to`, else to that field, else leave it."""
        model, row = self.page.model, self.page.row
        self.page.lines.measure()
        if to is None and row is None:
            return
        here = row if row in model.rows and row is not None and path in {"", row.path} else None
        target = to or here or model.row_of(path) or model.row_of(row.path if row else "") or self._first_field_row()
        if target is not None:
            self.page.go(target, takes_focus=self.page.has_keys)
            self.show_field_help()

    # what is shown

    @property
    def texts(self) -> dict[str, str]:
        return dict(self.model.texts)

    @property
    def cursor_path(self) -> str:
        field = self.page.field
        return field.path if field is not None and self.page.has_keys else ""

    def show(self, model: FormModel, *, leave: bool = False) -> None:
        """Show all these fields; a focus inside the form moves to the first one, unless `leave` is set."""
        keys = not leave and (self.page.has_keys or self.finder.input.has_focus)
        self.finder.close()
        if model.search_text:
            model.search("")
        self.page.show(model)
        if keys:
            self.resume()

    def set_choices(self, offers: Mapping[str, FieldChoices]) -> None:
        """Set the choices that the cluster offers, by the name in `Field.choices_from`."""
        self.page.set_offers(offers)

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show each problem at its field, or at the field that contains its path; others are removed."""
        model = self.model
        wrong: dict[str, str] = {}
        for path, sentence in problems.items():
            wrong.setdefault(model.owner(path), sentence)
        wrong.pop("", None)
        if wrong == model.problems:
            return
        model.problems = wrong
        hidden = bool(wrong.keys() - set(model.shown())) and not model.search_text
        if hidden:
            model.lay_out(self.cursor_path)
        self.page.redraw(lines_changed=hidden)
        self.show_field_help()

    def put_texts(self, text_by_path: Mapping[str, str]) -> bool:
        """Set many texts as one undo step; returns whether anything changed."""
        changed = self.model.set_texts(text_by_path)
        if changed:
            self.place_cursor(self.cursor_path)
            self.changed()
        return changed

    def go(self, path: str) -> None:
        """Focus the field that contains that path, and reveal it if it is hidden."""
        model = self.model
        owner = model.owner(path)
        if owner and owner not in model.shown():
            model.reveal(owner)
            self.page.redraw(lines_changed=True)
        self.focus_row(model.row_of(owner) if owner else None)

    def resume(self) -> None:
        """Focus the line that last had the focus, else the first field."""
        self.focus_row(self.page.row if self.page.row in self.cursor_rows else self._first_field_row())

    def set_advanced(self, advanced: bool) -> None:
        self.model.set_advanced(advanced, self.cursor_path)
        self.place_cursor(self.cursor_path)

    # moves

    def action_step(self, step: int) -> None:
        if self.page.choices.is_open and self.page.choices.chosen:
            self.page.choices.move(step)
        else:
            self.action_skip(step)

    def action_skip(self, step: int) -> None:
        self.commit_editor()
        stops, row = self.cursor_rows, self.page.row
        if stops:
            at = stops.index(row) if row in stops else -min(step, 0) - 1
            self.focus_row(stops[(at + step) % len(stops)])

    def action_section(self, step: int) -> None:
        self.commit_editor()
        rows, row = self.page.model.rows, self.page.row
        heads = [at for at, each in enumerate(rows) if each.kind is RowKind.SECTION]
        at = rows.index(row) if row in rows else 0
        mine = max((number for number, head in enumerate(heads) if head <= at), default=0)
        if heads:
            head = heads[(mine + step) % len(heads)]
            self.focus_row(next(each for each in rows[head:] + rows if each.can_have_cursor))

    # Enter

    def action_enter(self) -> None:
        """Accept the choice, unfold a section, add an entry, or else go to the next field."""
        row, page = self.page.row, self.page
        self.commit_editor()
        if row is None or row not in page.model.rows:
            return
        if page.choices.is_open:
            self.choose(page.choices.chosen)
        elif row.kind is RowKind.SECTION:
            self._open_section(row)
        elif row.kind is RowKind.MORE:
            seen = set(page.model.shown())
            page.model.show_more_fields(row.path)
            self.place_cursor(next((path for path in page.model.shown() if path not in seen), ""))
        elif row.kind is RowKind.ENTRY:
            model = self.page.model
            if model.text_at(row).strip():
                self.action_add()
            elif self.page.offer is not None and not self.page.offer_was_shown:
                self.open_choices()
            elif len(model.entries(row.path)) > 1:
                model.remove_entry(row)
                self.place_cursor(row.path)
                self.changed(row.path)
                rows = model.rows
                last = max(at for at, each in enumerate(rows) if each.path == row.path)
                self.focus_row(next(each for each in rows[last + 1 :] + rows if each.can_have_cursor))
            else:
                self.action_skip(1)
        elif page.offer is not None and row.kind is RowKind.FIELD:
            self.open_choices()
        else:
            self.action_skip(1)

    def _open_section(self, row: FormRow) -> None:
        model = self.page.model
        model.toggle_section(row.path)
        at = model.rows.index(FormRow(RowKind.SECTION, row.path))
        self.place_cursor(next(each.path for each in model.rows[at:] if each.can_have_cursor))

    # choices

    def open_choices(self, *, narrows_list: bool = False) -> None:
        """Open the list of choices, or show why there are none."""
        offer, row = self.page.offer, self.page.row
        field = self.page.field
        if offer is not None and row is not None and field is not None:
            part = part_typed(field, self.page.model.text_at(row))
            self.page.open_choices(offer, part, narrows_list=narrows_list)
            if not narrows_list:
                self.post_message(self.Asked(field.choices_from))

    def choose(self, name: str) -> None:
        row, field = self.page.row, self.page.field
        self.page.choices.close()
        if row is None or field is None or not name:
            return
        model = self.page.model
        if self.page.offer is not None and name in self.page.offer.fills:
            # All the fields that belong together, in one step that can be taken back.
            fills = self.page.offer.fills[name]
            texts = {path: text for path, text in fills.items() if path in model.by_path}
            if model.set_texts(texts):
                self.place_cursor(field.path)
                self.page.reload()
                self.changed()
            self.post_message(self.Filled(name, len(texts)))
            return
        if model.set_text(row, complete_text(field, model.text_at(row), name)):
            self.page.reload()
            self.page.redraw()
            self.changed(field.path)
        if row.kind is RowKind.FIELD:
            self.action_skip(1)

    # entries

    def _entry_row(self) -> FormRow | None:
        row = self.page.row
        return row if row is not None and row.kind is RowKind.ENTRY else None

    def action_add(self) -> None:
        if (row := self._entry_row()) is not None:
            self.place_cursor(to=self.model.add_entry(row))

    def action_remove(self) -> None:
        if (row := self._entry_row()) is not None:
            self.place_cursor(to=self.model.remove_entry(row))
            self.changed(row.path)

    def action_as_text(self) -> None:
        field = self.page.field
        if field is not None and field.kind in COLLECTION_KINDS:
            self.model.toggle_text(field.path)
            self.place_cursor(to=self.page.model.row_of(field.path))

    def action_fold(self) -> None:
        field, row = self.page.field, self.page.row
        if field is not None and not self.model.search_text:
            self.page.model.toggle_section(field.group)
            self.place_cursor(to=FormRow(RowKind.SECTION, field.group, folded=True))
        elif row is not None and row.kind is RowKind.SECTION:
            self._open_section(row)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in {"add", "remove"}:
            return self._entry_row() is not None
        if action == "as_text":
            field = self.page.field
            return field is not None and field.kind in COLLECTION_KINDS
        return super().check_action(action, parameters)

    # search

    def action_search(self) -> None:
        self.commit_editor()
        self.finder.open()

    def search(self, search_text: str) -> None:
        self.page.choices.close()
        self.page.model.search(search_text, self.page.row.path if self.page.row else "")
        self.page.redraw(lines_changed=True)
        self.finder.show_found(count(len(self.page.model.shown()), "field"))

    def leave_search(self, *, drops_filter: bool) -> None:
        """Go from the search box to the first match, or with `drops_filter` back to all fields."""
        row = self.page.row
        if drops_filter:
            self.search("")
        target = row if drops_filter and row in self.page.model.rows else self._first_field_row()
        if target is not None:
            self.page.go(target)
            self.show_field_help()
            if not self.finder.input.value.strip():
                self.finder.close()

    # typing

    def commit_editor(self) -> bool:
        field = self.page.field
        if not self.page.commit_editor() or field is None:
            return False
        self.post_message(self.Changed(field.path, self.page.model.texts[field.path]))
        return True

    @on(Edited)
    def accept_edit(self, event: Edited) -> None:
        event.stop()
        row, field = self.page.row, self.page.field
        if not self.commit_editor() or row is None or field is None:
            return
        self.page.redraw()
        if self.page.offer is not None and field.kind not in CHOICE_KINDS and row.kind is not RowKind.TEXT:
            self.open_choices(narrows_list=True)

    @on(Pasted)
    def accept_paste(self, event: Pasted) -> None:
        """Paste several lines into a list or map as entries; pass anything else on to the screen."""
        row = self._entry_row()
        lines = [text.strip() for text in event.text.strip().splitlines() if text.strip()]
        other = any(text.startswith("helm ") or text.endswith(("\\", ":")) or ": " in text for text in lines)
        if row is None or other:
            return
        if self.page.model.by_path[row.path].kind is FieldKind.LIST or all("=" in text for text in lines):
            event.stop()
            self.place_cursor(to=self.model.add_entries(row, lines))
            self.changed(row.path)

    def changed(self, path: str = "") -> None:
        self.post_message(self.Changed(path, self.page.model.texts.get(path, "")))
        self.show_field_help()

    def show_field_help(self) -> None:
        """Show help for the field under the cursor, and enable the keys for entries only on entries."""
        if self.page.row is not None and self.page.has_keys:
            problem = self.page.model.problems.get(self.page.row.path, "")
            self.post_message(self.Entered(self.page.field, problem))
            self.refresh_bindings()

    def action_reset(self) -> None:
        field = self.page.field
        if field is not None and self.model.reset(field.path):
            self.place_cursor(to=self.page.model.row_of(field.path))
            self.changed(field.path)

    def action_undo_or_redo(self, step: int) -> None:
        path = self.model.undo_or_redo(step)
        if path is not None:
            self.place_cursor(path)
            self.changed()

    def action_leave(self) -> None:
        """Close the list of choices, else the search, else leave the form."""
        if self.page.choices.is_open:
            self.page.choices.close()
        elif self.page.model.search_text:
            self.finder.close()
            self.leave_search(drops_filter=True)
        else:
            self.post_message(self.Left())

    # the mouse

    @on(FormLines.Clicked)
    def accept_click(self, event: FormLines.Clicked) -> None:
        event.stop()
        row, model = event.row, self.model
        if row.kind is RowKind.SECTION and not model.search_text:
            model.toggle_section(row.path)
            self.place_cursor()
            return
        target = model.row_of(row.path) if row.kind is RowKind.TEXT else row
        if target is not None and target.can_have_cursor:
            self.focus_row(target)
        if row.kind is RowKind.MORE:
            self.action_enter()

    @on(ChoiceList.Picked)
    def accept_choice(self, event: ChoiceList.Picked) -> None:
        event.stop()
        self.choose(event.name)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.show_field_help()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """Store the typed text and close the list of choices."""
        self.commit_editor()
        self.page.choices.close()
