"""The lines of a form and the editor that floats over the focused line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.launch.choices import FieldChoices
from console.launch.recipes import Field, FieldKind
from screens.widgets.bars import SearchLine
from screens.widgets.form.editors import ChoiceList, Editor, FormActions, Line, Lines
from screens.widgets.form.lines import YES_OR_NO, Columns, FormLines, placeholder, room_for, row_spans
from screens.widgets.form.model import CHOICE_KINDS, MAX_TEXT_LINES, FormModel, FormRow, RowKind


class SearchInput(Input):
    """The search box of a form; Enter goes to the first match, Esc back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "All fields", id="form-search.drop"),
        Binding("enter,down,tab", "leave(False)", "To the fields", key_display="⏎", id="form-search.keep"),
    ]

    def __init__(self, form: FormActions) -> None:
        super().__init__(placeholder="words in a field's title, path or help", compact=True)
        self._form = form

    def action_leave(self, drop: bool) -> None:
        """Go back to the fields; applies the typed text first, as its message may be pending."""
        self._form.search("" if drop else self.value)
        self._form.leave_search(drop=drop)


class FormSearch(SearchLine):
    """The search bar, with the number of fields that match."""

    DEFAULT_CSS: ClassVar[str] = "FormSearch { display: none; }"

    def __init__(self, form: FormActions) -> None:
        super().__init__(SearchInput(form))
        self._form = form

    def open(self) -> None:
        self.display = True
        self.input.focus()

    def close(self) -> None:
        self.display = False
        with self.input.prevent(Input.Changed):
            self.input.value = ""

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        event.stop()
        if self.input.has_focus:
            self._form.search(event.value)


