"""What a person does about an alarm, from its page, the job's page and the list."""

import os
import tarfile
import time
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from textual.widgets import Input, Static

from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.checkpoints.saved_state import SavedState
from console.connection_settings import Settings
from console.folders import state_folder
from console.launch.recipes import Field, LaunchPlan
from console.launch.run_record import RunRecord
from console.metrics.alarm import AlarmKind
from console.metrics.diagnosis import DiagnosisKind
from console.metrics.job_progress import JobProgress
from rankscope import Activity, HangReport, LateRank, PodTrace, SlowReport, StackLocation, TracedProcess
from screens.app import ConsoleApp
from screens.dialogs.alarm_actions import REMEDIES, ActDialog
from screens.dialogs.question import Confirm, Pick, Prompt
from screens.pages.alarms import AlarmsScreen
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.widgets.form.form_model import LaunchRequest
from screens.widgets.wrapped_sentence import SentenceLine
from tests.fakes import FakeSession, present
from tests.screens.press import console, console_at, press, screen_text, toasts, until, until_shown
from tests.screens.scene import scene

KEY = "default", "nccl-0412"
NODE = "gke-train-a4-pool-0010"
VERDICT = "Rank 9 (pod 1, GPU 1) is stopped while 15 others wait in all_reduce"
OFFERED = [each.name for each in REMEDIES if each.name != "pace"]  # for a job that hangs
WEIGHTS = "recipe.train.checkpoint"


STOPPED = StackLocation(Activity.UNKNOWN, "no stack")  # as only its node can tell
DATA = StackLocation(Activity.DATA, "data loader")


def report(place: StackLocation = STOPPED) -> HangReport:
    stuck = TracedProcess(9, 1, "p1", NODE, 1202, 1, where=place, state="T")
    others = [TracedProcess(each, each // 8, "p", "n", each, where=StackLocation(Activity.COLLECTIVE, "all_reduce"))
              for each in range(16) if each != 9]  # fmt: skip
    return HangReport("nccl-0412", (PodTrace(0, "p0", "n"), PodTrace(1, "p1", NODE)), (stuck, *others))


def stalled(
    *, settings: Settings | None = None, inspected: bool = True, nodes: tuple[str, ...] = (NODE,)
) -> FakeSession:
    """A session with one's own job whose ranks wait for one of them."""
    session = FakeSession(scene(), settings=settings)
    session.alarms.sound(*KEY, AlarmKind.STALL, "no step for 76 s after step 9")
    found = replace(session.alarms.latest_alarms[0], nodes=nodes, held=16)
    session.alarms.latest_alarms[:] = [replace(found, more=f"inspected: {VERDICT}") if inspected else found]
    session.inspector.reports[KEY] = report()
    values = {"placement": {"avoidNodes": ["node-x"]}}
    run = RunRecord("qwen3-sft", "nccl-0412", "default", values, uid=session.fleet.jobsets[KEY].uid)
    session.launch.runs.runs.append(run)
    forged = LaunchPlan("own-script", "nccl-0412", "default", {"recipe": {"script": "forged in a Secret"}})
    session.answers |= {"release_plan": forged, "plan_of_job": forged, "fields": (weights(),)}
    return session


def weights() -> Field:
    return cast("Field", type("OneField", (), {"path": WEIGHTS})())


def saved(*checkpoints: Checkpoint, place: str = "/mnt/out") -> SavedState:
    return SavedState(time.time(), place, Survey(checkpoints))


def step(number: int, state: CheckpointState = CheckpointState.COMPLETE) -> Checkpoint:
    return Checkpoint(f"iter_{number:07}", "Megatron torch_dist", number, state, 9, 3, time.time() - 600)


async def to_alarms(app: ConsoleApp, pilot: Any) -> AlarmsScreen:
    app.open_page("alarms")
    await until(pilot, lambda: isinstance(app.screen, AlarmsScreen) and "no step for 76 s" in screen_text(app))
    return cast("AlarmsScreen", app.screen)


async def to_page(app: ConsoleApp, pilot: Any) -> None:
    app.open_page("job", *KEY)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and "no step for 76 s" in screen_text(app))


