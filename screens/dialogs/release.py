"""Two dialogs about a release, each with a look at what would change: other values, an earlier revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from console.launch.recipes import LaunchPlan
from screens.dialogs.question import Question
from screens.widgets.change_text import ChangeText, change_words
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.yaml import YamlEditor
from screens.wording import Run, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from console.launch.recipes import Remark
    from console.launch.releases import ReleaseChange
    from screens.base import LiveScreen


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
        yes = f"y or ctrl+s: {self._verb}   " if self.can_be else ""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield SentenceLine()
            yield ChangeText()
            yield Static(f"{yes}esc cancels   ↑↓ read", classes="keys", markup=False)

    def on_mount(self) -> None:
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
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield YamlEditor()
            yield SentenceLine()
            yield Static("ctrl+s shows what would change   esc cancels", classes="keys", markup=False)

    def on_mount(self) -> None:
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
        said = "What differs from the recipe's defaults; a deleted line returns to its default."
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
        self.dismiss(None)


async def change_values(screen: LiveScreen, namespace: str, name: str) -> bool:
    """Asks for the values as YAML, shows what they change, and changes it; whether it was done."""
    session = screen.session
    plan = await session.releases.plan(namespace, name)
    drafting = session.drafting

    def judge(text: str) -> Sequence[Remark]:
        return drafting.read_yaml(plan.recipe, text, kept=plan.values).problems

    text: str | None = drafting.write_yaml(plan)
    while True:
        text = await screen.app.push_screen_wait(EditValues(f"Values of {name}", text or "", judge))
        if text is None:
            return False
        values = drafting.read_yaml(plan.recipe, text, kept=plan.values).values
        wanted = LaunchPlan(plan.recipe, name, namespace, values)
        with screen.report_errors(f"{name} was not changed"):
            change = await session.releases.try_upgrade(wanted)
            if await screen.app.push_screen_wait(ChangeLook(f"Change {name}?", change, "change it")):
                await session.releases.upgrade(wanted)
                await session.runs.changed(wanted)
                screen.notify(f"{name} is changed.", markup=False)
                return True


async def roll_back(screen: LiveScreen, namespace: str, name: str, revision: int) -> bool:
    """Shows what going back changes, and goes; whether it was done."""
    with screen.report_errors(f"{name} was not rolled back"):
        releases = screen.session.releases
        change = await releases.try_rollback(namespace, name, revision)
        title = f"Roll {name} back to revision {revision}?"
        if await screen.app.push_screen_wait(ChangeLook(title, change, "roll back")):
            await releases.rollback(namespace, name, revision)
            screen.notify(f"{name} is back at revision {revision}.", markup=False)
            return True
    return False
