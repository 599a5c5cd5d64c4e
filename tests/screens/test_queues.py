from __future__ import annotations

import time
from email.utils import formatdate
from typing import TYPE_CHECKING, cast

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.queue import ClusterQueue, LocalQueue
from console.kube.objects.workload import Workload
from console.kube.snapshot import WatchState, WatchStatus
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import AlarmKind
from console.metrics.job_progress import JobProgress
from console.scheduling.why import QuotaAccount
from screens.columns.column import as_json
from screens.columns.jobs import start_json, start_time, start_words
from screens.columns.queues import QUEUES, WORKLOADS, QueueLine, workload_lines
from screens.dialogs.why import WholeReason
from screens.pages.object_yaml import ObjectYamlScreen
from screens.pages.queues import QueuesScreen
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span
from tests.fakes import FakeSession, fleet_of, live_links
from tests.screens.press import console, focus, press, screen_of, screen_text, text_of, until, until_shown
from tests.screens.queue_scene import claim, cluster_queue, job, queue_scene

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.slow(reason="many keys in a whole app")
async def test_queues_with_bars_states_and_who_waits_why() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await press(pilot, "2", then=lambda: isinstance(app.screen, QueuesScreen) and "dpo-b" in screen_text(app))
        text = await until_shown(
            pilot, "48 / 64", "█", "‖ stopped", "1 workload waiting for 32 GPUs, 1 running on 48", "needs 32 GPUs"
        )
        assert "insufficient unused quota" not in text, "Kueue says the same in other words"
        screen = screen_of(app, QueuesScreen)
        assert [screen.workloads.listing.rows[key].position for key in screen.workloads.shown_keys] == [1, 0]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_what_waits_for_a_clusterqueue_that_is_gone_is_shown_as_the_command_shows_it() -> None:
    fleet = queue_scene()
    door = LocalQueue("default", "lost", cluster_queue="ghost")
    waits = Workload("default", "w9", queue="lost", owner_name="nowhere")
    lost = replace(
        fleet,
        local_queues={**fleet.local_queues, door.key: door},
        workloads={**fleet.workloads, waits.key: waits},
    )
    async with console(FakeSession(lost), size=(160, 35)) as (app, pilot, _):
        await press(pilot, "2", then=lambda: isinstance(app.screen, QueuesScreen) and "nowhere" in screen_text(app))
        await until_shown(pilot, "ghost")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_column_pane_and_commands_say_the_same_of_when_it_starts() -> None:
    fleet = queue_scene()
    session = FakeSession(fleet)
    key = next(each.key for each in fleet.workloads.values() if each.is_waiting)
    async with console(session, size=(200, 50)) as (app, pilot, _):
        await press(pilot, "2", then=lambda: "at once if llama" in screen_text(app))
        start = session.forecasts.starts[key]
        assert start_words(start, fleet.at) == "at once if llama ends: how long llama still runs is not known"
        words = f"starts {start_words(start, fleet.at)}"
        await until(pilot, lambda: words in " ".join(screen_text(app).replace("│", " ").split()))
        session.measures.progress_reader.known["uid-llama"] = JobProgress(step=40, total=100, pace=60.0, at=fleet.at)
        session.show()
        await until_shown(pilot, "between ")
        start = session.forecasts.starts[key]
        assert start.window is not None
        line = next(each for each in workload_lines(session.fleet, None, str, {key: start}) if each.position)
        told = as_json(WORKLOADS.columns, [line])[0]["expected_start"]
        assert told == start_json(start, session.fleet.at)
        assert told["words"].endswith(", when llama ends")
        await until(pilot, lambda: start_time(start, session.fleet.at) in screen_text(app))


async def test_the_time_in_the_queue_goes_on_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(FakeSession(queue_scene()), size=(125, 35)) as (app, pilot, _):
        await press(pilot, "2", then=lambda: isinstance(app.screen, QueuesScreen) and "dpo-b" in screen_text(app))
        assert "3d0h" not in screen_text(app)
        later = time.time() + 86400 * 3
        monkeypatch.setattr(SERVER_CLOCK, "_boot_time", None)  # as before, in the end
        SERVER_CLOCK.set_from_header(formatdate(later, usegmt=True))
        app.tick()
        await until(pilot, lambda: text_of(cast("QueuesScreen", app.screen).workloads).count("3d0h") == 2)


