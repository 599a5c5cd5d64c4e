import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from console.kube.snapshot import WatchState, WatchStatus
from screens.columns.column import Column
from screens.widgets.table.row_painter import MAX_MEASURED_ROWS, EmptyNotice, share_width
from screens.widgets.table.sorted_rows import ROWS_SEARCHED_PER_SLICE, ROWS_SORTED_PER_SLICE, SortedRows
from screens.widgets.table.table import ResourceTable
from screens.wording import Span
from tests.screens.press import console, focus, press, screen_text, text_of, until


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    size: int = 0


class ThingTable(ResourceTable[Thing]):
    NOUN = "thing"
    EMPTY = EmptyNotice("No things.", "Make one.")
    COLUMNS: ClassVar = (
        Column("NAME", lambda thing: thing.name, sort=lambda thing: thing.name),
        Column(
            "SIZE", lambda thing: Span(str(thing.size), "dim"), width=6, right=True, sort=lambda t: t.size, down=True
        ),
    )


class Holder(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def compose(self) -> ComposeResult:
        yield ThingTable()

    def on_resource_table_opened(self, event: ResourceTable.Opened) -> None:
        self.told.append(event.key)

    @property
    def table(self) -> ThingTable:
        return self.query_one(ThingTable)


def things(*names: str) -> dict[tuple[str, str], Thing]:
    return {("ns", name): Thing(name, number) for number, name in enumerate(names)}


LIVE = WatchStatus("things", WatchState.LIVE)


@asynccontextmanager
async def table(size: tuple[int, int] = (40, 12)) -> AsyncIterator[tuple[ThingTable, Pilot[None], Holder]]:
    app = Holder()
    async with app.run_test(size=size) as pilot:
        await focus(pilot, app.table)
        yield app.table, pilot, app


async def test_the_cursor_stays_on_its_row_when_rows_above_come_and_go() -> None:
    async with table() as (it, pilot, _):
        it.show_rows(things("b", "c", "d"), LIVE)
        await press(pilot, "down", then=lambda: it.cursor == ("ns", "c"))
        it.show_rows(things("a", "b", "c", "d"), LIVE)
        assert it.cursor == ("ns", "c")
        it.show_rows(things("c", "d"), LIVE)
        assert it.cursor == ("ns", "c")
        await pilot.pause()
        assert "▸ c" in text_of(it)


async def test_when_its_row_goes_the_cursor_stays_near() -> None:
    async with table() as (it, pilot, _):
        it.show_rows(things("a", "b", "c"), LIVE)
        await pilot.press("down")
        it.show_rows(things("a", "c"), LIVE)
        assert it.cursor == ("ns", "c")
        it.show_rows({}, LIVE)
        assert it.cursor is None
        assert it.chosen_keys == []


async def test_the_cursor_returns_with_the_rows_after_a_new_connection() -> None:
    async with table() as (it, pilot, _):
        it.show_rows(things("a", "b", "c"), LIVE)
        await pilot.press("down")
        it.show_rows({}, LIVE)
        it.show_rows(things("a", "b", "c"), LIVE)
        assert it.cursor == ("ns", "b")


async def test_what_is_in_view_does_not_jump_when_rows_come_or_go_above() -> None:
    async with table() as (it, pilot, _):
        names = [f"n{number:02d}" for number in range(50)]
        it.show_rows(things(*names), LIVE)
        await press(pilot, *["pagedown"] * 2, then=lambda: "▸" in text_of(it))
        line = next(y for y in range(12) if "▸" in it.render_line(y).text)
        it.show_rows(things("m1", "m2", *names), LIVE)
        await until(pilot, lambda: "▸" in it.render_line(line).text)
        await press(pilot, "end", "up", then=lambda: it.show_vertical_scrollbar and "▸" in it.render_line(10).text)
        it.show_rows(things(*names), LIVE)
        await until(pilot, lambda: "▸" in it.render_line(10).text)


async def test_marked_rows_take_an_action_together() -> None:
    async with table() as (it, pilot, _):
        it.show_rows(things("a", "b", "c"), LIVE)
        await press(pilot, "space", "down", "space", then=lambda: it.chosen_keys == [("ns", "a"), ("ns", "c")])
        it.show_rows(things("a", "b"), LIVE)
        assert it.chosen_keys == [("ns", "a")]


async def test_sorting_by_key_and_by_click() -> None:
    async with table() as (it, pilot, _):
        it.show_rows(things("b", "a", "c"), LIVE)
        await press(pilot, "o", then=lambda: [key[1] for key in it.shown_keys] == ["a", "b", "c"])
        assert "NAME▲" in text_of(it)
        await press(pilot, "o", then=lambda: [key[1] for key in it.shown_keys] == ["c", "a", "b"])
        await press(pilot, "O", then=lambda: [key[1] for key in it.shown_keys] == ["b", "a", "c"])
        await pilot.click(ThingTable, offset=(3, 0))
        assert it.sorted_by == "NAME"


async def test_a_row_that_changes_its_value_moves() -> None:
    async with table() as (it, _, _app):
        rows = things("a", "b", "c")
        it.sort_by("SIZE")
        it.show_rows(rows, LIVE)
        it.show_rows({**rows, ("ns", "a"): Thing("a", 9)}, LIVE)
        assert [key[1] for key in it.shown_keys] == ["a", "c", "b"]


async def test_filter_keeps_words_and_drops_words() -> None:
    async with table() as (it, _, _app):
        it.show_rows(things("nccl-1", "nccl-2", "llama"), LIVE)
        it.filter_by("nccl !2")
        assert [key[1] for key in it.shown_keys] == ["nccl-1"]
        it.filter_by("nothing")
        assert "No thing matches “nothing”." in text_of(it)
        it.filter_by("")
        assert len(it.shown_keys) == 3


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (None, "Connecting"),
        (WatchStatus("things", WatchState.LISTING), "Listing things"),
        (LIVE, "No things."),
        (WatchStatus("things", WatchState.FORBIDDEN, why="not allowed", hint="ask for list"), "things: not allowed"),
        (WatchStatus("things", WatchState.ABSENT, why="not installed"), "things: not installed"),
        (WatchStatus("things", WatchState.STALE, why="connection refused"), "things: connection refused"),
    ],
)
async def test_why_there_are_no_rows(link: WatchStatus | None, said: str) -> None:
    async with table(size=(60, 8)) as (it, _, _app):
        it.show_rows({}, link)
        assert said in text_of(it)


