"""What holds on every page and in every terminal: the bar's digits, only mine, the owner, ends of names, no colours."""

import gc
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace
from rich.cells import cell_len
from textual.errors import NoWidget
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets._toast import Toast, ToastHolder

from console.kube.snapshot import Fleet
from console.metrics.alarm import AlarmKind
from console.metrics.job_progress import JobProgress
from screens.__main__ import main
from screens.app import ConsoleApp
from screens.apply_settings import known_names
from screens.columns.jobs import progress_words
from screens.dialogs.question import Confirm
from screens.live_screen import FilterLine
from screens.pages.alarms import AlarmsScreen
from screens.pages.job import JobScreen
from screens.pages.pods import PodsScreen
from screens.widgets.table.table import ResourceTable
from screens.widgets.title_and_keys import KeyBar, TitleBar
from tests.fakes import FakeSession, fleet_of
from tests.pictures.frozen import still_console, stopped_clock
from tests.screens.press import console, press, screen_text, text_of, until, until_shown
from tests.screens.queue_scene import queue_scene
from tests.screens.scene import a4, jobset, rank, scene
from tests.screens.test_training import say, training
from trainlog import NcclResult

AXIS = "└"  # the corner of the axes of a chart


def owned(fleet: Fleet, mine: str) -> FakeSession:
    jobsets = {
        key: structs.replace(each, owner="anna" if key[1] == mine else "bob") for key, each in fleet.jobsets.items()
    }
    session = FakeSession(replace(fleet, jobsets=jobsets))
    session.mine = "anna"
    return session


def shows(app: ConsoleApp, words: str) -> bool:
    return words in screen_text(app)


def titles(app: ConsoleApp) -> str:
    """The title line of the page in front; empty while it is being opened."""
    return "".join(text_of(bar) for bar in app.screen.query(TitleBar))


def test_no_page_takes_a_digit_of_the_bar() -> None:
    known = known_names()
    places = [each for each in (*known.pages, *known.places) if not issubclass(each, ModalScreen)]  # they cover the bar
    keys = {
        key: f"{place.__name__}: {binding.action}"
        for place in places
        for several in (place._merged_bindings.key_to_bindings.values() if place._merged_bindings else ())
        for binding in several
        for key in binding.key.split(",")
    }
    assert {key: where for key, where in keys.items() if key in set("01234567")} == {}


async def test_the_key_of_only_mine_works_in_lists_of_pods_and_alarms_too() -> None:
    session = owned(scene(), "nccl-0412")
    session.alarms.sound("default", "nccl-0412", AlarmKind.STALL, "no step for 76 s")
    session.alarms.sound("default", "llama-70b", AlarmKind.STALL, "no step for 77 s")
    async with console(session) as (app, pilot, _):

        def shown() -> list[tuple[str, ...]]:
            page = app.screen
            return list(page.table.shown_keys) if isinstance(page, PodsScreen | AlarmsScreen) else []

        for opens in "4A":
            await press(pilot, opens, then=lambda: len({"nccl-0412" in "".join(key) for key in shown()}) > 1)
            await press(pilot, "at", then=lambda: {"nccl-0412" in "".join(key) for key in shown()} == {True})
            await press(pilot, "at", then=lambda: len({"nccl-0412" in "".join(key) for key in shown()}) > 1)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("width", [100, 120, 140, 200])
async def test_the_owner_is_a_column_from_100_columns_on(width: int) -> None:
    async with console(owned(queue_scene(), "llama"), size=(width, 40)) as (app, pilot, _):
        await press(pilot, "3", then=lambda: " OWNER " in screen_text(app))
        await until_shown(pilot, " bob ")


async def test_the_trail_keeps_the_end_of_a_name() -> None:
    name = "gke-train-a4-highgpu-8g-a4-pool-79c66879-0013"
    async with console(size=(80, 24)) as (app, pilot, _):
        app.open_page("node", name)
        await until(pilot, lambda: "a4-pool/0013" in titles(app))
        app.open_page("node", "a-machine-that-gke-has-not-named-with-a-name-as-long-as-the-line-0013")
        await until(pilot, lambda: "-0013 " in titles(app))


@pytest.mark.parametrize(("passing", "mark"), [(NcclResult.FAILED, "✗"), (NcclResult.PASSED, "✓")])
def test_the_mark_of_a_test_stands_where_no_column_cuts_it(passing: NcclResult, mark: str) -> None:
    words = progress_words(JobProgress(busbw=300, average=120, passing=passing))
    assert "".join(run.text for run in words) == f"{mark} peak 300 GB/s, avg 120 GB/s"


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("operations", "node pools"),
        ("node pools", "node pools"),
    ],
)
async def test_pages_that_are_no_tab_are_found_by_their_name(typed: str, title: str) -> None:
    async with console() as (app, pilot, _):
        await pilot.press("colon", *(letter.replace(" ", "space") for letter in typed))
        await until_shown(pilot, f"Go to {title}")
        await press(pilot, "enter", then=lambda: title in titles(app))


