"""What a line in a list says of a job by the end of its log."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.metrics.diagnosis import Diagnosis, DiagnosisKind, diagnose_hang, judge_pace
from console.metrics.job_measures import MAX_DISORDER_SECONDS, MAX_STORED_CHARACTERS, JobMeasures
from console.metrics.job_monitor import sample_job
from console.metrics.job_progress import (
    JobProgress,
    compare_with_earlier,
    keep_previous_verdict,
    progress_of_measures,
    progress_of_runs,
    progress_of_tests,
    trend_means,
)
from console.metrics.nccl_history import MeasuredTest
from console.metrics.step_cadence import StepCadence, cadence_of_rows
from rankscope import Activity, HangReport, PodTrace, StackLocation, TracedProcess
from tests.fakes import fleet_of, present
from tests.parsing import run_of
from trainlog import MetricColumn, NcclHalf, NcclResult, NcclRow, NcclTest, Step


def test_nobody_waits_for_a_run_that_has_diverged() -> None:
    runs = JobProgress(step=40, total=100, loss=2.1, pace=2.0)
    assert runs.eta == 120
    assert replace(runs, nan=True).eta is None


def test_a_run_that_is_silent_for_longer_than_its_time_left_has_none() -> None:
    """Before its pace is known it is not late either."""
    runs = JobProgress(step=4, total=100, pace=0.02, stepped=1000.0, at=1060.0)
    assert replace(runs, at=1000.5).eta == pytest.approx(1.42)
    assert (runs.eta, replace(runs, at=1063.0).eta) == (0.0, 0.0)
    assert replace(runs, at=1064.0).eta is None
    assert replace(runs, at=1660.0).eta is None


def half(busbw: float) -> NcclHalf:
    return NcclHalf(time_us=1.0, algbw=busbw, busbw=busbw, wrong=0)


def run(*busbw: float, average: float | None, ok: bool | None = None) -> NcclTest:
    rows = tuple(
        NcclRow(2 ** (20 + at), 1, "float", "sum", -1, half(each), half(each)) for at, each in enumerate(busbw)
    )
    return NcclTest(rows=rows, avg_busbw=average, finished=average is not None, ok=ok)


def test_a_test_that_runs_again_keeps_the_verdict_of_the_last_one() -> None:
    both = present(
        progress_of_tests((run(300.0, 400.0, average=350.0, ok=False), run(120.0, average=None)), 1.0, 250.0)
    )
    assert (both.passing, both.average, both.busbw, both.repeats) == (NcclResult.FAILED, 350.0, 120.0, True)
    again = present(progress_of_tests((run(120.0, average=None),), 2.0, 250.0))
    assert again.passing is NcclResult.RUNNING
    kept = keep_previous_verdict(both, again)
    assert (kept.passing, kept.average, kept.busbw, kept.repeats) == (NcclResult.FAILED, 350.0, 120.0, True)
    over = present(progress_of_tests((run(20.0, average=20.0),), 3.0, 250.0))
    assert keep_previous_verdict(kept, over) == over
    assert not over.repeats


@pytest.mark.parametrize(
    ("step", "total", "over"),
    [(9, 9, True), (10, 9, True), (8, 9, False), (9, None, False), (None, 9, False), (0, 0, False)],
)
def test_the_last_step_of_a_run(step: int | None, total: int | None, over: bool) -> None:
    assert Step(step, total).has_all_steps is over


def test_the_next_row_of_a_test_is_late_by_how_long_the_last_one_took() -> None:
    """Twenty seconds at least, or ten times what 25 rounds of both halves take at twice the size."""
    slow = NcclHalf(time_us=100_000.0, algbw=1.0, busbw=1.0, wrong=0)
    rows = tuple(NcclRow(2**at, 1, "float", "sum", -1, slow, slow) for at in (29, 30))
    test = NcclTest(rows=rows)
    assert cadence_of_rows(test) == StepCadence(10.0, 50.0)
    assert cadence_of_rows(NcclTest(rows=rows, finished=True)) is None
    assert cadence_of_rows(NcclTest(rows=rows, error="killed")) is None
    assert cadence_of_rows(NcclTest(rows=rows[:1])) is None
    measures = JobMeasures(("default", "bandwidth"))
    measures.tests = (MeasuredTest(test, at=1_000.0),)

    def seen(at: float) -> JobProgress:
        return present(progress_of_measures(measures, at, 250.0))

    assert seen(1_100.0).late_text == ""
    assert seen(1_101.0).late_text == "no row for 101 s after that of 1,024 MiB, the next one takes about 10 s"
    assert not seen(1_200.0).is_stalled
    assert seen(1_301.0).is_stalled
    quick = structs.replace(test, rows=run(300.0, 400.0, average=None).rows)
    measures.tests = (MeasuredTest(quick, at=1_000.0),)
    assert seen(1_020.0).late_text == ""
    assert seen(1_021.0).late_text == "no row for 21 s after that of 2 MiB, the next one takes about 0.1 ms"
    assert seen(1_061.0).is_stalled
    look = sample_job(None, fleet_of(), measures, {}, (), 250.0)
    assert (look.step, look.steps, look.row_bytes, look.step_at) == (2, 2, 2**21, 1_000.0)
    measures.tests = (MeasuredTest(structs.replace(quick, finished=True), at=1_000.0),)
    assert sample_job(None, fleet_of(), measures, {}, (), 250.0).step is None
    assert seen(9_000.0).late_text == ""


def test_the_trend_is_the_means_of_eight_parts() -> None:
    found = present(progress_of_tests((run(*map(float, range(1, 33)), average=None),), 1.0, 250.0))
    assert found.trend == (2.5, 6.5, 10.5, 14.5, 18.5, 22.5, 26.5, 30.5)
    few = present(progress_of_tests((run(10.0, 20.0, average=None),), 1.0, 250.0))
    assert few.trend == (10.0, 20.0)
    column = MetricColumn()
    for value in (3.0, None, None, 1.0):
        column.append(value)
    assert trend_means(column) == (3.0, 1.0), "parts without a number are left out"


def test_of_a_line_without_an_end_its_beginning_is_kept() -> None:
    measures = JobMeasures(("default", "llama"))
    measures.store_line(2.0, 1.0, "x" * 10_000_000, 0)
    assert measures.last_lines(1) == ["x" * MAX_STORED_CHARACTERS]
    for at in range(5000, 5003):  # the end of a log, then all of it
        measures.store_line(2.0, float(at), f"line {at}", 0)
    for at in range(3000, 5004):
        measures.store_line(2.0, float(at), f"line {at}", 0)
        assert at > 5002 - MAX_DISORDER_SECONDS or measures.last_lines(1) == ["line 5002"]
    assert measures.last_lines(3) == ["line 5001", "line 5002", "line 5003"]


@pytest.mark.parametrize(
    ("earlier", "accelerator", "words"),
    [
        ((850.0, 860.0, 855.0), "nvidia-b200", "8 % MFU, 38 % is usual here"),
        ((850.0, 860.0), "unheard-of", "180 TFLOP/s per GPU, 855 is usual here"),
        ((190.0, 195.0), "nvidia-b200", ""),
        ((850.0,), "nvidia-b200", ""),
        ((200.0, 500.0, 900.0), "nvidia-b200", ""),
    ],
)
def test_a_run_that_is_slower_than_earlier_runs_of_its_recipe_says_so(
    earlier: tuple[float, ...], accelerator: str, words: str
) -> None:
    assert compare_with_earlier(JobProgress(step=40, speed=180.0), earlier, accelerator).slower == words
    assert compare_with_earlier(JobProgress(step=4), earlier, accelerator).slower == ""
    assert compare_with_earlier(JobProgress(step=40, speed=180.0, finished=True), earlier, accelerator).slower == ""


def test_a_run_that_prints_only_tokens_is_compared_by_these() -> None:
    made = run_of((Step(at, 900, 2.0, tokens_per_s=4_000.0) for at in range(1, 30)), 100.0)
    found = present(progress_of_runs([made], 100.0))
    assert (found.speed_metric, found.speed) == ("tokens_per_s", 4_000.0)
    assert compare_with_earlier(found, (6_000.0, 6_100.0), "").slower == "4,000 tokens/s, 6,050 is usual here"


def test_what_was_slower_before_stays_beside_it() -> None:
    found = compare_with_earlier(JobProgress(speed=180.0, slower="step time up"), (850.0, 860.0), "nvidia-b200")
    assert found.slower == "step time up; 8 % MFU, 38 % is usual here"


@pytest.mark.parametrize(("doing", "nodes"), [(Activity.DATA, ()), (Activity.COMPUTE, ("node-b",))])
def test_a_node_is_blamed_only_where_it_can_be_at_fault(doing: Activity, nodes: tuple[str, ...]) -> None:
    stuck = TracedProcess(1, 1, "p1", "node-b", 12, 1, where=StackLocation(doing, "somewhere"))
    others = [TracedProcess(each, 0, "p0", "node-a", each, where=StackLocation(Activity.COLLECTIVE, "all_reduce"))
              for each in (0, 2, 3)]  # fmt: skip
    report = HangReport("train", (PodTrace(0, "p0", "node-a"), PodTrace(1, "p1", "node-b")), (stuck, *others))
    assert report.suspected_nodes == ("node-b",)
    found = diagnose_hang(report, "u1")
    assert sample_job(None, fleet_of(), JobMeasures(("default", "train")), {}, (), 0.0, found).blamed_nodes == nodes


SLOWER = Diagnosis("uid", DiagnosisKind.SLOWER, 500.0, "step time up", threshold=2.5)


def taken(at: float) -> Diagnosis:
    return Diagnosis("uid", DiagnosisKind.PACE, at, "step time up")


@pytest.mark.parametrize(
    ("found", "seen", "pace", "words"),
    [
        (JobProgress(cost=3.0), SLOWER, None, "step time up"),
        (JobProgress(cost=3.0, slower="30 % MFU"), SLOWER, None, "step time up; 30 % MFU"),
        (JobProgress(cost=2.0), SLOWER, None, ""),
        (JobProgress(), SLOWER, None, ""),
        (JobProgress(cost=3.0), Diagnosis("uid", DiagnosisKind.SLOWER, 501.0), None, ""),
        (JobProgress(cost=3.0), SLOWER, taken(600.0), ""),
        (JobProgress(cost=3.0), SLOWER, taken(400.0), "step time up"),
        (JobProgress(slower="slower", slower_since=700.0), SLOWER, taken(600.0), "slower"),
        (JobProgress(slower="slower", slower_since=700.0), None, taken(800.0), ""),
        (JobProgress(slower="30 % MFU"), None, taken(800.0), ""),
    ],
)
def test_slower_steps_are_found_at_the_end_of_the_log_too_until_they_are_its_pace(
    found: JobProgress, seen: Diagnosis | None, pace: Diagnosis | None, words: str
) -> None:
    assert judge_pace(found, seen, pace).slower == words
