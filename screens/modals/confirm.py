"""A question before something that cannot be undone: it names what goes, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from screens.modals.question import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


class Confirm(Question[bool]):
    """Asks; the answer is whether to do it. Enter at once keeps everything as it is."""

    DEFAULT_CSS = """
    Confirm > Vertical {
        width: auto; max-width: 90%; height: auto; max-height: 90%; min-width: 40;
        background: $surface; border: round $error; padding: 1 2; border-title-color: $error;
    }
    Confirm Static { width: auto; max-width: 82vw; height: auto; }
    Confirm .lines { height: auto; max-height: 12; overflow-y: auto; width: auto; }
    Confirm Horizontal { height: auto; width: auto; margin-top: 1; }
    Confirm Button { margin-right: 2; min-width: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes"),
        Binding("n,escape", "answer(False)", "No", id="confirm.no"),
        Binding("left", "app.focus_previous", "Left", show=False),
        Binding("right", "app.focus_next", "Right", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str] = (), *, verb: str = "Delete", keep: str = "Keep") -> None:
        super().__init__()
        self._question, self._lines, self._verb, self._keep = title, lines, verb, keep

    def compose(self) -> ComposeResult:
        """The question, what goes, and the two answers."""
        with Vertical():
            yield Static(self._question, markup=False, classes="question")
            with Vertical(classes="lines"):
                for line in self._lines:
                    yield Static(line, markup=False)
            with Horizontal():
                yield Button(f"{self._keep} (n)", id="no", compact=True)
                yield Button(f"{self._verb} (y)", id="yes", variant="error", compact=True)

    def on_mount(self) -> None:
        """The harmless answer is the one under Enter."""
        self.query_one("#no").focus()

    def action_answer(self, answer: bool) -> None:
        """Give the answer."""
        self.dismiss(answer)

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
