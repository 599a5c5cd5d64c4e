"""The base of all dialogs, and common ones: confirmation, text input, choice, work with progress."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Button, Input, Static

from screens.columns.column import Column
from screens.sanitize import one_line
from screens.widgets.styled_text import AbstractWidgetMeta
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span, whole_path


class Question(ModalScreen[ScreenResultType]):
    """A dialog that accepts only its first answer, as a second one would close the page behind it."""

    DEFAULT_CSS = """
    Question > Vertical, Question > VerticalScroll {
        width: 92%; max-width: 130; height: auto; max-height: 90%; background: $surface; border: round $accent;
        border-title-color: $accent; padding: 0 1;
    }
    Question Input { border: none; height: 1; padding: 0 1; background: $panel; }
    Question .hint { color: $ink-dim; }
    Question .keys { color: $text-muted; }
    """
    _dismissed = False

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self._dismissed:
            return AwaitComplete()
        self._dismissed = True
        return super().dismiss(result)


class Confirm(Question[bool]):
    """Asks yes or no; Enter alone means no."""

    DEFAULT_CSS = """
    Confirm > Vertical {
        width: auto; max-width: 90%; min-width: 40; border: round $error; padding: 1 2; border-title-color: $error;
    }
    Confirm Static { width: auto; max-width: 82vw; height: auto; }
    Confirm .lines { height: auto; max-height: 12; overflow-y: auto; width: auto; }
    Confirm Horizontal { height: auto; width: auto; margin-top: 1; }
    Confirm Button { margin-right: 2; min-width: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm.yes"),
        Binding("n,escape", "dismiss(False)", "No", id="confirm.no"),
        Binding("left", "app.focus_previous", "Left", show=False),
        Binding("right", "app.focus_next", "Right", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str] = (), *, verb: str = "Delete", keep: str = "Keep") -> None:
        super().__init__()
        self._question, self._lines, self._verb, self._keep_label = title, lines, verb, keep

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False, classes="question")
            with Vertical(classes="lines"):
                for line in self._lines:
                    yield Static(line, markup=False)
            with Horizontal():
                yield Button(f"{self._keep_label} (n)", id="no", compact=True)
                yield Button(f"{self._verb} (y)", id="yes", variant="error", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    @on(Button.Pressed)
    def _answer_by_button(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class Prompt(Question[str | None]):
    DEFAULT_CSS = """
    Prompt > Vertical { width: 70; max-width: 90%; padding: 1 2; }
    Prompt Input { padding: 0; margin-top: 1; }
    Prompt .hint { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", id="prompt.cancel")]

    def __init__(self, title: str, value: str = "", *, hint: str = "Enter confirms, Esc cancels.") -> None:
        super().__init__()
        self._question, self._value, self._hint = title, value, hint

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(self._hint, markup=False, classes="hint")

    @on(Input.Submitted)
    def _submit_answer(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class FilePrompt(Prompt):
    """Asks for the file to write, and shows its whole path as it is typed."""

    def on_mount(self) -> None:
        self._show_path(self._value)

    @on(Input.Changed)
    def _on_typed(self, event: Input.Changed) -> None:
        self._show_path(event.value)

    def _show_path(self, file_path: str) -> None:
        path = one_line(str(whole_path(file_path.strip()))) if file_path.strip() else "Type the name of a file"
        self.query_one(".hint", Static).update(Content(f"{path}\n{self._hint}"))


@dataclass(frozen=True, slots=True)
class PickEntry:
    """One entry of a list to pick from: its value, a note beside it, and whether it is chosen now."""

    value: str
    note: str = ""
    is_current: bool = False


class ChoiceTable(ResourceTable[PickEntry]):
    NOUN = "entry"
    EMPTY = EmptyNotice("No choices.")
    COLUMNS: ClassVar = (
        Column("", lambda each: Span("●" if each.is_current else "", "ok"), width=1),
        Column("NAME", lambda each: each.value, least=12),
        Column("", lambda each: Span(each.note, "dim"), fill=True, least=0, most=120),
    )

    def row_text(self, row: PickEntry) -> str:
        return f"{row.value} {row.note}"


class Pick(Question[str | None]):
    """A dialog to choose from a list that typing narrows; None if cancelled."""

    DEFAULT_CSS = """
    Pick > Vertical { width: 90; max-width: 95%; height: 20; }
    Pick ChoiceTable { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="pick.cancel"),
        Binding("down", "step(1)", "Down", show=False, priority=True),
        Binding("up", "step(-1)", "Up", show=False, priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[PickEntry], *, free: bool = False) -> None:
        super().__init__()
        self._question, self._choices, self._free = title, choices, free

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._question)
            yield Input(placeholder="type to narrow" + (", or a name of your own" if self._free else ""), compact=True)
            yield ChoiceTable()
            yield Static("Enter confirms, Esc cancels.", classes="hint")

    def on_mount(self) -> None:
        table = self.query_one(ChoiceTable)
        table.show_rows({(each.value,): each for each in self._choices}, None)
        table.show_trouble(ChoiceTable.EMPTY)
        present = next((each for each in self._choices if each.is_current), None)
        if present:
            self.call_after_refresh(table.move_to, (present.value,))

    def action_step(self, lines: int) -> None:
        self.query_one(ChoiceTable).action_step(lines)

    @on(Input.Changed)
    def _filter_choices(self, event: Input.Changed) -> None:
        self.query_one(ChoiceTable).filter_by(event.value)

    @on(Input.Submitted)
    def _submit_answer(self, event: Input.Submitted) -> None:
        row = self.query_one(ChoiceTable).row
        if row is not None:
            self.dismiss(row.value)
        elif self._free and event.value.strip():
            self.dismiss(event.value.strip())

    @on(ResourceTable.Opened)
    def _answer_with_row(self, event: ResourceTable.Opened) -> None:
        self.dismiss(event.key[0])


_GLYPHS = {"bad": "✗ ", "ok": "● ", "waits": "⚠ ", "dim": "◐ "}


class WorkDialog(Question[None], metaclass=AbstractWidgetMeta):
    """A dialog for work that a subclass runs as a worker of group "work" while `is_busy`; Esc stops it, then closes."""

    status = getters.query_one("#status", SentenceLine)
    is_busy = False

    @abstractmethod
    def stopped_words(self) -> str:
        """The text shown after the person has stopped the work."""

    def action_leave(self) -> None:
        if not self.is_busy:
            self.dismiss(None)
            return
        self.workers.cancel_group(self, "work")
        self.is_busy = False
        self.note("waits", self.stopped_words())

    def note(self, style: str, message: str) -> None:
        self.status.runs = (Span(_GLYPHS[style], style), Span(message, "" if style in ("ok", "dim") else style))
