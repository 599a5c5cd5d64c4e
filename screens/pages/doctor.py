"""The page that checks every step of connecting to a rank, from the token to an editor in the pod."""

from __future__ import annotations

from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.attach.ssh.editors import DOCTOR_STEPS, SetupStep, StepState
from console.kube.snapshot import Fleet
from screens.columns.column import Column
from screens.live_screen import LiveScreen
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import BAD, CARE, IDLE, OK, UNDER_WAY, Span

STEP_GLYPHS = {StepState.OK: OK, StepState.WARNING: CARE, StepState.FAILED: BAD, StepState.SKIPPED: IDLE}
STEP_STYLES = {StepState.FAILED: "bad", StepState.WARNING: "waits", StepState.SKIPPED: "dim"}
StepRow = tuple[str, SetupStep | None]  # name of a step, and how it ended; None while it has not


def duration_text(row: StepRow) -> str:
    step = row[1]
    return f"{1000 * step.seconds:,.0f}" if step and step.state is not StepState.SKIPPED else ""


def result_span(row: StepRow) -> Span:
    step = row[1]
    return Span(step.found, STEP_STYLES.get(step.state, "")) if step else Span("…", "dim")


class StepTable(ResourceTable[StepRow]):
    NOUN = "step"
    EMPTY = EmptyNotice("No steps.")
    COLUMNS: ClassVar = (
        Column("", lambda row: STEP_GLYPHS[row[1].state] if row[1] else UNDER_WAY, width=1),
        Column("STEP", lambda row: DOCTOR_STEPS[row[0]], least=16),
        Column("MS", duration_text, right=True, least=6),
        Column("FOUND", result_span, fill=True, least=20),
    )

    def row_text(self, row: StepRow) -> str:
        return f"{DOCTOR_STEPS[row[0]]} {row[1].found if row[1] else ''}"


class DoctorScreen(LiveScreen):
    KINDS = ("pods",)
    OF_CLUSTER = True
    CSS = "DoctorScreen SentenceLine { max-height: 6; } DoctorScreen StepTable { margin-top: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "Again", id="doctor.again", tooltip="Repeat all steps")
    ]
    who = getters.query_one("#who", SentenceLine)
    fix = getters.query_one("#fix", SentenceLine)
    table = getters.query_one(StepTable)

    def __init__(self, namespace: str, job: str, rank: str) -> None:
        super().__init__()
        self.key = namespace, job
        self._rank = int(rank)
        self.trail_name = f"pod {rank} doctor"
        self._steps: dict[str, SetupStep] = {}
        self._is_running = False

    def body(self) -> ComposeResult:
        yield SentenceLine(id="who")
        yield SentenceLine(id="fix")
        yield StepTable()

    def on_mount(self) -> None:
        self.action_again()

    def show_fleet(self, fleet: Fleet) -> None:
        """Redraw only, as the steps of the diagnosis are not in the snapshot."""
        self._draw_steps()

    def action_again(self) -> None:
        self._steps.clear()
        self._run_diagnosis()

    @on(StepTable.Opened, "StepTable")
    def show_step(self, event: StepTable.Opened) -> None:
        event.stop()
        if step := self._steps.get(event.key[0]):
            self.notify(f"{step.found} {step.fix}".strip(), title=step.title, timeout=8)

    @work(group="doctor", exclusive=True)
    async def _run_diagnosis(self) -> None:
        self._is_running = True
        self._draw_steps()
        with self.report_errors(f"Could not check pod {self._rank}"):
            async for step in self.session.attach.diagnose(*self.key, self._rank):
                self._steps[step.name] = step
                self._draw_steps()
        self._is_running = False
        self._draw_steps()

    def _draw_steps(self) -> None:
        rows: dict[tuple[str, ...], StepRow] = {(name,): (name, self._steps.get(name)) for name in DOCTOR_STEPS}
        self.table.show_rows(rows, None)
        self.who.runs = (Span(f"{self.key[1]} pod {self._rank}", "strong"), Span(f"  {self._verdict_text()}"))
        wrong = [step for step in self._steps.values() if step.fix]
        runs = [part for step in wrong for part in (Span("→ ", "head"), Span(f"{step.title}: {step.fix}  "))]
        self.fix.runs = tuple(runs)

    def _verdict_text(self) -> str:
        failed = next((step for step in self._steps.values() if step.state is StepState.FAILED), None)
        if failed:
            return f"cannot be reached by ssh: {failed.title} failed."
        if self._is_running:
            return "is checked."
        if any(step.state is StepState.WARNING for step in self._steps.values()):
            return "can be reached by ssh, with something to mind."
        return f"can be reached by ssh: a4 ssh {self.key[1]} {self._rank}"
