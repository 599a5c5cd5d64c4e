"""What watches a job on its page: GPUs as a heat map, the inspection of a hang, alarms beside it and in the corner."""

import time
from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs
from textual.widgets._toast import ToastRack

from console.alarm_thresholds import Thresholds
from console.connection_settings import Settings
from console.kube.objects.workload import Workload
from console.launch.ownership import Proof
from console.launch.run_record import Outcome
from console.metrics.alarm import AlarmCoverage, AlarmKind
from console.metrics.gpu_metrics import Gpu, GpuBoard, PodGpus
from console.metrics.health import HealthLevel
from console.metrics.job_progress import JobProgress
from console.metrics.step_cadence import StepCadence
from console.settings_file import Config, Notifications
from rankscope import (
    STACK_NOT_ASKED,
    Activity,
    Desync,
    Finding,
    HangReport,
    LateRank,
    MpiLauncher,
    PodTrace,
    RasRank,
    RasReport,
    SlowReport,
    StackLocation,
    TorchAnalysis,
    TorchFinding,
    TracedProcess,
    locate_compiled,
)
from screens import alarm_toasts
from screens.alarm_toasts import escape_sequences
from screens.app import ConsoleApp
from screens.cli.wait_and_alarms import parse_conditions
from screens.columns.live_jobs import with_diagnoses
from screens.dialogs.question import Confirm
from screens.job_tabs.hang import HangTab
from screens.pages.alarms import AlarmsScreen
from screens.pages.job import JobScreen
from screens.widgets.job_pane import job_lines
from screens.widgets.title_and_keys import TitleBar
from tests.fakes import FakeSession, present
from tests.screens.press import STYLES, console, press, screen_text, text_of, toasts, until, until_shown
from tests.screens.queue_scene import claim, job, queue_scene
from tests.screens.scene import scene
from tests.screens.test_runs import run


async def open_tab(app: ConsoleApp, pilot: Any, key: str) -> JobScreen:
    app.open_page("job", "default", "nccl-0412")
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and "nccl-0412" in screen_text(app))
    await pilot.press(key)
    return cast("JobScreen", app.screen)


def board() -> GpuBoard:
    busy = Gpu(0, "NVIDIA B200", 97, 90_000, 180_000, 62, 900, 1000, 1900, 0)
    return GpuBoard((
        PodGpus(0, "p0", "node-a", (busy, replace(busy, index=1)), 1.0, "nvidia-smi"),
        PodGpus(1, "p1", "node-b", (busy, replace(busy, index=1, utilization=3.0)), 1.0, "nvidia-smi"),
        PodGpus(2, "p2", "node-c", problem="there is no nvidia-smi in this image."),
    ))  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_gpus_worst_first_and_by_another_metric(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, pilot, session):
        session.gpus.board = board()
        screen = await open_tab(app, pilot, "h")
        await until_shown(pilot, "▼", "Utilization")
        rows = [key[0] for key in cast("Any", screen.here).table.shown_keys]
        assert rows == ["1", "0", "2"]
        assert session.gpus.readers == 1
        await press(pilot, "m", then=lambda: "Memory" in screen_text(app))
        await press(pilot, "r", then=lambda: session.gpus.readers == 0)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_ranks_stay_in_place_while_none_stands_out() -> None:
    busy = Gpu(0, "NVIDIA B200", 97, 90_000, 180_000, 62, 900, 1000, 1900, 0)
    async with console() as (app, pilot, session):
        session.gpus.board = GpuBoard(
            tuple(PodGpus(at, f"p{at}", "node", (replace(busy, utilization=99.0 - at),), 1.0) for at in range(3))
        )
        screen = await open_tab(app, pilot, "h")
        await until_shown(pilot, "97")
        assert [key[0] for key in cast("Any", screen.here).table.shown_keys] == ["0", "1", "2"]


