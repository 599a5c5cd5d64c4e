"""Dialogs for a command in many ranks, and for a quick NCCL test in one pod."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from console.attach.exec_many import OutputGroup, QuickNcclTest, RankOutput, group_outputs, parse_ranks, worst_exit_code
from console.errors import ConsoleError
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.nccl_history import MeasuredTest
from console.scheduling.pod_slots import PodSlot, pod_slots
from screens.columns.jobs import JobLine
from screens.dialogs.question import WorkDialog
from screens.live_screen import LiveScreen
from screens.sanitize import one_line
from screens.widgets.charts.nccl_panel import NcclPanel
from screens.widgets.wrapped_sentence import SentenceLine
from screens.widgets.yaml import HEADING, OutputText
from screens.wording import count
from trainlog import NcclTest, format_ranges

if TYPE_CHECKING:
    Perform = Callable[[Sequence[int], Sequence[str], Callable[[RankOutput], None]], Awaitable[object]]
    RunTest = Callable[[Callable[[MeasuredTest], None], Callable[[str], None]], Awaitable[None]]


def group_lines(group: OutputGroup) -> list[str]:
    glyph = "✗" if group.code else "≠" if group.differs else "●"
    ended = f", exit code {group.code}" if group.code else ""
    lines = group.output.splitlines()
    if len(lines) <= 1:
        return [f"{HEADING}{glyph} {group.description}{ended}: {lines[0] if lines else '(no output)'}"]
    return [f"{HEADING}{glyph} {group.description}{ended}", *(f"   {line}" for line in lines)]


class ExecAll(WorkDialog):
    """A dialog that asks for command and ranks, runs it and shows grouped outputs, again and again."""

    DEFAULT_CSS: ClassVar[str] = """
    ExecAll > Vertical { width: 94%; max-width: 140; height: 90%; }
    ExecAll Horizontal { height: 1; }
    ExecAll Horizontal Static { width: 10; color: $ink-head; }
    ExecAll Input { width: 1fr; }
    ExecAll SentenceLine { margin: 1 0 0 0; padding: 0; }
    ExecAll OutputText { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stop or close", id="everywhere.leave"),
        Binding("pagedown", "page(1)", "Down", show=False, priority=True),
        Binding("pageup", "page(-1)", "Up", show=False, priority=True),
    ]
    command = getters.query_one("#command", Input)
    ranks = getters.query_one("#ranks", Input)
    output = getters.query_one(OutputText)

    def __init__(self, job: str, known_ranks: Sequence[int], perform: Perform) -> None:
        super().__init__()
        self._job, self._known_ranks, self._perform = job, tuple(known_ranks), perform
        self._ended: list[RankOutput] = []

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(f"Run in pods of {self._job}")
            with Horizontal():
                yield Static("Command")
                hint = "for the shell of each pod, such as nvidia-smi -L | wc -l"
                yield Input(placeholder=hint, compact=True, id="command")
            with Horizontal():
                yield Static("Pods")
                yield Input(format_ranges(self._known_ranks), compact=True, id="ranks")
            yield SentenceLine(id="status")
            yield OutputText()
            keys = "⏎ runs   ⇥ next line   PgUp PgDn read   esc stops it, then closes"
            yield Static(keys, classes="keys", markup=False)

    def on_mount(self) -> None:
        self.command.focus()

    def action_page(self, direction: int) -> None:
        self.output.scroll_relative(y=direction * max(1, self.output.size.height - 1), animate=False)

    def stopped_words(self) -> str:
        return f"Stopped waiting; {self._answered_text()}. It may still run in the others."

    @on(Input.Submitted)
    def _submit_command(self) -> None:
        text = self.command.value.strip()
        if not text:
            self.note("waits", "No command was given.")
            self.command.focus()
            return
        try:
            wanted = parse_ranks(self.ranks.value, self._known_ranks)
        except ConsoleError as error:
            self.note("bad", str(error))
            self.ranks.focus()
            return
        self._ended = []
        self.output.show("")
        self._run_in_ranks(wanted, text)

    @work(group="work", exclusive=True)
    async def _run_in_ranks(self, ranks: tuple[int, ...], text: str) -> None:
        self.is_busy = True
        self._pod_count = len(ranks)
        self.note("dim", f"{self._answered_text()}…")
        try:
            await self._perform(ranks, ("sh", "-c", text), self._show_result)
        except ConsoleError as error:
            self.note("bad", str(error))
        else:
            code = worst_exit_code(self._ended)
            self.note("bad" if code else "ok", self._answered_text() + (f"; worst exit code {code}." if code else "."))
        self.is_busy = False

    def _show_result(self, output: RankOutput) -> None:
        self._ended.append(output)
        self.note("dim", f"{self._answered_text()}…")
        self.output.show("\n".join(line for group in group_outputs(self._ended) for line in group_lines(group)))

    def _answered_text(self) -> str:
        kinds = len(group_outputs(self._ended))
        same = "" if not self._ended else ", all the same" if kinds == 1 else f", {kinds} different answers"
        return f"{len(self._ended)} of {count(self._pod_count, 'pod')} answered{same if len(self._ended) > 1 else ''}"


