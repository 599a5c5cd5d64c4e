import asyncio
import gc
import os
import platform
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from textual.command import Hit
from textual.widgets import Input

from console.connection_settings import Settings
from console.errors import BadKubeconfig, NotAllowed, NotFound, Unreachable
from console.kube.objects.node import Node
from console.kube.snapshot import ContextName, Fleet, WatchState, WatchStatus
from console.launch.run_record import RunRecord
from screens import pages
from screens.app import ConsoleApp
from screens.dialogs.question import ChoiceTable, Pick
from screens.key_ordered_app import FREEZE_SECONDS, TerminalDriver, collect_between_keys
from screens.live_screen import LiveScreen
from screens.pages.fleet import FleetScreen
from screens.pages.help import HelpScreen, key_groups
from screens.pages.job import JobScreen
from screens.pages.jobs import JobsScreen
from screens.pages.launch import LaunchScreen
from screens.pages.pods import PodsScreen
from screens.palette import ActiveBindings, PaletteTargets
from screens.session_app import keep_last_known
from screens.widgets.title_and_keys import KeyBar, TitleBar
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import (
    connecting,
    console,
    next_screen,
    press,
    screen_of,
    screen_text,
    text_of,
    toasts,
    until,
    until_shown,
)
from tests.screens.scene import scene


async def test_number_keys_go_from_screen_to_screen_and_back_to_the_same_row() -> None:
    async with console() as (app, pilot, _):
        for key, mode in (("4", "pods"), ("1", "fleet"), ("4", "pods")):
            await press(pilot, key, then=lambda: app.current_mode == mode)  # noqa: B023 - called at once
            await pilot.press("down")
        assert isinstance(app.screen, PodsScreen)
        assert app.screen.table.cursor == app.screen.table.shown_keys[2]