async def test_an_alarm_stands_in_a_row_as_soon_as_in_the_pane() -> None:
    async with console(FakeSession(queue_scene()), size=(125, 35)) as (app, pilot, session):
        await press(pilot, "2", then=lambda: isinstance(app.screen, QueuesScreen) and "dpo-b" in screen_text(app))
        assert "diverged" not in screen_text(app)
        session.alarms.sound("default", "llama", AlarmKind.NAN, "loss is NaN since step 118")
        app.tick()
        await until(pilot, lambda: "▲ diverged" in text_of(cast("QueuesScreen", app.screen).workloads))


def test_the_figures_of_a_row_add_up() -> None:
    line = QueueLine(ClusterQueue("a4", cohort="lab"), QuotaAccount(48, 24, 40, 64, 0, 16, 0))
    cells = {column.title: column.cell(line) for column in QUEUES.columns if column.title}
    shown = [cells[title] for title in ("TO BORROW", "LENT", "FREE")]
    assert [each.text.strip() for each in shown if isinstance(each, Span)] == ["16", "0", "40"], "48 + 16 - 0 - 24 = 40"
    assert list(cells)[2:6] == ["GPUS USED / QUOTA", "TO BORROW", "LENT", "FREE"]


async def test_the_reason_follows_the_cursor() -> None:
    async with console(FakeSession(queue_scene()), size=(120, 34)) as (app, pilot, _):
        await pilot.press("2")
        screen = screen_of(app, QueuesScreen)
        await until(pilot, lambda: any("dpo-b" in run.text for run in screen.reason.runs))
        await press(pilot, "down", then=lambda: any("llama" in run.text for run in screen.reason.runs))
        assert screen.reason.display


@pytest.mark.slow(reason="a page in seven sizes of a terminal")
@pytest.mark.parametrize("page", ["jobs", "queues", "job"])
async def test_w_shows_the_whole_reason_at_every_size(page: str) -> None:
    places = ", ".join(f"node-{number} has {number % 8} of 8" for number in range(120))
    waits = job("dpo-b", 4, suspended=True, owner="li")
    claims = claim(waits, waits=f"couldn't assign flavors to pod set workload: {places}")
    fleet = fleet_of(cluster_queue("a4", 48, pending=1), waits, claims)
    async with console(FakeSession(fleet), size=(60, 20)) as (app, pilot, _):
        await app.switch_mode("queues" if page == "queues" else "jobs")
        if page == "job":
            app.open_page("job", "default", "dpo-b")
        for size in ((60, 20), (80, 24), (120, 35), (140, 40), (160, 24), (200, 50), (250, 70)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda: "dpo-b" in screen_text(app) and app.screen.check_action("why", ()))
            await press(pilot, "w", then=lambda: isinstance(app.screen, WholeReason))
            parts = list(app.screen.query(SentenceLine))
            assert all(f"node-{number} has" in screen_words(parts) for number in range(120))
            await press(pilot, "end", then=lambda: "1 in its ClusterQueue" in screen_text(app))
            assert not any(part.is_cut for part in parts)
            assert screen_text(app).count("node-119 has") == 1, "a pane behind it tells the same"
            await press(pilot, "w", then=lambda: not isinstance(app.screen, WholeReason))


def screen_words(parts: Sequence[SentenceLine]) -> str:
    return "\n".join("".join(run.text for run in part.runs) for part in parts)


async def test_the_page_of_a_waiting_job_tells_when_it_would_start_and_what_for_it_waits() -> None:
    async with console(FakeSession(queue_scene()), size=(120, 35)) as (app, pilot, _):
        app.open_page("job", "default", "dpo-b")
        words = "starts at once if llama ends", "own quota", "16 more than are free", "1 in its ClusterQueue"
        await until(pilot, lambda: all(each in screen_text(app) for each in words))


async def test_a_queue_shows_its_own_workloads_and_escape_all_again() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        await pilot.press("2")
        screen = screen_of(app, QueuesScreen)
        await until(pilot, lambda: len(screen.workloads.shown_keys) == 2)
        await until_shown(pilot, "; 2 LocalQueues")
        await focus(pilot, screen.cluster_queues)
        await press(pilot, "down", "enter", then=lambda: screen.only == ("research",))
        assert screen.workloads.shown_keys == []
        assert "; 1 LocalQueue; GPUs of quota" in screen_text(app)
        await press(pilot, "escape", then=lambda: len(screen.workloads.shown_keys) == 2)


