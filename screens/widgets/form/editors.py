"""The editors of single values; a form has one of each kind and moves it to the line with the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import ClassVar, Protocol

from rich.segment import Segment
from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, TextArea

from console.launch.field_choices import FieldChoices
from console.launch.recipes import Field, FieldKind
from screens.widgets.styled_text import StyledWidget, fit_text, line
from screens.widgets.title_and_keys import StillInput
from screens.wording import Span

YES_OR_NO = ("true", "false")


def picked_pieces(typed_text: str, words: Sequence[str], width: int) -> list[Span]:
    """The choices as spans with the chosen one marked; only the chosen one if they are wider than `width`."""
    if words == YES_OR_NO:
        return [Span("[✓] yes" if typed_text == "true" else "[ ] no")]
    if sum(len(word) + 3 for word in words) > width:
        return [Span(f"‹ {typed_text} ›")]
    return [Span(f"●{word}  ") if word == typed_text else Span(f"○{word}  ", "dim") for word in words]


CURSOR_KEYS = frozenset({"left", "right", "shift+left", "shift+right"})
"""Keys besides letters that change the choice on a line of few words."""
FORM_KEYS = frozenset({"ctrl+d", "ctrl+f", "enter", "up", "down", "ctrl+n", "ctrl+l"})
"""Keys of the form that Textual's editors would otherwise handle themselves."""


@dataclass
class Edited(Message):
    editor: Widget

    @property
    def control(self) -> Widget:
        return self.editor


@dataclass
class Pasted(Message):
    """The message that a text of more than one value was pasted."""

    text: str


def kept_bindings(bindings: Iterable[BindingType], without: frozenset[str]) -> list[BindingType]:
    """Textual's bindings of an editor, except those of the keys in `without`."""
    kept: list[BindingType] = []
    for binding in bindings:
        assert isinstance(binding, Binding)
        keys = [key for key in binding.key.split(",") if key not in without]
        if keys:
            kept.append(replace(binding, key=",".join(keys), show=False))
    return kept


class FormActions(Protocol):
    """The actions of the whole form that keys in an editor or in the search box run."""

    def action_enter(self) -> None: ...
    def action_search(self) -> None: ...
    def action_step(self, step: int) -> None: ...
    def search(self, search_text: str) -> None: ...
    def leave_search(self, *, drops_filter: bool) -> None: ...


