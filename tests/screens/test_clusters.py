"""Clusters of Google's: what is listed, what is said of what cannot be, and the way into one."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.errors import ApiDisabled, NotAllowed, NotLoggedIn, Unreachable
from console.google.clusters import Clusters, GkeCluster
from console.settings import Settings
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm, Prompt
from screens.pages.clusters import ClustersScreen
from tests.fakes import FakeSession
from tests.fakes_google import FakeCloud
from tests.screens.press import screen_text, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from textual.pilot import Pilot

    from console.session import Session


def cluster(name: str, **more: object) -> GkeCluster:
    fields: dict[str, object] = {
        "project": "lab", "location": "us-central1", "name": name, "status": "RUNNING", "message": "",
        "version": "1.35.1", "endpoint": "34.1.2.3", "private": False, "dns_endpoint": "", "authority": "",
        "regional": True, "autopilot": False, "nodes": 16, "network": "", "subnetwork": "", "created": time.time(),
        "workload_pool": "", "addons": frozenset(), "maintenance": "", "pools": (),
    }  # fmt: skip
    return GkeCluster(**{**fields, **more})  # type: ignore[arg-type]


LOCKED = NotAllowed("Could not list the clusters of locked: Permission denied.", "Ask for a role that allows it.")
DISABLED = ApiDisabled(
    "container.googleapis.com is not enabled in the project.", "Enable it.", service="container.googleapis.com"
)
FOUND = Clusters(
    (
        cluster("train"),
        cluster("inside", private=True),
        cluster("broken", status="ERROR", message="Retry budget exhausted.", endpoint=""),
    ),
    (("locked", LOCKED), ("new", DISABLED)),
)


@asynccontextmanager
async def clusters(
    found: object = FOUND, *, settings: Settings | None = None
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int], FakeSession]]:
    session = FakeSession(settings=settings)
    session.answers["clusters"] = found

    async def connect() -> Session:
        return session  # type: ignore[return-value]

    app = ConsoleApp(session.watch.settings, connect=connect)
    async with app.run_test(size=(150, 30)) as pilot:
        await until(pilot, lambda: app.connected)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(app.screen, ClustersScreen))
        yield app, pilot, session


async def test_each_cluster_with_its_state_and_entrance_each_project_that_was_not_read() -> None:
    async with clusters() as (app, pilot, _):
        await until(pilot, lambda: "3 clusters in 3 projects" in screen_text(app))
        text = screen_text(app)
        for words in ("● running", "✗ error", "private", "Retry budget exhausted", "2 projects not read", "✗ not read"):
            assert words in text


async def test_the_cluster_one_is_in_comes_first_and_places_are_whole_on_a_narrow_terminal() -> None:
    here = cluster("zebra", location="europe-west4")
    far = cluster("apple", location="us-central1-b", status="ERROR", message="Retry budget exhausted.")
    async with clusters(Clusters((far, here)), settings=Settings(context=here.context)) as (app, pilot, _):
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "you are here, Enter shows its node pools" in " ".join(screen_text(app).split()))
        text = screen_text(app)
        assert text.index("zebra") < text.index("apple")
        assert "europe-west4 " in text
        assert "us-central1-b" in text
        assert "y…" not in text, "what has no room is left out"
        await pilot.press("down")
        await until(pilot, lambda: "Retry budget exhausted" in screen_text(app))


async def test_the_cursor_stays_on_the_first_row_while_clusters_come(monkeypatch: pytest.MonkeyPatch) -> None:
    here, far = cluster("zebra"), cluster("apple")

    async def growing(cloud: FakeCloud, projects: object = ()) -> AsyncGenerator[Clusters, None]:
        yield Clusters((far,))
        yield Clusters((far, here))

    monkeypatch.setattr(FakeCloud, "follow_clusters", growing)
    async with clusters(settings=Settings(context=here.context)) as (app, pilot, _):
        await until(pilot, lambda: "2 clusters" in screen_text(app) and "asking on" not in screen_text(app))
        screen = app.screen
        assert isinstance(screen, ClustersScreen)
        assert screen.table.row is not None
        assert screen.table.row.cluster is here
        await pilot.press("down")
        screen._show()
        assert screen.table.row is not None
        assert screen.table.row.cluster is far


async def test_enter_goes_into_a_cluster() -> None:
    async with clusters() as (app, pilot, session):
        await until(pilot, lambda: "inside" in screen_text(app))
        await pilot.press("slash", *"train", "enter", "enter")
        await until(pilot, lambda: not isinstance(app.screen, ClustersScreen))
    assert session.called("enter") == [("lab/us-central1/train",)]


async def test_what_stands_in_the_way_leaves_everything_as_it_is() -> None:
    async with clusters() as (app, pilot, session):
        session.answers["enter"] = Unreachable("Cluster inside is private.", "Connect from inside.")
        await until(pilot, lambda: "inside" in screen_text(app))
        await pilot.press("slash", *"inside", "enter", "enter")
        await until(pilot, lambda: any("Connect from inside." in each.message for each in app._notifications))
        assert isinstance(app.screen, ClustersScreen)


async def test_a_kubeconfig_is_written_only_where_one_says() -> None:
    async with clusters() as (app, pilot, session):
        await until(pilot, lambda: "inside" in screen_text(app))
        await pilot.press("slash", *"train", "enter", "w")
        await until(pilot, lambda: isinstance(app.screen, Prompt))
        await pilot.press("enter")
        await until(pilot, lambda: session.called("write_kubeconfig"))
    assert session.called("write_kubeconfig") == [("lab/us-central1/train", Path("/home/me/.kube/config"))]


async def test_a_service_that_is_not_enabled_is_enabled_by_a_key_that_asks() -> None:
    async with clusters() as (app, pilot, session):
        await until(pilot, lambda: "not read" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "Enable the API" in screen_text(app))
        assert "E enables it." in screen_text(app)
        await pilot.press("E")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: session.called("enable_service") == [("new", "container.googleapis.com")])


async def test_in_read_only_mode_nothing_is_enabled() -> None:
    async with clusters(settings=Settings(read_only=True)) as (app, pilot, _):
        await until(pilot, lambda: "not read" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "new" in screen_text(app))
        assert "Enable the API" not in screen_text(app)
        assert "E enables it." not in screen_text(app)


async def test_without_credentials_it_says_what_to_do() -> None:
    error = NotLoggedIn("There are no Google credentials on this machine.", "Log in with `gcloud auth`.")
    async with clusters(error) as (app, pilot, session):
        await until(pilot, lambda: "There are no Google credentials" in screen_text(app))
        assert "Log in with" in screen_text(app)
        session.answers["clusters"] = FOUND
        await pilot.press("r")
        await until(pilot, lambda: "3 clusters" in screen_text(app))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_ten_thousand_clusters() -> None:
    many = Clusters(tuple(cluster(f"c-{n:05}") for n in range(10_000)))
    async with clusters(many) as (app, pilot, _):
        await until(pilot, lambda: "10,000 clusters in 1 project" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "c-09999" in screen_text(app))
