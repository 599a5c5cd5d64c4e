"""A look at the end of a job's log, as lists take one."""

from __future__ import annotations

import time

import pytest

from console.logs.line import LogLine
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