def report(*, py_spy: str = "/usr/bin/py-spy") -> HangReport:
    stuck = TracedProcess(9, 1, "p1", "node-b", 1202, 1, where=StackLocation(Activity.DATA, "data loader"))
    others = [TracedProcess(each, each // 8, "p", "n", each, where=StackLocation(Activity.COLLECTIVE, "all_reduce"))
              for each in range(16) if each != 9]  # fmt: skip
    pods = (PodTrace(0, "p0", "node-a", py_spy=py_spy), PodTrace(1, "p1", "node-b", py_spy=py_spy))
    return HangReport("nccl-0412", pods, (stuck, *others))


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_the_x_ray_names_nodes_by_what_tells_them_apart(size: tuple[int, int]) -> None:
    node = "gke-prod-us-central1-a4-highgpu-8g-a4-pool-79c66879-0010"
    found = report()
    processes = tuple(replace(each, node=node if each.rank == 9 else each.node) for each in found.processes)
    async with console(size=size) as (app, pilot, session):
        session.inspector.report = replace(found, processes=processes)
        await open_tab(app, pilot, "H")
        await until_shown(pilot, "1 in data loader (rank 9, pod 1, GPU 1, a4-pool/0010)")
        assert "node-b" not in screen_text(app)
        assert all("a4-pool/0010" in line for line in screen_text(app).splitlines() if "rank 9 (pod" in line)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_the_x_ray_is_one_key(size: tuple[int, int]) -> None:
    async with console(size=size) as (app, pilot, session):
        session.inspector.report = report()
        await open_tab(app, pilot, "H")
        await until_shown(pilot, "15 in all_reduce, 1 in data loader", "▲ running", "look at the data set")
        await until_shown(pilot, "x Stop", "X Act")
        assert len(session.called("inspect")) == 1
        await press(pilot, "H", then=lambda: len(session.called("inspect")) == 2)
        await press(pilot, "F", then=lambda: "nccl-0412-rank-9.svg" in screen_text(app))
        await press(pilot, "enter", then=lambda: session.called("record"))
        assert session.called("record")[0][0] == 9


async def test_what_pytorchs_own_analyser_says_stands_under_the_report() -> None:
    async with console(size=(120, 45)) as (app, pilot, session):
        session.inspector.report = report()
        found = TorchFinding("the tensor group", 8, 201, "nccl:all_gather", (9,), {})
        session.inspector.analysis = TorchAnalysis("2.11.0", found=(found,), asked=1)
        await open_tab(app, pilot, "H")
        await until_shown(pilot, "rank 9 misses all_gather #201 of the tensor group.")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_key_reads_all_stacks_where_those_of_the_suspects_were_read() -> None:
    whole = report()
    spared = tuple(each if each.rank == 9 else replace(each, where=STACK_NOT_ASKED) for each in whole.processes)
    async with console(size=(120, 35)) as (app, pilot, session):
        session.inspector.report = replace(whole, processes=spared)
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, "in the data loader while 15 others wait.", "15 not asked for a stack")
        session.inspector.report = whole
        await press(pilot, "S", then=lambda: "15 in all_reduce" in screen_text(app))
        assert (len(session.called("inspect")), len(session.called("inspect all stacks"))) == (1, 1)
        assert not screen.here.check_action("stacks", ())


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_verdict_on_a_late_job_stands_in_the_list_and_once_on_its_page_without_a_key() -> None:
    key, found = (
        ("default", "nccl-0412"),
        "Rank 9 (pod 1, GPU 1) is in the data loader while 15 others wait in all_reduce",
    )
    async with console(size=(160, 45)) as (app, pilot, session):
        session.alarms.late_steps[key] = "no step for 40 s after step 9"
        session.alarms.verdicts[key] = found
        session.inspector.reports[key] = report()
        await press(pilot, "3", then=lambda: "Rank 9 is in the" in screen_text(app))
        screen = await open_tab(app, pilot, "r")
        await until(pilot, lambda: f"no step for 40 s after step 9. {found}." in screen_text(app).replace("\n", " "))
        await press(pilot, "H", then=lambda: "15 in all_reduce, 1 in data loader" in screen_text(app))
        await until(pilot, lambda: " ".join(screen_text(app).split()).count(found) == 1)
        assert session.called("inspect") == [], "nothing is asked that is known"
        await press(pilot, "M", then=lambda: "makes no steps" in screen_text(app))
        session.inspector.report = report()
        await press(pilot, "H", then=lambda: len(session.called("inspect")) == 1)
        await until(pilot, lambda: " ".join(screen_text(app).split()).count(found) == 1)
        await pilot.resize_terminal(36, 45)
        await until(pilot, lambda: screen.reason.is_cut and " ".join(screen_text(app).split()).count(found) == 1)


