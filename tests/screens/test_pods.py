import asyncio
import itertools
import re
import time
from types import SimpleNamespace

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.errors import NotFound
from console.kube.objects.event import Event
from console.kube.objects.pod import Container, Pod
from console.kube.snapshot import Fleet
from console.logs.log_line import LogLine
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm
from screens.live_screen import FilterInput
from screens.pages.log import LogScreen
from screens.pages.object_yaml import ObjectYamlScreen
from screens.pages.pods import PodScreen, PodsScreen, PodTally
from tests.fakes import FakeSession, fleet_of
from tests.screens.press import (
    STYLES,
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
from tests.screens.scene import NOW, scene


async def test_filter_as_you_type_then_back_to_all() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        await press(pilot, "slash", *"nccl", then=lambda: len(screen.table.shown_keys) == 2)
        await until_shown(pilot, "2 of 15")
        await pilot.press("enter", "down")
        assert screen.table.cursor is not None
        assert screen.table.cursor[1].startswith("nccl-0412-workload-0-1")
        await press(pilot, "escape", then=lambda: len(screen.table.shown_keys) == 15)
        await until(pilot, lambda: not screen.query(FilterInput))
        assert screen.table.cursor[1].startswith("nccl-0412-workload-0-1")


async def test_delete_asks_by_name_and_enter_alone_keeps() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "4", "x", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "dpo-[b]-workload-0-0-x7k0", "may restart all its pods")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PodsScreen))
        assert session.called("delete_pod") == []
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: session.called("delete_pod") == [("default", "dpo-[b]-workload-0-0-x7k0")])


async def test_marked_pods_go_together() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "4", "space", "space", "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: len(session.called("delete_pod")) == 2)


async def test_what_is_deleted_is_what_was_under_the_cursor_when_the_key_was_pressed() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "4", "x", then=lambda: isinstance(app.screen, Confirm))
        pods = dict(session.fleet.pods)
        session.show(pods={("a", "a-new-one"): Pod("a", "a-new-one", created=time.time()), **pods})
        await pilot.pause()
        await press(pilot, "y", then=lambda: session.called("delete_pod") == [("default", "dpo-[b]-workload-0-0-x7k0")])


async def test_a_pod_has_a_page_with_containers_and_events() -> None:
    async with console() as (app, pilot, _):
        await pilot.press("4")
        (await next_screen(pilot, PodsScreen)).table.move_to(("default", "dpo-[b]-workload-0-1-x7k1"))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, PodScreen))
        await until_shown(
            pilot,
            "BackOff",
            "CrashLoopBackOff",
            "before: exit code 137 OOMKilled",
            "Back-off restarting failed container",
        )
        await pilot.press("escape")
        assert (await next_screen(pilot, PodsScreen)).table.cursor == ("default", "dpo-[b]-workload-0-1-x7k1")


async def test_events_stand_newest_first_and_only_those_of_the_object_or_its_release() -> None:
    session = FakeSession(scene())
    mine = session.fleet.pods["default", "llama-70b-workload-0-3-x7k3"]
    other = session.fleet.pods["default", "nccl-0412-workload-0-0-x7k0"]
    now = time.time()

    def event(name: str, pod: Pod, ago: float) -> Event:
        return Event("default", name, kind="Pod", object_name=pod.name, object_uid=pod.uid, reason=f"Was{name}",
                     message=f"{name} of {pod.name}", last=now - ago)  # fmt: skip

    told = [event("B", mine, 200), event("D", mine, 400), event("Other", other, 1), event("A", mine, 100),
            event("C", mine, 300)]  # fmt: skip
    async with console(session) as (app, pilot, _):
        session.show(events={(each.namespace, each.name): each for each in told})
        app.open_page("pod", *mine.key)
        await until_shown(pilot, "WasA")
        await until(pilot, lambda: re.findall(r"Was(\w+)", screen_text(app)) == ["A", "B", "C", "D"])
        app.pop_screen()
        app.open_page("job", "default", "llama-70b", "events")
        await until_shown(pilot, "WasA")
        await until(pilot, lambda: re.findall(r"Was(\w+)", screen_text(app)) == ["A", "B", "C", "D"])
        session.show(events={(each.namespace, each.name): each for each in (*told, event("New", mine, 0))})
        await until_shown(pilot, "WasNew")
        await until(pilot, lambda: re.findall(r"Was(\w+)", screen_text(app)) == ["New", "A", "B", "C", "D"])
        await press(pilot, "slash", *"WasC", "enter", then=lambda: "WasA" not in screen_text(app))
        await until_shown(pilot, f"C of {mine.name}")


