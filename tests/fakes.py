"""A session without a cluster: the same methods as `console.session.Session`, over a picture that the test sets.

Every call that does something is kept in `calls` as (method, arguments). What a call answers or raises is set per
method in `answers`: a value is returned, an exception is raised.

    session = FakeSession(Fleet(nodes={("", "n1"): Node("n1")}))
    session.show(pods={...})                    # the next picture
    session.answers["cordon"] = NotAllowed("...")
    session.printed["default", "pod-0"] = [LogLine(1.0, "hello")]
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import cached_property, partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from msgspec import structs

from console.alarm_thresholds import Thresholds
from console.attach.tunnel.tunnel_files import Listener, Tunnel, TunnelProfile
from console.checkpoints.saved_state import SavedState
from console.connection_settings import Settings
from console.errors import ConsoleError, NotAllowed, NotFound, Unreachable
from console.google.clusters import GkeOperation
from console.google.node_pools import NodePools, PoolsSnapshot
from console.kube.find_job import find_job
from console.kube.nested_values import Value
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import format_time
from console.kube.objects.pod import Pod
from console.kube.pod_address import PodAddress, PortPair
from console.kube.snapshot import ContextName, Fleet, StopReport, WatchState, WatchStatus
from console.kube.stream_completeness import ReceiveTimes
from console.launch.field_choices import FieldChoices
from console.launch.install import ChartCatalog
from console.launch.ownership import Proof
from console.launch.recipes import LaunchPlan
from console.launch.run_database import RunHistory
from console.launch.run_record import RunRecord, find_run
from console.launch.stop import StopPlan, plan_from_snapshot
from console.logs.container_log import LogRequest, ResumeCursor, StreamState
from console.logs.log_folder import logs_folder
from console.logs.log_line import LogLine, split_timestamps
from console.logs.log_service import LogService
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmKind, AlarmReport
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.diagnosis import Diagnoses, diagnose_slow_ranks
from console.metrics.gpu_metrics import GpuBoard, GpuSource
from console.metrics.job_monitor import JobMonitor
from console.metrics.measure_service import MeasureService
from console.metrics.start_phase import longest_phases
from console.metrics.time_spans import decode_recorded_spans
from console.preflight.all_checks import CHECKS
from console.preflight.check import Check, Repair, Result
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.launch_forecast import LaunchDemand, demand_of
from console.scheduling.run_times import PastRun
from console.scheduling.start_forecast import StartForecast
from console.scheduling.what_if import WhatIf
from console.session_jobs import SessionJobs
from rankscope import HangReport, SlowReport, TorchAnalysis, TracedProcess
from trainlog import PASS_LINE, RunPosition

T = TypeVar("T")


def present(value: T | None) -> T:
    assert value is not None
    return value


def monitor(key: tuple[str, str], watch: AlarmWatch | None = None) -> JobMonitor:
    """One that reads nothing by itself."""
    sources = SimpleNamespace(cluster=None, measures=lambda: SimpleNamespace(pass_line=PASS_LINE))
    return JobMonitor(key, Thresholds(), cast("Any", sources), watch)


class FakePart:
    """A part of the session that keeps and answers what the session does."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session


class FakeAlarms:
    def __init__(self) -> None:
        self.thresholds = Thresholds()
        self.kept: set[tuple[str, str]] = set()
        self.coverage = AlarmCoverage()
        self.namespace: str | None = None
        self.latest_alarms: list[Alarm] = []
        self.refused = self.unread = ""
        self.watched: dict[tuple[str, str], JobMonitor] = {}
        self.late_steps: dict[tuple[str, str], str] = {}
        """That the next step of a job is late, in words."""
        self.verdicts: dict[tuple[str, str], str] = {}
        self._news: list[Alarm] = []

    def sound(self, namespace: str, job: str, kind: AlarmKind, words: str, *, over: float = 0.0) -> Alarm:
        alarm = Alarm(kind, words, time.time(), namespace, job, over)
        self.latest_alarms.insert(0, alarm)
        self._news.append(alarm)
        return alarm

    def watch_job(self, namespace: str, name: str) -> None:
        self.kept.add((namespace, name))

    def watch_namespace(self, namespace: str = "", *, always: bool = False) -> None:
        self.namespace = namespace

    def find(self, key: tuple[str, str]) -> SimpleNamespace:
        active = tuple(each for each in self.latest_alarms if (each.namespace, each.job) == key and each.is_active)
        late, verdict = self.late_steps.get(key, ""), self.verdicts.get(key, "")
        watch = SimpleNamespace(
            active=active, late_text=late, why_unknown="", verdict=verdict, has_step_cadence=key in self.late_steps
        )
        return SimpleNamespace(watch=watch)

    def history_of(self, namespace: str, name: str, since: float = 0.0) -> tuple[Alarm, ...]:
        return tuple(each for each in self.latest_alarms if (each.namespace, each.job) == (namespace, name))

    @asynccontextmanager
    async def open_monitor(self, namespace: str, name: str) -> AsyncIterator[JobMonitor]:
        yield self.watched.setdefault(
            (namespace, name),
            monitor((namespace, name)),
        )

    async def check_job(self, namespace: str, name: str, seconds: float) -> AlarmReport:
        watch = self.find((namespace, name)).watch
        return AlarmReport(watch.active, watch.late_text, self.refused, unread_reason=self.unread)

    def pop_new_alarms(self) -> list[Alarm]:
        news, self._news = self._news, []
        return news