async def test_without_colours_what_is_bad_is_no_dark_grey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console() as (app, _, _session):
        bar = app.screen.query_one(KeyBar)
        assert (bar.style_of("bad").color, bar.style_of("bad").underline) == (bar.style_of("strong").color, True)
    monkeypatch.delenv("NO_COLOR")
    async with console() as (app, _, _session):
        bar = app.screen.query_one(KeyBar)
        assert bar.style_of("bad").color != bar.style_of("strong").color
        assert not bar.style_of("bad").underline


def test_a_terminal_that_cannot_be_drawn_on_is_reported_what_can_be_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert main(["--demo"]) == 2
    assert "TERM is dumb. `a4 --plain`" in capsys.readouterr().err


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_key_that_shows_something_says_hide_while_it_is_shown(session: FakeSession) -> None:
    session.say("llama-workload-0-0-x7k0", "iteration 1", "iteration 2")
    async with console(session, size=(140, 24)) as (app, pilot, _):

        def keys() -> str:
            return "".join(text_of(bar) for bar in app.screen.query(KeyBar))

        await press(pilot, "5", then=lambda: "All fields" in keys())
        await press(pilot, "ctrl+t", then=lambda: "Hide advanced" in keys())
        await press(pilot, "ctrl+t", then=lambda: "Hide" not in keys())
        app.open_page("job", "default", "llama", "log")
        await until(pilot, lambda: "T Times" in keys())
        await press(pilot, "T", then=lambda: "T Hide times" in keys())
        await press(pilot, "T", then=lambda: "T Times" in keys())
        app.open_page("preflight")
        await until(pilot, lambda: "l What was asked" in keys())
        await press(pilot, "l", then=lambda: "l Hide requests" in keys())


def places(app: ConsoleApp) -> dict[str, Region]:
    """Where what is drawn stands: messages, and each widget that has no parts."""
    found: dict[str, Region] = {}
    for each in app.screen.walk_children(Widget):
        with suppress(NoWidget):
            if not each.children and (region := app.screen.find_widget(each).visible_region):
                found[f"{each!r} {id(each)}"] = region
    return found


async def show(app: ConsoleApp, pilot: Pilot[Any], words: str, page: str, *about: str) -> None:
    """Open a page, and wait until those words stand on it."""
    if page in app.MODES:
        await app.switch_mode(page)
    else:
        app.open_page(page, *about)
    await until(pilot, partial(shows, app, words))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (120, 35), (200, 55)])
async def test_a_message_covers_nothing_that_is_being_read(session: FakeSession, size: tuple[int, int]) -> None:
    say(session, *training(60))
    job = "default", "llama"
    opened: list[tuple[str, ...]] = [(mode,) for mode, _, _ in ConsoleApp.TABS]
    opened += [(page,) for page in ("alarms", "preflight")]
    opened += [("job", *job, tab) for tab in ("pods", "log", "training", "nccl", "gpus", "events", "yaml", "hang")]
    async with console(session, size=size, messages=True) as (app, pilot, _):
        for page, *about in opened:
            words = AXIS if "training" in about else ""
            await show(app, pilot, words, page, *about)
            if "hang" in about:  # somebody else launched it
                await until(pilot, lambda: isinstance(app.screen, Confirm))
                await pilot.press("escape")
            await pilot.pause()
            before = places(app)
            lines = {name for name, region in before.items() if region.height == 1}
            app.notify("Pods of it are gone, and it has been started again. " * 4, title="Stop", timeout=1e6)
            await until(pilot, lambda: any(name.startswith("Toast") for name in places(app)))
            await pilot.pause()
            now = places(app)
            box = next(region for name, region in now.items() if name.startswith("Toast"))
            assert box.width == size[0], page
            covered = [name for name, region in now.items() if not name.startswith("Toast") and region.overlaps(box)]
            assert covered == [], page
            assert lines - set(now) == set(), f"{page}: a line that was there has gone"
            assert words in screen_text(app)
            app.clear_notifications()
            await until(pilot, lambda: not app.screen.query(Toast))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_keys_of_pane_views_and_help_say_what_they_hide() -> None:
    async with console(FakeSession(queue_scene()), size=(140, 30)) as (app, pilot, _):

        def keys() -> str:
            return "".join(text_of(bar) for bar in app.screen.query(KeyBar))

        await pilot.press("3")
        for verb in ("z Larger pane", "z Hide pane", "z Pane"):
            await until(pilot, partial(shows, app, verb))
            await pilot.press("z")
        await until(pilot, lambda: "z Larger pane" in keys())
        await pilot.press("question_mark")
        await until_shown(pilot, "? or esc hides this", "Larger pane: the")
        await press(pilot, "question_mark", then=lambda: "hides this" not in screen_text(app))
        await press(pilot, "5", "enter", then=lambda: "^o Views" in keys())
        for verb in ("Next view", "Next view", "Next view", "Hide views", "Views"):
            await press(pilot, "ctrl+o", then=partial(shows, app, f"^o {verb}"))


LONG = "llama-3-1-405b-pretraining-nemo-20261122-run-1"
POOL = "a4-highgpu-8g-a4-pool"


