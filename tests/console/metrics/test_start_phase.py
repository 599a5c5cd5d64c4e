"""What a job does before its first step, and from when on that is late."""

import pytest
from msgspec.structs import replace, replace as replace_line

from console.alarm_thresholds import Thresholds
from console.kube.objects.pod import Container, Pod
from console.logs.log_line import LogLine
from console.metrics.alarm import AlarmKind
from console.metrics.alarm_rules import AlarmWatch, JobSample
from console.metrics.health import HealthLevel
from console.metrics.job_measures import JobMeasures, read_lines
from console.metrics.job_progress import JobProgress, progress_of_measures
from console.metrics.start_phase import PULL_PHASE, StartPhase, StartRecorder, longest_phases, pull_phase, pull_seconds
from console.scheduling.pod_slots import PodSlot
from screens.columns.jobs import JobLine, reason_cell
from screens.columns.live_jobs import alarm_by_log
from screens.wording import plain_text
from tests.fakes import fleet_of, present
from tests.screens.scene import jobset, rank

STARTED = 5.0  # when the containers did
DOWNLOAD = (10.0, "step 9 download: run"), (40.0, "Fetching 16 files")
TRAIN = (10.0, "step 9 download: run"), (70.0, "step 9 download: done in 60 s"), (80.0, "step 12 train: run")
NCCL = (*TRAIN, (90.0, "host:12:12 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>"))
COMPLETE = (*NCCL, (95.0, "h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 16 - Init COMPLETE"))
STEP = (
    "[2026-11-28 15:00:00] iteration        1/     100 | elapsed time per iteration (ms): 2800.0 | lm loss: 1.0E+01 |"
)


def measures_of(*pods: tuple[tuple[float, str], ...], earlier: dict[str, float] | None = None) -> JobMeasures:
    measures = JobMeasures(("default", "job"))
    measures.earlier_phases, measures.container_started_at = earlier or {}, dict.fromkeys(range(len(pods)), STARTED)
    for pod, lines in enumerate(pods):
        for time, text in lines:
            measures.feed_start(pod, time, text)
    return measures


def words(*pods: tuple[tuple[float, str], ...], earlier: dict[str, float] | None = None, now: float = 100.0) -> str:
    start = measures_of(*pods, earlier=earlier).start
    return "" if start is None else start.sentence(now)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ((), ""),
        ((((10.0, "hello"),),), "its last line came 90 s ago: hello"),
        ((((10.0, "x" * 500),),), f"its last line came 90 s ago: {'x' * 160}"),
        (
            ((*DOWNLOAD[:1], (40.0, "Resolving")),),
            "in stage 9 download since 90 s; its last line came 60 s ago: Resolving",
        ),
        ((DOWNLOAD,), "in a download (stage 9 download) since 60 s; its last line came 60 s ago: Fetching 16 files"),
        ((TRAIN,), "in stage 12 train since 20 s; its last line came 20 s ago: step 12 train: run"),
        ((TRAIN[:2],), "its last line came 30 s ago: step 9 download: done in 60 s"),
        ((NCCL[:3], DOWNLOAD[:1]), "in stage 9 download since 90 s; its last line came 20 s ago: step 12 train: run"),
        ((((10.0, "Collecting a"),),), "in an installation since 90 s; its last line came 90 s ago: Collecting a"),
        # Of a log whose end alone was read a line may look like one of the start.
        ((((300.0, "Collecting a"),),), "its last line came 0 s ago: Collecting a"),
        ((((1.0, "step 3 old: run"), (10.0, "new")),), "its last line came 90 s ago: new"),
    ],
)
def test_the_phase_of_a_job_is_that_of_the_pod_that_is_longest_in_its_own(
    pods: tuple[tuple[tuple[float, str], ...], ...], phase: str
) -> None:
    assert words(*pods) == phase


@pytest.mark.parametrize(
    ("lines", "took"),
    [
        (DOWNLOAD, {"stage 9 download": 30.0}),
        (TRAIN, {"stage 9 download": 60.0}),
        ((*TRAIN, (200.0, "step 12 train: failed with exit code 1")), {"stage 9 download": 60.0}),
        ((DOWNLOAD[0], (20.0, "step 9 download: skip: there already")), {"stage 9 download": 10.0}),
        (NCCL, {"stage 9 download": 60.0, "stage 12 train": 10.0}),
        (COMPLETE, {"stage 9 download": 60.0, "stage 12 train": 10.0, "NCCL's init (stage 12 train)": 5.0}),
    ],
)
def test_a_phase_counts_once_it_has_ended_well(lines: tuple[tuple[float, str], ...], took: dict[str, float]) -> None:
    recorder = StartRecorder()
    for time, text in lines:
        recorder.feed(time, text, STARTED)
    assert recorder.phase_seconds == took
    older = {name.replace("stage", "step"): seconds for name, seconds in took.items()}
    assert longest_phases([older, {}]) == took, "records of before have the older word"