class LineEditor(StillInput, StyledWidget, inherit_bindings=False):
    """The editor of one form line: text with completion, a choice of few words, or no value but a cursor.

    It is one widget, because moving the focus to another repaints the whole screen.
    """

    DEFAULT_CSS: ClassVar[str] = """
    LineEditor { border: none; height: 1; padding: 0; background: $panel;
        &:focus { border: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(Input.BINDINGS, FORM_KEYS)

    def __init__(self, form_actions: FormActions) -> None:
        super().__init__(select_on_focus=False)
        self._form_actions = form_actions
        self._words: tuple[str, ...] = ()
        self._cursor_only_spans: tuple[Span, ...] | None = None

    def load(
        self,
        text: str,
        words: Sequence[str] = (),
        *,
        names: Sequence[str] = (),
        secret: bool = False,
        placeholder: str = "",
    ) -> None:
        """Edit a text, completed by `names`, or choose one of `words`, if given; `secret`: the text is hidden."""
        self._words, self._cursor_only_spans = tuple(words), None
        self.password, self.placeholder = secret, placeholder
        self.set_suggestions(names)
        self.typed = text
        self.refresh()

    def choose_all(self) -> None:
        """Select all, so that typing replaces the text; an arrow key, End or a click keeps it."""
        if not self._words and not self.has_no_value:
            self.action_select_all()

    def load_cursor_only(self, spans: Sequence[Span]) -> None:
        """Show only the cursor on a line that has no value."""
        self._words, self._cursor_only_spans = (), tuple(spans)
        self.refresh()

    @property
    def has_no_value(self) -> bool:
        """Whether the line has no value to type."""
        return self._cursor_only_spans is not None

    def set_suggestions(self, suggestions: Sequence[str]) -> None:
        self.suggester = SuggestFromList(suggestions, case_sensitive=False) if suggestions else None

    @property
    def typed(self) -> str:
        return self.value

    @typed.setter
    def typed(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def validate(self, value: str) -> None:
        """Do nothing: the page validates, and Textual would restyle the editor at every key."""

    @on(Input.Changed)
    def post_edit(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(Edited(self))

    # words

    def choose_next_word(self, step: int) -> None:
        at = self._words.index(self.value) if self.value in self._words else -1
        self.typed = self._words[(at + step) % len(self._words)]

    @property
    def _shown_words(self) -> tuple[str, ...]:
        """The words of a choice as they are shown."""
        return ("yes", "no") if self._words == YES_OR_NO else self._words

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Whether a key is text; on lines without text a digit is a command unless a choice begins with it."""
        if (self._words or self.has_no_value) and character is not None and character.isdigit():
            return any(name.startswith(character) for name in self._shown_words)
        return super().check_consume_key(key, character)

    def on_key(self, event: events.Key) -> None:
        """On lines without text, letters choose a word and are not commands."""
        if not (self._words or self.has_no_value) or (event.key not in CURSOR_KEYS and not event.is_printable):
            return
        event.stop()
        event.prevent_default()
        if event.key == "slash":
            self._form_actions.action_search()
        elif self.has_no_value:
            if event.key == "space" or event.key.endswith("right"):
                self._form_actions.action_enter()
        elif event.key == "space" or event.key in CURSOR_KEYS:
            self.choose_next_word(-1 if event.key.endswith("left") else 1)
        elif event.character and event.is_printable:
            letter = event.character.lower()
            at = self._words.index(self.value) + 1 if self.value in self._words else 0
            order = [*range(at, len(self._words)), *range(at)]
            found = (self._words[place] for place in order if self._shown_words[place].lower().startswith(letter))
            self.typed = next(found, self.value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if (self._words or self.has_no_value) and action.startswith(("delete_", "cut", "copy", "paste")):
            return False
        return super().check_action(action, parameters)

    def on_paste(self, event: events.Paste) -> None:
        """Pass several lines or a command on to the form, and any paste into a line without text."""
        many = len(event.text.strip().splitlines()) > 1 or event.text.lstrip().startswith(("helm ", "$ helm "))
        if many or self._words or self.has_no_value:
            event.stop()
            event.prevent_default()
            self.post_message(Pasted(event.text))

    def action_paste(self) -> None:
        """Paste the app's own clipboard as if the terminal had."""
        self.post_message(events.Paste(self.app.clipboard))

    def on_click(self, event: events.Click) -> None:
        if self._words:
            event.stop()
            self.choose_next_word(1)
        elif self.has_no_value:
            event.stop()
            self._form_actions.action_enter()

    def render_line(self, y: int) -> Strip:
        ground, width = self.rich_style, self.size.width
        if self._cursor_only_spans is not None:
            under = self.ground("cursor")
            return line(self._cursor_only_spans, width, lambda style: under + self.style_of(style))
        if not self._words:
            return super().render_line(y)
        pieces = picked_pieces(self.value, self._words, width)
        segments = [Segment(run.text, ground + self.style_of(run.style)) for run in pieces]
        return Strip(segments).adjust_cell_length(width, ground)


class LinesEditor(TextArea, inherit_bindings=False):
    DEFAULT_CSS: ClassVar[str] = """
    LinesEditor { border: none; height: 1; padding: 0; scrollbar-size-horizontal: 0; background: $panel;
        &:focus { border: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(
        TextArea.BINDINGS, frozenset({"ctrl+d", "ctrl+f", "f6", "f7", "pageup", "pagedown"})
    )

    def __init__(self, form_actions: FormActions) -> None:
        super().__init__("", compact=True, soft_wrap=False, highlight_cursor_line=False)
        self._form_actions = form_actions

    def load(self, text: str, *, placeholder: str = "") -> None:
        self.placeholder = placeholder
        if text != self.text:
            self.load_text(text)
            self.move_cursor((0, 0))

    @property
    def typed(self) -> str:
        return self.text

    @typed.setter
    def typed(self, text: str) -> None:
        self.load(text, placeholder=str(self.placeholder))

    @on(TextArea.Changed)
    def post_edit(self, event: TextArea.Changed) -> None:
        event.stop()
        self.post_message(Edited(self))

    def action_cursor_up(self, select: bool = False) -> None:
        if self.cursor_at_first_line and not select:
            self._form_actions.action_step(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.cursor_at_last_line and not select:
            self._form_actions.action_step(1)
        else:
            super().action_cursor_down(select)


Editor = LineEditor | LinesEditor


MAX_NAMES_SHOWN = 8  # names in view at once


class ChoiceList(StyledWidget):
    """A list of names that match the typed text, with a cursor; if empty, it says why."""

    DEFAULT_CSS: ClassVar[str] = "ChoiceList { display: none; position: absolute; height: 1; background: $panel; }"

    @dataclass
    class Picked(Message):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self._offer: FieldChoices | None = None
        self._names: tuple[str, ...] = ()
        self._cursor = 0
        self._first_shown = 0
        self._typed_text, self._narrows = "", False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> str:
        return self._names[self._cursor] if self._names else ""

    def lines_in(self, width: int) -> int:
        return min(MAX_NAMES_SHOWN, len(self._names) or len(self._reason_lines(width)))

    def _reason_lines(self, width: int) -> list[str]:
        why = self._offer.why if self._offer else ""
        return wrap(why or "No choices.", max(10, width - 2))

    def open(self, offer: FieldChoices, typed_text: str = "", *, narrow: bool = False) -> None:
        """Show the names; `narrow` keeps only those that contain the typed text, sorted by prefix match."""
        wanted = typed_text.strip().lower()
        names = [name for name in offer.names if wanted in name.lower()] if narrow and wanted else list(offer.names)
        names.sort(key=lambda name: not name.lower().startswith(wanted) if narrow else False)
        self._offer, self._names = offer, tuple(names)
        self._typed_text, self._narrows = typed_text, narrow
        self._cursor = names.index(typed_text) if typed_text in names else 0
        self._first_shown = 0
        self._keep_in_view()
        self.display = not narrow or bool(names)
        self.refresh()

    def renew(self, choices: FieldChoices) -> None:
        """Replace the names; the cursor stays on its name."""
        if choices == self._offer:
            return
        here = self.chosen
        self.open(choices, self._typed_text, narrow=self._narrows)
        if here in self._names:
            self._cursor = self._names.index(here)
            self._keep_in_view()

    def close(self) -> None:
        self.display = False

    def move(self, step: int) -> None:
        if self._names:
            self._cursor = (self._cursor + step) % len(self._names)
            self._keep_in_view()
            self.refresh()

    def _keep_in_view(self) -> None:
        self._first_shown = min(max(self._first_shown, self._cursor - MAX_NAMES_SHOWN + 1), self._cursor)

    def render_line(self, y: int) -> Strip:
        width, ground = self.size.width, self.rich_style
        if not self._names or self._offer is None:
            lines = self._reason_lines(width)
            return Strip(
                [Segment(fit_text(f" {lines[y]}" if y < len(lines) else "", width), ground + self.style_of("waits"))]
            )
        at = self._first_shown + y
        if at >= len(self._names):
            return Strip.blank(width, ground)
        name = self._names[at]
        about = self._offer.details.get(name, "")
        ground = self.ground("cursor") if at == self._cursor else ground
        left = min(width, max(len(each) for each in self._names) + 3) if about else width
        mark = "▸" if at == self._cursor else " "
        return Strip(
            [
                Segment(
                    fit_text(f"{mark}{name}", left), ground + self.style_of("strong" if at == self._cursor else "text")
                ),
                Segment(fit_text(f" {about}", width - left) if about else "", ground + self.style_of("dim")),
            ]
        ).adjust_cell_length(width, ground)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._first_shown + event.y
        if at < len(self._names):
            self.post_message(self.Picked(self._names[at]))


DEFAULT_MOUNT_PATH = "/gcs"  # where a bucket is mounted unless somebody says otherwise


def part_typed(field: Field, text: str) -> str:
    """The part of the text that completion replaces: all of it, or in NAME=text one side."""
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return text
    before, _, after = text.partition("=")
    return after.partition("/")[0] if field.choices_from == "secrets" else before


def complete_text(field: Field, text: str, name: str) -> str:
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return name
    before, _, after = text.partition("=")
    if field.choices_from == "secrets":
        return f"{before or 'NAME'}={name}/{after.partition('/')[2]}"
    return f"{name}={after or DEFAULT_MOUNT_PATH}" if field.choices_from == "buckets" else f"{name}={after}"