def nccl_test() -> HangReport:
    ranks = tuple(TracedProcess(each, each // 8, f"p{each // 8}", "n", 1201, each % 8, "./all_reduce_perf -g 1", "R",
                         where=locate_compiled("all_reduce_perf", "R"), program="all_reduce_perf", cpu=99.6, threads=11)
                  for each in range(16))  # fmt: skip
    pods = tuple(
        PodTrace(at, f"p{at}", "n", launchers=(MpiLauncher(program, 1100, "S", "do_sys_poll", 3),))
        for at, program in enumerate(("mpirun", "orted"))
    )
    return HangReport("nccl-0412", pods, ranks)


async def test_the_rank_of_an_nccl_test_that_stays_behind_is_red() -> None:
    late = RasReport("2.28.9", odd=(RasRank(9, 4116, "AllReduce", stays=True, others=4117),), most=4117)
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = replace(nccl_test(), ras=late)
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, "✗ Rank 9 (pod 1, GPU 1) stays behind in NCCL while 15 others run")
        tab = cast("HangTab", screen.here)
        assert tab.verdict.runs[0].style == "bad"
        assert list(tab.table.shown_keys) == [
            ("compiled", "all_reduce_perf, behind", "suspect"), ("compiled", "all_reduce_perf", ""),
        ]  # fmt: skip
        assert tab.table.row is not None
        assert tab.table.row.ranks == (9,)


async def test_the_x_ray_of_an_nccl_test_says_so_and_is_not_red() -> None:
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = nccl_test()
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, "○ An NCCL test, no training: 16 all_reduce_perf processes")
        tab = cast("HangTab", screen.here)
        assert all(run.style != "bad" for run in (*tab.verdict.runs, *tab.advice.runs, *tab.more.runs))
        assert (tab.check_action("record", ()), tab.check_action("install", ())) == (False, False)
        assert tab.check_action("facts", ())
        await until_shown(
            pilot,
            "rank 9 (pod 1, GPU 1)  pid 1201  state R  11 threads  cpu 100 %",
            "MPI: mpirun in pod 0, orted in pod 1",
        )
        assert "py-spy is missing" not in screen_text(app)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_slow_rank_is_named_in_the_tab_and_in_the_pane() -> None:
    late = LateRank(9, "10.0.0.2", 1202, 1, 0.07, 0.06, 0.08, slow=True, cause="host", pod_index=1, node="n1")
    late = replace(late, estimate=0.07, least=0.06, most=0.08)
    none_is_stuck = tuple(
        replace(each, where=StackLocation(Activity.COLLECTIVE, "all_reduce")) for each in report().processes
    )
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = replace(report(), processes=none_is_stuck)
        session.inspector.slow_report = SlowReport(
            "nccl-0412", "2.28.9", "json", 16, 900, 10.0, 90, (late,), at=time.time()
        )
        asked = session.inspector.slow_report.at
        screen = await open_tab(app, pilot, "H")
        await pilot.press("M")
        words = (
            "Rank 9 (pod 1, GPU 1) on n1: the others wait for it for 7 % (6 to 8 % with 95 % confidence) of each step, "
            "because of its host."
        )
        await until_shown(pilot, f"▲ {words}", "→ Host: look at what else runs on that node")
        line = present(cast("HangTab", screen.here).line)
        line = with_diagnoses(cast("Any", session), line)
        pane = "\n".join("".join(run.text for run in each) for each in job_lines(line, None, 150, 40, asked + 7))
        pane = " ".join(pane.split())
        cost = "Rank 9 (pod 1, GPU 1) on n1 costs about 7 % of each step (host)"
        assert f"⚠ running the others wait for one rank in each step ▲ {cost} (measured at " in pane
        assert f"→ {session.inspector.slow_report.advice[0]}" in pane
        assert "a4 hang nccl-0412 --rank 9 --record 10" in pane
        assert pane.count(cost) == 1
        assert (line.health.state, line.health.level) == ("running", HealthLevel.LATE)
        await press(pilot, "escape", "3", then=lambda: "⚠ running" in screen_text(app))
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, f"▲ {words}")
        await press(pilot, "r", then=lambda: "pod 0: none of its ranks is late for more than" in screen_text(app))
        await until_shown(pilot, "0 ● △")
        await press(pilot, "down", then=lambda: f"△ {words}" in screen_text(app) and "▸    1" in screen_text(app))


