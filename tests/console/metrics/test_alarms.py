"""All running jobs are watched by a bounded number of logs: what is heard, what is said of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from msgspec import structs

from console.alarm_thresholds import Thresholds
from console.errors import NotAllowed
from console.kube.objects.meta import Condition
from console.kube.objects.pod import Pod
from console.logs.log_line import LogLine
from console.metrics import job_monitor
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmKind
from console.metrics.alarm_rules import OLD_LINES_AT_FIRST_SECONDS
from console.metrics.alarm_service import AlarmService
from console.metrics.gpu_metrics import DCGM, Gpu, GpuBoard, GpuSource, PodGpus
from console.metrics.job_measures import CatchUp
from console.metrics.job_monitor import INSPECTION_PAUSE, REPORTER_QUIET_SECONDS, JobMonitor, MonitorSources
from console.metrics.progress_reader import NanOnsetFinder
from console.metrics.time_spans import SpanKind
from console.metrics.training_run import Slowdown
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

EIGHT_STEPS = [f"step {number}/900 | loss 2.5 | lr 1e-4" for number in range(1, 9)]


class Log:
    """The log of a pod that goes on for ever."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._cluster, self._pod = cluster, pod
        self.complete_until = inf
        self.open_line, self.is_lagging = b"", pod.name in cluster.flooded

    async def batches(self) -> AsyncGenerator[list[tuple[float, bytes]], None]:
        cluster, name = self._cluster, self._pod.name
        if name in cluster.refused:
            raise NotAllowed("pods/log is forbidden.")
        cluster.open.append(name)
        try:
            if lines := cluster.lines.get(name):
                yield [(cluster.began + at / 1000, line.encode()) for at, line in enumerate(lines)]
            for self.open_line in cluster.bars:
                yield []
            await asyncio.Event().wait()
        finally:
            cluster.open.remove(name)


class Cluster:
    """A watched cluster whose jobs have two ranks each, and the logs of its pods."""

    def __init__(self, *names: str) -> None:
        self.jobs = [jobset(name, 2) for name in names]
        self.began = time.time()
        self.open: list[str] = []
        self.refused: set[str] = set()
        self.flooded: set[str] = set()
        self.lines: dict[str, list[str]] = {}
        self.bars: list[bytes] = []
        self.whole: dict[str, list[str]] = {}
        self.read_back: list[str] = []
        self.exporter = ""
        self.board = GpuBoard()
        self.show()

    def show(self) -> None:
        pods = [rank(job, number, f"node-{number}") for job in self.jobs for number in range(2)]
        self.fleet = fleet_of(*self.jobs, *pods)

    def alarm_monitor(self, **thresholds: Any) -> AlarmService:
        gpus = SimpleNamespace(exporter_of=lambda *_: self.exporter, read_once=self.read_gpus)
        limits = structs.replace(Thresholds(), **thresholds)
        reader = SimpleNamespace(progress_of=lambda _: None, nan_finder=NanOnsetFinder(self.read_tail))
        measures = SimpleNamespace(pass_line=250.0, light={}, progress_reader=reader)
        sources = MonitorSources(
            cast("Any", self), lambda: cast("Any", measures), cast("Any", lambda: gpus),
            open_log=lambda _, pod: cast("Any", Log(self, pod)),
        )  # fmt: skip
        return AlarmService(sources, limits)

    def missing_seconds(self, *_: str) -> float:
        return 0.0

    async def read_gpus(self, namespace: str, name: str, *, source: GpuSource) -> GpuBoard:
        assert source == DCGM
        return self.board

    async def read_tail(self, pod: Pod, lines: int) -> list[LogLine]:
        self.read_back.append(pod.name)
        return [LogLine(1000.0 + at, text) for at, text in enumerate(self.whole.get(pod.name, ())[-lines:])]


def pod(job: str, number: int) -> str:
    return f"{job}-workload-0-{number}-x7k{number}"


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def rounds(patrol: AlarmService) -> None:
    for _ in range(2):
        await patrol.update_jobs()
        await settled()


