import time
from typing import Any

import pytest
from textual.widgets import Input

from console.attach.tunnel.tunnel_files import Listener, Tunnel, TunnelProfile
from console.errors import BadInput
from console.kube.pod_address import PodAddress
from screens.dialogs.editor_and_tunnel import AskPorts
from screens.dialogs.question import Confirm, Prompt
from screens.pages.job import JobScreen
from screens.pages.pods import PodScreen
from screens.pages.tunnels import TunnelsScreen
from tests.fakes import FakeSession
from tests.screens.press import console, press, screen_of, screen_text, toasts, until, until_shown
from tests.screens.scene import scene


def tunnels(context: str) -> list[Tunnel]:
    now = time.time()
    about: dict[str, Any] = {"namespace": "default", "context": context, "server": "https://here"}
    return [
        Tunnel(name="llama-70b-0", job="llama-70b", rank="0", state="ready", pod="llama-70b-workload-0-0-x7k0",
               listeners=(Listener(8888, 8888, 2, 41, 120_000, 88_000_000), Listener(16006, 6006, 0, 3, 2_000, 90_000)),
               since=now - 7000, reconnections=1, last_end_at=now - 900, kept=True,
               last_end="The connection to port 8888 of pod llama-70b-workload-0-0-abcde broke off: it was deleted.",
               **about),
        Tunnel(name="dpo-1", job="dpo-[b]", rank="workers/1", state="waiting", since=now - 60,
               words="Waiting for dpo-[b] pod workers/1: its pod is pending (Unschedulable).",
               listeners=(Listener(2222, 2222),), **about),
        Tunnel(name="old", job="gone", rank="0", state="ended", since=now - 9000, last_end_at=now - 100,
               words="gone has ended (completed): no pod of it can be reached.", **about),
    ]  # fmt: skip


def session() -> FakeSession:
    made = FakeSession(scene())
    made.tunnels.tunnels = tunnels(made.context)
    return made


async def test_without_a_tunnel_it_says_so_and_offers_a_new_one_only() -> None:
    made = FakeSession(scene())
    made.tunnels.tunnels = []
    async with console(made, size=(160, 30)) as (app, pilot, _):
        await press(pilot, "7", then=lambda: "No tunnel is open." in screen_text(app))
        await until_shown(pilot, "n New")
        assert "x Stop" not in screen_text(app)
        await press(pilot, "x", "b", "c", "a", then=lambda: isinstance(app.screen, TunnelsScreen))


async def test_what_is_open_and_how_it_does() -> None:
    async with console(session(), size=(160, 30)) as (app, pilot, _):
        await press(pilot, "7", then=lambda: "16006→6006" in screen_text(app))
        text = await until_shown(pilot, "dpo-[b] pod workers/1", "● ready", "◐ waiting", "○ ended")
        assert "83.9 MiB" in text or "84.0 MiB" in text
        await pilot.press("home")
        screen = screen_of(app, TunnelsScreen)
        await until(pilot, lambda: "broke off: it was deleted" in explanation(screen))
        assert "127.0.0.1:8888 forwards to port 8888: 41 connections" in explanation(screen)
        assert "It moved to another pod 1 time" in explanation(screen)


def explanation(screen: TunnelsScreen) -> str:
    return "".join(run.text for run in screen.explanation.runs)


async def test_stopping_names_what_breaks_and_enter_alone_keeps() -> None:
    async with console(session()) as (app, pilot, fake):
        await press(pilot, "7", then=lambda: "16006→6006" in screen_text(app))
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "2 connections open")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, TunnelsScreen))
        assert fake.called("stop_tunnel") == []
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: fake.called("stop_tunnel") == [("llama-70b-0",)])
        await until(pilot, lambda: "16006→6006" not in screen_text(app))


async def test_one_is_handed_to_a_process_of_its_own() -> None:
    async with console(session()) as (app, pilot, fake):
        await press(pilot, "7", then=lambda: "16006→6006" in screen_text(app))
        await pilot.press("down", "b")
        address = PodAddress.parse("default", "dpo-[b]", "workers/1")
        await until(pilot, lambda: fake.called("open_tunnel") == [(address, ("2222:2222",), True)])
        assert fake.called("stop_tunnel") == [("dpo-1",)]


async def test_one_into_another_cluster_stays_where_it_is() -> None:
    made = session()
    made.tunnels.tunnels = tunnels("elsewhere")
    async with console(made) as (app, pilot, fake):
        await press(pilot, "7", then=lambda: "16006→6006" in screen_text(app))
        await press(pilot, "down", "b", then=lambda: "It connects to another cluster: elsewhere." in toasts(app))
        assert fake.called("stop_tunnel") == []


async def test_f_on_a_pod_asks_for_ports_and_opens_them_to_its_rank() -> None:
    async with console() as (app, pilot, fake):
        await press(pilot, "4", "slash", *"llama", "enter", "enter", then=lambda: isinstance(app.screen, PodScreen))
        await press(pilot, "f", then=lambda: isinstance(app.screen, AskPorts))
        await until_shown(pilot, "6006 TensorBoard")
        app.screen.query_one(Input).value = "no"
        await press(pilot, "enter", then=lambda: "no names no ports." in screen_text(app))
        app.screen.query_one(Input).value = "8888, 9000:6006"
        await press(pilot, "ctrl+g", "enter", then=lambda: fake.called("open_tunnel"))
        assert fake.called("open_tunnel") == [(PodAddress("default", "llama-70b", 0), ("8888", "9000:6006"), True)]


@pytest.mark.slow(reason="many keys in a whole app")
async def test_f_on_a_job_opens_to_the_chosen_rank_and_says_why_it_cannot() -> None:
    async with console() as (app, pilot, fake):
        fake.answers["open_tunnel"] = BadInput("Port 8888 of this machine is taken by another program.")
        await press(pilot, "3", "slash", *"llama", "enter", "enter", then=lambda: isinstance(app.screen, JobScreen))
        await press(pilot, "f", then=lambda: isinstance(app.screen, AskPorts))
        await press(pilot, "enter", then=lambda: any("is taken" in each.message for each in app._notifications))
        assert fake.called("open_tunnel") == [(PodAddress("default", "llama-70b", 0), ("8888",), False)]


async def test_a_profile_is_saved_and_opened_again() -> None:
    async with console(session()) as (app, pilot, fake):
        await press(pilot, "7", then=lambda: "16006→6006" in screen_text(app))
        await press(pilot, "a", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, "enter", then=lambda: fake.tunnels.saved)
        saved = TunnelProfile("llama-70b-0", "default", "llama-70b", "0", ("8888:8888", "16006:6006"), fake.context)
        assert fake.tunnels.saved == [saved]
        await press(pilot, "n", then=lambda: "another" in screen_text(app))
        await pilot.press("enter")
        address = PodAddress.parse("default", "llama-70b", "0")
        await until(pilot, lambda: fake.called("open_tunnel") == [(address, saved.ports, False)])


@pytest.mark.parametrize("key", ["n", "y"])
async def test_quitting_asks_where_a_tunnel_ends_with_it(key: str) -> None:
    async with console(session()) as (app, pilot, _):
        await press(pilot, "q", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "2222")
        assert "16006" not in screen_text(app), "it goes on without the console"
        await press(pilot, key, then=lambda: not isinstance(app.screen, Confirm) or app._exit)
        assert app._exit is (key == "y")
