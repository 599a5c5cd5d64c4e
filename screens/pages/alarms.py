"""The page of this session's alarms, newest first."""

from __future__ import annotations

from typing import ClassVar, cast

from msgspec.structs import replace
from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.hang.bundle import find_automatic_bundle
from console.kube.snapshot import Fleet
from console.metrics.alarm import ALARM_GLYPH, Alarm
from screens.alarm_toasts import live_job_line
from screens.columns.alarms import ALARMS
from screens.columns.column import RowKey
from screens.columns.live_jobs import alarms_of_session
from screens.dialogs.alarm_actions import (
    ACT,
    NOT_POSSIBLE,
    REMEDIES,
    RemedyKind,
    Trouble,
    act_on_trouble,
    list_remedies,
    trouble_of,
)
from screens.live_screen import ONLY_MINE, LiveScreen
from screens.session_app import SessionApp
from screens.widgets.table.row_painter import EmptyNotice, cell_width
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span, short_path

NO_BREAK_SPACE = "\u00a0"  # a space that does not break
TAB_OF_ALARM = {"stall": "hang", "busbw": "nccl", "gpu": "gpus", "failed": "log", "restart": "pods"}  # by kind of alarm


class AlarmTable(ResourceTable[Alarm]):
    LIST = "alarms"
    NOUN = "alarm"
    EMPTY = EmptyNotice("No alarms.", "Running jobs are watched until they end; one whose page was opened in full.")
    COLUMNS: ClassVar = ALARMS

    @property
    def is_cut(self) -> bool:
        """Whether the text of the alarm under the cursor is cut in the list."""
        shown = ((column, wide) for column, wide in self._painter.columns_now() if column.fill)
        return self.row is None or any(cell_width(column.cell(self.row)) > wide for column, wide in shown)

    def row_text(self, row: Alarm) -> str:
        owner = cast(SessionApp, self.app).owner_words(row.namespace, row.job)
        return f"{row.namespace} {row.job} {row.kind.label} {row.words} {owner}"


