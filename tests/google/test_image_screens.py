"""W23 by keys, on practice Google: build, follow its log, cancel one, launch with the new image; and storage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.connection_settings import Settings
from console.launch.field_choices import FieldChoices
from console.launch.recipes import LaunchPlan
from console.session import Session
from practice.cluster import PracticeCluster
from practice.google.bucket_store import BUCKET, BucketStore
from practice.google.build_log_entries import LogEntries
from practice.google.cloud import Fault, PracticeGoogle
from practice.google.registry import RegistryStore
from practice.objects.resources import PODS
from screens.app import ConsoleApp
from screens.dialogs.build import AskBuild
from screens.dialogs.launch import LaunchLook
from screens.dialogs.question import Confirm, Pick, Prompt
from screens.pages.images import BuildScreen, ImagesScreen
from screens.pages.job import JobScreen
from screens.pages.launch import LaunchScreen
from screens.pages.storage import BucketScreen, StorageScreen, shorten_path
from tests.fakes import present
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.press import next_screen, press, screen_of, screen_text, toasts, until, until_shown


@asynccontextmanager
async def practised(
    monkeypatch: pytest.MonkeyPatch,
    *,
    speed: float = 200.0,
    read_only: bool = False,
    scene: Literal["empty", "full"] = "empty",
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], PracticeCluster]]:
    monkeypatch.setattr("console.google.images.BUILD_POLL_SECONDS", 0.1)
    monkeypatch.setattr("screens.pages.images.BUSY_POLL_SECONDS", 0.1)
    monkeypatch.setattr("screens.pages.images.BUILD_POLL_SECONDS", 0.1)
    async with PracticeCluster(speed=speed, scene=scene) as cluster:
        settings = Settings(kubeconfig=cluster.kubeconfig, practice=True, read_only=read_only)

        async def connect() -> Session:
            session = await Session.open(settings)
            await session.google.account.open_session()
            return session

        app = ConsoleApp(settings, connect=connect)
        async with app.run_test(size=(150, 40)) as pilot:
            await until(pilot, lambda: app.connected and app.fleet.nodes)
            yield app, pilot, cluster
            await app.session.close()


def world_of(cluster: PracticeCluster) -> PracticeGoogle:
    assert cluster.google is not None
    return cluster.google.world


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def shows(app: ConsoleApp, words: str, *, there: bool = True) -> bool:
    return (words in screen_text(app)) is there


async def images(app: ConsoleApp, pilot: Pilot[Any]) -> ImagesScreen:
    await pilot.press("I")
    screen = await next_screen(pilot, ImagesScreen)
    await until(pilot, lambda: screen.builds.listing.rows and screen.images.listing.rows)
    return screen


async def begin(app: ConsoleApp, pilot: Pilot[Any], tag: str) -> BuildScreen:
    """Press for a build of the testbed under that tag."""
    await press(pilot, "b", then=lambda: isinstance(app.screen, Pick))
    await press(pilot, *"testbed", "enter", then=lambda: isinstance(app.screen, AskBuild))
    next(each for each in app.screen.query(Input) if each.name == "_IMAGE_TAG").value = tag
    await press(pilot, "enter", then=lambda: isinstance(app.screen, BuildScreen))
    assert isinstance(app.screen, BuildScreen)
    return app.screen


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_the_log_of_a_build_goes_on_after_a_reconnect_without_losing_or_repeating_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with practised(monkeypatch, speed=5) as (app, pilot, cluster):
        await images(app, pilot)
        page = await begin(app, pilot, "new")
        await until(pilot, lambda: page.view.lines.total > 3)
        first = app.session
        await press(pilot, "ctrl+r", then=lambda: app.connected and app.session is not first)
        cluster.clock.speed = 400
        await until(pilot, lambda: page.view.end_reason == "○ the build is over")
        entries = world_of(cluster).service_state(LogEntries).entries[page._build_id[0]]
        lines = page.view.lines
        await until(pilot, lambda: lines.total == len(entries))
        assert [row.text for row in lines.text.read_rows(0, lines.total)] == [each.text_payload for each in entries]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_build_follow_and_launch_with_the_new_image(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, cluster):
        await images(app, pilot)
        page = await begin(app, pilot, "new")
        await until(pilot, lambda: page.view.end_reason == "○ the build is over")
        await until_shown(pilot, "DONE", "● success")
        await pilot.press("n")
        screen = await next_screen(pilot, LaunchScreen)
        await until(pilot, lambda: "image" in (screen.plan() or [None])[0].values)  # type: ignore[union-attr]
        planned = present(screen.plan())
        image = "us-central1-docker.pkg.dev/practice/a4/testbed:new"
        assert planned[0].values["image"] == image
        await until(pilot, lambda: image in screen.form.page.offers.get("images", FieldChoices("images")).names)
        await press(pilot, "ctrl+s", then=lambda: isinstance(app.screen, LaunchLook))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, JobScreen))
        await until(pilot, lambda: any(pod.phase in {"Running", "Succeeded"} for pod in app.fleet.pods.values()))
        assert {
            container["image"]
            for pod in cluster.storage.list(PODS)
            for container in pod["spec"]["containers"]
            if container["name"] == "workload"
        } == {image}


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_an_image_that_is_not_there_is_named_on_the_page_and_pulled_once_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = "us-central1-docker.pkg.dev/practice/a4/testbed:later"
    async with practised(monkeypatch) as (app, pilot, cluster):
        plan = LaunchPlan(
            "interactive", "early", "default", app.session.launch.set_values("interactive", [f"image={image}"], {})
        )
        await app.session.launch.install(plan)
        app.open_page("job", "default", "early", "pods")
        await until_shown(pilot, f"cannot get its image: the image {image} does not exist", "ImagePullBackOff")
        world_of(cluster).service_state(RegistryStore).push_image(image, 1_000_000_000, 0.0)
        await until(pilot, lambda: all(pod.phase == "Running" for pod in app.fleet.pods.values()))


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_one_is_cancelled_only_after_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch, speed=1.0) as (app, pilot, _):
        await images(app, pilot)
        page = await begin(app, pilot, "gone")
        await until(pilot, lambda: page.build is not None and page.check_action("cancel", ()))
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "enter", then=lambda: app.screen is page)
        assert page.build is not None
        assert not page.build.over
        await press(pilot, "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: "○ cancelled" in screen_text(app))
        assert not page.check_action("cancel", ())


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_form_says_what_is_wrong_while_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, cluster):
        await images(app, pilot)
        await press(pilot, "b", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, "enter", then=lambda: isinstance(app.screen, AskBuild))
        form = app.screen
        fields = {each.name: each for each in form.query(Input)}
        for name, value, words in (
            ("_ARTIFACT_REGISTRY", "docker.io/me", "is not a repository of Artifact Registry"),
            ("_IMAGE_TAG", "a b", "cannot be a tag"),
            ("machine", "big", "has no machine big"),
            ("time-out", "soon", "The timeout is written"),
        ):
            before = fields[name].value
            fields[name].value = value
            await until(pilot, partial(shows, app, words))
            await press(pilot, "enter", then=lambda: app.screen is form)
            fields[name].value = before
            await until(pilot, partial(shows, app, words, there=False))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, ImagesScreen))
        assert not [name for name, _ in world_of(cluster).calls if "Create" in name]


async def test_read_only_has_no_key_that_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch, read_only=True) as (app, pilot, _):
        screen = await images(app, pilot)
        assert not screen.check_action("build", ())
        await press(pilot, "b", then=lambda: "read-only" in toasts(app))
        assert app.screen is screen


async def test_what_google_refuses_stands_where_the_rows_would(monkeypatch: pytest.MonkeyPatch) -> None:
    import grpc

    async with practised(monkeypatch) as (app, pilot, cluster):
        world = world_of(cluster)
        world.faults.append(Fault("ListBuilds", grpc.StatusCode.PERMISSION_DENIED, "You may not list builds"))
        world.projects["practice"].enabled.discard("lustre.googleapis.com")
        await press(pilot, "I", then=lambda: "You may not list builds" in screen_text(app))
        await press(pilot, "r", then=lambda: "unified-testbed-pytorch" in screen_text(app))
        await press(pilot, "escape", "B", then=lambda: "lustre.googleapis.com is not enabled" in screen_text(app))
        await until_shown(pilot, "practice-a4-runs")


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_lustre_fills_the_form_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, _):
        await pilot.press("5")
        launch = screen_of(app, LaunchScreen)
        await until(pilot, lambda: launch.draft is not None)
        await pilot.press("down", "down")
        await until(pilot, lambda: launch.draft is not None and launch.draft.recipe.id == "interactive")
        await pilot.press("B")
        screen = await next_screen(pilot, StorageScreen)
        await until(pilot, lambda: len(screen.table.listing.rows) == 8)
        screen.table.move_to(("Lustre", "lustre", "us-central1-a"))
        await until_shown(pilot, "n fills the form: claim=lustre-pvc")
        await press(pilot, "n", then=lambda: app.screen is launch)
        await until(pilot, lambda: "storage" in (launch.plan() or [None])[0].values)  # type: ignore[union-attr]
        planned = present(launch.plan())
        plan, problems = planned
        assert plan.recipe == "interactive"
        assert plan.values["storage"] == {
            "lustre": {
                "claim": "lustre-pvc", "server": "10.128.15.210", "filesystem": "lustre", "instance": "lustre",
                "project": "practice", "location": "us-central1-a", "size": "18000Gi",
            }
        }  # fmt: skip
        assert problems == ()


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_into_the_folders_of_a_bucket_and_back_and_a_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with practised(monkeypatch) as (app, pilot, _):
        await press(pilot, "B", then=lambda: isinstance(app.screen, StorageScreen) and app.screen.table.row is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, BucketScreen) and app.screen.table.row is not None)
        bucket = screen_of(app, BucketScreen)
        await press(pilot, "enter", then=lambda: len(bucket.table.listing.rows) == 12)
        await press(pilot, "escape", then=lambda: len(bucket.table.listing.rows) == 2)
        assert bucket.table.row is not None
        assert bucket.table.row.name == "datasets/"
        await press(pilot, "u", then=lambda: isinstance(app.screen, Prompt))
        app.screen.query_one(Input).value = str(tmp_path)
        await press(pilot, "enter", then=lambda: "12 files" in toasts(app))
        assert len(list((tmp_path / "datasets").iterdir())) == 12
        await press(pilot, "escape", then=lambda: isinstance(app.screen, StorageScreen))


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_names_of_objects_with_escapes_and_climbing_ones_stay_text_and_inside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    climbing = ("../../outside", "/etc/outside", "//etc/outside", "a/../../outside", "x" * 700)
    names = [*(f"{number} {each}" for number, each in enumerate(PAYLOADS.values())), *climbing]
    target = tmp_path / "in/here"
    target.mkdir(parents=True)
    async with practised(monkeypatch) as (app, pilot, cluster):
        await press(pilot, "B", then=lambda: isinstance(app.screen, StorageScreen) and app.screen.table.row is not None)
        for name in names:
            world_of(cluster).service_state(BucketStore).put(BUCKET, f"evil/{name}", b"x")
        await press(pilot, "enter", then=lambda: isinstance(app.screen, BucketScreen) and app.screen.is_mounted)
        bucket = screen_of(app, BucketScreen)
        await until(pilot, lambda: bucket.table.row is not None)
        bucket.table.move_to(("evil/",))
        bucket.action_fetch()
        await until(pilot, lambda: isinstance(app.screen, Prompt))
        app.screen.query_one(Input).value = str(target)
        await press(pilot, "enter", then=lambda: "evil/ is in" in toasts(app) and "was skipped" in toasts(app))
        assert not RAW.search(screen_text(app))
        await press(pilot, "enter", then=lambda: len(bucket.table.listing.rows) > len(PAYLOADS))
        for key in ("home", *(["down"] * len(bucket.table.listing.rows)), "c", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
            assert not RAW.search(screen_text(app)), key
    brought = files_below(tmp_path)
    assert len(brought) > len(PAYLOADS) / 2
    assert all(path.is_relative_to(target / "evil") for path in brought)


def test_of_a_long_path_the_end_is_shown() -> None:
    path = "gs://bucket/logs/output/checkpoint/pretrain-mcore-qwen3/iter_0000500/"
    assert shorten_path(path, 80) == path
    assert (shorten_path(path, 40)[:13], shorten_path(path, 40)[-13:], len(shorten_path(path, 40))) == (
        "gs://bucket/…",
        "iter_0000500/",
        40,
    )
    assert (shorten_path(path, 20)[0], len(shorten_path(path, 20))) == ("…", 20)


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_logs_of_a_job_are_stored_by_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch, speed=1.0, scene="full") as (app, pilot, cluster):
        await until(pilot, lambda: app.fleet.jobsets and app.fleet.pods)
        fleet = app.fleet
        job = next(
            name for (namespace, name), each in fleet.jobsets.items()
            if not each.finished and any(pod.jobset == name and pod.phase == "Running" for pod in fleet.pods.values())
        )  # fmt: skip
        app.open_page("bucket", f"gs://{BUCKET}")
        await until_shown(pilot, "datasets/")
        await press(pilot, "s", then=lambda: isinstance(app.screen, Pick))
        await press(pilot, *job, "enter", then=lambda: isinstance(app.screen, Prompt))
        await press(pilot, "enter", then=lambda: "pod-logs/coordinator.log" in toasts(app))
        assert (
            "testbed-logs/pod-logs/coordinator.log"
            in world_of(cluster).service_state(BucketStore).buckets[BUCKET].objects
        )
