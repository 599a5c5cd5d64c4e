"""A command in many ranks, copies, and shells that outlive their pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from textual.containers import Vertical
from textual.pilot import Pilot

from console.attach.files.copy_progress import (
    CopyMethod,
    CopyProblem,
    CopyProgress,
    CopyReport,
    CopyVerification,
)
from console.connection_settings import Settings
from console.errors import CopyFailed, NotFound, Unreachable
from console.kube.objects.pod import Container
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm, Pick
from screens.dialogs.run_in_ranks import ExecAll, QuickNccl
from screens.dialogs.save_and_copy import CopyDialog
from tests.fakes import FakeSession
from tests.screens.press import console_at, press, screen_text, toasts, until, until_shown
from tests.screens.scene import scene

JOB = ("default", "llama-70b")


async def to_job(app: ConsoleApp, pilot: Pilot[Any]) -> None:
    app.open_page("job", *JOB)
    await until_shown(pilot, "llama-70b-workload-0-7")


TABLE = b"""# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1650 on         vm device  0 [0000:00:06] NVIDIA B200
#  Rank  1 Group  0 Pid   1650 on         vm device  1 [0000:00:07] NVIDIA B200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    23.02   45.55   68.32       0    23.86   43.94   65.91       0
     2097152        524288     float     sum      -1    30.80   68.09  102.14       0    30.83   68.03  102.04       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 84.6025
#
# Collective test concluded: all_reduce_perf
"""


async def test_a_quick_nccl_test_runs_in_the_chosen_pod_once_it_is_reported_to() -> None:
    session = FakeSession(scene())
    session.answers["quick_nccl"] = (TABLE[:1000], TABLE[1000:])
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "Q", then=lambda: isinstance(app.screen, QuickNccl))
        await until_shown(pilot, "NCCL test in pod 0 of llama-70b", "which slows down what runs there")
        assert session.called("quick_nccl") == []
        await press(pilot, "enter", then=lambda: "Done: average 84.6 GB/s. a recording" in screen_text(app))
        await until_shown(pilot, "102.1")
        assert session.called("quick_nccl") == [("llama-70b-workload-0-0-x7k0", "1M", "1G")]
        await press(pilot, "enter", then=lambda: len(session.called("quick_nccl")) == 2)
        await until_shown(pilot, "Done")
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, QuickNccl))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_keeps_a_quick_nccl_test_from_running_is_shown_in_its_dialog() -> None:
    session = FakeSession(scene())
    session.answers["quick_nccl"] = NotFound("Pod p has no all_reduce_perf.", "The gIB diagnostic image brings it.")
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "Q", then=lambda: isinstance(app.screen, QuickNccl))
        await press(pilot, "enter", then=lambda: "Pod p has no all_reduce_perf. The gIB diagnostic" in screen_text(app))


async def test_there_is_no_quick_nccl_test_in_read_only_mode() -> None:
    session = FakeSession(scene(), settings=Settings(read_only=True))
    async with console_at(to_job, session, settings=session.watch.settings) as (app, pilot, _):
        await press(pilot, "Q", then=lambda: "read-only: NCCL test is off." in toasts(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_command_in_many_ranks_shows_who_dissents() -> None:
    session = FakeSession(scene())
    session.answers["exec"] = lambda rank: (1, b"", b"no device\n") if rank == 3 else (0, b"580\n", b"")
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "exclamation_mark", then=lambda: isinstance(app.screen, ExecAll))
        assert app.screen.query(Vertical).first().styles.border_top[0] == "round"  # its own styles reach it
        await press(pilot, "enter", then=lambda: "No command was given." in screen_text(app))
        await pilot.press(*"uname", "enter")
        await until_shown(pilot, "8 of 8 pods answered, 2 different answers; worst exit code 1.")
        assert session.called("everywhere") == [(tuple(range(8)), ("sh", "-c", "uname"), "")]
        shown = screen_text(app)
        assert "● pods 0-2, 4-7: 580" in shown
        assert "✗ pod 3, exit code 1: no device" in shown
        await pilot.press("tab", "end", *([*["backspace"] * 3]), *"9", "enter")
        await until_shown(pilot, "There is no pod 9.")
        assert len(session.called("everywhere")) == 1
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, ExecAll))


async def test_a_copy_shows_how_far_it_is_and_what_was_left_out() -> None:
    session = FakeSession(scene())
    session.answers["progress"] = [CopyProgress(300 << 20, 1 << 30, 3, 10, "ckpt/model-3", 0)]
    session.answers["hold"] = asyncio.Event()
    problem = CopyProblem("x.sock", "It is a socket.")
    session.answers["fetch"] = CopyReport(
        "out", "./out", 9, 1 << 30, 0, 3.0, CopyMethod.SFTP, CopyVerification.SHA256, "", (problem,)
    )
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "u", then=lambda: isinstance(app.screen, CopyDialog))
        await press(pilot, "enter", then=lambda: "Both lines are needed" in screen_text(app))
        await press(pilot, *"out", "enter", then=lambda: "29 %  300 MiB of 1 GiB" in screen_text(app))
        await until_shown(pilot, "ckpt/model-3")
        session.answers["hold"].set()
        await until_shown(
            pilot, "⚠ 9 files, 1 GiB, by sftp, sha256 equal: ./out", "1 thing skipped: x.sock It is a socket."
        )
        (called,) = session.called("fetch")
        assert called[2:] == ("out", "./", "main")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_esc_stops_a_copy_and_a_failure_stays_readable() -> None:
    session = FakeSession(scene())
    session.answers["hold"] = asyncio.Event()
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "U", then=lambda: isinstance(app.screen, CopyDialog))
        await press(pilot, *"here", "enter", then=lambda: "Listing files" in screen_text(app))
        await press(pilot, "escape", then=lambda: "Stopped. What was copied is kept" in screen_text(app))
        session.answers |= {"hold": None, "send": CopyFailed("here broke off: 1 of 2 MB are there.", "Run it again.")}
        await pilot.press("enter")
        await until_shown(pilot, "✗ here broke off: 1 of 2 MB are there. Run it again.")
        await press(pilot, "escape", then=lambda: not isinstance(app.screen, CopyDialog))


async def test_read_only_looks_but_does_not_touch() -> None:
    settings = Settings(read_only=True)
    session = FakeSession(scene(), settings=settings)
    async with console_at(to_job, session, settings=settings) as (app, pilot, _):
        page = app.screen
        await pilot.press("exclamation_mark", "U")
        await pilot.pause()
        assert app.screen is page


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The terminal can be handed over; what happened with it."""
    from contextlib import contextmanager

    from textual.app import App

    happened: list[str] = []

    @contextmanager
    def suspend(_: App[Any]) -> Any:
        happened.append("suspended")
        yield
        happened.append("resumed")

    monkeypatch.setattr(App, "suspend", suspend)
    return happened


