"""A job has one verdict at any moment: every place tells the same state, reason, pod and exit code.

A forecast of what waits for it ends it only where it ends by itself, and else has its verdict too.
What its pods print is what the practice cluster's programs print with each of its faults; no cluster is started.
"""

import random
import re
import time
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import AsyncMock

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.alarm_thresholds import Thresholds
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import GPU, Condition
from console.kube.objects.pod import Container
from console.kube.objects.queue import LocalQueue, Quota, ResourceFlavor
from console.kube.snapshot import Fleet
from console.launch.run_figures import latest_figures
from console.launch.run_record import Outcome, RunRecord, finish_record, update_from_cluster, update_seen
from console.logs.log_line import LogLine, PodLine
from console.metrics.alarm import AlarmKind, AlarmReport
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.metrics.health import JobHealth
from console.metrics.job_measures import JobMeasures, LogReader
from console.metrics.job_monitor import sample_job
from console.metrics.job_progress import JobProgress, progress_of_measures
from console.metrics.progress_reader import JobProgressReader
from console.scheduling.run_times import RunTime
from console.scheduling.start_simulation import expected_starts
from console.scheduling.start_windows import MIN_ROLLOUTS, start_windows, with_windows
from practice.programs.choose_program import RECIPES
from practice.programs.fault_settings import KINDS
from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, SharedFacts
from screens.cli.job_arguments import health_code
from screens.cli.wait_and_alarms import _final_outcome, parse_conditions
from screens.cli.why import _words
from screens.columns.job_header import explanation, head, why_no_step
from screens.columns.jobs import JobLine, reason_cell, start_words, state_cell
from screens.columns.live_jobs import alarm_by_log
from screens.columns.runs import RUNS, outcome_cell
from screens.widgets.job_pane import job_lines
from screens.wording import spans_of
from tests.fakes import fleet_of, present
from tests.screens.queue_scene import claim, cluster_queue
from tests.screens.scene import jobset, rank
from trainlog import PASS_LINE

FOREVER = 10.0**6
SLOW_RANK = Diagnosis("uid", DiagnosisKind.SLOW, time.time() - 60, "rank 9: the others wait for it", "waits for rank 9")
CUDA = "CUDA error: an illegal memory access was encountered"


class Case(NamedTuple):
    fault: str
    recipe: str
    state: str
    reason: str = ""
    code: int | None = None  # exit code of the program
    alarm: AlarmKind | None = None
    why: int = 0  # exit code of `a4 why`
    kept: bool = False
    quiet: float = 5.0  # seconds since the last line
    steps: int = 1000  # after which the log is cut, for what is looked at while it runs
    pod: int = 0  # of which log and end are, the last of its job


CASES = (
    Case("", "swift-dpo", "succeeded", code=0, quiet=900),
    Case("", "swift-dpo", "succeeded", "pods kept, 8 GPUs idle since 15 min", 0, AlarmKind.KEPT, 0, True, 900),
    Case("", "nccl-all-reduce", "succeeded", "pods kept, 8 GPUs idle since 15 min", 0, AlarmKind.KEPT, 0, True, 900),
    Case("fail:5", "swift-dpo", "failed", CUDA, 1, AlarmKind.FAILED, 1),
    Case("fail:5", "swift-dpo", "failed", CUDA, 1, AlarmKind.KEPT, 1, True, 900),
    Case("fail:5", "swift-dpo", "failed", "pods kept, 8 GPUs idle since 15 min", 1, AlarmKind.KEPT, 1, True, 900),
    Case("oom:5", "swift-dpo", "failed", "OOMKilled", 137, AlarmKind.FAILED, 1),
    Case("wrong:5", "nccl-all-reduce", "failed", "12 wrong values at 64 MiB", 1, AlarmKind.FAILED, 1),
    Case("wrong:5", "nccl-all-reduce", "failed", "12 wrong values at 64 MiB", 1, AlarmKind.KEPT, 1, True, 900),
    Case("nan:20", "swift-dpo", "diverged", "NaN since step 20", None, AlarmKind.NAN, 5, steps=30),
    Case("nan:20", "swift-dpo", "diverged", "NaN since step 20", 0, AlarmKind.NAN, 5, quiet=60),
    Case("nan:20", "swift-dpo", "diverged", "NaN since step 20", 0, AlarmKind.NAN, 5, True, 900),
    Case("hang:20", "swift-dpo", "stalled", "no step for 5 min after step 19", None, AlarmKind.STALL, 5, quiet=300),
    Case("hang:1", "swift-dpo", "running", "in its first step (stage 9 train) since 40 s", quiet=40),
    Case("hang:5", "nccl-all-reduce", "stalled", "no row for 5 min", None, AlarmKind.STALL, 5, quiet=300),
    Case("timeout:20:0", "swift-dpo-multinode", "failed", "NCCL timeout: ALLREDUCE", 1, AlarmKind.FAILED, 1, pod=1),
    Case("fail:5", "swift-dpo-multinode", "failed", CUDA, 1, AlarmKind.FAILED, 1, pod=1),
    Case("slow:50", "swift-dpo", "running", "% longer since", steps=95),
    Case("slowrank:9:7%", "swift-dpo-multinode", "running", "rank 9", steps=60, pod=1),
    Case("spike:20", "swift-dpo", "running", steps=60),
    Case("xid:20", "swift-dpo", "running", steps=60),
)