async def to_list(app: ConsoleApp, pilot: Any) -> None:
    await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen) and "stalled" in screen_text(app))
    cast("JobsScreen", app.screen).table.move_to(KEY)


async def choose(app: ConsoleApp, pilot: Any, key: str) -> None:
    await press(pilot, "X", then=lambda: isinstance(app.screen, ActDialog) and "Each asks first" in screen_text(app))
    await pilot.press(key)


async def asked(app: ConsoleApp, pilot: Any) -> LaunchRequest:
    """The launch that was asked for: the form takes it once there are recipes, of which these sessions have none."""
    await until(pilot, lambda: app.launch_request)
    assert app.launch_request is not None
    return app.launch_request


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("way", [to_alarms, to_page, to_list])
async def test_from_an_alarm_a_job_is_launched_again_without_the_node_and_from_the_last_good_checkpoint(
    way: Any,
) -> None:
    session = stalled()
    session.checkpoints.state = saved(step(40), step(60, CheckpointState.INCOMPLETE))
    async with console_at(way, session, size=(160, 45)) as (app, pilot, _):
        await choose(app, pilot, "r")
        wish = await asked(app, pilot)
        assert wish.values["placement"] == {"avoidNodes": ["node-x", NODE]}
        assert cast("Any", wish.values)["recipe"]["train"]["checkpoint"] == "/mnt/out"
        assert "It begins with the weights of step 40, in /mnt/out." in wish.message
        assert f"Not on {NODE}. nccl-0412 runs on until it is stopped." in wish.message
        assert session.called("stop_job") == session.called("cordon") == []


async def test_each_action_is_announced_and_stands_on_the_page_of_alarms_with_its_key() -> None:
    async with console(stalled(), size=(160, 45)) as (app, pilot, session):
        screen = await to_alarms(app, pilot)
        await until(
            pilot, lambda: "r Launch without the node" in " ".join(screen_text(app).split()).replace("\u00a0", " ")
        )
        assert all(screen.check_action("remedy", (each.name,)) for each in REMEDIES if each.name in OFFERED)
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ActDialog) and "Each asks first" in screen_text(app))
        text = " ".join(screen_text(app).split())
        for words in (
            f"not on {NODE}", f"no new pods on {NODE}", "has Google replace the host of", "secrets redacted",
            "shows what goes and what is lost", "Rank 9 (pod 1, GPU 1) is stopped",
        ):  # fmt: skip
            assert words in text, words
        await press(pilot, "escape", then=lambda: isinstance(app.screen, AlarmsScreen))
        assert [name for name, _ in session.calls if name in {"cordon", "stop_job", "report"}] == []


@pytest.mark.slow(reason="many keys in a whole app")
async def test_at_80x24_the_list_tells_the_cause_and_all_that_can_be_done_is_readable() -> None:
    session = stalled()
    session.alarms.latest_alarms[:] = [replace(session.alarms.latest_alarms[0], nodes=(NODE,))]
    async with console(session, size=(80, 24)) as (app, pilot, _):
        session.alarms.verdicts[KEY] = VERDICT
        await to_list(app, pilot)
        await until(pilot, lambda: VERDICT in " ".join(screen_text(app).replace("│", " ").split()))
        await press(pilot, "X", then=lambda: isinstance(app.screen, ActDialog) and "Esc cancels." in screen_text(app))
        assert not [each.id for each in app.screen.query(SentenceLine) if each.is_cut]


