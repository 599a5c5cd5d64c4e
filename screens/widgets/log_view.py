"""A log with its status line and its search box."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.reactive import reactive
from textual.widgets import Input, Static

from screens import wording
from screens.widgets.log_lines import LogLines

if TYPE_CHECKING:
    from textual.app import ComposeResult


class SearchBox(Input):
    """Where the search is typed; Enter gives the keys back before the next key is looked at."""

    async def action_submit(self) -> None:
        """Keep the search."""
        assert isinstance(self.parent, LogView)
        self.parent.keep_search(self.value)


class LogView(Vertical):
    """A log with its status line and its search box."""

    DEFAULT_CSS: ClassVar[str] = """
    LogView { height: 1fr;
        LogLines { height: 1fr; overflow-y: scroll; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }
        .log-foot { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 1; }
        Input { display: none; border: none; height: 1; padding: 0; }
        &.-searching Input { display: block; }
        &.-searching .log-foot { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/", id="log.search", tooltip="Find text or a pattern"),
        Binding("escape", "end_search", "End search", show=False, id="log.end-search"),
    ]

    lines = query_one(LogLines)
    status: reactive[str] = reactive("", init=False)
    """What this log is and what it waits for, shown below it."""

    def compose(self) -> ComposeResult:
        """Lines, then either the status or the search box."""
        yield LogLines()
        yield Static(classes="log-foot", markup=False)
        yield SearchBox(placeholder="find: text or regular expression", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        """The status speaks of the lines, so it follows them."""
        for name in ("follow", "wrap", "shown", "matches", "match", "wanted"):
            self.watch(self.lines, name, self._tell, init=False)
        self._tell()

    def watch_status(self) -> None:
        """Another status is drawn at once."""
        self._tell()

    def _tell(self) -> None:
        lines = self.lines
        words = ["● following" if lines.follow else "‖ paused: space follows", wording.count(lines.shown, "line")]
        if lines.wanted:
            at = f"{lines.match + 1} of " if lines.match >= 0 else ""
            words.append(f"/{lines.wanted}: {at}{wording.count(len(lines.matches), 'match', 'matches')}")
        if lines.wrap:
            words.append("wrapped")
        if self.status:
            words.append(self.status)
        self.query_one(".log-foot", Static).update("  ".join(words))

    def action_search(self) -> None:
        """Opens the search box."""
        self.add_class("-searching")
        self.screen.set_focus(self.query_one(Input))  # at once: the next key is already for the box

    def action_end_search(self) -> None:
        """Closes the search box and forgets the search."""
        self.query_one(Input).value = ""
        self.lines.wanted = ""
        self._close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape is only taken while there is a search to end."""
        return action != "end_search" or self.has_class("-searching") or bool(self.lines.wanted)

    @on(Input.Changed)
    def find_as_typed(self, event: Input.Changed) -> None:
        """Matches appear while typing."""
        event.stop()
        self.lines.wanted = event.value

    def keep_search(self, wanted: str) -> None:
        """Keep the matches and give the keys back to the lines."""
        self.lines.wanted = wanted
        self._close()

    def _close(self) -> None:
        self.remove_class("-searching")
        self.screen.set_focus(self.lines)