async def test_stale_rows_stay_and_are_dimmed() -> None:
    async with table() as (it, _, _app):
        it.show_rows(things("a"), LIVE)
        before = it.render_line(1)
        it.show_rows(things("a"), WatchStatus("things", WatchState.STALE, why="refused"))
        after = it.render_line(1)
        assert before.text == after.text
        assert [segment.style for segment in before] != [segment.style for segment in after]


async def test_names_with_markup_emoji_and_controls_keep_their_line() -> None:
    async with table() as (it, _, _app):
        it.show_rows(things("[red]x[/]", "🚀🚀", "漢字漢字", "new\nline\x1b[2J", "[/nonsense", "e\u0301"), LIVE)
        for y in range(7):
            assert it.render_line(y).cell_length == 40
        shown = text_of(it)
        assert "[red]x[/]" in shown
        assert "🚀🚀" in shown
        assert "\x1b" not in shown


async def test_ten_thousand_rows_are_paged_through() -> None:
    async with table(size=(100, 50)) as (it, _, _app):
        rows = {("ns", f"thing-{number:05d}"): Thing(f"thing-{number:05d}", number) for number in range(10_000)}
        it.show_rows(rows, LIVE)
        it.action_page(1)
        first = it.cursor
        it.action_page(1)
        assert first is not None
        assert it.cursor is not None
        assert int(it.cursor[1][-5:]) - int(first[1][-5:]) in range(40, 50)
        assert it.row is not None
        assert it.row.name == it.cursor[1]
        it.action_page(-1)
        assert it.cursor == first


