"""The look before a release is changed: what becomes of its objects, as the API server judged it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from screens.modals.question import Question
from screens.widgets.change_text import ChangeText, change_words
from screens.widgets.sentence_line import SentenceLine

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from console.models.release import ReleaseChange


class ChangeLook(Question[bool]):
    """Shows it; y or ctrl+s does it where the cluster would let it happen, Esc leaves everything as it is."""

    DEFAULT_CSS: ClassVar[str] = """
    ChangeLook > Vertical { width: 92%; max-width: 130; height: 90%; background: $surface; border: round $accent;
                            border-title-color: $accent; padding: 0 1; }
    ChangeLook SentenceLine { max-height: 4; padding: 0; }
    ChangeLook ChangeText { background: $background; margin: 1 0 0 0; }
    ChangeLook .keys { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,ctrl+s", "answer(True)", "Do it", id="change.do", priority=True),
        Binding("escape,n", "answer(False)", "Back", id="change.back"),
    ]

    def __init__(self, title: str, change: ReleaseChange, verb: str) -> None:
        super().__init__()
        self._question, self._change, self._verb = title, change, verb

    @property
    def can_be(self) -> bool:
        """Whether there is something to do, and the cluster lets it be done."""
        return not (self._change.refused or self._change.idle)

    def compose(self) -> ComposeResult:
        """The sentence, the objects, the keys."""
        yes = f"y or ctrl+s: {self._verb}   " if self.can_be else ""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield SentenceLine()
            yield ChangeText()
            yield Static(f"{yes}esc cancels   ↑↓ read", classes="keys", markup=False)

    def on_mount(self) -> None:
        """Fill it."""
        self.query_one(SentenceLine).runs = tuple(change_words(self._change))
        text = self.query_one(ChangeText)
        text.show_change(self._change)
        text.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the cluster refuses is not done."""
        if action == "answer" and parameters == (True,):
            return self.can_be
        return super().check_action(action, parameters)

    def action_answer(self, answer: bool) -> None:
        """Do it, or not."""
        self.dismiss(answer)
