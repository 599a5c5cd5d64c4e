from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from console.metrics.nccl_history import MeasuredTest, NodeBandwidth
from screens.theme import DARK
from screens.widgets.charts.nccl_panel import NcclPanel, average_so_far, summary
from tests.screens.press import focus, press, screen_text, until, until_shown
from tests.screens.queue_scene import table
from trainlog import NcclHalf, NcclRow, NcclTest


class Host(App[None]):
    """Just the panel."""

    def compose(self) -> ComposeResult:
        yield NcclPanel()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name


@asynccontextmanager
async def panel(width: int = 130, height: int = 30) -> AsyncIterator[tuple[NcclPanel, Pilot[Any], Any]]:
    app = Host()
    async with app.run_test(size=(width, height)) as pilot:
        yield app.query_one(NcclPanel), pilot, app


def measured(tests: tuple[NcclTest, ...]) -> tuple[MeasuredTest, ...]:
    return tuple(MeasuredTest(each, index=at) for at, each in enumerate(tests))


def words(test: NcclTest) -> str:
    return "".join(run.text for run in summary(test))


def test_the_sentence_compares_with_the_reference() -> None:
    told = words(table(594.0)[0])
    assert told.startswith("● no problem so far  594.0 GB/s at 512 MiB · 100 % of the A4 reference (594)")
    assert "average 593.5 so far" in told
    assert "0 wrong" in told


def test_the_sentence_says_when_it_is_slow_wrong_or_another_test() -> None:
    slow = words(table(100.0, 110.0, 120.0, finished=True)[0])
    assert slow.startswith("✗ failed  2 GiB alone 120 GB/s is under the pass line of 250 · 120.0 GB/s at 2 GiB")
    assert words(table(594.0, 300.0)[0]).startswith("✗ slow  48 % of the A4 reference at 1 GiB · 594.0 GB/s")
    assert "so far" not in slow
    wrong = words(table(600.0, 600.0, wrong=1)[0])
    assert wrong.startswith("✗ failed  2 wrong values at ")
    assert "0 wrong" not in wrong
    other = NcclTest("alltoall_perf", rows=table(600.0)[0].rows)
    assert "reference" not in words(other)
    assert "first row is on the way" in words(NcclTest("all_reduce_perf"))
    assert average_so_far(NcclTest()) is None


async def test_it_grows_row_by_row_and_the_cursor_goes_with_it() -> None:
    async with panel() as (shown, pilot, app):
        assert "No NCCL test" in screen_text(app)
        shown.reading = True
        await until(pilot, lambda: "Reading the log" in screen_text(app) and "No NCCL test" not in screen_text(app))
        for rows in range(1, 5):
            shown.job_tests = measured(table(*(500.0 + 40 * number for number in range(rows))))
            await until(pilot, lambda rows=rows: len(shown.table.shown_keys) == rows)  # type: ignore[misc]
            assert shown.table.row is not None
            assert shown.table.row.row.size == 512 << 20 << (rows - 1)
            assert len(shown.curve.points) == rows
        assert shown.curve.marked_size == 4 << 30
        text = screen_text(app)
        assert "● ok 9" in text
        assert "620.0" in text
        shown.job_tests, shown.is_over = measured(table(594.0)), True
        await until(pilot, lambda: "○ cut off" in screen_text(app))


async def test_whoever_reads_an_older_row_is_left_there() -> None:
    async with panel() as (shown, pilot, _):
        shown.job_tests = measured(table(500.0, 540.0, 580.0))
        await focus(pilot, shown.table)
        await until(pilot, lambda: shown.table.cursor is not None)
        await pilot.press("up")
        before = shown.table.cursor
        shown.job_tests = measured(table(500.0, 540.0, 580.0, 600.0))
        await until(pilot, lambda: len(shown.table.shown_keys) == 4)
        assert shown.table.cursor == before
        assert shown.curve.marked_size == 1 << 30


def earlier(job: str, *busbw: float) -> MeasuredTest:
    """A finished test of another job."""
    return MeasuredTest(table(*busbw, finished=True)[0], job=job, uid=job)


def titles(app: Any) -> list[str]:
    return next(line for line in screen_text(app).splitlines() if "% OF A4" in line).partition("SIZE")[2].split()