async def test_those_that_the_others_wait_for_at_the_same_place_have_a_row_of_their_own() -> None:
    found = report()
    where = StackLocation(Activity.COLLECTIVE, "all_reduce")
    ranks = [replace(each, where=where, pid=each.pid or 9, state="S") for each in found.processes]
    missed = Finding(Desync.MISSED, (9,), "never entered all_reduce #201 of the data group", len(ranks) - 1)
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = replace(found, processes=tuple(ranks), recorded=missed)
        screen = await open_tab(app, pilot, "H")
        await press(pilot, "H", then=lambda: "never entered all_reduce #201" in screen_text(app))
        table = cast("HangTab", screen.here).table
        assert [(row.suspect, row.ranks) for row in table.listing.rows.values()] == [
            (True, (9,)), (False, tuple(each.rank for each in ranks if each.rank != 9)),
        ]  # fmt: skip
        assert table.row is not None
        assert table.row.suspect, "the cursor is on those"


async def test_flight_recorders_are_asked_with_consent_only() -> None:
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = report()
        session.inspector.slow_report = SlowReport("nccl-0412", "2.28.9", "json", 16, 900, 10.0, 90, at=time.time())
        await open_tab(app, pilot, "H")
        for keys, asked in ((("enter",), 0), (("left", "enter"), 1)):
            await press(pilot, "M", then=lambda: isinstance(app.screen, Confirm))
            await until_shown(pilot, "halts each rank for 2 to 5 s")
            await press(pilot, *keys, then=lambda: isinstance(app.screen, JobScreen))
            await until(pilot, lambda asked=asked: len(session.called("slow with recorders")) == asked)  # type: ignore[misc]


async def test_ones_own_job_that_makes_steps_is_inspected_after_a_warning_that_this_halts_it() -> None:
    async with console(size=(160, 50)) as (app, pilot, session):
        session.inspector.report = report()
        uid = session.fleet.jobsets["default", "nccl-0412"].uid
        session.measures.progress_reader.known[uid] = JobProgress(step=40, total=100, pace=60.0, at=time.time())
        await open_tab(app, pilot, "H")
        await until(pilot, lambda: "recorders halts each rank for 2 to 5 s" in " ".join(screen_text(app).split()))
        assert session.called("inspect") == []
        await press(pilot, "H", then=lambda: len(session.called("inspect")) == 1)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(("key", "proof", "why"), [
    ("H", Proof.NONE, "mira launched it."), ("M", Proof.NONE, "mira launched it."),
    ("H", Proof.LABEL, "its label says that it is yours, but the run history of this account does not know it."),
])  # fmt: skip
async def test_into_a_job_that_is_not_proven_to_be_theirs_nobody_looks_unasked(
    key: str, proof: Proof, why: str
) -> None:
    async with console(size=(160, 50)) as (app, pilot, session):
        session.proof, uid = proof, session.fleet.jobsets["default", "llama-70b"].uid
        session.inspector.report = report()
        late = LateRank(9, "10.0.0.2", 1202, 1, 0.07, 0.06, 0.08, slow=True, cause="host", pod_index=1, node="n1")
        session.inspector.slow_report = SlowReport("llama-70b", "2.28.9", "json", 64, 900, 10.0, 90, (late,))
        app.open_page("job", "default", "llama-70b")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "llama-70b" in screen_text(app))
        await pilot.press("H")
        for keys, looks in ((("enter",), 0), (("left", "enter"), 1)):
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await until_shown(
                pilot,
                "Look into the pods of llama-70b?",
                f"It may be another person's job: {why}",
                "halts each rank for 2 to 5 s",
            )
            await press(pilot, *keys, then=lambda: isinstance(app.screen, JobScreen))
            if looks:
                await until(pilot, lambda: session.called("inspect") or session.called("slow"))
            else:
                await until_shown(pilot, f"Not inspected: {why}")
                assert not session.called("inspect")
                if proof is Proof.LABEL:  # its page asks once, and the key again
                    await press(pilot, "escape", then=lambda: not isinstance(app.screen, JobScreen))
                    app.open_page("job", "default", "llama-70b", "hang")
                    await until_shown(pilot, f"Not inspected: {why} H asks again.")
                await pilot.press(key)
            assert session.diagnoses.find_consent(uid) is (bool(looks) if proof is Proof.LABEL else None)


