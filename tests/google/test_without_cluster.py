"""Images and Storage by keys with nothing but Google credentials: no kubeconfig, no cluster, no question to one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.connection_settings import Settings
from console.google.api.calls import GoogleSession
from practice.google.cloud import PracticeGoogle
from screens.app import ConsoleApp
from screens.dialogs.build import AskBuild
from screens.dialogs.question import Confirm, Pick, Prompt
from screens.pages.images import BuildScreen, ImagesScreen
from screens.pages.storage import BucketScreen, StorageScreen
from tests.practice_google import practice_google
from tests.screens.press import press, screen_text, toasts, until


@asynccontextmanager
async def alone(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, region: str = "us-central1", project: str = "practice"
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], PracticeGoogle]]:
    """The console with practice Google's credentials and no kubeconfig; the environment names the region."""
    for name, value in (("GOOGLE_CLOUD_REGION", region), ("CLOUDSDK_COMPUTE_REGION", ""), ("GOOGLE_CLOUD_PROJECT", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KUBECONFIG", str(folder / "none"))
    monkeypatch.setattr("console.google.images.BUILD_POLL_SECONDS", 0.1)
    monkeypatch.setattr("screens.pages.images.BUSY_POLL_SECONDS", 0.1)
    monkeypatch.setattr("screens.pages.images.BUILD_POLL_SECONDS", 0.1)
    async with practice_google() as (world, reach):
        reach.project = project

        async def real() -> GoogleSession:
            return reach

        monkeypatch.setattr(GoogleSession, "from_login", real)
        app = ConsoleApp(Settings())
        async with app.run_test(size=(150, 40)) as pilot:
            await until(pilot, lambda: app.without_cluster)
            yield app, pilot, world


def shows(app: ConsoleApp, words: str) -> bool:
    return words in " ".join(screen_text(app).split())


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_an_image_is_built_from_credentials_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with alone(monkeypatch, tmp_path) as (app, pilot, _):
        await press(pilot, "I", then=lambda: shows(app, "in us-central1 no cluster: a launch needs one (a4 clusters)"))
        await until(pilot, lambda: isinstance(app.screen, ImagesScreen) and app.screen.images.listing.rows)
        await press(pilot, "b", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, *"testbed", "enter", then=lambda: isinstance(app.screen, AskBuild))
        next(each for each in app.screen.query(Input) if each.name == "_IMAGE_TAG").value = "mine"
        await press(pilot, "enter", then=lambda: isinstance(app.screen, BuildScreen))
        await until(pilot, lambda: shows(app, "● success") and shows(app, "testbed:mine"))
        await until(pilot, lambda: shows(app, "DONE"))
        await press(pilot, "n", then=lambda: "needs a cluster" in toasts(app))
        assert isinstance(app.screen, BuildScreen)
        await press(pilot, "escape", then=lambda: shows(app, "mine"))
        await press(pilot, "tab", "enter", then=lambda: "A launch needs a cluster" in toasts(app))
        assert isinstance(app.screen, ImagesScreen)
        await pilot.press("q")


async def test_where_is_asked_when_the_login_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with alone(monkeypatch, tmp_path, region="", project="") as (app, pilot, _):
        await press(pilot, "I", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, "escape", then=lambda: shows(app, "no region was named"))
        await press(pilot, "w", then=lambda: isinstance(app.screen, Prompt))
        field = app.screen.query_one(Input)
        assert field.value == "/us-central1"
        field.value = "only-a-project"
        await press(pilot, "enter", then=lambda: "names no project and region" in toasts(app))
        await press(pilot, "w", then=lambda: isinstance(app.screen, Prompt))
        app.screen.query_one(Input).value = "practice/us-central1"
        await press(pilot, "enter", then=lambda: shows(app, "Builds of practice in us-central1"))
        await press(pilot, "escape", "B", then=lambda: shows(app, "to store in, project practice"))
        await pilot.press("q")


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_service_is_enabled_and_a_repository_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with alone(monkeypatch, tmp_path) as (app, pilot, world):
        world.projects["practice"].enabled.discard("cloudbuild.googleapis.com")
        await press(pilot, "I", then=lambda: shows(app, "e enables it"))
        await press(pilot, "e", then=lambda: isinstance(app.screen, Confirm))
        assert shows(app, "Enable cloudbuild.googleapis.com in project practice?")
        await press(pilot, "y", then=lambda: shows(app, "Builds of practice"))
        await press(pilot, "m", then=lambda: isinstance(app.screen, Prompt))
        app.screen.query_one(Input).value = "fresh"
        await press(pilot, "enter", then=lambda: "practice/fresh is there" in toasts(app))
        await pilot.press("q")


async def test_buckets_are_looked_into_from_credentials_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with alone(monkeypatch, tmp_path) as (app, pilot, _):
        await pilot.press("B")
        await until(pilot, lambda: isinstance(app.screen, StorageScreen) and len(app.screen.table.listing.rows) > 2)
        assert shows(app, "to store in, project practice no cluster: a launch needs one")
        assert not shows(app, "by the cluster")
        assert not shows(app, "between regions"), "without a cluster nothing is far from it"
        await press(pilot, "n", then=lambda: "needs a cluster" in toasts(app))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, BucketScreen) and app.screen.table.listing.rows)
        assert not app.screen.check_action("store", ())
        await pilot.press("q")
