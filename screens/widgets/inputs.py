"""Editors of one value each; a form has one of each kind and moves it to the line that has the keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.segment import Segment
from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.suggester import SuggestFromList
from textual.widgets import Input, TextArea

from screens.widgets.form_words import picked_pieces
from screens.widgets.ink import Inked
from screens.widgets.line import line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from screens.wording import Run

FORM_KEYS = frozenset({"ctrl+d", "ctrl+f", "enter", "up", "down", "ctrl+n", "ctrl+l"})
"""Keys of the form that Textual's editors would take for themselves."""


class FormKeys(Protocol):
    """What an editor asks of the form it belongs to."""

    def action_step(self, step: int) -> None:
        """The line above or below."""

    def action_enter(self) -> None:
        """What Enter does."""

    def action_search(self) -> None:
        """The line to search in."""


@dataclass
class Edited(Message):
    """What stands in an editor has changed."""

    editor: Widget

    @property
    def control(self) -> Widget:
        """The editor."""
        return self.editor


@dataclass
class Pasted(Message):
    """Text was pasted that is more than one value."""

    text: str


def kept_bindings(bindings: Iterable[BindingType], without: frozenset[str]) -> list[BindingType]:
    """Textual's bindings of an editor, without these keys."""
    kept: list[BindingType] = []
    for binding in bindings:
        assert isinstance(binding, Binding)
        keys = [key for key in binding.key.split(",") if key not in without]
        if keys:
            kept.append(replace(binding, key=",".join(keys), show=False))
    return kept


class Line(Input, inherit_bindings=False):
    """Text on one line; typing completes what can be chosen."""

    DEFAULT_CSS: ClassVar[str] = """
    Line { border: none; height: 1; padding: 0; background: $panel;
        &:focus { border: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(Input.BINDINGS, FORM_KEYS)

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)

    def load(self, text: str, *, names: Sequence[str] = (), secret: bool = False, placeholder: str = "") -> None:
        """Begins with another value, the cursor behind it."""
        self.password, self.placeholder = secret, placeholder
        self.complete(names)
        self.typed = text

    def complete(self, names: Sequence[str]) -> None:
        """Typing completes these."""
        self.suggester = SuggestFromList(names, case_sensitive=False) if names else None

    @property
    def typed(self) -> str:
        """The text."""
        return self.value

    @typed.setter
    def typed(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def validate(self, value: str) -> None:
        """Whoever shows the form judges; Textual's own judging restyles an editor at every key."""

    @on(Input.Changed)
    def tell(self, event: Input.Changed) -> None:
        """One message for every kind of editor."""
        event.stop()
        self.post_message(Edited(self))

    def on_paste(self, event: events.Paste) -> None:
        """Several lines, or a command, are not for this line alone."""
        if len(event.text.strip().splitlines()) > 1 or event.text.lstrip().startswith(("helm ", "$ helm ")):
            event.stop()
            event.prevent_default()
            self.post_message(Pasted(event.text))

    def action_paste(self) -> None:
        """The console's own clipboard, as if the terminal had pasted it."""
        self.post_message(events.Paste(self.app.clipboard))


