"""The look before a launch: what will be created, as the server would accept it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from console.models.check import tally, unseen
from screens.modals.question import Question
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.yaml_text import YamlText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from console.models.check import Check
    from console.models.launch import Manifest
    from screens.wording import Run


def joined(manifests: Sequence[Manifest]) -> str:
    """All objects as one YAML text."""
    return "\n".join(f"---\n{manifest.text.strip()}" for manifest in manifests) + "\n"


class LaunchLook(Question[bool]):
    """Shows it; Enter or the launch key once more launches, Esc goes back to the form."""

    DEFAULT_CSS: ClassVar[str] = """
    LaunchLook > Vertical { width: 92%; max-width: 130; height: 90%; background: $surface; border: round $accent;
                            border-title-color: $accent; padding: 0 1; }
    LaunchLook SentenceLine { max-height: 6; padding: 0; }
    LaunchLook.-fails > Vertical { border: round $error; border-title-color: $error; }
    LaunchLook .fails { height: auto; max-height: 40%; }
    LaunchLook YamlText { background: $background; margin: 1 0 0 0; }
    LaunchLook .keys { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,ctrl+s", "answer(True)", "Launch", id="look.launch", priority=True),
        Binding("escape", "answer(False)", "Back", id="look.back"),
    ]

    def __init__(
        self, title: str, words: Sequence[Run], manifests: Sequence[Manifest], checks: Sequence[Check] = ()
    ) -> None:
        self._failing, self._unseen = tally(checks).failing, unseen(checks)
        super().__init__(classes="-fails" if self._failing else "")
        self._question, self._words, self._manifests = title, tuple(words), manifests

    def compose(self) -> ComposeResult:
        """The sentence, the checks that fail or learnt nothing, the objects, the keys."""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield SentenceLine()
            if self._failing or self._unseen:
                with VerticalScroll(classes="fails", can_focus=False):
                    for check in self._failing:
                        yield Static("\n  ".join((f"✗ {check.lines[0]}", *check.lines[1:])), markup=False)
                    for line in self._unseen:
                        yield Static(f"○ {line}", markup=False)
            yield YamlText()
            launches = "launches all the same" if self._failing else "launches"
            yield Static(f"⏎ or ctrl+s {launches}   esc goes back to the form   ↑↓ read", classes="keys", markup=False)

    def on_mount(self) -> None:
        """Fill it."""
        self.query_one(SentenceLine).runs = self._words
        text = self.query_one(YamlText)
        text.show(joined(self._manifests))
        text.focus()

    def action_answer(self, answer: bool) -> None:
        """Launch, or not."""
        self.dismiss(answer)
