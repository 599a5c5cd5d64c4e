"""The page of one job: header, explanation, and tabs for a selected rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import structs
from msgspec.structs import replace
from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher

from console.kube.objects.jobset import JobState, RecipeKind, recipe_kind
from console.kube.snapshot import Fleet, WatchState
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.pod_slots import PodSlot, first_failure
from screens.alarm_toasts import has_changed, live_job_line
from screens.columns.job_header import explanation, first_tab, head
from screens.columns.jobs import JobLine
from screens.dialogs.alarm_actions import ACT, act_on_trouble, trouble_of
from screens.dialogs.launch import launch_like_job
from screens.dialogs.pod_actions import RANK_ACTIONS, RankAction
from screens.dialogs.stop import stop_jobs
from screens.dialogs.why import MANY_LINES, WHY, show_why
from screens.job_tabs.cluster import EventsTab, YamlTab
from screens.job_tabs.gpus import GpusTab
from screens.job_tabs.hang import HangTab
from screens.job_tabs.log import LogTab
from screens.job_tabs.nccl import NcclTab
from screens.job_tabs.ranks import RanksTab
from screens.job_tabs.tab import JobTab
from screens.job_tabs.training import TrainingTab
from screens.list_and_pane import set_size
from screens.live_screen import READ_CHECKPOINTS, WHAT_IF, LiveScreen
from screens.widgets.job_pane import course_lines, reason_lines, saved_state_spans, should_read_unasked
from screens.widgets.side_pane import Lines, SidePane
from screens.widgets.styled_text import Backdrop, NeverScrolled, Room
from screens.widgets.title_and_keys import TabLabel, TabStrip
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span

TABS: tuple[type[JobTab], ...] = (RanksTab, LogTab, NcclTab, TrainingTab, GpusTab, HangTab, EventsTab, YamlTab)
MIN_COURSE_COLUMNS = 60  # columns that a tab leaves from which on its page shows there how far the job is
MIN_COURSE = 8  # lines that a tab leaves from which on its page shows there how far the job is
RANK_ACTION_BY_NAME = {action.name: action for action in RANK_ACTIONS}


class JobCourse(SidePane):
    """A pane with a job's progress, beside or below a tab if there is room."""

    def __init__(self, page: JobScreen) -> None:
        super().__init__(self._course_lines, id="course", classes="of-snapshot")
        self._page = page

    def fit(self) -> None:
        page, (width, both) = self._page, self._page.query_one("#rooms").size
        columns, room = _columns_beside_log(page.here, width), page.here.spare_lines(both)
        right = columns >= MIN_COURSE_COLUMNS
        width, room = (columns - 1, both + 1) if right else (width, room)
        now, wanted = SERVER_CLOCK.now(), room >= MIN_COURSE
        lines = self._course_lines(width - 2, room - 1 - self.stale, now) if wanted else []
        self.display = len(lines) > MIN_COURSE // 2
        self.set_class(right, "-right")  # not a class of both: that costs the styles of all that is within
        if self.display:
            high = (f"{room}fr", f"{both - room}fr") if not right else ("1fr", "1fr")  # messages take of both
            for widget, share in zip((self, page.switcher), high, strict=True):
                if str(widget.styles.height) != share:
                    widget.styles.height = share
            set_size(self, "width", columns if right else None)
            self.show_lines(lines, room - 1)

    on_resize = fit  # as a message goes, which took lines of both

    def _course_lines(self, width: int, height: int, now: float) -> Lines:
        page, line = self._page, self._page.line
        if line is None:
            return []
        measures = page.session.measures.find_followed(page.key) if page.app.connected else None
        return course_lines(line, measures, width, height, now, without=page.here.SHOWS)


class Tabs(ContentSwitcher, Backdrop, NeverScrolled): ...