async def test_the_number_of_the_screen_one_is_on_leaves_the_pages_over_it() -> None:
    async with console() as (app, pilot, _):
        await press(pilot, "4", "enter", "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
        await press(pilot, "escape", "4", then=lambda: isinstance(app.screen, PodsScreen))


async def test_a_digit_shows_its_page_whatever_was_opened_from_it_before() -> None:
    async with console() as (app, pilot, _):
        await press(pilot, "4", "enter", then=lambda: len(app.screen_stack) == 2)
        await press(pilot, "1", "4", then=lambda: isinstance(app.screen, PodsScreen))
        assert len(app.screen_stack) == 1


async def test_a_tab_can_be_clicked() -> None:
    async with console() as (app, pilot, _):
        at = text_of(app.screen.query_one(TitleBar)).index("Pods")
        await pilot.click(TitleBar, offset=(at, 0))
        assert app.current_mode == "pods"
        await press(pilot, "enter", then=lambda: not isinstance(app.screen, PodsScreen))
        await pilot.click(TitleBar, offset=(at, 0))
        await until(pilot, lambda: isinstance(app.screen, PodsScreen))


async def test_the_title_says_where_one_is_and_how_fresh() -> None:
    async with console(settings=Settings(practice=True)) as (app, pilot, session):
        title = app.screen.query_one(TitleBar)
        assert " practice " in text_of(title)
        assert "● live" in text_of(title)
        await press(
            pilot, "enter", then=lambda: "Fleet › a4-highgpu-8g-a4-pool" in text_of(app.screen.query_one(TitleBar))
        )
        stale = WatchStatus("pods", WatchState.STALE, last_seen=time.time() - 14, why="connection refused")
        session.show(links={**session.fleet.links, "pods": stale})
        await until(pilot, lambda: "pods reconnecting, 14 s old" in text_of(app.screen.query_one(TitleBar)))
        long = structs.replace(stale, last_seen=time.time() - 19, why="the server at 10.0.0.2 does not answer " * 4)
        session.show(links=dict.fromkeys(session.fleet.links, long))
        await until(pilot, lambda: "reconnecting, 19 s old" in text_of(app.screen.query_one(TitleBar)))


async def test_a_long_way_leaves_room_for_where_it_led() -> None:
    async with console() as (app, pilot, _):
        await pilot.resize_terminal(80, 24)
        title = app.screen.query_one(TitleBar)
        title.title = replace(title.title, trail=("a4-highgpu-8g-a4-pool", "images", "build 20dbb142", "clusters"))
        await until(pilot, lambda: "Fleet › … › clusters" in text_of(app.screen.query_one(TitleBar)))
        title.title = replace(title.title, trail=("clusters",))
        await until(pilot, lambda: "Fleet › clusters" in text_of(app.screen.query_one(TitleBar)))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_key_line_shows_what_works_and_a_click_does_it() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("4")
        bar = app.screen.query_one(KeyBar)
        await until(pilot, lambda: "Delete" in text_of(bar))
        at = text_of(bar).index("? Help")
        await pilot.click(KeyBar, offset=(at, 0))
        assert isinstance(app.screen, HelpScreen)


async def test_help_names_every_key_of_the_screen_once() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("4")
        groups = key_groups(app.screen)
        assert [group.title for group in groups] == ["This screen", "Rows", "Everywhere"]
        told = [verb for group in groups for _, verb in group.keys]
        assert any(verb.startswith("Shell") for verb in told)
        assert len(told) == len(set(told))
        await press(pilot, "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, PodsScreen))


async def test_the_palette_finds_a_command_and_runs_it() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("colon")
        await press(pilot, *"light", then=lambda: app.theme == "a4-dark")
        await until_shown(pilot, "Light or dark")
        await press(pilot, "enter", then=lambda: app.theme == "a4-light")


async def test_the_palette_finds_a_command_whose_key_the_page_has_taken() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("3")
        assert app.screen.active_bindings["t"].binding.action != "theme"
        await pilot.press("colon")
        await press(pilot, *"theme", then=lambda: "Light or dark" in screen_text(app))
        await press(pilot, "enter", then=lambda: app.theme == "a4-light")


async def test_read_only_leaves_no_key_that_changes_the_cluster() -> None:
    settings = Settings(read_only=True)
    async with console(FakeSession(scene(), settings=settings), settings=settings) as (app, pilot, session):
        await pilot.press("4")
        actions = {active.binding.action for active in app.screen.active_bindings.values()}
        assert "delete_pods" not in actions
        assert "log" in actions
        await press(pilot, "x", then=lambda: isinstance(app.screen, PodsScreen))
        assert session.called("delete_pod") == []


async def test_a_missing_kubeconfig_is_named_in_the_rows_place_and_ctrl_r_tries_again() -> None:
    missing = BadKubeconfig("There is no kubeconfig at ~/.kube/config.", "Set KUBECONFIG.")
    app = ConsoleApp(Settings(), connect=connecting(missing, FakeSession(scene())))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.trouble is not None)
        await pilot.pause()
        await until_shown(pilot, "There is no kubeconfig", "Set KUBECONFIG.")
        await press(pilot, "4", then=lambda: "There is no kubeconfig" in screen_text(app))
        await pilot.press("l", "x", "y")  # nothing to act on, and nothing breaks
        await press(pilot, "ctrl+r", then=lambda: "llama-70b" in screen_text(app))
        assert "There is no kubeconfig" not in screen_text(app)


async def test_a_server_that_goes_away_leaves_its_rows() -> None:
    async with console() as (app, pilot, session):
        await pilot.press("4")
        table = (await next_screen(pilot, PodsScreen)).table
        rows = list(table.shown_keys)
        gone = {kind: WatchStatus(kind, WatchState.STALE, why="connection refused") for kind in session.fleet.links}
        session.show(links=gone)
        await until(pilot, lambda: "reconnecting" in text_of(app.screen.query_one(TitleBar)))
        assert table.shown_keys == rows


async def test_a_kind_that_may_not_be_listed_is_a_line_in_the_list() -> None:
    async with console() as (_, pilot, session):
        await pilot.press("4")
        refused = WatchStatus(
            "pods", WatchState.FORBIDDEN, why="not allowed to list pods", hint="Ask for list on pods."
        )
        session.show(pods={}, links={**session.fleet.links, "pods": refused})
        await until_shown(pilot, "not allowed to list pods", "Ask for list on pods.")


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("size", [(20, 5), (1, 1), (80, 24), (250, 60)])
async def test_every_size_can_be_drawn(size: tuple[int, int]) -> None:
    async with console(size=(80, 24)) as (app, pilot, _):
        for key in ("1", "enter", "enter", "4", "enter"):
            await pilot.press(key)
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.resize_terminal(80, 24)
            await pilot.pause()
        assert isinstance(app.screen, LiveScreen)


async def test_leaving_closes_the_session() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "q", then=lambda: session.closed)
        assert app.return_code in {0, None}


