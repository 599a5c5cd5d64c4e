"""A question whose answer is one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from screens.modals.question import Question

if TYPE_CHECKING:
    from textual.app import ComposeResult


class Prompt(Question[str | None]):
    """Asks for a line; None if the person turned away."""

    DEFAULT_CSS = """
    Prompt > Vertical {
        width: 70; max-width: 90%; height: auto; background: $surface; border: round $accent; padding: 1 2;
    }
    Prompt Input { border: none; height: 1; padding: 0; margin-top: 1; background: $panel; }
    Prompt .hint { color: $ink-dim; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "turn_away", "Cancel", id="prompt.cancel")]

    def __init__(self, title: str, value: str = "", *, hint: str = "Enter takes it, Esc cancels.") -> None:
        super().__init__()
        self._question, self._value, self._hint = title, value, hint

    def compose(self) -> ComposeResult:
        """The question, the line, the hint."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(self._hint, markup=False, classes="hint")

    def action_turn_away(self) -> None:
        """No answer."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())