async def test_the_first_and_the_last_rank_then_the_one_that_tells() -> None:
    cluster = Cluster("a")
    cluster.lines[pod("a", 1)] = EIGHT_STEPS
    patrol = cluster.alarm_monitor()
    await patrol.update_jobs()
    await settled()
    assert sorted(cluster.open) == [pod("a", 0), pod("a", 1)]
    await rounds(patrol)
    assert cluster.open == [pod("a", 1)]
    (job,) = patrol.jobs.values()
    assert job.watch.silence_subject == "pod 1 has not"
    job.watch.line_at -= 2 * REPORTER_QUIET_SECONDS
    await rounds(patrol)
    assert sorted(cluster.open) == [pod("a", 0), pod("a", 1)], "another program may print on the other pod"
    assert job.watch.silence_subject == "neither pod 0 nor pod 1 has"
    await patrol.close()
    assert cluster.open == []


async def test_a_log_that_is_closed_while_its_lines_are_taken_goes_on_after_the_last_one_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = 0

    class Slices:
        async def pause(self) -> None:
            nonlocal pauses
            pauses += 1
            if pauses == 3:
                raise asyncio.CancelledError  # as when another job gets the stream

    monkeypatch.setattr(job_monitor, "WorkSlices", Slices)
    monkeypatch.setattr(job_monitor, "LOG_RETRY_SECONDS", 0.0)
    cluster = Cluster("a")
    cluster.lines[pod("a", 0)] = lines = [f"step {number}/900 | loss 2.5 | lr 1e-4" for number in range(1, 101)]
    patrol = cluster.alarm_monitor()
    await patrol.update_jobs()
    await settled()
    (job,) = patrol.jobs.values()
    assert len(job.measures.last_lines(200)) == 3 * job_monitor.BATCH_LINES
    await asyncio.sleep(0.001)
    await rounds(patrol)
    assert job.measures.last_lines(200) == lines
    await patrol.close()


async def test_an_alarm_says_since_when_the_loss_is_lost_though_only_the_end_of_its_log_is_followed() -> None:
    """The words of the list of jobs, which reads back as far; the log is read back once, and by nobody twice."""
    cluster = Cluster("a")
    steps = [f"step {at}/900 | loss {'nan' if at >= 118 else '2.5'} | lr 1e-4" for at in range(1, 732)]
    cluster.whole[pod("a", 1)], cluster.lines[pod("a", 1)] = steps, steps[-400:]
    patrol = cluster.alarm_monitor()
    for _ in range(100):
        await patrol.update_jobs()
        await asyncio.sleep(0.01)
        if patrol.latest_alarms:
            break
    (alarm,) = patrol.latest_alarms
    assert alarm.words == "loss is NaN since step 118 (last good 2.5 at 117)"
    assert alarm.since == 1117.0, "as whoever read the whole log says"
    await rounds(patrol)
    assert cluster.read_back == [pod("a", 1)]
    await patrol.close()


@pytest.mark.parametrize("own", [True, False])
async def test_nvidia_smi_runs_unasked_in_pods_of_ones_own_job_only(*, own: bool) -> None:
    ran: list[str] = []

    async def read_once(*_: str, source: GpuSource = "") -> GpuBoard:
        ran.append(source)
        return GpuBoard()

    async def find_own_job(_: tuple[str, str]) -> None:
        if not own:
            raise NotAllowed("mira launched it")

    gpus, no = SimpleNamespace(exporter_of=lambda *_: "dcgm-exporter-x", read_once=read_once), cast("Any", None)
    sources = MonitorSources(no, no, cast("Any", lambda: gpus), find_own_job=find_own_job)
    reading = asyncio.create_task(JobMonitor(("default", "a"), Thresholds(), sources)._read_gpus_periodically())
    await settled()
    reading.cancel()
    assert ran == ([DCGM, ""] if own else [DCGM])


