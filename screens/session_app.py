"""The base of the console's app as its pages use it: the session, the snapshot, and the way to other pages.

Data enters at one place, `SessionApp.follow_store`, and flows down: app -> screen.show_fleet -> widgets. What a person
asks for goes to the session, and what comes of it returns with the next snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from msgspec import structs
from textual import work
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import WorkerFailed

from console.connection_settings import Settings
from console.errors import ConsoleError, Unreachable
from console.kube.snapshot import Fleet, WatchState
from console.metrics.apprise_messages import AlarmOutbox
from console.settings_file import MIN_REFRESH_SECONDS, LoadedConfig, PaneSize, load_config
from screens.key_ordered_app import STRAY_WITHIN, KeyOrderedApp
from screens.wording import JobColors, owner_words

if TYPE_CHECKING:
    from console.google.services import GoogleServices
    from console.session import Session
    from screens.widgets.form.form_model import LaunchRequest


Connect = Callable[[], Awaitable["Session"]]
PAGE_MODULES = {"pod": "pods", "run": "runs", "bucket": "storage", "build": "images", "pool": "nodepools"}


def make_page(page: str, *page_argument: object) -> Screen[Any]:
    """A new screen by its page's name; the module is imported when first needed."""
    module = import_module(f"screens.pages.{PAGE_MODULES.get(page, page)}")
    screen: Screen[Any] = getattr(module, f"{page.title().replace('_', '')}Screen")(*page_argument)
    return screen


@runtime_checkable
class LivePage(Protocol):
    """A page that follows the app's snapshot and settings."""

    def draw_latest_fleet(self) -> None: ...
    def update_trouble(self) -> None: ...
    def apply_config(self) -> None: ...


def keep_last_known(last_fleet: Fleet, fresh: Fleet) -> Fleet:
    """The fresh snapshot, completed from the last one by the kinds that the new connection has not listed."""
    if not last_fleet.links or any(link.last_seen for link in fresh.links.values()):
        return fresh
    links = {
        kind: structs.replace(link, state=WatchState.STALE, since=link.last_seen, why=fresh.links.get(kind, link).why)
        if link.state is WatchState.LIVE
        else link
        for kind, link in last_fleet.links.items()
    }
    return structs.replace(last_fleet, at=fresh.at, links=links)