async def test_a_pod_that_goes_while_its_page_is_open() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "4", "enter", then=lambda: isinstance(app.screen, PodScreen))
        session.show(pods={})
        await until_shown(pilot, "gone")
        await press(pilot, "l", "s", "y", "x", then=lambda: isinstance(app.screen, PodScreen))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_its_log_is_followed() -> None:
    session = FakeSession(scene())
    session.printed["default", "dpo-[b]-workload-0-0-x7k0"] = [LogLine(1.0, f"iteration {n}") for n in range(200)]
    async with console(session) as (app, pilot, _):
        await press(pilot, "4", "l", then=lambda: isinstance(app.screen, LogScreen))
        await until_shown(pilot, "iteration 199", "has ended")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_log_that_is_not_there_says_why() -> None:
    session = FakeSession(scene())
    session.answers["follow_log"] = NotFound("The pod is gone.", "Its log went with it.")
    async with console(session) as (app, pilot, _):
        await press(pilot, "4", "l", then=lambda: "The pod is gone. Its log went with it." in screen_text(app))


async def test_its_yaml() -> None:
    async with console() as (app, pilot, session):
        await press(pilot, "4", "y", then=lambda: isinstance(app.screen, ObjectYamlScreen))
        await until_shown(pilot, "kind: Pod")
        assert session.called("manifest") == [("Pod", "default", "dpo-[b]-workload-0-0-x7k0")]


@pytest.mark.parametrize("empty", [True, False])
async def test_figures_over_the_list(empty: bool) -> None:
    async with console(FakeSession(scene())) as (app, pilot, session):
        await pilot.press("4")
        if empty:
            session.show(pods={})
            await until_shown(pilot, "No pods.")
        else:
            assert "15 pods" in screen_text(app)
            assert "1 CrashLoopBackOff" in screen_text(app)


async def test_the_filter_line_hides_no_row() -> None:
    async with console(size=(80, 10)) as (app, pilot, _):
        await pilot.press("4", "slash", "enter", "slash", *"e", "enter", "end")
        screen = screen_of(app, PodsScreen)
        await until(pilot, lambda: screen.table.cursor == screen.table.shown_keys[-1])
        await until_shown(pilot, f"▸ {'  '.join(screen.table.shown_keys[-1])}")


def test_the_tally_follows_changes() -> None:
    tally = PodTally()
    one, two = Pod("ns", "a", phase="Running", ready=True), Pod("ns", "b", phase="Pending")
    tally.count_changes([(None, one), (None, two)])
    assert "".join(run.text for run in tally.spans).split() == ["2", "pods", "◐", "1", "Pending", "●", "1", "Running"]
    tally.count_changes([(two, Pod("ns", "b", phase="Running", ready=True)), (one, None)])
    assert "".join(run.text for run in tally.spans).split() == ["1", "pod", "●", "1", "Running"]
    tally.count_changes([(Pod("ns", "b", phase="Running", ready=True), None)])
    assert tally.spans == ()


class Keys(ConsoleApp):
    """An app whose keys are answered, and likely, as a test says."""

    CSS_PATH = STYLES
    answers = likely = False

    @property
    def is_handling_key(self) -> bool:
        return self.answers

    @property
    def keys_likely(self) -> bool:
        return self.likely


class Ageless(ConsoleApp):
    CSS_PATH = STYLES

    def _draw_ages(self) -> None:
        """A second may go by."""


class Drawn(PodsScreen):
    """How often it was drawn, and how often at most before the event loop went on; `bare`: with nothing on it."""

    bare = False
    drawn = within = most = 0

    def show_fleet(self, fleet: Fleet) -> None:
        if not self.bare:
            super().show_fleet(fleet)
        self.drawn, self.within = self.drawn + 1, self.within + 1
        self.most = max(self.most, self.within)
        asyncio.get_running_loop().call_soon(setattr, self, "within", 0)


async def test_a_picture_that_changes_nothing_in_view_paints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(kind=Ageless) as (app, pilot, _):
        await press(pilot, "4", then=lambda: "nccl-0412" in screen_text(app) and not app.is_handling_key)
        await pilot.pause()
        painted: list[object] = []
        monkeypatch.setattr(app, "_display", lambda *what: painted.extend(what))
        app.fleet = replace(app.fleet, pods=dict(app.fleet.pods))
        await pilot.pause()
        assert painted == []


@pytest.mark.parametrize("slow", [False, True])
async def test_a_picture_that_comes_while_a_key_is_answered_is_drawn_after_it(
    monkeypatch: pytest.MonkeyPatch, *, slow: bool
) -> None:
    """The page a key returns to is drawn at once, unless that is slow: then all keys that are likely go first."""
    for name in ("MAX_KEY_DELAY", "MAX_KEY_DELAY_OF_SLOW"):
        monkeypatch.setattr(f"screens.live_screen.{name}", 60.0)
    async with console(kind=Keys) as (app, pilot, _):
        assert isinstance(app, Keys)
        app.likely, screen = not slow, Drawn()
        await app.push_screen(screen)
        await until_shown(pilot, "nccl-0412")
        screen.bare, screen.drawn = True, 0
        screen._drawing_is_slow, screen._rested_at = False, 0.0
        app.fleet = replace(app.fleet)
        assert screen.drawn == 1, "no key is answered"
        await pilot.press("question_mark")
        screen._drawing_is_slow = slow
        app.answers, app.likely = not slow, True
        await press(pilot, "escape", then=lambda: screen.drawn == (1 if slow else 2))
        app.fleet = replace(app.fleet)
        await pilot.pause(0.1)
        assert screen.drawn == (1 if slow else 2)
        app.answers, app.likely = False, not slow
        await until(pilot, lambda: screen.drawn == (2 if slow else 3))


