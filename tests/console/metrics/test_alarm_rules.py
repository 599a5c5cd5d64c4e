"""Alarms of one job: what sounds one, what does not, and when it is over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.alarm_thresholds import AlarmName, Thresholds
from console.errors import BadInput
from console.metrics.alarm import JOB_STOPPED, Alarm, AlarmKind, format_alarm
from console.metrics.alarm_rules import AlarmWatch, JobSample
from console.metrics.step_cadence import StepCadence, format_late_step
from console.settings_file import load_config, with_thresholds
from tests.fakes import fleet_of

WELL = JobSample(running=True, step=100, steps=100, pace=3.0, rhythm=StepCadence(3.0, 3.0, 4.0))


def watch(first: JobSample | None = None, **limits: object) -> AlarmWatch:
    """Of a job that was seen first at 0, if at all."""
    made = AlarmWatch(("default", "job"), structs.replace(Thresholds(), **limits), 0.0)
    if first is not None:
        made.evaluate(0, first)
    return made


def kinds(watched: AlarmWatch) -> list[AlarmKind]:
    return [alarm.kind for alarm in watched.active]


def test_a_stall_sounds_once_and_is_over_with_the_next_iteration() -> None:
    watched = watch()
    assert watched.evaluate(0, WELL) == []
    assert watched.evaluate(74, WELL) == []
    (alarm,) = watched.evaluate(76, WELL)
    assert alarm.words == "no step for 76 s after step 100, usually one takes 3 s"
    assert alarm.next_step() == "a4 hang job shows which rank the others wait for"
    assert watched.evaluate(400, WELL) == []
    assert watched.active[0].words.startswith("no step for 6 min")
    watched.evaluate(401, replace(WELL, step=101, steps=101))
    assert watched.active == ()
    assert watched.alarms[0].over == 401


SILENT = JobSample(running=True)
KEPT = replace(WELL, trained=True, ended_at=100.0, held=16, kept="failed: exit code 1; pods kept")


@pytest.mark.parametrize(
    ("look", "limits", "later"),
    [
        pytest.param(WELL, {}, 2_000.0, id="a step"),
        pytest.param(SILENT, {"warm_up": 600.0, "silent": 600.0}, 2_000.0, id="a first line"),
        pytest.param(KEPT, {}, 2_000.0, id="an end of kept pods"),
    ],
)
def test_what_cannot_have_come_is_not_missed_and_not_reported_once_it_comes(
    look: JobSample, limits: dict[str, object], later: float
) -> None:
    watched = watch(look, **limits)
    for now in range(20, int(later), 20):  # the connection brings nothing from the second second on
        assert watched.evaluate(now, replace(look, missing_seconds=now - 2.0)) == []
        assert (watched.late_text, watched.verdict) == ("", "")
    assert bool(watched.why_unknown) == (look is not KEPT)
    if look is not KEPT:
        assert "connection quiet since" in watched.why_unknown
        watched.feed_line(later, "goes on")
        assert watched.evaluate(later, replace(look, step=101, steps=101)) == []
        assert watched.why_unknown == ""


def test_what_was_late_before_the_connection_was_quiet_stays_so() -> None:
    watched = watch(WELL)
    watched.evaluate(40, WELL)
    assert watched.late_text.startswith("no step for 40 s")
    watched.evaluate(400, replace(WELL, missing_seconds=350.0))
    assert watched.late_text.startswith("no step for 50 s")
    assert (watched.why_unknown, watched.active) == ("", ())


def test_kept_pods_that_hold_idle_gpus_are_an_alarm_after_a_while() -> None:
    ended = replace(
        WELL, trained=True, ended_at=100.0, held=16, kept="failed: exit code 1; pods kept", failure="exit code 1"
    )
    watched = watch()
    watched.evaluate(50, WELL)
    assert [each.kind for each in watched.evaluate(101, ended)] == [AlarmKind.FAILED]
    assert watched.evaluate(699, ended) == []
    (alarm,) = watched.evaluate(701, ended)
    assert (alarm.kind, alarm.began, alarm.held) == (AlarmKind.KEPT, 100.0, 16)
    assert alarm.next_step() == "a4 logs job shows how it ended; a4 stop job frees 16 GPUs"
    watched.evaluate(702, replace(ended, kept=""))  # somebody uses them
    assert kinds(watched) == [AlarmKind.FAILED]


def test_a_job_that_had_ended_before_anybody_looked_fails_no_more() -> None:
    watched = AlarmWatch(("default", "job"), Thresholds(), 1_000.0)
    watched.evaluate(1_000, WELL)
    ended = replace(WELL, trained=True, ended_at=500.0, kept="failed: exit code 1", failure="exit code 1")
    assert watched.evaluate(1_001, ended) == []


def test_a_run_that_has_made_all_its_steps_is_not_late_for_another_one() -> None:
    ends = replace(WELL, rhythm=None, pace=None, all_steps=True)
    watched = watch(ends, warm_up=600, silent=600)
    assert watched.evaluate(500, ends) == []
    assert watched.late_text == ""
    (alarm,) = watched.evaluate(661, ends)
    assert alarm.words == "it has not ended 11 min after its last step, 100"


def test_a_row_that_does_not_come_is_late_and_then_an_alarm() -> None:
    rows = JobSample(running=True, step=4, steps=4, row_bytes=2**24, pace=0.02, rhythm=StepCadence(0.02))
    watched = watch(rows)
    watched.evaluate(31, rows)
    assert watched.late_text == "no row for 31 s after that of 16 MiB, the next one takes about 20 ms"
    (alarm,) = watched.evaluate(61, rows)
    assert alarm.kind is AlarmKind.STALL
    assert alarm.words == "no row for 61 s after that of 16 MiB, the next one takes about 20 ms"
    watched.evaluate(62, replace(rows, step=5, steps=5))
    assert watched.active == ()
    ended = replace(rows, step=None, steps=0, row_bytes=None, pace=None, rhythm=None)
    assert watched.evaluate(200, ended) == [], "the next test of the job may take its time to start"
    assert watched.late_text == ""


def test_a_step_is_late_before_that_is_an_alarm_and_in_time_with_the_next_one() -> None:
    watched = watch(WELL)
    assert watched.evaluate(20, WELL) == []
    assert watched.late_text == ""
    assert watched.evaluate(21, WELL) == []
    assert watched.late_text == "no step for 21 s after step 100, usually one takes 3 s"
    watched.evaluate(22, replace(WELL, step=101, steps=101))
    assert (watched.late_text, watched.active) == ("", ())


@pytest.mark.parametrize(
    ("rhythm", "late", "alarm"),
    [
        (StepCadence(0.1, 0.1), 10, 60),
        (StepCadence(1.5, 1.5), 15, 60),
        (StepCadence(2.8, 2.8), 20, 70),
        (StepCadence(10.0, 10.0), 30, 250),
        (StepCadence(100.0, 100.0), 300, 2_500),
        (StepCadence(2.8, 280.0), 560, 840),
        (StepCadence(2.8, 2.8, pause=200.0), 250, 300),
    ],
    ids=[
        "fast",
        "10 steps",
        "20 seconds",
        "3 steps",
        "slow",
        "a line for every hundredth step",
        "checkpoints that take 200 s",
    ],
)
def test_how_long_a_step_may_take(rhythm: StepCadence, late: int, alarm: int) -> None:
    run, watched = replace(WELL, rhythm=rhythm, pace=rhythm.pace), watch(silent=9_000)
    watched.evaluate(0, run)
    watched.feed_line(0, "step 100")
    for moment in range(0, 2 * alarm, 2):
        found = watched.evaluate(moment, run)
        assert bool(watched.late_text) == (moment > late), moment
        assert bool(found) == (alarm < moment <= alarm + 2), moment


def test_the_rank_that_an_x_ray_found_is_reported_with_the_stall() -> None:
    watched = watch(WELL)
    before = replace(WELL, blamed="inspected: Rank 9 is in the data loader", blamed_at=-50.0, held=16)
    (alarm,) = watched.evaluate(80, before)
    assert alarm.more == "", "that inspection is older than the last step"
    watched.evaluate(90, replace(before, blamed_at=85.0))
    (alarm,) = watched.active
    assert alarm.text == (
        "no step for 90 s after step 100, usually one takes 3 s; inspected: Rank 9 is in the data loader"
    )
    hang = "a4 hang job --bundle FILE keeps the evidence"  # who they wait for is said
    assert alarm.next_step() == alarm.next_step("you") == f"{hang}; a4 stop job frees 16 GPUs"
    assert alarm.next_step("ada") == f"{hang}; a4 stop job frees 16 GPUs (launched by ada, not by you)"
    assert alarm.next_step("you", may_stop=False) == hang
    assert alarm.next_step(may_stop=False, look="Hang", act="X") == "Hang shows where each rank is"
    act = "X lists what can be done, such as to launch it again"
    saved = f"{act} from its last checkpoint"
    assert alarm.next_step(may_stop=True, look="Hang", act="X", has_checkpoint=True).startswith(saved)
    assert alarm.next_step(look="Hang", stop_key="Stop", act="X") == f"{act}; Stop frees 16 GPUs"
    on_node = structs.replace(alarm, nodes=("node-9",), held=0)
    assert on_node.next_step(look="Hang", act="X") == act, "the node is where they wait, not always why"


def test_the_verdict_on_a_late_job_holds_until_its_next_step() -> None:
    watched, found = watch(), "Rank 9 is in the data loader while 15 others wait in all_reduce"
    watched.evaluate(0, WELL)
    blamed = replace(WELL, blamed=f"inspected: {found}", blamed_at=33.0)
    watched.evaluate(35, blamed)
    assert (watched.active, watched.verdict) == ((), found)
    watched.evaluate(90, blamed)
    assert watched.verdict == found
    assert watched.active[0].more == f"inspected: {found}"
    watched.evaluate(91, replace(blamed, step=101, steps=101))
    assert watched.verdict == ""
    watched.evaluate(130, replace(WELL, step=101, steps=101, blamed="not inspected: ada launched it", blamed_at=125.0))
    assert (watched.late_text != "", watched.verdict) == (True, "")


def test_a_log_that_is_read_from_long_ago_tells_how_long_it_has_been_quiet() -> None:
    watched = AlarmWatch(("default", "job"), Thresholds(), 10_000.0)
    for moment, step in ((10_000, 40), (10_002, 80), (10_004, 100)):
        watched.evaluate(moment, replace(WELL, step=step, steps=step, step_at=9_000.0 + step))
    assert watched.is_unproved, "it may yet show that it lives"
    (alarm,) = watched.evaluate(10_011, replace(WELL, step_at=9_100.0))
    assert alarm.words.startswith("no step for 15 min")


def test_a_run_that_hung_before_anybody_looked() -> None:
    watched = AlarmWatch(("default", "job"), Thresholds(), 10_000.0)
    watched.evaluate(10_000, JobSample(running=True))
    watched.evaluate(10_001, replace(WELL, step_at=9_000.0))
    assert kinds(watched) == [], "it has had no time to show that it lives"
    assert [each.kind for each in watched.evaluate(10_011, replace(WELL, step_at=9_000.0))] == [AlarmKind.STALL]


def test_who_reads_the_log_once_more_is_no_stall() -> None:
    watched = watch()
    watched.evaluate(9_000, replace(WELL, step=4_640, step_at=8_999.0))
    watched.on_reader_changed(9_001)
    for moment, step in ((9_002, 1_011), (9_014, 2_500), (9_020, 4_600)):
        watched.feed_line(moment, f"iteration {step}")
        assert watched.evaluate(moment, replace(WELL, step=step, step_at=100.0)) == []
    assert watched.evaluate(9_021, replace(WELL, step=4_641, step_at=9_020.0)) == []
    assert kinds(watched) == []
    (alarm,) = watched.evaluate(9_100, replace(WELL, step=4_641, step_at=9_020.0))
    assert alarm.kind is AlarmKind.STALL


def test_an_alarm_lasts_while_another_one_begins_to_listen() -> None:
    watched = watch(WELL)
    watched.evaluate(301, WELL)
    watched.on_reader_changed(310)
    for moment, step in ((311, None), (312, 40), (313, 100)):
        assert watched.evaluate(moment, replace(WELL, step=step, step_at=1.0)) == []
        assert kinds(watched) == [AlarmKind.STALL]


def test_a_run_that_restarted_meanwhile_is_not_awaited() -> None:
    watched = watch(replace(WELL, step=500))
    watched.on_reader_changed(1)
    watched.evaluate(2, replace(WELL, step=60, step_at=2.0))
    assert watched.evaluate(13, replace(WELL, step=60, step_at=2.0, nan="loss nan at 60"))[0].kind is AlarmKind.NAN


def test_warm_up_takes_its_time() -> None:
    watched = watch()
    watched.feed_line(0, "building the index map")
    for moment in range(0, 1790, 100):
        assert watched.evaluate(moment, JobSample(running=True)) == []
    first = JobSample(running=True, step=1, steps=1)
    watched.evaluate(1790, first)
    watched.feed_line(1790, "iteration 1")
    assert watched.evaluate(2700, first) == [], "the second iteration compiles"


@pytest.mark.parametrize(
    "line", ["saving checkpoint at iteration 100 to /mnt", "evaluating at iteration 100", "Running validation"]
)
def test_evaluation_and_checkpoints_have_more_time(line: str) -> None:
    watched = watch(WELL)
    watched.feed_line(1, line)
    assert watched.evaluate(1700, WELL) == []
    watched.evaluate(1701, replace(WELL, step=101, steps=101))
    assert [each.kind for each in watched.evaluate(2100, replace(WELL, step=101, steps=101))] == [AlarmKind.STALL]


def test_what_does_not_run_is_not_silent() -> None:
    watched = watch()
    pending = replace(WELL, running=False)
    watched.evaluate(0, pending)
    assert watched.evaluate(9_000, pending) == []
    assert watched.evaluate(9_001, WELL) == []
    assert watched.evaluate(9_200, replace(WELL, trained=True)) == []
    assert watched.evaluate(99_000, replace(WELL, trained=True)) == []


def test_lines_that_stop() -> None:
    watched = watch(WELL, stall=10_000)
    watched.feed_line(100, "iteration 100")
    assert watched.evaluate(699, WELL) == []
    (alarm,) = watched.evaluate(701, WELL)
    assert (alarm.kind, alarm.words) == (AlarmKind.STALL, "no step for 11 min after step 100, usually one takes 3 s")
    watched.feed_line(702, "something")
    watched.evaluate(703, WELL)
    assert watched.active == ()


def test_clocks_of_nodes_may_be_wrong() -> None:
    watched = AlarmWatch(("default", "job"), Thresholds(), 10_000.0)
    for moment in range(10_000, 10_100, 3):
        watched.feed_line(moment, "iteration", moment - 900.0)
        watched.evaluate(moment, replace(WELL, step=moment, steps=moment, step_at=moment - 900.0))
    assert watched.alarms == []


def test_what_happened_is_reported_once() -> None:
    watched = watch(replace(WELL, restarts=1))
    assert watched.alarms == [], "it had restarted before"
    told = watched.evaluate(1, replace(WELL, restarts=2, restart_words="pod 1 OOMKilled"))
    assert [(each.kind, each.words) for each in told] == [(AlarmKind.RESTART, "restarted, attempt 3: pod 1 OOMKilled")]
    spike = replace(WELL, restarts=2, spikes=((5.0, 3.0, "loss up"), (1.0, -500.0, "long ago")))
    assert [each.words for each in watched.evaluate(2, spike)] == ["loss up"]
    assert watched.evaluate(3, spike) == []
    slow = replace(spike, failed_tests=(("a", "busbw: 200 GB/s"),))
    assert [each.kind for each in watched.evaluate(4, slow)] == [AlarmKind.BUSBW]
    watched.feed_line(5, "NVRM: Xid (PCI:0000:8d:00): 79, GPU has fallen off the bus")
    assert [each.kind for each in watched.evaluate(6, slow)] == [AlarmKind.GPU]
    assert watched.evaluate(7, slow) == []


def test_nan_behind_and_faults_last() -> None:
    watched = watch()
    bad = replace(WELL, nan="no loss printed at 118", behind=((3, 40), (5, 2)), gpu_faults=("pod 0 GPU 1: Xid 79",))
    watched.evaluate(0, bad)
    assert {each.kind: each.words for each in watched.active} == {
        AlarmKind.NAN: "no loss printed at 118",
        AlarmKind.BEHIND: "pod 3 40 steps behind the leading pod",
        AlarmKind.GPU: "pod 0 GPU 1: Xid 79",
    }
    watched.evaluate(1, WELL)
    assert watched.active == ()


def test_thresholds_of_the_person(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    assert load_config(place).config.alarms == Thresholds()
    place.write_text('[alarms]\nstall = 60\noff = ["nan"]\nnotify = false\n')
    expected = structs.replace(Thresholds(), stall=60, off=("nan",), notify=False)
    assert load_config(place).config.alarms == expected
    assert watch(off=expected.off).evaluate(0, replace(WELL, nan="nan")) == []
    wrong = {"stall = -1": "at least 1", "stal = 1": "no setting alarms.stal", 'off = ["x"]': "one of stall",
             "behind = 1.5": "a whole number", "stall = true": "a number of at least 1"}  # fmt: skip
    for text, why in wrong.items():
        place.write_text(f"[alarms]\n{text}\nlate = 8")
        loaded = load_config(place)
        assert [each.line for each in loaded.problems] == [2]
        assert why in loaded.problems[0].text
        assert loaded.config.alarms == structs.replace(Thresholds(), late=8)
    with pytest.raises(BadInput, match="a number of at least 1"):
        with_thresholds(Thresholds(), {"silent": "long"})


def test_alarms_are_named_alike_in_the_settings() -> None:
    assert set(get_args(AlarmName)) == set(AlarmKind)


@pytest.mark.parametrize(("pace", "told"), [(2.82, "2.82 s"), (1.0, "1 s"), (0.0017, "1.7 ms"), (0.45, "450 ms")])
def test_a_step_shorter_than_a_second_is_reported_in_milliseconds(pace: float, told: str) -> None:
    assert format_late_step(40, 9, pace) == f"no step for 40 s after step 9, usually one takes {told}"


def test_one_hang_rings_once_whichever_sign_of_it_is_seen_first() -> None:
    """Silence is noticed before anybody knows how long a step takes: it is a stall by then, in the same sentence."""
    watched = watch(replace(WELL, rhythm=None), silent=60.0)
    watched.feed_line(1, "step 100")
    (silent,) = watched.evaluate(62, replace(WELL, rhythm=None))
    assert (silent.kind, silent.words) == (AlarmKind.STALL, "no step for 62 s after step 100")
    assert watched.evaluate(100, WELL) == []
    (alarm,) = watched.alarms
    assert (alarm.kind, alarm.time, alarm.over) == (AlarmKind.STALL, 62, 0.0)


def test_a_log_that_is_lost_for_a_moment_does_not_ring_for_the_same_hang_again() -> None:
    watched = watch(WELL)
    assert watched.evaluate(80, WELL)
    watched.evaluate(90, replace(WELL, step=None, steps=0))
    assert watched.evaluate(92, replace(WELL, step_at=0.5)) == []
    assert [(each.kind, each.over) for each in watched.alarms] == [(AlarmKind.STALL, 0.0)]
    watched.evaluate(100, replace(WELL, step=101, steps=101))
    assert watched.evaluate(190, replace(WELL, step=101, steps=101)), "the next hang rings"
    assert len(watched.alarms) == 2


def test_what_ended_an_alarm_that_its_cause_did_not_end() -> None:
    watched = watch(WELL)
    watched.evaluate(80, WELL)
    failed = replace(WELL, running=False, finished=True, failure="pod 1 Error", failed_at=85.0)
    watched.evaluate(90, failed)
    stall, over = watched.alarms
    assert (stall.ended_text, over.words, over.since) == ("until the job failed", "the job failed: pod 1 Error", 85.0)
    again = watch(WELL)
    again.evaluate(80, WELL)
    again.evaluate(90, replace(WELL, step=101, steps=101))
    assert again.alarms[0].ended_text == "over"


def test_a_job_that_is_gone_ends_its_alarms_and_one_that_is_being_stopped_does_not() -> None:
    watched = watch(WELL)
    (alarm,) = watched.evaluate(80, WELL)
    watched.evaluate(81, replace(WELL, stopped=True, running=False))
    assert watched.active == (alarm,), "what it was stopped for"
    watched.evaluate(90, JobSample(running=False, finished=True, stopped=True))
    (ended,) = watched.alarms
    assert (ended.is_active, ended.over, ended.ended_text) == (False, 90, "until the job was stopped")
    assert ended.lasted_to_job_end


def test_an_alarm_tells_when_it_happened_not_when_it_was_noticed() -> None:
    watched = watch(WELL)
    watched.evaluate(10, replace(WELL, step=101, steps=101))
    (stall,) = watched.evaluate(90, replace(WELL, step=101, steps=101))
    assert (stall.time, stall.since) == (90, 10)
    (nan,) = watched.evaluate(95, replace(WELL, step=102, steps=102, nan="loss is NaN since step 102", nan_at=40.0))
    assert (nan.time, nan.since) == (95, 40)


@pytest.mark.parametrize(
    ("line", "rings"),
    [
        ("NVRM: Xid (PCI:0000:8b:00): 79, pid=1, name=python, GPU has fallen off the bus.", True),
        ("[ 12.5] NVRM: Xid (PCI:0000:8b:00.0): 48, An uncorrectable double bit error (DBE)", True),
        ("NVRM: Xid (0000:05:00): 13, Graphics Exception", True),
        ("checking dmesg for Xid errors", False),
        ("Xid watcher started", False),
        ("NVRM: Xid handling is enabled", False),
        ("see the table of Xid 79 in the manual", False),
    ],
)
def test_only_the_driver_and_a_number_make_an_xid(line: str, rings: bool) -> None:
    watched = watch(WELL)
    watched.feed_line(1, line)
    assert [alarm.kind for alarm in watched.evaluate(2, replace(WELL, step=101))] == ([AlarmKind.GPU] if rings else [])


def test_no_stall_is_reported_while_more_of_the_log_waits_to_be_read() -> None:
    watch = AlarmWatch(("default", "train"), Thresholds(), 10_000.0, settles=1.0)
    look = JobSample(running=True, step=9, step_at=5_000.0, steps=9, rhythm=StepCadence(1.0, 1.0))
    watch.feed_line(10_000.5, "step 9", 5_000.0)
    assert (watch.is_reading_old_lines(10_000.6), watch.is_reading_old_lines(10_002.0)) == (True, False)
    assert watch.evaluate(10_002.0, replace(look, behind_log=True)) == []
    assert watch.is_unproved
    assert [alarm.kind for alarm in watch.evaluate(10_002.2, look)] == [AlarmKind.STALL]


def test_an_alarm_names_the_nodes_that_its_cause_is_on() -> None:
    nodes = ("a", "b", "b", "c")
    sick = replace(WELL, pod_nodes=nodes, blamed_nodes=("b",), behind=((0, 3), (1, 25), (2, 40)))
    watched = watch(WELL)
    (late,) = watched.evaluate(1, sick)
    assert (late.kind, late.nodes) == (AlarmKind.BEHIND, ("b",))
    watched.evaluate(80, sick)
    stall = next(each for each in watched.active if each.kind is AlarmKind.STALL)
    assert stall.nodes == (), "nobody has looked since its last step"
    watched.evaluate(90, replace(sick, blamed="inspected: Rank 9 is in the data loader", blamed_at=85.0))
    stall = next(each for each in watched.active if each.kind is AlarmKind.STALL)
    assert stall.nodes == ("b",)
    (gpu,) = watched.evaluate(91, replace(sick, gpu_faults=("pod 3 GPU 1: Xid 79",), faulty_nodes=("c",)))
    assert (gpu.kind, gpu.nodes) == (AlarmKind.GPU, ("c",))
    (failed,) = watched.evaluate(92, replace(sick, running=False, failure="pod 3 OOMKilled", failed_node="c"))
    assert (failed.kind, failed.nodes) == (AlarmKind.FAILED, ("c",))


def test_of_a_job_that_is_gone_nothing_is_advised_that_needs_it() -> None:
    watched = cast("Any", SimpleNamespace(fleet=fleet_of(), namespace_if_not_default=lambda _: "", read_only=False))
    gone = Alarm(AlarmKind.STALL, "no step", 1.0, "default", "my-hang", over=2.0, ended=JOB_STOPPED, held=16)
    assert format_alarm(gone, watched) == "no step. a4 history my-hang shows its run, if you launched it."
    assert "a4 hang my-hang" in format_alarm(structs.replace(gone, over=0.0, ended=""), watched)


def test_whoever_looks_for_three_seconds_leaves_a_late_step_to_the_log() -> None:
    """A command cannot prove in so short a time that a step is late, nor does it take from the log that it is."""
    watch, rhythm = AlarmWatch(("default", "job"), Thresholds(), 10_000.0, settles=3.0), StepCadence(3.0, 3.0)
    for now in (10_000.0, 10_003.0):
        watch.evaluate(now, JobSample(True, step=4, steps=4, step_at=9_970.0, rhythm=rhythm, pace=3.0))
    assert (watch.late_text, watch.has_step_cadence) == ("", False)
    watch.evaluate(10_010.0, JobSample(True, step=4, steps=4, step_at=9_970.0, rhythm=rhythm, pace=3.0))
    assert watch.late_text


def test_a_log_that_takes_long_to_be_read_does_not_make_an_old_step_new() -> None:
    watch, rhythm = AlarmWatch(("default", "job"), Thresholds(), 10_000.0), StepCadence(3.0, 3.0)
    sample = JobSample(True, step=3, steps=3, step_at=9_003.0, rhythm=rhythm, pace=3.0, behind_log=True)
    watch.evaluate(10_001.0, sample)
    watch.evaluate(10_030.0, replace(sample, step=4, steps=4, step_at=9_006.0))
    watch.evaluate(10_040.0, replace(sample, step=4, steps=4, step_at=9_006.0, behind_log=False))
    assert (watch.step_at, kinds(watch)) == (9_006.0, [AlarmKind.STALL])
