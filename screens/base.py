"""LiveApp holds the snapshot of the cluster; LiveScreen draws it while it is on top.

State enters at one place, `LiveApp.follow_store`, and flows down: app -> screen.show_fleet -> widgets. What a person
asks for goes to the session, and what comes of it returns with the next snapshot.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, getters, on, work
from textual.binding import Binding, BindingType
from textual.reactive import reactive

from console.errors import ConsoleError, Unreachable
from console.kube.snapshot import Fleet, LinkState
from console.metrics.alarm_rules import GLYPH
from screens.filtering import FilteredScreen
from screens.typing_ahead import OrderedApp
from screens.widgets.base import Abstract
from screens.widgets.key_bar import READING, KeyBar, KeyHint
from screens.widgets.table.empty_state import Notice
from screens.widgets.table.table import ResourceTable
from screens.widgets.title_bar import Title, TitleBar
from screens.wording import JobColors, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from textual.app import ComposeResult
    from textual.notifications import Notification, SeverityLevel
    from textual.screen import Screen

    from console.kube.snapshot import Link
    from console.launch.recipes import LaunchPlan
    from console.metrics.nccl.history import NodeBandwidth
    from console.session import GoogleAlone, Session
    from console.settings import Settings
    from screens.widgets.form.launch_draft import LaunchRequest
    from screens.widgets.table.column import RowT

Key = tuple[str, str]
ALL_NAMESPACES = "all namespaces"
TICK = 1.0  # seconds between repaints of what ages by itself
SLOW = 0.025  # seconds that drawing one picture may take at four a second
REST = 20
"""After a slower one, this many times as long goes to keys before the next: large clusters cost no more than 5 %."""
LONGEST_REST = 1.0
FIRST_REST = 0.25
"""The longest rest, in seconds; the second while the first lists come in, when everybody watches the rows arrive."""
LISTING_SHARE = 6
"""Where drawing the rows that have arrived is slow, the list goes on for this many times as long before the next."""


class LiveApp(OrderedApp):
    """An app over one session."""

    fleet: reactive[Fleet] = reactive(Fleet, init=False, always_update=True, repaint=False)
    """The latest picture; only `follow_store` assigns it."""
    trouble: reactive[ConsoleError | None] = reactive(None, init=False)
    """Why there is no session; None while there is one or one is being opened."""

    TABS: ClassVar[tuple[tuple[str, str, str], ...]] = ()  # mode, key and name of each main screen
    PAGES: ClassVar[Mapping[str, Callable[..., Screen[Any]]]] = {}
    """What makes each page that is opened by name ("pod", "node", "job", …), from what it is about."""

    def __init__(self, settings: Settings, connect: Callable[[], Awaitable[Session]]) -> None:
        super().__init__()
        self.settings = settings
        self._connect = connect
        self._session: Session | None = None
        self._alone: GoogleAlone | None = None
        self.only_namespace = ""
        """Namespace that lists of jobs, pods and workloads are narrowed to; empty: all."""
        self.launched: tuple[str, str] | None = None
        """The job launched last, until the list of jobs has put its cursor there."""
        self.launch_wish: LaunchRequest | None = None
        """What the form of the launch screen is to begin from, until it has taken it."""
        self._job_inks = JobColors()

    async def on_event(self, event: events.Event) -> None:
        """A key is answered before what the cluster sends at the same time."""
        if isinstance(event, events.Key) and self._session is not None:
            self._session.yield_to_key()
        await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A toast; what it says may come from a cluster, so it is cleaned and never read as markup."""
        clean = "\n".join(map(one_line, message.split("\n")))
        super().notify(clean, title=one_line(title), severity=severity, timeout=timeout, markup=False)

    def alarms_in_corner(self) -> list[Notification]:
        return [each for each in self._notifications if each.title.startswith(GLYPH)]

    def close_alarms(self) -> bool:
        """Take the toasts of alarms away; whether there were any."""
        shown = self.alarms_in_corner()
        for each in shown:
            self._unnotify(each)  # Textual's own toasts go this way; there is no other for one of several
        return bool(shown)

    def whose(self, owner: str) -> str:
        """The owner of something in a word: "you" for what whoever looks has launched."""
        return self.session.whose(owner) if self.connected else owner

    @property
    def session(self) -> Session:
        """The session; Unreachable while none is open."""
        if self._session is None:
            why = self.trouble.message if self.trouble else "The cluster is not connected yet."
            hint = self.trouble.hint if self.trouble else ""
            raise Unreachable(why, hint or "Try again in a moment, or press ctrl+r to reconnect.")
        return self._session

    @property
    def without_cluster(self) -> bool:
        """Whether there is no cluster to be connected to, so that Google is asked by the login alone."""
        return self._session is None and self.trouble is not None and not self.settings.practice

    @property
    def google(self) -> Session | GoogleAlone:
        """What Google does, around the cluster or without one; Unreachable while one is being connected."""
        if not self.without_cluster:
            return self.session
        if self._alone is None:
            from console.session import google_alone

            self._alone = google_alone(read_only=self.settings.read_only)
        return self._alone

    @property
    def connected(self) -> bool:
        """Whether a session is open (the server may still be away)."""
        return self._session is not None

    @property
    def connection(self) -> object | None:
        """What reaches the cluster of now, another one after each reconnect and switch; None while nothing does."""
        try:
            return self.session.connected
        except Unreachable:
            return None

    def on_mount(self) -> None:
        """Connect only once something is on the screen: the Kubernetes client takes half a second to import."""
        self.call_after_refresh(self.follow_store)
        self.set_interval(TICK, self.tick)

    @work(group="store", exclusive=True)
    async def follow_store(self) -> None:
        """Open a session and show its pictures: the only place where state enters the screens."""
        self.trouble = None
        await self._leave()
        try:
            session = await self._connect()
        except ConsoleError as error:
            self.trouble = error
            return
        self._session = session
        self.refresh_bindings()
        async for fleet in session.snapshots():
            self.fleet = fleet

    def job_ink(self, uid: str) -> str:
        """The ink of a job, the same on every screen; those that are drawn share inks only when there are too many."""
        return self._job_inks.of(uid)

    def watch_fleet(self) -> None:
        """Jobs may have come or gone."""
        self._job_inks.keep({each.uid for each in self.fleet.jobsets.values() if not each.finished})

    def open_page(self, page: str, *about: str) -> None:
        self.push_screen(self.PAGES[page](*about))

    def action_open_page(self, page: str) -> None:
        """A page about no object, by a key."""
        self.open_page(page)

    def open_launch(self, wish: LaunchRequest) -> None:
        """Open the launch screen with these values in its form."""
        self.launch_wish = wish
        self.switch_mode("launch")
        while len(self.screen_stack) > 1:
            self.pop_screen()  # a page that was opened from the form stands before it

    async def close_pages(self) -> None:
        """Close the pages over the main screen that is open."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    def open_preflight(self, plan: LaunchPlan) -> None:
        self.push_screen(self.PAGES["preflight"](plan))

    async def action_reconnect(self) -> None:
        """Close the session and open a new one; what is shown stays until the first new picture."""
        self.follow_store()

    async def action_quit(self) -> None:
        self.workers.cancel_all()
        await self._leave()
        if self._alone is not None:
            await self._alone.close()
        self.exit(0)

    async def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def tick(self) -> None:
        """Once a second: repaint what ages by itself."""
        if self.is_running:  # a last tick may come while the screens are being taken away
            self.draw_between_keys("ages", self._draw_ages)

    def _draw_ages(self) -> None:
        if isinstance(self.screen, LiveScreen) and self.screen.is_mounted:
            self.screen.tick()


class LiveScreen(FilteredScreen, inherit_bindings=False, metaclass=Abstract):
    """A screen that shows the app's picture: title line, body, key line."""

    app = getters.app(LiveApp)
    ESCAPE_TO_MINIMIZE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, id="screen.back", key_display="esc",
                tooltip="Close the alarm in the corner, drop the filter, then the marks, then go back"),
        Binding("tab", "app.focus_next", "Next part", show=False, id="screen.next"),
        Binding("shift+tab", "app.focus_previous", "Previous part", show=False, id="screen.previous"),
        Binding("ctrl+c,super+c", "screen.copy_text", "Copy selected text", show=False, system=True, id="screen.copy"),
    ]  # fmt: skip
    CHANGES_CLUSTER: ClassVar[frozenset[str]] = frozenset()
    """Actions that change the cluster: in read-only mode they are gone from keys, key line and palette."""
    KINDS: ClassVar[tuple[str, ...]] = ()  # kinds this screen stands on: its freshness is theirs

    OF_CLUSTER: ClassVar[bool] = False
    """Whether it is about an object of the cluster it was opened in: it closes once the console is in another one."""

    _opened_in = ""  # the cluster it was opened in, as soon as that is known
    _rested_at = 0.0
    _drawing_due = False

    @property
    def crumb(self) -> str:
        """Name of this page in the trail; empty on a main screen."""
        return ""

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield from self.body()
        yield KeyBar()

    @abstractmethod
    def body(self) -> ComposeResult:
        """What is between the lines."""

    def show_fleet(self, fleet: Fleet) -> None:
        """Draw that picture; a screen of which nothing comes from the cluster leaves this as it is."""

    def narrowed(self, rows: Mapping[Key, RowT]) -> Mapping[Key, RowT]:
        """Those of the namespace that was picked; all of them if none was."""
        only = self.app.only_namespace
        return {key: row for key, row in rows.items() if key[0] == only} if only else rows

    def tick(self) -> None:
        """Once a second: repaint what ages by itself."""
        self._show_title()
        for table in self.query(ResourceTable):
            table.repaint_changed()

    # life

    def on_mount(self) -> None:
        self.watch(self.app, "fleet", self._fleet_changed, init=False)
        self.watch(self.app, "trouble", self._trouble_changed, init=False)
        self.bindings_updated_signal.subscribe(self, lambda _: self._show_keys())
        self._show_title()
        self.show_fleet(self.app.fleet)
        self._trouble_changed()

    def on_screen_resume(self) -> None:
        """Draw the present picture: hidden screens do not follow."""
        if self.is_mounted:
            self._draw_fleet()
            self._trouble_changed()
            self._show_keys()

    def _fleet_changed(self) -> None:
        if not self.is_current:
            return
        wait = self._rested_at - monotonic()
        if wait <= 0:
            self._draw_fleet()
        elif not self._drawing_due:
            self._drawing_due = True
            self.set_timer(wait, self._draw_fleet)

    def _draw_fleet(self) -> None:
        self._drawing_due = False
        if not self.is_current:
            return
        here = self.app.session.context if self.app.connected else ""
        self._opened_in = self._opened_in or here
        if self.OF_CLUSTER and here not in {"", self._opened_in}:
            self.app.pop_screen()
            return
        start = monotonic()
        self._show_title()
        self.show_fleet(self.app.fleet)
        cost = monotonic() - start
        listing = any(link.state is LinkState.LISTING for link in self.links(self.app.fleet))
        rest = min(REST * cost, max(FIRST_REST, LISTING_SHARE * cost) if listing else LONGEST_REST)
        self._rested_at = monotonic() + (rest if cost > SLOW else 0.0)

    def _trouble_changed(self) -> None:
        error = self.app.trouble
        notice = Notice(error.message, error.hint or "ctrl+r tries again.", "✗", "bad") if error else None
        for table in self.query(ResourceTable):
            table.show_trouble(notice)
        self._show_title()

    def _show_title(self) -> None:
        app, session = self.app, self.app.session if self.app.connected else None
        launching = app.current_mode == "launch"  # where launches go matters there, not what lists show
        title = Title(
            tabs=app.TABS,
            here=app.current_mode,
            trail=tuple(page.crumb for page in app.screen_stack if isinstance(page, LiveScreen) and page.crumb),
            cluster=session.context if session else app.settings.context,
            namespace=session.namespace if session and launching else app.only_namespace or ALL_NAMESPACES,
            narrowed=bool(app.only_namespace),
            practice=app.settings.practice,
            read_only=app.settings.read_only,
            unverified=app.connected and app.session.unverified,
            links=self.links(app.fleet),
            trouble=app.trouble.message if app.trouble else "",
        )
        for bar in self.query(TitleBar):  # none: the program is closing, and a last tick still comes
            bar.title = title
            bar.tick()

    def links(self, fleet: Fleet) -> tuple[Link, ...]:
        """States of the watches this screen stands on."""
        return tuple(fleet.links[kind] for kind in self.KINDS or fleet.links if kind in fleet.links)

    def _show_keys(self) -> None:
        # First those of lines that are read; then those of the part of the screen that is in front, such as a tab;
        # then the page's, then the table's.
        order: dict[object, int] = {self: 1, self.focused: 2}
        seen: dict[str, tuple[int, KeyHint]] = {}
        for active in self.active_bindings.values():
            binding = active.binding
            if binding.show and binding.description and active.enabled and binding.action not in seen:
                hint = KeyHint(self.app.get_key_display(binding), binding.description, binding.action,
                               last=active.node is self.app)  # fmt: skip
                reading = READING.index(binding.id) - len(READING) if binding.id in READING else 0
                seen[binding.action] = (reading or order.get(active.node, 0), hint)
        ranked = sorted(seen.values(), key=lambda pair: pair[0])
        self.query_one(KeyBar).hints = tuple(hint for _, hint in ranked)

    # asking the cluster

    @property
    def session(self) -> Session:
        """The session; Unreachable while none is open."""
        return self.app.session

    def bandwidth_of_nodes(self) -> Mapping[str, NodeBandwidth]:
        """That of their latest tests; nothing while no session is open."""
        return self.session.measures.nodes() if self.app.connected else {}

    @contextmanager
    def report_errors(self, what: str) -> Iterator[None]:
        """Run what may fail; a failure is told as `what`, why, and what to do next. Anything else is a bug."""
        try:
            yield
        except ConsoleError as error:
            self.notify(f"{error.message} {error.hint}".strip(), title=what, severity="error", timeout=8, markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No key for what must not be done."""
        if action in self.CHANGES_CLUSTER and self.app.settings.read_only:
            return False
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        """Say why a key that would change the cluster does nothing in read-only mode."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if binding.action in self.CHANGES_CLUSTER and self.app.settings.read_only:
                event.stop()
                self.notify(f"read-only: {binding.description} is off.", severity="warning", timeout=3, markup=False)

    def help_about(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What help tells before the keys: a title and lines of it; none for most screens."""
        return "", ()

    # the way back, hints and tabs

    def action_back(self) -> None:
        """Close the toasts of alarms, then drop the filter, then the marks; with none of them, close the page."""
        if self.app.close_alarms():
            return
        table = self.focused if isinstance(self.focused, ResourceTable) else None
        if table is not None and (table.filter_text or table.marks):
            if table.filter_text:
                self.drop_filter(table)
            else:
                table.clear_marks()
        elif len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    @on(KeyBar.Picked)
    async def _run_hint(self, event: KeyBar.Picked) -> None:
        event.stop()
        for active in self.active_bindings.values():
            if active.binding.action == event.action:
                await self.app.run_action(event.action, active.node)
                return

    @on(TitleBar.TabPicked)
    def _pick_tab(self, event: TitleBar.TabPicked) -> None:
        event.stop()
        self.app.call_later(self.app.action_switch_mode, event.mode)  # it may end this very screen
