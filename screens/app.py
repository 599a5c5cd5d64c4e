"""The app: its pages, global keys and theme."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.screen import Screen

from console.connection_settings import Settings
from console.errors import BadInput
from console.settings_file import LoadedConfig, OwnCommand, config_mtime, load_config
from screens import pages
from screens.alarm_toasts import LOW_TERMINAL_LINES, AlarmNotifier, StartNotifier, notify_new_alarms, notify_starts
from screens.apply_settings import all_problems, fill_in, has_objects, known_names, theme_names, themes_of, usable_keys
from screens.columns.tunnels import ports_cell
from screens.dialogs.question import Confirm, Pick, PickEntry
from screens.key_ordered_app import GC_SECONDS, KEY_PAUSE_SECONDS, collect_between_keys, terminal_has_hung_up
from screens.live_screen import LiveScreen
from screens.palette import PAGE_TARGETS as TARGETS, ActiveBindings, Palette, PaletteTargets, title_of
from screens.session_app import Connect, SessionApp, make_page
from screens.theme import DARK, LIGHT
from screens.wording import ALL_NAMESPACES

if TYPE_CHECKING:
    from console.session import Session
    from practice.child import PracticeProcess


BAD_SETTINGS_TITLE = "Settings that do not hold"
TICK_SECONDS = 1.0  # seconds between repaints of what ages by itself
PAGES_WITHOUT_TAB = ("alarms", "preflight", "images", "storage", "nodepools")
"""Names of the pages that have no tab and are opened by a key or the palette."""
PAGE_KEYS = tuple(
    Binding(key, f"open_page('{name}')", title, show=False, key_display=key, id=f"app.{name}", tooltip=tooltip)
    for name, key, title, tooltip in (
        ("alarms", "A", "Alarms", "The last alarms of all jobs that are watched"),
        ("preflight", "P", "Preflight", "What a launch needs of cluster and project, checked together"),
        ("images", "I", "Images and builds", "Image builds as they run, and what the registries hold"),
        (
            "storage",
            "B",
            "Buckets and storage",
            "Buckets, Lustre and Filestore around the cluster; results and checkpoints in buckets",
        ),
    )
)


def _session_class() -> type[Session]:
    from console.kube.watched_cluster import WatchedCluster
    from console.session import Session

    WatchedCluster.prepare()
    for needed_at_once in ("console.launch.service", "console.attach.ssh.ssh_setup"):
        import_module(needed_at_once)
    return Session


class ConsoleApp(SessionApp):
    TITLE = "a4"
    CSS_PATH = "app.tcss"
    TABS = (
        ("fleet", "1", "Fleet"),
        ("queues", "2", "Queues"),
        ("jobs", "3", "Jobs"),
        ("pods", "4", "Pods"),
        ("launch", "5", "Launch"),
        ("runs", "6", "Runs"),
        ("tunnels", "7", "Tunnels"),
    )
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {mode: partial(make_page, mode) for mode, *_ in TABS}
    DEFAULT_MODE = "fleet"
    VERTICAL_BREAKPOINTS = [(0, "-low-terminal"), (LOW_TERMINAL_LINES, "-high-terminal")]  # noqa: RUF012 - as Textual declares it
    COMMANDS: ClassVar[set[Any]] = {ActiveBindings, PaletteTargets}
    PALETTE = Palette
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"switch_mode('{mode}')", name, show=False, id=f"app.{mode}",
                  tooltip="from anywhere; what was opened from there is closed") for mode, key, name in TABS),
        Binding("0", "more", "More", show=False, id="app.more", tooltip="The pages that are no tab"),
        Binding("question_mark,f1", "help", "Help", id="app.help",
                tooltip="All keys that work here, and the field under the cursor; f1 where letters are typed"),
        Binding("colon", "command_palette", "Commands", key_display=":", id="app.commands",
                tooltip="Find a command by name"),
        Binding("t", "theme", "Light or dark", show=False, id="app.theme",
                tooltip="The light or the dark theme; config.toml names others"),
        Binding("C", "pick('context')", "Switch context", show=False, key_display="C", id="app.context",
                tooltip="Another cluster of the kubeconfig"),
        *PAGE_KEYS,
        Binding("N", "pick('namespace')", "Switch namespace", show=False, key_display="N", id="app.namespace",
                tooltip="Lists of one namespace, or of all"),
        Binding("ctrl+r", "reconnect", "Reconnect", show=False, id="app.reconnect",
                tooltip="Connect to the cluster anew"),
        Binding("q", "quit", "Quit", show=False, id="app.quit",
                tooltip="Leave the console; jobs go on. Asks where a tunnel ends with it"),
        Binding("ctrl+z", "suspend_process", "To the shell", show=False, id="app.suspend",
                tooltip="The console stops, as other programs do; fg comes back"),
    ]  # fmt: skip

    def __init__(
        self, settings: Settings, practice: PracticeProcess | None = None, *, connect: Connect | None = None
    ) -> None:
        loaded = load_config()
        self.DEFAULT_MODE = loaded.config.start  # type: ignore[misc]  # each console has its own, from its beginning
        import_module(f"{pages.__name__}.{self.DEFAULT_MODE}")  # before the event loop runs
        super().__init__(settings, loaded.config.panes.size, connect or self._open_session)
        self._practice = practice
        self._bell, self._starts = AlarmNotifier(), StartNotifier()
        self._config_changed_at = config_mtime()
        self._apply_config(loaded)

    def _apply_config(self, loaded: LoadedConfig) -> None:
        """Apply the person's themes and keys; problems are shown once the app is open."""
        config = loaded.config
        self.add_themes(*themes_of(config))
        if config.theme in theme_names(config):
            self.theme = config.theme
        self.set_keymap(usable_keys(config))
        self.loaded = loaded

    def _follow_config(self) -> None:
        changed = config_mtime()
        if changed != self._config_changed_at:
            self._config_changed_at, loaded = changed, load_config()
            if loaded.config.panes.size != self.loaded.config.panes.size:
                self.pane_size = loaded.config.panes.size
            self._apply_config(loaded)
            for page in self.live_pages():
                page.apply_config()
            self.notify_config_problems()

    @work(group="config", exclusive=True)
    async def notify_config_problems(self) -> None:
        """Show the first problem of the settings file and the number of others."""
        loaded = self.loaded
        for each in [each for each in self._notifications if each.title == BAD_SETTINGS_TITLE]:
            self._unnotify(each)  # of the file as it was
        if loaded.text is None:
            return
        problems = all_problems(loaded, await asyncio.to_thread(known_names))
        wrong = {each.path for each in problems}
        self.set_keymap({name: keys for name, keys in loaded.config.keys.items() if ("keys", name) not in wrong})
        if problems:
            more = f" And {len(problems) - 1} more: a4 config check." if len(problems) > 1 else ""
            message = f"{loaded.path}:{problems[0].line}: {problems[0].text}{more}"
            self.notify(message, title=BAD_SETTINGS_TITLE, severity="warning", timeout=10)

    async def _open_session(self) -> Session:
        """Open a session; imports run in threads, so that keys work meanwhile."""
        importing = asyncio.create_task(asyncio.to_thread(_session_class))
        try:
            place = await asyncio.to_thread(self._practice.kubeconfig) if self._practice else self.settings.kubeconfig
            return await (await importing).open(self.settings._replace(kubeconfig=place))
        finally:
            self._import_pages()

    @work(group="imports", exclusive=True)
    async def _import_pages(self) -> None:
        """Import each page before it is opened for the first time, in a thread and between keys."""
        for module in iter_modules(pages.__path__, f"{pages.__name__}."):
            while self.keys_likely:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(KEY_PAUSE_SECONDS)
            await asyncio.to_thread(import_module, module.name)
            for _ in self._styles.parse_imported():
                await asyncio.sleep(0)
        gc.freeze()  # modules stay

    async def on_event(self, event: events.Event) -> None:
        """Pause the handling of cluster data at a keypress, so that the key is handled first."""
        if isinstance(event, events.Key) and self._session is not None:
            self._session.watch.pause_for_keypress()
        await super().on_event(event)

    def on_mount(self) -> None:
        """Connect after the first paint, since the Kubernetes client takes half a second to import."""
        self.call_after_refresh(self.follow_store)
        self.set_interval(TICK_SECONDS, self.tick)
        times = count(1)
        self.set_interval(GC_SECONDS, lambda: collect_between_keys(self, next(times)))
        self.notify_config_problems()

    def action_open_page(self, page: str) -> None:
        if type(self.screen).__name__ != f"{page.title()}Screen":
            opened = make_page(page)
            if isinstance(opened, LiveScreen):
                opened.opened_from_more = page in PAGES_WITHOUT_TAB
            self.push_screen(opened)

    async def action_reconnect(self) -> None:
        """Open a new session; the old data is shown until the first new snapshot."""
        self.follow_store()

    async def action_quit(self) -> None:
        own = [each for each in self._session.tunnels.opened_here() if each.listeners] if self._session else []
        if own and not isinstance(self.screen, Confirm):
            self._ask_to_quit([f"{each.address}: {ports_cell(each)}" for each in own])
        else:
            await self.leave()

    @work(group="actions")
    async def _ask_to_quit(self, ends: list[str]) -> None:
        if await self.push_screen_wait(Confirm("Quit? These tunnels end with it.", ends, verb="Quit")):
            await self.leave()

    def action_help_quit(self) -> None:
        self.notify("q leaves the console; jobs go on.", timeout=4)

    async def leave(self) -> None:
        self.workers.cancel_all()
        await self._close_session()
        if self._google_alone is not None:
            await self._google_alone.close()
        self.exit(0)

    def tick(self) -> None:
        """Once a second: show new alarms and update ages."""
        if self.is_running:  # a last tick may come while the screens are being taken away
            if not self.is_headless and terminal_has_hung_up():
                self.call_later(self.action_quit)
            self._follow_config()
            notify_new_alarms(self, self._bell)
            notify_starts(self, self._starts)
            self.draw_between_keys("ages", self._draw_ages)

    def _draw_ages(self) -> None:
        if isinstance(self.screen, LiveScreen) and self.screen.is_mounted and self.screen.display:
            self.screen.tick()

    def action_theme(self) -> None:
        """Switch between the person's theme and one of the other brightness."""
        own, dark = self.loaded.config.theme, not self.current_theme.dark
        theme = self.available_themes.get(own)
        self.theme = own if theme is not None and theme.dark == dark else (DARK if dark else LIGHT).name

    def action_settings(self) -> None:
        there = self.loaded.path if self.loaded.text is not None else f"{self.loaded.path} (not there yet)"
        message = (
            f"{there}. In a shell: a4 config shows what is in force, a4 config check, a4 config schema, a4 config keys."
        )
        self.notify(message, title="Settings", timeout=15)

    @work(group="actions")
    async def action_own_command(self, number: int) -> None:
        if isinstance(self.screen, LiveScreen):
            await run_command(self.screen, self.loaded.config.commands[number])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False hides a person's own command (read-only mode, and it makes changes); None disables it (no object)."""
        if action == "own_command" and isinstance(self.screen, LiveScreen):
            number, commands = int(str(parameters[0])), self.loaded.config.commands
            if number >= len(commands) or (commands[number].changes and self.settings.read_only):
                return False
            return has_objects(commands[number], self.screen.present_subject) or None
        return super().check_action(action, parameters)

    def action_help(self) -> None:
        """Show all keys that work here, and details of the item under the cursor."""
        from screens.pages.help import HelpScreen, KeyGroup, key_groups

        groups = key_groups(self.screen)
        title, text = self.screen.help_about() if isinstance(self.screen, LiveScreen) else ("", ())
        self.push_screen(HelpScreen([KeyGroup(title, text), *groups] if text else groups))

    @work(group="actions")
    async def action_more(self) -> None:
        """Choose one of the pages without a tab."""
        titles = {title_of(name): name for name in PAGES_WITHOUT_TAB}
        choices = [PickEntry(title, TARGETS[name].what, is_current=False) for title, name in titles.items()]
        if title := await self.push_screen_wait(Pick("Which page?", choices)):
            self.action_open_page(titles[title])

    @work(group="actions")
    async def action_pick(self, label: str, name: str = "") -> None:
        """Switch to a context or namespace; without a name, ask which."""
        if isinstance(self.screen, LiveScreen):
            await (_switch_context if label == "context" else _switch_namespace)(self.screen, name)