async def test_slow_ranks_are_not_asked_for_in_read_only_mode() -> None:
    async with console(size=(160, 50), settings=Settings(read_only=True)) as (app, pilot, _):
        screen = await open_tab(app, pilot, "H")
        assert screen.here.check_action("slow", ()) is False


@pytest.mark.slow(reason="many keys in a whole app")
async def test_py_spy_is_installed_with_consent_only() -> None:
    async with console() as (app, pilot, session):
        session.inspector.report = report(py_spy="")
        await open_tab(app, pilot, "H")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "py-spy is missing in 2 of 2 pods")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        assert session.called("install") == []
        await press(pilot, "I", then=lambda: isinstance(app.screen, Confirm))
        session.inspector.report = report()
        await press(pilot, "y", then=lambda: session.called("install") == [(("p0", "p1"),)])
        await until(pilot, lambda: len(session.called("inspect")) == 2)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_an_alarm_stands_beside_the_job_in_the_list_and_on_a_page() -> None:
    async with console() as (app, pilot, session):
        screen = await open_tab(app, pilot, "r")
        assert session.alarms.kept == {("default", "nccl-0412")}
        session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no new iteration for 5 min")
        await until_shown(pilot, "▲ no new iteration for 5 min. Hang shows")
        await until(pilot, lambda: any("nccl-0412" in each.message for each in app._notifications))
        assert screen.is_current
        (alarm,) = session.alarms.latest_alarms
        found = structs.replace(alarm, more="inspected: Rank 9 waits for data", nodes=("node-1",))
        session.alarms.latest_alarms[:] = [found]
        act = "X lists what can be done, such as to launch it again."
        await until(
            pilot,
            lambda: f"inspected: Rank 9 waits for data. {act}" in " ".join(screen_text(app).replace("│", " ").split()),
        )
        await press(pilot, "A", then=lambda: "alarms" in screen_text(app) and "no new iteration" in screen_text(app))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen) and app.screen.here.NAME == "hang")
        await press(pilot, "3", then=lambda: "▲ stalled" in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_page_of_a_job_that_somebody_stopped_says_how_it_ended() -> None:
    async with console() as (app, pilot, session):
        await until(pilot, lambda: app.fleet.jobsets)
        session.alarms.sound("default", "gone-7", AlarmKind.STALL, "no step for 5 min", over=1.0)
        session.launch.runs.runs = [run(7, "gone-7", Outcome.STOPPED, server=session.watch.server,
                                 why="stopped by a person, stalled since step 9")]  # fmt: skip
        app.open_page("job", "default", "gone-7", "hang")
        said = "Run 7 is over, stopped by a person, stalled since step 9."
        await until(pilot, lambda: screen_text(app).count(said) == 2)
        text = await until_shown(pilot, "○ gone-7 in default: gone", "There are no processes to inspect.")
        assert [each for each in ("not seen yet", "Connecting", "Waiting for") if each in text] == [], text


@pytest.mark.parametrize("page", ["1", "4", "6", "7"])
async def test_the_key_of_alarms_works_everywhere(page: str) -> None:
    async with console() as (app, pilot, _):
        await press(pilot, page, "A", then=lambda: isinstance(app.screen, AlarmsScreen))
        pages = len(app.screen_stack)
        await pilot.press("A")
        await pilot.pause()
        assert len(app.screen_stack) == pages, "they are open already"


async def test_runs_say_of_a_job_what_the_list_of_jobs_says_of_it() -> None:
    async with console() as (app, pilot, session):
        jobset = session.fleet.jobsets[("default", "nccl-0412")]
        session.launch.runs.runs = [
            run(8, "nccl-0412", Outcome.RUNNING, server=session.watch.server, uid=jobset.uid, ended=0.0)
        ]
        session.alarms.late_steps["default", "nccl-0412"] = "no step for 40 s after step 9"
        await press(pilot, "3", then=lambda: "⚠ late" in screen_text(app))
        await press(pilot, "6", then=lambda: "⚠ late" in screen_text(app) and "no step for 40 s" in screen_text(app))
        session.launch.runs.runs = [run(8, "nccl-0412", Outcome.DIVERGED)]
        app.screen.read()  # type: ignore[attr-defined]
        await until_shown(pilot, "✗ diverged")


@pytest.mark.parametrize(
    ("owner", "began", "shown"), [("you", 0.0, True), ("mira", 0.0, False), ("", 0.0, False), ("you", -900.0, False)]
)
async def test_only_a_new_alarm_of_ones_own_job_is_a_toast_and_all_are_counted(
    owner: str, began: float, shown: bool
) -> None:
    async with console() as (app, pilot, session):
        title = app.screen.query_one(TitleBar)
        jobset = session.fleet.jobsets["default", "nccl-0412"]
        session.show(jobsets={jobset.key: structs.replace(jobset, owner=owner)})
        await until(pilot, lambda: app.fleet is session.fleet)
        alarm = session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no step for 76 s")
        session.alarms._news[:] = [structs.replace(alarm, began=time.time() + began if began else 0.0)]
        app.tick()
        await until(pilot, lambda: "▲ 1" in text_of(title))
        expected = ["▲ nccl-0412: stall  no step for 76 s"] * shown
        await until(pilot, lambda: [each.message for each in app._notifications] == expected)


class WithTerminal(ConsoleApp):
    """A console that keeps the notifications of its terminal."""

    CSS_PATH = STYLES

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.sent: list[str] = []

    def write_to_terminal(self, text: str) -> None:
        self.sent.append(text.split("\x07")[1].removeprefix("\x1b]9;"))


async def test_a_stall_that_was_inspected_since_is_reported_once() -> None:
    async with console(kind=WithTerminal) as (app, pilot, session):
        alarm = session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no step for 76 s")
        session.alarms.sound("default", "nccl-0412", AlarmKind.NAN, "no loss printed at 118")
        app.tick()
        await until(pilot, lambda: len(app._notifications) == 2)
        session.alarms.latest_alarms[:] = [structs.replace(alarm, more="inspected: Rank 1 is in the data loader")]
        app.tick()
        await until(pilot, lambda: "Rank 1 is in the data loader" in toasts(app))
        assert [each.message[:18] for each in app._notifications] == ["▲ nccl-0412: NaN  ", "▲ nccl-0412: stall"]
        titles = sorted(each.rpartition(": ")[0] for each in cast("WithTerminal", app).sent)
        assert titles == ["nccl-0412: NaN", "nccl-0412: stall"], "a terminal shows each of them for itself"


async def test_the_page_of_alarms_says_that_limits_are_real_seconds() -> None:
    async with console(settings=Settings(practice=True, speed=10)) as (app, pilot, _):
        app.open_page("alarms")
        await until_shown(pilot, "real seconds")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_page_of_alarms_says_which_jobs_are_watched() -> None:
    async with console() as (app, pilot, session):
        await until(pilot, lambda: session.alarms.namespace == "")
        session.alarms.coverage = AlarmCoverage(14, 12, 32)
        app.open_page("alarms")
        await until_shown(pilot, "⚠ Alarms watch 12 of 14 running jobs; the 2 others: only")
        app.only_namespace = "team-b"
        await until(pilot, lambda: session.alarms.namespace == "team-b")
        session.alarms.thresholds = Thresholds(running=False)
        await until_shown(pilot, "Only jobs whose page was opened are watched")


async def test_read_only_offers_nothing_that_changes_pods() -> None:
    settings = Settings(read_only=True)
    session = FakeSession(scene(), settings=settings)
    session.inspector.report = report(py_spy="")
    async with console(session, settings=settings) as (app, pilot, _):
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, "Not inspected: in read-only mode no command runs in a pod.")
        assert session.called("inspect") == []
        for action in ("record", "install", "facts"):
            assert not screen.here.check_action(action, ())