def printed(case: Case) -> tuple[list[LogLine], ExitStep | None]:
    """The log of its pod, the last line so many seconds ago, and how its container ended; None: it goes on."""
    pod = {"JOB_COMPLETION_INDEX": str(case.pod), "NNODES": str(case.pod + 1), "GPUS_PER_NODE": "8", "HOSTNAME": "pod"}
    asked = {"A4_RECIPE": case.recipe, "PRACTICE_FAULT": case.fault, "SLEEP_INFINITY": str(case.kept).lower()}
    lines: list[LogLine] = []
    now, end, steps = 0.0, None, 0
    where = ProgramContext([], pod | asked, {}, SharedFacts(), random.Random(1), lambda: now, notes={})
    for step in RECIPES[case.recipe](where):
        if isinstance(step, PrintLine):
            lines.append(LogLine(now, step.text))
            steps += "elapsed time per iteration" in step.text
        elif isinstance(step, PauseStep):
            if step.seconds > FOREVER:
                break
            now += step.seconds
        elif isinstance(step, ExitStep):
            end = step
            break
        if steps >= case.steps:
            break
    shift = time.time() - case.quiet - lines[-1].time
    return [structs.replace(line, time=line.time + shift) for line in lines], end


def scene(end: ExitStep | None, at: float, number: int = 0) -> tuple[JobSet, Fleet]:
    job = jobset("train", number + 1)
    others, pod = [rank(job, each, f"n{each}") for each in range(number)], rank(job, number, f"n{number}")
    if end is not None:
        reason = end.reason or ("Error" if end.code else "Completed")
        done = Container("main", "terminated", reason, exit_code=end.code, finished_at=at)
        pod = structs.replace(pod, phase="Failed" if end.code else "Succeeded", ready=False, containers=(done,))
        kind = "Failed" if end.code else "Completed"
        job = structs.replace(job, conditions=(Condition(kind, "True", since=at, message="jobset failed"),))
    return job, fleet_of(job, *others, pod)


async def read_tail(job: JobSet, fleet: Fleet, lines: list[LogLine]) -> JobProgress | None:
    """What a list knows: the end of the log."""

    async def tail(_: object, number: int) -> list[LogLine]:
        return lines[-number:]

    service = SimpleNamespace(
        test_history=SimpleNamespace(tests=(), stored_rows={}, store=AsyncMock()),
        pass_line=PASS_LINE, find_followed=lambda _: None,
        earlier_phases=AsyncMock(return_value={}), earlier_speeds=AsyncMock(return_value=()),
    )  # fmt: skip
    reader = JobProgressReader(cast("Any", SimpleNamespace(fleet=fleet)), cast("Any", service), tail)
    await reader.update([job.key])
    return reader.progress_of(job.uid)


def follow(job: JobSet, fleet: Fleet, lines: list[LogLine]) -> JobMeasures:
    """What a page knows: the whole log."""
    measures = JobMeasures(job.key)
    reader = LogReader(measures, 1)
    for line in lines:
        reader.feed_lines([PodLine(0, line.time, line.text)])
        measures.store_line(line.time, line.time, line.text, 0)
    if job.finished:
        reader.close()
    measures.set_job_facts(job, fleet)
    return measures


def listen(job: JobSet, fleet: Fleet, measures: JobMeasures, lines: list[LogLine]) -> AlarmWatch:
    """The alarms of a console that was there before the job ended."""
    running = structs.replace(job, conditions=())
    before = fleet_of(running, rank(running, 0, "n0"))
    watch = AlarmWatch(job.key, Thresholds(), lines[0].time)
    early = JobMeasures(job.key)
    watch.evaluate(lines[0].time, sample_job(running, before, early, {}, (), PASS_LINE))
    watch.feed_line(lines[-1].time, lines[-1].text)
    found = sample_job(job, fleet, measures, {}, (), PASS_LINE)
    watch.evaluate(lines[-1].time + 1, found)
    watch.evaluate(time.time(), found)
    return watch


def text(*cells: Any) -> str:
    return " ".join(" ".join(run.text for cell in cells for run in spans_of(cell)).split())


