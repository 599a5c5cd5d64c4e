"""The cursor of a form: which line has the keys, what Enter does there, the list of choices, and the search line."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static

from screens import wording
from screens.widgets.base import Abstract
from screens.widgets.form.choices import completed, part_typed
from screens.widgets.form.model import COLLECTIONS, Row, RowKind
from screens.widgets.form.page import FormPage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import ComposeResult

    from screens.widgets.form.model import FormModel


class Searched(Protocol):
    """What the line asks of its form."""

    def search(self, wanted: str) -> None:
        """Leave only what has these words in sight."""

    def leave_search(self, *, drop: bool) -> None:
        """The keys go back to the fields."""


class SearchInput(Input):
    """The words; Enter goes to what was found, Esc to where one was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "All fields", id="form-search.drop"),
        Binding("enter,down,tab", "leave(False)", "To the fields", key_display="⏎", id="form-search.keep"),
    ]

    def __init__(self, form: Searched) -> None:
        super().__init__(placeholder="words in a field's title, path or help", compact=True)
        self._form = form

    def action_leave(self, drop: bool) -> None:
        """Back to the fields; the last letters' own message may still be on its way."""
        self._form.search("" if drop else self.value)
        self._form.leave_search(drop=drop)


class FormSearch(Horizontal):
    """A slash, the words, and how many fields they leave."""

    DEFAULT_CSS: ClassVar[str] = """
    FormSearch {
        height: 1; display: none; background: $surface;
        & > .slash { width: 3; color: $accent; padding: 0 1; }
        & > .found { width: auto; color: $text-muted; padding: 0 1; }
        & > SearchInput { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, form: Searched) -> None:
        super().__init__()
        self._form = form
        self.input = SearchInput(form)
        self._found = Static("", classes="found", markup=False)

    def compose(self) -> ComposeResult:
        yield Static("/", classes="slash")
        yield self.input
        yield self._found

    def open(self) -> None:
        """Takes the keys; the words of the last search are still there."""
        self.display = True
        self.input.focus()

    def close(self) -> None:
        self.display = False
        with self.input.prevent(Input.Changed):
            self.input.value = ""

    def rest(self) -> None:
        """Stays in sight only while it holds words."""
        if not self.input.value.strip():
            self.close()

    def tell(self, found: int) -> None:
        self._found.update(wording.count(found, "field"))

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Searches as the words are typed."""
        event.stop()
        if self.input.has_focus:
            self._form.search(event.value)