class FormPage(Widget):
    """Draws a form's model with the right editor on the focused line."""

    DEFAULT_CSS: ClassVar[str] = """
    FormPage { height: 1fr; layers: below above top; overflow: hidden;
        & > FormLines { layer: below; }
        & > Line, & > Lines { layer: above; position: absolute; display: none; }
        & > ChoiceList { layer: top; }
        & > .-changed { text-style: bold; }
    }
    """

    def __init__(self, form: FormActions) -> None:
        super().__init__()
        self.model = FormModel()
        self.offers: Mapping[str, FieldChoices] = {}
        self.row: FormRow | None = None  # the line with the cursor
        self.lines = FormLines()
        self.choices = ChoiceList()
        self._line, self._text = Line(form), Lines(form)
        self._editor: Editor | None = None
        self.offer_was_shown = False  # whether the list has dropped down since the cursor came here

    def compose(self) -> ComposeResult:
        yield self.lines
        yield from (self._line, self._text, self.choices)

    @property
    def field(self) -> Field | None:
        return self.model.by_path.get(self.row.path) if self.row is not None else None

    @property
    def has_keys(self) -> bool:
        """Whether typed keys go to this form."""
        return self._editor is not None and self._editor.has_focus

    @property
    def offer(self) -> FieldChoices | None:
        return self.offers.get(self.field.choices_from) if self.field is not None else None

    def open_choices(self, offer: FieldChoices, typed: str, *, narrow: bool) -> None:
        self.offer_was_shown = True
        self.choices.open(offer, typed, narrow=narrow)
        self.put_editor()

    def show(self, model: FormModel) -> None:
        self.model = self.lines.model = model
        self.row = self.lines.here = None
        self.choices.close()
        self._show_editor(None)
        self.lines.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.lines.measure()

    def offered(self, offers: Mapping[str, FieldChoices]) -> None:
        self.offers = self.lines.offers = offers
        self.lines.repaint_changed()
        if self.choices.is_open and self.offer is not None:
            self.choices.renew(self.offer)
            self.put_editor()
        if self._editor is self._line and self.field is not None and self.field.kind not in CHOICE_KINDS:
            self._line.complete(self._offered_names())

    def redraw(self, *, moved: bool = False) -> None:
        """Redraw after the model has changed; `moved`: its lines have changed too."""
        if moved:
            self.lines.measure()
        else:
            self.lines.repaint_changed()
        self.put_editor()

    def take(self) -> bool:
        """Copy the editor's text to the model; returns whether it changed."""
        row, editor = self.row, self._editor
        if row is None or editor is None or row.path not in self.model.by_path or row not in self.model.rows:
            return False
        high = self.model.texts[row.path].count("\n")
        changed = self.model.put(row, editor.typed)
        if changed and row.kind is RowKind.TEXT and self.model.texts[row.path].count("\n") != high:
            self.model.lay_out(row.path)
            self.redraw(moved=True)
        return changed

    def go(self, row: FormRow, *, keys: bool = True) -> None:
        """Put the cursor on that line; `keys` also focuses it."""
        self.choices.close()
        self.offer_was_shown = False
        self.model.rest()
        self.row = self.lines.here = row
        self._show_editor(self._load(row))
        at = self.model.rows.index(row)
        self.lines.show_row(at, self._height(row))
        self.redraw()
        if keys and self._editor is not None:
            self._editor.focus(scroll_visible=False)
        if row.kind is RowKind.FIELD:
            self._line.choose_all()

    def reload(self) -> None:
        if self.row is not None:
            self._load(self.row)

    def _load(self, row: FormRow) -> Editor:
        field = self.model.by_path.get(row.path)
        if row.kind in (RowKind.SECTION, RowKind.MORE) or field is None:
            self._line.load_handle(row_spans(self.model, row, self.offers, self.lines.room, here=True))
            return self._line
        text = self.model.text_at(row)
        if field.kind in CHOICE_KINDS:
            self._line.load(text, field.choices or YES_OR_NO)
            return self._line
        if row.kind is RowKind.TEXT:
            self._text.load(text, placeholder=placeholder(field))
            return self._text
        self._line.load(text, names=self._offered_names(), secret=field.secret, placeholder=placeholder(field))
        return self._line

    def _offered_names(self) -> tuple[str, ...]:
        whole = self.field is not None and self.field.kind is not FieldKind.MAP
        return self.offer.names if self.offer is not None and whole else ()

    def _show_editor(self, editor: Editor | None) -> None:
        before, self._editor = self._editor, editor
        if before is not editor and before is not None:
            before.display = False
        if editor is not None:
            editor.display = True

    def _height(self, row: FormRow) -> int:
        lines = self.model.texts[row.path].count("\n") + 1 if row.kind is RowKind.TEXT else 1
        return min(MAX_TEXT_LINES, lines)

    # where the editor floats

    def put_editor(self) -> None:
        row, editor = self.row, self._editor
        if row is None or editor is None:
            return
        if row not in self.model.rows:
            # Another line is about to have the cursor; or its line is out of sight while somebody searches.
            editor.display = editor.has_focus
            return
        editor.display = True
        width = self.lines.room
        columns = Columns(width)
        y = self.model.rows.index(row) - int(self.lines.scroll_y)
        if row.path not in self.model.by_path:
            self._load(row)
            place = (0, y, width, 1)
        else:
            room = room_for(self.model, row, self.offers, columns)
            place = (columns.value, y, room, self._height(row))
            editor.set_class(self.model.is_changed(row.path), "-changed")
        self._put(editor, *place)
        if self.choices.is_open:
            wide = max(20, self.size.width - columns.value - 2)
            high = self.choices.lines_in(wide)
            below = self.size.height - y - 1
            top = y + 1 if below >= high or below >= y else max(0, y - high)
            self._put(self.choices, columns.value, top, wide, high)

    @staticmethod
    def _put(widget: Widget, x: int, y: int, width: int, height: int) -> None:
        styles = widget.styles
        if (styles.offset.x.value, styles.offset.y.value) != (x, y):
            styles.offset = (x, y)
        if styles.width is None or styles.width.value != width:
            styles.width = width
        if styles.height is None or styles.height.value != height:
            styles.height = height

    @on(FormLines.Scrolled)
    def move_editor_with_lines(self, event: FormLines.Scrolled) -> None:
        event.stop()
        self.put_editor()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.lines.scroll_relative(y=3, animate=False)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.lines.scroll_relative(y=-3, animate=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self.put_editor)