@pytest.mark.slow(reason="many keys in a whole app")
@pytest.mark.parametrize("drawing", ["as it is", "takes no time"])
async def test_rows_that_come_in_parts_leave_the_console_to_others_between_two_pictures(
    monkeypatch: pytest.MonkeyPatch, drawing: str
) -> None:
    """However quickly each part is drawn."""
    if drawing == "takes no time":
        monkeypatch.setattr("screens.live_screen.thread_time", lambda: 0.0)
    monkeypatch.setattr("screens.pages.pods.ROWS_AT_ONCE", 1)
    monkeypatch.setattr("screens.pages.pods.ROWS_AT_ONCE_AMONG_KEYS", 1)
    async with console() as (app, pilot, session):
        await app.push_screen(screen := Drawn())
        await until(pilot, lambda: screen.drawn and not screen.table.listing.is_behind)
        screen.drawn = screen.most = 0
        pods = session.fleet.pods
        session.show(pods={(*key[:-1], f"{key[-1]}-{copy}"): pod for key, pod in pods.items() for copy in range(3)})
        await until(pilot, lambda: screen.drawn and len(screen.table.shown_keys) == 3 * len(pods))
    assert screen.most == 1


async def test_all_rows_come_where_the_machine_stands_still_as_the_next_picture_is_arranged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("screens.pages.pods.ROWS_AT_ONCE", 1)
    monkeypatch.setattr("screens.pages.pods.ROWS_AT_ONCE_AMONG_KEYS", 1)
    took, looks = itertools.count(), itertools.count()
    async with console() as (app, pilot, session):
        # Each drawing takes 5 ms, and between two looks of a timer at the clock pass 20 ms.
        monkeypatch.setattr("screens.live_screen.thread_time", lambda: 0.005 * next(took))
        monkeypatch.setattr("textual.timer._time", SimpleNamespace(get_time=lambda: 0.02 * next(looks)))
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        await until(pilot, lambda: not screen.table.listing.is_behind)
        assert len(screen.table.shown_keys) == len(session.fleet.pods)


async def test_a_picture_does_not_wait_for_ever_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("screens.live_screen.MAX_KEY_DELAY", 0.05)
    async with console(kind=Keys) as (app, pilot, session):
        assert isinstance(app, Keys)
        await press(pilot, "4", then=lambda: "nccl-0412" in screen_text(app))
        app.answers = True
        session.show(pods={})
        await until_shown(pilot, "No pods")


@pytest.mark.parametrize("key", ["s", "f", "u"])
async def test_in_a_pod_that_has_ended_nothing_is_tried_and_the_next_step_is_shown(key: str) -> None:
    session = FakeSession(scene())
    pods = dict(session.fleet.pods)
    first = min(pods)
    oom = Container("main", "terminated", "OOMKilled", exit_code=137)
    pods[first] = structs.replace(pods[first], phase="Running", containers=(oom,))
    session.show(pods=pods)
    async with console(session) as (app, pilot, _):
        await pilot.press("4")
        screen = screen_of(app, PodsScreen)
        await until(pilot, lambda: screen.table.cursor is not None)
        screen.table.move_to(first)
        await pilot.press(key)
        await until(pilot, lambda: f"Container main of {first[1]} has ended (OOMKilled, exit code 137)." in toasts(app))
        assert "a4 logs shows its log" in toasts(app)
        assert "Here the keys are l and u." in toasts(app)
        assert session.called("shell") == []
        assert app.screen is screen


async def test_every_node_of_the_list_has_its_short_name() -> None:
    names = {"gke-practice-a4-spot-5f1d02ab-0002": "a4-spot/0002",
             "gke-practice-a4-highgpu-8g-a4-pool-79c66879-0010": "a4-pool/0010"}  # fmt: skip
    pods = [Pod("default", f"pod-{at}", uid=f"pod-{at}", created=NOW, node=node) for at, node in enumerate(names)]
    async with console(FakeSession(fleet_of(*pods)), size=(100, 35)) as (app, pilot, _):
        await press(pilot, "4", then=lambda: isinstance(app.screen, PodsScreen) and app.screen.table.cursor is not None)
        assert isinstance(app.screen, PodsScreen)
        shown = text_of(app.screen.table).split()
        assert [each in shown for pair in names.items() for each in pair] == [False, True, False, True]
