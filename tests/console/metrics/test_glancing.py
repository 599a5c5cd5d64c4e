"""A look at the end of a job's log, as lists take one."""

import math
import time

import pytest
from msgspec import structs

from console.alarm_thresholds import Thresholds
from console.errors import Unreachable
from console.kube.objects.meta import Condition
from console.kube.objects.pod import Pod
from console.launch.run_figures import training_figures
from console.launch.run_record import RunRecord
from console.logs.log_line import LogLine, PodLine
from console.metrics.alarm_rules import AlarmWatch
from console.metrics.job_measures import JobMeasures, LogReader, read_lines
from console.metrics.job_monitor import sample_job
from console.metrics.progress_reader import MAX_REFUSED_READS, NAN_SEARCH_LINES, TABLE_TAIL_LINES
from rankscope import Activity, HangGroup
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import alarm_by_log
from screens.columns.runs import run_facts
from screens.job_tabs.hang import group_sign
from screens.widgets.charts.training_panel import run_summary
from screens.wording import BAD, HELD
from tests.fakes import FakeSession, present
from tests.screens.queue_scene import queue_scene, table_text
from trainlog import LogResults, Step, find_run_position


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(queue_scene())


async def test_a_test_that_is_found_is_kept_with_the_moment_at_which_it_was_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    session = FakeSession(queue_scene())
    first, second = table_text(500.0, finished=True), table_text(600.0, finished=True)
    lines = [LogLine(1000.0 + at, text) for at, text in enumerate([*first, *second])]
    session.printed["default", "llama-workload-0-0-x7k0"] = lines
    await session.measures.test_history.load()
    assert await session.measures.progress_reader.update([("default", "llama")])
    moments = {each.test.avg_busbw: each.at for each in session.measures.test_history.tests}
    assert moments == {500.0: 1000.0 + len(first) - 1, 600.0: 1000.0 + len(lines) - 1}


async def test_the_end_of_a_training_is_foretold_by_the_time_between_its_lines(session: FakeSession) -> None:
    """A program that tells of a step of a few milliseconds, of which one is printed every four seconds."""
    key, uid, now = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid, time.time()
    for last in (now, now - 3600.0):
        lines = [
            LogLine(last - 4.0 * (50 - at), f"step {at}/1000 loss 2.330987 step_time 0.0016s") for at in range(1, 51)
        ]
        session.printed["default", "llama-workload-0-0-x7k0"] = lines
        session.measures.progress_reader.reset()
        assert await session.measures.progress_reader.update([key])
        found = present(session.measures.progress_reader.progress_of(uid))
        assert (found.step, found.total, found.step_time) == (50, 1000, 0.0016)
        assert found.eta == (pytest.approx(950 * 4.0, abs=60) if last == now else None)


@pytest.mark.parametrize("every", [3, 7, 40])
def test_each_step_has_the_moment_of_its_own_line_though_lines_are_read_together(every: int) -> None:
    """Steps that go back, and lines of other kinds between them."""
    lines = []
    for at, step in enumerate([*range(1, 90), *range(60, 140)]):
        lines.append(LogLine(1000.0 + 2 * at, f"step {step}/970 loss {9 - at / 100:.3f} lr 1e-4"))
        if at % every == 0:
            lines.append(LogLine(1001.0 + 2 * at, f"rank 0 saved a checkpoint of {step}"))
    _, (track,), _ = read_lines(lines)
    assert track.numbers.tolist() == [float(step) for step in range(1, 140)]
    assert track.times.tolist() == [1000.0 + 2 * (step - 1 if step < 60 else 89 + step - 60) for step in range(1, 140)]
    assert [(each.step, each.time) for each in track.restarts] == [(60.0, 1178.0)]


async def test_nothing_is_kept_of_jobs_that_are_gone(session: FakeSession) -> None:
    key, uid, reader = (
        ("default", "llama"),
        session.fleet.jobsets["default", "llama"].uid,
        session.measures.progress_reader,
    )
    session.printed["default", "llama-workload-0-0-x7k0"] = _lines(1, 700, nan_from=20)

    def kept() -> list[str]:
        return [name for holder in (reader, reader.nan_finder) for name, each in vars(holder).items()
                if isinstance(each, (dict, set)) and uid in each]  # fmt: skip

    assert await reader.update([key])
    assert len(kept()) > 4
    session.fleet = structs.replace(session.fleet, jobsets={})
    await reader.update([key])
    assert kept() == []