class FakeGpus:
    def __init__(self) -> None:
        self.board = GpuBoard()
        self.readers = 0
        self.exporter = ""
        self.source: GpuSource = ""

    def exporter_of(self, namespace: str, name: str) -> str:
        return self.exporter

    async def follow_boards(
        self, namespace: str, name: str, *, source: GpuSource = ""
    ) -> AsyncGenerator[GpuBoard, None]:
        self.readers, self.source = self.readers + 1, source
        try:
            yield self.board
            await asyncio.Event().wait()
        finally:
            self.readers -= 1

    async def read_once(self, namespace: str, name: str, *, source: GpuSource = "") -> GpuBoard:
        return self.board


class FakeCheckpoints:
    """`console.checkpoints.reader.CheckpointReader`: what it reads is `state`, once it is asked."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.state = SavedState(0.0, problem="Nothing was set.")
        self.saved_states: dict[tuple[str, str], SavedState] = {}

    async def read_job(self, namespace: str, name: str) -> SavedState:
        self._session._did("checkpoints", namespace, name)
        self.saved_states[namespace, name] = self.state
        return self.state


class FakeInspector:
    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.report = HangReport("job", (), ())
        self.slow_report = SlowReport()
        self.analysis: TorchAnalysis | None = None
        self.reports: dict[tuple[str, str], HangReport] = {}
        self.slow_reports: dict[tuple[str, str], SlowReport] = {}

    async def find_slow_ranks(
        self, namespace: str, name: str, seconds: float, *, reads_recorder: bool = False
    ) -> SlowReport:
        self._session._did("slow with recorders" if reads_recorder else "slow", namespace, name)
        self.slow_reports[namespace, name] = self.slow_report
        for found in diagnose_slow_ranks(self.slow_report, self._session.fleet.jobsets[namespace, name].uid):
            await self._session.diagnoses.record(found)
        return self.slow_report

    async def inspect_job(
        self,
        namespace: str,
        name: str,
        *,
        all_stacks: bool = False,
        reads_recorder: bool = True,
        on_answer: Callable[[int, int], None] = lambda *_: None,
    ) -> HangReport:
        find_job(self._session.fleet, namespace, name)
        self._session._did("inspect all stacks" if all_stacks else "inspect", namespace, name)
        on_answer(1, 1)
        return self.report

    async def add_torch_analysis(self, _namespace: str, _name: str, report: HangReport) -> HangReport:
        return replace(report, analysis=self.analysis) if self.analysis is not None else report

    async def install_py_spy(self, namespace: str, name: str, pods: Sequence[str]) -> dict[str, str]:
        return self._session._did("install", tuple(pods), default=dict.fromkeys(pods, "")) or {}

    async def record_profile(
        self, namespace: str, name: str, process: TracedProcess, py_spy: str, seconds: float, path: Path
    ) -> int:
        self._session._did("record", process.rank, seconds, str(path))
        return 7

    async def read_process_fact(self, namespace: str, name: str, process: TracedProcess, fact_name: str) -> Any:
        return self._session._did("process_facts", process.rank, fact_name, default=f"{fact_name} of it")


class FakeRuns:
    """`console.launch.session_runs.Runs` over a list, newest first."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.runs: list[RunRecord] = []
        self.note = ""
        self.history = self.open = self.earlier_runs = self

    async def check_writes(self) -> str:
        return self.note

    async def list_past_runs(self) -> list[PastRun]:
        return []

    async def list_runs(self, recipe: str = "") -> tuple[RunRecord, ...]:
        if held := self._session.answers.get("hold runs"):
            await held.wait()
        return tuple(run for run in self.runs if not recipe or run.recipe == recipe)

    async def find_run(self, name: str) -> RunRecord | None:
        return find_run(self.runs, name)

    async def last_launch_values(self, recipe: str) -> tuple[str, Mapping[str, Value]] | None:
        return next(((run.name, run.values) for run in self.runs if run.recipe == recipe), None)

    async def has_open_runs(self) -> bool:
        return any(run.is_open for run in self.runs)

    def find_launch(self, jobset: JobSet) -> RunRecord | None:
        return next((run for run in self.runs if run.uid == jobset.uid), None)

    async def delete_runs(self, numbers: Iterable[int]) -> int:
        wanted = set(numbers)
        self._session._did("forget", tuple(sorted(wanted)))
        before = len(self.runs)
        self.runs = [run for run in self.runs if run.number not in wanted]
        return before - len(self.runs)

    async def record_training(
        self, namespace: str, name: str, position: RunPosition, speeds: Mapping[str, float]
    ) -> None:
        self._session._did("note_training", namespace, name, position)

    async def speeds(self, recipe: str, gpus: int, metric: str) -> tuple[float, ...]:
        assert metric == "tflops_per_gpu"
        found = (run.tflops for run in self.runs if (run.recipe, run.gpus, run.is_open) == (recipe, gpus, False))
        return tuple(each for each in found if each is not None)

    async def phases(self, job: JobSet) -> Mapping[str, float]:
        others = (run for run in self.runs if (run.recipe, run.gpus) == (job.recipe, job.gpus) and run.uid != job.uid)
        return longest_phases(decode_recorded_spans(run.seen).phases for run in others)

    async def record_tests(self, namespace: str, name: str, tests: Any) -> None:
        self._session._did("note_tests", namespace, name, tests)


