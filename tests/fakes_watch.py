"""What watches jobs, without a cluster: alarms, GPUs and the inspection of a job as the test sets them.

session.alarms.sound("default", "job", AlarmKind.NAN, "no loss printed at 118")
session.gpus.board = GpuBoard(...)
session.inspector.report = HangReport(...)
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from console.checkpoints.saved import SavedState
from console.config import Thresholds
from console.kube.find_job import find_job
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmKind, AlarmReport
from console.metrics.diagnosis import diagnose_slow_ranks
from console.metrics.gpu_metrics import GpuBoard
from console.metrics.job_monitor import JobMonitor
from rankscope import HangReport, SlowReport, TorchAnalysis, TracedProcess
from trainlog import PASS_LINE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from console.metrics.alarm_rules import AlarmWatch
    from console.metrics.gpu_metrics import Source
    from tests.fakes import FakeSession


def monitor(key: tuple[str, str], watch: AlarmWatch | None = None) -> JobMonitor:
    """One that reads nothing by itself."""
    sources = SimpleNamespace(cluster=None, measures=lambda: SimpleNamespace(pass_line=PASS_LINE))
    return JobMonitor(key, Thresholds(), cast("Any", sources), watch)


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

    def active_alarms(self, namespace: str, name: str) -> tuple[Alarm, ...]:
        return tuple(
            each for each in self.latest_alarms if (each.namespace, each.job) == (namespace, name) and each.is_active
        )

    def history_of(self, namespace: str, name: str, since: float = 0.0) -> tuple[Alarm, ...]:
        return tuple(each for each in self.latest_alarms if (each.namespace, each.job) == (namespace, name))

    def late_text(self, namespace: str, name: str) -> str:
        return self.late_steps.get((namespace, name), "")

    def unknown_text(self, namespace: str, name: str) -> str:
        return ""

    def verdict(self, namespace: str, name: str) -> str:
        return self.verdicts.get((namespace, name), "")

    def follows_steps(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self.late_steps

    @asynccontextmanager
    async def open_monitor(self, namespace: str, name: str) -> AsyncIterator[JobMonitor]:
        yield self.watched.setdefault(
            (namespace, name),
            monitor((namespace, name)),
        )

    async def check_job(self, namespace: str, name: str, seconds: float) -> AlarmReport:
        return AlarmReport(
            self.active_alarms(namespace, name), self.late_text(namespace, name), self.refused, unread=self.unread
        )

    def take_new(self) -> list[Alarm]:
        news, self._news = self._news, []
        return news


class FakeGpus:
    def __init__(self) -> None:
        self.board = GpuBoard()
        self.readers = 0
        self.exporter = ""
        self.source: Source = ""

    def exporter_of(self, namespace: str, name: str) -> str:
        return self.exporter

    async def follow_boards(self, namespace: str, name: str, *, source: Source = "") -> AsyncGenerator[GpuBoard, None]:
        self.readers, self.source = self.readers + 1, source
        try:
            yield self.board
            await asyncio.Event().wait()
        finally:
            self.readers -= 1

    async def read_once(self, namespace: str, name: str, *, source: Source = "") -> GpuBoard:
        return self.board


class FakeCheckpoints:
    """`console.checkpoints.reader.CheckpointReader`: what it reads is `state`, once it is asked."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.state = SavedState(0.0, problem="Nothing was set.")
        self.known: dict[tuple[str, str], SavedState] = {}

    async def read_job(self, namespace: str, name: str) -> SavedState:
        self._session._did("checkpoints", namespace, name)
        self.known[namespace, name] = self.state
        return self.state


class FakeInspector:
    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.report = HangReport("job", (), ())
        self.slow_report = SlowReport()
        self.analysis: TorchAnalysis | None = None
        self.reports: dict[tuple[str, str], HangReport] = {}
        self.slow_reports: dict[tuple[str, str], SlowReport] = {}

    async def find_slow_ranks(self, namespace: str, name: str, seconds: float, *, recorder: bool = False) -> SlowReport:
        self._session._did("slow with recorders" if recorder else "slow", namespace, name)
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
        recorder: bool = True,
        answered: Callable[[int, int], None] = lambda *_: None,
    ) -> HangReport:
        find_job(self._session.fleet, namespace, name)
        self._session._did("inspect all stacks" if all_stacks else "inspect", namespace, name)
        answered(1, 1)
        return self.report

    async def add_torch_analysis(self, _namespace: str, _name: str, report: HangReport) -> HangReport:
        return replace(report, analysis=self.analysis) if self.analysis is not None else report

    async def install_py_spy(self, namespace: str, name: str, pods: Sequence[str]) -> dict[str, str]:
        return self._session._did("install", tuple(pods), default=dict.fromkeys(pods, "")) or {}

    async def record_profile(
        self, namespace: str, name: str, process: TracedProcess, py_spy: str, seconds: float, place: Path
    ) -> int:
        self._session._did("record", process.rank, seconds, str(place))
        return 7

    async def read_process_fact(self, namespace: str, name: str, process: TracedProcess, what: str) -> Any:
        return self._session._did("process_facts", process.rank, what, default=f"{what} of it")
