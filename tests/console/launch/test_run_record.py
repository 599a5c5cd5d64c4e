"""What a picture says of a run, how runs differ, and what of their values may be kept (pure)."""

from typing import Any

import pytest
from msgspec.structs import replace

from console.kube.nested_values import Value
from console.kube.objects.jobset import JobSet, ReplicatedJob
from console.kube.objects.meta import Condition
from console.launch.install import ChartCatalog
from console.launch.recipes import Field, FieldKind
from console.launch.run_record import (
    Outcome,
    RunRecord,
    ValueDifference,
    compare_values,
    find_run,
    finish_record,
    is_run_of_job,
    last_success,
    merge_alarms,
    update_from_cluster,
)
from console.launch.values_schema import without_secrets
from console.metrics.alarm import JOB_STOPPED, Alarm, AlarmKind
from console.metrics.time_spans import RecordedSpans, SpanKind, TimeSpan
from tests.fakes import fleet_of

RUN = RunRecord("nccl-all-reduce", "anna", "team", number=1, launched=1000.0)
GROUPS = (ReplicatedJob("workload", pods_per_job=2, gpus_per_pod=8, ready=1),)


def job(**more: Any) -> JobSet:
    return JobSet(**{"namespace": "team", "name": "anna", "uid": "u", "created": 1001.0, "groups": GROUPS, **more})


def test_a_run_waits_runs_and_succeeds() -> None:
    waits = update_from_cluster(RUN, job(suspended=True, queue="a4"), fleet_of())
    assert (waits.outcome, waits.started, waits.uid, waits.gpus, waits.queue) == (Outcome.WAITING, 0.0, "u", 16, "a4")
    assert waits.seconds(1100.0) is None
    resumed = Condition("Suspended", "False", since=1050.0)
    runs = update_from_cluster(waits, job(queue="a4", conditions=(resumed,)), fleet_of())
    assert (runs.outcome, runs.started, runs.seconds(1100.0)) == (Outcome.RUNNING, 1050.0, 50.0)
    done = Condition("Completed", "True", since=1200.0)
    ended = update_from_cluster(runs, job(queue="a4", conditions=(resumed, done)), fleet_of())
    assert (ended.outcome, ended.ended, ended.seconds(9999.0)) == (Outcome.SUCCEEDED, 1200.0, 150.0)
    assert not ended.is_open
    kept = RecordedSpans(spans=(TimeSpan(1150.0, 1150.0, SpanKind.ENDED),)).encode()
    assert [replace(each, seen=kept).seconds(9999.0) for each in (runs, ended)] == [100.0, 100.0]


def test_a_run_fails_with_its_first_failure() -> None:
    failed = Condition("Failed", "True", message="jobset failed", since=1200.0)
    ended = update_from_cluster(RUN, job(conditions=(failed,), restarts=2), fleet_of())
    assert (ended.outcome, ended.why) == (Outcome.FAILED, "failed after 2 restarts: jobset failed")
    assert update_from_cluster(RUN, job(conditions=(failed,)), fleet_of()).why == "jobset failed"


def test_a_job_that_is_being_deleted_is_not_over_yet() -> None:
    assert update_from_cluster(RUN, job(deletion_asked_at=5.0), fleet_of()).outcome is RUN.outcome


@pytest.mark.parametrize(
    ("run", "jobset", "same"),
    [
        ({}, {}, True),
        ({"uid": "u"}, {}, True),
        ({"uid": "other"}, {}, False),
        ({}, {"created": 100.0}, False),
        ({}, {"created": 1200.0}, False),
        ({}, {"name": "bert"}, False),
    ],
)
def test_names_are_used_again(run: dict[str, Any], jobset: dict[str, Any], same: bool) -> None:
    record = RunRecord("r", "anna", "team", **{"launched": 1000.0, **run})
    assert is_run_of_job(record, job(**jobset)) is same


