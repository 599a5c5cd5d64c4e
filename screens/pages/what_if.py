"""The What-if page: changes typed as after `a4 whatif`, and their effects as that command prints them."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, Static

from console.errors import BadInput, ConsoleError
from console.scheduling.what_if import Changes, what_if
from console.scheduling.why import JOB_KINDS
from screens.cli.forecast_and_what_if import result_lines
from screens.cli.lists import unread_kinds
from screens.dialogs.question import Question
from screens.session_app import SessionApp

CHANGE_FORMS = {
    "stop": "JOB",
    "submit": "QUEUE:GPUS[:PRIORITY]",
    "priority": "JOB:PRIORITY",
    "drain": "NODE|POOL",
    "lose": "HOST",
    "quota": "QUEUE:FLAVOR:GPUS",
}


def read_changes(text: str) -> Changes:
    """Parse changes such as "stop llama submit a4:32", or options of `a4 whatif`. Raises BadInput, also if empty."""
    words = [word.removeprefix("--") for word in text.split()]
    known = ", ".join(f"{name} {form}" for name, form in CHANGE_FORMS.items())
    found: dict[str, list[str]] = {name: [] for name in CHANGE_FORMS}
    for at in range(0, len(words), 2):
        if words[at] not in found:
            raise BadInput(f"{words[at]} is no change.", f"Changes are: {known}.")
        if at + 1 == len(words):
            raise BadInput(f"{words[at]} has to be {words[at]} {CHANGE_FORMS[words[at]]}.")
        found[words[at]].append(words[at + 1])
    if not words:
        raise BadInput("Nothing to try.", f"Changes are: {known}.")
    drain = (*found.pop("drain"), *found.pop("lose"))
    return Changes(drain=drain, **{name: tuple(values) for name, values in found.items()})


class WhatIfScreen(Question[None]):
    DEFAULT_CSS = """
    WhatIfScreen > Vertical { height: 85%; }
    WhatIfScreen VerticalScroll { height: 1fr; margin-top: 1; }
    WhatIfScreen #result { width: auto; height: auto; }
    WhatIfScreen .hint { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close", id="whatif.close")]

    app = getters.app(SessionApp)
    result = getters.query_one("#result", Static)

    def __init__(self, namespace: str = "", typed_text: str = "") -> None:
        super().__init__()
        self._namespace, self._typed_text = namespace, typed_text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "What if"
            yield Input(self._typed_text, placeholder="stop llama submit a4:32", compact=True)
            forms = "   ".join(f"{name} {form}" for name, form in CHANGE_FORMS.items())
            yield Static(f"Changes, as many as are wanted: {forms}", markup=False, classes="hint")
            with VerticalScroll():
                yield Static(id="result", markup=False)
            yield Static(
                "⏎ tries it; nothing is changed on the cluster   tab, ↑↓ read   esc closes this",
                markup=False,
                classes="keys",
            )

    def on_mount(self) -> None:
        if self._typed_text:
            self._show_consequences(self._typed_text)

    @on(Input.Submitted)
    def _on_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._show_consequences(event.value)

    @work(group="whatif", exclusive=True)
    async def _show_consequences(self, typed_text: str) -> None:
        fleet = self.app.fleet
        namespace = self._namespace or self.app.only_namespace or self.app.session.namespace
        try:
            changes = read_changes(typed_text)
            classes = await self.app.session.priority_classes(changes.priority_classes)
            found = await asyncio.to_thread(what_if, fleet, namespace, changes, classes)
            found = await self.app.session.launch.unsaved.add_losses(found)
        except ConsoleError as error:
            self.result.update(str(error))
            return
        missing = [f"{kind}: {reason}" for kind, reason in unread_kinds(JOB_KINDS, fleet).items()]
        self.result.update("\n".join([*missing, *result_lines(found, fleet)]))