async def test_enter_opens_the_job_and_y_the_object() -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, session):
        await press(pilot, "2", then=lambda: "dpo-b" in screen_text(app))
        await press(pilot, "y", then=lambda: isinstance(app.screen, ObjectYamlScreen))
        await until(pilot, lambda: session.called("manifest") == [("Workload", "default", "jobset-dpo-b")])
        await press(pilot, "escape", "enter", then=lambda: getattr(app.screen, "key", None) == ("default", "dpo-b"))


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (WatchStatus("workloads", WatchState.LISTING), "Listing workloads"),
        (
            WatchStatus("workloads", WatchState.FORBIDDEN, why="not allowed", hint="ask for workloads/list"),
            "ask for workloads/list",
        ),
        (WatchStatus("workloads", WatchState.ABSENT, why="Kueue is not installed"), "Kueue is not installed"),
        (WatchStatus("workloads", WatchState.LIVE), "Nothing waits"),
    ],
)
async def test_without_rows_it_says_why(link: WatchStatus, words: str) -> None:
    async with console(FakeSession(fleet_of(workloads=link))) as (app, pilot, _):
        await press(pilot, "2", then=lambda: words in screen_text(app))


async def test_free_gpus_stand_under_their_title_and_one_namespace_has_the_sums_of_its_rows() -> None:
    fleet = queue_scene()
    moved = next(each for each in fleet.workloads.values() if each.owner_name == "dpo-b")
    elsewhere = structs.replace(moved, namespace="team-b", owner_uid="")
    workloads = {each.key: each for each in (*fleet.workloads.values(), elsewhere) if each is not moved}
    queue = LocalQueue("team-b", "a4", "a4")
    queues = {**fleet.local_queues, queue.key: queue}
    session = FakeSession(replace(fleet, workloads=workloads, local_queues=queues))
    async with console(session, size=(200, 40)) as (app, pilot, _):
        await pilot.press("2")
        screen = screen_of(app, QueuesScreen)
        await until_shown(pilot, "dpo-b")
        titles, *rows = text_of(screen.cluster_queues).split("\n")
        left = titles.index("FREE")
        free = [row[left : left + 4] for row in rows if row.strip()]
        assert free
        assert all(cell == f"{int(cell):>4}" for cell in free)
        every = len(screen.workloads.shown_keys)
        app.only_namespace = "team-b"
        screen.show_fleet(app.fleet)
        await pilot.pause()
        shown = screen.workloads.listing.rows
        assert all(row.workload.namespace == "team-b" for row in shown.values())
        assert 0 < len(shown) < every
        waiting = sum(row.position > 0 for row in shown.values())
        caption = "".join(span.text for span in screen.caption.runs)
        assert f"in team-b: {waiting} workload" in caption
        pending = sum(each.is_waiting for each in session.fleet.workloads.values())
        assert f"; {pending - waiting} more waiting in other namespaces" in caption
        assert "; 1 LocalQueue" in caption


@pytest.mark.slow(reason="many keys in a whole app")
async def test_stale_rows_stay() -> None:
    async with console(FakeSession(queue_scene()), size=(160, 40)) as (app, pilot, session):
        await press(pilot, "2", then=lambda: "dpo-b" in screen_text(app))
        assert "last known" not in screen_text(app)
        stale = {
            kind: WatchStatus(kind, WatchState.STALE, since=1.0, last_seen=1.0, why="connection refused")
            for kind in live_links()
        }
        session.show(links=stale)
        await until_shown(pilot, "connection refused", "dpo-b", "last known: ── all queues")
        assert screen_text(app).count("last known:") == 2  # of the pane too
        app.open_page("job", "default", "llama")
        await until_shown(pilot, "last known: ● running  llama")
        await press(pilot, "escape", "1", then=lambda: "last known: a4-highgpu-8g-a4-pool" in screen_text(app))
        node = next(iter(session.fleet.nodes.values()))
        app.open_page("node", node.name)
        await until_shown(pilot, "lost: last known")
        session.show(links=live_links())
        await until(pilot, lambda: "lost: last known" not in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(80, 24), (250, 60), (20, 5)])
async def test_every_size_draws(size: tuple[int, int]) -> None:
    async with console(FakeSession(queue_scene()), size=size) as (app, pilot, _):
        await pilot.press("2")
        await pilot.pause()
        assert isinstance(app.screen, QueuesScreen)
        if size != (20, 5):
            assert "needs 32 GPUs" in screen_text(app)