class FormCursor(Vertical, metaclass=Abstract):
    """Moves through the lines of a model."""

    @dataclass
    class Asked(Message):
        """Somebody wants to choose: whoever shows the form may know of more."""

        kind: str  # as in `Field.choices_from`

    @dataclass
    class Filled(Message):
        """What was chosen has filled several fields."""

        name: str
        count: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.finder = FormSearch(self)
        self.page = FormPage(self)

    def compose(self) -> ComposeResult:
        yield self.finder
        yield self.page

    @abstractmethod
    def take(self) -> bool:
        """What stands in the editor into the model, said to whoever shows the form; whether it was different."""

    @abstractmethod
    def tell(self) -> None:
        """Say where the cursor is now."""

    @abstractmethod
    def changed(self, path: str = "") -> None:
        """The model holds other texts by something else than typing."""

    @property
    def model(self) -> FormModel:
        """What is typed, up to the last key."""
        self.take()
        return self.page.model

    @property
    def stops(self) -> list[Row]:
        """Lines on which the cursor can stand."""
        return [row for row in self.page.model.rows if row.takes_keys]

    def go_to(self, row: Row) -> None:
        self.take()
        if row in self.page.model.rows:
            self.page.go(row)
            self.tell()

    def settle(self, path: str = "", to: Row | None = None) -> None:
        """The model has other lines: the cursor goes to that one, else to that field, else it stays where it is."""
        model, row = self.page.model, self.page.row
        self.page.lines.measure()
        if to is None and row is None:
            return
        here = row if row in model.rows and row is not None and path in {"", row.path} else None
        target = (
            to or here or model.row_of(path) or model.row_of(row.path if row else "") or next(iter(self.stops), None)
        )
        if target is not None:
            self.page.go(target, keys=self.page.has_keys)
            self.tell()

    # moves

    def action_step(self, step: int) -> None:
        """The line above or below; or the choice, while a list of them is open."""
        if self.page.choices.is_open and self.page.choices.chosen:
            self.page.choices.move(step)
            return
        self.take()
        self._move(step)

    def action_skip(self, step: int) -> None:
        self.take()
        self._move(step)

    def _move(self, step: int) -> None:
        stops, row = self.stops, self.page.row
        if stops:
            at = stops.index(row) if row in stops else -min(step, 0) - 1
            self.go_to(stops[(at + step) % len(stops)])

    def action_section(self, step: int) -> None:
        self.take()
        rows, row = self.page.model.rows, self.page.row
        heads = [at for at, each in enumerate(rows) if each.kind is RowKind.SECTION]
        at = rows.index(row) if row in rows else 0
        mine = max((number for number, head in enumerate(heads) if head <= at), default=0)
        if heads:
            head = heads[(mine + step) % len(heads)]
            self.go_to(next(each for each in rows[head:] + rows if each.takes_keys))

    # Enter

    def action_enter(self) -> None:
        """Takes the choice; opens what is folded; another entry; else the next field, as a form does."""
        row, page = self.page.row, self.page
        self.take()
        if row is None or row not in page.model.rows:
            return
        if page.choices.is_open:
            self.choose(page.choices.chosen)
        elif row.kind is RowKind.SECTION:
            self._open_section(row)
        elif row.kind is RowKind.MORE:
            self._open_rest(row)
        elif row.kind is RowKind.ENTRY:
            self._enter_entry(row)
        elif page.offer is not None and row.kind is RowKind.FIELD:
            self.open_choices()
        else:
            self._move(1)

    def _open_section(self, row: Row) -> None:
        model = self.page.model
        model.toggle_section(row.path)
        at = model.rows.index(Row(RowKind.SECTION, row.path))
        self.settle(next(each.path for each in model.rows[at:] if each.takes_keys))

    def _open_rest(self, row: Row) -> None:
        model = self.page.model
        seen = set(model.shown())
        model.open_rest(row.path)
        self.settle(next((path for path in model.shown() if path not in seen), ""))

    def _enter_entry(self, row: Row) -> None:
        model = self.page.model
        if model.text_at(row).strip():
            self.action_add()
        elif self.page.offer is not None and not self.page.offer_was_shown:
            self.open_choices()
        elif len(model.entries(row.path)) > 1:
            model.remove_entry(row)
            self.settle(row.path)
            self.changed(row.path)
            rows = model.rows
            last = max(at for at, each in enumerate(rows) if each.path == row.path)
            self.go_to(next(each for each in rows[last + 1 :] + rows if each.takes_keys))
        else:
            self._move(1)

    # choices

    def open_choices(self, *, narrow: bool = False) -> None:
        """Drops down what the cluster has to choose from, or why there is nothing."""
        offer, row = self.page.offer, self.page.row
        field = self.page.field
        if offer is not None and row is not None and field is not None:
            part = part_typed(field, self.page.model.text_at(row))
            self.page.open_choices(offer, part, narrow=narrow)
            if not narrow:
                self.post_message(self.Asked(field.choices_from))

    def choose(self, name: str) -> None:
        row, field = self.page.row, self.page.field
        self.page.close_choices()
        if row is None or field is None or not name:
            return
        model = self.page.model
        if self.page.offer is not None and name in self.page.offer.fills:
            self._fill(field.path, name, self.page.offer.fills[name])
            return
        if model.put(row, completed(field, model.text_at(row), name)):
            self.page.reload()
            self.page.redraw()
            self.changed(field.path)
        if row.kind is RowKind.FIELD:
            self._move(1)

    def _fill(self, path: str, name: str, fills: Mapping[str, str]) -> None:
        """All the fields that belong together, in one step that can be taken back."""
        texts = {each: text for each, text in fills.items() if each in self.page.model.by_path}
        if self.page.model.put_all(texts):
            self.settle(path)
            self.page.reload()
            self.changed()
        self.post_message(self.Filled(name, len(texts)))

    # entries

    def _entry(self) -> Row | None:
        row = self.page.row
        return row if row is not None and row.kind is RowKind.ENTRY else None

    def action_add(self) -> None:
        row = self._entry()
        if row is not None:
            self.settle(to=self.model.add_entry(row))

    def action_remove(self) -> None:
        row = self._entry()
        if row is not None:
            self.settle(to=self.model.remove_entry(row))
            self.changed(row.path)

    def action_as_text(self) -> None:
        """All entries of this field as one text, or one by one again."""
        field = self.page.field
        if field is not None and self.model.toggle_text(field.path):
            self.settle(to=self.page.model.row_of(field.path))

    def action_fold(self) -> None:
        field, row = self.page.field, self.page.row
        if field is not None and not self.model.wanted:
            self.page.model.toggle_section(field.group)
            self.settle(to=Row(RowKind.SECTION, field.group, folded=True))
        elif row is not None and row.kind is RowKind.SECTION:
            self._open_section(row)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys for entries only where there are any."""
        if action in {"add", "remove"}:
            return self._entry() is not None
        if action == "as_text":
            field = self.page.field
            return field is not None and field.kind in COLLECTIONS
        return super().check_action(action, parameters)

    # search

    def action_search(self) -> None:
        self.take()
        self.finder.open()

    def search(self, wanted: str) -> None:
        """Leaves only what has these words in sight."""
        self.page.close_choices()
        row = self.page.row
        self.page.model.search(wanted, row.path if row else "")
        self.page.redraw(moved=True)
        self.finder.tell(len(self.page.model.shown()))

    def leave_search(self, *, drop: bool) -> None:
        """From the line to the first field that was found, or back to all of them."""
        row = self.page.row
        if drop:
            self.search("")
        target = row if drop and row in self.page.model.rows else None
        target = target or next(iter(self.stops), None)
        if target is not None:
            self.page.go(target)
            self.tell()
            self.finder.rest()
