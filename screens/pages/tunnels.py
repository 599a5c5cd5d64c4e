"""The page of port-forward tunnels: state, and why the last connection broke."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.attach.tunnel.tunnel_files import Tunnel, TunnelProfile
from console.kube.pod_address import PodAddress
from console.kube.snapshot import Fleet
from screens import wording
from screens.columns.column import RowKey
from screens.columns.tunnels import TUNNELS, open_connections, ports_cell
from screens.dialogs.editor_and_tunnel import open_ports
from screens.dialogs.question import Confirm, Pick, PickEntry, Prompt
from screens.live_screen import LiveScreen
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span

POLL_SECONDS = 1.0  # seconds between two looks: bytes run while one watches


class TunnelTable(ResourceTable["Tunnel"]):
    LIST = "tunnels"
    NOUN = "tunnel"
    EMPTY = EmptyNotice("No tunnel is open.", "f on a pod opens one; n here, by name.")
    COLUMNS: ClassVar = TUNNELS

    def row_text(self, row: Tunnel) -> str:
        return (
            f"{row.name} {row.address} {ports_cell(row)} {row.state} {row.pod} {row.context} {row.words} {row.last_end}"
        )


class TunnelsScreen(LiveScreen):
    DEFAULT_CSS = "TunnelsScreen #explanation { max-height: 5; }"
    KINDS = ("jobsets", "pods")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", id="tunnels.new", tooltip="Open ports of a pod by its name, or a saved profile"),
        Binding("x", "stop", "Stop", id="tunnels.stop", tooltip="Close its ports, or those of the marked; asks first"),
        Binding("b", "keep", "In background", id="tunnels.keep", tooltip="Keep it open when the console closes"),
        Binding("c", "copy", "Copy address", id="tunnels.copy", tooltip="http://127.0.0.1:PORT to the clipboard"),
        Binding("a", "save", "Save", id="tunnels.save", tooltip="Save it as a profile, to be opened again by name"),
    ]

    table = getters.query_one(TunnelTable)
    explanation = getters.query_one("#explanation", SentenceLine)

    def body(self) -> ComposeResult:
        yield TunnelTable()
        yield SentenceLine(id="explanation")

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self.reload_tunnels)  # other programs open tunnels too

    def show_fleet(self, fleet: Fleet) -> None:
        self.reload_tunnels()

    @work(group="tunnels", exclusive=True)
    async def reload_tunnels(self) -> None:
        if not self.is_current or not self.app.connected:
            return
        with self.report_errors("The tunnels could not be read"):
            rows: dict[RowKey, Tunnel] = {(each.name,): each for each in await self.session.tunnels.list_tunnels()}
            self.table.show_rows(rows)
            self._show_details()

    def offers(self) -> dict[str, object]:
        return dict.fromkeys(("stop", "keep", "copy", "save"), self.table.row is not None)

    @on(ResourceTable.Highlighted)
    def _show_details(self) -> None:
        self.refresh_bindings()
        tunnel = self.table.row
        self.explanation.runs = tuple(_tunnel_sentence(tunnel)) if tunnel is not None else ()

    @on(ResourceTable.Opened)
    def _on_row_opened(self, event: ResourceTable.Opened) -> None:
        event.stop()
        for tunnel in self.table.chosen_rows[:1]:
            if self._is_of_other_context(tunnel):
                return
            if tunnel.address.pod:
                self.app.open_page("pod", tunnel.namespace, tunnel.address.pod)
            else:
                self.app.open_page("job", tunnel.namespace, tunnel.job)

    def _is_of_other_context(self, tunnel: Tunnel) -> bool:
        other = tunnel.context != self.session.context
        if other:
            self.notify(f"It connects to another cluster: {tunnel.context}.", severity="warning")
        return other

    def action_copy(self) -> None:
        found = [f"http://127.0.0.1:{each.local}" for tunnel in self.table.chosen_rows for each in tunnel.listeners]
        if found:
            self.copy(found, "addresses")

    @work(group="actions")
    async def action_stop(self) -> None:
        chosen = self.table.chosen_rows
        lines = [
            f"{each.address}: {ports_cell(each)}"
            + (f", {wording.count(open_connections(each), 'connection')} open" if open_connections(each) else "")
            for each in chosen
        ]
        title = f"Stop {wording.count(len(chosen), 'tunnel')}?"
        if not chosen:
            return
        if await self.app.push_screen_wait(Confirm(title, lines, verb="Stop")):
            with self.report_errors("Not stopped"):
                for each in chosen:
                    await self.session.tunnels.stop_tunnel(each.name)
            self.table.clear_marks()
            self.reload_tunnels()

    @work(group="actions")
    async def action_keep(self) -> None:
        for tunnel in self.table.chosen_rows[:1]:
            if tunnel.kept or tunnel.state == "ended":
                words = "It has ended." if tunnel.state == "ended" else "It already runs in the background."
                self.notify(words)
                return
            if self._is_of_other_context(tunnel):
                return
            ports = [f"{each.local}:{each.remote}" for each in tunnel.listeners]
            question = f"Move {ports_cell(tunnel)} to a background process?"
            broken = (
                [f"{wording.count(open_connections(tunnel), 'connection')} through it will break."]
                if open_connections(tunnel)
                else []
            )
            if not broken or await self.app.push_screen_wait(Confirm(question, broken, verb="Move")):
                with self.report_errors("Not moved"):
                    await self.session.tunnels.stop_tunnel(tunnel.name)
                    await open_ports(self, tunnel.address, ports, keeps_open=True)
            self.reload_tunnels()

    @work(group="actions")
    async def action_save(self) -> None:
        for tunnel in self.table.chosen_rows[:1]:
            name = await self.app.push_screen_wait(Prompt("Save it as a profile under which name?", tunnel.name))
            if name:
                ports = tuple(f"{each.local}:{each.remote}" for each in tunnel.listeners)
                made = TunnelProfile(name, tunnel.namespace, tunnel.job, tunnel.rank, ports, tunnel.context)
                await self.session.tunnels.save_profile(made)
                self.notify(f"Saved. a4 forward --profile {name} opens it too.")

    @work(group="actions")
    async def action_new(self) -> None:
        with self.report_errors("No tunnel"):
            saved = [
                each
                for each in await self.session.tunnels.list_profiles()
                if each.context in {"", self.session.context}
            ]
            name: str | None = ""
            if saved:
                choices = [PickEntry(each.name, f"{each.job} {each.rank}: {' '.join(each.ports)}") for each in saved]
                name = await self.app.push_screen_wait(Pick("Which one?", [*choices, PickEntry(OTHER_PORT, "by name")]))
            if name is None:
                return
            found = next((each for each in saved if each.name == name), None)
            if found:
                address = PodAddress.parse(found.namespace, found.job, found.rank)
                await open_ports(self, address, found.ports, keeps_open=False)
            else:
                from screens.dialogs.editor_and_tunnel import ask_and_open

                namespace = self.app.only_namespace or self.session.namespace
                typed = await self.app.push_screen_wait(
                    Prompt(
                        f"Which pod, in namespace {namespace}?",
                        hint="JOB POD, such as train-1 0 or train-1 workers/3; pod/NAME.",
                    )
                )
                if typed:
                    job, _, rank = typed.partition(" ")
                    await ask_and_open(self, PodAddress.parse(namespace, job, rank.strip()))
        self.reload_tunnels()


OTHER_PORT = "another"


def _tunnel_sentence(tunnel: Tunnel) -> list[Span]:
    parts = [Span(wording.sentence(tunnel.words) + " ", "waits")] if tunnel.words else []
    if tunnel.state == "ready":
        parts.append(Span(f"{tunnel.address} is pod {tunnel.pod}. ", ""))
    if tunnel.last_end:
        parts.append(
            Span(f"Last broken at {wording.clock(tunnel.last_end_at)}: {wording.sentence(tunnel.last_end)} ", "bad")
        )
    for each in tunnel.listeners:
        carried = f"{wording.size(each.sent)} sent, {wording.size(each.received)} received"
        parts.append(Span(f"{each}: {wording.count(each.connections, 'connection')}, {carried}. ", "dim"))
    if tunnel.reconnections:
        parts.append(Span(f"It moved to another pod {wording.count(tunnel.reconnections, 'time')}. ", "dim"))
    return parts
