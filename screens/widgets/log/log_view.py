"""A log with its status line, alarms, search box and filters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static

from console.logs.log_text import LineFilter, LogText
from screens import wording
from screens.widgets.log.log_lines import LogLines, byte_pattern, printable
from screens.widgets.title_and_keys import StillInput
from trainlog import FIRST_ERROR, NOT_A_NUMBER, XID_WORD

if TYPE_CHECKING:
    from textual.timer import Timer


BUILTIN_SEARCH_NAMES = {FIRST_ERROR: "errors", NOT_A_NUMBER: "nan", XID_WORD: "Xid"}
"""Names shown for the searches that the console starts itself."""
ANSWER_SHOWN_SECONDS = 5.0  # seconds that the answer to a key stands in the line below
WAITING_FOR_CONNECTION = "◐ waits for the connection"  # why no lines come while the console has no session
LEVEL_FILTERS = ("", "warn", "error")
NCCL_FILTERS = ("", "without", "only")


class SearchBox(StillInput):
    """The search input; Enter returns the focus before the next key is processed."""

    async def action_submit(self) -> None:
        assert isinstance(self.parent, LogView)
        self.parent.accept_search(self.value)


class LogView(Vertical):
    DEFAULT_CSS: ClassVar[str] = """
    LogView { height: 1fr;
        LogLines { height: 1fr; overflow-y: scroll; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
        .log-empty { display: none; height: auto; padding: 1; }
        .log-drawn { display: none; height: 1; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 1; }
        .log-foot { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 1; }
        Input { display: none; border: none; height: 1; padding: 0; }
        &.-searching Input { display: block; }
        &.-searching .log-foot { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/", id="log.search", tooltip="Find text or a pattern"),
        Binding("F", "filter", "Filter", key_display="F", id="log.filter",
                tooltip="Show only lines with a text or pattern; with ! in front those without"),
        Binding("L", "level", "Level", key_display="L", id="log.level",
                tooltip="All lines, warnings and errors, errors alone"),
        Binding("M", "nccl", "NCCL lines", id="log.nccl", tooltip="With, without, or only lines of NCCL"),
        Binding("E", "first_error", "First error", key_display="E", id="log.first-error",
                tooltip="To the first line with an error"),
        Binding("S", "save", "Save", id="log.save", tooltip="Write the lines that are shown to a file"),
        Binding("escape", "end_search", "End search", show=False, id="log.end-search"),
    ]  # fmt: skip

    lines = query_one(LogLines)
    status: reactive[str] = reactive("", init=False)  # what this log is and what it waits for, shown below it
    progress_bar: reactive[str] = reactive("", init=False)
    """The progress bar that the program redraws in place now, shown below the lines; empty: none."""
    end_reason: reactive[str] = reactive("", init=False)
    """The reason, with a glyph, why no more lines come, shown in place of the follow mode; empty: lines may come."""
    _box_is_filter = False
    _seeks_error = False  # whether it is still looked for the first error
    _answer = ""  # what came of the last key, for a few seconds
    _answer_timer: Timer | None = None

    @dataclass
    class Saved(Message):
        text: LogText

    @dataclass
    class NoError(Message):
        """The message that no visible line is an error."""

    def compose(self) -> ComposeResult:
        yield Static(classes="log-empty", markup=False)
        yield LogLines()
        yield Static(classes="log-drawn", markup=False)
        yield Static(classes="log-foot", markup=False)
        yield SearchBox(select_on_focus=False)

    def on_mount(self) -> None:
        self.watch(self.lines, "is_searching", self._end_seeking, init=False)
        self.watch(self.lines, "match_count", self._offer_next_match, init=False)
        for name in ("follow", "wrap", "shown", "total", "match_count", "match", "wanted", "keep", "is_searching"):
            self.watch(self.lines, name, self._update_status, init=False)
        self._update_status()

    def _offer_next_match(self, earlier_matches: int, matches: int) -> None:
        if not (earlier_matches and matches):
            self.refresh_bindings()

    def watch_progress_bar(self) -> None:
        bar = self.query_one(".log-drawn", Static)
        bar.display = bool(self.progress_bar)
        bar.update(printable(self.progress_bar))

    def _update_status(self) -> None:
        if not self.query(LogLines):  # the page is closing, and what was asked for it comes in
            return
        lines = self.lines
        none = self._empty_reason()
        empty = self.query_one(".log-empty", Static)
        empty.display = bool(none)
        empty.update(f"○ {none}")
        following = "● following" if lines.follow else "‖ paused: space follows"
        count, found = wording.count(lines.shown, "line"), ""
        if lines.keep is not None:
            count += f" {lines.keep.description}"
        if lines.wanted:
            at = f"{lines.match + 1:,} of " if lines.match >= 0 else ""
            what = BUILTIN_SEARCH_NAMES.get(lines.wanted, f"/{lines.wanted}")
            found = f"{what}: {at}{wording.count(lines.match_count, 'match', 'matches')}"
        words = [each for each in (self.end_reason or following, self._answer, count, found) if each]
        if lines.is_searching:
            words.append("looking …")
        if lines.wrap:
            words.append("wrapped")
        words += [part for part in (lines.text.note, self.status) if part]
        self.query_one(".log-foot", Static).update("  ".join(words))

    watch_status = watch_end_reason = _update_status

    def _empty_reason(self) -> str:
        """The reason why a filter shows no lines, and how to remove it; empty if there are lines or no filter."""
        lines, total = self.lines, self.lines.total
        if lines.keep is None or lines.shown or not total:
            return ""
        if lines.is_searching:
            return f"Searching {wording.count(total, 'line')} with the filter ({lines.keep.description}) …"
        way = "esc ends the search; esc again clears the filter." if lines.wanted else "esc clears the filter."
        return f"The filter ({lines.keep.description}) matches none of {wording.count(total, 'line')}: {way}"

    def show_answer(self, text: str, seconds: float = ANSWER_SHOWN_SECONDS) -> None:
        """Show the answer to a key in the status line for a while; a toast would cover lines of the log."""
        self._answer = text
        self._update_status()
        if self._answer_timer is not None:
            self._answer_timer.stop()
        self._answer_timer = self.set_timer(seconds, lambda: self.show_answer("")) if text else None

    # the box

    def action_search(self) -> None:
        self.lines.position_before_search = None
        self._open_box("find: text or regular expression", "")

    def action_filter(self) -> None:
        keep = self.lines.keep
        now = keep.pattern.pattern.decode() if keep is not None and keep.pattern is not None else ""
        self._open_box("show only lines with this; ! in front: without it", now, filtering=True)

    def _open_box(self, hint: str, value: str, *, filtering: bool = False) -> None:
        self._box_is_filter = filtering
        box = self.query_one(Input)
        box.placeholder = hint
        with box.prevent(Input.Changed):
            box.value = value
        box.cursor_position = len(value)
        self.add_class("-searching")
        self.screen.set_focus(box)  # at once: the next key is already for the box

    def action_end_search(self) -> None:
        if self.has_class("-searching"):
            if not self._box_is_filter:
                self.lines.wanted = ""
        elif self.lines.wanted:
            self.lines.wanted = ""
        else:
            self.lines.keep = None
        self._close_box()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action is enabled: Escape only while there is a search or a filter."""
        lines = self.lines
        return action != "end_search" or self.has_class("-searching") or bool(lines.wanted) or lines.keep is not None

    @on(Input.Changed)
    def find_as_typed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._box_is_filter and self.has_class("-searching"):
            self.lines.wanted = event.value

    def accept_search(self, wanted: str) -> None:
        if self._box_is_filter:
            without = wanted.startswith("!")
            self._set_filter(replace(self._current_filter, pattern=byte_pattern(wanted[without:]), without=without))
        else:
            self.lines.wanted = wanted
        self._close_box()

    def _close_box(self) -> None:
        self.remove_class("-searching")
        self.screen.set_focus(self.lines)

    # filters

    @property
    def _current_filter(self) -> LineFilter:
        return self.lines.keep or LineFilter()

    def _set_filter(self, line_filter: LineFilter) -> None:
        self.lines.keep = None if line_filter == LineFilter() else line_filter

    def action_level(self) -> None:
        level = LEVEL_FILTERS[(LEVEL_FILTERS.index(self._current_filter.level) + 1) % len(LEVEL_FILTERS)]
        self._set_filter(replace(self._current_filter, level=level))

    def action_nccl(self) -> None:
        nccl = NCCL_FILTERS[(NCCL_FILTERS.index(self._current_filter.nccl) + 1) % len(NCCL_FILTERS)]
        self._set_filter(replace(self._current_filter, nccl=nccl))

    def action_first_error(self) -> None:
        self.lines.find_first(FIRST_ERROR)
        self._seeks_error = True
        self._end_seeking()

    def _end_seeking(self) -> None:
        """Report that no line is an error once all lines have been searched without a match."""
        if self._seeks_error and not self.lines.is_searching:
            self._seeks_error = False
            if not self.lines.match_count and self.lines.wanted == FIRST_ERROR:
                self.lines.wanted = ""
                self.show_answer("No line contains an error.")
                self.post_message(self.NoError())

    def action_save(self) -> None:
        """Ask the page to save these lines; without lines, say why there are none."""
        if not len(self.lines.text):
            why = self._empty_reason() or "No log lines yet."
            self.notify(why, title="There is nothing to save", severity="warning")
            return
        self.post_message(self.Saved(self.lines.text))