def test_differences_are_reported_by_path() -> None:
    before = RunRecord("a", "x", "t", {"gpus": 8, "env": {"A": "1", "B": None}, "list": ["a", "b"], "same": True})
    after = RunRecord("b", "y", "t", {"gpus": 16, "env": {"A": "1"}, "same": True, "empty": ""})
    assert compare_values(before, after) == (
        ValueDifference("empty", None, "(empty)"),
        ValueDifference("env.B", "(removed)", None),
        ValueDifference("gpus", "8", "16"),
        ValueDifference("list", "a, b", None),
        ValueDifference("recipe", "a", "b"),
    )
    assert compare_values(after, after) == ()


def test_the_last_success_is_of_the_same_recipe_and_earlier() -> None:
    runs = [
        RunRecord("a", "one", "t", number=1, launched=1.0, outcome=Outcome.SUCCEEDED),
        RunRecord("a", "two", "t", number=2, launched=2.0, outcome=Outcome.SUCCEEDED),
        RunRecord("a", "three", "t", number=3, launched=3.0, outcome=Outcome.FAILED),
        RunRecord("b", "four", "t", number=4, launched=4.0, outcome=Outcome.SUCCEEDED),
        RunRecord("a", "five", "t", number=5, launched=5.0, outcome=Outcome.RUNNING),
        RunRecord("a", "six", "t", number=6, launched=6.0, outcome=Outcome.SUCCEEDED),
    ]
    assert last_success(runs, runs[4]) is runs[1]
    assert last_success(runs, runs[0]) is None


def test_a_run_is_found_by_number_and_by_name() -> None:
    runs = [RunRecord("a", name, "t", number=number, launched=float(number)) for number, name in enumerate("xyx", 1)]
    assert find_run(runs, "2") is runs[1]
    assert find_run(runs, "x") is runs[2]
    assert find_run(runs, "4") is None
    assert find_run([RunRecord("a", "77", "t", number=1)], "77") is not None


def test_secrets_are_not_kept() -> None:
    fields = (
        *ChartCatalog.from_chart().fields("own-script"),
        Field("password", "Password", "", FieldKind.TEXT, "", secret=True),
    )
    values: dict[str, Value] = {
        "gpus": 16,
        "password": "hunter2",
        "env": {"HF_TOKEN": "hunter2", "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false"},
        "secrets": {"HF_TOKEN": "hf/token"},
        "recipe": {"script": "export WANDB_API_KEY=hunter2\npython train.py", "other": "echo $HF_TOKEN"},
        "image": "x/y:hf_" + "a" * 30,
    }
    kept, left_out = without_secrets(fields, values)
    assert kept == {
        "gpus": 16,
        "env": {"NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false"},
        "secrets": {"HF_TOKEN": "hf/token"},
        "recipe": {"other": "echo $HF_TOKEN"},
    }
    assert set(left_out) == {"password", "env.HF_TOKEN", "recipe.script", "image"}
    assert "hunter2" not in str(kept)


NAN = Alarm(AlarmKind.NAN, "loss is NaN since step 20 (last good 10.58 at 19)", 1100.0, "team", "anna")
STALL = Alarm(AlarmKind.STALL, "no step for 5 min after step 9", 1100.0, "team", "anna")
BAD = replace(RUN, step=97, loss=10.582, loss_step=19, nan=True, nan_from=20, ended=1500.0)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.STOPPED, Outcome.UNKNOWN])
def test_a_run_whose_loss_is_no_number_diverged_however_it_ended(outcome: Outcome) -> None:
    ended = finish_record(replace(BAD, outcome=outcome, alarms=(NAN,)))
    assert (ended.outcome, ended.why) == (Outcome.DIVERGED, "NaN since step 20 (last good 10.58 at 19)")
    assert last_success([ended], replace(RUN, number=9, launched=2000.0)) is None
    assert ended.had_problem


def test_a_run_that_failed_says_that_it_had_diverged() -> None:
    ended = finish_record(replace(BAD, outcome=Outcome.FAILED, why="pod 1 was killed"))
    assert (ended.outcome, ended.why) == (Outcome.FAILED, "pod 1 was killed; NaN since step 20 (last good 10.58 at 19)")
    assert finish_record(ended) == ended