async def test_the_start_of_ones_own_job_that_waited_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_toasts, "TOAST_SECONDS", 3600)  # of seconds, in which a machine may stand still
    config = Config(notifications=Notifications(to=("json://localhost",)))
    async with console(FakeSession(queue_scene()), kind=WithTerminal) as (app, pilot, session):
        app.loaded = structs.replace(app.loaded, config=config)
        outbox = app.outbox
        outbox.sending = True  # nothing is sent, only kept
        before = session.fleet
        jobs = [job(name, 4, owner=owner) for name, owner in (("mine", session.mine), ("other", "ada"))]

        async def show(*workloads: Workload) -> None:
            session.show(
                jobsets={**before.jobsets, **{each.key: each for each in jobs}},
                workloads={**before.workloads, **{each.key: each for each in workloads}},
            )
            await until(pilot, lambda: app.fleet is session.fleet)
            app.tick()

        await show(*(claim(each, waits="insufficient unused quota") for each in jobs))
        sent = cast("WithTerminal", app).sent
        assert not sent, "what runs in the scene did not wait"
        for _ in range(2):
            await show(*(claim(each) for each in jobs))
        words = "Kueue has admitted it to queue a4 after 100 s: 32 GPUs"
        assert sent == [f"mine starts: {words}"], "that of another is nobody's business"
        assert [each.title for each in app._notifications] == ["mine starts"]
        ((title, text),) = outbox._queue
        assert title == "mine starts"
        assert text.startswith(f"{words} (")
        assert text.endswith(", namespace default)")