class QuickNccl(WorkDialog):
    DEFAULT_CSS: ClassVar[str] = """
    QuickNccl > Vertical { width: 94%; max-width: 140; height: 90%; }
    QuickNccl SentenceLine { margin: 0 0 1 0; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "measure", "Run", id="quicknccl.run", priority=True),
        Binding("escape", "leave", "Stop or close", id="quicknccl.leave"),
    ]
    panel = getters.query_one(NcclPanel)

    def __init__(self, title: str, sizes: str, perform: RunTest) -> None:
        super().__init__()
        self._title, self._sizes, self._perform = title, sizes, perform
        self._last_message = ""  # its last message beside its table

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._title)
            yield SentenceLine(id="status")
            yield NcclPanel()
            yield Static("⏎ runs   esc stops waiting, then closes", classes="keys", markup=False)

    def on_mount(self) -> None:
        self.panel.waiting_text = "No row yet."
        what = f"all_reduce_perf of {self._sizes} on all GPUs of the pod"
        self.note("waits", f"{what}, which slows down what runs there.")
        self.panel.table.focus()

    def action_measure(self) -> None:
        if not self.is_busy:
            self.is_busy = True
            self._run_test()

    @work(group="work", exclusive=True)
    async def _run_test(self) -> None:
        self.note("dim", "It runs…")
        try:
            await self._perform(self._show_result, self._note_last_line)
        except ConsoleError as error:
            self.note("bad", " ".join(filter(None, (error.message, error.hint))))
        else:
            test = self.panel.test
            average = test.avg_busbw if test else None
            bad = test is None or test.ok is False
            words = "Done" if average is None else f"Done: average {average:,.1f} GB/s"
            message = f"{words}; values are wrong." if bad and test else f"{words}."
            self.note("bad" if bad else "ok", f"{message} {self._last_message}".rstrip())
        self.is_busy = False

    def _show_result(self, test: MeasuredTest) -> None:
        self.panel.job_tests = (test,)

    def _note_last_line(self, text: str) -> None:
        self._last_message = one_line(text.strip().rpartition("\n")[2])

    def stopped_words(self) -> str:
        return "Stopped waiting; it may still run there."


async def run_in_ranks(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    """Open the dialog that runs a command in ranks; their pods are looked up when it runs."""
    jobset = line.jobset

    async def perform(numbers: Sequence[int], argv: Sequence[str], on_end: Callable[[RankOutput], None]) -> None:
        fleet = screen.app.fleet
        found = fleet.jobsets.get((jobset.namespace, jobset.name), jobset)
        chosen = [each for each in pod_slots(found, fleet) if each.number in set(numbers)]
        await screen.session.container_exec.run_in_ranks(chosen, argv, on_end=on_end)

    await screen.app.push_screen_wait(ExecAll(jobset.name, [each.number for each in line.pod_slots], perform))


async def nccl_in_pod(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    jobset, pod, test = line.jobset, slot.pod, QuickNcclTest()
    assert pod is not None
    node = screen.app.fleet.nodes.get(("", pod.node))

    async def perform(accept: Callable[[MeasuredTest], None], complain: Callable[[str], None]) -> None:
        def on_output(channel: int, data: bytes) -> None:
            if channel == 2:
                complain(data.decode(errors="replace"))

        def show_growing_test(test: NcclTest) -> None:
            nodes, accelerator = (pod.node,), node.accelerator if node else ""
            job, space, number = jobset.name, jobset.namespace, slot.number
            accept(
                MeasuredTest(test, job, space, rank=number, at=SERVER_CLOCK.now(), nodes=nodes, accelerator=accelerator)
            )

        await screen.session.container_exec.run_quick_nccl_test(
            pod, test, on_output=on_output, grown=show_growing_test, limit_seconds=120.0
        )

    title = f"NCCL test in pod {slot.number} of {jobset.name}"
    await screen.app.push_screen_wait(QuickNccl(title, f"{test.first_size} to {test.last_size}", perform))
