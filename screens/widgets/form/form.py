"""A form made from descriptions of fields alone: whatever the schema describes appears, with help and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message

from console.launch.recipes import Field, FieldKind
from screens.widgets.form.choices import ChoiceList
from screens.widgets.form.cursor import FormCursor
from screens.widgets.form.editors import Edited, Pasted
from screens.widgets.form.lines import FormLines
from screens.widgets.form.model import PICKED, Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.launch.choices import Offer
    from screens.widgets.form.model import FormModel


class Form(FormCursor):
    """Fields in sections; whoever shows it decides what is wrong and what may be chosen."""

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
        Binding("ctrl+z", "undo", "Undo", show=False, id="form.undo", tooltip="Undo the last change"),
        Binding("ctrl+y", "redo", "Redo", show=False, id="form.redo", tooltip="Redo the last undone change"),
    ]  # fmt: skip

    @dataclass
    class Changed(Message):
        """Something was typed; `path` is empty when many fields changed at once."""

        path: str
        text: str

    @dataclass
    class Entered(Message):
        """The cursor is on another line now; no field: on the title of a section."""

        field: Field | None
        problem: str

    class Left(Message):
        """Esc, with nothing in the form left to close."""

    # what is shown

    @property
    def texts(self) -> dict[str, str]:
        """What stands in every field, by path, in sight or not."""
        return dict(self.model.texts)

    @property
    def here(self) -> str:
        """The path of the field that has the keys; empty if none has."""
        field = self.page.field
        return field.path if field is not None and self.page.has_keys else ""

    def show(self, model: FormModel, *, leave: bool = False) -> None:
        """Shows these fields; the keys, if they were in the form, go to the first one, unless they are to leave it."""
        keys = not leave and (self.page.has_keys or self.finder.input.has_focus)
        self.finder.close()
        self.page.show(model)
        if keys:
            self.resume()

    def offer(self, offers: Mapping[str, Offer]) -> None:
        """What the cluster has to choose from, by the name in `Field.choices_from`."""
        self.page.offered(offers)

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Puts each sentence at its field, or at the field its path lies in, and takes all others away."""
        model = self.model
        wrong: dict[str, str] = {}
        for path, sentence in problems.items():
            wrong.setdefault(model.owner(path), sentence)
        wrong.pop("", None)
        if wrong == model.problems:
            return
        model.problems = wrong
        hidden = bool(wrong.keys() - set(model.shown())) and not model.wanted
        if hidden:
            model.lay_out(self.here)
        self.page.redraw(moved=hidden)
        self.tell()

    def problem_of(self, path: str) -> str:
        """What is wrong with that field; empty if nothing is."""
        return self.page.model.problems.get(path, "")

    def redraw(self) -> None:
        """Shows texts that were put into the model from outside, where no key stands."""
        self.page.redraw()

    def put_texts(self, texts: Mapping[str, str]) -> bool:
        """Types all that in one step that can be taken back; whether anything is different."""
        changed = self.model.put_all(texts)
        if changed:
            self.settle(self.here)
            self.changed()
        return changed

    def go(self, path: str) -> None:
        """Gives the keys to the field that holds that path, whether it is in sight or not."""
        model = self.model
        owner = model.owner(path)
        if owner and owner not in model.shown():
            model.reveal(owner)
            self.page.redraw(moved=True)
        row = model.row_of(owner) if owner else None
        if row is not None:
            self.go_to(row)

    def resume(self) -> None:
        """Gives the keys to the line that had them last, else to the first field."""
        row = self.page.row if self.page.row in self.stops else next(iter(self.stops), None)
        if row is not None:
            self.go_to(row)

    def set_advanced(self, advanced: bool) -> None:
        """Every field in sight, or only those that people change."""
        self.model.set_advanced(advanced, self.here)
        self.settle(self.here)

    # typing

    def take(self) -> bool:
        """What stands in the editor into the model."""
        field = self.page.field
        if not self.page.take() or field is None:
            return False
        self.post_message(self.Changed(field.path, self.page.model.texts[field.path]))
        return True

    @on(Edited)
    def take_edit(self, event: Edited) -> None:
        """A key was pressed in an editor."""
        event.stop()
        row, field = self.page.row, self.page.field
        if not self.take() or row is None or field is None:
            return
        self.page.redraw()
        if self.page.offer is not None and field.kind not in PICKED and row.kind is not RowKind.TEXT:
            self.open_choices(narrow=True)

    @on(Pasted)
    def take_paste(self, event: Pasted) -> None:
        """Several lines pasted into a list or map are its entries; all else is for whoever shows the form."""
        row = self.page.row
        lines = [text.strip() for text in event.text.strip().splitlines() if text.strip()]
        if row is None or row.kind is not RowKind.ENTRY or not self._are_entries(row, lines):
            return
        event.stop()
        self.settle(to=self.model.add_entries(row, lines))
        self.changed(row.path)

    def _are_entries(self, row: Row, lines: list[str]) -> bool:
        if any(text.startswith("helm ") or text.endswith(("\\", ":")) or ": " in text for text in lines):
            return False
        return self.page.model.by_path[row.path].kind is FieldKind.LIST or all("=" in text for text in lines)

    def changed(self, path: str = "") -> None:
        """Says that the model holds other texts."""
        self.post_message(self.Changed(path, self.page.model.texts.get(path, "")))
        self.tell()

    def tell(self) -> None:
        """Help follows the cursor; keys for entries work only on entries."""
        if self.page.row is not None and self.page.has_keys:
            self.post_message(self.Entered(self.page.field, self.problem_of(self.page.row.path)))
            self.refresh_bindings()

    def action_reset(self) -> None:
        field = self.page.field
        if field is not None and self.model.reset(field.path):
            self.settle(to=self.page.model.row_of(field.path))
            self.changed(field.path)

    def action_undo(self) -> None:
        self._turn_back(self.model.undo())

    def action_redo(self) -> None:
        self._turn_back(self.model.redo())

    def _turn_back(self, path: str | None) -> None:
        if path is None:
            return
        self.settle(path)
        self.changed()

    def action_leave(self) -> None:
        """Closes the list of choices, then the search; then it is for whoever shows the form."""
        if self.page.choices.is_open:
            self.page.close_choices()
        elif self.page.model.wanted:
            self.finder.close()
            self.leave_search(drop=True)
        else:
            self.post_message(self.Left())

    # the mouse

    @on(FormLines.Clicked)
    def take_click(self, event: FormLines.Clicked) -> None:
        """A click puts the cursor there; on a section it folds or opens it."""
        event.stop()
        row = event.row
        self.take()
        if row.kind is RowKind.SECTION and not self.page.model.wanted:
            self.page.model.toggle_section(row.path)
            self.settle()
            return
        target = self.page.model.row_of(row.path) if row.kind is RowKind.TEXT else row
        if target is None or not target.takes_keys:
            return
        self.go_to(target)
        if row.kind is RowKind.MORE:
            self.action_enter()

    @on(ChoiceList.Picked)
    def take_choice(self, event: ChoiceList.Picked) -> None:
        event.stop()
        self.choose(event.name)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.tell()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """A list of choices belongs to the keys."""
        self.take()
        self.page.close_choices()
