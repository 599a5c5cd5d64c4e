import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from msgspec.structs import replace
from textual.widgets import Input

from console.connection_settings import Settings
from console.errors import Conflict, NotAllowed
from console.kube.objects.jobset import JobState
from console.kube.objects.meta import Condition
from console.kube.objects.pod import Container
from console.kube.snapshot import StopReport, WatchState, WatchStatus
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.log_line import LogLine
from console.metrics.alarm import Alarm, AlarmKind
from console.metrics.job_measures import JobMeasures, read_lines
from console.metrics.job_progress import JobProgress
from console.metrics.nccl_history import MeasuredTest
from console.metrics.start_phase import PULL_PHASE, StartPhase
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.pod_failure import FailureCard, PodFailure
from console.session import Session
from screens.app import ConsoleApp
from screens.columns.job_header import explanation, head
from screens.columns.jobs import (
    JOBS,
    RECENT_FAILURE_SECONDS,
    JobLine,
    health_spans,
    progress_cell,
    progress_words,
    reason_cell,
)
from screens.columns.live_jobs import live_line
from screens.dialogs.question import Confirm, Prompt
from screens.job_tabs.ranks import PodMatrix, card_lines
from screens.pages.job import TABS as PAGE_TABS, JobScreen
from screens.pages.jobs import STILL_SECONDS, TABS_BY_KEY, JobsScreen, JobTable
from screens.pages.launch import LaunchScreen
from screens.widgets.job_pane import reason_lines
from screens.widgets.log.log_view import LogView
from screens.widgets.title_and_keys import KeyBar
from screens.widgets.wrapped_sentence import fold_spans
from screens.wording import plain_text, spans_of
from tests.fakes import FakeSession, fleet_of, present
from tests.screens.press import (
    console,
    console_at,
    next_screen,
    press,
    screen_of,
    screen_text,
    text_of,
    toasts,
    until,
    until_shown,
)
from tests.screens.queue_scene import job, queue_scene, replaced, table_text
from tests.screens.scene import rank
from trainlog import NcclResult