class AlarmsScreen(LiveScreen):
    """The Alarms page: which jobs are watched, all alarms, and the text of the selected one."""

    trail_name = "alarms"
    KINDS = ("jobsets",)
    CHANGES_CLUSTER = frozenset({"act", "remedy"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log", id="alarms.log", tooltip="The line of its job's log that tells of it"),
        ACT,
        *(
            Binding(
                each.key,
                f"remedy('{each.name}')",
                each.title,
                show=False,
                key_display=each.key,
                id=f"alarms.{each.name}",
                tooltip="Of the alarm under the cursor; asks first",
            )
            for each in REMEDIES
        ),
        ONLY_MINE,
    ]
    CSS = """
    AlarmsScreen {
        #whole { height: auto; max-height: 8; }
        #coverage { height: auto; max-height: 2; }
    }
    """
    table = getters.query_one(AlarmTable)

    def body(self) -> ComposeResult:
        yield SentenceLine(id="coverage")
        yield AlarmTable()
        yield SentenceLine(id="whole")

    def show_fleet(self, fleet: Fleet) -> None:
        watched = self.app.connected and self.session.jobs.alarms is not None
        found = alarms_of_session(self.session, fleet, self.app.only_namespace) if watched else []
        rows: dict[RowKey, Alarm] = {}
        for each in reversed(found):
            name = each.namespace, each.job, each.kind, f"{each.since}"
            rows[(*name, f"{sum(key[:4] == name for key in rows)}")] = each
        self.table.show_rows(dict(reversed(rows.items())))
        self.query_one("#coverage", SentenceLine).runs = self._coverage_line()
        self._show_details()

    def _coverage_line(self) -> tuple[Span, ...]:
        if not self.app.connected:
            return ()
        if not self.session.alarms.thresholds.running:
            return (Span("Only jobs whose page was opened are watched (running = false in config.toml).", "dim"),)
        coverage = self.session.alarms.coverage
        speed = self.app.settings.speed
        real = f" Their times are real seconds; the speed-up of the practice cluster is {speed:g}." if speed > 1 else ""
        mark = Span("⚠ ", "waits") if coverage.heard < coverage.running else Span("● ", "ok")
        return (mark, Span(coverage.words), Span(real, "dim"))

    def tick(self) -> None:
        super().tick()
        self.show_fleet(self.app.fleet)

    @on(AlarmTable.Highlighted)
    def _show_details(self) -> None:
        alarm = self.table.row
        whole = self.query_one("#whole", SentenceLine)
        whole.runs = (
            ()
            if alarm is None
            else (
                Span(f"{ALARM_GLYPH if alarm.is_active else '○'} ", "bad" if alarm.is_active else "dim"),
                Span(f"{alarm.job} ", "strong"),
                Span(f"{alarm.kind.label}: {f'{alarm.text}. ' * self.table.is_cut}{self._next_step(alarm)}"),
                *self._remedy_words(),
            )
        )
        self.refresh_bindings()

    def _remedy_words(self) -> list[Span]:
        """The remedies for the alarm, each with its key."""
        trouble, alarm = self._chosen_trouble(), self.table.row
        if trouble is None and alarm is not None and alarm.job and self.app.connected:
            return [Span(self._remaining_run_words(alarm))]
        if trouble is None or self.app.settings.read_only:
            return []
        runs = []
        for each in self._possible_remedies(trouble):
            runs += [Span(f"{each.key}\u00a0", "accent"), Span(f"{each.title.replace(' ', NO_BREAK_SPACE)}  ")]
        return runs

    def _possible_remedies(self, trouble: Trouble) -> list[RemedyKind]:
        return [each for each, does in list_remedies(self, trouble) if not does.startswith(NOT_POSSIBLE)]

    def _next_step(self, alarm: Alarm) -> str:
        jobset = self.app.fleet.jobsets.get((alarm.namespace, alarm.job))
        if jobset is None and alarm.job and self.app.connected:
            return ""
        owner = self.app.format_owner(jobset.owner) if jobset is not None else ""
        may_stop = not self.app.settings.read_only
        sentence = alarm.next_step(owner, may_stop=may_stop, look="Enter", stop_key="Stop on that page")
        return f"{sentence or 'It is of no job'}. "

    def _remaining_run_words(self, alarm: Alarm) -> str:
        """The run and the inspection that remain of an alarm's job after the job was deleted."""
        kept = find_automatic_bundle(self.session.watch, alarm.job, alarm.since)
        found = f" What was found of its processes is in {short_path(str(kept))}." if kept is not None else ""
        return f"Its job is gone; if you launched it, page 6 has its run, and n there launches it again.{found}"

    def _chosen_trouble(self) -> Trouble | None:
        alarm = self.table.row
        if alarm is None or not self.app.connected:
            return None
        jobset = self.app.fleet.jobsets.get((alarm.namespace, alarm.job))
        if jobset is None:
            return None
        return trouble_of(self, replace(live_job_line(self.app, jobset, self.app.fleet), alarms=(alarm,)))

    def offers(self) -> dict[str, object]:
        there = self._chosen_trouble() is not None
        return super().offers() | {"act": there, "remedy": there}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        allowed = super().check_action(action, parameters)
        if action != "remedy" or not allowed or (trouble := self._chosen_trouble()) is None:
            return allowed
        return parameters[0] in {each.name for each in self._possible_remedies(trouble)}

    @work(group="actions")
    async def action_act(self) -> None:
        await act_on_trouble(self, self._chosen_trouble())

    @work(group="actions")
    async def action_remedy(self, name: str) -> None:
        await act_on_trouble(self, self._chosen_trouble(), name)

    @on(AlarmTable.Opened)
    def open_job(self, event: AlarmTable.Opened) -> None:
        """Open the alarm's job at the tab that shows the cause, which for a stall is the hang report."""
        event.stop()
        self._open_tab()

    def action_log(self) -> None:
        self._open_tab("log")

    def _open_tab(self, tab: str = "") -> None:
        alarm = self.table.row
        if alarm is not None:
            self.app.open_page("job", alarm.namespace, alarm.job, tab or TAB_OF_ALARM.get(alarm.kind, "training"))