async def _switch_context(screen: LiveScreen, wanted: str) -> None:
    with screen.report_errors("Could not switch the cluster"):
        session = screen.session
        choices = [
            PickEntry(each.name, f"{each.cluster}  {each.namespace}", is_current=each.name == session.context)
            for each in session.watch.contexts()
        ]
        asked = None if wanted else await screen.app.push_screen_wait(Pick("Which cluster?", choices))
        name = wanted or asked
        if name and name != session.context:
            await session.watch.switch_context(context=name)
            screen.app.only_namespace = ""  # the other cluster may not have it
            screen.app.refresh_bindings()


async def _switch_namespace(screen: LiveScreen, wanted: str) -> None:
    """Use that namespace for lists and launches, or one that the person chooses."""
    with screen.report_errors("Could not switch the namespace"):
        session, seen, only = screen.session, screen.app.known_namespaces(), screen.app.only_namespace
        choices = [
            PickEntry(ALL_NAMESPACES, f"launches go to {session.namespace}", is_current=not only),
            *(PickEntry(each, is_current=each == only) for each in seen),
        ]
        asked = None if wanted else await screen.app.push_screen_wait(Pick("Which namespace?", choices, free=True))
        name = wanted or asked
        if not name:
            return
        if name not in {ALL_NAMESPACES, *seen}:
            await session.watch.require_namespace(name)
        screen.app.only_namespace = "" if name == ALL_NAMESPACES else name
        if name not in {ALL_NAMESPACES, session.namespace}:
            await session.watch.switch_context(namespace=name)
        screen.draw_fleet()
        screen.app.refresh_bindings()
        lists = "every namespace" if name == ALL_NAMESPACES else name
        message = f"Lists of jobs, pods and workloads show {lists}; launches go to {session.namespace}."
        screen.notify(message, title="Namespace")


async def run_command(screen: LiveScreen, command: OwnCommand) -> None:
    """Run a person's own command on the terminal, after a question if it changes the cluster. Runs in a worker."""
    app = screen.app
    with screen.report_errors(f"{command.name} was not run"):
        line, variables = fill_in(command, screen.subject(), app.session.watch.settings.kubeconfig)
        if command.changes and not await app.push_screen_wait(Confirm(f"Run {command.name}?", [line], verb="Run")):
            return
        try:
            with app.batch_update(), app.suspend():
                sys.stdout.write(f"a4: {command.name}\n")
                sys.stdout.flush()
                shell = "/bin/sh", "-c", command.script
                code = await (await asyncio.create_subprocess_exec(*shell, env=os.environ | variables)).wait()
                sys.stdout.write(f"a4: it ended with code {code}; Enter comes back ")
                sys.stdout.flush()
                await asyncio.to_thread(sys.stdin.readline)
        except SuspendNotSupported:
            raise BadInput("This terminal cannot be lent.", f"Run it yourself: {line}") from None
        app.screen.refresh(layout=True)
