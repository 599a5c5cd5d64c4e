"""Base classes of pages about Google Cloud, which also work without a cluster."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual import events, getters, work
from textual.binding import Binding, BindingType

from console.errors import ApiDisabled, BadInput, ConsoleError
from console.google.account import GoogleAccount
from screens.dialogs.question import Confirm, Prompt
from screens.live_screen import LiveScreen
from screens.widgets.wrapped_sentence import SummaryLine
from screens.wording import Span

ASKING_GOOGLE = (Span("◐ ", "waits"), Span("asking Google …", "dim"))


class GoogleScreen(LiveScreen):
    """A page that requests its data from Google when opened, and again when `r` is pressed."""

    summary = getters.query_one(SummaryLine)

    @abstractmethod
    def read(self) -> object:
        """Ask Google for the page's data."""

    def on_mount(self) -> None:
        self.summary.runs = ASKING_GOOGLE
        self.read()

    def update_trouble(self) -> None:
        super().update_trouble()
        if self.app.trouble and not self.app.connected:
            self.summary.runs = ()

    def action_read(self) -> None:
        self.read()


DEFAULT_REGION = "us-central1"  # what is offered where no region is known: the documents' own


class InGoogleScreen(LiveScreen):
    """A page with Google's data, which works without a cluster; functions that need one notify of that."""

    NEEDS_CLUSTER: ClassVar[frozenset[str]] = frozenset()  # actions that have no meaning without a cluster

    _without_cluster: bool | None = None

    def read(self) -> object:
        """Read the page's data again, in a worker."""
        return None

    def update_trouble(self) -> None:
        was, self._without_cluster = self._without_cluster, self.app.without_cluster
        if not self._without_cluster:
            super().update_trouble()
            return
        self._show_title()
        if was is False:
            self.read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in self.NEEDS_CLUSTER and self.app.without_cluster:
            return False
        return super().check_action(action, parameters)

    def on_key(self, event: events.Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if binding.action in self.NEEDS_CLUSTER and self.app.without_cluster:
                event.stop()
                self.notify_cluster_needed(binding.description)

    def notify_cluster_needed(self, subject: str) -> None:
        self.notify("a4 clusters lists Google's.", title=f"{subject} needs a cluster", severity="warning", timeout=4)


class ProjectRegionScreen(InGoogleScreen):
    """A page about one project and region: the connected cluster's, or those that the person gave."""

    CHANGES_CLUSTER = frozenset({"enable"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "where", "Project, region", id="google.where", tooltip="Others, while no cluster is connected"),
        Binding("e", "enable", "Enable service", id="google.enable", tooltip="Enable Google's service; asks first"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._disabled: dict[str, str] = {}  # services that are not enabled, and what they would tell

    def record_result(self, subject: str, error: ConsoleError | None = None) -> None:
        """Record that one kind of data was read, or the `error`; if its API is disabled, a key offers to enable it."""
        self._disabled = {service: kind for service, kind in self._disabled.items() if kind != subject}
        if isinstance(error, ApiDisabled):
            self._disabled[error.service] = subject
        self.refresh_bindings()

    def hint_of(self, error: ConsoleError) -> str:
        if isinstance(error, ApiDisabled):
            return error.hint if self.app.settings.read_only else "e enables it."
        return error.hint

    def place_words(self) -> list[Span]:
        """The text beside the project while no cluster is connected."""
        if not self.app.without_cluster:
            return []
        return [Span("   no cluster: a launch needs one (a4 clusters)", "waits")]

    async def ensure_place(self, *, needs_region: bool) -> bool:
        """Whether project and region are known; asks the person for what is missing."""
        if not self.app.without_cluster:
            return True
        cloud = self.app.google.account
        if await cloud.default_project() and (cloud.region or not needs_region):
            return True
        return await self._ask_for_place()

    async def _ask_for_place(self) -> bool:
        cloud = self.app.google.account
        usual = f"{await cloud.default_project()}/{cloud.region or DEFAULT_REGION}"
        hint = "PROJECT/REGION, as in my-project/us-central1. Esc cancels."
        typed = await self.app.push_screen_wait(Prompt("In which project and region?", usual, hint=hint))
        if typed is None:
            return False
        project, _, where = typed.replace(" ", "").partition("/")
        if not project or not where:
            raise BadInput(f"{typed or 'Nothing'} names no project and region.", "w asks again: PROJECT/REGION.")
        cloud.project, cloud.region = project, where
        return True

    def offers(self) -> dict[str, object]:
        return {"where": self.app.without_cluster, "enable": self._disabled}

    @work(group="actions", exclusive=True)
    async def action_where(self) -> None:
        with self.report_errors("Nowhere to look"):
            if await self._ask_for_place():
                self.read()

    @work(group="actions", exclusive=True)
    async def action_enable(self) -> None:
        service = next(iter(self._disabled), "")
        with self.report_errors(f"Could not enable {service}"):
            cloud = self.app.google.account
            if await enable_service(self, cloud, await cloud.default_project(), service):
                self.read()


async def enable_service(screen: LiveScreen, account: GoogleAccount, project: str, service: str) -> bool:
    """Enable a Google API after confirmation; returns whether it was enabled."""
    title, lines = f"Enable {service} in project {project}?", ["It may cost money once it is used."]
    if not await screen.app.push_screen_wait(Confirm(title, lines, verb="Enable", keep="Leave")):
        return False
    screen.notify(f"{service} is being enabled; that takes half a minute.", timeout=4)
    await account.enable_service(project, service)
    screen.notify(f"{service} is enabled in {project}.", timeout=4)
    return True
