"""One job: its ranks, the log of any of them, its NCCL curve, its events, its YAML.

Over 300 lines, because five tabs over one job share the chosen rank and the streams that follow it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher

from console.errors import ConsoleError
from console.models.ranks import first_failure
from screens.base import LiveScreen
from screens.shell import open_shell
from screens.stopping import stop_jobs
from screens.widgets.event_table import EventTable
from screens.widgets.job_head import events_of, head, nccl_waits, rank_waits, told
from screens.widgets.job_line import JobLine
from screens.widgets.log_view import LogView
from screens.widgets.nccl_panel import NcclPanel
from screens.widgets.rank_matrix import RankCell, RankMatrix
from screens.widgets.rank_table import RankTable, rank_glyph
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.tab_strip import Tab, TabStrip
from screens.widgets.yaml_text import YamlText
from screens.wording import Run

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from console.models.fleet import Fleet
    from console.models.pod import Pod
    from console.models.ranks import Rank
    from screens.widgets.listing import RowKey

TAIL = 20_000
"""Lines of a log that are fetched when it is opened; what comes after is followed."""
FEW = 8
"""Up to so many ranks the table alone shows them all at a glance."""
TABS = (
    ("ranks", "r", "Ranks"),
    ("log", "l", "Log"),
    ("nccl", "b", "NCCL"),
    ("events", "e", "Events"),
    ("yaml", "y", "YAML"),
)


class JobScreen(LiveScreen):
    """Header, why, and tabs; it keeps working while pods are replaced, and says what it waits for."""

    CSS_PATH = "job.tcss"
    KINDS = ("jobsets", "pods", "workloads", "events")
    CHANGES_CLUSTER = frozenset({"stop", "shell"})
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"tab('{name}')", title, show=False, id=f"job.{name}") for name, key, title in TABS),
        Binding("left_square_bracket", "turn(-1)", "Tab before", show=False, key_display="[", id="job.before"),
        Binding("right_square_bracket", "turn(1)", "Tab after", show=False, key_display="]", id="job.after"),
        Binding("s", "shell", "Shell", id="job.shell", tooltip="A shell in the pod of the chosen rank"),
        Binding("x", "stop", "Stop", id="job.stop", tooltip="Stop this job; asks first"),
        Binding("less_than_sign", "rank(-1)", "Rank before", key_display="<", id="job.rank-before"),
        Binding("greater_than_sign", "rank(1)", "Rank after", key_display=">", id="job.rank-after"),
    ]  # fmt: skip

    header = getters.query_one("#head", SentenceLine)
    reason = getters.query_one("#told", SentenceLine)
    strip = getters.query_one(TabStrip)
    switcher = getters.query_one(ContentSwitcher)
    matrix = getters.query_one(RankMatrix)
    ranks = getters.query_one(RankTable)
    log_view = getters.query_one(LogView)
    nccl = getters.query_one(NcclPanel)
    latest = getters.query_one("#latest", EventTable)
    all_events = getters.query_one("#events", EventTable)
    yaml = getters.query_one(YamlText)

    def __init__(self, namespace: str, name: str, tab: str = "ranks") -> None:
        super().__init__()
        self.key = namespace, name
        self._rank: int | None = None
        self._first_tab = tab
        self._line: JobLine | None = None
        self._followed: tuple[str, int] = ("", 0)
        self._measured = ""
        self._log_open = False

    @property
    def crumb(self) -> str:
        """Its name."""
        return self.key[1]

    def body(self) -> ComposeResult:
        """Two sentences, the tabs, and what is in them."""
        yield SentenceLine(id="head")
        yield SentenceLine(id="told")
        yield TabStrip()
        with ContentSwitcher(initial=self._first_tab):
            with Vertical(id="ranks"):
                yield RankMatrix()
                yield RankTable()
                yield SentenceLine(id="caption")
                yield EventTable(id="latest")
            yield LogView(id="log")
            yield NcclPanel(id="nccl")
            yield EventTable(id="events")
            yield YamlText(id="yaml")

    def on_mount(self) -> None:
        """The tab asked for."""
        self.query_one("#caption", SentenceLine).runs = (Run("── ", "faint"), Run("latest events", "head"))
        self.action_tab(self._first_tab)

    @property
    def rank(self) -> int:
        """Rank whose log is shown and whose pod a shell opens in; at first the one that failed first, if any did."""
        return self._rank or 0

    # the picture

    def show_fleet(self, fleet: Fleet) -> None:
        """Draw the job as it is in that picture; a job that is gone is shown as it last was."""
        jobset = fleet.jobsets.get(self.key)
        if jobset is not None:
            self._line = JobLine(jobset, fleet)
            if self._rank is None:
                first = first_failure(jobset, fleet)
                self._rank = first.number if first else 0
        line = self._line
        self._show_header()
        self.reason.runs = tuple(told(line, gone=jobset is None))
        if line is None:
            self._show_tabs(0)
            self.nccl.waiting = f"Waits for JobSet {self.key[1]} to appear."
            self.log_view.status = self.nccl.waiting
            return
        rows: dict[RowKey, Rank] = {(str(rank.number),): rank for rank in line.ranks}
        began = self.ranks.cursor is None
        self.ranks.show_rows(rows, fleet.links.get("pods"))
        if began:
            self.ranks.move_to((str(self.rank),))
        self.matrix.display = len(line.ranks) > FEW
        self.matrix.cells = tuple(RankCell(rank.number, rank_glyph(rank)) for rank in line.ranks)
        told_events = events_of(line)
        for table in (self.latest, self.all_events):
            table.show_rows(told_events, fleet.links.get("events"))
        self._show_tabs(len(told_events))
        self.nccl.waiting = nccl_waits(line)
        self._keep_log(line)
        self._keep_nccl(line)

    def _show_header(self) -> None:
        gone = self.key not in self.app.fleet.jobsets
        short = self.size.width < 125
        self.header.runs = tuple(head(self._line, self.key, gone=gone, short=short, now=time.time()))

    def tick(self) -> None:
        """The age goes on while nothing changes."""
        super().tick()
        self._show_header()

    def _show_tabs(self, told_events: int) -> None:
        notes = {"log": f"rank {self.rank}", "events": f"{told_events}" if told_events else ""}
        peak = self.nccl.test.peak_busbw if self.nccl.test else None
        notes["nccl"] = f"{peak:,.0f} GB/s" if peak is not None else ""
        self.strip.tabs = tuple(Tab(name, key, title, notes.get(name, "")) for name, key, title in TABS)
        self.strip.here = self.switcher.current or ""

    def _pod(self, line: JobLine) -> Pod | None:
        return line.ranks[self.rank].pod if self.rank < len(line.ranks) else None

    # streams

    def _keep_log(self, line: JobLine) -> None:
        """Follows the log of the chosen rank once its container has started; again when its pod is another one."""
        if not self._log_open:
            return
        pod = self._pod(line)
        waits = rank_waits(self.rank, pod, over=line.jobset.finished)
        if pod is None or waits:
            self.log_view.status = waits
            return
        if self._followed != (pod.uid, pod.restarts):
            if self._followed[0] and self.log_view.lines.shown:
                words = f"── rank {self.rank} goes on in {pod.name}, attempt {pod.attempt + 1} ──"
                self.log_view.lines.append([(time.time(), words)])
            self._followed = pod.uid, pod.restarts
            self._follow(self.rank, pod)

    @work(group="log", exclusive=True)
    async def _follow(self, rank: int, pod: Pod) -> None:
        where = f"rank {rank}  {pod.name}" + (f" on {pod.node}" if pod.node else "")
        self.log_view.status = where
        container = pod.main.name if pod.main else ""
        try:
            stream = self.session.follow_log(pod.namespace, pod.name, container=container, tail=TAIL)
            async for line in stream:
                self.log_view.lines.append([(line.time, line.text)])
        except ConsoleError as error:
            self.log_view.status = f"✗ {where}: {error}"
        else:
            self.log_view.status = f"{where}, ended"

    def _keep_nccl(self, line: JobLine) -> None:
        """Reads the tables once rank 0 has started, if the job is a test or somebody looks."""
        wanted = line.jobset.recipe.startswith("nccl") or self.switcher.current == "nccl"
        first = line.ranks[0].pod if line.ranks else None
        if wanted and self._measured != line.jobset.uid and not rank_waits(0, first):
            self._measured = line.jobset.uid
            self._measure()

    @work(group="nccl", exclusive=True)
    async def _measure(self) -> None:
        try:
            async for tests in self.session.nccl(*self.key):
                self.nccl.tests = tests
                self._show_tabs(len(self.all_events.listing.rows))
        except ConsoleError as error:
            self.nccl.waiting = f"The tables cannot be read: {error}"

    @work(group="yaml", exclusive=True)
    async def _read_yaml(self) -> None:
        with self.report_errors(f"Could not read JobSet {self.key[1]}"):
            text = await self.session.manifest("JobSet", *self.key)
            self.yaml.show(text)

    # keys

    def action_tab(self, name: str) -> None:
        """Opens that tab and gives it the keys."""
        self.switcher.current = name
        self.strip.here = name
        target = {
            "ranks": self.ranks, "log": self.log_view.lines, "nccl": self.nccl.table, "events": self.all_events,
            "yaml": self.yaml,
        }[name]  # fmt: skip
        target.focus()
        self._log_open = self._log_open or name == "log"
        if name == "yaml":
            self._read_yaml()
        elif self._line is not None:
            self._keep_log(self._line)
            self._keep_nccl(self._line)
        self.refresh_bindings()

    def action_turn(self, step: int) -> None:
        """The tab before or after, round the end."""
        names = [name for name, _, _ in TABS]
        self.action_tab(names[(names.index(self.switcher.current or "ranks") + step) % len(names)])

    @on(TabStrip.Picked)
    def pick_tab(self, event: TabStrip.Picked) -> None:
        """A tab was clicked."""
        self.action_tab(event.name)

    @on(RankMatrix.Pointed)
    def point(self, event: RankMatrix.Pointed) -> None:
        """Matrix and table have one cursor."""
        self.ranks.move_to((str(event.number),))

    @on(RankTable.Highlighted, "RankTable")
    def choose_rank(self, event: RankTable.Highlighted) -> None:
        """The rank under the cursor is the one a shell opens in."""
        if event.key is not None and self.switcher.current == "ranks":
            self._choose(int(event.key[0]))

    @on(RankTable.Opened, "RankTable")
    def open_rank(self, event: RankTable.Opened) -> None:
        """Enter on a rank is its log."""
        event.stop()
        self._choose(int(event.key[0]))
        self.action_tab("log")

    @on(EventTable.Opened, "EventTable")
    def open_event(self, event: EventTable.Opened) -> None:
        """Enter on an event shows its whole message."""
        event.stop()
        found = event.table.listing.rows.get(event.key)
        if found is not None:
            self.notify(found.message, title=f"{found.reason}: {found.kind} {found.object_name}", markup=False)

    @on(RankMatrix.Opened)
    def open_cell(self, event: RankMatrix.Opened) -> None:
        """Enter on a cell of the matrix too."""
        self._choose(event.number)
        self.action_tab("log")

    def action_rank(self, step: int) -> None:
        """The log of the rank before or after."""
        if self._line is not None and self._line.ranks:
            self._choose((self.rank + step) % len(self._line.ranks))

    def _choose(self, rank: int) -> None:
        if rank == self.rank:
            return
        self._rank = rank
        self._followed = ("", 0)
        self.workers.cancel_group(self, "log")
        self.log_view.lines.clear()
        self._show_tabs(len(self.all_events.listing.rows))
        if self._line is not None:
            self._keep_log(self._line)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ranks are turned through where their logs are."""
        if action == "rank":
            return (
                self.is_mounted
                and self.switcher.current == "log"
                and self._line is not None
                and len(self._line.ranks) > 1
            )
        return super().check_action(action, parameters)

    def action_shell(self) -> None:
        """A shell in the pod of the chosen rank."""
        pod = self._pod(self._line) if self._line is not None else None
        if pod is not None and pod.phase == "Running":
            self._shell(pod.namespace, pod.name)
        else:
            self.notify(rank_waits(self.rank, pod) or f"Rank {self.rank} has ended.", severity="warning", markup=False)

    @work(group="actions")
    async def _shell(self, namespace: str, pod: str) -> None:
        await open_shell(self, namespace, pod)

    def action_stop(self) -> None:
        """Stop this job."""
        self._stop()

    @work(group="actions")
    async def _stop(self) -> None:
        await stop_jobs(self, [self.key])

    def on_resize(self, event: events.Resize) -> None:
        """On a low screen the events have their own tab only."""
        self.set_class(event.size.height < 28, "-low")