def test_nothing_in_a_notification_ends_it_early() -> None:
    text = escape_sequences("job\x1b]0;evil", "a;b\x07c\n")
    assert text.startswith("\x07\x1b]9;job ]0;evil: a;b c \x07")
    assert text.endswith("\x1b]777;notify;job ]0,evil;a,b c \x07")
    assert text.count("\x1b") == 2
    once = escape_sequences("job", "stalled", both=False)
    assert once == "\x07\x1b]9;job: stalled\x07", "a terminal that shows both would tell it twice"


def test_what_can_be_waited_for() -> None:
    busbw, step, loss, done = parse_conditions(("busbw>250", " step = 100", "loss<2e0", "done"))
    assert busbw.is_reached(250.5)
    assert not busbw.is_reached(250.0)
    assert step.is_reached(110), "iterations are printed every tenth"
    assert not step.is_reached(99)
    assert loss.is_reached(1.9)
    assert not loss.is_reached(None)
    assert not done.is_reached(1.0, is_running=True)
    assert done.is_reached(None, is_done=True)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_job_that_has_stalled_by_its_log_is_among_the_alarms_as_in_the_list_of_jobs() -> None:
    async with console() as (app, pilot, session):
        jobset = session.fleet.jobsets["default", "nccl-0412"]
        now = time.time()
        stalls = JobProgress(step=9, total=100, rhythm=StepCadence(2.0), stepped=now - 3600, at=now, printed=now - 3600)
        session.measures.progress_reader.known[jobset.uid] = stalls
        await pilot.press("3")
        session.show()
        await until_shown(pilot, "▲ stalled")
        await pilot.press("A")
        said = "no step for 1 h after step 9, usually one takes 2 s (by its log)"
        await until_shown(pilot, f"stall     {said}")
        session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "it stands")
        await until(pilot, lambda: said not in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_job_that_was_deleted_while_it_ran_is_over_on_every_tab() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, session):
        await until(pilot, lambda: app.fleet.jobsets)
        app.open_page("job", "default", "llama", "nccl")
        await until(pilot, lambda: "llama" in screen_text(app) and isinstance(app.screen, JobScreen))
        await until(pilot, lambda: "Stop" in screen_text(app).splitlines()[-1])
        fleet = session.fleet
        session.show(
            jobsets={key: each for key, each in fleet.jobsets.items() if key[1] != "llama"},
            pods={key: each for key, each in fleet.pods.items() if each.jobset != "llama"},
        )
        await until_shown(pilot, "The JobSet has been deleted", "No NCCL table was printed in this job.")
        assert "Stop" not in screen_text(app).splitlines()[-1]
        await press(pilot, "t", then=lambda: "No training step was printed in this job." in screen_text(app))
        await press(pilot, "r", then=lambda: "no pod" in screen_text(app))
        assert "Running" not in screen_text(app)


async def test_a_message_stands_once_beside_a_dialog() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await until(pilot, lambda: app.fleet.jobsets)
        await pilot.press("3")
        page = app.screen
        rack = ToastRack()
        await page.mount(rack)  # a test's app has none of its own
        rack.display = True  # as while there are messages
        await press(pilot, "0", then=lambda: "Which page?" in screen_text(app))
        assert not rack.display, "a toast is visible in a rack that is not"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_key_of_the_tab_that_is_not_possible_yet_opens_no_other_page() -> None:
    async with console(size=(160, 50)) as (app, pilot, _):
        screen = await open_tab(app, pilot, "H")
        await until_shown(pilot, "No process of a training")
        await pilot.press("P")
        await until(pilot, lambda: any("no process in the list" in each.message for each in app._notifications))
        assert app.screen is screen