class FakeStopping(FakePart):
    """`console.launch.stop.Stopping`: `answers["stop_plan"]` is what is said of every job."""

    async def plan_stop(self, namespace: str, name: str) -> StopPlan:
        plan = plan_from_snapshot(self._session.fleet.jobsets[namespace, name], self._session.fleet)
        return cast("StopPlan", self._session._did("stop_plan", namespace, name, default=plan))


class FakeReleases(FakePart):
    """`console.launch.releases.Releases`: `answers["release_plan"]` is what every release was launched with."""

    async def plan_of_release(self, namespace: str, name: str) -> LaunchPlan:
        plan = LaunchPlan("nccl-all-reduce", name, namespace, {})
        return cast("LaunchPlan", self._session._did("release_plan", namespace, name, default=plan))

    def plan_of_job(self, jobset: JobSet) -> LaunchPlan:
        plan = LaunchPlan(jobset.recipe, jobset.name, jobset.namespace, {})
        return cast("LaunchPlan", self._session._did("plan_of_job", jobset.name, default=plan))


class FakeProfiles:
    """`console.launch.profiles.Profiles` over a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Value]] = {}
        self.chosen = ""

    async def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.kept))

    async def values(self, name: str, recipe: str) -> dict[str, Value]:
        return self.kept[name]

    async def place_variables(self) -> dict[str, str]:
        return {}

    async def default_name(self) -> str:
        return self.chosen


class FakeLaunching:
    """`LaunchService` with its catalogue and launcher in one; set `answers` to the shapes of these."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.runs, self.unsaved, self.catalogue, self.launcher = FakeRuns(session), self, self, lambda: self
        self.job_stopper = FakeStopping(session)
        self.releases = FakeReleases(session)
        self.profiles = FakeProfiles()

    def _answer(self, name: str, asked: object = None) -> Any:
        answer = self._session.answers.get(name, ())
        return answer(asked) if callable(answer) else answer

    recipes = partialmethod(_answer, "recipes")
    fields = partialmethod(_answer, "fields")
    plan_problems = partialmethod(_answer, "problems")
    notes = partialmethod(_answer, "notes")

    async def read_saves(self, recipe: str) -> None:
        self._session._did("saves", recipe)

    def suggest_name(self, recipe: str) -> str:
        return str(self._session.answers.get("suggest_name", f"me-{recipe}"))

    def set_values(self, recipe: str, settings: Sequence[str], lower_values: Mapping[str, Any]) -> Any:
        return self._session._did("set_values", recipe, tuple(settings), default=dict(lower_values))

    async def with_flex_start(self, plan: LaunchPlan) -> LaunchPlan:
        return plan

    @cached_property
    def plan_texts(self) -> Any:
        """Texts of the real chart's recipes; what is rendered is what `answers` say."""
        from console.launch.plan_as_text import PlanTexts

        return PlanTexts(ChartCatalog.from_chart(), self.render)

    def demand(self, plan: LaunchPlan) -> LaunchDemand:
        return demand_of(self.plan_texts._chart_catalog.values(plan), plan.namespace)

    async def render(self, plan: Any) -> Any:
        answer = self._session._did("render", plan, default=())
        return answer(plan) if callable(answer) else answer

    async def find_unsaved(self, namespace: str, name: str) -> str:
        return str(self._session.answers.get("unsaved", ""))

    async def list_unsaved(self, node: str) -> list[str]:
        return list(self._session.answers.get("unsaved_of_node", []))

    async def add_losses(self, outcome: WhatIf) -> WhatIf:
        unsaved = str(self._session.answers.get("unsaved", ""))
        told = (structs.replace(each, lost=unsaved if each.ends_work else "") for each in outcome.consequences)
        return structs.replace(outcome, consequences=tuple(told))

    async def dry_run(self, plan: Any) -> Any:
        if held := self._session.answers.get("hold check"):
            await held.wait()
        return self._session._did("check", plan)

    async def install(self, plan: Any) -> str:
        return str(self._session._did("launch", plan, default="job"))

    async def wait_for_refusal(self, namespace: str, name: str) -> Any:
        return self._session._did("refused_at_start", namespace, name)

    async def stop(self, namespace: str, name: str, only_objects: Collection[str] | None = None) -> StopReport:
        report = StopReport(namespace, name, deleted=(f"JobSet {name}",))
        return cast("StopReport", self._session._did("stop_job", namespace, name, default=report))


