"""The help page: every key that works on a screen, from its bindings, the signs, and details of a form field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input, TextArea

from screens.dialogs.question import Question
from screens.widgets.side_pane import Lines
from screens.widgets.styled_text import StyledWidget, line
from screens.widgets.table.table import ResourceTable
from screens.widgets.title_and_keys import verb_of
from screens.widgets.wrapped_sentence import fold_spans
from screens.wording import GLYPH_MEANINGS, Span, lower_first_letter

KEY_COLUMNS = 16
"""Width in terminal columns of the keys in the help."""


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
        why = f": {lower_first_letter(active.tooltip)}" if active.tooltip else ""
        actions = found.setdefault(_place_of(active.node), {})
        keys, _ = actions.setdefault(binding.action, ([], f"{verb_of(active)}{why}"))
        keys.append(screen.app.get_key_display(binding))
    order = ("This screen", "Rows", "Everywhere", "Typing")
    return [
        KeyGroup(title, tuple((" ".join(dict.fromkeys(keys)), meaning) for keys, meaning in actions.values()))
        for title, actions in sorted(found.items(), key=lambda pair: order.index(pair[0]))
    ]


def _place_of(node: DOMNode) -> str:
    if isinstance(node, App):
        return "Everywhere"
    if isinstance(node, (Input, TextArea)):
        return "Typing"
    return "Rows" if isinstance(node, ResourceTable) else "This screen"


class KeyLines(StyledWidget):
    """Groups of keys, each beside what it does, wrapped at the widget's width."""

    DEFAULT_CSS = "KeyLines { height: auto; }"

    def __init__(self, key_groups: Sequence[KeyGroup]) -> None:
        super().__init__()
        self._groups = key_groups
        self._wrapped: dict[int, Lines] = {}

    def _fitting_lines(self, width: int) -> Lines:
        if width not in self._wrapped:
            self._wrapped = {width: [line for group in self._groups for line in group_lines(group, width)]}
        return self._wrapped[width]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._fitting_lines(width))

    def render_line(self, y: int) -> Strip:
        lines = self._fitting_lines(self.size.width)
        return line(lines[y] if y < len(lines) else [], self.size.width, self.over(self.base_style))


def group_lines(group: KeyGroup, width: int) -> Lines:
    """The lines of a group of keys: title, keys beside their meaning (long keys above it), and a blank line."""
    found: Lines = [[Span(group.title, "head")]]
    for keys, meaning in group.keys:
        label = f"  {keys}"
        if cell_len(label) >= KEY_COLUMNS:
            found.append([Span(label, "key")])
            label = ""
        for runs in fold_spans([Span(meaning)], max(8, width - KEY_COLUMNS)):
            found.append([Span(f"{label:<{KEY_COLUMNS}}", "key"), *runs])
            label = ""
    return [*found, []]


class HelpScreen(Question[None]):
    DEFAULT_CSS = """
    HelpScreen > VerticalScroll {
        width: 100; max-width: 96%; height: auto; max-height: 92%; background: $surface; border: round $accent;
        border-title-color: $accent; padding: 0 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter,f1", "dismiss(None)", "Close", id="help.close")
    ]

    def __init__(self, key_groups: Sequence[KeyGroup]) -> None:
        super().__init__()
        self._groups = (*key_groups, KeyGroup("Signs", tuple((sign.text, meaning) for sign, meaning in GLYPH_MEANINGS)))

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "Keys that work here, and signs"
            box.border_subtitle = "? or esc hides this"
            yield KeyLines(self._groups)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
