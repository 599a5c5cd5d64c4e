"""Draws the lines above and below a page: title bar, tabs and key hints (`live_screen` chooses which keys)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding
from textual.containers import Horizontal
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import Input, Static

from console.kube.snapshot import WatchState, WatchStatus
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import ALARM_GLYPH
from screens.columns.live_jobs import freshness_spans
from screens.widgets.styled_text import StyledWidget, cut_name, cut_sentence, fit_spans
from screens.wording import Span


@dataclass(frozen=True, slots=True)
class TitleContents:
    tabs: tuple[tuple[str, str, str], ...] = ()  # mode, key and name of each main screen
    open_mode: str = ""  # mode of the main screen that is open
    trail: tuple[str, ...] = ()  # names of the pages opened from it, outermost first
    cluster: str = ""
    namespace: str = ""  # namespace that lists are narrowed to, or the words that they are not
    narrowed: bool = False
    practice: bool = False
    read_only: bool = False
    unverified: bool = False  # whether the API server's certificate is not checked
    links: tuple[WatchStatus, ...] = ()
    trouble: str = ""
    alarms: int = 0  # jobs that have one


class TabShape(NamedTuple):
    """The form of the tabs in the title bar: names, keys, or the open tab only."""

    shows_names: bool = True  # of tabs that are not open; the keys that open them it says as long as there is room
    shows_others: bool = True  # anything of them
    trail: bool = True  # the whole way to the open page; else its end: where one is matters more than the way there


class TitleBar(StyledWidget):
    DEFAULT_CSS = "TitleBar { dock: top; height: 1; width: 1fr; }"
    NAME: ClassVar[str] = " a4 "

    title: reactive[TitleContents] = reactive(TitleContents(), repaint=False)
    """The contents of the bar. `tick` repaints it only if its text changes, as watch times change with every object."""
    digits_are_text: reactive[bool] = reactive(False)  # typed into a field, where they open no page: drawn faint

    def render_line(self, y: int) -> Strip:
        self._shown_words = self._words()
        return self._render_strip()

    def tick(self) -> None:
        """Update the age; repaints only if the text changed."""
        if self.is_mounted and self._words() != self._shown_words:
            self.refresh()

    _shown_words: object = None

    def _words(self) -> object:
        """A value that changes whenever the bar's text may, apart from its width."""
        states = {each.state for each in self.title.links}
        return replace(self.title, links=()), states, self._status_spans(self.size.width)

    def _render_strip(self) -> Strip:
        width = self.size.width
        room = width - len(self.NAME) - 8
        right = self._status_spans(width)
        states = {each.state for each in self.title.links}
        is_live = not self.title.trouble and states <= {WatchState.LIVE, WatchState.ABSENT}
        # While it is live, how long it was quiet is worth less than a tab's key, which must not come and go with it
        if _count_cells(right) > room or (is_live and not self._fits_in(TabShape(), width - _count_cells(right))):
            right = self._status_spans(width, is_brief=True)
            if not self.title.narrowed and not self._fits_in(TabShape(shows_names=False), width - _count_cells(right)):
                right = self._status_spans(width, is_brief=True, namespace=False)
        right_width = _count_cells(right)
        if right_width > room:
            right = self._status_spans(0)
            right_width = min(_count_cells(right), max(0, width - len(self.NAME) - 1))
        left_width = max(0, width - right_width)
        left: list[Segment] = []
        room = left_width
        for run, back in self._render_left(left_width):
            cells = min(room, cell_len(run.text))
            parts = fit_spans(cut_name([run], cells, node=False), cells, self.over(back))
            left += parts
            room -= sum(cell_len(part.text) for part in parts)
        bar = self.ground("bar")
        left.append(Segment(" " * room, bar))
        return Strip([*left, *fit_spans(right, right_width, self.over(bar))]).adjust_cell_length(width)

    def _render_left(self, width: int) -> list[tuple[Span, Style]]:
        """The bar's left part: tabs with names, else with keys only, else only the open one."""
        trail, alone = len(self.title.trail) > 1, TabShape(shows_names=False, shows_others=False)
        shapes = [TabShape(), TabShape(shows_names=False), *[TabShape(shows_names=False, trail=False)] * trail, alone]
        shape = next((each for each in shapes if self._fits_in(each, width)), alone._replace(trail=not trail))
        return [(Span(self.NAME, "accent"), self.ground("bar")), *self._tab_spans(shape)]

    def _fits_in(self, shape: TabShape, width: int) -> bool:
        return len(self.NAME) + _count_cells(run for run, _ in self._tab_spans(shape)) <= width

    def _tab_spans(self, shape: TabShape) -> list[tuple[Span, Style]]:
        tabs = []
        for mode, key, name in self.title.tabs:
            click = Style(meta={"@click": f"screen.open_tab({mode!r})"})
            if mode == self.title.open_mode:
                pages = self.title.trail if shape.trail else ("…", *self.title.trail[-1:])
                text = f" {key} {name}{''.join(f' › {each}' for each in pages)} "
                tabs.append((Span(text, "here"), self.ground("here") + click))
            elif shape.shows_others:
                back = self.ground("bar") + click
                tabs.append((Span(f" {key} ", "faint" if self.digits_are_text else "tab"), back))
                tabs += [(Span(f"{name} ", "tab"), back)] if shape.shows_names else []
        return tabs

    def _status_spans(self, width: int, *, is_brief: bool = False, namespace: bool = True) -> list[Span]:
        """The cluster and the freshness; `is_brief` leaves out the reason."""
        title = self.title
        where = title.namespace if namespace and width else ""
        runs: list[Span] = []
        if title.practice:
            runs += [Span(" practice ", "accent")]
            runs += [Span(f" {where}", "dim")] if where else []
        elif width >= 60:
            place = title.cluster if len(title.cluster) <= width // 4 else "…" + title.cluster[-(width // 4) :]
            runs += [Span(" / ".join(filter(None, (place, where if place else ""))), "dim")]
        if title.unverified:
            runs += [Span("  TLS unverified", "bad")]
        if title.read_only and width >= 80:
            runs += [Span("  read-only", "waits")]
        if title.alarms:
            runs.append(Span(f"  {ALARM_GLYPH} {title.alarms}", "bad"))
        fresh = freshness_spans(title.links, SERVER_CLOCK.now(), reason=title.trouble)
        if is_brief:
            fresh = fresh[:2]
        if width < 120:  # the short form: mark and word
            fresh = [fresh[0], *cut_sentence(fresh[1:2], max(13, width // 3))]
        return [*runs, Span("  "), *fresh, Span(" ")]


def _count_cells(spans: Iterable[Span]) -> int:
    return sum(cell_len(run.text) for run in spans)


READING_SETTINGS = (
    "log.search",
    "log.filter",
    "log.next",
    "log.mode",
    "log.first-error",
    "log.save",
    "log.level",
    "log.wrap",
    "log.nccl",
    "log.times",
)
"""Names of the bindings that come first in the key line of a log, in this order, as a narrow terminal cuts it."""


class KeyHint(NamedTuple):
    """A key, its meaning, and the action that a click runs."""

    key: str
    verb: str
    action: str
    is_last: bool = False  # stands at the right end and stays when the others no longer fit


@runtime_checkable
class HidesSomething(Protocol):
    """A widget with keys that show a part of it and hide it again."""

    def hides(self) -> Mapping[str, str]:
        """By action that would hide a part now: its label for the key line; "" removes it from there."""


def verb_of(binding: ActiveBinding) -> str:
    """The label of a key's present effect."""
    hidden = binding.node.hides() if isinstance(binding.node, HidesSomething) else {}
    return hidden.get(binding.binding.action, binding.binding.description)


class KeyBar(StyledWidget):
    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; width: 1fr; }"

    hints: reactive[tuple[KeyHint, ...]] = reactive(())

    def render_line(self, y: int) -> Strip:
        bar = self.ground("bar")
        key, verb = bar + self.style_of("key"), bar + self.style_of("dim")
        segments: list[Segment] = []
        at = 0
        for left, hint in self._hint_places():
            segments.append(Segment(" " * (left - at), bar))
            click = Style(meta={"@click": f"screen.run_hint({hint.action!r})"})
            segments += [Segment(hint.key, key + click), Segment(f" {hint.verb}", verb + click)]
            at = left + _hint_width(hint)
        return Strip(segments).adjust_cell_length(self.size.width, bar)

    def _hint_places(self) -> list[tuple[int, KeyHint]]:
        width = self.size.width
        ends = [hint for hint in self.hints if hint.is_last]
        room = width - sum(_hint_width(hint) + 2 for hint in ends)
        placed: list[tuple[int, KeyHint]] = []
        at = 1
        for hint in sorted(self.hints, key=lambda hint: hint.is_last):
            if hint.is_last:
                at = max(at, room + 1)
            if at + _hint_width(hint) <= (width if hint.is_last else room):
                placed.append((at, hint))
                at += _hint_width(hint) + 2
        return placed


def _hint_width(hint: KeyHint) -> int:
    return cell_len(hint.key) + 1 + cell_len(hint.verb)


class TabLabel(NamedTuple):
    """A tab in the title bar: internal name, key, title, and a note."""

    name: str
    key: str
    title: str
    note: str = ""


def _key_hint_texts(key: str, title: str, note: str) -> list[tuple[str, str]]:
    words = f"{title} {note}".strip()
    texts = [(f" {key} ", "key"), (title, "text"), (f" {note} " if note else " ", "dim")]
    return texts if words else [(f" {key}", "key")]


class TabStrip(StyledWidget):
    DEFAULT_CSS: ClassVar[str] = "TabStrip { height: 1; }"

    tabs: reactive[tuple[TabLabel, ...]] = reactive(())
    open_tab: reactive[str] = reactive("")

    @dataclass
    class Picked(Message):
        name: str

    def _tab_texts(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The styled texts of each tab; on a narrow line without notes, or only with the keys."""
        for notes in (True, False):
            texts = [(tab.name, _key_hint_texts(tab.key, tab.title, tab.note if notes else "")) for tab in self.tabs]
            if sum(len(text) for _, pieces in texts for text, _ in pieces) + len(texts) <= self.size.width:
                return texts
        titles = [tab.title if tab.name == self.open_tab else "" for tab in self.tabs]
        return [(tab.name, _key_hint_texts(tab.key, title, "")) for tab, title in zip(self.tabs, titles, strict=True)]

    def render_line(self, y: int) -> Strip:
        segments: list[Segment] = []
        for name, pieces in self._tab_texts():
            here = name == self.open_tab
            back = self.ground("here") if here else self.ground("bar")
            segments += [Segment(text, back + self.style_of("here" if here else style)) for text, style in pieces]
            segments.append(Segment(" ", self.ground("bar")))
        return Strip(segments).adjust_cell_length(self.size.width, self.ground("bar"))

    def on_click(self, event: events.Click) -> None:
        left = 0
        for name, pieces in self._tab_texts():
            left += sum(len(text) for text, _ in pieces) + 1
            if event.x < left:
                self.post_message(self.Picked(name))
                return


class StillInput(Input):
    """An input line whose cursor does not blink, which would be painted for ever.

    `virtual_size` is the length of the text; Textual's own would lay out the whole screen at every letter.
    """

    virtual_size = reactive(Size(0, 0))

    def __init__(self, value: str = "", *, placeholder: str = "", select_on_focus: bool = True) -> None:
        super().__init__(value, placeholder=placeholder, select_on_focus=select_on_focus, compact=True)
        self.cursor_blink = False


class SearchLine(Horizontal):
    """A search field in one line: a slash, the words, and the number of matches."""

    DEFAULT_CSS = """
    SearchLine { height: 1; background: $surface;
        & > .slash { width: 3; color: $accent; padding: 0 1; }
        & > .found { width: auto; color: $text-muted; padding: 0 1; }
        & > Input { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, search_input: Input, found: str = "") -> None:
        super().__init__()
        self.input = search_input
        self.found = Static(found, classes="found", markup=False)

    def compose(self) -> ComposeResult:
        yield Static("/", classes="slash")
        yield from (self.input, self.found)

    def show_found(self, text: str) -> None:
        """Show the number of matches; one as long as before costs no layout."""
        if self.found.is_mounted:
            self.found.update(text, layout=len(text) != len(str(self.found.content)))