async def test_the_longest_name_among_many_has_its_whole_width_once_it_is_in_view() -> None:
    async with table((60, 12)) as (it, pilot, _):
        names = [f"n{number:05d}" for number in range(5 * MAX_MEASURED_ROWS)]
        names[2501] = longest = "n02501-with-a-name-that-is-longer-than-all"
        it.show_rows(things(*names), LIVE)
        assert it.move_to(("ns", longest))
        await until(pilot, lambda: f"{longest}  " in text_of(it))


async def test_nothing_is_painted_when_nothing_in_view_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with table() as (it, pilot, _):
        names = [f"n{number:02d}" for number in range(50)]
        rows = things(*names)
        it.show_rows(rows, LIVE)
        await pilot.pause()
        painted: list[Any] = []
        monkeypatch.setattr(it, "refresh", lambda *regions, **_: painted.extend(regions))
        it.show_rows({**rows, ("ns", "n40"): replace(rows["ns", "n40"], size=99)}, LIVE)
        assert painted == []
        it.show_rows({**rows, ("ns", "n03"): replace(rows["ns", "n03"], size=99)}, LIVE)
        assert [region.y for region in painted] == [4]


async def test_enter_and_double_click_open() -> None:
    async with table() as (it, pilot, app):
        it.show_rows(things("a", "b"), LIVE)
        await pilot.press("enter")
        await pilot.click(ThingTable, offset=(4, 2), times=2)
        await pilot.pause()
        assert app.told == [("ns", "a"), ("ns", "b")]


async def test_a_screen_of_twenty_by_five() -> None:
    async with table(size=(20, 5)) as (it, pilot, _):
        it.show_rows(things(*(f"a-rather-long-name-{number}" for number in range(30))), LIVE)
        await pilot.press("end", "pageup", "down")
        await pilot.resize_terminal(3, 2)
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert all(it.render_line(y).cell_length == it.size.width for y in range(5))


def test_columns_share_the_line_by_their_worth() -> None:
    columns: list[Column[Thing]] = [
        Column("A", lambda thing: thing.name, least=4),
        Column("B", lambda thing: thing.name, least=4, drop=1),
        Column("C", lambda thing: thing.name, least=4, drop=9),
        Column("D", lambda thing: thing.name, least=4, fill=True),
    ]
    wide = share_width(columns, [10, 10, 10, 20], 80)
    assert [(column.title, width) for column, width in wide] == [("A", 10), ("B", 10), ("C", 10), ("D", 44)]
    extra_gone = share_width(columns, [10, 10, 10, 20], 32)  # C goes before A or B is cut
    assert [(column.title, width) for column, width in extra_gone] == [("A", 10), ("B", 10), ("D", 8)]
    short = share_width(columns, [10, 10, 10, 20], 11)
    assert [column.title for column, _ in short] == ["A", "D"]


def test_names_of_nodes_are_whole_only_where_nothing_else_is_cut_for_them() -> None:
    columns: list[Column[Thing]] = [
        Column("NODE", lambda thing: thing.name, least=4, most=60, cut="node"),
        Column("STATE", lambda thing: thing.name, least=4, fill=True),
    ]
    assert [width for _, width in share_width(columns, [12, 30], 60, {0: 40})] == [12, 46]
    assert [width for _, width in share_width(columns, [12, 30], 72, {0: 40})] == [40, 30]


def test_a_column_that_has_no_room_gets_none_for_its_whole_names_either() -> None:
    columns = (
        Column("POD", str, least=4),
        Column("GPU", str, width=60),
        Column("NODE", str, least=8, most=48, cut="node", drop=2),
    )
    for room in range(60, 90):
        shared = share_width(columns, [1, 4, 12], room, {2: 46})
        assert [column.title for column, _ in shared][:2] == ["POD", "GPU"]


async def test_columns_without_a_title_stand_each_in_its_place() -> None:
    async with console() as (app, pilot, _):
        await press(pilot, "0", then=lambda: "Which page?" in screen_text(app))
        first = next(line for line in screen_text(app).splitlines() if "the last alarms of all" in line)
        assert first.index("alarms ") < first.index("the last alarms")