class Picker(Inked, can_focus=True):
    """One of a few words, drawn on one line; left, right, space and first letters change it."""

    DEFAULT_CSS: ClassVar[str] = "Picker { height: 1; background: $panel; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "turn(1)", "Change", id="picker.next"),
        Binding("left", "turn(-1)", "Change back", show=False, id="picker.previous"),
        Binding("slash", "find", "Search", show=False, id="picker.search"),
    ]

    typed: reactive[str] = reactive("", init=False)
    """The word."""

    def __init__(self, form: FormKeys) -> None:
        super().__init__()
        self._form = form
        self.words: tuple[str, ...] = ()
        self.yes_or_no = False

    def load(self, text: str, words: Sequence[str] = ()) -> None:
        """Begins with another value; no words: true or false."""
        self.yes_or_no = not words
        self.words = tuple(words) or ("true", "false")
        self.set_reactive(Picker.typed, text)
        self.refresh()

    def watch_typed(self) -> None:
        """Says so, as every editor does."""
        self.post_message(Edited(self))

    def action_turn(self, step: int) -> None:
        """The next or previous word, round the end."""
        at = self.words.index(self.typed) if self.typed in self.words else -1
        self.typed = self.words[(at + step) % len(self.words)]

    def action_find(self) -> None:
        """The form's search."""
        self._form.action_search()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Letters are for the word, never commands."""
        return character is not None and character.isprintable()

    def on_key(self, event: events.Key) -> None:
        """A first letter picks the next word that begins with it."""
        if event.is_printable and event.character and event.key not in self._bindings.key_to_bindings:
            event.stop()
            letter = event.character.lower()
            names = ("yes", "no") if self.yes_or_no else self.words
            at = self.words.index(self.typed) + 1 if self.typed in self.words else 0
            order = [*range(at, len(names)), *range(at)]
            found = next((self.words[place] for place in order if names[place].lower().startswith(letter)), self.typed)
            self.typed = found

    def on_paste(self, event: events.Paste) -> None:
        """There is nothing to paste into a word."""
        event.stop()
        self.post_message(Pasted(event.text))

    def on_click(self, event: events.Click) -> None:
        """A click is the next word."""
        event.stop()
        self.action_turn(1)

    def render_line(self, y: int) -> Strip:
        """The words."""
        ground = self.rich_style
        pieces = picked_pieces(self.typed, self.words, self.yes_or_no, self.size.width)
        segments = [Segment(run.text, ground + self.ink(run.ink)) for run in pieces]
        return Strip(segments).adjust_cell_length(self.size.width, ground)


class Handle(Inked, can_focus=True):
    """The cursor on a line that is no value: a folded section, or what stands for fields out of sight."""

    DEFAULT_CSS: ClassVar[str] = "Handle { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "open", "Open", show=False, id="handle.open"),
        Binding("slash", "find", "Search", show=False, id="handle.search"),
    ]

    runs: reactive[tuple[Run, ...]] = reactive(())

    def __init__(self, form: FormKeys) -> None:
        super().__init__()
        self._form = form

    def action_open(self) -> None:
        """As Enter."""
        self._form.action_enter()

    def action_find(self) -> None:
        """The form's search."""
        self._form.action_search()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Letters do nothing here; they are never commands."""
        return character is not None and character.isprintable()

    def on_paste(self, event: events.Paste) -> None:
        """There is nothing to paste into it."""
        event.stop()
        self.post_message(Pasted(event.text))

    def render_line(self, y: int) -> Strip:
        """The line under the cursor."""
        ground = self.ground("cursor")
        return line(self.runs, self.size.width, lambda ink: ground + self.ink(ink))


class Lines(TextArea, inherit_bindings=False):
    """Several lines of one text."""

    DEFAULT_CSS: ClassVar[str] = """
    Lines { border: none; height: 1; padding: 0; scrollbar-size-horizontal: 0; background: $panel;
        &:focus { border: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = kept_bindings(
        TextArea.BINDINGS, frozenset({"ctrl+d", "ctrl+f", "f6", "f7", "pageup", "pagedown"})
    )

    def __init__(self, form: FormKeys) -> None:
        super().__init__("", compact=True, soft_wrap=False, highlight_cursor_line=False)
        self._form = form

    def load(self, text: str, *, placeholder: str = "") -> None:
        """Begins with another value."""
        self.placeholder = placeholder
        if text != self.text:
            self.load_text(text)
            self.move_cursor((0, 0))

    @property
    def typed(self) -> str:
        """The text."""
        return self.text

    @typed.setter
    def typed(self, text: str) -> None:
        self.load(text, placeholder=str(self.placeholder))

    @on(TextArea.Changed)
    def tell(self, event: TextArea.Changed) -> None:
        """One message for every kind of editor."""
        event.stop()
        self.post_message(Edited(self))

    def action_cursor_up(self, select: bool = False) -> None:
        """From the first line to the field above."""
        if self.cursor_at_first_line and not select:
            self._form.action_step(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """From the last line to the field below."""
        if self.cursor_at_last_line and not select:
            self._form.action_step(1)
        else:
            super().action_cursor_down(select)


Editor = Line | Picker | Handle | Lines