async def test_a_peak_so_far_does_not_fall_while_a_log_is_read_anew(session: FakeSession) -> None:
    """The list has read its end; then somebody begins to follow the log, and has read only its first rows."""
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    progress_reader, texts = session.measures.progress_reader, table_text(110.0, 182.0, 602.0, 656.0)
    lines = [LogLine(1000.0 + at, text) for at, text in enumerate(texts)]
    session.printed["default", "llama-workload-0-0-x7k0"] = lines
    measures = JobMeasures(key)
    reader = LogReader(measures, 1)

    async def peak_after(*more: LogLine) -> float | None:
        for line in more:
            reader.feed_lines([PodLine(0, line.time, line.text)])
        await progress_reader.update([key])
        found = progress_reader.progress_of(uid)
        return found.busbw if found is not None else None

    assert await peak_after() == 656.0
    session.measures.find_monitored = {key: measures}.get
    assert await peak_after(*lines[:-2]) == 656.0
    assert await peak_after(lines[-2]) == 656.0
    assert await peak_after(lines[-1]) == 656.0
    new = [LogLine(2000.0 + at, text) for at, text in enumerate(["", *table_text(55.0)])]
    assert await peak_after(*new) == 55.0, "of the next test, whose rows were printed after those that were known"
    measures = JobMeasures(key)
    reader = LogReader(measures, 1)
    session.measures.find_monitored = {key: measures}.get
    assert await peak_after(*lines) == 55.0


def _lines(first: int, last: int, *, nan_from: int, many: int = 1) -> list[LogLine]:
    return [
        LogLine(1000.0 + at, f"step {at}/970 loss {'nan' if at >= nan_from else f'{11 - at / 50:.3f}'} lr 1e-4")
        for at in range(first, last + 1)
        for _ in range(many)
    ]


async def test_every_page_says_since_when_the_loss_is_lost(session: FakeSession) -> None:
    """The list reads the end of a log; what it says of the beginning is what the memory of runs says, who read all."""
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    progress_reader, lines = session.measures.progress_reader, _lines(1, 700, nan_from=20)
    session.printed["default", "llama-workload-0-0-x7k0"] = lines
    assert await progress_reader.update([key])
    found = present(progress_reader.progress_of(uid))
    assert found.nan_words == "loss is NaN since step 20 (last good 10.62 at 19)"
    alarm = present(alarm_by_log(JobLine(session.fleet.jobsets[key], session.fleet, found)))
    assert alarm.since == 1020.0, "not since the last step"
    reading = LogResults()
    reading.feed("".join(f"{line.text}\n" for line in lines).encode())
    where = find_run_position(reading.training[-1].steps)
    run = RunRecord(
        "own-script", "llama", "default", step=where.step, loss=where.loss, loss_step=where.valid_loss_step,
        nan=where.nan, nan_from=where.nan_from,
    )  # fmt: skip
    assert found.nan_words == where.nan_words == f"loss is {run.nan_words}"
    session.printed["default", "llama-workload-0-0-x7k0"] = _lines(1, 800, nan_from=20)
    progress_reader._read_at.clear()
    assert await progress_reader.update([key])
    assert [call[-1] for call in session.called("read_tail")] == [
        TABLE_TAIL_LINES,
        NAN_SEARCH_LINES,
        TABLE_TAIL_LINES,
    ], "it is looked for once"
    found = present(progress_reader.progress_of(uid))
    assert (found.step, found.nan_words) == (800, where.nan_words)


@pytest.mark.parametrize("first", [20, 100, 101])
async def test_the_lines_before_those_of_a_list_say_the_same_of_a_lost_loss_as_all_of_them(first: int) -> None:
    session = FakeSession(queue_scene())
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    session.printed["default", "llama-workload-0-0-x7k0"] = lines = _lines(1, 700, nan_from=first)
    assert await session.measures.progress_reader.update([key])
    _, (track,), _ = read_lines(lines)
    found = present(session.measures.progress_reader.progress_of(uid)).where
    assert found == track.position()
    assert (found.nan_from, found.valid_loss_step, found.nan_at) == (first, first - 1, 1000.0 + first)


async def test_a_list_that_saw_the_last_good_step_goes_on_to_say_it(session: FakeSession) -> None:
    """Of a log whose beginning is gone, as the kubelet turns it over."""
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    progress_reader = session.measures.progress_reader
    session.printed["default", "llama-workload-0-0-x7k0"] = _lines(1, 19, nan_from=20)
    assert await progress_reader.update([key])
    session.printed["default", "llama-workload-0-0-x7k0"] = _lines(230, 900, nan_from=20)
    for asked in (2, 3):
        progress_reader._read_at.clear()
        await progress_reader.update([key])
        found = present(progress_reader.progress_of(uid))
        assert found.nan_words == "loss is NaN since step 230 or earlier (last good 10.62 at 19)", asked


