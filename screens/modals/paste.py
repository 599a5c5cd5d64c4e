"""A place to paste a values.yaml or a helm command, and what came of a paste."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from screens.modals.question import Question
from screens.widgets.sentence_line import SentenceLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from screens.wording import Run


class Paste(Question[str | None]):
    """Asks for the text; None if the person turned away."""

    DEFAULT_CSS: ClassVar[str] = """
    Paste > Vertical { width: 92%; max-width: 120; height: 70%; background: $surface; border: round $accent;
                       border-title-color: $accent; padding: 0 1; }
    Paste TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    Paste .keys { height: auto; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Fill the form", id="paste.take", priority=True),
        Binding("escape", "turn_away", "Back", id="paste.back", priority=True),
    ]

    def compose(self) -> ComposeResult:
        """A sentence, the place, the keys."""
        with Vertical() as box:
            box.border_title = "Fill the form from a text"
            yield Static(
                "A values.yaml, of this chart or of a script's, or a helm install … --set … line.", markup=False
            )
            yield TextArea("", soft_wrap=False, compact=True)
            yield Static("ctrl+s fills the form   esc goes back   ctrl+z in the form takes it back", classes="keys")

    def on_mount(self) -> None:
        """Ready for the paste."""
        self.query_one(TextArea).focus()

    def action_take(self) -> None:
        """The text is the answer."""
        text = self.query_one(TextArea).text
        self.dismiss(text if text.strip() else None)

    def action_turn_away(self) -> None:
        """No answer."""
        self.dismiss(None)


class PasteReport(Question[None]):
    """What was taken and what was not, each with its reason."""

    DEFAULT_CSS: ClassVar[str] = """
    PasteReport > Vertical { width: 92%; max-width: 110; height: auto; max-height: 85%; background: $surface;
                             border: round $accent; border-title-color: $accent; padding: 0 1; }
    PasteReport VerticalScroll { height: auto; max-height: 100%; }
    PasteReport SentenceLine { max-height: 6; padding: 0; }
    PasteReport .keys { margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss(None)", "Close", id="report.close")]

    def __init__(self, title: str, lines: Sequence[Sequence[Run]]) -> None:
        super().__init__()
        self._head, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """A line for each."""
        with Vertical() as box:
            box.border_title = Content(self._head)
            with VerticalScroll():
                for runs in self._lines:
                    line = SentenceLine()
                    line.runs = tuple(runs)
                    yield line
            yield Static("Enter closes this.", classes="keys")
