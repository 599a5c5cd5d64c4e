"""Opens VS Code or another editor in a rank, after setting up SSH with confirmation, or a tunnel to its ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from console.attach.ssh.editors import Editor, SshHost, SshPlan
from console.attach.tunnel.tunnel_files import SUGGESTED_PORTS
from console.errors import BadInput
from console.kube.objects.pod import Pod
from console.kube.pod_address import PodAddress, PortPair
from console.scheduling.pod_slots import PodSlot, pod_slots
from screens.columns.column import Column
from screens.columns.jobs import JobLine
from screens.dialogs.question import Confirm, Question
from screens.live_screen import LiveScreen
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.wording import IDLE, OK, Span


class EditorTable(ResourceTable[Editor]):
    NOUN = "editor"
    EMPTY = EmptyNotice("No editors.")
    COLUMNS: ClassVar = (
        Column("", lambda each: OK if each.command else IDLE, width=1),
        Column("EDITOR", lambda each: each.title, least=18),
        Column("", lambda each: Span(describe_editor_start(each), "dim"), fill=True, least=0),
    )

    def row_text(self, row: Editor) -> str:
        return f"{row.title} {row.name}"


def describe_editor_start(editor: Editor) -> str:
    if editor.command:
        return f"opens: {editor.name} is on this machine"
    return "not on this machine: copies its link" if editor.link else "plain ssh: copies the name"


class EditorDialog(Question[Editor | None]):
    DEFAULT_CSS = """
    EditorDialog > Vertical { width: 100; max-width: 95%; max-height: 95%; }
    EditorDialog EditorTable { background: $surface; height: 9; margin: 1 0; }
    EditorDialog .hint { margin-top: 1; }
    EditorDialog #notes { color: $ink-accent; }
    EditorDialog.-low EditorTable { height: 6; margin: 0; }
    EditorDialog.-low .hint { margin-top: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", id="attached.close"),
        Binding("c", "copy_command", "Copy ssh command", id="attached.command"),
        Binding("l", "copy_link", "Copy link", id="attached.link"),
    ]
    table = getters.query_one(EditorTable)

    def __init__(self, host: SshHost, editors: Sequence[Editor]) -> None:
        super().__init__()
        self._host, self._editors = host, editors

    def compose(self) -> ComposeResult:
        host = self._host
        with Vertical() as box:
            box.border_title = Content(host.host)
            yield Static(f"{' '.join(host.command)}    as {host.user}, in {host.folder}", markup=False, id="command")
            keys = ", ".join(host.fingerprints)
            yield Static(f"Its host key was read through the API: {keys}" if keys else "", markup=False)
            if host.notes:
                yield Static("\n".join(f"• {note}" for note in host.notes), markup=False, id="notes")
            yield EditorTable()
            yield Static(id="by-hand")
            ways = [
                "opens it" if one.command else f"copies its {'link' if one.link else 'name'}" for one in self._editors
            ]
            link = ", l the link" if any(each.link for each in self._editors) else ""
            keys = f"Enter {' or '.join(dict.fromkeys(ways))}, c copies the ssh command{link}, Esc closes."
            yield Static(keys, classes="hint")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 30, "-low")

    def on_mount(self) -> None:
        self.table.show_rows({(each.name,): each for each in self._editors}, None)
        self.table.show_trouble(EditorTable.EMPTY)
        self.table.focus()

    @on(ResourceTable.Highlighted)
    def _show_chosen_editor(self, event: ResourceTable.Highlighted) -> None:
        editor = self.table.row
        self.query_one("#by-hand", Static).update(manual_steps(editor) if editor else "")

    @on(ResourceTable.Opened)
    def _answer_with_editor(self, event: ResourceTable.Opened) -> None:
        self.dismiss(self.table.row)

    def action_copy_command(self) -> None:
        self.app.copy_to_clipboard(" ".join(self._host.command))
        self.notify("The ssh command is copied.", timeout=2)

    def action_copy_link(self) -> None:
        editor = self.table.row
        if editor is not None and editor.link:
            self.app.copy_to_clipboard(editor.link)
            self.notify(f"The link of {editor.title} is copied.", timeout=2, markup=False)


def manual_steps(editor: Editor) -> Text:
    """The editor's link, clickable where the terminal knows OSC 8, and the steps to do by hand."""
    text = Text()
    if editor.link:
        text.append(f"{editor.link}\n", Style(link=editor.link, underline=True))
    text.append("\n".join(f"{number}. {step}" for number, step in enumerate(editor.steps, 1)))
    return text


POD_WAIT_SECONDS = 10.0  # seconds for which a pod that is being replaced is waited for while somebody looks


async def open_editor_in_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    """Set up SSH to the rank after confirmation and offer editors; runs in a worker."""
    attach, jobset = screen.session.attach, line.jobset
    plan = await attach.plan_setup(jobset.namespace, jobset.name, slot.number, wait=POD_WAIT_SECONDS, needs_server=True)
    if plan.adds_key or plan.adds_include:
        opens = (
            f"`ssh {plan.host}` connects then, and `code --remote ssh-remote+{plan.host}` or another editor opens it."
        )
        lines = [opens, *setup_consequences(plan)]
        question = Confirm(f"Set up SSH to {plan.job}?", lines, verb="Set up", keep="Leave")
        if not await screen.app.push_screen_wait(question):
            return
    host = await attach.set_up(plan, wait=POD_WAIT_SECONDS)
    chosen = await screen.app.push_screen_wait(EditorDialog(host, await attach.list_editors(host)))
    if chosen is not None:
        if chosen.command:
            await screen.session.attach.start_editor(chosen)
            screen.notify(f"{chosen.title} opens {host.host}.", timeout=4, markup=False)
            return
        screen.app.copy_to_clipboard(chosen.link or host.host)
        what = "Its link" if chosen.link else f"The host {host.host}"
        words = f"{what} is copied. {' '.join(chosen.steps)}"
        screen.notify(words, title=f"{chosen.title} is not on this machine", timeout=12, markup=False)