@pytest.mark.parametrize("width", [80, 140, 200])
async def test_columns_are_there_for_what_it_can_be_held_against(width: int) -> None:
    async with panel(width, 40) as (shown, pilot, app):
        shown.job_tests = measured(table(500.0, 600.0))
        await until_shown(pilot, "⚠ low 84 %")
        assert not {"USUAL", "EARLIER"} & set(titles(app))
        assert "µs" in titles(app)
        shown.stored_tests = earlier("one", 500.0, 600.0), earlier("two", 500.0, 600.0)
        await until(pilot, lambda: "USUAL" in titles(app) and "100 %" in screen_text(app))
        assert "EARLIER" not in titles(app)
        shown.compared_test = earlier("one", 400.0, 500.0)
        await until(pilot, lambda: {"USUAL", "EARLIER"} <= set(titles(app)) and "+25.0 %" in screen_text(app))
        shown.job_tests = (MeasuredTest(NcclTest("all_reduce_perf", ranks=16)),)  # which has begun: no row yet
        await until_shown(pilot, "first row is on the way")
        assert {"USUAL", "EARLIER"} <= set(titles(app))
        shown.job_tests, shown.compared_test, shown.stored_tests = measured(table(500.0, 600.0)), None, ()
        await until(pilot, lambda: not {"USUAL", "EARLIER"} & set(titles(app)))


async def test_below_a_table_that_leaves_room_is_what_was_measured_before() -> None:
    async with panel(140, 30) as (shown, pilot, _):
        shown.nodes = {"node-1": NodeBandwidth((600.0, 650.0), 1.0, job="one")}
        shown.stored_tests = earlier("one", 500.0, 600.0), earlier("two", 400.0, 500.0)
        shown.job_tests = (MeasuredTest(table(500.0, 600.0)[0], nodes=("node-1",)),)
        await until_shown(pilot, "node-1            650 GB/s", "earlier tests like it", "+22.5 %")
        assert len(shown.table.shown_keys) == 2
        await pilot.resize_terminal(140, 8)
        await until(pilot, lambda: not shown.earlier_pane.display)


async def test_the_band_goes_on_to_the_largest_size() -> None:
    async with panel() as (shown, pilot, _):
        shown.job_tests = measured(table(*(600.0 for _ in range(6))))
        await until(pilot, lambda: shown.curve.points)
        assert shown.curve.band[-1] == (16 << 30, *shown.curve.band[-2][1:])


async def test_several_tests_are_turned_through() -> None:
    async with panel() as (shown, pilot, app):
        shown.job_tests = measured((*table(100.0, finished=True), *table(600.0)))
        await focus(pilot, shown.table)
        await until_shown(pilot, "test 2 of 2")
        await press(pilot, "less_than_sign", then=lambda: "test 1 of 2" in screen_text(app))
        assert shown.test is not None
        assert shown.test.peak_busbw == 100.0
        await press(pilot, "greater_than_sign", then=lambda: "test 2 of 2" in screen_text(app))
        assert shown.chosen is None


async def test_a_low_narrow_terminal_keeps_the_table() -> None:
    async with panel(80, 10) as (shown, pilot, _):
        shown.job_tests = measured(table(500.0, 540.0))
        await until_shown(pilot, "540.0")
        assert not shown.curve.display
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        await pilot.resize_terminal(130, 30)
        await until(pilot, lambda: shown.curve.display)


def test_a_test_within_one_machine_is_not_judged_by_the_curve_of_two() -> None:
    rows = (
        NcclRow(
            2**30, 2**28, "float", "sum", -1, NcclHalf(4559.65, 235.49, 353.23, 0), NcclHalf(4578.57, 234.51, 351.77, 0)
        ),
    )
    words = "".join(
        run.text for run in summary(NcclTest("all_reduce_perf", ranks=4, rows=rows, finished=True, ok=True))
    )
    assert words.startswith("○ not judged")
    assert "4 ranks, and the reference is for 16 GPUs of two machines" in words
    assert "%" not in words
    row = NcclRow(2**29, 2**27, "float", "sum", -1, NcclHalf(1.0, 1.0, 602.0, 0), NcclHalf(1.0, 1.0, 600.0, 0))
    small = NcclTest("all_reduce_perf", ranks=16, rows=(row,), finished=True, ok=True)
    words = "".join(run.text for run in summary(small, accelerator="nvidia-b200"))
    assert words.startswith("● ok  the pass line is about 2 to 8 GiB"), "as its rows are marked"