async def test_another_cluster_is_picked_by_name() -> None:
    session = FakeSession(scene())
    session.answers["contexts"] = [ContextName("test", "c1", "default", True), ContextName("other", "c2", "ml", False)]
    async with console(session) as (app, pilot, _):
        app.only_namespace = "of-the-first-cluster"
        await press(pilot, "C", then=lambda: isinstance(app.screen, Pick))
        await pilot.press(*"oth")
        await press(pilot, "enter", then=lambda: session.called("switch") == [("other", None)])
        await until(pilot, lambda: app.only_namespace == "")


async def test_another_namespace_may_be_one_nobody_uses_yet() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "N", then=lambda: isinstance(app.screen, Pick))
        app.screen.query_one(Input).value = "brand-new"
        await press(pilot, "enter", then=lambda: session.called("switch") == [(None, "brand-new")])
        assert session.called("require_namespace") == [("brand-new",)]
        await until(pilot, lambda: "brand-new" in app.known_namespaces())  # launches go there
        assert await offered(app, "ns brand") == ["Go to namespace brand-new"]


async def test_a_namespace_that_is_not_there_is_refused_and_the_lists_stay() -> None:
    async with console() as (app, pilot, session):
        session.answers["require_namespace"] = NotFound("There is no namespace nosuch.", "There are jobs in default.")
        await press(pilot, "N", then=lambda: isinstance(app.screen, Pick))
        app.screen.query_one(Input).value = "nosuch"
        await pilot.press("enter")
        await until(pilot, lambda: any("There is no namespace nosuch." in each.message for each in app._notifications))
        assert (app.only_namespace, session.called("switch")) == ("", [])


@pytest.mark.parametrize(("practice", "where"), [(True, "practice  "), (False, "test / ")])
async def test_the_title_names_the_namespace_on_80_columns(practice: bool, where: str) -> None:
    async with console(settings=Settings(practice=practice), size=(80, 24)) as (app, pilot, _):
        for key, tab, namespace in (("1", "1 Fleet", "all namespaces"), ("5", "5 Launch", "default")):
            await pilot.press(key)
            await until(pilot, lambda tab=tab: tab in text_of(app.screen.query_one(TitleBar)))  # type: ignore[misc]
            title = text_of(app.screen.query_one(TitleBar))
            assert f"{where}{namespace}  ● live" in title
            assert all(f" {each} " in title for each in range(8))


async def test_lists_are_narrowed_to_the_picked_namespace_and_the_title_says_so() -> None:
    async with console(settings=Settings(practice=True)) as (app, pilot, _):
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        title = screen.query_one(TitleBar)
        assert "all namespaces" in text_of(title)
        every = len(screen.table.shown_keys)
        await press(pilot, "N", then=lambda: isinstance(app.screen, Pick) and app.screen.is_mounted)
        assert app.screen.query_one(ChoiceTable).shown_keys[0] == ("all namespaces",)
        await pilot.press(*"kube-system", "enter")
        await until(pilot, lambda: {key[0] for key in screen.table.shown_keys} == {"kube-system"})
        assert "practice  kube-system" in text_of(title)
        await press(pilot, "N", then=lambda: isinstance(app.screen, Pick) and app.screen.is_mounted)
        await press(pilot, *"all name", "enter", then=lambda: len(screen.table.shown_keys) == every)


async def test_tabs_keep_their_digits_while_they_fit() -> None:
    async with console(size=(120, 24), settings=Settings(practice=True)) as (app, pilot, _):
        bar = app.screen.query_one(TitleBar)

        def shown(*trail: str, quiet: float) -> str:
            """The bar with what a tick would soon take away again."""
            link = WatchStatus("nodes", WatchState.LIVE, last_seen=time.time() - quiet)
            bar.title = replace(bar.title, links=(link,), trail=trail)
            return text_of(bar)

        for quiet in (0.0, 60.0):
            assert " 1 Fleet  2 Queues  3 Jobs  4 Pods " in shown(quiet=quiet)
        await pilot.resize_terminal(90, 24)
        await until(pilot, lambda: " 1 Fleet  2  3  4  5  6  7 " in shown(quiet=60))
        await pilot.resize_terminal(80, 24)
        pool = "a4-highgpu-8g-a4-pool"
        await until(pilot, lambda: f"1 Fleet › {pool}  2  3  4 " in shown(pool, quiet=60))
        await pilot.resize_terminal(175, 24)
        await until(pilot, lambda: "no change for 60 s" in (text := shown(pool, quiet=60)) and " 1 Fleet " in text)


