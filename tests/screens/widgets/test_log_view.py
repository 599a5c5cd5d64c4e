import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from screens.theme import DARK
from screens.widgets.log.log_lines import MAX_MEMORY_LINES, LogLines, line_style, marked, pattern, printable, wrap_line
from screens.widgets.log.log_view import LogView
from screens.widgets.styled_text import fold_at_spaces
from screens.wording import Span
from tests.fakes import present
from tests.screens.press import focus, press, text_of, toasts, until


class Host(App[None]):
    """Just the view, and what it asks to save."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[LogView.Saved] = []

    @on(LogView.Saved)
    def save(self, event: LogView.Saved) -> None:
        self.saved.append(event)

    def compose(self) -> ComposeResult:
        yield LogView()

    def on_mount(self) -> None:
        self.register_theme(DARK)
        self.theme = DARK.name


@asynccontextmanager
async def log(lines: int = 0, width: int = 60) -> AsyncIterator[tuple[LogLines, Pilot[Any], LogView]]:
    app = Host()
    async with app.run_test(size=(width, 12)) as pilot:
        view = app.query_one(LogView)
        await focus(pilot, view.lines)
        if lines:
            view.lines.append((float(number), f"line {number}") for number in range(lines))
            await until(pilot, lambda: view.lines.shown == lines)
        yield view.lines, pilot, view


async def test_lines_that_come_are_shown_where_the_machine_stands_still_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = itertools.count()
    async with log(5) as (lines, pilot, _):
        # Between two looks of a timer at the clock pass 50 ms.
        monkeypatch.setattr("textual.timer._time", SimpleNamespace(get_time=lambda: 0.05 * next(looks)))
        lines.append([(1.0, "new")])
        await until(pilot, lambda: "new" in text_of(lines))


async def test_follows_until_scrolled_up_and_again_at_the_end() -> None:
    async with log(100) as (lines, pilot, _):
        assert lines.scroll_y == lines.max_scroll_y
        await pilot.press("up")
        assert not lines.follow
        at = lines.scroll_y
        lines.append([(1.0, "new")])
        await until(pilot, lambda: lines.shown == 101)
        assert lines.scroll_y == at
        await pilot.press("end")
        assert lines.follow
        assert "new" in text_of(lines)


async def test_space_pauses_and_the_status_says_so() -> None:
    async with log(100) as (lines, pilot, view):
        await pilot.press("space")
        assert not lines.follow
        foot = str(view.query_one(".log-foot").render())
        assert "paused" in foot
        assert "100 lines" in foot


async def test_search_finds_as_typed_goes_on_with_n_and_ends_with_escape() -> None:
    async with log(300) as (lines, pilot, view):
        await press(pilot, "slash", *"line 12", then=lambda: lines.wanted == "line 12")
        assert lines.match_count == 11
        await pilot.press("enter", "n")
        assert (lines.match, lines.match_line) == (0, 12)  # from the last one round to the first
        assert "line 12" in text_of(lines)
        await press(pilot, "N", then=lambda: lines.match == 10)
        await press(pilot, "escape", then=lambda: lines.match_count == 0)
        assert not view.has_class("-searching")


async def test_a_search_without_a_match_leaves_the_log_where_it_was_and_offers_no_next_match() -> None:
    async with log(300) as (lines, pilot, _):
        for follows in (True, False):
            lines.follow = follows
            lines.scroll_to(y=lines.scroll_y - 7 * (not follows), animate=False, immediate=True)
            before = lines.scroll_y
            await press(pilot, "slash", *"line 12", then=lambda: lines.match_count == 11)
            assert (lines.follow, "match(1)" in lines.hides()) == (False, False)
            await press(pilot, *"x", "enter", then=lambda: lines.match_count == 0 and lines.has_focus)
            assert (lines.follow, lines.scroll_y, lines.hides()["match(1)"]) == (follows, before, "")


async def test_what_was_found_far_right_in_a_line_is_scrolled_to_and_back() -> None:
    async with log() as (lines, pilot, _):
        lines.append(
            (0.0, f"{number:03d} " + "x" * 150 + (" loss: nan" if number == 20 else "")) for number in range(50)
        )
        lines.append([(0.0, "050 nan")])
        await until(pilot, lambda: lines.shown == 51)
        lines.find_first("nan")
        await until(pilot, lambda: (lines.match, lines.match_line) == (0, 20))
        await until(pilot, lambda: "loss: nan" in text_of(lines))
        await press(pilot, "n", then=lambda: lines.scroll_x == 0)
        assert "050 nan" in text_of(lines)
        await press(pilot, "N", then=lambda: "loss: nan" in text_of(lines))


async def test_wrap_folds_long_lines_and_keeps_the_first_visible_line() -> None:
    async with log() as (lines, pilot, _):
        lines.append((0.0, f"{number:03d} " + "x" * 200) for number in range(50))
        await until(pilot, lambda: lines.shown == 50)
        await pilot.press("home", *["down"] * 10, "W")
        assert lines.wrap
        assert text_of(lines).startswith("010 ")
        assert text_of(lines).count("x" * 50) >= 6
        await press(pilot, "W", then=lambda: text_of(lines).startswith("010 "))


async def test_a_line_of_ten_thousand_letters_and_one_of_emoji() -> None:
    async with log() as (lines, pilot, _):
        lines.append([(0.0, "y" * 10_000), (0.0, "🚀" * 400), (0.0, "[red]not markup[/]")])
        await until(pilot, lambda: lines.shown == 3)
        assert "[red]not markup[/]" in text_of(lines)
        await press(pilot, "W", "home", then=lambda: text_of(lines).startswith("yyyy"))


async def test_of_a_folded_line_of_more_than_a_screen_what_was_found_is_shown() -> None:
    async with log() as (lines, pilot, _):
        lines.append([(0.0, "y" * 8_000 + " needle " + "z" * 8_000), (0.0, "end")])
        await until(pilot, lambda: lines.shown == 2)
        await press(pilot, "W", "home", then=lambda: text_of(lines).startswith("yyyy"))
        lines.wanted = "needle"
        await until(pilot, lambda: "needle" in text_of(lines))
        lines.wanted = ""
        await press(pilot, "end", "home", then=lambda: text_of(lines).startswith("yyyy"))


async def test_only_so_many_lines_are_kept_the_newest() -> None:
    async with log() as (lines, pilot, _):
        lines.append((0.0, f"{number}") for number in range(MAX_MEMORY_LINES + 500))
        await until(pilot, lambda: lines.shown == MAX_MEMORY_LINES)
        assert str(MAX_MEMORY_LINES + 499) in text_of(lines)
        lines.append([(0.0, "one more")])
        await until(pilot, lambda: "one more" in text_of(lines))
        assert lines.shown == MAX_MEMORY_LINES


async def test_times_are_shown_on_demand() -> None:
    async with log(3) as (lines, pilot, _):
        await pilot.press("T")
        second = text_of(lines).splitlines()[1]
        assert (second[2], second[8:].strip()) == (":", "line 1")


async def test_letters_of_other_keys_pass_when_nothing_is_searched() -> None:
    async with log(3) as (lines, _, _view):
        assert lines.check_action("match", (1,)) is False


def test_printable_leaves_nothing_that_moves_the_cursor() -> None:
    assert printable("\x1b[31mred\x1b[0m text") == "red text"
    assert printable(" 10%\r 50%\r100%\n") == "100%"
    assert printable("a\tb") == "a       b"
    assert printable("\x1b]0;title\x07done\x00") == "done·"


def test_style_of_a_line() -> None:
    assert line_style("Traceback (most recent call last):") == "bad"
    assert line_style("warning: old") == "waits"
    assert line_style("#   size   count") == "dim"
    assert line_style("step 3 all-reduce: done in 4 s") == "strong"
    assert line_style("iteration 12 loss 2.1") == ""


def test_a_broken_pattern_is_taken_as_text() -> None:
    wanted = present(pattern("a[b"))
    assert marked("xa[by", "", wanted) == [Span("x", ""), Span("a[b", "found"), Span("y", "")]
    upper = present(pattern("Error"))
    assert not upper.search("error")


def test_folding() -> None:
    assert wrap_line("abcdef", 4) == ["abcd", "ef"]
    assert wrap_line("", 4) == [""]
    assert wrap_line("🚀🚀🚀", 4) == ["🚀🚀", "🚀"]


def test_output_is_folded_at_spaces_and_never_inside_a_number() -> None:
    assert fold_at_spaces("state S  143 threads", 11) == ["state S  ", "143 threads"]
    assert fold_at_spaces("pid 1202 state", 8) == ["pid 1202", "state"]
    assert fold_at_spaces("    backward_no_pipelining", 10) == ["    backwa", "rd_no_pipe", "lining"]
    assert fold_at_spaces("🚀🚀 🚀🚀🚀", 5) == ["🚀🚀 ", "🚀🚀", "🚀"]
    assert fold_at_spaces("", 4) == [""]


async def test_a_filter_that_leaves_nothing_says_of_how_many_lines_and_which_key_ends_it() -> None:
    async with log(100) as (lines, pilot, view):
        empty = view.query_one(".log-empty")
        await press(
            pilot,
            "L",
            "L",
            "M",
            "M",
            then=lambda: (
                "The filter (error, NCCL only) matches none of 100 lines: esc clears the filter." in str(empty.render())
            ),
        )
        lines.append([(0.0, "one more")])
        await until(pilot, lambda: "none of 101 lines" in str(empty.render()))
        await press(pilot, "escape", then=lambda: lines.shown == 101)
        assert not empty.display


async def test_where_no_line_is_shown_nothing_is_saved() -> None:
    async with log(2) as (_, pilot, _view):
        app = pilot.app
        assert isinstance(app, Host)
        await press(pilot, "F", *"nowhere", "enter", "S", then=lambda: "matches none of 2 lines" in toasts(app))
        assert app.saved == []
        await press(pilot, "escape", "S", then=lambda: len(app.saved) == 1)


async def test_that_no_line_tells_of_an_error_stands_below_and_covers_none() -> None:
    async with log(3) as (_, pilot, view):
        await press(pilot, "E", then=lambda: "No line contains an error." in str(view.query_one(".log-foot").render()))
        assert not toasts(pilot.app)
