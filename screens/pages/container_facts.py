"""The page of facts read inside a container: GPUs, disks, mounts, NCCL variables, InfiniBand, libc, Python."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.attach.container_facts import ContainerFact, FactState, pending_facts
from console.kube.snapshot import Fleet
from console.scheduling.ranks import Rank
from screens.base import LiveScreen
from screens.columns.jobs import JobLine
from screens.dialogs.question import Prompt
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.yaml import RULE, OutputText
from screens.wording import Span

GLYPHS = {FactState.ASKED: "◐", FactState.KNOWN: "●", FactState.ABSENT: "○", FactState.FAILED: "✗"}


async def facts_of_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    screen.app.open_page("container_facts", line.jobset.namespace, rank.name, "", str(rank.number))


class ContainerFactsScreen(LiveScreen):
    """The facts about one container; each appears as it is read."""

    KINDS = ("pods",)
    OF_CLUSTER = True
    CSS = "ContainerFactsScreen #who { padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "ask", "Ask again", id="facts.ask", tooltip="Ask everything again"),
        Binding("b", "browse", "Browse files", id="facts.browse", tooltip="A folder of the container, and its disk"),
    ]
    who = getters.query_one("#who", SentenceLine)
    text = getters.query_one(OutputText)

    def __init__(self, namespace: str, pod: str, container: str = "", rank: str = "") -> None:
        super().__init__()
        self.key = namespace, pod
        self.crumb = f"pod {rank} facts" if rank else f"{pod} facts"
        self._container = container
        self._facts: dict[str, ContainerFact] = {}

    def body(self) -> ComposeResult:
        yield SentenceLine(id="who")
        yield OutputText()

    def on_mount(self) -> None:
        self.action_ask()

    def show_fleet(self, fleet: Fleet) -> None:
        pod, gpus = fleet.pods.get(self.key), self._facts.get("gpus")
        if pod is None:
            about = Span("  was deleted: these are its last answers", "waits")
        else:
            about = Span(f"  container {self._of_container()} on {pod.node}", "dim")
        self.who.runs = (Span(self.key[1], "strong"), about, Span(f"  {gpus.words if gpus else ''}"))

    def _of_container(self) -> str:
        pod = self.app.fleet.pods.get(self.key)
        return self._container or (pod.main.name if pod and pod.main else "")

    def action_ask(self) -> None:
        self._facts.clear()
        self._draw()
        self._ask()

    @work(group="browse", exclusive=True)
    async def action_browse(self) -> None:
        path = await self.app.push_screen_wait(Prompt("Which folder of the container?", "/"))
        if path:
            self.app.open_page("folder", *self.key, self._of_container(), path)

    @work(group="facts", exclusive=True)
    async def _ask(self) -> None:
        pod = self.app.fleet.pods.get(self.key)
        if pod is None:
            self.text.show(f"{RULE}✗ The pod was deleted: nothing can be read from it.")
            return
        with self.report_errors(f"Could not ask {pod.name}"):
            await self.session.inside.facts(pod, container=self._container, answered=self._take)

    def _take(self, fact: ContainerFact) -> None:
        self._facts[fact.name] = fact
        self._draw()

    def _draw(self) -> None:
        lines: list[str] = []
        self.show_fleet(self.app.fleet)
        for asked in pending_facts():
            fact = self._facts.get(asked.name, asked)
            words = fact.words or ("asked" if fact.state is FactState.ASKED else f"{fact.seconds:.1f} s")
            lines += [f"{RULE}{GLYPHS[fact.state]} {fact.title}: {words}", *fact.text.splitlines(), ""]
        self.text.show("\n".join(lines))
