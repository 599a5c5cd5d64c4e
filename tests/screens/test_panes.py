"""Lists with a live pane: it shows the row under the cursor, where there is room, in the size that was chosen."""

from typing import Any

import pytest
from msgspec.structs import replace

from console.kube.snapshot import Fleet, WatchState, WatchStatus
from screens.list_and_pane import PANE_SIZES, PanedScreen
from screens.pages.jobs import JobsScreen
from screens.widgets.styled_text import cut_name
from screens.wording import Span
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import console, press, screen_of, screen_text, text_of, until, until_shown
from tests.screens.queue_scene import job, queue_scene
from tests.screens.scene import scene

PAGES = (("2", queue_scene), ("3", queue_scene), ("4", scene))


@pytest.mark.parametrize(("key", "made"), PAGES)
async def test_the_pane_follows_the_cursor(key: str, made: Any) -> None:
    fleet: Fleet = made()
    async with console(FakeSession(fleet), size=(150, 40)) as (app, pilot, _):
        await pilot.press(key)
        screen = app.screen
        assert isinstance(screen, PanedScreen)
        await until(pilot, lambda: text_of(screen.pane).strip())
        before = text_of(screen.pane).split("\n")[0]
        await press(pilot, "down", then=lambda: text_of(screen.pane).split("\n")[0] != before)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_node_is_shown_with_its_pods() -> None:
    async with console(size=(160, 45)) as (app, pilot, _):
        await pilot.press("enter")
        screen = app.screen
        assert isinstance(screen, PanedScreen)
        await until(pilot, lambda: "gke-train-a4-pool-0000" in text_of(screen.pane))
        assert "llama-70b-workload-0-0-x7k0" in text_of(screen.pane)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_its_size_is_that_of_every_page_and_off_is_off() -> None:
    async with console(FakeSession(queue_scene()), size=(160, 45)) as (app, pilot, _):
        await press(pilot, "3", "z", "z", then=lambda: app.pane_size == PANE_SIZES[2])
        await pilot.press("4")
        screen = app.screen
        assert isinstance(screen, PanedScreen)
        assert not screen.pane_shown
        await press(pilot, "w", "2", "w", "w", then=lambda: "dpo-b" in screen_text(app))
        await press(pilot, "z", then=lambda: app.pane_size == PANE_SIZES[0])
        await until(pilot, lambda: text_of(app.screen.query_one("#pane")).strip())


NAMES = tuple(f"root-qwen3-30b-a3b-pretrain-{run}-workload-0-{rank}-x7k{rank}" for run in range(2) for rank in range(9))
NODES = tuple(f"gke-prod-us-central1-a4-highgpu-8g-a4-pool-79c66879-{number:04}" for number in range(20))


@pytest.mark.parametrize("width", [16, 20, 24, 30, 40, 70])
def test_names_that_are_cut_still_differ(width: int) -> None:
    for names, node in ((NODES, True), (NAMES[:9], False)):
        shown = ["".join(run.text for run in cut_name([Span(name)], width, node=node)) for name in names]
        assert len(set(shown)) == len(names)
        assert all(len(each) <= width for each in shown)


def test_a_node_of_gke_is_called_by_its_pool_and_its_own_part() -> None:
    assert cut_name([Span(NODES[10])], 20, node=True) == [Span("a4-pool/0010")]
    assert cut_name([Span(NODES[10])], 80, node=True) == [Span(NODES[10])], "whole where there is room"
    assert cut_name([Span("my-very-long-host-name-0010")], 12, node=True)[0].text.endswith("e-0010")


async def test_a_pane_that_has_no_room_for_all_says_so() -> None:
    fleet = queue_scene()
    more = {each.key: each for each in (job(f"more-{number}", 1) for number in range(14))}
    async with console(FakeSession(replace(fleet, jobsets={**fleet.jobsets, **more})), size=(100, 35)) as (
        app,
        pilot,
        _,
    ):
        await pilot.press("3")
        screen = screen_of(app, JobsScreen)
        await until(pilot, lambda: screen.table.move_to(("default", "dpo-b")))
        await until(pilot, lambda: text_of(screen.pane).rstrip().endswith("… z shows more"))
        await pilot.press("z")
        await until(pilot, lambda: text_of(screen.pane).strip() and "z shows more" not in text_of(screen.pane))


async def test_a_pane_below_leaves_the_sentence_of_a_list_without_rows() -> None:
    link = WatchStatus("workloads", WatchState.FORBIDDEN, why="not allowed", hint="ask for workloads/list")
    async with console(FakeSession(fleet_of(workloads=link)), size=(120, 35)) as (app, pilot, _):
        await pilot.press("2")
        screen = app.screen
        assert isinstance(screen, PanedScreen)
        await until(pilot, lambda: screen.has_class("-below"))
        screen.redraw_pane()
        await pilot.pause()
        await until_shown(pilot, "ask for workloads/list")
