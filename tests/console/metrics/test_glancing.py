"""A look at the end of a job's log, as lists take one."""

from __future__ import annotations

import time

import pytest

from console.launch.run_record import RunRecord
from console.logs.line import LogLine
from console.metrics.job_progress import BACK, TABLE
from console.metrics.log_results import LogReading
from console.metrics.training.steps import standing
from tests.fakes import FakeSession
from tests.screens.queue_scene import queue_scene, table_text


async def test_a_test_that_is_found_is_kept_with_the_moment_at_which_it_was_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    session = FakeSession(queue_scene())
    first, second = table_text(500.0, finished=True), table_text(600.0, finished=True)
    lines = [LogLine(1000.0 + at, text) for at, text in enumerate([*first, *second])]
    session.logs["default", "llama-workload-0-0-x7k0"] = lines
    await session.measures.kept.read()
    assert await session.measures.glancing.look([("default", "llama")])
    moments = {each.test.avg_busbw: each.at for each in session.measures.kept.tests}
    assert moments == {500.0: 1000.0 + len(first) - 1, 600.0: 1000.0 + len(lines) - 1}


async def test_the_end_of_a_training_is_foretold_by_the_time_between_its_lines() -> None:
    """A program that tells of a step of a few milliseconds, of which one is printed every four seconds."""
    session = FakeSession(queue_scene())
    key, uid, now = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid, time.time()
    for last in (now, now - 3600.0):
        lines = [
            LogLine(last - 4.0 * (50 - at), f"step {at}/1000 loss 2.330987 step_time 0.0016s") for at in range(1, 51)
        ]
        session.logs["default", "llama-workload-0-0-x7k0"] = lines
        session.measures.glancing.forget()
        assert await session.measures.glancing.look([key])
        found = session.measures.glancing.of(uid)
        assert found is not None
        assert (found.step, found.total, found.step_time) == (50, 1000, 0.0016)
        assert found.eta == (pytest.approx(950 * 4.0) if last == now else None)


def _lines(first: int, last: int, *, nan_from: int, many: int = 1) -> list[LogLine]:
    return [
        LogLine(1000.0 + at, f"step {at}/970 loss {'nan' if at >= nan_from else f'{11 - at / 50:.3f}'} lr 1e-4")
        for at in range(first, last + 1)
        for _ in range(many)
    ]


async def test_every_page_says_since_when_the_loss_is_lost() -> None:
    """The list reads the end of a log; what it says of the beginning is what the memory of runs says, who read all."""
    session = FakeSession(queue_scene())
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    glancing, lines = session.measures.glancing, _lines(1, 700, nan_from=20)
    session.logs["default", "llama-workload-0-0-x7k0"] = lines
    assert await glancing.look([key])
    found = glancing.of(uid)
    assert found is not None
    assert found.nan_words == "loss is NaN since step 20 (last good 10.62 at 19)"
    reading = LogReading()
    reading.feed("".join(f"{line.text}\n" for line in lines).encode())
    where = standing(reading.training[-1].steps)
    run = RunRecord(
        "own-script", "llama", "default", step=where.step, loss=where.loss, loss_step=where.loss_step,
        nan=where.nan, nan_from=where.nan_from,
    )  # fmt: skip
    assert found.nan_words == where.nan_words == f"loss is {run.nan_words}"
    session.logs["default", "llama-workload-0-0-x7k0"] = _lines(1, 800, nan_from=20)
    glancing._asked.clear()
    assert await glancing.look([key])
    assert [call[-1] for call in session.called("read_tail")] == [TABLE, BACK, TABLE], "it is looked for once"
    found = glancing.of(uid)
    assert found is not None
    assert (found.step, found.nan_words) == (800, where.nan_words)


async def test_a_list_that_saw_the_last_good_step_goes_on_to_say_it() -> None:
    """Of a log whose beginning is gone, as the kubelet turns it over."""
    session = FakeSession(queue_scene())
    key, uid = ("default", "llama"), session.fleet.jobsets["default", "llama"].uid
    glancing = session.measures.glancing
    session.logs["default", "llama-workload-0-0-x7k0"] = _lines(1, 19, nan_from=20)
    assert await glancing.look([key])
    session.logs["default", "llama-workload-0-0-x7k0"] = _lines(230, 900, nan_from=20)
    for asked in (2, 3):
        glancing._asked.clear()
        await glancing.look([key])
        found = glancing.of(uid)
        assert found is not None
        assert found.nan_words == "loss is NaN since step 230 or earlier (last good 10.62 at 19)", asked