async def test_what_exporters_tell_of_the_gpus_is_kept_with_what_the_log_tells() -> None:
    cluster = Cluster("a")
    cluster.exporter = "dcgm-exporter-x"
    cluster.board = GpuBoard((PodGpus(0, pod("a", 0), "node-0", (Gpu(0, utilization=97, xid=79),), 1.0, DCGM),))
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    assert job.measures.gpus == cluster.board.ranks
    assert [alarm.kind for alarm in patrol.latest_alarms] == [AlarmKind.GPU]
    await patrol.close()


async def test_a_job_whose_log_nobody_follows_any_more_does_not_count_as_hanging() -> None:
    cluster = Cluster("a")
    cluster.lines[pod("a", 0)] = EIGHT_STEPS
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    later = cluster.began + 100
    last = job.list_spans(later)[-1]
    assert (last.kind, last.last, last.end) == (SpanKind.LATE, 9, later)
    job.update_streams(0)
    assert job.list_spans(later)[-1].kind is SpanKind.STEPS
    await patrol.close()


@pytest.mark.parametrize("bars", [[], [b" 10%|# | 1/9"]])
async def test_a_bar_that_is_drawn_is_a_sign_of_life(bars: list[bytes]) -> None:
    cluster = Cluster("a")
    cluster.bars = bars
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    assert job.watch.has_lines == bool(bars)
    await patrol.close()


async def test_never_more_logs_than_may_be_and_the_others_are_reported() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.jobs[1] = structs.replace(
        cluster.jobs[1], groups=(structs.replace(cluster.jobs[1].groups[0], gpus_per_pod=9),)
    )
    cluster.show()
    patrol = cluster.alarm_monitor(streams=3)
    await rounds(patrol)
    assert len(cluster.open) == 3
    assert {pod("b", 0), pod("b", 1)} < set(cluster.open), "the largest job comes first"
    assert patrol.coverage == AlarmCoverage(3, 2, 3)
    assert patrol.coverage.words == (
        "Alarms watch 2 of 3 running jobs; the other: only restarts and failures are watched (at most 3 logs are "
        "followed)."
    )
    (unheard,) = (key for key, job in patrol.jobs.items() if not job.is_followed)
    at = next(at for at, job in enumerate(cluster.jobs) if job.key == unheard)
    failed = Condition("Failed", "True", "FailedJobs", "jobset failed", time.time())
    cluster.jobs[at] = structs.replace(cluster.jobs[at], conditions=(failed,), terminal_state="Failed")
    cluster.show()
    await rounds(patrol)
    (alarm,) = patrol.latest_alarms
    assert (alarm.kind, (alarm.namespace, alarm.job)) == (AlarmKind.FAILED, unheard)
    assert patrol.coverage.words == "Alarms watch 2 of 2 running jobs."
    await patrol.close()


async def test_what_may_not_be_read_is_reported() -> None:
    cluster = Cluster("a")
    cluster.refused = {pod("a", 0), pod("a", 1)}
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    assert "Alarms watch 0 of 1 running job; the other" in patrol.coverage.words
    assert "(pods/log is forbidden)" in patrol.coverage.words
    await patrol.close()


async def test_another_namespace_and_opened_jobs_are_left_alone() -> None:
    cluster = Cluster("a", "b")
    patrol = cluster.alarm_monitor()
    patrol.jobs["default", "a"] = opened = JobMonitor(("default", "a"), Thresholds(), patrol._sources)
    opened._following = asyncio.create_task(asyncio.sleep(60))
    await rounds(patrol)
    assert sorted(cluster.open) == [pod("b", 0), pod("b", 1)]
    assert patrol.coverage.words == "Alarms watch 2 of 2 running jobs."
    patrol.namespace = "team-b"
    await rounds(patrol)
    assert (cluster.open, patrol.coverage.words) == ([], "No job runs.")
    await patrol.close()


@pytest.mark.parametrize("streams", [0, 32])
async def test_no_log_at_all_may_be_wished(streams: int) -> None:
    cluster = Cluster("a")
    patrol = cluster.alarm_monitor(streams=streams)
    await rounds(patrol)
    assert len(cluster.open) == min(2, streams)
    await patrol.close()


