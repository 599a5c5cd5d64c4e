"""How a job is: one word and one sentence for every screen and command."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.meta import Condition
from console.logs.log_end import LogEnd
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.health import HealthLevel, JobHealth, job_health
from console.metrics.job_progress import JobProgress
from console.metrics.step_cadence import StepCadence
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

JOB = jobset("train", 2)
FLEET = fleet_of(JOB, rank(JOB, 0, "n0"), rank(JOB, 1, "n1"))
DONE = structs.replace(JOB, conditions=(Condition("Completed", "True", since=900.0),))
NAN = Alarm(
    AlarmKind.NAN, "loss is NaN since step 20 (last good 10.58 at 19)", 5.0, "default", "train", more="frees 16 GPUs"
)
GLANCE = JobProgress(step=9, total=97, loss=11.1, rhythm=StepCadence(2.8, 2.8), pace=2.8, stepped=1_000.0, at=1_010.0)


def test_a_job_of_which_nothing_is_wrong_is_well() -> None:
    health = job_health(JOB, FLEET, job_progress=GLANCE)
    assert (health.state, health.level, health.words) == ("running", HealthLevel.GOOD, "")
    assert job_health(DONE, FLEET).level is HealthLevel.GOOD


def test_a_job_whose_pods_are_starting_is_starting_whatever_its_jobset_counts() -> None:
    fleet = fleet_of(JOB, rank(JOB, 0, "n0"), rank(JOB, 1, "n1", phase="Pending", ready=False))
    health = job_health(JOB, fleet)
    assert health.state == "starting"
    assert health.words.startswith("1 of 2 pods is starting")


@pytest.mark.parametrize("job", [JOB, DONE], ids=["runs", "ended"])
def test_a_loss_that_is_no_number_is_divergence_while_it_runs_and_after(job: object) -> None:
    for health in (
        job_health(job, FLEET, alarms=(NAN,)),  # type: ignore[arg-type]
        job_health(job, FLEET, job_progress=structs.replace(GLANCE, nan=True, nan_words=NAN.words)),  # type: ignore[arg-type]
    ):
        assert (health.state, health.level) == ("diverged", HealthLevel.BAD)
        assert health.words.startswith(NAN.words)


@pytest.mark.parametrize("kind", [AlarmKind.SPIKE, AlarmKind.BUSBW, AlarmKind.GPU, AlarmKind.RESTART, AlarmKind.BEHIND])
def test_no_job_with_an_alarm_is_well(kind: AlarmKind) -> None:
    assert job_health(JOB, FLEET, alarms=(replace(NAN, kind=kind),)).level is HealthLevel.BAD
    assert job_health(JOB, FLEET, alarms=(replace(NAN, kind=kind, over=6.0),)).level is HealthLevel.GOOD


def test_a_stall_is_over_with_the_job_a_divergence_is_not() -> None:
    stall = replace(NAN, kind=AlarmKind.STALL)
    assert job_health(JOB, FLEET, alarms=(stall,)).state == "stalled"
    assert job_health(JOB, FLEET, alarms=(stall, NAN)).state == "diverged"


def test_late_by_those_who_hear_its_steps_else_by_the_times_in_its_log() -> None:
    late = structs.replace(GLANCE, at=1_040.0)
    assert job_health(JOB, FLEET, late_message="no step for 34 s", is_followed=True).level is HealthLevel.LATE
    assert job_health(JOB, FLEET, job_progress=late).words == "no step for 40 s after step 9, usually one takes 2.8 s"
    assert job_health(JOB, FLEET, job_progress=late, is_followed=True).level is HealthLevel.GOOD, (
        "the clock of its node may be wrong"
    )
    long = job_health(JOB, FLEET, job_progress=structs.replace(GLANCE, at=1_071.0))
    assert (long.state, long.level) == ("stalled", HealthLevel.BAD)
    assert job_health(DONE, FLEET, job_progress=late).level is HealthLevel.GOOD


def test_slower_steps_are_reported_a_job_that_runs() -> None:
    slower = structs.replace(GLANCE, slower="steps take 35 % longer since 4,060 (2.77 to 3.74 s a step)")
    for followed in (True, False):
        health = job_health(JOB, FLEET, job_progress=slower, is_followed=followed)
        assert (health.state, health.level, health.words) == ("running", HealthLevel.LATE, slower.slower)
    assert job_health(JOB, FLEET, job_progress=slower, alarms=(NAN,)).state == "diverged"
    assert job_health(DONE, FLEET, job_progress=slower).level is HealthLevel.GOOD


def test_what_waits_is_not_well_and_says_why() -> None:
    waits = structs.replace(JOB, suspended=True, queue="a4")
    health = job_health(waits, fleet_of(waits))
    assert (health.state, health.level) == ("pending", HealthLevel.WAITS)
    assert "Kueue" in health.words


END = LogEnd(1, 1_000.0, 0, kept=True, stage="stage 9 train", reason="rank 8: CUDA error")


def kept(now: float, end: LogEnd = END, **more: object) -> JobHealth:
    progress = JobProgress(end=end, at=now, **more)  # type: ignore[arg-type]
    return job_health(JOB, replace(FLEET, at=now), job_progress=progress)


def test_a_job_whose_program_has_ended_is_over_though_its_pods_are_kept() -> None:
    health = kept(1_720.0)
    assert (health.state, health.level, health.code, health.culprit) == ("failed", HealthLevel.BAD, 1, 0)
    assert health.words == "rank 8: CUDA error; stage 9 train, exit code 1; pods kept, 16 GPUs idle since 12 min"
    assert kept(1_720.0, in_use=True).words.endswith("pods kept, in use")
    done = kept(1_720.0, LogEnd(0, 1_000.0, 0, kept=True))
    assert (done.state, done.level, done.code) == ("succeeded", HealthLevel.LATE, 0)
    assert done.words == "pods kept, 16 GPUs idle since 12 min"
    lost = kept(1_720.0, LogEnd(0, 1_000.0, 0, kept=True), nan=True, nan_words="NaN since step 20")
    assert (lost.state, lost.level) == ("diverged", HealthLevel.BAD)


def test_a_pod_that_failed_is_named_while_the_others_go_on() -> None:
    health = kept(1_020.0, structs.replace(END, pod=1))
    assert health.culprit == 1
    assert health.words == "rank 8: CUDA error; pod 1: stage 9 train, exit code 1; pods kept, 16 GPUs held since 20 s"


def test_wrong_values_are_the_reason_whatever_the_test_printed_last() -> None:
    fault = JobProgress(
        end=structs.replace(END, reason="x", kept=False), fault="12 wrong values at 64 MiB", busbw=600.0
    )
    failed = structs.replace(JOB, conditions=(Condition("Failed", "True", since=900.0, message="FailedJobs"),))
    assert job_health(failed, FLEET, job_progress=fault).words.startswith("12 wrong values at 64 MiB; ")
    assert job_health(DONE, FLEET, job_progress=structs.replace(fault, end=None)).level is HealthLevel.BAD


def test_what_is_over_holds_nothing() -> None:
    progress = structs.replace(GLANCE, nan=True, nan_words="NaN since step 20")
    assert job_health(DONE, FLEET, job_progress=progress).over
    assert not job_health(JOB, FLEET, job_progress=progress).over