def with_pods(session: FakeSession, change: Callable[[Any], Any]) -> None:
    """Every pod of rank 0 of the job changed; None takes it away."""
    pods = dict(session.fleet.pods)
    for key, pod in session.fleet.pods.items():
        if pod.jobset == JOB[1] and pod.completion_index == 0:
            del pods[key]
            made = change(pod)
            if made is not None:
                pods[made.key] = made
    session.show(pods=pods)


async def test_a_shell_goes_on_in_the_pod_that_takes_the_place(handed_over: list[str]) -> None:
    session = FakeSession(scene())
    session.answers["shell"] = Unreachable("The connection to the shell broke off.")
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "s", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "is still there")
        await press(pilot, "n", then=lambda: not isinstance(app.screen, Confirm))
        with_pods(session, lambda pod: structs.replace(pod, deletion_asked_at=1.0))
        await until(pilot, lambda: app.fleet is session.fleet)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and "is being replaced" in screen_text(app))
        session.answers["shell"] = 0
        await pilot.press("y")
        with_pods(
            session, lambda pod: structs.replace(pod, name="the-next-one", uid="next", deletion_asked_at=0.0, attempt=1)
        )
        await until(pilot, lambda: session.called("shell")[-1][1] == "the-next-one")
        await until(pilot, lambda: handed_over == ["suspended", "resumed"] * 3)


async def test_of_several_containers_one_is_picked(handed_over: list[str]) -> None:
    session = FakeSession(scene())
    more = (Container("main", "running"), Container("sidecar", "running"))
    with_pods(session, lambda pod: structs.replace(pod, containers=more))
    async with console_at(to_job, session) as (app, pilot, _):
        await press(pilot, "s", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, *"side", "enter", then=lambda: [call[2] for call in session.called("shell")] == ["sidecar"])
        assert handed_over