def sort_both(grown: SortedRows[Thing], anew: SortedRows[Thing], sort: Any, *, descending: bool) -> None:
    for each in (grown, anew):
        each.sort_by(sort, descending=descending)
    assert grown.keys == anew.keys, "What is sorted ahead is as if sorted now"


def sort_ahead(listing: SortedRows[Thing], slices: int) -> None:
    for _ in range(slices):
        listing.sort_ahead()


def test_a_large_listing_is_arranged_by_what_is_new_as_if_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("screens.widgets.table.sorted_rows.MANY_ROWS", 0)
    monkeypatch.setattr("screens.widgets.table.sorted_rows.FEW_MOVED_PART", 2)
    monkeypatch.setattr("screens.widgets.table.sorted_rows.ROWS_SEARCHED_PER_SLICE", 5)
    monkeypatch.setattr("screens.widgets.table.sorted_rows.ROWS_SORTED_PER_SLICE", 5)
    chance = random.Random(1)
    for number in range(300):
        grown: SortedRows[Thing] = SortedRows(lambda thing: thing.name)
        at_once = chance.choice([3, 1000])
        sort = chance.choice([None, lambda thing: thing.size])
        ahead = chance.choice([lambda thing: thing.name, lambda thing: thing.size % 7])
        grown.filter_by(chance.choice(["", "1", "!2"]))
        grown.sort_by(sort, descending=number % 2 == 0)
        rows: dict[tuple[str, ...], Thing] = {}
        for _ in range(12):
            before = rows
            rows = {key: row for key, row in rows.items() if chance.random() > number % 3 / 9}
            if number % 5 == 0:
                rows = dict(chance.sample(list(rows.items()), len(rows)))
            for name in map(str, chance.sample(range(60), chance.randrange(1, 9))):
                rows["ns", name] = Thing(name, chance.randrange(20))
            anew: SortedRows[Thing] = SortedRows(lambda thing: thing.name)
            anew.filter_by(" ".join(grown._wanted_words + [f"!{word}" for word in grown._unwanted_words]))
            anew.sort_by(sort, descending=number % 2 == 0)
            anew.update(rows)
            while anew.lacks_texts:
                anew.prepare_next_texts()
            shown = grown.keys
            moved, changes = grown.update(rows, at_once), grown.changes
            while grown.is_behind:
                moved |= grown.update(rows, at_once)
                changes += grown.changes
            assert set(grown.keys) <= set(anew.keys), "What is not searched yet is not shown"
            while grown.lacks_texts:
                moved = True
                grown.prepare_next_texts()
            assert moved or shown == anew.keys
            assert grown.keys == anew.keys
            assert [grown.index(key) for key in grown.keys] == list(range(len(grown)))
            sort = chance.choice([sort, sort, ahead])
            sort_both(grown, anew, sort, descending=number % 2 == 0)
            grown.expect_sort(ahead, descending=number % 2 == 0)
            sort_ahead(grown, chance.randrange(15))
            left = Counter({id(row): 1 for row in rows.values()})
            left.subtract(id(row) for row in before.values())
            told = Counter(id(new) for _, new in changes if new is not None)
            told.subtract(id(old) for old, _ in changes if old is not None)
            assert told == left, "Counters of nothing are equal"
            for words in (chance.choice(["", "1", "2 !3"]), chance.choice(["12", "!1 !2", "2 !3"])):
                grown.filter_by(words)
                while grown.lacks_texts:
                    grown.prepare_next_texts()
                wanted, unwanted = set(words.split()), set(re.findall("!(.)", words))
                assert set(grown.keys) == {
                    key for key in rows if all(each in key[1] for each in wanted if each[0] != "!")
                    and not any(each in key[1] for each in unwanted)
                }  # fmt: skip