@pytest.mark.parametrize("inspected", [True, False])
async def test_of_an_alarm_whose_job_is_gone_the_page_says_what_there_still_is(
    inspected: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    session = stalled()
    alarm = session.alarms.latest_alarms[0]
    session.alarms.latest_alarms[:] = [replace(alarm, job="gone-7", time=time.time() - 60)]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = state_folder() / "hangs/unasked"
    folder.mkdir(parents=True)
    kept = folder / "gone-7-20261127-193000.tar.gz"
    for name in (*([kept.name] if inspected else []), "gone-7-8-20261127-193000.tar.gz"):
        (folder / name).write_text("")
    async with console_at(to_alarms, session, size=(80, 24)) as (app, pilot, screen):
        left = "Its job is gone; if you launched it, page 6 has its run, and n there launches it again."
        left += f" What was found of its processes is in ~/a4/hangs/unasked/{kept.name}." if inspected else ""
        await until(pilot, lambda: left.replace(" ", "") in "".join(screen_text(app).split()))
        assert not screen.query_one("#whole", SentenceLine).is_cut
        assert "Enter shows" not in screen_text(app)
        assert not screen.check_action("act", ())


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(
    ("place", "first"),
    [(DATA, ["again", "bundle", "stop", "without"]), (STOPPED, OFFERED)],
)
@pytest.mark.parametrize("nodes", [(), (NODE,)])
async def test_what_is_offered_is_what_helps_against_the_cause(
    place: StackLocation, first: list[str], nodes: tuple[str, ...]
) -> None:
    session = stalled(nodes=nodes)  # the alarm has one where it was raised before that inspection
    session.inspector.reports[KEY] = report(place)
    async with console_at(to_page, session, size=(80, 24)) as (app, pilot, _):
        await press(pilot, "X", then=lambda: isinstance(app.screen, ActDialog) and "Esc cancels." in screen_text(app))
        lines = {each.id: each for each in app.screen.query(SentenceLine)}
        assert [each for each in lines if each != "trouble"] == first
        assert not [each.id for each in lines.values() if each.is_cut]
        said = "".join(run.text for run in lines["without"].runs)
        seldom = "seldom helps: not a node but the program, its data or storage is at fault; "
        assert (f"{seldom}{NODE} is where it shows." in said) is (place is DATA)
        await pilot.press("K" if place is DATA else "r")
        if place is DATA:
            await pilot.pause()
            assert isinstance(app.screen, ActDialog), "no key for what is not offered"
            await pilot.press("r")
        assert cast("Any", (await asked(app, pilot)).values)["placement"] == {"avoidNodes": ["node-x", NODE]}


@pytest.mark.slow(reason="many keys in a whole app")
async def test_where_no_checkpoint_is_known_none_is_promised() -> None:
    session = stalled()
    session.answers["has_checkpoint"] = False
    async with console_at(to_page, session, size=(160, 45)) as (app, pilot, _):
        act = "X lists what can be done, such as to launch it again"
        await until(pilot, lambda: f"{act}; Stop frees 16 GPUs" in " ".join(screen_text(app).replace("│", " ").split()))
        await press(pilot, "X", then=lambda: "from its start: no checkpoint of it is known" in screen_text(app))
        await pilot.press("escape")
        session.answers["has_checkpoint"] = True
        session.checkpoints.saved_states[KEY] = saved(step(40))  # the line is made anew
        await until(
            pilot, lambda: f"{act} from its last checkpoint" in " ".join(screen_text(app).replace("│", " ").split())
        )
        await pilot.press("X")
        await until(
            pilot,
            lambda: "from its last complete checkpoint where" in " ".join(screen_text(app).replace("│", " ").split()),
        )


async def test_on_the_page_of_alarms_one_key_does_it_after_a_question() -> None:
    async with console(stalled(), size=(160, 45)) as (app, pilot, session):
        await to_alarms(app, pilot)
        await press(pilot, "K", then=lambda: isinstance(app.screen, Confirm) and NODE in screen_text(app))
        assert session.called("cordon") == []
        await press(pilot, "y", then=lambda: session.called("cordon"))
        ((node, on, reason),) = session.called("cordon")
        assert (node, on) == (NODE, True)
        assert reason.startswith("nccl-0412: stall: no step for 76 s")
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm) and "Stop nccl-0412" in screen_text(app))
        await pilot.press("n")
        assert session.called("stop_job") == []