async def test_whoever_takes_over_goes_on_with_the_alarms_and_tells_none_twice() -> None:
    cluster = Cluster("a")
    cluster.lines[pod("a", 0)] = ["step 1/900 | loss 2.5", "step 2/900 | loss nan"]
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    assert [alarm.kind for alarm in patrol.latest_alarms] == [AlarmKind.NAN]
    watch = patrol.jobs["default", "a"].watch
    assert patrol._begin_job(("default", "a"), patrol._sources).watch is watch
    before, now = watch._last, time.time()
    assert before is not None
    assert watch.evaluate(now, structs.replace(before, nan="")) == [], "who has not read anything yet knows of no end"
    assert [alarm.kind for alarm in watch.active] == [AlarmKind.NAN]
    watch.evaluate(now + OLD_LINES_AT_FIRST_SECONDS + 1, structs.replace(before, step=3, nan=""))
    assert watch.active == ()
    await patrol.close()


async def stalled(cluster: Cluster, look: Any, **thresholds: Any) -> AlarmService:
    """A monitor of a job that has made no step for a day."""
    cluster.lines[pod("a", 1)] = EIGHT_STEPS
    patrol = cluster.alarm_monitor(**thresholds)
    patrol._background_sources = replace(patrol._background_sources, inspect=look)
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    turn_back(job)
    await rounds(patrol)
    return patrol


def turn_back(job: JobMonitor, *more: str) -> None:
    """What it has read of a job was read a day ago."""
    for name in ("_begun", "_reading_since", "step_at", "line_at", *more):
        setattr(job.watch, name, getattr(job.watch, name) - 86_400)


async def test_no_step_is_late_while_the_log_of_before_is_read_on_a_page_that_was_opened() -> None:
    """Where a page begins to read the whole log, its newest step so far is an old one."""
    cluster = Cluster("a")
    cluster.lines[pod("a", 1)] = EIGHT_STEPS
    patrol = cluster.alarm_monitor()
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    turn_back(job, "_old_line_at")
    found: list[list[AlarmKind]] = []
    for catch_up in (CatchUp(), job.measures.catch_up):
        job.measures.catch_up = catch_up
        if not found:
            catch_up.begin()
        evaluating = asyncio.create_task(job._evaluate_periodically())
        await asyncio.sleep(0.05)
        evaluating.cancel()
        found.append([alarm.kind for alarm in job.watch.active])
    assert found == [[], [AlarmKind.STALL]]
    await patrol.close()


async def test_a_job_that_has_stalled_is_inspected_by_itself_and_again_after_growing_pauses() -> None:
    asked: list[tuple[str, str]] = []

    async def inspect(key: tuple[str, str]) -> None:
        asked.append(key)

    patrol = await stalled(Cluster("a"), inspect)
    assert [each.kind for each in patrol.latest_alarms] == [AlarmKind.STALL]
    await rounds(patrol)
    assert asked == [("default", "a")]
    (job,) = patrol.jobs.values()
    look, begun = job._sample_job({}), job._inspected_at
    for pauses, number in ((0.9, 1), (1.1, 2), (3.1, 2), (3.4, 3), (7.5, 3), (8.1, 4)):
        job._evaluate_alarms(begun + pauses * INSPECTION_PAUSE, look)
        await asyncio.sleep(0)
        assert len(asked) == number
    await patrol.close()
    patrol = await stalled(Cluster("a"), inspect, inspect=False)
    assert [each.kind for each in patrol.latest_alarms] == [AlarmKind.STALL]
    assert len(asked) == 4
    await patrol.close()


