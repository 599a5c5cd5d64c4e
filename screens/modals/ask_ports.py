"""Which ports a tunnel is to open, and whether it goes on when the console closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from console.errors import BadInput
from console.models.tunnel import USUAL_PORTS, Ports
from screens.modals.question import Question

if TYPE_CHECKING:
    from textual.app import ComposeResult

Answer = tuple[tuple[str, ...], bool]
USUAL = "   ".join(f"{port} {name}" for port, name in USUAL_PORTS.items())


class AskPorts(Question["Answer | None"]):
    """Asks; the answer is the ports as written and whether to keep them open, None if the person turned away."""

    DEFAULT_CSS = """
    AskPorts > Vertical {
        width: 70; max-width: 90%; height: auto; background: $surface; border: round $accent; padding: 1 2;
    }
    AskPorts Input { border: none; height: 1; padding: 0; margin: 1 0; background: $panel; }
    AskPorts #keeps { margin-top: 1; }
    AskPorts .hint { color: $ink-dim; }
    AskPorts #wrong { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "turn_away", "Cancel", id="ports.cancel"),
        Binding("ctrl+g", "by_itself", "Go on by itself", id="ports.background"),
    ]

    def __init__(self, title: str, value: str) -> None:
        super().__init__()
        self._question, self._value = title, value
        self._keeps = False

    def compose(self) -> ComposeResult:
        """The question, the ports, the choice."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(f"Usual: {USUAL}. Several with spaces between; 9000:8888 takes port 9000 here.",
                         markup=False, classes="hint")  # fmt: skip
            yield Static("", markup=False, id="keeps")
            yield Static("", markup=False, id="wrong")
            yield Static("Enter opens, Esc cancels.", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Typing replaces what is offered."""
        self.query_one(Input).focus()
        self._tell()

    def _tell(self) -> None:
        state = "● It goes on when the console closes" if self._keeps else "○ It ends with the console"
        self.query_one("#keeps", Static).update(f"{state} (ctrl+g changes that).")

    def action_by_itself(self) -> None:
        """The choice, without leaving the line."""
        self._keeps = not self._keeps
        self._tell()

    def action_turn_away(self) -> None:
        """No answer."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        ports = tuple(event.value.replace(",", " ").split())
        try:
            for each in ports:
                Ports.of(each)
        except BadInput as error:
            self.query_one("#wrong", Static).update(str(error))
            return
        if ports:
            self.dismiss((ports, self._keeps))