class JobScreen(LiveScreen):
    """A job's header, explanation and tabs; it stays open while pods are replaced."""

    CSS_PATH = "job.tcss"
    KINDS = ("jobsets", "pods", "workloads", "events")
    OF_CLUSTER = True
    CHANGES_CLUSTER = frozenset({"stop", "again", "act", *(each.action for each in RANK_ACTIONS if each.changes)})
    FIRST_KEYS = frozenset({"job.stop", "job.act"})
    SUBJECT = LiveScreen.SUBJECT | {"job", "pod", "node"}
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(tab.KEY, f"tab('{tab.NAME}')", tab.TITLE, show=False, id=f"job.{tab.NAME}") for tab in TABS),
        Binding("left_square_bracket", "turn(-1)", "Tab before", show=False, key_display="[", id="job.before"),
        Binding("right_square_bracket", "turn(1)", "Tab after", show=False, key_display="]", id="job.after"),
        *(
            Binding(each.key, each.action, each.title, show=each.show, id=f"job.{each.name}", tooltip=each.tooltip)
            for each in RANK_ACTIONS
        ),
        Binding("x", "stop", "Stop", id="job.stop", tooltip="Stop this job; asks first"),
        ACT,
        WHY,
        WHAT_IF,
        Binding("n", "again", "Launch again", show=False, id="job.again", tooltip="Open the form with its values"),
        Binding("c", "checkpoints", "Checkpoints", show=False, id="job.checkpoints", tooltip=READ_CHECKPOINTS),
        Binding("less_than_sign", "rank(-1)", "Pod before", key_display="<", id="job.rank-before"),
        Binding("greater_than_sign", "rank(1)", "Pod after", key_display=">", id="job.rank-after"),
    ]

    header = getters.query_one("#head", SentenceLine)
    reason = getters.query_one("#explanation", SentenceLine)
    saved = getters.query_one("#saved", SentenceLine)
    strip = getters.query_one(TabStrip)
    switcher = getters.query_one(ContentSwitcher)
    course = getters.query_one("#course", JobCourse)

    def __init__(self, namespace: str, name: str, tab: str = "") -> None:
        super().__init__()
        self.key = namespace, name
        self.trail_name = name
        self.tabs: dict[str, JobTab] = {each.NAME: each(self.key) for each in TABS}  # by name, in their order
        self._rank: int | None = None
        self._first_tab = tab
        self.line: JobLine | None = None
        self._ended = ""  # how a job ended that is not in the cluster any more, in a sentence; empty: nobody knows
        self._exists = True  # whether the cluster has it
        self._ticks = 0
        self._is_reading = False  # whether its checkpoints were being read a second ago
        self._alarm_connection: object | None = None  # the connection by which alarms come

    def body(self) -> ComposeResult:
        for name in ("head", "explanation", "saved"):
            yield SentenceLine(id=name, classes="of-snapshot")
        yield TabStrip()
        jobset = self.app.fleet.jobsets.get(self.key)
        self._first_tab = self._first_tab or first_tab(jobset)
        with Room(id="rooms"):
            with Tabs(initial=self._first_tab):
                yield from self.tabs.values()
            yield JobCourse(self)

    def on_mount(self) -> None:
        for tab in self.tabs.values():
            self.watch(tab, "note", self._show_tabs, init=False)
        self.action_tab(self._first_tab)
        self.follow_jobs(
            lambda: [self.key], lambda: self.line is not None and self.line.jobset.state is JobState.PENDING
        )

    @property
    def rank(self) -> int:
        """The selected rank, whose log is shown; at first the one that failed first, if any."""
        return self._rank or 0

    # the snapshot

    def show_fleet(self, fleet: Fleet) -> None:
        """Show the job; one that is gone is shown as it last was."""
        jobset = fleet.jobsets.get(self.key)
        if jobset is not None:
            connection = self.app.connection
            if not jobset.finished and connection not in {None, self._alarm_connection}:
                self._alarm_connection = connection
                self.app.session.alarms.watch_job(*self.key)
            self.line = replace(live_job_line(self.app, jobset, fleet), tab_faults=_tab_faults(self.tabs))
            if self._rank is None:
                first = first_failure(jobset, fleet)
                self._choose_rank(first.number if first else 0)
            self._ended = ""
        elif fleet.links["jobsets"].state is WatchState.LIVE:
            self._find_end()
        self._show_header()
        self._show_in_tabs(fleet)
        self._show_tabs()
        self._exists = self.key in fleet.jobsets
        self.update_keys((self._exists, self.line is not None and self.line.may_act))

    def _show_in_tabs(self, fleet: Fleet) -> None:
        """Show the job in its tabs; for a deleted job they show the pods that are left."""
        line = self.line
        if line is not None and self.key not in fleet.jobsets and not line.jobset.finished:
            over = structs.replace(line.jobset, deletion_asked_at=line.jobset.deletion_asked_at or fleet.at)
            line = replace(line, jobset=over, fleet=fleet)
        for tab in self.tabs.values():
            tab.ended = self._ended
            tab.show(line, fleet)

    @work(group="end", exclusive=True)
    async def _find_end(self) -> None:
        """Look up how a vanished job ended: in the run history, else in this session's alarms."""
        with self.report_errors("The history could not be read"):
            runs = [run for run in await self.session.launch.runs.list_runs() if run.key == self.key]
        if self.key in self.app.fleet.jobsets:
            return
        run = next((run for run in runs if run.server == self.session.watch.server), None)
        alarms = self.session.alarms.history_of(*self.key) if self.session.jobs.alarms is not None else ()
        if run is not None and not run.is_open:
            self._ended = f"Run {run.number} is over, {run.mode_words}."
        elif alarms and self.line is None:
            self._ended = "It is not in the cluster any more."
        self._show_in_tabs(self.app.fleet)
        self._show_header()

    def _show_header(self) -> None:
        gone = self.key not in self.app.fleet.jobsets
        known = gone and bool(self.line or self._ended)
        self.header.runs = tuple(head(self.line, self.key, gone=known, now=SERVER_CLOCK.now()))
        _show_line(self, self.reason, explanation(self.line, is_gone=gone, ended=self._ended, now=SERVER_CLOCK.now()))

    def _show_saved(self) -> None:
        """Show the last checkpoint and what would be lost; nothing for a job that trains nothing."""
        line, now = self.line, SERVER_CLOCK.now()
        runs: list[Span] = []
        if line is not None and self.app.connected and self.key in self.app.fleet.jobsets:
            measures = self.session.measures.find_followed(self.key)
            runs = saved_state_spans(line, measures, now, "c")
            if should_read_unasked(line, measures, now, self.session.own_job_inspector.proof_of(line.jobset)):
                self._read_checkpoints()
        _show_line(self, self.saved, runs)
        self.saved.set_class(line is not None and line.saved is not None and line.saved.survey is None, "-failed")

    @work(group="checkpoints", exclusive=True)
    async def _read_checkpoints(self) -> None:
        await self.session.checkpoints.read_job(*self.key)

    def action_checkpoints(self) -> None:
        _show_line(self, self.saved, [Span("◐ ", "waits"), Span("Reading the checkpoints…")])
        self._read_checkpoints()

    def tick(self) -> None:
        super().tick()
        self._ticks += 1
        seldom = self._ticks % 4 == 0  # what costs as much as the rest of the page
        if seldom:
            self.course.fit()
        if self.line is not None and has_changed(self.app, self.line):
            self.show_fleet(self.app.fleet)
        else:
            self._show_header()
        reads = any(each.group == "checkpoints" and each.node is self and each.is_running for each in self.workers)
        runs = self._exists and self.line is not None and self.line.jobset.state is JobState.RUNNING
        if (seldom or not (runs and self.saved.display) or self._is_reading) and not reads:
            self._show_saved()
        self._is_reading = reads

    def _show_tabs(self) -> None:
        if self.line is not None and self.line.tab_faults != _tab_faults(self.tabs):
            self.line = replace(self.line, tab_faults=_tab_faults(self.tabs))
            self._show_header()
        self.strip.tabs = tuple(TabLabel(tab.NAME, tab.KEY, tab.TITLE, tab.note) for tab in _filled_tabs(self))
        self.strip.open_tab = self.switcher.current or ""

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 28, "-low")
        self.call_after_refresh(self.course.fit)

    # tabs

    @property
    def here(self) -> JobTab:
        return self.tabs[self.switcher.current or TABS[0].NAME]

    def action_tab(self, name: str) -> None:
        self.here.deactivated()
        self.switcher.current = self.strip.open_tab = name
        self.here.activated()
        self._show_tabs()
        self.course.fit()
        self.set_focus(self.here.focus_target)  # at once: the next key may be on its way
        self.show_filter_of(self.here)
        self.refresh_bindings()

    def action_turn(self, step: int) -> None:
        names = [tab.NAME for tab in _filled_tabs(self)]
        self.action_tab(names[(names.index(self.here.NAME) + step) % len(names)])

    @on(TabStrip.Picked)
    def pick_tab(self, event: TabStrip.Picked) -> None:
        self.action_tab(event.name)

    # the chosen rank

    @on(JobTab.Chosen)
    def choose_rank(self, event: JobTab.Chosen) -> None:
        if not event.by_tab and (event.tab_name or event.rank != self.rank):
            self.query_one(LogTab).is_pod_chosen = True
        self._choose_rank(event.rank)
        if event.tab_name:
            self.action_tab(event.tab_name)
        if event.line is not None:
            self.here.show_line(*event.line)

    def action_rank(self, step: int) -> None:
        if self.line is not None and self.line.pod_slots:
            self._choose_rank((self.rank + step) % len(self.line.pod_slots))

    def _choose_rank(self, rank: int) -> None:
        self._rank = rank
        for tab in self.tabs.values():
            tab.rank = rank

    def subject(self) -> dict[str, str]:
        ranks = self.line.pod_slots if self.line is not None else ()
        pod = ranks[self.rank].pod if self.rank < len(ranks) else None
        own = {"namespace": self.key[0], "job": self.key[1]}
        return {**super().subject(), **own, "pod": pod.name if pod else "", "node": pod.node if pod else ""}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "rank":
            turns = self.is_mounted and self.here.turns_ranks
            return turns and self.line is not None and len(self.line.pod_slots) > 1
        if action == "on_rank" and self.app.settings.read_only and RANK_ACTION_BY_NAME[str(parameters[0])].changes:
            return False
        return super().check_action(action, parameters)

    def action_on_rank(self, name: str) -> None:
        line, action = self.line, RANK_ACTION_BY_NAME[name]
        rank = line.pod_slots[self.rank] if line is not None and self.rank < len(line.pod_slots) else None
        if line is None or rank is None:
            self.notify("There is no pod yet.", severity="warning")
        elif refusal := action.refusal(rank):
            self.notify(refusal, severity="warning")
        else:
            self._on_rank(action, line, rank)

    @work(group="actions")
    async def _on_rank(self, action: RankAction, line: JobLine, slot: PodSlot) -> None:
        with self.report_errors(f"{action.title}: pod {slot.number} of {line.jobset.name}"):
            await action.perform(self, line, slot)

    def offers(self) -> dict[str, object]:
        line, report = self.line, self.query_one(HangTab).report
        trouble = line and (line.may_act or (report and report.suspects))
        return super().offers() | {"stop": self._exists, "on_rank": self._exists, "act": trouble}

    @work(group="actions")
    async def action_act(self) -> None:
        await act_on_trouble(self, trouble_of(self, self.line, self.query_one(HangTab).report))

    def action_why(self) -> None:
        if self.line is not None:
            show_why(self, self.key[1], reason_lines(self.line, MANY_LINES, SERVER_CLOCK.now(), self.app.format_owner))

    @work(group="actions")
    async def action_again(self) -> None:
        if self.line is not None:
            await launch_like_job(self, self.line.jobset)

    def action_what_if(self) -> None:
        over = self.line is None or self.line.jobset.finished
        self.app.open_page("what_if", self.key[0], "" if over else f"stop {self.key[1]}")

    @work(group="actions")
    async def action_stop(self) -> None:
        await stop_jobs(self, [self.key])


