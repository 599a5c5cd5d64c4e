"""A page of the form: its lines, only visible ones of which are drawn, and the editor over the focused one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from console.launch.field_choices import FieldChoices
from console.launch.recipes import Field, FieldKind
from screens import wording
from screens.sanitize import one_line
from screens.widgets.form.editors import (
    YES_OR_NO,
    ChoiceList,
    Editor,
    FormActions,
    LineEditor,
    LinesEditor,
    picked_pieces,
)
from screens.widgets.form.form_model import (
    CHOICE_KINDS,
    COLLECTION_KINDS,
    MAX_TEXT_LINES,
    MENTIONS,
    FormModel,
    FormRow,
    RowKind,
)
from screens.widgets.styled_text import PaintedLines, SelfSizedScrollView, cut_name, cut_sentence, fit_text, line
from screens.widgets.title_and_keys import SearchLine, StillInput
from screens.wording import Span, sentence
from trainlog import is_confidential

SECRET_MASK = "•"
MIN_NOTE_COLUMNS = 8  # columns that words beside a value need, to say anything
HAS_CHOICES = "▾"  # behind a value for which the cluster has something to choose from


@dataclass(frozen=True, slots=True)
class FormColumns:
    width: int

    @property
    def value_start(self) -> int:
        return 19 if self.width < 56 else 22 if self.width < 76 else 26 if self.width < 110 else 28

    @property
    def value_columns(self) -> int:
        left = self.width - self.value_start
        return max(8, left - 2) if left < 34 else min(56, max(22, left * 11 // 20))

    @property
    def note_columns(self) -> int:
        return max(0, self.width - self.value_start - self.value_columns - 2)


def value_width(model: FormModel, row: FormRow, offers: Mapping[str, FieldChoices], columns: FormColumns) -> int:
    """Width in columns of the value on a form line; the rest is for its problem or note."""
    field = model.by_path[row.path]
    whole = columns.width - columns.value_start
    if row.number:
        return whole
    if field.path in model.problems:
        text = shown_text(field, model.text_at(row)) if field.kind not in CHOICE_KINDS else "x" * 14
        return min(columns.value_columns, max(10, cell_len(text.partition("\n")[0]) + 3))
    return columns.value_columns if field_note(model, field, offers, columns.note_columns).text else whole


def placeholder_text(field: Field) -> str:
    example = field.examples[0] if field.examples else ""
    if field.kind in COLLECTION_KINDS:
        plain = "NAME=text" if field.kind is FieldKind.MAP else "one"
        first = example.partition(", ")[0] if field.kind is FieldKind.LIST else example.partition(" ")[0]
        return f"+ {first or plain}"
    return f"e.g. {example}" if example else ""


def shown_text(field: Field, text: str) -> str:
    """The text to show; for a secret NAME=value only the name."""
    name, pair, value = text.partition("=")
    if field.kind is FieldKind.MAP and pair and field.choices_from != "secrets" and is_confidential(name, value):
        return f"{name}={SECRET_MASK * min(len(value), 12)}"
    return SECRET_MASK * min(len(text), 12) if field.secret else text


def row_spans(
    model: FormModel, row: FormRow, offers: Mapping[str, FieldChoices], width: int, *, is_here: bool
) -> list[Span]:
    if row.kind is RowKind.GAP:
        return []
    if row.kind is RowKind.SECTION:
        if row.path == MENTIONS:
            words = ", ".join(f"“{word}”" for word in model.search_text.split())
            return [Span(" ── ", "faint"), Span(f"{MENTIONS}: {words}", "head")]
        changed = sum(model.is_changed(field.path) for field in model.fields_in(row.path))
        text = f"{changed} changed" if changed else ""
        wrong = sum(field.path in model.problems for field in model.fields_in(row.path))
        bad = [Span(f" ✗ {wrong} ", "bad")] if wrong else []
        if row.folded:
            count = wording.count(len(model.fields_in(row.path)), "field")
            more = [Span(f", {text}", "accent")] if text else []
            return [Span(" ▸ ", "accent"), Span(row.path, "head"), Span(f"  {count}", "dim"), *more, *bad]
        rule = "─" * max(0, min(width, 120) - cell_len(row.path) - len(text) - 9 - sum(len(run.text) for run in bad))
        end = [Span(f" {text} ", "accent"), *bad, Span("──", "faint")] if text else bad
        return [Span(" ── ", "faint"), Span(f"{row.path} ", "head"), Span(rule, "faint"), *end]
    if row.kind is RowKind.MORE:
        return [Span(" " * 3), Span(f"+ {wording.count(row.number, 'more field')}", "dim"), Span("  ⏎", "dim")]
    field, columns = model.by_path[row.path], FormColumns(width)
    room = value_width(model, row, offers, columns)
    value = _value_spans(model, row, field, room)
    if row.number:
        return [Span(" " * columns.value_start), *_cut_to_width(value, width - columns.value_start)]
    value = _cut_to_width(value, room)
    pad = Span(" " * (room - sum(cell_len(run.text) for run in value)))
    runs = [*_title_spans(model, row, columns, is_here=is_here), *value, pad]
    left = width - columns.value_start - room - 2
    note = field_note(model, field, offers, left)
    end = [Span("▏", "faint"), Span(" ")]
    return [*runs, *end, *cut_sentence([note], left)] if note.text and left > 0 else [*runs, *end]


def _title_spans(model: FormModel, row: FormRow, columns: FormColumns, *, is_here: bool) -> list[Span]:
    problem, changed = model.problems.get(row.path), model.is_changed(row.path)
    cursor = Span("▸" if is_here else " ", "accent")
    mark = Span("✗", "bad") if problem else Span("•" if changed else " ", "accent")
    style = "strong" if is_here or changed else "dim"
    return [
        cursor,
        mark,
        Span(" "),
        Span(fit_text(model.by_path[row.path].title, columns.value_start - 4), style),
        Span("▕", "faint"),
    ]


def _value_spans(model: FormModel, row: FormRow, field: Field, width: int) -> list[Span]:
    if field.kind in CHOICE_KINDS:
        pieces = picked_pieces(model.texts[row.path], field.choices or YES_OR_NO, width)
        return [Span(run.text, run.style or ("strong" if model.is_changed(row.path) else "text")) for run in pieces]
    if row.kind is RowKind.TEXT:
        lines = model.texts[row.path].split("\n")
        if row.number == MAX_TEXT_LINES - 1 and len(lines) > MAX_TEXT_LINES:
            return [Span(f"… {wording.count(len(lines) - MAX_TEXT_LINES + 1, 'line')} more", "dim")]
        if not model.texts[row.path]:
            return [Span(placeholder_text(model.by_path[row.path]), "faint")]
        return [Span(lines[row.number], "strong" if model.is_changed(row.path) else "text")]
    text = model.text_at(row)
    if not text:
        return [Span(placeholder_text(field), "faint")]
    had = model.defaults[row.path].split("\n")
    differs = text not in had if row.kind is RowKind.ENTRY else model.is_changed(row.path)
    return cut_name([Span(shown_text(field, text), "strong" if differs else "text")], width, node=False)


def field_note(model: FormModel, field: Field, offers: Mapping[str, FieldChoices], width: int) -> Span:
    """The note beside a form field: its problem, else facts from the cluster, unit and default."""
    problem = model.problems.get(field.path)
    if problem:
        return Span(sentence(problem).removeprefix(field.title).lstrip(), "bad")
    words = [field.unit] if field.unit and field.unit.lower() != field.title.lower() else []
    offer = offers.get(field.choices_from)
    text = model.texts[field.path]
    if offer is not None:
        about = offer.details.get(text, "")
        if about:
            words.append(about)
        elif not model.is_changed(field.path):
            words.append(_count_choices(offer))
    if model.is_changed(field.path):
        default = _default_words(model, field)
        words += [default] if not words or len(" · ".join([*words, default])) <= width else []
    elif field.rule:
        rule = field.rule.removeprefix("must be ").partition(", because")[0]
        words += [rule] if len(" · ".join([*words, rule])) <= width else []
    message = " · ".join(word for word in words if word)
    return Span(message if width >= min(len(message), MIN_NOTE_COLUMNS) else "", "dim")


def _count_choices(choices: FieldChoices) -> str:
    """The few choices or their number, as text; without choices the reason."""
    if choices.names:
        few = ", ".join(choices.names)
        return f"{HAS_CHOICES} {few}" if len(few) < 24 else f"{HAS_CHOICES} {len(choices.names)} to choose from"
    return choices.why.rstrip(".")


def _default_words(model: FormModel, field: Field) -> str:
    default = model.defaults[field.path]
    if field.secret:
        return "changed"
    if field.kind in COLLECTION_KINDS:
        have, had = set(model.entries(field.path)) - {""}, set(default.split("\n")) - {""}
        parts = [f"{len(have - had)} added" if have - had else "", f"{len(had - have)} gone" if had - have else ""]
        return ", ".join(part for part in parts if part)
    if field.kind is FieldKind.BOOLEAN:
        default = "yes" if default == "true" else "no"
    return f"default {sentence(default)}" if default else "default: none"


def _cut_to_width(spans: Sequence[Span], width: int) -> list[Span]:
    kept: list[Span] = []
    left = width
    for run in spans:
        text = one_line(run.text)
        if cell_len(text) > left:
            text = fit_text(text, left)
        if text:
            kept.append(Span(text, run.style))
        left -= cell_len(text)
    return kept


class FormLines(SelfSizedScrollView, PaintedLines):
    """A widget that draws a form's model as lines; its owner moves the cursor."""

    DEFAULT_CSS: ClassVar[str] = "FormLines { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    virtual_size = reactive(Size(0, 0))
    """The number of lines as a size; Textual's own reactive would lay out the whole screen at each change."""

    @dataclass
    class Clicked(Message):
        row: FormRow

    @dataclass
    class Scrolled(Message):
        """The message that other lines are visible now."""

    def __init__(self) -> None:
        super().__init__()
        self.model: FormModel | None = None
        self.offers: Mapping[str, FieldChoices] = {}
        self.cursor_row: FormRow | None = None
        self._repaint_due = False
        self._mixes: dict[str, Style] = {}

    def measure(self) -> None:
        self.virtual_size = Size(self.room, len(self.model.rows) if self.model else 0)
        self._scroll_update(self.virtual_size)
        self.repaint_changed()

    def show_row(self, row_number: int, height: int = 1) -> None:
        """Scroll these lines into view, with the section title above the first if possible."""
        top = int(self.scroll_y)
        if row_number < top or row_number + height > top + self.size.height:
            wanted = row_number - 2 if row_number < top else row_number + height - self.size.height + 1
            self.scroll_to(y=max(0, wanted), animate=False, immediate=True, force=True)

    def repaint_changed(self) -> None:
        """Repaint the visible lines that have changed, once per key press."""
        if not self._repaint_due:
            self._repaint_due = True
            self.call_later(self._repaint_lines)

    def _repaint_lines(self) -> None:
        self._repaint_due = False
        super().repaint_changed()

    @property
    def room(self) -> int:
        return self.scrollable_content_region.width

    def draw_line(self, y: int) -> Strip:
        width = self.room
        at = y + int(self.scroll_y)
        if self.model is None or at >= len(self.model.rows):
            return Strip.blank(width, self._on_ground(""))
        row = self.model.rows[at]
        here = self.cursor_row is not None and self.cursor_row.path == row.path and self.cursor_row.kind is row.kind
        runs = row_spans(self.model, row, self.offers, width, is_here=here)
        return line(runs, width, self._on_ground)

    def _on_ground(self, name: str) -> Style:
        """A style with the form's background; cached, since mixing colours is slow."""
        name = name or "text"
        if name not in self._mixes:
            self._mixes[name] = self.rich_style + self.style_of(name)
        return self._mixes[name]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._mixes = {}

    def on_click(self, event: events.Click) -> None:
        at = event.y + int(self.scroll_y)
        if self.model is not None and at < len(self.model.rows):
            self.post_message(self.Clicked(self.model.rows[at]))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report the scrolling to the owner, who moves the floating editor along."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    def on_resize(self) -> None:
        self._painted_strips.clear()
        self.measure()