class FakeTunnels:
    """`console.attach.tunnel.background.Tunnels` without ports."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.tunnels: list[Tunnel] = []
        self.saved: list[TunnelProfile] = []

    async def open_tunnel(
        self, address: PodAddress, ports: Sequence[str], *, keeps_open: bool = False
    ) -> tuple[Tunnel, list[str]]:
        self._session._did("open_tunnel", address, tuple(ports), keeps_open)
        pairs = [PortPair.parse(each) for each in ports]
        made = Tunnel(
            name=address.slug, namespace=address.namespace, job=address.job_text, rank=address.rank_text,
            context=self._session.context, server="https://here", state="ready", pod="a-pod", since=time.time(),
            listeners=tuple(Listener(each.local or each.remote, each.remote) for each in pairs), kept=keeps_open,
        )  # fmt: skip
        self.tunnels.append(made)
        return made, []

    def opened_here(self) -> list[Tunnel]:
        return [each for each in self.tunnels if not each.kept]

    async def list_tunnels(self) -> tuple[Tunnel, ...]:
        return tuple(self.tunnels)

    async def stop_tunnel(self, name: str) -> Tunnel:
        self._session._did("stop_tunnel", name)
        was = next(each for each in self.tunnels if each.name == name)
        self.tunnels.remove(was)
        return was

    async def list_profiles(self) -> tuple[TunnelProfile, ...]:
        return tuple(self.saved)

    async def save_profile(self, profile: TunnelProfile) -> None:
        self.saved.append(profile)


NONE = NotFound("The cluster of context test is not a GKE cluster.")


class FakeNodePools:
    """What is asked for is kept in `calls`; what is looked at is what `answers` say at that moment."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        real = NodePools(cast("Any", session), cast("Any", None))
        self.with_current_nodes, self.why_not_reportable = real.with_current_nodes, real.why_not_reportable

    last_snapshot: PoolsSnapshot | None = None

    async def read_snapshot(self) -> PoolsSnapshot:
        return cast("PoolsSnapshot", self._session._did("pools", default=NONE))

    async def follow_snapshots(self) -> AsyncGenerator[PoolsSnapshot | ConsoleError, None]:
        try:
            yield await self.read_snapshot()
        except ConsoleError as error:
            yield error
        await asyncio.Event().wait()

    async def resize(self, pool: str, nodes: int) -> GkeOperation:
        return cast("GkeOperation", self._session._did("resize", pool, nodes))

    async def scale_between(self, pool: str, min_nodes: int, max_nodes: int) -> GkeOperation:
        return cast("GkeOperation", self._session._did("scale_between", pool, min_nodes, max_nodes))

    async def report_fault(self, node: str, fault: str) -> None:
        self._session._did("report", node, fault)


class FakeCloud(FakePart):
    """The login at Google."""

    practice_folder = None
    practice = False

    async def enable_service(self, project: str, service: str) -> None:
        self._session._did("enable_service", project, service)


class FakeGoogle:
    """`console.session.Google` over what `answers` say."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.node_pools = FakeNodePools(session)
        self.account = FakeCloud(session)

    async def field_choices(self, kind: str) -> Any:
        return self._session._did("google_offer", kind, default=FieldChoices(kind))


class FakePreflight:
    """Every check is well, unless `found` says otherwise; `held` keeps all from ending, `awaited` is what is told."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.found: dict[str, Check] = {}
        self.held: asyncio.Event | None = None
        self.awaited: tuple[str, ...] = ()

    def launch_needs(self, plan: Any = None, **more: Any) -> Any:
        return plan

    def pending_checks(self, ids: Collection[str] = ()) -> tuple[Check, ...]:
        return tuple(
            Check(each.id, each.title, each.area, Result.COULD_NOT, "", "", each.fix)
            for each in CHECKS
            if not ids or each.id in ids
        )

    async def run(self, needs: Any, check_ids: Collection[str] = ()) -> AsyncGenerator[Check, None]:
        self._session._did("preflight", needs, tuple(check_ids))
        if self.held is not None:
            await self.held.wait()
        for each in CHECKS:
            if not check_ids or each.id in check_ids:
                well = Check(each.id, each.title, each.area, Result.OK, "It is well.", "", each.fix, at=1.0)
                yield self.found.get(each.id, well)

    async def before_launch(self, plan: Any, on_wait: Callable[[tuple[str, ...]], None]) -> tuple[Check, ...]:
        if self.awaited:
            on_wait(self.awaited)
        return tuple([check async for check in self.run(plan)])

    async def recheck_after_repair(self, needs: Any, id_: str) -> Check:
        (check,) = [check async for check in self.run(needs, (id_,))]
        return check

    async def repair(self, repair: Repair) -> str:
        return str(self._session._did("repair", repair, default="Done."))


