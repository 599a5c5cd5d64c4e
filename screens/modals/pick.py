"""A choice of one from a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from screens.modals.question import Question
from screens.widgets.column import Column
from screens.widgets.notice import Notice
from screens.widgets.table import ResourceTable
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry: what is given back, what is shown of it, and whether it is the present one."""

    value: str
    note: str = ""
    present: bool = False


class ChoiceTable(ResourceTable[Choice]):
    """The entries."""

    NOUN = "entry"
    EMPTY = Notice("Nothing to choose from.")
    COLUMNS: ClassVar = (
        Column("", lambda each: Run("●" if each.present else "", "ok"), width=1),
        Column("NAME", lambda each: each.value, least=20),
        Column("", lambda each: Run(each.note, "dim"), fill=True, least=0),
    )

    def row_text(self, row: Choice) -> str:
        """Name and note."""
        return f"{row.value} {row.note}"


class Pick(Question[str | None]):
    """Type to narrow, Enter takes the row under the cursor; None if the person turned away."""

    DEFAULT_CSS = """
    Pick > Vertical { width: 90; max-width: 95%; height: 20; max-height: 90%; background: $surface;
                      border: round $accent; border-title-color: $accent; padding: 0 1; }
    Pick Input { border: none; height: 1; padding: 0 1; background: $panel; }
    Pick ChoiceTable { background: $surface; }
    Pick .hint { height: 1; color: $ink-dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "turn_away", "Cancel", id="pick.cancel"),
        Binding("down", "step(1)", "Down", show=False, priority=True),
        Binding("up", "step(-1)", "Up", show=False, priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, free: bool = False) -> None:
        super().__init__()
        self._question, self._choices, self._free = title, choices, free

    def compose(self) -> ComposeResult:
        """A line to type in over the entries."""
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield Input(placeholder="type to narrow" + (", or a name of your own" if self._free else ""), compact=True)
            yield ChoiceTable()
            yield Static("Enter takes it, Esc cancels.", classes="hint")

    def on_mount(self) -> None:
        """Show the entries, the present one under the cursor."""
        table = self.query_one(ChoiceTable)
        table.show_rows({(each.value,): each for each in self._choices}, None)
        table.show_trouble(ChoiceTable.EMPTY)
        present = next((each for each in self._choices if each.present), None)
        if present:
            self.call_after_refresh(table.move_to, (present.value,))

    def action_step(self, lines: int) -> None:
        """Move in the list while typing."""
        self.query_one(ChoiceTable).action_step(lines)

    def action_turn_away(self) -> None:
        """No answer."""
        self.dismiss(None)

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self.query_one(ChoiceTable).filter_by(event.value)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        row = self.query_one(ChoiceTable).row
        if row is not None:
            self.dismiss(row.value)
        elif self._free and event.value.strip():
            self.dismiss(event.value.strip())

    @on(ResourceTable.Opened)
    def _open(self, event: ResourceTable.Opened) -> None:
        self.dismiss(event.key[0])
