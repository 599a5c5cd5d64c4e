"""The base class of pages that show the cluster snapshot and filter their tables."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.css.query import NoMatches
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import AwaitMount, Widget
from textual.widgets import Input
from textual.widgets._toast import ToastHolder, ToastRack

from console.errors import ConsoleError, Unreachable
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from console.settings_file import ListConfig, LoadedConfig
from screens.apply_settings import keys_of, own_commands
from screens.columns.column import RowT
from screens.columns.live_jobs import alarms_of_session
from screens.widgets.styled_text import AbstractWidgetMeta, Backdrop, SnapshotText, call_after
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.title_and_keys import (
    READING_SETTINGS,
    KeyBar,
    KeyHint,
    SearchLine,
    StillInput,
    TitleBar,
    TitleContents,
    verb_of,
)
from screens.wording import ALL_NAMESPACES, MINE_MARK, Span, sentence

if TYPE_CHECKING:
    from console.metrics.nccl_history import NodeBandwidth
    from console.session import Session
    from screens.session_app import SessionApp

Key = tuple[str, str]
SLOW_DRAWING_SECONDS = 0.025  # seconds that drawing one picture may take at four a second
REST_FACTOR = 20
"""The pause after a slow drawing, as a multiple of its duration: large clusters then cost at most 5 % of the time."""
MAX_REST = 1.0
MIN_LISTING_REST = 0.25
"""Seconds that a pause between drawings may always last while the first lists arrive; later up to MAX_REST."""
LISTING_FACTOR = 10
"""Maximum pause between drawings while the first lists arrive, as a multiple of a drawing's duration."""

MAX_KEY_DELAY, MAX_KEY_DELAY_OF_SLOW, KEY_POLL_SECONDS = 0.5, 3.0, 0.02
"""Maximum seconds by which a key being handled delays a drawing; the same for slow drawings, which also wait for likely
keys; seconds between two checks for keys."""


def error_notice(error: ConsoleError, hint: str = "") -> EmptyNotice:
    """The notice in a table whose rows could not be read, with `hint`, else the error's own."""
    return EmptyNotice(error.message, hint or error.hint, "✗", "bad")


def error_spans(message: str) -> tuple[Span, ...]:
    return (Span("✗ ", "bad"), Span(sentence(message), "bad"))