def _show_line(page: JobScreen, line: SentenceLine, spans: list[Span]) -> None:
    line.runs = tuple(spans)
    if line.display != bool(spans):
        line.display = bool(spans)
        page.call_after_refresh(page.strip.refresh)  # where it has moved to Textual sometimes leaves a blank line
        page.call_after_refresh(page.course.fit)


def _filled_tabs(page: JobScreen) -> list[JobTab]:
    """The tabs to show: an NCCL test has no Training tab and a training no NCCL tab, unless it has content."""
    kind = recipe_kind(page.line.jobset.recipe) if page.line is not None else RecipeKind.PODS
    other = {RecipeKind.NCCL: TrainingTab, RecipeKind.TRAINING: NcclTab}.get(kind)
    return [tab for tab in page.tabs.values() if type(tab) is not other or tab.note or tab is page.here]


def _columns_beside_log(tab: JobTab, width: int) -> int:
    """The columns for a pane beside the log: two fifths, if the rest shows all visible lines whole; else 0."""
    course = width * 2 // 5
    return course if isinstance(tab, LogTab) and 0 < tab.view.lines.virtual_size.width < width - course else 0


def _tab_faults(tabs: Mapping[str, JobTab]) -> tuple[str, ...]:
    return tuple(fault for tab in tabs.values() if (fault := tab.fault))