async def test_all_say_the_same_of_a_loss_that_was_lost_before_what_was_read(session: FakeSession) -> None:
    """Jobs, alarms, the Training tab, `a4 training` and the history, of a log whose beginning is gone."""
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    lines = _lines(230, 900, nan_from=20)
    session.printed["default", "llama-workload-0-0-x7k0"] = lines
    assert await session.measures.progress_reader.update([key])
    found = session.measures.progress_reader.progress_of(uid)
    words = "NaN since step 230 or earlier"
    assert found is not None
    assert found.nan_words == f"loss is {words}"
    measures = JobMeasures(key)
    LogReader(measures, 1).feed_lines([PodLine(0, line.time, line.text) for line in lines])
    track = measures.tracks[0]
    run = RunRecord("own-script", "llama", "default", **training_figures(track.position()))
    assert (run.nan_words, dict(run_facts(run, 0.0))["No number"]) == (f"loss is {words}", "since step 230 or earlier")
    assert f"; loss is {words};" in "".join(each.text for each in run_summary(track))
    assert [mark.words for mark in track.list_events()] == ["loss is NaN at 230 or earlier"]
    track.add_checkpoint(240, 1400.0)
    track.earlier = track.position()
    look = sample_job(None, session.fleet, measures, {}, (), 0.0)
    assert (look.nan, look.nan_at, look.saved_words) == (f"loss is {words}", 0.0, "")
    alarms = AlarmWatch(key, Thresholds(), 5000.0)
    (alarm,) = alarms.evaluate(5000.0, structs.replace(look, running=True, finished=False, stopped=False))
    assert (alarm.words, alarm.since) == (f"loss is {words}", 5000.0)


def test_a_step_without_figures_says_nothing_of_its_loss() -> None:
    """A bar that was read before the first loss: whether that was a number nobody knows."""
    lost = [Step(step=97, loss=math.nan, nan=True), Step(step=98, loss=math.nan, nan=True)]
    assert find_run_position([Step(step=96), *lost]).nan_words == "loss is NaN since step 97 or earlier"
    assert find_run_position([Step(step=96, grad_norm=1.0), *lost]).nan_words == "loss is NaN since step 97"


@pytest.mark.slow(reason="waits until a job is read again")
@pytest.mark.parametrize("failures", [1, MAX_REFUSED_READS - 1, MAX_REFUSED_READS])
async def test_a_finished_job_is_read_once_more_after_its_log_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    session = FakeSession(queue_scene())
    key = ("default", "llama")
    done = structs.replace(session.fleet.jobsets[key], conditions=(Condition("Completed", "True"),))
    session.show(jobsets={**session.fleet.jobsets, key: done})
    session.printed["default", "llama-workload-0-0-x7k0"] = [
        LogLine(1000.0 + at, text) for at, text in enumerate(table_text(500.0, finished=True))
    ]
    progress_reader, now = session.measures.progress_reader, 10_000.0
    monkeypatch.setattr("console.metrics.job_measures.time.monotonic", lambda: now)
    read, refused = progress_reader._read_tail, set[float]()

    async def read_tail(pod: Pod, lines: int) -> list[LogLine]:
        if len(refused | {now}) <= failures:
            refused.add(now)
            raise Unreachable("The node does not answer.")
        return await read(pod, lines)

    progress_reader._read_tail = read_tail
    for _ in range(20):
        await progress_reader.update([key])
        now += 60.0
    found = progress_reader.progress_of(done.uid)
    assert len(refused) == failures
    if failures == MAX_REFUSED_READS:
        assert found is None, "it is given up"
    else:
        assert found is not None
        assert found.average == 500.0


def test_a_job_that_has_ended_neither_works_nor_has_time_left() -> None:
    _, (track,), _ = read_lines(_lines(1, 300, nan_from=900))
    for over, sign, has_end in ((None, "●", True), (HELD, "‖", False), (BAD, "✗", False)):
        runs = run_summary(track, left="10 min left, at 12:10", over=over)
        assert (runs[0].text, "left" in "".join(each.text for each in runs)) == (sign, has_end)


@pytest.mark.parametrize(("doing", "suspect", "sign"), [
    (Activity.COMPUTE, False, "●"), (Activity.DATA, True, "✗"), (Activity.NOT_ASKED, False, "○"),
    (Activity.UNKNOWN, False, "○"), (Activity.COLLECTIVE, False, "○"),
])  # fmt: skip
def test_only_ranks_that_compute_work(doing: Activity, suspect: bool, sign: str) -> None:
    assert group_sign(HangGroup(doing, doing, (), suspect)).text == sign
