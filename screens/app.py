"""The console: which screens exist, the keys that work everywhere, and the theme."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType

from screens.alarm_notices import LOW, Bell, ring
from screens.base import LiveApp, LiveScreen
from screens.open_page import PAGE_KEYS, PAGES, page
from screens.palette import ActiveBindings
from screens.widgets.line import DARK, LIGHT

if TYPE_CHECKING:
    from textual.screen import Screen

    from console.session import Session
    from console.settings import Settings
    from practice.child import PracticeProcess

Connect = Callable[[], Awaitable["Session"]]


def _session_class() -> type[Session]:
    from console.session import Session

    Session.prepare()
    return Session


class ConsoleApp(LiveApp):
    """The console over one cluster."""

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
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        mode: page(f"screens.pages.{mode}:{name}Screen") for mode, _, name in TABS
    }
    PAGES = PAGES
    DEFAULT_MODE = "fleet"
    VERTICAL_BREAKPOINTS = [(0, "-low-terminal"), (LOW, "-high-terminal")]  # noqa: RUF012 - as Textual declares it
    COMMANDS: ClassVar[set[Any]] = {ActiveBindings}
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"switch_mode('{mode}')", name, show=False, id=f"app.{mode}") for mode, key, name in TABS),
        Binding("question_mark", "help", "Help", key_display="?", id="app.help", tooltip="All keys that work here"),
        Binding("colon", "command_palette", "Commands", key_display=":", id="app.commands",
                tooltip="Find a command by name"),
        Binding("t", "theme", "Light or dark", show=False, id="app.theme"),
        Binding("C", "pick('context')", "Switch context", show=False, key_display="C", id="app.context"),
        *PAGE_KEYS,
        Binding("N", "pick('namespace')", "Switch namespace", show=False, key_display="N", id="app.namespace"),
        Binding("ctrl+r", "reconnect", "Reconnect", show=False, id="app.reconnect"),
        Binding("q", "quit", "Quit", show=False, id="app.quit", tooltip="Leave the console; jobs go on"),
    ]  # fmt: skip

    def __init__(
        self, settings: Settings, practice: PracticeProcess | None = None, *, connect: Connect | None = None
    ) -> None:
        super().__init__(settings, connect or self._open_session)
        self._practice = practice
        self._bell = Bell()
        self.animation_level = "none"  # a scroll that glides settles after 0.9 s
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    async def _open_session(self) -> Session:
        """Threads: the imports take half a second, in which keys have to work and a practice cluster starts."""
        importing = asyncio.create_task(asyncio.to_thread(_session_class))
        place = await asyncio.to_thread(self._practice.kubeconfig) if self._practice else self.settings.kubeconfig
        return await (await importing).open(replace(self.settings, kubeconfig=place))

    def tick(self) -> None:
        """Once a second: alarms that are new, and what ages by itself."""
        if self.is_running:
            ring(self, self._bell)
        super().tick()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our inks, for themes that do not have them."""
        return DARK.variables

    def action_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_help(self) -> None:
        """Show all keys that work here, and what the screen has to tell of the place of the cursor."""
        from screens.pages.help import HelpScreen, KeyGroup, key_groups

        groups = key_groups(self.screen)
        title, told = self.screen.help_about() if isinstance(self.screen, LiveScreen) else ("", ())
        self.push_screen(HelpScreen([KeyGroup(title, told), *groups] if told else groups))

    @work(group="actions")
    async def action_pick(self, what: str) -> None:
        """Pick another context (cluster) or namespace."""
        from screens.dialogs.switch_context import pick_context, pick_namespace

        if isinstance(self.screen, LiveScreen):
            await (pick_context if what == "context" else pick_namespace)(self.screen)