async def test_a_job_that_is_late_is_inspected_before_that_is_an_alarm_and_once_more_if_nobody_is_blamed() -> None:
    asked: list[tuple[str, str]] = []

    async def inspect(key: tuple[str, str]) -> None:
        asked.append(key)

    patrol = await stalled(Cluster("a"), inspect, stall=2 * 86_400, silent=2 * 86_400)
    assert patrol.latest_alarms == []
    (job,) = patrol.jobs.values()
    assert job.watch.late_text.startswith("no step for ")
    await rounds(patrol)
    assert len(asked) == 1, "one look for each time that it is late"
    for name in ("_begun", "_reading_since", "step_at", "line_at"):
        setattr(job.watch, name, getattr(job.watch, name) - 2 * 86_400)
    await rounds(patrol)
    assert [each.kind for each in patrol.latest_alarms] == [AlarmKind.STALL]
    await rounds(patrol)
    assert len(asked) == 2
    await patrol.close()


async def test_why_it_could_not_be_inspected_stands_beside_the_alarm() -> None:
    async def inspect(key: tuple[str, str]) -> None:
        raise NotAllowed("pods/exec is forbidden.")

    patrol = await stalled(Cluster("a"), inspect)
    await rounds(patrol)
    (alarm,) = patrol.latest_alarms
    assert alarm.more == "not inspected: pods/exec is forbidden"
    await patrol.close()


@pytest.mark.parametrize("inspect", [True, False])
async def test_of_a_job_whose_steps_become_slower_nccl_is_asked_once(inspect: bool) -> None:
    cluster, asked = Cluster("a"), list[tuple[tuple[str, str], float | None]]()

    async def find_late_rank(key: tuple[str, str], step_time: float | None) -> None:
        asked.append((key, step_time))
        raise NotAllowed("pods/exec is forbidden.")

    steps = [
        f"step {number}/900 | loss 2.5 | time per step: {2.0 if number < 200 else 3.0}s" for number in range(1, 400)
    ]
    cluster.lines[pod("a", 0)] = steps
    patrol = cluster.alarm_monitor(inspect=inspect)
    kept = list[Slowdown | None]()

    async def store_slowdown(_: str, slowdown: Slowdown | None) -> None:
        kept.append(slowdown)

    patrol._background_sources = replace(
        patrol._background_sources, find_late_rank=find_late_rank, store_slowdown=store_slowdown
    )
    await rounds(patrol)
    (job,) = patrol.jobs.values()
    end = time.monotonic() + 20
    while (track := job.measures.track) is None or len(track) < 399:  # hundreds of lines are read in turns
        assert time.monotonic() < end
        await rounds(patrol)
    assert track.finder.slowdown is not None
    assert track.finder.slowdown.words.startswith("steps take 50 % longer since ")
    await rounds(patrol)
    await rounds(patrol)
    assert asked == ([(("default", "a"), 3.0)] if inspect else [])
    assert kept == [track.finder.slowdown]
    assert patrol.latest_alarms == []
    await patrol.close()


def test_alarms_of_another_namespace_are_not_those_of_the_one_that_is_watched() -> None:
    found = [Alarm(AlarmKind.STALL, "no step for 2 min", 1000.0, space, "train") for space in ("default", "team-b")]
    service = AlarmService(MonitorSources(*[cast("Any", None)] * 3), Thresholds())
    service.namespace, service._past_alarms = "default", found
    assert service.latest_alarms == found[:1]
    assert service.history_of("team-b", "train") == (found[1],)


async def test_of_opened_jobs_that_have_ended_the_latest_four_are_kept() -> None:
    service = Cluster("a").alarm_monitor()
    for at in range(5):
        ended = SimpleNamespace(key=("default", f"e{at}"), has_started=True, has_ended=at > 0, close=AsyncMock())
        service.jobs[ended.key] = cast("Any", ended)
        ended.watch = SimpleNamespace(alarms=[])
    service.watch_job("default", "a")
    assert [name for _, name in service.jobs] == ["e0", "e1", "e2", "e3", "e4", "a"]
    cast("Any", service.jobs["default", "e0"]).has_ended = True
    service.watch_job("default", "b")
    assert [name for _, name in service.jobs] == ["e1", "e2", "e3", "e4", "a", "b"]
    await service.close()