async def diagnose_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    screen.app.open_page("doctor", line.jobset.namespace, line.jobset.name, str(slot.number))


def setup_consequences(plan: SshPlan) -> list[str]:
    """The changes that setting up SSH makes, for the confirmation."""
    lines = []
    if plan.makes_key:
        lines.append(f"No usable key without a passphrase was found: {plan.key_text} is created.")
    if plan.adds_key:
        lines.append(
            f"Pod {plan.pod} does not know it and gets it, for {plan.user}:"
            if plan.makes_key
            else f"Pod {plan.pod} does not know your key, {plan.key_text}, and gets it, for {plan.user}:"
        )
        others = f", the other pods of {plan.job} when you connect to them" if plan.ranks > 1 else ""
        lines.append(f"one line in ~/.ssh/authorized_keys{others}.")
    if plan.adds_include:
        lines.append(f"{plan.config_path} begins with `{plan.include_line}`; `a4 ssh --undo` removes it.")
    if plan.other_job:
        lines.append(f"{plan.other_job}-{plan.rank} is another job's, so this one is {plan.host}.")
    return lines


Answer = tuple[tuple[str, ...], bool]
USUAL_PORTS = "   ".join(f"{port} {name}" for port, name in SUGGESTED_PORTS.items())


class AskPorts(Question["Answer | None"]):
    """Asks for ports, and whether the tunnel outlives the console; None if cancelled."""

    DEFAULT_CSS = """
    AskPorts > Vertical { width: 70; max-width: 90%; padding: 1 2; }
    AskPorts Input { padding: 0; margin: 1 0; }
    AskPorts #keeps { margin-top: 1; }
    AskPorts #wrong { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="ports.cancel"),
        Binding("ctrl+g", "toggle_background", "Keep open", id="ports.background"),
    ]

    def __init__(self, title: str, value: str) -> None:
        super().__init__()
        self._question, self._value = title, value
        self._keeps_open = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._value, compact=True)
            yield Static(
                f"Usual: {USUAL_PORTS}. Several with spaces between; 9000:8888 takes port 9000 here.",
                markup=False,
                classes="hint",
            )
            yield Static("", markup=False, id="keeps")
            yield Static("", markup=False, id="wrong")
            yield Static("Enter opens, Esc cancels.", markup=False, classes="hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._update_text()

    def _update_text(self) -> None:
        state = "● It stays open when the console closes" if self._keeps_open else "○ It ends with the console"
        self.query_one("#keeps", Static).update(f"{state} (ctrl+g changes that).")

    def action_toggle_background(self) -> None:
        self._keeps_open = not self._keeps_open
        self._update_text()

    @on(Input.Submitted)
    def _submit_ports(self, event: Input.Submitted) -> None:
        ports = tuple(event.value.replace(",", " ").split())
        try:
            for each in ports:
                PortPair.parse(each)
        except BadInput as error:
            self.query_one("#wrong", Static).update(str(error))
            return
        if ports:
            self.dismiss((ports, self._keeps_open))


DEFAULT_PORT = "8888"


async def forward_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    await ask_and_open(screen, PodAddress(line.jobset.namespace, line.jobset.name, slot.number))


async def forward_pod(screen: LiveScreen, pod: Pod) -> None:
    """Open a tunnel to a pod; if it is of a job, to its rank, as that outlives the pod."""
    fleet = screen.app.fleet
    jobset = fleet.jobsets.get((pod.namespace, pod.jobset)) if pod.jobset else None
    here = next((slot for slot in pod_slots(jobset, fleet) if slot.name == pod.name), None) if jobset else None
    address = PodAddress(pod.namespace, jobset.name, here.number) if jobset and here else None
    await ask_and_open(screen, address or PodAddress(pod.namespace, "", pod=pod.name))


async def ask_and_open(screen: LiveScreen, address: PodAddress) -> None:
    """Ask for ports, and open them; to be run in a worker."""
    answer = await screen.app.push_screen_wait(AskPorts(f"Which ports of {address}?", DEFAULT_PORT))
    if answer is not None:
        await open_ports(screen, address, *answer)


async def open_ports(screen: LiveScreen, address: PodAddress, ports: Sequence[str], keeps_open: bool) -> None:
    with screen.report_errors(f"No tunnel to {address}"):
        tunnel, notes = await screen.session.tunnels.open_tunnel(address, ports, keeps_open=keeps_open)
        lines = [f"{each}." for each in tunnel.listeners] + list(notes)
        if tunnel.state != "ready" and tunnel.words:
            lines.append(tunnel.words)
        screen.notify("\n".join(lines), title=f"Tunnel to {address}", timeout=6, markup=False)