class SessionApp(KeyOrderedApp):
    TABS: ClassVar[tuple[tuple[str, str, str], ...]] = ()  # the main screens: mode, key, name

    fleet: reactive[Fleet] = reactive(Fleet, init=False, always_update=True, repaint=False)
    """The latest snapshot; only `follow_store` assigns it."""
    trouble: reactive[ConsoleError | None] = reactive(None, init=False)
    """The error that prevents a session; None with a session, and while one is being opened."""
    loaded: reactive[LoadedConfig] = reactive(load_config, init=False)
    """The person's settings; changes of the file are applied while the console runs."""

    def __init__(self, settings: Settings, pane_size: PaneSize, connect: Connect) -> None:
        super().__init__()
        self.settings, self._connect = settings, connect
        self._known_context = ""  # of the last session
        self._session: Session | None = None
        self._google_alone: GoogleServices | None = None
        self.only_namespace = settings.namespace
        """The namespace whose jobs, pods and workloads are listed; empty: all."""
        self.launched: tuple[str, str] | None = None
        """(namespace, name) of the job launched last, until the list of jobs has put its cursor there; else None."""
        self.launch_request: LaunchRequest | None = None
        """The recipe and values with which the launch form is to open; None once it has used them."""
        self.pane_size = pane_size  # of the panes beside lists, see `screens.list_and_pane`
        self._job_styles = JobColors()
        self._styled_jobsets: object = None  # the snapshot's jobs when colours were last released
        self.recent_commands: list[str] = []  # chosen in the palette, the last one first
        self.outbox = AlarmOutbox()

    def write_to_terminal(self, text: str) -> None:
        """Write control codes to the terminal, if there is one, as Textual does for its bell."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(text)
            self._driver.flush()

    def close_alarms(self, title: str) -> None:
        """Close the alarm toasts whose text begins with `title`."""
        for each in [each for each in self._notifications if each.message.startswith(title)]:
            self._unnotify(each)  # Textual's own toasts go this way; there is no other for one of several

    def format_owner(self, owner: str) -> str:
        """The owner as shown: "you" for what this person launched."""
        return self.session.watch.format_owner(owner) if self.connected else owner

    def owner_words(self, namespace: str, job: str) -> str:
        """The owner of a job as text for filters; empty for a job that is not in the snapshot."""
        jobset = self.fleet.jobsets.get((namespace, job))
        return owner_words(self.format_owner(jobset.owner), jobset.owner) if jobset is not None else ""

    @property
    def session(self) -> Session:
        """The session. Raises Unreachable while none is open."""
        if self._session is None:
            why = self.trouble.message if self.trouble else "The cluster is not connected yet."
            hint = self.trouble.hint if self.trouble else ""
            raise Unreachable(why, hint or "Try again in a moment, or press ctrl+r to reconnect.")
        return self._session

    @property
    def without_cluster(self) -> bool:
        """Whether there is no cluster to connect to; Google is then asked with the login's credentials alone."""
        return self._session is None and self.trouble is not None and not self.settings.practice

    @property
    def google(self) -> GoogleServices:
        """Google Cloud for the cluster or for the login alone. Raises Unreachable while connecting."""
        if not self.without_cluster:
            return self.session.google
        if self._google_alone is None:
            from console.google.services import GoogleServices

            self._google_alone = GoogleServices(read_only=self.settings.read_only)
        return self._google_alone

    @property
    def connected(self) -> bool:
        """Whether a session is open, even if the server does not answer."""
        return self._session is not None

    def known_namespaces(self) -> list[str]:
        """The session's own namespace and those of jobs, pods and local queues, sorted."""
        kinds, own = (self.fleet.pods, self.fleet.jobsets, self.fleet.local_queues), self._session
        return sorted({space for kind in kinds for space, _ in kind} | ({own.namespace} if own else set()))

    @property
    def connection(self) -> object | None:
        """The current connection, replaced by each reconnection and switch; None without one."""
        try:
            return self.session.watch.current_connection
        except Unreachable:
            return None

    def _handle_exception(self, error: Exception) -> None:
        """Ignore workers that fail because their session was closed meanwhile."""
        if not (isinstance(error, WorkerFailed) and isinstance(error.error, Unreachable) and not self.connected):
            super()._handle_exception(error)

    @work(group="store", exclusive=True)
    async def follow_store(self) -> None:
        """Open a session and show its snapshots; the only place where data enters the screens."""
        self.trouble = None
        await self._close_session()
        try:
            session = await self._connect()
        except ConsoleError as error:
            self.trouble = error
            return
        self._session = session
        self.refresh_bindings()
        known, self._known_context = self.fleet if session.context == self._known_context else Fleet(), session.context
        async for fleet in session.watch.snapshots():
            self.fleet = keep_last_known(known, fleet)
            await asyncio.sleep(self.loaded.config.refresh - MIN_REFRESH_SECONDS)

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def job_style(self, uid: str) -> str:
        """The colour of a job, the same on every screen; jobs share colours only if there are too many."""
        return self._job_styles.of(uid)

    # The app watches, not its pages: Textual keeps a page's watcher, with the closed page, until the value changes.

    def live_pages(self) -> list[LivePage]:
        """The pages that are open in this mode; pages of other modes are brought up to date when shown."""
        return [each for each in self.screen_stack if isinstance(each, LivePage) and each.is_mounted]

    def watch_fleet(self) -> None:
        """Release the colours of jobs that have gone, and have the pages draw the snapshot."""
        if self.fleet.jobsets is not self._styled_jobsets:
            self._styled_jobsets = self.fleet.jobsets
            self._job_styles.keep_only({each.uid for each in self.fleet.jobsets.values() if not each.finished})
        for page in self.live_pages():
            page.draw_latest_fleet()

    def watch_trouble(self) -> None:
        for page in self.live_pages():
            page.update_trouble()

    def open_page(self, page: str, *page_argument: object) -> None:
        self.push_screen(make_page(page, *page_argument))

    async def go_to_page(self, page: str, *page_argument: object) -> None:
        """Open a page; an open page of the same kind is closed first, with all pages opened from it."""
        opened = make_page(page, *page_argument)
        before = [type(each) for each in self.screen_stack]
        if type(opened) in before:
            for _ in before[before.index(type(opened)) :]:
                await self.pop_screen()
        self.push_screen(opened)

    def open_launch(self, launch_request: LaunchRequest) -> None:
        self.launch_request = launch_request
        self.no_letters_until = monotonic() + STRAY_WITHIN
        self.switch_mode("launch")
        while len(self.screen_stack) > 1:
            self.pop_screen()  # a page that was opened from the form stands before it