async def test_the_host_is_reported_once_its_name_was_typed_and_says_what_that_loses() -> None:
    session = stalled()
    session.answers["unsaved_of_node"] = ["nccl-0412: the work since step 40 was saved 9 min ago: 2.4 GPU-hours"]
    async with console_at(to_alarms, session, size=(160, 45)) as (app, pilot, _):
        await press(pilot, "F", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, Prompt))
        text = " ".join(str(each.render()) for each in app.screen.query(Static))
        assert "Lost of nccl-0412: the work since step 40 was saved 9 min ago: 2.4 GPU-hours." in text
        assert session.called("report") == session.called("cordon") == []
        app.screen.query_one(Input).value = NODE
        await pilot.press("enter")
        await until(pilot, lambda: session.called("report") and any(state_folder().glob("hangs/*.tar.gz")))
        assert session.called("cordon")[0][:2] == (NODE, True)


async def test_a_host_that_google_would_not_replace_is_neither_reported_nor_cordoned() -> None:
    spot = "gke-train-spot-0000"
    async with console(stalled(nodes=(spot,)), size=(160, 45)) as (app, pilot, session):
        screen = await to_alarms(app, pilot)
        assert [bool(screen.check_action("remedy", (each,))) for each in ("cordon", "report")] == [True, False]
        assert "Report the host" not in screen_text(app).replace("\u00a0", " ")
        await pilot.press("X")
        await until(
            pilot, lambda: isinstance(app.screen, ActDialog) and "not possible: Only machines" in screen_text(app)
        )
        assert "reported.." not in screen_text(app)
        await pilot.press("F")
        await until(pilot, lambda: f"{spot} cannot be reported. Only machines of a reservation" in toasts(app))
        assert session.called("report") == session.called("cordon") == []


async def test_read_only_has_no_key_for_it_and_a_job_without_alarm_neither() -> None:
    settings = Settings(read_only=True)
    async with console(stalled(settings=settings), size=(160, 45), settings=settings) as (app, pilot, session):
        screen = await to_alarms(app, pilot)
        assert not screen.check_action("act", ())
        assert not any(screen.check_action("remedy", (each.name,)) for each in REMEDIES)
        assert "Launch without" not in screen_text(app).replace("\u00a0", " ")
    async with console(FakeSession(scene()), size=(160, 45)) as (app, pilot, session):
        app.open_page("job", *KEY)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "● running" in screen_text(app))
        assert not app.screen.check_action("act", ())
        session.inspector.reports[KEY] = report()


async def test_of_an_alarm_without_a_node_only_what_needs_none_is_offered() -> None:
    session = stalled(inspected=False, nodes=())
    session.inspector.reports.clear()
    async with console_at(to_alarms, session, size=(160, 45)) as (_, _, screen):
        offered = {each.name for each in REMEDIES if screen.check_action("remedy", (each.name,))}
        assert offered == {"again", "stop"}


# a slow rank


async def slowed(cause: str = "host") -> FakeSession:
    """A session with one's own job that runs, and of which it was measured that the others wait for rank 9."""
    session = FakeSession(scene())
    late = LateRank(9, "10.0.0.2", 1202, 1, 0.07, 0.06, 0.08, slow=True, cause=cause, pod_index=1, node=NODE)
    session.inspector.slow_report = SlowReport(
        "nccl-0412", "2.28.9", "json", 16, 900, 10.0, 90, (late,), at=time.time()
    )
    await session.inspector.find_slow_ranks(*KEY, 3.0)
    plan = LaunchPlan("qwen3-sft", "nccl-0412", "default", {"placement": {"avoidNodes": ["node-x"]}})
    session.answers |= {"release_plan": plan, "plan_of_job": plan, "fields": (weights(),)}
    return session


async def to_slow_page(app: ConsoleApp, pilot: Any) -> None:
    app.open_page("job", *KEY)
    await until(
        pilot, lambda: isinstance(app.screen, JobScreen) and "wait for one rank in each step" in screen_text(app)
    )


async def to_slow_list(app: ConsoleApp, pilot: Any) -> None:
    await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen) and "⚠ running" in screen_text(app))
    cast("JobsScreen", app.screen).table.move_to(KEY)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("way", [to_slow_page, to_slow_list])
