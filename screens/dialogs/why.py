"""The dialog that shows the whole of a long reason, scrollable, on a terminal of any size."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen

from screens.dialogs.question import Question
from screens.sanitize import one_line
from screens.widgets.side_pane import Lines
from screens.widgets.wrapped_sentence import SentenceLine

WHY = Binding("w", "why", "Why", id="table.why", tooltip="The whole reason, with its figures and the cluster's words")
MANY_LINES = 1000
"""Width in columns for which lines are made; the dialog folds them at its own width."""


class WholeReason(Question[None]):
    CSS = "WholeReason { background: $background; }"  # the page behind it tells the same
    DEFAULT_CSS = "WholeReason SentenceLine { max-height: 1000; padding: 0; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("w,escape,enter", "dismiss(None)", "Close", id="reason.close")]

    def __init__(self, name: str, lines: Lines) -> None:
        super().__init__()
        self._reason_name, self._lines = name, lines

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title, box.border_subtitle = Content(one_line(self._reason_name)), "w or esc closes"
            for runs in self._lines:
                yield (part := SentenceLine())
                part.runs = tuple(runs)


def show_why(page: Screen[None], name: str, lines: Lines) -> None:
    while lines and not lines[-1]:
        lines.pop()
    if lines:
        page.app.push_screen(WholeReason(name, lines))
