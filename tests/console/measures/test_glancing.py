"""A look at the end of a job's log, as lists take one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.log import LogLine
from tests.fakes import FakeSession
from tests.screens.queue_scene import queue_scene, table_text

if TYPE_CHECKING:
    import pytest


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