async def test_a_refusal_is_reported_with_its_brackets() -> None:
    session = FakeSession(scene())
    session.answers["manifest"] = NotAllowed("pods [get] is forbidden", "Ask for `get` on [pods].")
    async with console(session) as (app, pilot, _):
        await press(pilot, "4", "y", then=lambda: len(app._notifications) > 0)
        told = next(iter(app._notifications))
        assert told.message == "pods [get] is forbidden Ask for `get` on [pods]."
        assert told.markup is False


async def test_before_the_session_is_open_actions_say_so() -> None:
    started: list[bool] = []

    async def connect() -> Any:
        started.append(True)
        raise Unreachable("No answer from 10.0.0.1.", "Check the network.")

    app = ConsoleApp(Settings(), connect=connect)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.trouble is not None)
        await press(pilot, "N", then=lambda: len(app._notifications) > 0)
        assert started == [True]


@pytest.mark.slow(reason="many keys in a whole app", fast_rows=3)
@pytest.mark.parametrize("key", ["1", "2", "3", "4", "5", "6", "7", "P", "I", "B", "A", "colon", "C", "N"])
async def test_every_screen_can_be_opened_before_the_cluster_answers(key: str) -> None:
    never = asyncio.Event()

    async def connect() -> Any:
        await never.wait()

    app = ConsoleApp(Settings(), connect=connect)
    async with app.run_test(size=(120, 35)) as pilot:
        await pilot.press("3", key)
        if isinstance(app.screen, LiveScreen):
            app.screen.tick()
        for keys in (("enter", "x", "escape"), ("1",)):
            await until(pilot, lambda: not app.typing_waits)  # what is typed for a question that does not come goes
            await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.screen, FleetScreen))


def is_at(app: ConsoleApp, mode: str) -> bool:
    return app.current_mode == mode and isinstance(app.screen, LiveScreen)


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_palette_goes_to_pages_by_the_words_of_k9s() -> None:
    session = FakeSession(scene())
    session.answers["hold runs"] = held = asyncio.Event()
    async with console(session) as (app, pilot, _):
        for typed, mode in (("pods", "pods"), ("jobs", "jobs"), ("no", "fleet"), ("wl", "queues")):
            await pilot.press("colon")
            for key in (*typed, "enter"):  # faster than anything is found
                app.simulate_key(key)
            await until(pilot, partial(is_at, app, mode))
        held.set()
        await press(pilot, "colon", *"pods kube-system", then=lambda: "Go to pods in kube-system" in screen_text(app))
        await press(pilot, "enter", then=lambda: app.current_mode == "pods" and app.only_namespace == "kube-system")
        screen = screen_of(app, PodsScreen)
        await until(pilot, lambda: [key[0] for key in screen.table.shown_keys] == ["kube-system"])
        await press(pilot, "colon", *"pods nowhere", then=lambda: "Go to pods in nowhere" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: any("Nothing is listed" in each.message for each in app._notifications))
        assert app.only_namespace == "kube-system"


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_palette_switches_namespace_and_cluster_by_their_names() -> None:
    contexts = (ContextName("test", "one", "default", True), ContextName("Prod-EU", "two", "default", False))
    session = FakeSession(scene())
    session.answers["contexts"] = contexts
    async with console(session) as (app, pilot, _):
        assert await offered(app, "ns nowhere") == []
        assert await offered(app, "ctx prod") == ["Go to context Prod-EU"]
        await press(pilot, "4", "colon", *"ns kube", then=lambda: "Go to namespace kube-system" in screen_text(app))
        await press(pilot, "enter", then=lambda: app.only_namespace == "kube-system")
        await until(pilot, lambda: isinstance(app.screen, PodsScreen))
        await press(pilot, "colon", *"ns all", then=lambda: "Go to namespace all namespaces" in screen_text(app))
        await press(pilot, "enter", then=lambda: not app.only_namespace and isinstance(app.screen, PodsScreen))
        await press(pilot, "colon", *"ctx eu", then=lambda: "Go to context Prod-EU" in screen_text(app))
        await press(pilot, "enter", then=lambda: session.context == "Prod-EU")


