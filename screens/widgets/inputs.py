"""Editors of one value each, all one line high (or as many as the text has), all speaking `Edited`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.suggester import SuggestFromList
from textual.widgets import Input, TextArea

from screens.widgets.ink import Inked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.widget import Widget


@dataclass
class Edited(Message):
    """A value was changed by typing; `text` is what stands there now."""

    editor: Widget
    text: str

    @property
    def control(self) -> Widget:
        """The editor."""
        return self.editor


class Line(Input):
    """Text on one line. With choices, up and down go through them and typing completes them."""

    DEFAULT_CSS: ClassVar[str] = """
    Line { border: none; height: 1; padding: 0; background: $surface;
        &:focus { border: none; background: $panel; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "choose(-1)", "Previous choice", show=False, id="line.previous"),
        Binding("down", "choose(1)", "Next choice", show=False, id="line.next"),
    ]

    choices: reactive[tuple[str, ...]] = reactive(())

    def __init__(self, text: str, *, choices: Sequence[str] = (), secret: bool = False, placeholder: str = "") -> None:
        super().__init__(text, placeholder, password=secret, compact=True, select_on_focus=False)
        self.choices = tuple(choices)

    def watch_choices(self, choices: tuple[str, ...]) -> None:
        """Typing completes what can be chosen."""
        self.suggester = SuggestFromList(choices) if choices else None

    def validate(self, value: str) -> None:
        """Whoever shows the form judges; Textual's own judging restyles an editor at every key."""

    @property
    def typed(self) -> str:
        """The text."""
        return self.value

    @typed.setter
    def typed(self, text: str) -> None:
        self.value = text

    @on(Input.Changed)
    def tell(self, event: Input.Changed) -> None:
        """One message for every kind of editor."""
        event.stop()
        self.post_message(Edited(self, event.value))

    def action_choose(self, step: int) -> None:
        """The next or previous choice, round the end."""
        if self.value in self.choices:
            self.value = self.choices[(self.choices.index(self.value) + step) % len(self.choices)]
        elif self.choices:
            self.value = self.choices[0 if step > 0 else -1]
        self.cursor_position = len(self.value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without choices, up and down belong to whoever holds this editor."""
        return bool(self.choices) if action == "choose" else super().check_action(action, parameters)


class Picker(Inked, can_focus=True):
    """One of a few words, drawn on one line; left, right and space change it."""

    DEFAULT_CSS: ClassVar[str] = """
    Picker { height: 1; background: $surface;
        &:focus { background: $panel; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "turn(1)", "Change", id="picker.next"),
        Binding("left", "turn(-1)", "Change back", show=False, id="picker.previous"),
    ]

    typed: reactive[str] = reactive("", init=False)

    def __init__(self, text: str, words: Sequence[str]) -> None:
        super().__init__()
        self.words = tuple(words)
        self.set_reactive(Picker.typed, text)

    def watch_typed(self, typed: str) -> None:
        """Says so, as every editor does."""
        self.post_message(Edited(self, typed))

    def action_turn(self, step: int) -> None:
        """The next or previous word, round the end."""
        at = self.words.index(self.typed) if self.typed in self.words else -1
        self.typed = self.words[(at + step) % len(self.words)]

    def on_click(self, event: events.Click) -> None:
        """A click is the next word."""
        event.stop()
        self.action_turn(1)

    def pieces(self) -> list[tuple[str, str]]:
        """What is drawn: texts and their inks."""
        return [(f"‹ {self.typed} ›", "")]

    def render_line(self, y: int) -> Strip:
        """The word."""
        ground = self.rich_style
        segments = [Segment(text, ground + self.ink(ink) if ink else ground) for text, ink in self.pieces()]
        return Strip(segments).adjust_cell_length(self.size.width, ground)


class Choice(Picker):
    """One of the words a schema allows, all of them in sight."""

    def pieces(self) -> list[tuple[str, str]]:
        """All words if they fit, the chosen one marked."""
        if sum(len(word) + 3 for word in self.words) > self.size.width:
            return super().pieces()
        return [(f"●{word}  ", "") if word == self.typed else (f"○{word}  ", "faint") for word in self.words]


class Toggle(Picker):
    """Yes or no."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ("true", "false"))

    def pieces(self) -> list[tuple[str, str]]:
        """A box, and the word beside it."""
        return [("[✓] yes" if self.typed == "true" else "[ ] no", "")]


class Lines(TextArea):
    """Several lines: a list, pairs NAME=text, or YAML; as high as its text."""

    DEFAULT_CSS: ClassVar[str] = """
    Lines { border: none; height: auto; max-height: 8; padding: 0; scrollbar-size-horizontal: 0; background: $surface;
        &:focus { border: none; background: $panel; }
    }
    """

    def __init__(self, text: str, *, placeholder: str = "") -> None:
        super().__init__(text, compact=True, soft_wrap=False, highlight_cursor_line=False, placeholder=placeholder)

    @property
    def typed(self) -> str:
        """The text."""
        return self.text

    @typed.setter
    def typed(self, text: str) -> None:
        if text != self.text:
            self.load_text(text)

    @on(TextArea.Changed)
    def tell(self, event: TextArea.Changed) -> None:
        """One message for every kind of editor."""
        event.stop()
        self.post_message(Edited(self, self.text))