def test_a_run_that_is_stopped_while_an_alarm_rings_was_stopped_for_it() -> None:
    stopped = replace(RUN, outcome=Outcome.STOPPED, ended=1500.0)
    assert finish_record(stopped) == stopped
    stalled = finish_record(replace(stopped, alarms=(STALL,)))
    assert (stalled.outcome, stalled.state) == (Outcome.STOPPED, "stopped")
    assert stalled.why == stalled.mode_words == f"stopped by a person, {STALL.words}"
    (alarm,) = stalled.alarms
    assert (alarm.over, alarm.ended_text) == (1500.0, "until the job was stopped")
    assert stalled.had_problem
    known = finish_record(replace(stopped, step=1240, alarms=(replace(STALL, more="inspected: rank 9 stands"),)))
    assert known.why == "stopped by a person, stalled since step 1,240; inspected: rank 9 stands"
    deleted = replace(stopped, step=9, alarms=(STALL,), why="It was deleted outside this console.")
    assert finish_record(deleted).why == "deleted outside this console, stalled since step 9"
    gone = replace(STALL, over=1499.0, ended=JOB_STOPPED)
    assert finish_record(replace(stopped, step=9, alarms=(gone,))).why == "stopped by a person, stalled since step 9"
    over = replace(STALL, over=1400.0)
    assert finish_record(replace(stopped, alarms=(over,))).outcome is Outcome.STOPPED
    gpu = replace(STALL, kind=AlarmKind.GPU, words="Xid 94")
    assert finish_record(replace(stopped, alarms=(gpu,))).why == "stopped during an alarm: Xid 94"
    spike = replace(STALL, kind=AlarmKind.SPIKE, words="loss up")
    assert finish_record(replace(stopped, alarms=(spike,))).why == "stopped during an alarm: loss up"
    assert finish_record(replace(stopped, alarms=(spike,), ended=9000.0)).why == "", "that was long before"
    assert finish_record(stopped, late_message="no step for 40 s").why == "stopped while it was late: no step for 40 s"


def test_a_run_that_goes_on_has_the_state_of_what_rings() -> None:
    runs = replace(RUN, outcome=Outcome.RUNNING)
    states = [replace(runs, alarms=alarms).state for alarms in ((), (STALL,), (STALL, NAN), (replace(NAN, over=5.0),))]
    assert states == ["running", "stalled", "diverged", "running"]
    assert replace(runs, nan=True).state == "diverged"


def test_alarms_that_two_consoles_raised_are_one() -> None:
    later = replace(NAN, time=1101.0, words="loss is NaN since step 20 (last good 10.58 at 19), still", over=1300.0)
    assert merge_alarms((NAN,), (later,)) == (replace(later, time=1100.0),)
    again = replace(NAN, time=1400.0)
    assert merge_alarms((replace(NAN, over=1300.0),), (again,)) == (replace(NAN, over=1300.0), again)
    spikes = tuple(replace(NAN, kind=AlarmKind.SPIKE, time=at) for at in (1.0, 50.0))
    assert merge_alarms(spikes, (STALL,)) == (*spikes, STALL)


def test_a_console_that_has_not_looked_takes_no_verdict_from_the_record() -> None:
    found = replace(STALL, began=1040.0, more="inspected: Rank 9 has no process", nodes=("gke-1",))
    unlooked = replace(STALL, time=1200.0, began=1040.0, words="no step for 7 min after step 9")
    assert merge_alarms((found,), (unlooked,)) == (replace(unlooked, time=1100.0, more=found.more, nodes=found.nodes),)
    another = replace(unlooked, began=1150.0, more="not inspected: li launched it")
    assert merge_alarms((found,), (another,)) == (replace(another, time=1100.0),), "it has made steps since"


def test_a_run_that_waited_again_ran_until_then_and_since() -> None:
    spans = (TimeSpan(110.0, 130.0, SpanKind.QUEUED), TimeSpan(130.0, 150.0, SpanKind.STEPS, 0, 1),
             TimeSpan(150.0, 155.0, SpanKind.QUEUED))  # fmt: skip
    run = RunRecord("ddp-smoke", "a", "default", started=100.0, ended=200.0)
    assert run.run_seconds == (100.0, 0.0)
    assert replace(run, seen=RecordedSpans(90.0, 100.0, ("n0",), 1, spans).encode()).run_seconds == (75.0, 30.0)
