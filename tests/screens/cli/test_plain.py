"""`a4 --plain`: lines in place of a screen, one for each change of what matters."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from console.kube.snapshot import WatchState
from console.metrics.alarm import AlarmKind
from screens.cli import plain
from tests.fakes import FakeSession
from tests.screens.cli.commands import Commands, parse
from tests.screens.scene import scene


@pytest.fixture
def session() -> FakeSession:
    return FakeSession(scene())


@pytest.fixture
def say(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """Looks at the session again; what is printed of it, without the time."""
    told: dict[tuple[str, str], plain.PlainLine] = {}

    def look() -> list[str]:
        nonlocal told
        lines = dict(plain._iter_lines(cast("Any", session), session.fleet, ""))
        plain._print_changes(lines, told)
        told = lines
        return [line[9:] for line in capsys.readouterr().out.splitlines()]

    return look


def test_the_picture_first_then_only_what_changes(session: FakeSession, say: Callable[[], list[str]]) -> None:
    first = say()
    assert first[0] == "cluster test: live"
    kinds = [line.split()[0] for line in first]
    assert list(dict.fromkeys(kinds)) == ["cluster", "pool", "node", "job"]
    assert not set("●◐○✗⚠‖▲█░│─").intersection("".join(first))
    session.show()
    assert say() == [], "the same picture, only older"
    key, jobset = next((key, each) for key, each in session.fleet.jobsets.items() if not each.finished)
    session.show(jobsets={name: each for name, each in session.fleet.jobsets.items() if name != key})
    (line,) = [line for line in say() if line.startswith("job ")]
    assert line.startswith(f"job {jobset.name} ")
    assert line.endswith(": gone")


def test_alarms_begin_and_end_in_a_line_each(session: FakeSession, say: Callable[[], list[str]]) -> None:
    say()
    session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no step for 76 s")
    (line,) = [line for line in say() if line.startswith("alarm")]
    assert line.startswith("alarm nccl-0412: stall: no step for 76 s. a4 hang nccl-0412 shows")
    assert say() == []


def test_a_cluster_that_is_lost_and_found_is_reported(session: FakeSession, say: Callable[[], list[str]]) -> None:
    say()
    live = dict(session.fleet.links)
    lost = {kind: replace(each, state=WatchState.STALE, why="Connection refused.") for kind, each in live.items()}
    session.show(links=lost)
    (line,) = say()
    assert line.startswith("cluster test: reconnecting, ")
    assert line.endswith(" old: Connection refused.")
    session.show(links={kind: replace(each, last_seen=each.last_seen - 60) for kind, each in lost.items()})
    assert say() == [], "only how old it is has changed"
    session.show(links=live)
    assert say() == ["cluster test: live"]


def test_of_many_things_at_once_the_rest_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    plain._print_changes(
        {("node", str(each)): plain.PlainLine(f"n{each}: cordoned", "cordoned") for each in range(500)}, {}
    )
    said = capsys.readouterr().out.splitlines()
    assert len(said) == plain.MAX_LINES_PER_KIND + 1
    assert said[-1].endswith(" node: 480 more: a4 nodes")


def test_a_command_takes_no_notice_of_it() -> None:
    assert parse(["--plain", "jobs"]).command == "jobs"
    assert parse(["--plain"]).plain
    assert not parse([]).plain


@pytest.mark.slow(reason="follows a practice cluster from a process of its own")
async def test_it_follows_the_cluster_in_a_pipe_and_ends_with_ctrl_c(a4: Commands, kubeconfig: Path) -> None:
    words = [sys.executable, "-m", "screens", "--plain", "--kubeconfig", str(kubeconfig)]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    running = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding
    )
    assert running.stdout is not None
    try:
        seen = ""
        async with asyncio.timeout(120):
            while "alarm dpo-a3b: NaN: loss is NaN since step 118" not in seen:
                seen += (line := (await running.stdout.readline()).decode())
                assert line, seen
            assert "job eval-32 (you, 32 GPUs): pending: needs 32 GPUs" in seen
            assert "queue a4: 112 own + 8 to borrow - 96 used = 24 free" in seen
            assert " free, by flavor a4 32, a4-spot 24. " in seen  # of research: a job gets those of one
            assert "\x1b" not in seen
            assert await asyncio.to_thread(a4.run, "stop", "dpo-a3b", "--yes")
            while " job dpo-a3b (li, 16 GPUs): gone" not in seen:
                seen += (line := (await running.stdout.readline()).decode())
                assert line, seen
            running.send_signal(signal.SIGINT)
            _, errors = await running.communicate()
        assert (running.returncode, errors) == (130, b"")
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
