"""The changed values of a release as YAML, to be typed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from screens.modals.question import Question
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.yaml_edit import YamlEditor
from screens.wording import Run, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from console.models.draft import Remark


class EditValues(Question[str | None]):
    """Gives the text once all of it can be taken; None: everything stays as it is."""

    DEFAULT_CSS: ClassVar[str] = """
    EditValues > Vertical { width: 92%; max-width: 110; height: 90%; background: $surface; border: round $accent;
                            border-title-color: $accent; padding: 0 1; }
    EditValues SentenceLine { max-height: 3; padding: 0; }
    EditValues .keys { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Compare", id="values.take", priority=True),
        Binding("escape", "leave", "Back", id="values.back", priority=True),
    ]

    def __init__(self, title: str, text: str, judge: Callable[[str], Sequence[Remark]]) -> None:
        super().__init__()
        self._question, self._text, self._judge = title, text, judge

    def compose(self) -> ComposeResult:
        """The text, what is wrong with it, the keys."""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield YamlEditor()
            yield SentenceLine()
            yield Static("ctrl+s shows what would change   esc cancels", classes="keys",
                         markup=False)  # fmt: skip

    def on_mount(self) -> None:
        """The text as it is."""
        editor = self.query_one(YamlEditor)
        editor.begin(self._text)
        editor.focus()
        self.judge()

    @on(TextArea.Changed)
    def judge(self) -> bool:
        """Says what is wrong, at its line; whether nothing is."""
        editor = self.query_one(YamlEditor)
        remarks = self._judge(editor.text)
        editor.mark({each.line for each in remarks})
        said = "What differs from the recipe's defaults; a line that is taken away is at its default again."
        line = self.query_one(SentenceLine)
        line.runs = (Run(said, "dim"),)
        if remarks:
            where = f"line {remarks[0].line}: " if remarks[0].line else ""
            line.runs = (Run("✗ ", "bad"), Run(f"{where}{sentence(remarks[0].message)}", "bad"))
        return not remarks

    def action_take(self) -> None:
        """On with it, once nothing is wrong."""
        if self.judge():
            self.dismiss(self.query_one(YamlEditor).text)

    def action_leave(self) -> None:
        """Nothing is changed."""
        self.dismiss(None)