async def offered(app: ConsoleApp, typed: str) -> list[str]:
    """What the palette offers for these words, best first."""
    hits = [hit for each in (ActiveBindings, PaletteTargets) async for hit in each(app.screen).search(typed)]
    return [str(hit.prompt) for hit in sorted(hits, key=lambda hit: -cast("Hit", hit).score)]


async def test_the_palette_offers_what_contains_the_words_and_each_page_once() -> None:
    async with console(FakeSession(scene())) as (app, _, _session):
        assert await offered(app, "jobs default extra") == []
        assert all("rag" in each for each in await offered(app, "rag"))
        assert "Buckets and storage" not in await offered(app, "forecast")
        assert (await offered(app, "n0412"))[0] == "nccl-0412", "the beginnings of consecutive words"
        assert await offered(app, "dark light") == ["Light or dark"]
        assert (await offered(app, "pods"))[0] == "Go to pods"
        assert "Pods" not in await offered(app, "pods")
        assert await offered(app, "alarms") == ["Go to alarms"]
        assert (await offered(app, "llama"))[0] == "llama-70b", "the job before its pods"
        told = [hit.help async for hit in PaletteTargets(app.screen).discover()]
        assert "quota, who holds it, and who waits for what" in told
        assert None not in told
        assert "page" not in told


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_colon_before_the_words_in_the_palette_is_left_out() -> None:
    async with console(FakeSession(scene())) as (app, pilot, _):
        await press(pilot, "colon", *":pods", then=lambda: "Go to pods" in screen_text(app))
        await press(pilot, "enter", then=partial(is_at, app, "pods"))


async def test_a_namespace_that_was_asked_for_narrows_the_lists_from_the_beginning() -> None:
    settings = Settings(namespace="kube-system")
    async with console(FakeSession(scene(), settings=settings), settings=settings) as (app, pilot, _):
        await press(pilot, "4", then=lambda: isinstance(app.screen, PodsScreen))
        assert isinstance(app.screen, PodsScreen)
        assert {key[0] for key in app.screen.table.shown_keys} == {"kube-system"}
        assert "all namespaces" not in text_of(app.screen.query_one(TitleBar))


@pytest.mark.parametrize(
    ("typed", "crumb"),
    [("a4-pool-0007", "gke-train-a4-pool-0007"), ("nccl-0412-workload-0-1", "nccl-0412-workload-0-1-x7k1")],
)
async def test_the_palette_opens_any_object_by_its_name(typed: str, crumb: str) -> None:
    async with console(FakeSession(scene())) as (app, pilot, _):
        await press(pilot, "colon", *typed, then=lambda: crumb in screen_text(app))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, LiveScreen) and app.screen.trail_name == crumb)


async def test_what_is_typed_while_the_palette_still_reads_files_is_found() -> None:
    session = FakeSession(scene())
    read = session.answers["hold runs"] = asyncio.Event()
    session.launch.runs.runs = [RunRecord("nccl-all-reduce", "earlier-llama", "default", number=7)]
    async with console(session) as (app, pilot, _):
        await press(pilot, "colon", *"llama", then=lambda: "llama-70b" in screen_text(app))
        read.set()
        await until_shown(pilot, "earlier-llama")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_page_opened_from_the_palette_takes_the_place_of_one_of_its_kind() -> None:
    async with console(FakeSession(scene()), size=(150, 35)) as (app, pilot, _):
        await pilot.press("3")
        for typed in ("llama-70b", "nccl-0412"):
            await pilot.press("colon", *typed)
            await until(pilot, lambda typed=typed: typed in screen_text(app))  # type: ignore[misc]
            await pilot.press("enter")
            await until(pilot, lambda typed=typed: app.screen.__dict__.get("trail_name") == typed)  # type: ignore[misc]
        assert "Jobs › nccl-0412 " in text_of(app.screen.query_one(TitleBar))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, JobsScreen))


async def test_the_pages_that_are_no_tab_are_behind_one_key() -> None:
    async with console(size=(150, 35)) as (app, pilot, _):
        assert "0 More" in text_of(app.screen.query_one(TitleBar))
        await press(pilot, "0", then=lambda: "Which page?" in screen_text(app))
        await press(pilot, *"alarms", "enter", then=lambda: type(app.screen).__name__ == "AlarmsScreen")
        await until(pilot, lambda: "More › alarms" in text_of(app.screen.query_one(TitleBar)))