def gke_fleet() -> Fleet:
    """Jobs, pods and nodes whose names are as long as on GKE and differ at their ends."""
    jobs = [jobset(f"{LONG}{number}", 4, owner="mira") for number in range(3)]
    names = [f"gke-prod-us-central1-{POOL}-79c66879-0{number:02d}x" for number in range(12)]
    nodes = [structs.replace(a4(number), name=name, pool=POOL) for number, name in enumerate(names)]
    pods = [rank(job, number, names[4 * at + number]) for at, job in enumerate(jobs) for number in range(4)]
    return fleet_of(*nodes, *pods, *jobs)


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("width", [140, 200])
async def test_names_as_long_as_those_of_gke_stay_distinguishable(width: int) -> None:
    fleet = gke_fleet()
    async with console(FakeSession(fleet), size=(width, 40)) as (app, pilot, _):

        def cells(part: str) -> set[str]:
            """The words of the list that contain it, cut or not."""
            return {
                word for table in app.screen.query(ResourceTable) for word in text_of(table).split() if part in word
            }

        await press(pilot, "3", then=lambda: {word[-6:] for word in cells("run-1")} == {"run-10", "run-11", "run-12"})
        await press(pilot, "4", then=lambda: len(cells("-x7k")) == len(fleet.pods))
        await until(pilot, lambda: {word[-4:] for word in cells("a4-pool")} == {name[-4:] for _, name in fleet.nodes})
        app.open_page("pool", POOL)
        await until(pilot, lambda: {word[-4:] for word in cells("a4-pool")} >= {name[-4:] for _, name in fleet.nodes})


async def test_names_from_right_to_left_move_nothing_after_them() -> None:
    fleet = queue_scene()
    owners = dict(zip(fleet.jobsets, ["שירה כהן", "محمد"] * len(fleet.jobsets), strict=False))
    jobsets = {key: structs.replace(each, owner=owners[key]) for key, each in fleet.jobsets.items()}
    async with console(FakeSession(replace(fleet, jobsets=jobsets)), size=(180, 40)) as (app, pilot, _):
        await pilot.press("3")
        await until_shown(pilot, "\u200eשירה כהן\u200e", "\u200eمحمد\u200e")
        lines = screen_text(app).split("\n")
        assert {cell_len(line) for line in lines} == {180}
        state = cell_len(next(line for line in lines if " STATE" in line).partition("STATE")[0])
        names = {name for _, name in jobsets}
        rows = [line for line in lines if "\u200e" in line and line[2:].split(" ")[0] in names]
        assert len(rows) > 2
        for row in rows:
            glyph = next(
                at
                for at, letter in enumerate(row)
                if letter in "●○▲✗✓◐‖" and at > row.index("\u200e", row.index("\u200e") + 1)
            )
            assert cell_len(row[:glyph]) == state


@pytest.mark.slow(reason="many keys in a whole app")
async def test_messages_that_were_closed_leave_no_line_empty() -> None:
    async with console(size=(80, 24), messages=True) as (app, pilot, _):

        def lines() -> list[int]:
            """How many messages each part of the page for messages holds."""
            return [len(holder.children) for holder in app.screen.query(ToastHolder)]

        for number in range(3):
            app.notify(f"▲ job-{number}: stall  no new iteration")
        await until(pilot, lambda: lines() == [1, 1, 1])
        for number in range(2):
            app.close_alarms(f"▲ job-{number}: stall")
        await until(pilot, lambda: lines() == [1])


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_page_that_was_closed_is_freed_while_nothing_changes() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("3")
        for _ in range(3):
            await pilot.press("slash", "a", "escape")
            await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
            await press(pilot, "escape", then=lambda: not isinstance(app.screen, JobScreen))
        gc.unfreeze()  # else no look finds what was there at the last
        await until(
            pilot, lambda: gc.collect() >= 0 and not any(isinstance(each, JobScreen) for each in gc.get_objects())
        )
        assert sum(isinstance(each, FilterLine) for each in gc.get_objects()) <= 1, "filters that were left are freed"


@pytest.mark.slow(reason="each tab of a job's page, in a console on a practice cluster")
async def test_a_page_that_was_closed_is_freed_while_its_job_is_watched(tmp_path: Path) -> None:
    """Its log, its alarms and their connections began on the page, and go on."""
    with stopped_clock(tmp_path):
        async with still_console(size=(140, 40)) as still:
            await still.press("3", "slash", *"llama", "enter", "enter")
            await still.until("the job's page", lambda: isinstance(still.app.screen, JobScreen))
            for tab in "lbthHeyr":
                await still.press(tab)
                await still.look()
            await still.settled()
            await still.press("escape")
            await still.until("the list of jobs", lambda: not isinstance(still.app.screen, JobScreen))
            gc.unfreeze()
            await still.until(
                "the page is freed",
                lambda: gc.collect() >= 0 and not any(isinstance(each, JobScreen) for each in gc.get_objects()),
            )
            assert any(job.has_started for job in still.app.session.alarms.jobs.values())