class FilterInput(StillInput):
    """The input of a filter: Enter goes to the rows, Esc drops the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_filter(True)", "Clear filter", id="filter.drop"),
        Binding("enter,down", "screen.leave_filter(False)", "To the rows", id="filter.keep", key_display="⏎"),
    ]


class FilterLine(SearchLine):
    """The filter bar of a table, with the number of matching rows."""

    DEFAULT_CSS = "FilterLine { color: $foreground; & > .found { color: $ink-dim; } }"

    def __init__(self, table: ResourceTable[Any]) -> None:
        self.table = table
        words = FilterInput(table.filter_text, placeholder="words to keep, !word to drop")
        super().__init__(words, self._match_count_text)

    @property
    def _match_count_text(self) -> str:
        so_far = " so far" if self.table.listing.lacks_texts and self.table.filter_text else ""
        return f"{len(self.table.listing):,}{so_far} of {len(self.table.listing.rows):,}"

    def show_matches(self) -> None:
        self.show_found(self._match_count_text)


PROGRESS_POLL_SECONDS = 2.0  # seconds between two looks for jobs whose log may be looked at again
LAST_KEYS = {"pane.size": 3}  # bindings that stand behind the others of their page, and where
READ_CHECKPOINTS = "Read which checkpoints are complete: from the bucket, or by a few commands in pod 0"
WHAT_IF = Binding(
    "W",
    "what_if",
    "What if",
    show=False,
    key_display="W",
    id="table.whatif",
    tooltip="What would follow if this job were stopped, or of any other change",
)
ONLY_MINE = Binding("m,at", "mine", "Mine", id="table.mine", tooltip="Only what you launched, or everything again")


class PaintedOnceScreen(Screen[None], Backdrop):
    def _compositor_refresh(self) -> None:
        """Paint pending changes of widgets in this refresh too, which would otherwise need a second one."""
        known = self._compositor
        known.update_widgets({each for each in known.visible_widgets if each._repaint_regions})
        super()._compositor_refresh()


class LiveScreen(PaintedOnceScreen, inherit_bindings=False, metaclass=AbstractWidgetMeta):
    """A page that shows the app's snapshot: title line, body, key line."""

    if TYPE_CHECKING:
        app: getters.app[SessionApp]
    ESCAPE_TO_MINIMIZE = False
    VERTICAL_BREAKPOINTS = []  # noqa: RUF012 - as Textual declares it; dialogs alone look otherwise on a low terminal
    FIRST_KEYS: ClassVar[frozenset[str]] = frozenset()  # bindings that stand before those of the part in front

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape",
            "back",
            "Back",
            show=False,
            id="screen.back",
            key_display="esc",
            tooltip="Close the hint, drop the filter, then the marks, then go back",
        ),
        Binding("tab", "app.focus_next", "Next part", show=False, id="screen.next"),
        Binding("shift+tab", "app.focus_previous", "Previous part", show=False, id="screen.previous"),
        Binding("ctrl+c,super+c", "screen.copy_text", "Copy selected text", show=False, system=True, id="screen.copy"),
    ]
    CHANGES_CLUSTER: ClassVar[frozenset[str]] = frozenset()
    """Actions that change the cluster: in read-only mode they are gone from keys, key line and palette."""
    SHOWS: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By action that shows or hides a part: the page's CSS class while it is shown, and the label for hiding it."""
    KINDS: ClassVar[tuple[str, ...]] = ()  # kinds this screen stands on: its freshness is theirs
    ROW_PAGE: ClassVar[str] = ""  # name of the page that a row of a table opens, about that row

    SUBJECT: ClassVar[frozenset[str]] = frozenset({"context", "namespace"})
    """The objects that a person's own commands may refer to on this page, by the keys of `subject`."""

    OF_CLUSTER: ClassVar[bool] = False
    """Whether the page shows an object of one cluster; it then closes when the console switches to another cluster."""

    focused: reactive[Widget | None] = reactive(None, repaint=False)  # Textual paints all of the page anew
    trail_name = ""  # name of this page in the trail; empty on a main screen
    opened_from_more = False  # whether it was opened as one of the pages that are no tab, whatever was shown before
    _own_keys: Sequence[str] = ()  # of the person's own commands; nothing else here has them
    _opened_in_context = ""  # the cluster it was opened in, as soon as that is known
    _applied_config: LoadedConfig | None = None
    _offered: object = None  # what the keys that can be used depended on when they were shown
    _rested_at = 0.0
    _drawing_due = False
    _drawing_is_slow = False

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield from self.body()
        yield KeyBar()

    @abstractmethod
    def body(self) -> ComposeResult:
        """The widgets between title and key line."""

    def show_fleet(self, fleet: Fleet) -> None:
        """Show a snapshot of the cluster; pages without cluster data do not override this."""

    def in_chosen_namespace(self, rows: Mapping[Key, RowT]) -> Mapping[Key, RowT]:
        """The rows of the chosen namespace; all rows if none is chosen."""
        only = self.app.only_namespace
        return {key: row for key, row in rows.items() if key[0] == only} if only else rows

    def tick(self) -> None:
        for holder in self.walk_children(ToastHolder):
            if holder.is_mounted and not holder.children:
                holder.remove()  # Textual leaves it where a message was taken away, and it has a line of the page
        self._show_title()
        for table in self.walk_children(ResourceTable):
            if table.is_on_screen:
                table.repaint_changed()

    # life

    def on_mount(self) -> None:
        self.apply_config()
        self.bindings_updated_signal.subscribe(self, lambda _: self._show_keys())
        self._show_title()
        self.show_fleet(self.app.fleet)
        self.update_trouble()

    def update_keys(self, offered: object) -> None:
        """Redraw the key line if `offered`, on which the available keys depend, has changed."""
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def on_screen_suspend(self) -> None:
        # What is in front shows the messages; Textual shows the rack again on return.
        self.query(ToastRack).set(display=False)

    def on_screen_resume(self) -> None:
        """Show the current snapshot, which hidden pages do not follow; if slow, after the key is handled."""
        if self.is_mounted:
            (self.draw_latest_fleet if self._drawing_is_slow else self.draw_fleet)()
            self.update_trouble()
            if self._applied_config is not self.app.loaded:
                self.apply_config()
            self._show_keys()

    def draw_latest_fleet(self) -> None:
        """Draw the latest snapshot when keys allow it; a hidden page does so once it is shown."""
        if _is_in_sight(self) and not self._drawing_due:
            self._draw_between_keys(self._drawing_deadline())

    def _drawing_deadline(self) -> float:
        """The monotonic time by which the page is redrawn even while keys are handled."""
        return max(self._rested_at, monotonic()) + (MAX_KEY_DELAY_OF_SLOW if self._drawing_is_slow else MAX_KEY_DELAY)

    def _draw_between_keys(self, deadline: float) -> None:
        """Draw when the pause after the last drawing is over and no key is waiting, with a maximum delay."""
        now = monotonic()
        wait = self._rested_at - now
        keys = self.app.keys_likely if self._drawing_is_slow else self.app.is_handling_key
        if wait <= 0 and now < deadline and keys:
            wait = KEY_POLL_SECONDS
        if wait > 0 and _is_in_sight(self):
            self._draw_after_pause(wait, deadline)
        else:
            self._drawing_due = False
            self.draw_fleet()

    def _draw_after_pause(self, pause_seconds: float, deadline: float) -> None:
        self._drawing_due = True
        call_after(self, pause_seconds, partial(self._draw_between_keys, deadline))

    def draw_fleet(self) -> None:
        if not (_is_in_sight(self) and self.display):  # a page that is being removed has lost its widgets
            return
        here = self.app.session.context if self.app.connected else ""
        self._opened_in_context = self._opened_in_context or here
        if self.OF_CLUSTER and here not in {"", self._opened_in_context}:
            self.app.pop_screen()
            return
        start = thread_time()  # whatever else the machine does meanwhile
        self._show_title()
        for table in self.walk_children(ResourceTable):
            table.show_namespaces(not self.app.only_namespace)
        self.show_fleet(self.app.fleet)
        stale = any(link.state is WatchState.STALE for link in self.links(self.app.fleet))
        for part in self.walk_children(SnapshotText):
            part.stale = stale and part.has_class("of-snapshot")
        cost = thread_time() - start
        self._drawing_is_slow = cost > SLOW_DRAWING_SECONDS
        listing = any(link.state is WatchState.LISTING for link in self.links(self.app.fleet))
        rest = min(REST_FACTOR * cost, max(MIN_LISTING_REST, LISTING_FACTOR * cost) if listing else MAX_REST)
        behind = any(table.listing.is_behind for table in self.walk_children(ResourceTable))
        rest = cost if behind else rest if self._drawing_is_slow else 0.0
        self._rested_at = monotonic() + rest
        if behind and not self._drawing_due:
            self._draw_after_pause(rest, self._drawing_deadline())  # however short the rest: not within this call

    @work(group="jobs", exclusive=True)
    async def follow_jobs(self, jobs: Callable[[], Sequence[Key]], starts: Callable[[], bool] = lambda: True) -> None:
        """Read the progress of jobs and the forecasts of waiting ones at intervals while this page is in front."""
        while True:
            if self.is_active and self.app.connected:
                with suppress(Unreachable):  # the session was closed meanwhile, which the title says
                    news = await self.session.measures.progress_reader.update(jobs())
                    news |= starts() and await self.session.forecasts.poll()
                    if news and self.is_active:  # another page may be in front by now
                        self.show_fleet(self.app.fleet)
            await asyncio.sleep(PROGRESS_POLL_SECONDS)

    def apply_config(self) -> None:
        self._applied_config = self.app.loaded
        config = self._applied_config.config
        for table in self.walk_children(ResourceTable):
            if table.LIST:
                table.configure(config.lists.get(table.LIST, ListConfig()))
        for key in self._own_keys:
            del self._bindings.key_to_bindings[key]
        self._own_keys = own = []
        for number, command in own_commands(type(self), type(self.app), config):
            for key in keys_of(command.key):
                own.append(key)
                self._bindings.bind(key, f"app.own_command({number})", command.name)
        self.refresh_bindings()

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """Textual's bindings; none while the page is being opened or closed."""
        try:
            return super().active_bindings
        except NoMatches:
            return {}

    @property
    def present_subject(self) -> dict[str, str]:
        """The value of `subject`; empty while the page is being opened or closed."""
        try:
            return self.subject()
        except NoMatches:
            return {}

    def subject(self) -> dict[str, str]:
        """The objects for the person's own commands: job, pod, node, namespace, context; empty texts for none."""
        session = self.app.session if self.app.connected else None
        namespace = self.app.only_namespace or (session.namespace if session else "")
        return {"context": session.context if session else "", "namespace": namespace}

    def update_trouble(self) -> None:
        error = self.app.trouble
        notice = error_notice(error, error.hint or "ctrl+r tries again.") if error else None
        for table in self.walk_children(ResourceTable):
            table.show_trouble(notice)
        self._show_title()

    def _show_title(self) -> None:
        app, session = self.app, self.app.session if self.app.connected else None
        launching = app.current_mode == "launch"  # where launches go matters there, not what lists show
        pages = [page for page in app.screen_stack if isinstance(page, LiveScreen) and page.trail_name]
        first = max((at for at, page in enumerate(pages) if page.opened_from_more), default=-1)
        title = TitleContents(
            tabs=(*app.TABS, ("more", "0", "More")),
            open_mode=app.current_mode if first < 0 else "more",
            trail=tuple(page.trail_name for page in pages[max(first, 0) :]),
            cluster=session.context if session else app.settings.context,
            namespace=session.namespace if session and launching else app.only_namespace or ALL_NAMESPACES,
            narrowed=bool(app.only_namespace),
            practice=app.settings.practice,
            read_only=app.settings.read_only,
            unverified=app.connected and app.session.watch.unverified,
            links=self.links(app.fleet),
            trouble=app.trouble.message if app.trouble else "",
            alarms=_count_alarms(app),
        )
        for bar in self.children:  # none: the program is closing, and a last tick still comes
            if isinstance(bar, TitleBar):
                bar.title = title
                bar.tick()

    def links(self, fleet: Fleet) -> tuple[WatchStatus, ...]:
        return tuple(fleet.links[kind] for kind in self.KINDS or fleet.links if kind in fleet.links)

    def _show_keys(self) -> None:
        # First those of lines that are read; then those of the part of the screen that is in front, such as a tab;
        # then the page's, then the table's.
        order: dict[object, int] = {self: 1, self.focused: 2}
        seen: dict[str, tuple[float, KeyHint]] = {}
        for active in self.active_bindings.values():
            binding = active.binding
            if binding.show and (verb := verb_of(active)) and active.enabled and binding.action not in seen:
                keys, last = self.app.get_key_display(binding), active.node is self.app
                hint = KeyHint(keys, verb, binding.action, is_last=last)
                reading = (
                    READING_SETTINGS.index(binding.id) - len(READING_SETTINGS) if binding.id in READING_SETTINGS else 0
                )
                place = -0.5 if binding.id in self.FIRST_KEYS else order.get(active.node, 0)
                place = LAST_KEYS.get(binding.id or "", place)
                seen[binding.action] = (reading or place, hint)
        ranked = sorted(seen.values(), key=lambda pair: pair[0])
        self.query_one(KeyBar).hints = tuple(hint for _, hint in ranked)
        typed_in = self.focused
        self.query_one(TitleBar).digits_are_text = typed_in is not None and typed_in.check_consume_key("1", "1")

    # asking the cluster

    @property
    def session(self) -> Session:
        return self.app.session

    def bandwidth_of_nodes(self) -> Mapping[str, NodeBandwidth]:
        """Each node's bandwidth in its latest tests; empty without a session."""
        return self.session.measures.bandwidth_by_node() if self.app.connected else {}

    @contextmanager
    def report_errors(self, subject: str) -> Iterator[None]:
        """Show a ConsoleError of the block as a notification with the title `subject`; other exceptions pass."""
        try:
            yield
        except ConsoleError as error:
            self.notify(f"{error.message} {error.hint}".strip(), title=subject, severity="error", timeout=8)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in self.CHANGES_CLUSTER and self.app.settings.read_only:
            return False
        return bool(not self.is_mounted or self.offers().get(action, True))

    def hides(self) -> dict[str, str]:
        """By action the label for hiding the part that it shows now."""
        return {action: verb for action, (shown, verb) in self.SHOWS.items() if self.has_class(shown)}

    def offers(self) -> dict[str, object]:
        """By action whether it is available now; actions that are always available are left out."""
        return {}

    def on_key(self, event: events.Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if binding.action in self.CHANGES_CLUSTER and self.app.settings.read_only:
                event.stop()
                self.notify(f"read-only: {binding.description} is off.", severity="warning", timeout=3)

    def copy(self, texts: Sequence[str], plural_name: str = "") -> None:
        """Copy texts to the clipboard (OSC 52), one per line; `plural_name` names more than one of them."""
        self.app.copy_to_clipboard("\n".join(texts))
        copied = texts[0] if len(texts) == 1 else f"{len(texts):,} {plural_name}"
        self.notify(f"Copied {copied}.", timeout=2)

    def help_about(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The title and lines that help shows above the keys; empty for most pages."""
        return "", ()

    # filters

    async def action_filter_rows(self) -> None:
        """Show the filter bar for the focused table and focus it."""
        if isinstance(self.focused, ResourceTable):
            await self._show_filter(self.focused)
            self.set_focus(self.query(FilterInput).last())

    def _show_filter(self, table: ResourceTable[Any]) -> AwaitMount:
        self.query(FilterLine).remove()
        table.prepare_search_texts()
        return self.mount(FilterLine(table))

    def on_input_changed(self, event: Input.Changed) -> None:
        if isinstance(event.input, FilterInput):
            event.stop()
            if event.input is self.focused:  # else it tells of letters typed before the line was left
                self.query(FilterLine).last().table.filter_by(event.value)

    @on(ResourceTable.Opened)
    def _open_row(self, event: ResourceTable.Opened) -> None:
        if self.ROW_PAGE:
            self.app.open_page(self.ROW_PAGE, *event.key)

    @on(ResourceTable.Changed)
    def _count_filtered(self, event: ResourceTable.Changed) -> None:
        for filter_line in self.query(FilterLine):
            if event.table is filter_line.table:
                filter_line.show_matches()

    def action_mine(self) -> None:
        table = self.focused
        if not isinstance(table, ResourceTable):
            return
        if table.filter_text == MINE_MARK:
            self.drop_filter(table)
        else:
            table.filter_by(MINE_MARK)
            self._show_filter(table)

    def show_filter_of(self, widget: Widget) -> None:
        """Show the filter bar of a table in that part of the page, and hide others."""
        self.query(FilterLine).remove()
        for table in widget.query(ResourceTable):
            if table.filter_text:
                self._show_filter(table)
                break

    def action_leave_filter(self, drops_filter: bool) -> None:
        """Go back to the rows, keeping or dropping the filter."""
        table = self.query(FilterLine).last().table  # `query_one` would keep the line after its end
        if not drops_filter:  # the last letters' own message may still be on its way
            table.filter_by(self.query(FilterInput).last().value)
        self.set_focus(table)
        if drops_filter or not table.filter_text:
            self.drop_filter(table)

    def drop_filter(self, table: ResourceTable[Any]) -> None:
        table.filter_by("")
        self.query(FilterLine).remove()

    # the way back, hints and tabs

    def action_back(self) -> None:
        """Close the hint, the filter, then the marks; with none of them, close the page."""
        table = self.focused if isinstance(self.focused, ResourceTable) else None
        if table is not None and (table.filter_text or table.marks):
            if table.filter_text:
                self.drop_filter(table)
            else:
                table.clear_marks()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def action_run_hint(self, action: str) -> None:
        node = next((each.node for each in self.active_bindings.values() if each.binding.action == action), None)
        if node is not None:
            self.call_later(self.app.run_action, action, node)

    def action_open_tab(self, mode: str) -> None:
        if mode == "more":
            self.app.call_later(self.app.run_action, "app.more")
        else:
            self.app.call_later(self.app.action_switch_mode, mode)  # it may end this very screen


def _is_in_sight(page: LiveScreen) -> bool:
    """Whether the page is visible: in front, or below a dialog only. Textual counts any covered page as visible."""
    return page.is_active or (page.is_current and page.app.screen.styles.background.a < 1)


def _count_alarms(app: SessionApp) -> int:
    """The number of jobs with an alarm in the namespaces that are shown."""
    if not (app.connected and app.session.jobs.alarms is not None):
        return 0
    alarms = alarms_of_session(app.session, app.fleet, app.only_namespace)
    jobs = {(each.namespace, each.job) for each in alarms if each.is_active}
    shown = (job for key in jobs if (job := app.fleet.jobsets.get(key)) is not None)
    return sum(not job.finished and app.only_namespace in {"", job.namespace} for job in shown)