async def test_a_page_that_is_no_tab_is_under_more_from_the_palette_too() -> None:
    async with console(size=(150, 35)) as (app, pilot, _):
        await press(pilot, "3", "colon", *"alarms", then=lambda: "Go to alarms" in screen_text(app))
        await press(pilot, "enter", then=lambda: type(app.screen).__name__ == "AlarmsScreen")
        await until(pilot, lambda: "0 More › alarms" in text_of(app.screen.query_one(TitleBar)))


async def test_a_page_that_is_being_opened_has_no_keys_yet() -> None:
    """A toast of an alarm may ask which key lists all alarms before the table of the page in front is there."""
    async with console() as (app, _, _session):
        page = cast("LiveScreen", app.MODES["runs"]())  # type: ignore[operator]
        assert page.active_bindings == {}


async def test_a_first_visit_parses_no_styles_but_those_of_the_page_itself() -> None:
    """Textual parses those of all pages anew; in another theme each is parsed once more, with its colours."""
    async with console(size=(150, 35)) as (app, pilot, _):
        list(app._styles.parse_imported())
        parsed = app._styles._parse_cache
        before = set(parsed)
        await press(pilot, "5", then=lambda: isinstance(app.screen, LaunchScreen) and len(parsed) > len(before))
        assert [css for css, *_ in parsed.keys() - before] == [(Path(pages.__path__[0]) / "launch.tcss").read_text()]
        await press(pilot, "4", then=lambda: isinstance(app.screen, PodsScreen))
        was = app.screen.styles.background
        await press(pilot, "t", then=lambda: app.screen.styles.background != was)


class Circle:
    def __init__(self) -> None:
        self.itself = self


async def test_reference_cycles_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console() as (app, pilot, _):
        gc.disable()
        app._pressed_at = time.monotonic() + 60.0  # what is frozen stays so
        try:
            circle = weakref.ref(Circle())
            assert circle() is not None
            app.collect_garbage()
            assert circle() is None
            gc.freeze()  # of what there is without this test, looking takes long
            circle = weakref.ref(held := Circle())
            app.collect_garbage()
            del held
            app.collect_garbage()
            assert circle() is None, "what was in use the last time"
            await press(pilot, "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
            monkeypatch.setattr("screens.key_ordered_app.thread_time", partial(next, count(0.0, FREEZE_SECONDS * 1.2)))
            circle = weakref.ref(held := Circle())
            app.collect_garbage()
            del held
            app.collect_garbage()
            assert circle() is None, "what was in use while a page was open that is closed later"
        finally:
            gc.enable()
            gc.unfreeze()


async def test_garbage_is_collected_seldom_while_no_key_is_pressed() -> None:
    def collections_until_freed(seconds_since_key: float) -> int:
        circle = weakref.ref(Circle())
        for number in count(1):
            app._pressed_at = time.monotonic() - seconds_since_key
            collect_between_keys(app, number)
            if circle() is None or number == 5:
                return number
        raise AssertionError

    async with console() as (app, _, _):
        gc.disable()
        try:
            assert collections_until_freed(60.0) == 3
            assert collections_until_freed(5.0) == 1
        finally:
            gc.enable()


async def test_a_page_is_drawn_below_a_dialog_but_not_below_another_page() -> None:
    async with console() as (app, pilot, session):

        async def show() -> None:
            before = app.fleet
            session.show()
            await until(
                pilot, lambda: app.fleet is not before and page.line is not None and page.line.fleet is app.fleet
            )

        await press(pilot, "3", then=lambda: isinstance(app.screen, JobsScreen))
        jobs = screen_of(app, JobsScreen)
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        page, rows = screen_of(app, JobScreen), jobs.table.listing.rows
        await show()
        await press(pilot, "x", then=lambda: not isinstance(app.screen, LiveScreen))
        await show()
        assert jobs.table.listing.rows is rows
        await press(pilot, "escape", then=lambda: isinstance(app.screen, JobScreen))
        await press(pilot, "escape", then=lambda: jobs.table.listing.rows is not rows)


async def test_what_was_frozen_in_use_is_looked_through_as_often_as_it_costs_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with console() as (app, pilot, _):

        def collections_until_freed() -> int:
            """Of a circle that is frozen in use, after which nobody uses it."""
            circle = weakref.ref(held := Circle())
            app.collect_garbage()
            del held
            app._looks = 0
            for number in range(1, 5):
                app._pressed_at = -60.0
                app.collect_garbage()
                if circle() is None:
                    return number
            return 5

        circle = weakref.ref(Circle())
        gc.freeze()
        app._pressed_at = -60.0
        app.collect_garbage()
        assert circle() is not None, "modules stay"
        monkeypatch.setattr("screens.key_ordered_app.FREEZE_SECONDS", -1.0)
        monkeypatch.setattr("screens.key_ordered_app.FULL_GC_EVERY", 2)
        monkeypatch.setattr("screens.key_ordered_app.FULL_GC_SHARE", 1.0)
        app.collect_garbage()
        assert collections_until_freed() == 1, "it costs little"
        monkeypatch.setattr("screens.key_ordered_app.FULL_GC_SHARE", 1e-9)
        app.collect_garbage()
        assert collections_until_freed() == 2, "it costs more"
        monkeypatch.setattr("screens.key_ordered_app.FULL_GC_SHARE", 1.0)
        app.collect_garbage()
        await press(pilot, "question_mark", then=lambda: isinstance(app.screen, HelpScreen))
        assert collections_until_freed() == 2, "a page is open, which would be frozen again"


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="only glibc gives it back")
async def test_memory_between_blocks_in_use_is_given_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async with console() as (app, _, _):
        blocks = [bytes(bytearray(b"x" * 60_000)) for _ in range(1000)]
        last, before = blocks[-1], resident()  # the heap ends behind it
        del blocks
        app.collect_garbage()
        assert resident() < before - 40_000_000
        del last