class SearchInput(StillInput):
    """The search box of a form; Enter goes to the first match, Esc back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "All fields", id="form-search.drop"),
        Binding("enter,down,tab", "leave(False)", "To the fields", key_display="⏎", id="form-search.keep"),
    ]

    def __init__(self, form_actions: FormActions) -> None:
        super().__init__(placeholder="words in a field's title, path or help")
        self._form_actions = form_actions

    def action_leave(self, drops_filter: bool) -> None:
        """Go back to the fields; applies the typed text first, as its message may be pending."""
        self._form_actions.search("" if drops_filter else self.value)
        self._form_actions.leave_search(drops_filter=drops_filter)


class FormSearch(SearchLine):
    """The search bar, with the number of fields that match."""

    DEFAULT_CSS: ClassVar[str] = "FormSearch { display: none; }"

    def __init__(self, form_actions: FormActions) -> None:
        super().__init__(SearchInput(form_actions))
        self._form_actions = form_actions

    def open(self) -> None:
        self.display = True
        self.input.focus()

    def close(self) -> None:
        self.display = False
        with self.input.prevent(Input.Changed):
            self.input.value = ""

    @on(Input.Changed)
    def _apply_search(self, event: Input.Changed) -> None:
        event.stop()
        if self.input.has_focus:
            self._form_actions.search(event.value)


class FormPage(Widget):
    """Draws a form's model with the right editor on the focused line."""

    DEFAULT_CSS: ClassVar[str] = """
    FormPage { height: 1fr; layers: below above top; overflow: hidden;
        & > FormLines { layer: below; }
        & > LineEditor, & > LinesEditor { layer: above; position: absolute; display: none; }
        & > ChoiceList { layer: top; }
        & > .-changed { text-style: bold; }
    }
    """

    def __init__(self, form_actions: FormActions) -> None:
        super().__init__()
        self.model = FormModel()
        self.offers: Mapping[str, FieldChoices] = {}
        self.row: FormRow | None = None  # the line with the cursor
        self.lines = FormLines()
        self.choices = ChoiceList()
        self._line, self._lines_editor = LineEditor(form_actions), LinesEditor(form_actions)
        self._editor: Editor | None = None
        self.offer_was_shown = False  # whether the list has dropped down since the cursor came here

    def compose(self) -> ComposeResult:
        yield self.lines
        yield from (self._line, self._lines_editor, self.choices)

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

    def open_choices(self, choices: FieldChoices, typed_text: str, *, narrows_list: bool) -> None:
        self.offer_was_shown = True
        self.choices.open(choices, typed_text, narrow=narrows_list)
        self.place_editor()

    def show(self, model: FormModel) -> None:
        self.model = self.lines.model = model
        self.row = self.lines.cursor_row = None
        self.choices.close()
        self._show_editor(None)
        self.lines.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.lines.measure()

    def set_offers(self, offers: Mapping[str, FieldChoices]) -> None:
        self.offers = self.lines.offers = offers
        self.lines.repaint_changed()
        if self.choices.is_open and self.offer is not None:
            self.choices.renew(self.offer)
            self.place_editor()
        if self._editor is self._line and self.field is not None and self.field.kind not in CHOICE_KINDS:
            self._line.set_suggestions(self._offered_names())

    def redraw(self, *, lines_changed: bool = False) -> None:
        """Redraw the form after its model has changed; `lines_changed`: the lines of the form have changed too."""
        if lines_changed:
            self.lines.measure()
        else:
            self.lines.repaint_changed()
        self.place_editor()

    def commit_editor(self) -> bool:
        """Copy the editor's text to the model; returns whether it changed."""
        row, editor = self.row, self._editor
        if row is None or editor is None or row.path not in self.model.by_path or row not in self.model.rows:
            return False
        high = self.model.texts[row.path].count("\n")
        changed = self.model.set_text(row, editor.typed)
        if changed and row.kind is RowKind.TEXT and self.model.texts[row.path].count("\n") != high:
            self.model.lay_out(row.path)
            self.redraw(lines_changed=True)
        return changed

    def go(self, row: FormRow, *, takes_focus: bool = True) -> None:
        """Put the cursor on that line; `takes_focus`: focus the line too."""
        self.choices.close()
        self.offer_was_shown = False
        self.model.end_undo_step()
        self.row = self.lines.cursor_row = row
        self._show_editor(self._load_editor(row))
        at = self.model.rows.index(row)
        self.lines.show_row(at, self._row_height(row))
        self.redraw()
        if takes_focus and self._editor is not None:
            self._editor.focus(scroll_visible=False)
        if row.kind is RowKind.FIELD:
            self._line.choose_all()

    def reload(self) -> None:
        if self.row is not None:
            self._load_editor(self.row)

    def _load_editor(self, row: FormRow) -> Editor:
        field = self.model.by_path.get(row.path)
        if row.kind in (RowKind.SECTION, RowKind.MORE) or field is None:
            self._line.load_cursor_only(row_spans(self.model, row, self.offers, self.lines.room, is_here=True))
            return self._line
        text = self.model.text_at(row)
        if field.kind in CHOICE_KINDS:
            self._line.load(text, field.choices or YES_OR_NO)
            return self._line
        if row.kind is RowKind.TEXT:
            self._lines_editor.load(text, placeholder=placeholder_text(field))
            return self._lines_editor
        self._line.load(text, names=self._offered_names(), secret=field.secret, placeholder=placeholder_text(field))
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

    def _row_height(self, row: FormRow) -> int:
        lines = self.model.texts[row.path].count("\n") + 1 if row.kind is RowKind.TEXT else 1
        return min(MAX_TEXT_LINES, lines)

    # where the editor floats

    def place_editor(self) -> None:
        row, editor = self.row, self._editor
        if row is None or editor is None:
            return
        if row not in self.model.rows:
            # Another line is about to have the cursor; or its line is out of sight while somebody searches.
            editor.display = editor.has_focus
            return
        editor.display = True
        width = self.lines.room
        columns = FormColumns(width)
        y = self.model.rows.index(row) - int(self.lines.scroll_y)
        if row.path not in self.model.by_path:
            self._load_editor(row)
            place = (0, y, width, 1)
        else:
            room = value_width(self.model, row, self.offers, columns)
            place = (columns.value_start, y, room, self._row_height(row))
            editor.set_class(self.model.is_changed(row.path), "-changed")
        self._place_widget(editor, *place)
        if self.choices.is_open:
            wide = max(20, self.size.width - columns.value_start - 2)
            high = self.choices.lines_in(wide)
            below = self.size.height - y - 1
            top = y + 1 if below >= high or below >= y else max(0, y - high)
            self._place_widget(self.choices, columns.value_start, top, wide, high)

    @staticmethod
    def _place_widget(widget: Widget, x: int, y: int, width: int, height: int) -> None:
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
        self.place_editor()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.lines.scroll_relative(y=3, animate=False)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.lines.scroll_relative(y=-3, animate=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self.place_editor)
