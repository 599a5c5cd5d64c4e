"""The help page: every key that works on a screen, taken from its bindings, and details of a form field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.table import Column, Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input, Static, TextArea

from screens.dialogs.question import Question
from screens.widgets.table.table import ResourceTable
from screens.wording import begun_small


@dataclass(frozen=True, slots=True)
class KeyGroup:
    title: str
    keys: tuple[tuple[str, str], ...]


def key_groups(screen: Screen[Any]) -> list[KeyGroup]:
    """The keys that work on that screen, grouped by origin: screen, list, app, editor."""
    found: dict[str, dict[str, tuple[list[str], str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or not active.enabled or binding.system:
            continue
        why = f": {begun_small(active.tooltip)}" if active.tooltip else ""
        actions = found.setdefault(_place(active.node), {})
        keys, _ = actions.setdefault(binding.action, ([], f"{binding.description}{why}"))
        keys.append(screen.app.get_key_display(binding))
    order = ("This screen", "Rows", "Everywhere", "Typing")
    return [
        KeyGroup(title, tuple((" ".join(dict.fromkeys(keys)), told) for keys, told in actions.values()))
        for title, actions in sorted(found.items(), key=lambda pair: order.index(pair[0]))
    ]


def _place(node: DOMNode) -> str:
    if isinstance(node, App):
        return "Everywhere"
    if isinstance(node, (Input, TextArea)):
        return "Typing"
    return "Rows" if isinstance(node, ResourceTable) else "This screen"


class HelpScreen(Question[None]):
    DEFAULT_CSS = """
    HelpScreen > VerticalScroll {
        width: 100; max-width: 96%; height: auto; max-height: 92%; background: $surface; border: round $accent;
        border-title-color: $accent; padding: 0 2;
    }
    HelpScreen Static { height: auto; }
    HelpScreen .keys { margin-bottom: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter,f1", "dismiss(None)", "Close", id="help.close"),
    ]

    def __init__(self, groups: Sequence[KeyGroup]) -> None:
        super().__init__()
        self._groups = groups

    def compose(self) -> ComposeResult:
        colours = self.app.theme_variables
        with VerticalScroll() as box:
            box.border_title = "Keys that work here"
            box.border_subtitle = "esc closes"
            for group in self._groups:
                yield Static(Text(group.title, style=f"bold {colours['ink-head']}"))
                keys_and_verbs = Table.grid(Column(width=15), Column(ratio=1), padding=(0, 1), expand=True)
                for keys, told in group.keys:
                    keys_and_verbs.add_row(
                        Text(f"  {keys}", style=f"bold {colours['ink-key']}"), Text(told, style=colours["ink-text"])
                    )
                yield Static(keys_and_verbs, classes="keys")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
