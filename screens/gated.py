"""The app whose terminal and whose last words pass the gate: nothing that was read is obeyed, no value is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import App

from screens.cli.crash import report
from screens.widgets.base import TextGate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.filter import LineFilter


class GatedApp(App[int]):
    """An app that shows what others wrote."""

    def __init__(self, **textual: Any) -> None:
        super().__init__(**textual)
        self._text_gate = TextGate()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's, and the gate that every line passes."""
        return [*super().get_line_filters(), self._text_gate]

    def panic(self, *renderables: Any) -> None:
        """Ends the app with our report: what libraries draw of their own errors has the lines with their values."""
        if (error := sys.exc_info()[1] or self._exception) is not None:
            renderables = (Text(report(error)),)
        super().panic(*renderables)

    def _fatal_error(self) -> None:
        # Textual's own prints every variable of every frame.
        self.bell()
        error = sys.exc_info()[1] or self._exception
        self._exit_renderables.append(Text(report(error) if error is not None else "An error that nobody knows."))
        self._close_messages_no_wait()
