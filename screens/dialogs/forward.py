"""Opening a tunnel to a rank or a pod: which ports, and whether the build continues when the console closes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from console.attach.tunnel.published import USUAL_PORTS
from console.errors import BadInput
from console.kube.objects.pod import Pod
from console.kube.rank_address import PortPair, RankAddress
from console.scheduling.ranks import Rank, ranks
from screens.base import LiveScreen
from screens.columns.jobs import JobLine
from screens.dialogs.question import Question

Answer = tuple[tuple[str, ...], bool]
USUAL = "   ".join(f"{port} {name}" for port, name in USUAL_PORTS.items())


class AskPorts(Question["Answer | None"]):
    """Asks for ports and whether to keep the tunnel open; None if cancelled."""

    DEFAULT_CSS = """
    AskPorts > Vertical { width: 70; max-width: 90%; padding: 1 2; }
    AskPorts Input { padding: 0; margin: 1 0; }
    AskPorts #keeps { margin-top: 1; }
    AskPorts #wrong { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="ports.cancel"),
        Binding("ctrl+g", "by_itself", "Keep open", id="ports.background"),
    ]

    def __init__(self, title: str, value: str) -> None:
        super().__init__()
        self._question, self._value = title, value
        self._keeps = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(f"Usual: {USUAL}. Several with spaces between; 9000:8888 takes port 9000 here.",
                         markup=False, classes="hint")  # fmt: skip
            yield Static("", markup=False, id="keeps")
            yield Static("", markup=False, id="wrong")
            yield Static("Enter opens, Esc cancels.", markup=False, classes="hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._tell()

    def _tell(self) -> None:
        state = "● It stays open when the console closes" if self._keeps else "○ It ends with the console"
        self.query_one("#keeps", Static).update(f"{state} (ctrl+g changes that).")

    def action_by_itself(self) -> None:
        self._keeps = not self._keeps
        self._tell()

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        ports = tuple(event.value.replace(",", " ").split())
        try:
            for each in ports:
                PortPair.parse(each)
        except BadInput as error:
            self.query_one("#wrong", Static).update(str(error))
            return
        if ports:
            self.dismiss((ports, self._keeps))


OFFERED = "8888"


async def forward_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    await ask_and_open(screen, RankAddress(line.jobset.namespace, line.jobset.name, rank.number))


async def forward_pod(screen: LiveScreen, pod: Pod) -> None:
    """Open a tunnel to a pod, or to its rank if it belongs to a job, as a rank outlives its pod."""
    fleet = screen.app.fleet
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    here = next((rank for rank in ranks(jobset, fleet) if rank.name == pod.name), None) if jobset else None
    address = RankAddress(pod.namespace, jobset.name, here.number) if jobset and here else None
    await ask_and_open(screen, address or RankAddress(pod.namespace, "", pod=pod.name))


async def ask_and_open(screen: LiveScreen, address: RankAddress) -> None:
    """Ask for ports, and open them; to be run in a worker."""
    answer = await screen.app.push_screen_wait(AskPorts(f"Which ports of {address}?", OFFERED))
    if answer is not None:
        await open_ports(screen, address, *answer)


async def open_ports(screen: LiveScreen, address: RankAddress, ports: Sequence[str], keep: bool) -> None:
    with screen.report_errors(f"No tunnel to {address}"):
        tunnel, notes = await screen.session.tunnels.open(address, ports, keep=keep)
        lines = [f"{each}." for each in tunnel.listeners] + list(notes)
        if tunnel.state != "ready" and tunnel.words:
            lines.append(tunnel.words)
        screen.notify("\n".join(lines), title=f"Tunnel to {address}", timeout=6, markup=False)
