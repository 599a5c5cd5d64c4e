"""A failure too long for a toast: what failed, why, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.errors import ConsoleError


class ErrorNote(ModalScreen[None]):
    """Shows one failure whole, to be read and closed."""

    DEFAULT_CSS = """
    ErrorNote > VerticalScroll {
        width: 100; max-width: 90%; height: auto; max-height: 80%; background: $surface; border: round $error;
        border-title-color: $error; padding: 1 2;
    }
    ErrorNote .hint { margin-top: 1; color: $accent; }
    ErrorNote .keys { margin-top: 1; color: $ink-dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss(None)", "Close", id="error.close")]

    def __init__(self, title: str, error: ConsoleError) -> None:
        super().__init__()
        self._what, self._error = title, error

    def compose(self) -> ComposeResult:
        """Why, and what next."""
        with VerticalScroll() as box:
            box.border_title = self._what
            yield Static(self._error.message, markup=False)
            if self._error.hint:
                yield Static(self._error.hint, markup=False, classes="hint")
            yield Static("Esc closes this.", classes="keys")