KINDS = (
    "nodes", "pods", "events", "jobsets", "jobs", "clusterqueues", "localqueues", "workloads",
    "resourceflavors", "topologies", "cohorts",
)  # fmt: skip


def live_links() -> dict[str, WatchStatus]:
    """Every kind live, heard just now."""
    now = time.time()
    return {kind: WatchStatus(kind, WatchState.LIVE, since=now, last_seen=now) for kind in KINDS}


class FakeConnection:
    """To a cluster that is no practice cluster. Each log has these lines; where there are none it may not be read."""

    target = SimpleNamespace(cluster=SimpleNamespace(practice_folder=None))

    def __init__(self, *lines: str) -> None:
        self.client, self._lines, self.arrivals = self, lines, ReceiveTimes()

    @asynccontextmanager
    async def follow(self, *_: object, **__: object) -> AsyncIterator[Any]:
        if not self._lines:
            raise NotAllowed("You may not read logs.")
        yield self

    async def iter_chunks(self) -> AsyncIterator[bytes]:
        yield b"".join(f"{format_time(1.0)} {line}\n".encode() for line in self._lines)

    async def wait_for_keypress_pause(self) -> None:
        """No key is pressed."""

    wait_before_retry = asyncio.sleep


class FakeStream:
    """The log of one container, from `FakeSession.printed`."""

    def __init__(
        self, session: FakeSession, wanted: LogRequest, memory: ResumeCursor, clean: Any, restarts: int
    ) -> None:
        self.state = StreamState.WAITING
        self.gaps: list[tuple[float, float]] = []
        self.complete_until = math.inf
        self.restarts = restarts
        self.cursor = memory
        self.open_line = b""
        self._session, self._wanted, self._clean = session, wanted, clean

    async def run(self, receive: Callable[[list[tuple[float, bytes]]], None]) -> None:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                receive(batch)

    async def batches(self) -> AsyncGenerator[list[tuple[float, bytes]], None]:
        session, wanted = self._session, self._wanted
        session._did("follow_log", wanted.namespace, wanted.pod, wanted.container, wanted.tail)
        key, at, woken = (wanted.namespace, wanted.pod), 0, asyncio.Event()
        session._woken.add(woken)
        logs = session.previous_logs if wanted.previous else session.printed
        if key in session.unread:
            raise session.unread[key]
        if wanted.previous and key not in logs:
            raise NotFound(f"Could not read the log of pod {wanted.pod}: its container has no previous run.")
        if wanted.tail is not None and not self.cursor.last:
            at = max(0, len(logs.get(key, [])) - wanted.tail)
        self.cursor.rewind()
        self.state = StreamState.LIVE
        try:
            while True:
                lines = logs.get(key, [])[at:]
                at += len(lines)
                raws = [f"{format_time(line.time)} {line.text}".encode() for line in lines]
                fresh = self.cursor.drop_repeated(split_timestamps(self._clean(raws)))
                seen, self.open_line = self.open_line, session.drawn.get(key, b"")
                if fresh or self.open_line != seen:
                    yield fresh
                if not lines and (key not in session.running or not wanted.follow):
                    break
                if not lines:
                    await woken.wait()
                    woken.clear()
        finally:
            session._woken.discard(woken)
        self.state = StreamState.ENDED
        if key in session.cuts:
            self.state = StreamState.CUT
            self.gaps.append(session.cuts[key])