def test_a_letter_asks_no_row_for_its_text_again() -> None:
    asked: list[str] = []

    def text(thing: Thing) -> str:
        asked.append(thing.name)
        return thing.name

    listing: SortedRows[Thing] = SortedRows(text)
    names = [f"n{number:05d}" for number in range(ROWS_SEARCHED_PER_SLICE + 2)]
    rows: dict[tuple[str, ...], Thing] = {(name,): Thing(name) for name in names}
    listing.update(rows)
    listing.filter_by("n0")
    assert listing.lacks_texts
    assert len(listing.keys) == ROWS_SEARCHED_PER_SLICE, "Those that are searched are shown at once"
    listing.prepare_next_texts()
    assert not listing.lacks_texts
    assert len(listing.keys) == ROWS_SEARCHED_PER_SLICE + 2
    listing.filter_by("n04001")
    listing.filter_by("n0")
    assert asked == names
    listing.update({**rows, ("n00001",): Thing("other"), ("n1",): Thing("n01")})
    assert asked[len(rows) :] == ["other", "n01"]
    assert len(listing.keys) == ROWS_SEARCHED_PER_SLICE + 2


def test_an_order_made_ahead_asks_no_row_for_its_value_again() -> None:
    asked: list[int] = []

    def size(thing: Thing) -> int:
        asked.append(thing.size)
        return thing.size

    listing: SortedRows[Thing] = SortedRows(lambda thing: thing.name)
    rows: dict[tuple[str, ...], Thing] = {(f"n{number}",): Thing("", -number % 777) for number in range(17_001)}
    listing.update(rows)
    listing.expect_sort(size, descending=True)
    while listing.sorting_ahead:
        before = len(asked)
        listing.sort_ahead()
        assert len(asked) <= before + ROWS_SORTED_PER_SLICE
    listing.update({**rows, ("n7",): replace(rows["n7",], name="other")})
    del asked[:]
    listing.sort_by(size, descending=True)
    assert not asked
    assert listing.keys == sorted(rows, key=lambda key: -rows[key].size)


async def test_a_column_that_tells_no_two_rows_apart_goes_before_a_text_is_cut() -> None:
    class Placed(ResourceTable[Thing]):
        COLUMNS: ClassVar = (
            Column("SPACE", lambda thing: "default" if thing.size < 9 else "other", drop=7),
            Column("NAME", lambda thing: thing.name),
            Column("MARK", lambda thing: "", drop=2),
            Column("AREA", lambda thing: thing.name[:1], drop=8),
            Column("SAID", lambda thing: f"{thing.name} is said", fill=True),
        )

    class Host(App[None]):
        def compose(self) -> ComposeResult:
            yield Placed()

    app = Host()
    async with app.run_test(size=(40, 8)) as pilot:
        table = app.query_one(Placed)

        def titles() -> list[str]:
            return text_of(table).split("\n")[0].split()

        rows = things("one", "two", "ten", "red", "run")
        table.show_rows(rows)
        await until(pilot, lambda: titles() == ["SPACE", "NAME", "AREA", "SAID"])
        await pilot.resize_terminal(34, 8)
        await until(pilot, lambda: titles() == ["NAME", "AREA", "SAID"])
        await pilot.resize_terminal(80, 8)
        await until(pilot, lambda: titles() == ["SPACE", "NAME", "MARK", "AREA", "SAID"])
        await pilot.resize_terminal(34, 8)
        table.show_rows({**rows, ("default", "six"): Thing("six", 9)})
        await until(pilot, lambda: titles() == ["SPACE", "NAME", "SAID"])
        table.show_rows(dict(list(rows.items())[:2]))
        await until(pilot, lambda: titles() == ["NAME", "AREA", "SAID"])


@pytest.mark.slow(reason="many keys in a whole app")
def test_what_went_for_a_wider_column_that_goes_too_comes_back() -> None:
    columns = [
        Column[str]("NAME", str, most=30), Column[str]("WAY", str, most=10, drop=7),
        Column[str]("WHY", str, fill=True, drop=6),
    ]  # fmt: skip
    assert [column.title for column, _ in share_width(columns, [30, 8, 60], 100)] == ["NAME", "WAY", "WHY"]
    assert [column.title for column, _ in share_width(columns, [30, 8, 60], 75)] == ["NAME", "WHY"]
    assert [column.title for column, _ in share_width(columns, [30, 8, 60], 50)] == ["NAME", "WAY"]