NOON = datetime(2026, 11, 30, 12).astimezone().timestamp()
RANK_0 = ("default", "llama-workload-0-0-x7k0")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal that can be handed over; what happens to it."""
    seen: list[str] = []

    @contextmanager
    def suspend(app: ConsoleApp) -> Iterator[None]:
        seen.append("suspended")
        yield
        seen.append("resumed")

    monkeypatch.setattr("textual.app.App.suspend", suspend)
    return seen


async def to_jobs(app: ConsoleApp, pilot: Any) -> JobsScreen:
    await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen) and "llama" in screen_text(app))
    return screen_of(app, JobsScreen)


async def to_job(app: ConsoleApp, pilot: Any, name: str, tab: str = "pods") -> JobScreen:
    app.open_page("job", "default", name, tab)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
    screen = screen_of(app, JobScreen)
    await until(pilot, lambda: name in screen_text(app))
    return screen


async def test_jobs_say_state_ranks_and_what_matters_most() -> None:
    async with console_at(to_jobs, FakeSession(queue_scene()), size=(190, 35)) as (app, pilot, screen):
        await pilot.press("z", "z")  # without its pane the list has room for all columns
        await until(pilot, lambda: not screen.pane.size.width and "ATTEMPT" in screen_text(app))
        await until(pilot, lambda: "● running" in screen_text(app))
        text = screen_text(app)
        explanation = (
            "● running",
            "6/6",
            "○ pending",
            "16 GPUs short · llama",
            "✗ failed",
            "pod 1: OOMKilled (137)",
            "done after",
        )
        for words in (*explanation, "0/40", "2/4"):
            assert words in text
        lines = text.splitlines()
        llama, sweep, old = (
            next(at for at, line in enumerate(lines) if f" {name} " in line) for name in ("llama", "sweep", "old")
        )
        assert sweep < llama < old
        heads = [at for at, line in enumerate(lines) if " ──" in line]
        titles = [lines[at].strip(" ─") for at in heads]
        assert titles == ["NEEDS YOU", "RUNNING", "WAITING", "ENDED"]
        assert heads[0] < sweep < heads[1] < llama < heads[2]
        await pilot.click(JobTable, offset=(20, llama - screen.table.region.y))
        assert screen.table.cursor == ("default", "llama"), "headings are no rows"
        await press(pilot, "g", then=lambda: screen.table.cursor == screen.table.shown_keys[0])
        await press(pilot, "G", then=lambda: screen.table.cursor == screen.table.shown_keys[-1])
        await press(pilot, "o", then=lambda: "RUNNING ──" not in screen_text(app))


def test_a_job_that_runs_is_not_shown_as_well_before_its_log_was_read(session: FakeSession) -> None:
    fleet = session.fleet
    running, waiting = (fleet.jobsets["default", name] for name in ("llama", "dpo-b"))
    for jobset, before, after in ((running, "◐ running", "● running"), (waiting, "○ pending", "○ pending")):
        line = live_line(cast(Session, session), jobset, fleet)
        assert "".join(run.text for run in health_spans(line.health)) == before
        session.measures.progress_reader.known[jobset.uid] = JobProgress(step=1, total=10)
        line = live_line(cast(Session, session), jobset, fleet)
        assert "".join(run.text for run in health_spans(line.health)) == after


def test_the_filter_sees_the_state_that_is_shown() -> None:
    fleet, table = queue_scene(), JobTable()
    llama = JobLine(fleet.jobsets["default", "llama"], fleet)
    stall = Alarm(AlarmKind.STALL, "no new iteration for 12 min", 1.0, "default", "llama")
    table.listing.update({("well",): llama, ("stands",): replace(llama, alarms=(stall,))})
    for typed, shown in ("running", "well"), ("stalled", "stands"), ("▲ stalled", "stands"):
        table.listing.filter_by(typed)
        assert table.listing.keys == [(shown,)]


def test_what_hangs_or_has_lately_failed_comes_before_what_runs_waits_and_has_ended() -> None:
    fleet = queue_scene()
    llama, dpo, sweep, old, big = (JobLine(fleet.jobsets["default", name], fleet) for name in
                                   ("llama", "dpo-b", "sweep", "old", "big"))  # fmt: skip

    def named(job: JobLine, name: str, **more: Any) -> JobLine:
        return replace(job, jobset=structs.replace(job.jobset, name=name, **more))

    failed = Condition("Failed", "True", "FailedJobs", "jobset failed", fleet.at - 2 * RECENT_FAILURE_SECONDS)
    rows = {
        "stalled": replace(named(llama, "stalled"), alarms=(Alarm(AlarmKind.STALL, "no step", 1.0, "default", "x"),)),
        "diverged": replace(named(llama, "diverged"), job_progress=JobProgress(nan=True, nan_words="loss is NaN")),
        "sweep": sweep,
        "slower": replace(named(llama, "slower"), job_progress=JobProgress(slower="slower", at=fleet.at)),
        "again": replace(big, jobset=structs.replace(big.jobset, name="again")),
        "newer": named(llama, "newer", created=llama.jobset.created + 5),
        "llama": llama,
        "dpo-b": dpo,
        "long-ago": named(sweep, "long-ago", conditions=(failed,)),
        "old": old,
    }
    assert big.jobset.state is JobState.RESTARTING
    order = [line.jobset.name for line in sorted(rows.values(), key=lambda line: line.sort_key)]
    groups = [{*order[:2]}, {*order[2:3]}, {*order[3:5]}, {*order[5:7]}, {*order[7:8]}, {*order[8:]}]
    assert groups == [{"stalled", "diverged"}, {"sweep"}, {"slower", "again"}, {"newer", "llama"}, {"dpo-b"},
                      {"long-ago", "old"}]  # fmt: skip
    assert order.index("newer") < order.index("llama"), "the newest first"


async def test_a_job_in_trouble_comes_first_once_no_key_is_pressed(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console_at(to_jobs, session) as (app, pilot, screen):
        before = screen.table.shown_keys
        llama = ("default", "llama")
        assert before[0] == ("default", "sweep")
        screen.table.move_to(llama)
        session.measures.progress_reader.known["uid-llama"] = JobProgress(nan=True, nan_words="loss is NaN", at=1.0)
        session.show(events={})
        await until_shown(pilot, "diverged")
        assert screen.table.shown_keys == before, "nothing moves under the keys"
        monkeypatch.setattr(type(app), "seconds_since_key", STILL_SECONDS)
        session.show(events=dict(session.fleet.events))
        await until(pilot, lambda: screen.table.shown_keys[0] == llama)
        assert screen.table.cursor == llama


async def test_the_cursor_goes_to_the_job_that_was_launched() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, session):
        app.launched = ("default", "new-one")
        screen = await to_jobs(app, pilot)
        fleet = session.fleet
        new = structs.replace(fleet.jobsets["default", "big"], name="new-one", uid="uid-new", created=1.0)
        session.show(jobsets={**fleet.jobsets, new.key: new})
        await until(pilot, lambda: screen.table.cursor == new.key)
        await pilot.press("home")
        session.show(jobsets=dict(session.fleet.jobsets))
        await pilot.pause()
        assert screen.table.cursor != new.key


async def test_only_mine_and_everything_again() -> None:
    fleet = queue_scene()
    owners = {key: "anna" if key[1] == "llama" else "bob" for key in fleet.jobsets}
    owned = {key: structs.replace(each, owner=owners[key]) for key, each in fleet.jobsets.items()}
    session = FakeSession(replace(fleet, jobsets=owned))
    session.mine = "anna"
    async with console_at(to_jobs, session, size=(120, 30)) as (app, pilot, screen):
        assert "OWNER" in screen_text(app), "whose it is has room at 120 columns"
        assert "bob" in screen_text(app)
        await press(pilot, "m", then=lambda: list(screen.table.shown_keys) == [("default", "llama")])
        await until_shown(pilot, "@you")
        await press(pilot, "m", then=lambda: len(screen.table.shown_keys) == len(owners))
        await press(pilot, "slash", *"you", then=lambda: list(screen.table.shown_keys) == [("default", "llama")])


async def test_stop_names_release_and_what_stays_and_enter_keeps(session: FakeSession) -> None:
    session.answers["stop_job"] = StopReport("default", "llama", "llama", ("JobSet llama", "Service llama"))
    async with console_at(to_jobs, session) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm) and "stays:" in screen_text(app))
        await until_shown(
            pilot,
            "Stop llama, launched by mira, not by you?",
            "Helm release llama",
            "6 pods with the logs, files and checkpoints inside",
            "48 GPUs are free after that",
        )
        await press(pilot, "enter", then=lambda: app.screen is screen)
        assert session.called("stop_job") == []
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: session.called("stop_job") == [("default", "llama")])
        await until(pilot, lambda: "Service llama" in toasts(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_job_that_ends_while_its_stop_is_asked_is_asked_about_again(session: FakeSession) -> None:
    session.answers["stop_job"] = StopReport("default", "llama", "llama", ("JobSet llama",))
    async with console_at(to_jobs, session) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        await press(pilot, "x", then=lambda: "Stop llama" in screen_text(app))
        jobsets = session.fleet.jobsets
        ended = structs.replace(jobsets["default", "llama"], conditions=(Condition("Completed", "True"),))
        session.show(jobsets={**jobsets, ended.key: ended})
        await until(pilot, lambda: app.fleet.jobsets["default", "llama"].finished)
        await press(pilot, "y", then=lambda: "llama ended in the meantime" in screen_text(app))
        await until_shown(pilot, "llama: succeeded. Removing it deletes its pods with their logs and files.")
        await press(pilot, "n", then=lambda: app.screen is screen)
        assert session.called("stop_job") == []


async def test_marked_jobs_stop_together_and_a_refusal_is_reported(session: FakeSession) -> None:
    session.answers["stop_job"] = NotAllowed("You may not delete JobSets.", "Ask for jobsets/delete.")
    async with console_at(to_jobs, session) as (app, pilot, screen):
        await press(pilot, "home", "space", "space", "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: len(session.called("stop_job")) == 2)
        await until(pilot, lambda: "Ask for jobsets/delete" in toasts(app))
        assert app.screen is screen


async def test_read_only_has_no_stop_and_no_shell() -> None:
    settings = Settings(read_only=True)
    async with console(FakeSession(queue_scene(), settings=settings), settings=settings) as (app, pilot, session):
        screen = await to_jobs(app, pilot)
        screen.table.move_to(("default", "llama"))
        await pilot.press("x", "s")
        await pilot.pause()
        assert app.screen is screen
        assert not session.called("shell")
        assert "read-only: Stop is off." in toasts(app)
        assert "read-only: Shell is off." in toasts(app)
        assert "Stop" not in screen_text(app).splitlines()[-1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(3, "exit code 3"), (NotAllowed("You may not exec.", "Ask for pods/exec."), "Ask for pods/exec")],
    ids=["its exit code", "refused"],
)
async def test_a_shell_has_the_terminal_until_its_end(terminal: list[str], answer: Any, words: str) -> None:
    session = FakeSession(queue_scene())
    session.answers["shell"] = answer
    async with console_at(to_jobs, session) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        await press(pilot, "s", then=lambda: words in toasts(app))
        assert session.called("shell") == [(*RANK_0, "main", ())]
        assert terminal == ["suspended", "resumed"]


async def test_a_terminal_that_cannot_be_handed_over_says_so(session: FakeSession) -> None:
    async with console_at(to_jobs, session) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        await press(pilot, "s", then=lambda: "cannot be opened in this terminal" in toasts(app))
        assert session.called("shell") == []


@pytest.mark.slow(reason="many keys in a whole app")
async def test_n_goes_to_launch_and_l_to_the_log(session: FakeSession) -> None:
    async with console_at(to_jobs, session) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        await press(pilot, "l", then=lambda: isinstance(app.screen, JobScreen) and app.screen.switcher.current == "log")
        await until(pilot, lambda: RANK_0 in [call[:2] for call in session.called("follow_log")])
        await press(pilot, "escape", "n", then=lambda: isinstance(app.screen, LaunchScreen))


def shown_tabs(app: ConsoleApp) -> list[str | None]:
    return [each.switcher.current for each in app.screen_stack if isinstance(each, JobScreen)]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_tabs_open_from_the_list_by_the_keys_they_have_on_the_page() -> None:
    assert {(tab.KEY, tab.NAME, tab.TITLE) for tab in PAGE_TABS} >= set(TABS_BY_KEY)
    async with console_at(to_jobs, FakeSession(queue_scene())) as (app, pilot, screen):
        screen.table.move_to(("default", "llama"))
        for key, tab, _title in TABS_BY_KEY:
            await pilot.press(key)
            await until(pilot, lambda tab=tab: shown_tabs(app) == [tab])  # type: ignore[misc]
            if tab == "hang":  # the job of somebody else is looked into after a question only
                await until(pilot, lambda: isinstance(app.screen, Confirm))
                await press(pilot, "escape", then=lambda: isinstance(app.screen, JobScreen))
            await press(pilot, "escape", then=lambda: app.screen is screen)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (
            WatchStatus("jobsets", WatchState.FORBIDDEN, why="not allowed to list jobsets"),
            "not allowed to list jobsets",
        ),
        (WatchStatus("jobsets", WatchState.ABSENT, why="JobSet is not installed"), "JobSet is not installed"),
        (WatchStatus("jobsets", WatchState.LIVE), "No jobs."),
    ],
)
async def test_without_jobs_it_says_why(link: WatchStatus, words: str) -> None:
    async with console(FakeSession(fleet_of(jobsets=link))) as (app, pilot, _):
        await press(pilot, "3", then=lambda: words in screen_text(app))


# one job


@pytest.mark.slow(reason="many keys in a whole app")
async def test_job_header_ranks_and_first_failure(session: FakeSession) -> None:
    session.printed["default", "sweep-workload-0-1-x7k1"] = [LogLine(time.time(), "CUDA out of memory")]
    async with console(session) as (app, pilot, _):
        screen = await to_job(app, pilot, "sweep")
        text = await until_shown(pilot, "✗ failed", "First failure: pod 1: OOMKilled (137) on gke-train-a4-pool-0009")
        assert text.count("jobset failed") == 1
        await until(pilot, lambda: "Log pod 1" in screen_text(app))  # the one that failed first
        await until(pilot, lambda: "Pod 1 failed first: exit code 137 (SIGKILL), OOMKilled" in screen_text(app))
        await until(pilot, lambda: "CUDA out of memory" in screen_text(app))
        await press(pilot, "l", then=lambda: "pod 1  sweep-workload-0-1-x7k1" in screen.query_one(LogView).status)


async def test_a_page_is_never_at_an_earlier_phase_than_the_log_of_its_job(session: FakeSession) -> None:
    """The list has read that its image is pulled; since then nobody has looked at that list."""
    reader = session.measures.progress_reader
    reader.known["uid-llama"] = JobProgress(start=StartPhase(PULL_PHASE, SERVER_CLOCK.now() - 9), at=SERVER_CLOCK.now())
    assert reader.progress_of("uid-llama") is None, "its pods have started"
    session.printed[RANK_0] = [LogLine(time.time(), "step 12 train: run")]
    async with console(session, size=(120, 35)) as (app, pilot, _):
        await to_job(app, pilot, "llama")
        await until_shown(pilot, "in stage 12 train since")
    followed = JobMeasures(("default", "llama"))
    followed.tests = (MeasuredTest(read_lines([LogLine(1.0, text) for text in table_text(110.0)])[0][0]),)
    session.measures.find_monitored = {followed.key: followed}.get
    assert reader.progress_of("uid-llama") is None, "whoever follows its log has read a row"
    session.measures.find_monitored = dict[tuple[str, str], JobMeasures]().get
    assert present(reader.progress_of("uid-llama")).start
    reader.known["uid-llama"] = structs.replace(reader.known["uid-llama"], at=SERVER_CLOCK.now() - 60)
    assert reader.progress_of("uid-llama") is None, "a minute ago"


async def test_what_a_job_has_nothing_to_say_of_has_no_row() -> None:
    async with console(FakeSession(queue_scene()), size=(120, 35)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        assert screen.strip.region.y == 2
        assert screen.query_one(LogView).size.height == 31
        await pilot.app.pop_screen()
        screen = await to_job(app, pilot, "dpo-b")
        assert screen.strip.region.y == 2 + len(fold_spans(screen.reason.runs, 118))


async def test_a_training_has_no_tab_of_tests_until_one_is_asked_for_or_found() -> None:
    async with console(FakeSession(queue_scene()), size=(120, 35)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        assert "NCCL" not in {tab.title for tab in screen.strip.tabs}
        await press(pilot, "right_square_bracket", then=lambda: screen.here.NAME == "training")
        await press(pilot, "b", then=lambda: "NCCL" in {tab.title for tab in screen.strip.tabs})
        await press(pilot, "l", then=lambda: "NCCL" not in {tab.title for tab in screen.strip.tabs})
        screen.tabs["nccl"].note = "594 GB/s"
        await until(pilot, lambda: "NCCL" in {tab.title for tab in screen.strip.tabs})


@pytest.mark.slow(reason="waits until the page looks at its job again, three times")
async def test_what_a_tab_leaves_shows_how_far_the_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("screens.pages.job.MIN_COURSE", 2)  # the fake has no curves
    session = FakeSession(queue_scene())
    session.printed[RANK_0] = [LogLine(1.0 + at, f"step {at}/100 loss {3 - at / 50}") for at in range(1, 41)]
    async with console(session, size=(200, 50)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        await until(pilot, lambda: screen.course.region.x == 120)  # beside lines that are whole in the rest
        await press(pilot, "W", then=lambda: not screen.course.display)

        def course() -> str:
            return "\n".join("".join(run.text for run in runs) for runs in screen.course.lines)

        for tab in ("events", "gpus"):
            screen.action_tab(tab)
            await until(pilot, lambda: "6/6 pods" in course() and " 40 %  step 40 of 100" in course())
        screen.action_tab("training")
        await until(pilot, lambda: "6/6 pods" in course() and "40 %" not in course())


@pytest.mark.parametrize(("size", "oldest"), [((80, 24), 13), ((140, 42), 9)])
async def test_the_card_of_a_failure_ends_with_the_newest_line(size: tuple[int, int], oldest: int) -> None:
    session = FakeSession(queue_scene())
    cell_text = [LogLine(time.time(), f"iteration {number}") for number in range(1, 21)]
    session.printed["default", "sweep-workload-0-1-x7k1"] = cell_text
    async with console(session, size=size) as (app, pilot, _):
        await to_job(app, pilot, "sweep")
        text = await until_shown(
            pilot,
            "iteration 20",
            f"iteration {oldest}",
            "Pod 1 failed first: exit code 137 (SIGKILL), OOMKilled",
            "EXIT",
        )
        assert ("latest events" in text) is (size[1] > 24), "a low page leaves the events to their tab"


def test_a_card_with_little_room_keeps_its_first_and_its_newest_line() -> None:
    first = PodFailure(0, 1, node="node-9", reason="OOMKilled", exit_code=137, message="much " * 99)
    card = FailureCard(first, lines=tuple(f"line {number}" for number in range(12)))
    for room in (2, 3, 6, 30):
        lines = card_lines(card, 60, room)
        assert len(lines) <= room
        assert lines[0].startswith("Pod 1 failed first: exit code 137")
        assert lines[-1].strip() == "line 11"
    assert card_lines(card, 60, 6)[2].endswith(" …")
    assert card_lines(FailureCard(first), 200, 2)[-1].startswith("much")


def test_why_a_job_failed_is_shown_once() -> None:
    fleet = queue_scene()
    failed = Alarm(AlarmKind.FAILED, "the job failed: pod 1 OOMKilled", 1.0, "default", "sweep")
    line = JobLine(fleet.jobsets["default", "sweep"], fleet, alarms=(failed, replace(failed, kind=AlarmKind.NAN)))
    cell_text = "".join(run.text for run in explanation(line, is_gone=False))
    assert cell_text.count("OOMKilled") == 2, "the alarm that is another one, and the first failure"
    assert cell_text.count("▲") == 1


def test_why_a_pod_cannot_start_has_no_control_characters_and_short_names_of_nodes() -> None:
    jobset, message = job("stuck", 1, ready=0), "volume of\n gke-alpha-a4-pool-0123abcd-wxyz\x1b[2J"
    waiting = Container("main", "waiting", reason="CreateContainerError", message=message)
    line = JobLine(jobset, fleet_of(jobset, rank(jobset, 0, "", phase="Pending", containers=(waiting,))))
    page, *pane = map(plain_text, [explanation(line, is_gone=False), *reason_lines(line, 200, NOON, str)])
    for shown in (page, "".join(pane)):
        assert "CreateContainerError: volume of a4-pool/wxyz" in shown
        assert shown.isprintable()


def test_what_came_of_a_job_stays_in_the_list() -> None:
    fleet = queue_scene()
    done = next(job for job in fleet.jobsets.values() if job.state is JobState.SUCCEEDED)
    line = JobLine(done, fleet, JobProgress(size=2**34, busbw=684.0, average=412.0, passing=NcclResult.PASSED))
    cell_text = "".join(run.text for run in spans_of(reason_cell(line)))
    assert cell_text.startswith("✓ peak 684 GB/s, avg 412 GB/s  done")


@pytest.mark.parametrize(
    ("job_progress", "words"),
    [
        (JobProgress(busbw=55.0), "peak 55 GB/s so far"),
        (JobProgress(busbw=55.0, average=416.0, passing=NcclResult.PASSED, repeats=True),
         "✓ avg 416 GB/s, now peak 55 GB/s"),
        (JobProgress(busbw=55.0, passing=NcclResult.PASSED, repeats=True), "✓ this test peak 55 GB/s"),
        (JobProgress(busbw=594.0, average=416.0, passing=NcclResult.PASSED), "✓ peak 594 GB/s, avg 416 GB/s"),
    ],
)  # fmt: skip
def test_the_peak_of_a_test_that_runs_and_the_average_of_the_last_one_are_distinguished(
    job_progress: JobProgress, words: str
) -> None:
    assert "".join(run.text for run in progress_words(job_progress)) == words


def test_the_head_of_a_job_counts_attempts_as_the_list_does() -> None:
    fleet = queue_scene()
    job = structs.replace(fleet.jobsets["default", "llama"], restarts=1, max_restarts=3)
    cell_text = "".join(run.text for run in head(JobLine(job, fleet), job.key, gone=False))
    assert "attempt\u00a02/4" in cell_text
    cell_text = "".join(run.text for run in head(JobLine(structs.replace(job, restarts=0), fleet), job.key, gone=False))
    assert "attempt" not in cell_text, "the first one is not worth a word"


def test_a_finished_job_says_when_it_goes_by_itself() -> None:
    fleet = queue_scene()
    done = next(job for job in fleet.jobsets.values() if job.state is JobState.SUCCEEDED)
    end = done.finished_at
    line = JobLine(structs.replace(done, ttl=43_200), fleet)
    cell_text = "".join(run.text for run in head(line, done.key, gone=False, now=end + 3_600))
    assert "removed\u00a0in\u00a011h00m" in cell_text, "the label stays with its value where the line is cut"
    row = next(row for row in JOBS.rows(fleet_of(line.jobset)) if row["name"] == done.name)
    assert row["removed"] == end + 43_200
    assert JobLine(done, fleet).jobset.removed_at == 0.0


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (ExpectedStart(at=NOON), "starts about 12:00"),
        (ExpectedStart(earliest=NOON, earliest_after="llama", unknown="its end"), "not before 12:00"),
        (ExpectedStart(unknown="its end is not known"), "start not known"),
        (ExpectedStart(checks=("dws",)), "quota not known"),
    ],
)
def test_a_job_that_waits_shows_the_bound_of_its_start(start: ExpectedStart, shown: str) -> None:
    fleet = replace(queue_scene(), at=NOON - 60)
    waits = next(job for job in fleet.jobsets.values() if job.state is JobState.PENDING)
    line = JobLine(waits, fleet, expected_start=start)
    assert "".join(run.text for run in spans_of(progress_cell(line))) == shown


def test_of_a_job_that_stalls_no_time_is_left() -> None:
    fleet = queue_scene()
    line = JobLine(fleet.jobsets["default", "llama"], fleet, JobProgress(step=40, total=100, step_time=2.0))
    stall = Alarm(AlarmKind.STALL, "no new iteration for 12 min", 1.0, "default", "llama")
    assert "left" in "".join(run.text for run in spans_of(progress_cell(line)))
    assert "".join(run.text for run in spans_of(progress_cell(replace(line, alarms=(stall,))))).endswith("40 %")


def test_a_step_that_was_read_long_ago_is_shown_with_its_age() -> None:
    fleet = queue_scene()
    progress = JobProgress(step=40, total=100, step_time=2.0, at=fleet.at - 300)
    line = JobLine(fleet.jobsets["default", "llama"], fleet, progress)
    assert "40 % 5m00s ago" in "".join(run.text for run in spans_of(progress_cell(line)))
    assert "ago" not in "".join(
        run.text
        for run in spans_of(progress_cell(replace(line, job_progress=structs.replace(progress, at=fleet.at - 9))))
    )


async def test_the_age_of_a_job_goes_on_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(FakeSession(queue_scene()), size=(160, 35)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama")
        before = {run.text for run in screen.header.runs}
        later = time.time() + 86400 * 3
        monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)  # as before, in the end
        SERVER_CLOCK.set_from_header(formatdate(later, usegmt=True))
        screen.tick()
        assert any(run.text.startswith("3d") for run in screen.header.runs)
        assert not any(text.startswith("3d") for text in before)


async def test_many_ranks_have_a_matrix_and_say_what_they_wait_for() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        screen = await to_job(app, pilot, "big")
        await until(pilot, lambda: len(screen.query_one(PodMatrix).cells) == 40)
        assert screen.query_one(PodMatrix).display
        await press(pilot, "l", then=lambda: "pod 0 has not been created yet" in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_matrix_shows_who_is_silent_and_who_is_behind() -> None:
    fleet = queue_scene()
    session = FakeSession(fleet)
    big, rank = fleet.jobsets["default", "big"], fleet.pods[RANK_0]
    pods = {}
    for number in range(40):
        pod = structs.replace(
            rank,
            name=f"big-{number}",
            uid=f"uid-{number}",
            jobset="big",
            jobset_uid=big.uid,
            attempt=1,
            completion_index=number,
            job_index=0,
            replicated_job=big.groups[0].name,
        )
        pods[pod.key] = pod
        session.say(
            pod.name, f"iteration {50 if number == 7 else 99}/ 1000", at=time.time() - (400 if number == 9 else 0)
        )
    session.show(pods=pods)
    async with console(session) as (app, pilot, _):
        screen = await to_job(app, pilot, "big")
        matrix = screen.query_one(PodMatrix)
        await until(pilot, lambda: any(cell.steps_behind for cell in matrix.cells))
        await until(pilot, lambda: all(cell.last_line_at for cell in matrix.cells))
        marks = [cell.span(time.time()) for cell in matrix.cells]
        assert (marks[7].text, matrix.cells[7].steps_behind) == ("▼", 49)
        assert marks[9].style == "faint"
        assert {mark.style for number, mark in enumerate(marks) if number not in {7, 9}} == {"ok"}


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_log_of_all_ranks_and_what_they_agree_on(session: FakeSession) -> None:
    for number in range(6):
        session.say(f"llama-workload-0-{number}-x7k{number}", "all say this", f"only {'x' * number} says that")
    async with console(session, size=(140, 35)) as (app, pilot, _):
        await to_job(app, pilot, "llama", "log")
        await until_shown(pilot, "all say this")
        await until(pilot, lambda: screen_text(app).count("all say this") == 1)
        await press(pilot, "m", then=lambda: screen_text(app).count("all say this") == 6)
        await until_shown(pilot, "6 of 6 live, 0 lines lost")
        await press(pilot, "m", then=lambda: screen_text(app).count("all say this") == 1)
        await until_shown(pilot, "6/6 all say this", "pod 5 only xxxxx says that")
        await press(pilot, "F", *"!only", "enter", then=lambda: "says that" not in screen_text(app))
        await press(pilot, "escape", then=lambda: "says that" in screen_text(app))


async def test_the_lines_that_are_shown_are_saved(session: FakeSession, tmp_path: Path) -> None:
    session.printed[RANK_0] = [LogLine(time.time(), f"hello {number}") for number in range(3)]
    async with console(session) as (app, pilot, _):
        await to_job(app, pilot, "llama", "log")
        await until_shown(pilot, "hello 2")
        await press(pilot, "S", then=lambda: isinstance(app.screen, Prompt) and isinstance(app.focused, Input))
        app.screen.query_one(Input).value = str(tmp_path / "out.log")
        await press(pilot, "enter", then=lambda: "3 lines in" in toasts(app))
    assert (tmp_path / "out.log").read_text() == "hello 0\nhello 1\nhello 2\n"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "/ Search  F Filter  m One/all/same  E First error  S Save"),
        (200, "S Save  L Level  W Wrap  M NCCL lines  T Times  x Stop"),
    ],
)
async def test_the_keys_of_the_log_come_before_those_of_the_page(width: int, shown: str) -> None:
    async with console(FakeSession(queue_scene()), size=(width, 30)) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        await until(pilot, lambda: shown in text_of(screen.query_one(KeyBar)))


async def test_log_follows_the_chosen_rank_and_its_next_pod() -> None:
    fleet = queue_scene()
    session = FakeSession(fleet)
    pod = fleet.pods[RANK_0]
    again = replaced(pod)
    session.printed[RANK_0] = [LogLine(time.time(), f"hello {number}") for number in range(3)]
    session.printed["default", again.name] = [LogLine(time.time(), "second life")]
    session.printed["default", "llama-workload-0-1-x7k1"] = [LogLine(time.time(), "I am pod one")]
    async with console(session) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        await until_shown(pilot, "hello 2")
        await until(pilot, lambda: "6 of 6 ended, 0 lines lost" in screen.query_one(LogView).status)
        session.show(pods={**{key: each for key, each in fleet.pods.items() if key != RANK_0}, again.key: again})
        await until_shown(pilot, "second life", "pod 0  llama-workload-0-0-x7k0-again", "hello 2")
        await press(pilot, "greater_than_sign", then=lambda: "I am pod one" in screen_text(app))
        assert "second life" not in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_progress_bar_is_shown_while_it_is_drawn(session: FakeSession) -> None:
    first, second = (f"llama-workload-0-{rank}-x7k{rank}" for rank in range(2))
    session.say(first, "begins")
    session.draw(first, " 10%|#         | 10/100 [00:10<01:30,  1.02s/it]")
    session.draw(second, " 11%|#         | 11/100 [00:10<01:30,  1.02s/it]")
    async with console(session) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        view = screen.query_one(LogView)
        await until_shown(pilot, "▸ 10%|#         | 10/100 [00:10<01:30,  1.02s/it]")
        assert view.lines.shown == 1
        session.draw(first, " 20%|##        | 20/100 [00:20<01:20,  1.02s/it]")
        await until(pilot, lambda: "| 20/100 [" in screen_text(app) and "| 10/100 [" not in screen_text(app))
        await pilot.press("m")
        await until_shown(pilot, "▸ pod 0: 20%|##", "(and 1 more)")
        session.draw(first, "")
        session.draw(second, "")
        session.say(first, "trained")
        await until(pilot, lambda: "trained" in screen_text(app) and "▸" not in screen_text(app))


async def test_a_log_that_is_refused_says_so_in_its_place(session: FakeSession) -> None:
    session.answers["follow_log"] = NotAllowed("You may not read logs.", "Ask for pods/log.")
    async with console(session) as (app, pilot, _):
        screen = await to_job(app, pilot, "llama", "log")
        await until(pilot, lambda: "Ask for pods/log" in screen.query_one(LogView).status)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_nccl_tab_fills_and_the_strip_tells_the_peak(session: FakeSession) -> None:
    session.say("llama-workload-0-0-x7k0", *table_text(500.0, 640.0))
    async with console(session, size=(140, 35)) as (app, pilot, _):
        await to_job(app, pilot, "llama", "nccl")
        await until_shown(pilot, "640.0 GB/s at 1 GiB", "NCCL 640 GB/s")


async def test_nccl_of_a_pending_job_says_what_it_waits_for() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, session):
        await to_job(app, pilot, "dpo-b", "nccl")
        await until_shown(pilot, "The test has not started: needs 32 GPUs")
        assert session.called("follow_log") == []


async def test_tabs_by_key_and_bracket() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, session):
        screen = await to_job(app, pilot, "llama")
        await press(pilot, "e", then=lambda: "Back-off [restarting]" in screen_text(app))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: session.called("manifest") == [("JobSet", "default", "llama")])
        await until_shown(pilot, "kind: JobSet")
        await press(pilot, "right_square_bracket", then=lambda: screen.switcher.current == "pods")
        await press(pilot, "enter", then=lambda: screen.switcher.current == "log")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_filter_of_a_tab_is_kept_and_shown_on_that_tab_only() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await to_job(app, pilot, "llama")
        await pilot.press("slash", *"0-3", "enter")
        await until_shown(pilot, "/ 0-3", "1 of 6")
        await press(pilot, "e", then=lambda: "Back-off [restarting]" in screen_text(app))
        await until(pilot, lambda: "0-3" not in screen_text(app))
        await pilot.press("slash", *"BackOff", "enter")
        await until_shown(pilot, "/ BackOff", "1 of 2")
        await press(pilot, "r", then=lambda: "/ 0-3" in screen_text(app) and "1 of 6" in screen_text(app))
        assert "/ BackOff" not in screen_text(app)
        await press(pilot, "escape", then=lambda: "/ 0-3" not in screen_text(app) and "x7k5" in screen_text(app))


async def test_a_job_that_goes_stays_as_it_was_and_one_that_comes_appears() -> None:
    fleet = queue_scene()
    async with console(FakeSession(fleet)) as (app, pilot, session):
        await to_job(app, pilot, "llama")
        session.show(jobsets={key: each for key, each in fleet.jobsets.items() if each.name != "llama"})
        await until_shown(pilot, "has been deleted", "llama-workload-0-0")
        await pilot.press("escape")
        await to_job(app, pilot, "new-one")
        await until_shown(pilot, "Waiting for the JobSet to appear")
        new = structs.replace(fleet.jobsets["default", "big"], name="new-one", uid="uid-new")
        session.show(jobsets={**fleet.jobsets, new.key: new})
        await until_shown(pilot, "0/40")


async def test_stop_from_the_job_reports_a_conflict(session: FakeSession) -> None:
    session.answers["stop_job"] = Conflict("Somebody else is stopping it.")
    async with console(session) as (app, pilot, _):
        await to_job(app, pilot, "llama")
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: "Somebody else is stopping it." in toasts(app))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (250, 60), (20, 5)])
async def test_every_tab_draws_at_every_size(session: FakeSession, size: tuple[int, int]) -> None:
    session.say("llama-workload-0-0-x7k0", *table_text(500.0, 640.0))
    async with console(session, size=size) as (app, pilot, _):
        app.open_page("job", "default", "llama")
        screen = await next_screen(pilot, JobScreen)
        for key in "rlbtey":
            await pilot.press(key)
            await pilot.pause()
        assert screen.switcher.current == "yaml"