class FakeSession:
    """What screens and commands need of a session, kept in memory."""

    def __init__(self, fleet: Fleet | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.context = self.settings.context or "test"
        self.namespace = self.settings.namespace or "default"
        self.read_only = self.settings.read_only
        self.practice = self.settings.practice
        self.unverified = False
        self.default_namespace = "default"
        self.server, self.server_version = "https://server", "v1.36.4"
        self.fleet = self._linked(fleet or Fleet(at=time.time()))
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.answers: dict[str, Any] = {}
        self.printed: dict[tuple[str, str], list[LogLine]] = {}
        self.previous_logs: dict[tuple[str, str], list[LogLine]] = {}
        """Of the container's run before its last restart, as `printed`."""
        self.unread: dict[tuple[str, str], ConsoleError] = {}
        """What asking for the log of a pod ends with."""
        self.drawn: dict[tuple[str, str], bytes] = {}
        self.cuts: dict[tuple[str, str], tuple[float, float]] = {}
        self.running: set[tuple[str, str]] = set()
        self.closed = False
        self.current_connection: Any = FakeConnection()
        """Another one after each switch of the cluster."""
        self.watch = self.own_job_inspector = self
        self.started_kinds = ("jobsets",)
        self.launch = FakeLaunching(self)
        self.tunnels = FakeTunnels(self)
        self.alarms, self.gpus, self.inspector = FakeAlarms(), FakeGpus(), FakeInspector(self)
        history = RunHistory(None)
        self.diagnoses = Diagnoses(lambda: history)
        self.checkpoints = FakeCheckpoints(self)
        self.jobs = FakeJobs(self)
        self.google = FakeGoogle(self)
        self.preflight = FakePreflight(self)
        self.mine = "you"
        """Owner of what the person who looks has launched."""
        self.proof: Proof | None = None  # of every job; None: the history knows those of that owner
        self._woken: set[asyncio.Event] = set()
        self.follow_event = asyncio.Event()  # what is in memory is followed anyway

    async def set_selector(self, kind: str, query: Mapping[str, str]) -> None:
        """All are in memory."""

    def namespace_if_not_default(self, namespace: str) -> str:
        return "" if namespace == self.default_namespace else namespace

    def pause_for_keypress(self) -> None:
        """Nothing comes at the same time."""

    async def me(self) -> str:
        return self.mine

    def format_owner(self, owner: str) -> str:
        return "you" if owner == self.mine else owner

    def proof_of(self, jobset: JobSet) -> Proof:
        own = Proof.LAUNCHED if jobset.owner == self.mine else Proof.NONE
        return own if self.proof is None else self.proof

    async def read_proof(self, jobset: JobSet) -> Proof:
        return self.proof_of(jobset)

    @staticmethod
    def _linked(fleet: Fleet) -> Fleet:
        return fleet if fleet.links else structs.replace(fleet, links=live_links())

    def show(self, fleet: Fleet | None = None, **changes: Any) -> None:
        """Make this the picture: a whole one, or the last one with these fields changed."""
        fleet = structs.replace(self.fleet, at=time.time(), **changes) if fleet is None else fleet
        self.fleet = self._linked(fleet)
        self._wake()

    def _wake(self) -> None:
        for event in self._woken:
            event.set()

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """Arguments of every call of that method, oldest first."""
        return [arguments for each, arguments in self.calls if each == name]

    def _did(self, name: str, *arguments: Any, default: Any = None) -> Any:
        self.calls.append((name, arguments))
        answer = self.answers.get(name, default)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    # the picture

    def contexts(self) -> tuple[ContextName, ...]:
        return tuple(self.answers.get("contexts", (ContextName(self.context, "cluster", self.namespace, True),)))

    async def switch_context(self, *, context: str | None = None, namespace: str | None = None) -> None:
        self._did("switch", context, namespace)
        if context is not None:
            self.context, self.current_connection = context, FakeConnection()
            self._wake()
        self.namespace = namespace or self.namespace

    async def require_namespace(self, name: str) -> None:
        self._did("require_namespace", name)

    async def snapshots(self) -> AsyncIterator[Fleet]:
        woken = asyncio.Event()
        woken.set()
        self._woken.add(woken)
        try:
            while not self.closed:
                await woken.wait()
                woken.clear()
                if not self.closed:
                    yield self.fleet
        finally:
            self._woken.discard(woken)

    async def wait_until_listed(self, *kinds: str, timeout: float = 30, silent: float = 7) -> Fleet:  # noqa: ASYNC109
        self._did("listed", *kinds)
        return self.fleet

    async def close(self) -> None:
        self.closed = True
        self._wake()
        if "logs" in vars(self):
            await self.logs.close()

    async def is_allowed(
        self, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        return bool(self._did("may", verb, resource, group, namespace, name, subresource, default=True))

    # things done

    async def cordon(self, node: str, *, is_cordoned: bool = True, reason: str = "") -> None:
        self._did("cordon", node, is_cordoned, *([reason] if reason else []))

    async def delete_pod(self, namespace: str, name: str) -> None:
        self._did("delete_pod", namespace, name)

    async def manifest(self, kind: str, namespace: str, name: str) -> str:
        return str(self._did("manifest", kind, namespace, name, default=f"kind: {kind}\nmetadata:\n  name: {name}\n"))

    # what there is to choose from

    async def priority_classes(self, names: list[str]) -> dict[str, int]:
        return {"high": 750} if names else {}

    async def read_choices(self) -> Any:
        return self._did("choices", default={})

    # streams

    @cached_property
    def logs(self) -> FakeLogs:
        """The real ones, over streams of `printed`; a key in `running` says that its container has not ended."""
        return FakeLogs(self)

    def _stream(self, wanted: LogRequest, memory: ResumeCursor, clean: Any, restarts: int) -> FakeStream:
        return FakeStream(self, wanted, memory, clean, restarts)

    def say(self, pod: str, *texts: str, namespace: str = "default", at: float = 0.0) -> None:
        """A container that runs prints these."""
        key = namespace, pod
        self.running.add(key)
        self.printed.setdefault(key, []).extend(LogLine(at or time.time(), text) for text in texts)
        self._wake()

    def draw(self, pod: str, picture: str, namespace: str = "default") -> None:
        """A container that runs draws that on a line that has no end."""
        self.running.add((namespace, pod))
        self.drawn[namespace, pod] = picture.encode()
        self._wake()

    def cut(self, pod: str, *, since: float, until: float, namespace: str = "default") -> None:
        """The pod goes while its log cannot be read."""
        self.cuts[namespace, pod] = since, until
        self.end(pod, namespace)

    def end(self, pod: str, namespace: str = "default") -> None:
        """The container ends."""
        self.running.discard((namespace, pod))
        self._wake()

    async def follow_log(
        self, request: LogRequest, cursor: ResumeCursor | None = None, *, drawn: bool = False
    ) -> AsyncGenerator[list[LogLine], None]:
        """Those of `printed`; a key in `running` says that its container has not ended."""
        self._did("follow_log", *structs.astuple(request)[:4], 0.0, request.previous, request.follow)
        key, at, woken, connected = (request.namespace, request.pod), 0, asyncio.Event(), self.current_connection
        self._woken.add(woken)
        try:
            if cursor is None or not cursor.last:
                at = max(0, len(self.printed.get(key, [])) - request.tail) if request.tail else 0
            if cursor is not None:
                cursor.rewind()
            while True:
                lines = self.printed.get(key, [])[at:]
                at += len(lines)
                for line in lines:
                    stamp = line.time, f"{format_time(line.time)} {line.text}".encode()
                    if (drawn or not line.open) and (cursor is None or cursor.drop_repeated([stamp])):
                        yield [line]
                if self.closed or self.current_connection is not connected:
                    raise Unreachable("The connection to this cluster was closed.", "Open the page again.")
                if not lines and (key not in self.running or not request.follow):
                    break
                if not lines:
                    await woken.wait()
                    woken.clear()
                await asyncio.sleep(0)
        finally:
            self._woken.discard(woken)

    async def read_text(self, _: Any, request: LogRequest) -> AsyncGenerator[tuple[str, str], None]:
        async with aclosing(self.follow_log(request, drawn=True)) as batches:
            async for (line,) in batches:
                yield ("", line.text) if line.open else (f"{line.text}\n", "")

    async def exec(
        self, namespace: str, pod: str, argv: Sequence[str], *, container: str = "",
        stdin: bytes | AsyncIterator[bytes] | None = None, on_output: Callable[[int, bytes], None],
    ) -> int:  # fmt: skip
        answer = self._did("exec", namespace, pod, tuple(argv), container, default=(0, b"", b""))
        code, out, err = answer
        for fd, data in ((1, out), (2, err)):
            if data:
                on_output(fd, data)
        return int(code)

    async def shell(
        self, namespace: str, pod: str, *, container: str = "", argv: Sequence[str] = (), tmux: bool = True,
        name: str = "",
    ) -> int:  # fmt: skip
        return int(self._did("shell", namespace, pod, container, tuple(argv), default=0))

    @property
    def copies(self) -> FakeCopies:
        return FakeCopies(self)

    @property
    def container_exec(self) -> FakeInside:
        return FakeInside(self)

    @cached_property
    def measures(self) -> MeasureService:
        """The real ones, over `printed`."""
        place = logs_folder().parent / "nccl-tests.jsonl"
        return MeasureService(cast("Any", self), lambda: self.logs, lambda: cast("Any", self.launch.runs), path=place,
                        read_tail=self._read_tail)  # fmt: skip

    @cached_property
    def forecasts(self) -> StartForecast:
        """The real ones."""
        return FakeForecast(
            cast("Any", self),
            lambda: self.measures.progress_reader,
            lambda: cast("Any", self.launch.runs.earlier_runs),
            logs_folder().parent,
        )

    async def _read_tail(self, pod: Pod, lines: int) -> list[LogLine]:
        self._did("read_tail", pod.namespace, pod.name, lines)
        return self.printed.get(pod.key, [])[-lines:]


class FakeJobs(SessionJobs):
    """The real ones; `answers["has_checkpoint"]` goes before what they know."""

    def __init__(self, session: FakeSession) -> None:
        super().__init__(lambda: session.measures)
        self._answers = session.answers
        self.alarms, self.inspector = cast("Any", session.alarms), cast("Any", session.inspector)
        self.checkpoints = cast("Any", session.checkpoints)

    def has_checkpoint(self, jobset: JobSet) -> bool | None:
        answer = self._answers.get("has_checkpoint")
        return super().has_checkpoint(jobset) if answer is None else bool(answer)


class FakeForecast(StartForecast):
    """The real ones; `answers["launch_start"]` is a function that gives the start of a launch."""

    async def launch_start(self, demand: LaunchDemand) -> ExpectedStart | None:
        answer = cast("Any", self._cluster).answers.get("launch_start")
        return await answer(demand) if answer else await super().launch_start(demand)


class FakeLogs(LogService):
    """The real ones, over what containers of a FakeSession print."""

    def __init__(self, session: FakeSession, folder: Path | None = None) -> None:
        super().__init__(cast("Any", session), cast("Any", session._stream), folder or logs_folder())
        self._session = session

    def follow_pod(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.follow_log(*args, **kwargs)


class FakeCopies(FakePart):
    """Copies: `answers["fetch"]` and `["send"]` are reports or errors, `answers["progress"]` what is told before."""

    def for_container(
        self, namespace: str, pod: str, *, container: str = "", label: str = "", method: Any = None
    ) -> FakeContainerCopies:
        return FakeContainerCopies(self._session, namespace, pod, container)


class FakeContainerCopies:
    def __init__(self, session: FakeSession, namespace: str, pod: str, container: str) -> None:
        self._session = session
        self._place, self._container = (namespace, pod), container

    async def fetch(self, source: str, target: str, *, progress: Callable[[Any], None] = lambda _: None) -> Any:
        return await self._copied("fetch", progress, *self._place, source, target, self._container)

    async def send(self, source: Any, target: str, *, progress: Callable[[Any], None] = lambda _: None) -> Any:
        return await self._copied("send", progress, *self._place, str(source), target, self._container)

    async def _copied(self, name: str, progress: Callable[[Any], None], *arguments: str) -> Any:
        for each in self._session.answers.get("progress", ()):
            progress(each)
            await asyncio.sleep(0)
        if held := self._session.answers.get("hold"):
            await held.wait()
        return self._session._did(name, *arguments)


class FakeInside(FakePart):
    """Ranks that run commands: `answers["exec"]` is (code, output, errors), or a function of the rank's number."""

    async def run_in_ranks(
        self, ranks: Sequence[Any], argv: Sequence[str], *, container: str = "", concurrency: int = 16,
        limit: float = 60, on_output: Callable[[int, int, bytes], None] = lambda *_: None,
        on_end: Callable[[Any], None] = lambda _: None,
    ) -> tuple[Any, ...]:  # fmt: skip
        from console.attach.exec_many import RankOutput

        self._session._did("everywhere", tuple(each.number for each in ranks), tuple(argv), container)
        answer = self._session.answers.get("exec", (0, b"", b""))
        found = []
        for rank in ranks:
            code, out, err = answer(rank.number) if callable(answer) else answer
            result = RankOutput(rank.number, rank.name, rank.node, code, (out + err).decode(), err.decode())
            on_end(result)
            found.append(result)
            await asyncio.sleep(0)
        return tuple(found)

    async def run_quick_nccl_test(
        self, pod: Any, test: Any, *, on_output: Callable[[int, bytes], None], grown: Callable[[Any], None],
        container: str = "", limit_seconds: float = 60,
    ) -> None:  # fmt: skip
        from trainlog import NcclParser

        parser = NcclParser()
        on_output(2, b"a recording\n")
        for piece in self._session._did("quick_nccl", pod.name, test.first_size, test.last_size):
            for found in parser.feed(piece):
                grown(found)
            await asyncio.sleep(0)


def fleet_of(*objects: Any, **links: WatchStatus) -> Fleet:
    """A picture of these objects, each put where its type belongs; links are live but for those named."""
    from console.kube.objects.event import Event
    from console.kube.objects.jobset import Job, JobSet
    from console.kube.objects.node import Node
    from console.kube.objects.pod import Pod
    from console.kube.objects.queue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology
    from console.kube.objects.workload import Workload

    places: dict[type, str] = {
        Node: "nodes", Pod: "pods", Event: "events", JobSet: "jobsets", Job: "jobs", ClusterQueue: "cluster_queues",
        LocalQueue: "local_queues", Workload: "workloads", ResourceFlavor: "flavors", Topology: "topologies",
        Cohort: "cohorts",
    }  # fmt: skip
    found: dict[str, Any] = {}
    for each in objects:
        found.setdefault(places[type(each)], {})[getattr(each, "namespace", ""), each.name] = each
    return Fleet(at=time.time(), links={**live_links(), **links}, **found)