async def test_of_a_slow_rank_the_same_is_offered_as_of_an_alarm(way: Any) -> None:
    async with console(await slowed(), size=(160, 45)) as (app, pilot, session):
        await way(app, pilot)
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ActDialog) and "Each asks first" in screen_text(app))
        lines = {each.id: each for each in app.screen.query(SentenceLine)}
        assert list(lines) == ["trouble", *OFFERED]
        said = " ".join(screen_text(app).replace("│", " ").split())
        assert f"Rank 9 (pod 1, GPU 1) on {NODE} costs at most about 8 % of each step" in said
        assert "its report, log lines and node facts as .tar.gz; secrets redacted" in said
        await pilot.press("r")
        assert cast("Any", (await asked(app, pilot)).values)["placement"] == {"avoidNodes": ["node-x", NODE]}
        assert session.called("stop_job") == session.called("cordon") == []


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("way", ["list", "page"])
async def test_the_key_is_shown_as_soon_as_it_can_be_used(way: str) -> None:
    async with console(FakeSession(scene()), size=(160, 45)) as (app, pilot, session):
        if way == "page":
            app.open_page("job", *KEY)
            await until(pilot, lambda: isinstance(app.screen, JobScreen) and "x Stop" in screen_text(app))
        else:
            await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen) and "x Stop" in screen_text(app))
            cast("JobsScreen", app.screen).table.move_to(KEY)
        assert "X Act" not in screen_text(app)
        now = time.time()
        late = LateRank(9, "10.0.0.2", 1202, 1, 0.07, 0.06, 0.08, slow=True, cause="host", pod_index=1, node=NODE)
        session.inspector.slow_report = SlowReport("nccl-0412", "2.28.9", "json", 16, 900, 10.0, 90, (late,), at=now)
        await session.inspector.find_slow_ranks(*KEY, 3.0)
        await until_shown(pilot, "X Act")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_where_another_console_has_the_report_its_archive_is_reported() -> None:
    session = stalled()
    session.inspector.reports.clear()
    archive = state_folder() / "hangs" / "unasked" / "nccl-0412-20261128-071117.tar.gz"
    archive.parent.mkdir(parents=True)
    archive.touch()
    os.utime(archive, (time.time() + 60, time.time() + 60))
    async with console_at(to_page, session, size=(160, 45)) as (app, pilot, _):
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ActDialog) and "written already:" in screen_text(app))
        await press(pilot, "b", then=lambda: archive.name in toasts(app))


async def test_of_slow_data_no_node_is_blamed() -> None:
    async with console_at(to_slow_page, await slowed("data"), size=(160, 45)) as (app, pilot, _):
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ActDialog) and "Each asks first" in screen_text(app))
        lines = [each.id for each in app.screen.query(SentenceLine)]
        assert lines == ["trouble", "again", "bundle", "stop", "without"]


async def test_the_bundle_of_a_slow_rank_is_written() -> None:
    async with console_at(to_slow_page, await slowed(), size=(160, 45)) as (app, pilot, _):
        await choose(app, pilot, "b")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: "Bundle written" in toasts(app))
    (written,) = state_folder().glob("hangs/nccl-0412-*.tar.gz")
    with tarfile.open(written) as archive:
        assert "nccl-0412-slow/report.json" in archive.getnames()


async def test_slower_steps_become_the_pace_of_a_job_by_a_key() -> None:
    session = FakeSession(scene())
    uid = session.fleet.jobsets[KEY].uid
    slower = JobProgress(
        step=400, cost=3.74, slower="steps take 35 % longer since 300 (2.77 to 3.74 s a step)", slower_since=1000.0
    )
    session.measures.progress_reader.known[uid] = slower
    async with console_at(to_slow_list, session, size=(160, 45)) as (app, pilot, _):
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ActDialog) and "That is its pace now" in screen_text(app))
        await press(pilot, "p", then=lambda: "That is its pace now." in toasts(app))
        await until(pilot, lambda: "⚠ running" not in screen_text(app))
    kept = present(session.diagnoses.find(uid, DiagnosisKind.PACE))
    assert kept.words == slower.slower
