"""The preflight page: what a launch needs of cluster and project, with result, reason and fix of each check."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.snapshot import Fleet
from console.launch.recipes import LaunchPlan
from console.preflight.check import WORST_FIRST, Check, Result, tally_results
from screens import wording
from screens.columns.column import Column, RowKey
from screens.dialogs.question import Confirm
from screens.live_screen import LiveScreen
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import BAD, CARE, IDLE, OK, UNDER_WAY, Span

RESULT_CELLS = {
    Result.OK: (OK, Span("ok")),
    Result.WARN: (CARE, Span("warn", "waits")),
    Result.FAIL: (BAD, Span("fail", "bad")),
    Result.NOT_ALLOWED: (Span("⊘", "waits"), Span("no right", "waits")),
    Result.COULD_NOT: (Span("?", "waits"), Span("not seen", "waits")),
    Result.NOT_APPLICABLE: (IDLE, Span("n/a", "dim")),
}
"""Glyph and short word of each check result; the room is left for the findings."""


def result_span(check: Check) -> Span:
    if not check.over:
        return Span("…", "dim")
    if check.result is Result.NOT_APPLICABLE:
        return Span(check.reason, "dim")
    blind = check.result in {Result.NOT_ALLOWED, Result.COULD_NOT}
    return Span(check.reason if blind or (check.reason and check.result is Result.FAIL) else check.evidence)


class CheckTable(ResourceTable["Check"]):
    NOUN = "check"
    EMPTY = EmptyNotice("No checks.")
    COLUMNS: ClassVar = (
        Column("", lambda check: RESULT_CELLS[check.result][0] if check.over else UNDER_WAY, width=1),
        Column("CHECK", lambda check: Span(check.title, "strong"), least=14, most=30, sort=lambda check: check.title),
        Column("RESULT", lambda check: RESULT_CELLS[check.result][1] if check.over else Span("looking", "dim"),
               least=7, most=19, sort=lambda check: WORST_FIRST.index(check.result)),
        Column("FIX", lambda check: Span("f", "accent") if check.repair else "", width=3, drop=6),
        Column("FOUND", result_span, fill=True, least=20),
        Column("AREA", lambda check: Span(check.area, "dim"), most=8, drop=7, sort=lambda check: check.area),
        Column("TOOK", lambda check: Span(f"{check.seconds:.1f} s", "dim") if check.over else "", width=6, right=True,
               drop=8, sort=lambda check: check.seconds, down=True),
    )  # fmt: skip

    def row_text(self, row: Check) -> str:
        return f"{row.title} {row.area} {row.result} {row.evidence} {row.reason} {row.fix}"


class PreflightScreen(LiveScreen):
    """The Preflight page: all checks, and the selected one in full below."""

    CSS = """
    PreflightScreen #summary { margin-bottom: 1; }
    PreflightScreen #explanation { max-height: 9; }
    PreflightScreen #looks { max-height: 8; display: none; color: $ink-dim; }
    PreflightScreen.-looks #looks { display: block; }
    """
    KINDS = ("nodes", "pods", "localqueues", "clusterqueues")
    CHANGES_CLUSTER = frozenset({"fix"})
    SHOWS: ClassVar = {"requests": ("-looks", "Hide requests")}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "Check again", id="preflight.again", tooltip="Repeat this check, or the marked ones"),
        Binding("R", "all_again", "All again", key_display="R", id="preflight.all", tooltip="Repeat all checks"),
        Binding(
            "f",
            "fix",
            "Fix",
            id="preflight.fix",
            tooltip="Enable the add-on or services, create the repository or LocalQueue; asks first",
        ),
        Binding("l", "requests", "What was asked", id="preflight.looks", tooltip="Requests of this check, and results"),
        Binding("c", "copy", "Copy fix", id="preflight.copy", tooltip="The fix as a command, to the clipboard"),
    ]

    summary = getters.query_one("#summary", SentenceLine)
    explanation = getters.query_one("#explanation", SentenceLine)
    requests_text = getters.query_one("#looks", SentenceLine)
    table = getters.query_one(CheckTable)

    def __init__(self, plan: LaunchPlan | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.trail_name = f"preflight {plan.name}" if plan else "preflight"
        self.checks: dict[str, Check] = {}
        self._has_begun = False

    def body(self) -> ComposeResult:
        yield SentenceLine(id="summary")
        yield CheckTable()
        yield SentenceLine(id="looks")
        yield SentenceLine(id="explanation")

    def on_mount(self) -> None:
        self.action_all_again()

    def show_fleet(self, fleet: Fleet) -> None:
        """Run the checks once a cluster is connected; new snapshots do not repeat them."""
        if self.app.connected and not self._has_begun:
            self.action_all_again()
        self._draw_checks()

    def offers(self) -> dict[str, object]:
        row = self.table.row
        return {"fix": row and row.repair, "copy": row and row.command}

    def action_again(self) -> None:
        self._run_checks(tuple(key[0] for key in self.table.chosen_keys))

    def action_all_again(self) -> None:
        """Run all checks again; without a connected cluster the table says why not."""
        if self.app.connected:
            self._has_begun = True
            self._run_checks(())

    def action_requests(self) -> None:
        self.toggle_class("-looks")
        self.refresh_bindings()

    def action_copy(self) -> None:
        if self.table.row and self.table.row.command:
            self.copy([self.table.row.command])

    @work(group="actions")
    async def action_fix(self) -> None:
        check = self.table.row
        if check is None or check.repair is None:
            return
        repair = check.repair
        if not await self.app.push_screen_wait(Confirm(f"{repair.words}?", repair.consequences, verb="Do it")):
            return
        self.notify(f"{repair.words}: begun.", timeout=4)
        with self.report_errors(f"{check.title} was not fixed"):
            engine = self.session.preflight
            self.notify(await engine.repair(repair))
            self.checks[check.id] = replace(check, at=0.0)
            self._draw_checks()
            self.checks[check.id] = await engine.recheck_after_repair(engine.launch_needs(self.plan), check.id)
            self._draw_checks()

    @work(group="looking")
    async def _run_checks(self, check_ids: Collection[str]) -> None:
        with self.report_errors("The checks could not be done"):
            engine = self.session.preflight
            for each in engine.pending_checks(check_ids):
                self.checks[each.id] = replace(self.checks.get(each.id, each), at=0.0)
            self._draw_checks()
            async for check in engine.run(engine.launch_needs(self.plan), check_ids):
                self.checks[check.id] = check
                self._draw_checks()

    def _draw_checks(self) -> None:
        rows: dict[RowKey, Check] = {(check.id,): check for check in sorted(self.checks.values(), key=lambda c: c.id)}
        self.table.show_rows(rows)
        found = tally_results(self.checks.values())
        about = f"{self.plan.recipe} as {self.plan.name}" if self.plan else "the cluster and its project"
        style = "bad" if found.failing else "dim" if found.open_count else ""
        self.summary.runs = (Span(f"{about}: ", "strong"), Span(found.sentence, style))
        self._show_details()

    @on(ResourceTable.Opened)
    def _on_row_opened(self, event: ResourceTable.Opened) -> None:
        event.stop()
        self.action_requests()

    @on(ResourceTable.Highlighted)
    def _show_details(self) -> None:
        check = self.table.row
        self.explanation.runs = tuple(_check_sentence(check)) if check else ()
        self.requests_text.runs = tuple(_check_spans(check)) if check else ()
        self.refresh_bindings()


def _check_sentence(check: Check) -> list[Span]:
    runs = [Span(f"{check.title} ", "strong"), Span(f"{check.evidence} ")]
    runs.append(Span(f"{check.reason} ", RESULT_CELLS[check.result][1].style or "dim"))
    if check.over and check.result not in {Result.OK, Result.NOT_APPLICABLE}:
        runs += [Span("→ ", "head"), Span(f"{check.fix} "), Span(f"{check.command} ", "dim")]
    return [*runs, Span(f"Checked {wording.clock(check.at)}." if check.over else "", "dim")]


def _check_spans(check: Check) -> list[Span]:
    if not check.looks:
        return [Span("No request was sent.", "dim")]
    found: list[Span] = []
    for each in check.looks:
        style = "dim" if each.outcome == "answered" else "waits"
        answer = Span(f"{each.outcome} ({each.seconds:.2f} s). ", style)
        found += [Span(f"{each.at} ", "dim"), Span(f"{each.what}: "), answer]
    return found