def places(line: JobLine, measures: JobMeasures) -> dict[str, str]:
    """What each place tells of a job."""
    now, health = time.time(), line.health
    run = RunRecord("r", "train", "default", gpus=8, launched=now - 4000, started=now - 3900)
    seen = update_seen(
        replace(update_from_cluster(run, line.jobset, line.fleet), **latest_figures(measures)),
        line.jobset, line.fleet, measures.list_spans(now, Thresholds()),
    )  # fmt: skip
    here = finish_record(seen) if not seen.is_open else replace(seen, now=health)
    (reason,) = (column for column in RUNS if column.title == "WHY")
    rows = {
        "list": text(state_cell(line), reason_cell(line)),
        "page": text(head(line, line.jobset.key, gone=False), explanation(line, is_gone=False)),
        "pane": text(*job_lines(line, measures, 300, 60, now)),
        "jobs": f"{health.state} {health.words} {health.verdict}",
        "why": f"{_words(health, AlarmReport(progress=line.job_progress)).replace('runs', 'running')} {health.verdict}",
        "history": f"{text(outcome_cell(here))} {here.mode_words} {text(cast('Any', reason).cell(here))}",
    }
    if health.kept:
        stopped = finish_record(replace(seen, outcome=Outcome.STOPPED, ended=now))
        rows["stopped"] = f"{stopped.state} {stopped.mode_words}"
    return rows


def forecast(line: JobLine) -> str:
    """When a job starts that waits for all that this one holds, of whose kind earlier ones took two hours."""
    behind = jobset("next", 1, conditions=(Condition("Suspended", "True"),))
    waits = claim(behind, waits="insufficient unused quota")
    queue = structs.replace(cluster_queue("a4", line.jobset.gpus), quotas=(Quota("a4", GPU, line.jobset.gpus),))
    fleet = fleet_of(
        queue, LocalQueue("default", "a4", cluster_queue="a4"), ResourceFlavor("a4"),
        line.jobset, claim(line.jobset), behind, waits, *line.fleet.pods.values(),
    )  # fmt: skip
    running = JobProgressReader(cast("Any", None), cast("Any", None))
    running.known = {line.jobset.uid: cast("Any", line.job_progress)}
    left, open_ends = running.foresee_ends(fleet)
    earlier = {line.jobset.uid: RunTime(7200, 0.1)}
    windows = start_windows(fleet, left, earlier, budget=30, rollouts=MIN_ROLLOUTS, open_ends=open_ends)
    return start_words(with_windows(expected_starts(fleet, left, open_ends), windows)[waits.key], fleet.at)


def facts(health: JobHealth) -> tuple[str, int | None, int | None, bool]:
    return health.state, health.code, health.culprit, health.kept


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.fault or 'well'}{'-kept' if case.kept else ''}")
async def test_every_place_tells_the_same(case: Case) -> None:
    lines, end = printed(case)
    job, fleet = scene(end, lines[-1].time, case.pod)
    progress, measures = await read_tail(job, fleet, lines), follow(job, fleet, lines)
    slow = SLOW_RANK if case.fault.startswith("slowrank") else None
    by_tail = JobLine(job, fleet, progress, slow_rank=slow)
    by_log = JobLine(job, fleet, progress_of_measures(measures, time.time(), PASS_LINE), slow_rank=slow)
    culprit = case.pod if case.code else None
    assert facts(by_tail.health) == (case.state, case.code, culprit, case.kept)
    if end is None or not end.code:  # of a pod that failed the list reads the end of the log, see below
        assert facts(by_log.health) == facts(by_tail.health)

    found = places(by_tail, measures)
    assert {place: words for place, words in found.items() if case.state not in words} == {}
    holds = case.reason.startswith("pods kept")  # once they are stopped no more
    named = {place: words for place, words in found.items() if not (place == "stopped" and holds)}
    named["list"] = named["list"].replace(" min after ", " min after step ")  # which a list has no room for
    assert {place: words for place, words in named.items() if case.reason not in words} == {}
    assert case.fault != "hang:1" or case.reason in why_no_step(by_tail)

    alarms = {each.kind for each in listen(job, fleet, measures, lines).active}
    assert case.alarm is None or case.alarm in alarms
    if case.kept:
        by_end = present(alarm_by_log(by_tail))
        assert (by_end.kind, case.reason in by_end.words) == (AlarmKind.KEPT, True)
    assert health_code(by_tail.health) == case.why

    starts = {
        "running": r"(between|about) [^;:]*\d\d:\d\d[^;]*",
        "diverged": r"at once if train ends; at the latest [^;:]*\d\d:\d\d, in [^;]*, when train ends",
    }
    how = case.state if case.state == "stalled" else f"{case.state}, pods kept"
    unknown = rf"at once if train ends: when train \({how}\) ends is not known"
    for line in () if by_tail.health.over else (by_tail, by_log):
        assert re.fullmatch(unknown if case.kept else starts.get(case.state, unknown), forecast(line))
    ends = progress is not None and progress.eta is not None
    assert ends == (case.state == "running" and case.fault != "hang:1")  # only of what goes on an end is foretold
    watched = cast("Any", SimpleNamespace(progress=progress, is_complete=True))
    over = _final_outcome("train", job, fleet, True, watched, parse_conditions(("loss<0",)))
    assert (over[0] if over else None) == {None: None, 0: 7}.get(case.code, 1)


def test_every_fault_of_the_practice_cluster_is_in_the_table() -> None:
    assert {case.fault.partition(":")[0] for case in CASES if case.fault} == set(KINDS)