THREADS_AND_HEAPS = """
import ctypes, threading
from screens.key_ordered_app import use_one_heap
use_one_heap()
at_once = threading.Barrier(4)
threads = [threading.Thread(target=lambda: (bytes(1000), at_once.wait())) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="only glibc has many")
def test_all_threads_have_one_heap() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS_AND_HEAPS], capture_output=True, text=True, check=True)
    assert done.stdout.count("<heap nr=") == 1


class Taken(TerminalDriver):
    taken = 0

    def start_application_mode(self) -> None:
        self.taken += 1


@pytest.mark.parametrize("asked", [False, True], ids=["stopped by others", "suspended"])
async def test_a_process_that_goes_on_takes_the_terminal_back_that_it_gave(asked: bool) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTSTP, signal.SIGCONT)}
    try:
        assert ConsoleApp(Settings()).driver_class is TerminalDriver
        driver = Taken(cast("Any", None))
        driver._must_signal_resume = asked
        os.kill(os.getpid(), signal.SIGCONT)
        assert driver.taken == asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_a_new_connection_keeps_what_was_known_until_its_server_has_answered() -> None:
    known = fleet_of(Node("n1"))
    links = {kind: WatchStatus(kind, WatchState.LIVE, since=1.0, last_seen=90.0) for kind in ("nodes", "pods")}
    known = structs.replace(known, links=links)
    silent = Fleet(at=120.0, links={"nodes": WatchStatus("nodes", WatchState.STALE, why="connection refused")})
    kept = keep_last_known(known, silent)
    assert set(kept.nodes) == set(known.nodes)
    nodes = kept.links["nodes"]
    assert (nodes.state, nodes.since, nodes.why) == (WatchState.STALE, 90.0, "connection refused")
    answering = structs.replace(silent, links={"nodes": WatchStatus("nodes", WatchState.LIVE, last_seen=119.0)})
    assert keep_last_known(known, answering) is answering
    assert keep_last_known(Fleet(), silent) is silent


async def test_ctrl_c_says_how_to_quit_without_markup() -> None:
    async with console() as (app, pilot, _):
        await press(pilot, "ctrl+c", then=lambda: "q leaves the console" in toasts(app))
        assert "[" not in toasts(app)
        assert app.screen.active_bindings["ctrl+z"].binding.action == "suspend_process"


async def test_what_still_asks_a_session_that_is_closed_has_not_failed() -> None:
    async with console() as (app, pilot, _):

        async def ask() -> None:
            raise Unreachable("The session is closed.")

        await app._close_session()
        worker = app.run_worker(ask())
        await until(pilot, lambda: worker.is_finished)
        assert app._exception is None
        assert "failed" not in toasts(app)