def test_a_start_ends_with_the_first_step_of_any_pod_and_counts_only_where_one_is_seen() -> None:
    lines = [LogLine(1000.0 + at, STEP.replace("    1/", f"{at:5}/")) for at in range(1, 4)]
    measures = measures_of(NCCL, TRAIN)
    assert measures.phases == {}
    measures.tracks = tuple(read_lines(lines)[1])
    assert (measures.first_step_at, measures.start) == (1001.0, None)
    for pod in (0, 1):
        measures.feed_start(pod, 5000.0, "step 12 train: done in 4920 s")
    init = "NCCL's init (stage 12 train)"
    assert measures.phases == {"stage 9 download": 60.0, "stage 12 train": 921.0, init: 911.0}


@pytest.mark.parametrize(
    ("longest", "now", "late", "stalled"),
    [
        (0.0, 1e6, "", False),  # no earlier run: never late
        (4.0, 80.0 + 123, "", False),  # two minutes more at least
        (4.0, 80.0 + 125, "in stage 12 train since 2 min, at most 4 s before", True),
        (240.0, 80.0 + 719, "", False),
        (240.0, 80.0 + 23 * 60, "in stage 12 train since 23 min, at most 4 min before", True),
    ],
)
def test_a_phase_is_late_by_the_longest_of_earlier_runs(longest: float, now: float, late: str, stalled: bool) -> None:
    measures = measures_of(TRAIN, earlier={"stage 12 train": longest})
    progress = present(progress_of_measures(measures, now, 250.0))
    assert (progress.late_text, progress.is_stalled, progress.eta) == (late, stalled, None)
    watch = AlarmWatch(("default", "job"), Thresholds(), now)
    watch.evaluate(now, JobSample(running=True, start=measures.start))
    assert watch.late_text == late
    assert [(each.kind, each.words, each.began) for each in watch.active] == (
        [(AlarmKind.STALL, late, 80.0)] if stalled else []
    )


@pytest.mark.parametrize(("quiet", "state"), [(30.0, "late"), (600.0, "stalled")])
def test_the_state_of_a_job_that_is_late_before_its_first_step(quiet: float, state: str) -> None:
    job = jobset("train", 2)
    fleet = fleet_of(job, rank(job, 0, "n0"), rank(job, 1, "n1"))
    start = StartPhase("stage 12 train", 80.0, 1460.0 - quiet, "a line", 240.0)
    line = JobLine(job, fleet, JobProgress(start=start, at=1460.0, printed=start.printed))
    words = "in stage 12 train since 23 min, at most 4 min before"
    assert (line.health.state, line.health.words) == (state, words)
    assert plain_text(reason_cell(line)) == words
    alarm = alarm_by_log(line)
    assert (alarm.words, alarm.began) == (f"{words} (by its log)", 80.0) if alarm else state == "late"
    for fresh in (replace(start, longest=0.0), replace(start, since=1400.0)):
        well = replace_line(line, job_progress=JobProgress(start=fresh, at=1460.0))
        assert (well.health.state, well.health.level) == ("running", HealthLevel.GOOD)
        assert plain_text(reason_cell(well)) == fresh.words(1460.0)


def test_what_prints_lines_is_late_but_has_not_stalled() -> None:
    lines = (*DOWNLOAD[:1], *((float(at), "still at it") for at in range(20, 2000, 20)))
    start = present(measures_of(lines, earlier={"stage 9 download": 240.0}).start)
    assert start.late_text(2000.0)
    assert not start.is_stalled(2000.0, Thresholds())
    assert start.is_stalled(2300.0, Thresholds())


def test_pods_that_wait_for_their_image_are_in_its_pull() -> None:
    waits = PodSlot(0, "w", 0, 0, pod=Pod("default", "a", containers=(Container("m"),), started=20.0, node="n0"))
    runs = replace(waits, pod=Pod("default", "b", containers=(Container("m", "running", started=50.0),), started=20.0))
    assert pull_phase([runs], 0.0) is None
    assert pull_phase([runs, waits], 30.0) == StartPhase(PULL_PHASE, 20.0, longest=30.0)
    assert (pull_seconds([runs, waits]), pull_seconds([waits])) == (30.0, 0.0)
