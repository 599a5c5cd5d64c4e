"""The log of a job: one rank, all ranks merged by time, or lines that ranks have in common."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.kube.snapshot import Fleet
from console.logs.job_log import JobLog
from console.logs.log_segment import LogSegment
from console.logs.log_text import TextRow
from console.logs.merged_text import CommonLineFinder, CommonLinesText
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.log_search import (
    FoundLine,
    LogLocation,
    find_first_matches,
    has_step,
    locate_alarm,
    pods_printing_at,
)
from console.scheduling.pod_slots import first_failure
from rankscope import format_pods
from screens import wording
from screens.columns.job_header import why_no_rank_log
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import alarm_by_log
from screens.dialogs.save_and_copy import save_log
from screens.job_tabs.tab import JobTab
from screens.widgets.log.log_lines import LogLines
from screens.widgets.log.log_view import WAITING_FOR_CONNECTION, LogView
from trainlog import FIRST_ERROR

MAX_LINES_AT_FIRST, MIN_LINES_PER_POD = 2_000_000, 2_000
"""Maximum lines fetched of all pods together, and minimum of each, when a log is first opened; older lines of jobs with
many pods are left out."""
MAX_PLACE_LOOKS = 40
"""Maximum attempts, `REDRAW_SECONDS` apart, to find a better pod to show; then the chosen pod stays."""
OFFER_SECONDS = 15.0  # seconds for which Enter goes to an error that was found elsewhere
REDRAW_SECONDS = 0.1  # seconds between two drawings while lines stream in
LOG_MODES = ("one", "all", "agreed")
_MODE_TITLES = {"one": "One pod", "all": "All pods", "agreed": "Identical lines"}


class LogTab(JobTab):
    """The tab with a rank's log, followed from the tab's first opening on, also while another tab is visible."""

    NAME = "log"
    KEY = "l"
    TITLE = "Log"
    SHOWS = frozenset({"log"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "m",
            "mode",
            "One/all/same",
            id="log.mode",
            tooltip="The chosen pod, all pods merged by time, or each line once that many pods print",
        ),
        Binding("enter", "go_there", "Go there", id="log.go-there", tooltip="To the first error of another pod"),
        Binding(
            "enter",
            "chart",
            "Chart",
            id="log.chart",
            tooltip="The training charts at the step of the marked line, else of the last step in sight",
        ),
    ]

    view = getters.query_one(LogView)
    focus_target = getters.query_one(LogLines)
    mode = "one"
    _was_opened = False
    _log: JobLog | None = None
    _drawn_parts = -1
    is_pod_chosen = False
    """Whether a person has chosen the pod whose log is opened, so that the tab selects no more relevant one."""
    _shown_alarm_kind: AlarmKind | None = None  # of the alarm whose place was shown last
    _error_elsewhere: FoundLine | None = None  # the first error of another pod, while Enter goes there
    _wanted_line: tuple[float, float] | None = None  # time and number of the step whose line is to be shown
    _step_row: TextRow | None = None  # the line of a step that is marked, or the last in sight

    @property
    def turns_ranks(self) -> bool:
        return self.mode == "one"

    def compose(self) -> ComposeResult:
        yield LogView()

    def activated(self) -> None:
        """Start to follow: at the alarm's line, or in the pod that prints the steps."""
        first, alarm = not self._was_opened, self._active_alarm()
        if first:
            self._was_opened = True
            self._follow_log()
        super().activated()
        if not self.is_pod_chosen and (first or (alarm is not None and alarm.kind is not self._shown_alarm_kind)):
            self._find_relevant_pod()
        self.is_pod_chosen = False

    def _active_alarm(self) -> Alarm | None:
        if self.line is None:
            return None
        return self.line.alarms[-1] if self.line.alarms else alarm_by_log(self.line)

    @work(group="place", exclusive=True)
    async def _find_relevant_pod(self) -> None:
        """Select the pod that is most relevant, as soon as its lines have arrived."""
        pod: int | None = None
        alarm: Alarm | None = None
        place: LogLocation | None = None
        for _ in range(MAX_PLACE_LOOKS):
            await asyncio.sleep(REDRAW_SECONDS)
            line, alarm = self.line, self._active_alarm()
            if line is None or self._log is None:
                continue
            pod = self.rank if pod is None else pod
            failed = alarm is None and first_failure(line.jobset, line.fleet) is not None
            if not self.is_open or self.mode != "one" or self.rank != pod or len(line.pod_slots) < 2 or failed:
                return
            place = await asyncio.to_thread(locate_alarm, self._segments_of(), alarm)
            if place is not None:
                break
        self._shown_alarm_kind = alarm.kind if alarm is not None else None
        if place is None:
            if alarm is not None and self.mode == "one" and self.rank == pod:
                self.action_mode()
            return
        if place.pod != pod:
            self._go_to_pod(place.pod)
        if place.pattern:
            self.view.lines.find_first(place.pattern)

    def _go_to_pod(self, pod: int) -> None:
        self.post_message(self.Chosen(pod, by_tab=True))
        self.rank = pod

    @on(LogView.NoError)
    @work(group="errors", exclusive=True)
    async def find_error_elsewhere(self) -> None:
        """Search the logs of all other pods for an error, and name the first pod that has one."""
        if self.mode != "one" or self._log is None:
            return
        found = await asyncio.to_thread(find_first_matches, self._segments_of(), FIRST_ERROR)
        found.pop(self.rank, None)
        if not found:
            self.view.show_answer("No line of any pod contains an error.", OFFER_SECONDS)
            return
        first = min(found.values(), key=lambda each: each.time)
        where = first.named_position or f"{datetime.fromtimestamp(first.time).astimezone():%H:%M:%S}"
        several = len(found) > 1
        others = f"{format_pods(*found)} {'have' if several else 'has'} some, first"
        others += f" pod {first.pod}" if several else ""
        self._error_elsewhere = first
        self.refresh_bindings()
        self.view.show_answer(f"pod {self.rank} has none; {others} at {where}: Enter", OFFER_SECONDS)
        await asyncio.sleep(OFFER_SECONDS)
        self._error_elsewhere = None
        self.refresh_bindings()

    def action_go_there(self) -> None:
        if self._error_elsewhere is not None:
            self._go_to_pod(self._error_elsewhere.pod)
            self._error_elsewhere = None
            self.view.show_answer("")
            self.view.action_first_error()

    def offers(self) -> dict[str, object]:
        return {"go_there": self._error_elsewhere, "chart": self._step_row}

    # from a step to its place in the charts, and back

    def on_mount(self) -> None:
        self.watch(self.view.lines, "scroll_y", self._find_step_line, init=False)

    def _find_step_line(self) -> None:
        rows = self.view.lines.rows_in_sight() if self.is_open else []
        before, self._step_row = self._step_row, next((row for row in rows if has_step(row.full_text)), None)
        if bool(before) != bool(self._step_row):
            self.refresh_bindings()

    def action_chart(self) -> None:
        self._find_step_line()
        if self._step_row is not None:
            self.post_message(self.Chosen(self.rank, "training", line=(self._step_row.time, self._step_row.full_text)))

    def show_line(self, time: float, sentence: str) -> None:
        self._wanted_line = time, float(sentence)
        if self._log is not None and self._log.ready.is_set():
            self._show_wanted()

    def _show_wanted(self) -> None:
        """Show the line that another tab refers to, once all lines up to now have been read."""
        if self._wanted_line is None:
            return
        (time, number), self._wanted_line = self._wanted_line, None
        pods = pods_printing_at(self._segments_of(), time)
        if pods and self.mode == "agreed":
            self.action_mode()
        if pods and self.mode == "one" and self.rank not in pods:
            self._go_to_pod(min(pods))
        if not self.view.lines.show_time(time, number):
            self.view.show_answer(f"The line of step {number:,.0f} is not among those that are shown.")
        self._find_step_line()

    def resume_after_reconnect(self) -> None:
        if self._was_opened:
            self._follow_log()

    def update_note(self, line: JobLine | None, fleet: Fleet) -> None:
        self.note = f"pod {self.rank}" if self.mode == "one" else _MODE_TITLES[self.mode].lower()
        self._update_status()

    def watch_rank(self) -> None:
        if self.fleet is not None:
            self.update_note(self.line, self.fleet)
        if self.mode == "one":
            self._show_log()

    @work(group="log", exclusive=True)
    async def _follow_log(self) -> None:
        with self.live.report_errors(f"The log of {self.key[1]} cannot be followed"):
            pods = len(self.line.pod_slots) if self.line else 1
            async with self.live.session.logs.open_job_log(
                *self.key, tail=max(MIN_LINES_PER_POD, MAX_LINES_AT_FIRST // max(1, pods))
            ) as log:
                before, self._log = self._log, self._log or log
                await log.ready.wait()
                self._log = log
                # Lines that came early may be shown already, at the place of an alarm: they stay there.
                self._show_log(again=before is not None or self._drawn_parts >= 0)
                if before is not None and self.mode == "agreed":
                    self._merge_common_lines(log, again=True)
                self._show_wanted()
                await self._redraw_while_open(log)
            self._update_status()

    async def _redraw_while_open(self, log: JobLog) -> None:
        """Draw new lines a few times a second while the tab is visible."""
        with log.subscribe() as news:
            while not log.is_closed:
                await news.wait()
                if news.take_changed() and self.is_open:
                    self.opened()
                elif self.is_open:
                    self._update_status()
                await asyncio.sleep(REDRAW_SECONDS)

    def opened(self) -> None:
        log = self._log
        if log is None:
            return
        if self._drawn_parts != len(log.parts):
            self._show_log(again=True)
        self.view.lines.show_changes()
        self._update_status()

    # what is shown

    def _show_log(self, *, again: bool = False) -> None:
        """Show the text of the current mode; `again` keeps the text and adds segments."""
        log = self._log
        if log is None:
            return
        self._drawn_parts = len(log.parts)
        if self.mode == "agreed":
            if not again:
                self._merge_common_lines(log)
            return
        from console.logs.merged_text import MergedText

        text = self.view.lines.text
        if again and isinstance(text, MergedText):
            text.set_segments()
        elif self.mode == "all":
            self.view.lines.show_text(MergedText(self._segments_of, lambda part: str(part.rank)))
        else:
            rank = self.rank
            self.view.lines.show_text(
                MergedText(lambda: self._segments_of(rank), lambda part: self._segment_label(part))
            )
        self._update_status()

    def _segments_of(self, rank: int | None = None) -> list[LogSegment]:
        if self._log is None:
            return []
        return self._log.parts if rank is None else self._log.segments_of(rank)

    def _segment_label(self, segment: LogSegment) -> str:
        """The attempt and container of a line, if there are several."""
        every = self._segments_of(segment.rank)
        parts = [f"attempt {segment.attempt + 1}"] if len({each.attempt for each in every}) > 1 else []
        parts += [segment.container] if len({each.container for each in every}) > 1 else []
        return " ".join(parts)

    @work(group="agreed", exclusive=True)
    async def _merge_common_lines(self, log: JobLog, *, again: bool = False) -> None:
        """Merge the common lines; `again`: keep showing the old result until that is complete."""
        consensus = CommonLineFinder()
        text, read = CommonLinesText(consensus, log.ranks, lambda: log.gaps), 0
        if not again:
            self.view.lines.show_text(text)
        async with aclosing(log.iter_lines()) as batches:
            async for batch in batches:
                consensus.add(batch)
                if self.mode != "agreed":
                    return
                read += len(batch)
                if again and read >= sum(map(len, log.parts)):
                    again = False
                    self.view.lines.switch_source(text)
                if self.is_open:
                    self.view.lines.show_changes()
                await asyncio.sleep(0)

    def action_mode(self) -> None:
        self.mode = LOG_MODES[(LOG_MODES.index(self.mode) + 1) % len(LOG_MODES)]
        self._show_log()
        if self.fleet is not None:
            self.update_note(self.line, self.fleet)
        self.refresh_bindings()

    def _update_status(self) -> None:
        if not self._was_opened:
            return
        log, line = self._log, self.line
        over = "○ the log has ended" if log is not None and log.is_finished else ""  # else it is followed
        self.view.end_reason = WAITING_FOR_CONNECTION if log is not None and log.is_closed else over
        if line is None and (log is None or not log.parts):
            self.view.end_reason, self.view.status = "", self.waits_to_appear()
            return
        parts = [_MODE_TITLES[self.mode] if self.mode != "one" else self._about_rank()]
        if log is not None and not log.is_closed:
            coverage = log.coverage
            parts += [coverage.sentence, coverage.why]
            if log.gone and log.parts:
                parts.insert(0, "kept on this machine")
        self.view.status = "  ".join(each for each in parts if each)
        self._find_step_line()
        self.view.progress_bar = self._latest_tqdm_bar()

    def _latest_tqdm_bar(self) -> str:
        bars = self._log.progress_bars({self.rank} if self.mode == "one" else None) if self._log is not None else {}
        if not bars:
            return ""
        rank, bar = min(bars.items())
        more = f" (and {len(bars) - 1} more)" if len(bars) > 1 else ""
        return f"▸ {bar.strip()}" if self.mode == "one" else f"▸ pod {rank}: {bar.strip()}{more}"

    def _about_rank(self) -> str:
        rank = self.line.pod_slots[self.rank] if self.line and self.rank < len(self.line.pod_slots) else None
        if rank is None:
            return f"pod {self.rank}"
        waits = why_no_rank_log(rank.number, rank.pod, is_over=bool(self.line and self.line.jobset.finished))
        kept = self._log is not None and any(map(len, self._log.segments_of(rank.number)))
        if waits and not (kept and rank.pod is None):
            return waits
        where = f" on {wording.short_node(rank.node)}" if rank.node else ""
        attempt = f", attempt {rank.pod.attempt + 1}" if rank.pod and rank.pod.attempt else ""
        return f"pod {rank.number}  {rank.name}{where}{attempt}"

    @on(LogView.Saved)
    @work(group="actions")
    async def save(self, event: LogView.Saved) -> None:
        name = f"{self.key[1]}-pod-{self.rank}" if self.mode == "one" else f"{self.key[1]}-{self.mode}"
        await save_log(self.live, event.text, name)
