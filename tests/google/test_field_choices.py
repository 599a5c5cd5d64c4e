"""What Google has, as choices of the launch form's own fields: asked by a key, filled by one, taken back by one."""

from typing import Any

import grpc
import pytest
from textual.pilot import Pilot

from console.errors import ApiDisabled, ConsoleError, NotFound, NotLoggedIn
from console.google.services import GoogleServices
from console.launch.field_choices import GOOGLE_KINDS, ChoicesState, FieldChoices
from practice.google.bucket_store import BUCKET
from practice.google.cloud import Fault
from screens.app import ConsoleApp
from screens.pages.launch import LaunchScreen
from tests.google.test_image_screens import practised, world_of
from tests.screens.press import press, screen_of, screen_text, toasts, until, until_shown


async def field(app: ConsoleApp, pilot: Pilot[Any], path: str) -> LaunchScreen:
    """The form of the first recipe, with the cursor on that field."""
    await press(pilot, "5", then=lambda: isinstance(app.screen, LaunchScreen) and app.screen.draft is not None)
    screen = screen_of(app, LaunchScreen)
    await until(pilot, lambda: screen.form.page.offers.get("buckets"))
    screen.form.go(path)
    await until(pilot, lambda: screen.form.cursor_path == path)
    return screen


def names(screen: LaunchScreen) -> tuple[str, ...]:
    return screen.form.page.choices._names


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_lustre_fills_its_seven_fields_from_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, cluster):
        screen = await field(app, pilot, "storage.lustre.server")
        await until_shown(pilot, "⏎ asks Google for a list")
        assert not [name for name, _ in world_of(cluster).calls if "Lustre" in name], "nobody chose yet"
        await press(pilot, "enter", then=lambda: names(screen)[:1] == ("lustre",))
        await press(pilot, "enter", then=lambda: "lustre fills 7 fields" in toasts(app))
        planned = screen.plan()
        assert planned is not None
        lustre = planned[0].values["storage"]["lustre"]  # type: ignore[index,call-overload]
        assert lustre == {
            "claim": "lustre-pvc", "server": "10.128.15.210", "filesystem": "lustre", "instance": "lustre",
            "project": "practice", "location": "us-central1-a", "size": "18000Gi",
        }  # fmt: skip
        assert planned[1] == ()
        await pilot.press("ctrl+z")
        await until(pilot, lambda: "storage" not in (screen.plan() or [None])[0].values)  # type: ignore[union-attr]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_a_bucket_a_share_a_pool_and_an_image_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, _):
        screen = await field(app, pilot, "storage.gcs")
        await press(pilot, "enter", then=lambda: BUCKET in names(screen))
        await until_shown(pilot, "same region")
        await press(pilot, "enter", then=lambda: screen.form.texts["storage.gcs"] == f"{BUCKET}=/gcs")
        screen.form.go("storage.nfs.server")
        await press(pilot, "enter", then=lambda: names(screen)[:1] == ("shared",))
        await press(pilot, "enter", then=lambda: screen.form.texts["storage.nfs.claim"] == "shared-pvc")
        screen.form.go("placement.nodeSelector")
        await pilot.press("enter")
        await until(pilot, lambda: any(name.startswith("cloud.google.com/reservation-name=") for name in names(screen)))
        chosen = names(screen)[0]
        assert chosen.startswith("cloud.google.com/gke-nodepool=")
        await press(pilot, "enter", then=lambda: screen.form.texts["placement.nodeSelector"] == chosen)
        screen.form.go("image")
        await pilot.press("enter")
        stocked = "us-central1-docker.pkg.dev/practice/a4/unified-testbed-pytorch:25.06-py3"
        await until(pilot, lambda: stocked in names(screen))
        assert screen.plan() is not None
        assert screen.plan()[1] == ()  # type: ignore[index]


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_what_google_refuses_stands_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async with practised(monkeypatch) as (app, pilot, cluster):
        world = world_of(cluster)
        world.projects["practice"].enabled.discard("lustre.googleapis.com")
        world.faults.append(Fault("ListInstances", grpc.StatusCode.PERMISSION_DENIED, "You may not", times=9))
        screen = await field(app, pilot, "storage.lustre.instance")
        await press(pilot, "enter", then=lambda: "You may not" in screen_text(app))
        await pilot.press("escape")
        world.faults.clear()
        await press(pilot, "enter", then=lambda: "lustre.googleapis.com is not enabled" in screen_text(app))
        assert screen.form.texts["storage.lustre.instance"] == ""


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (NotFound("The cluster is not a GKE cluster.", "Only GKE has them."), ChoicesState.ABSENT, "not a GKE cluster"),
        (NotLoggedIn("There are no credentials.", "Log in."), ChoicesState.FAILED, "There are no credentials. Log in."),
        (ApiDisabled("Off.", service="file.googleapis.com"), ChoicesState.FAILED, "file.googleapis.com is not enabled"),
    ],
)
@pytest.mark.parametrize("kind", sorted(GOOGLE_KINDS))
async def test_why_there_is_nothing_to_choose(kind: str, error: ConsoleError, state: ChoicesState, words: str) -> None:
    class Elsewhere:
        class account:  # noqa: N801
            @staticmethod
            async def cluster_place() -> None:
                raise error

    found = await GoogleServices.field_choices(Elsewhere(), kind)  # type: ignore[arg-type]
    assert (found.kind, found.names, found.state) == (kind, (), state)
    assert words in found.why


def test_two_lists_become_one() -> None:
    here = FieldChoices("images", ("a", "b"), {"a": "built"})
    more = FieldChoices("images", ("b", "c"), {"a": "in the registry", "c": "in the registry"}, fills={"c": {"x": "1"}})
    found = here.merge(more)
    assert found.names == ("a", "b", "c")
    assert (found.details["a"], found.details["c"]) == ("built", "in the registry")
    assert (found.state, found.why, found.fills) == (ChoicesState.LISTED, "", {"c": {"x": "1"}})
    nothing = FieldChoices("images").merge(FieldChoices("images", state=ChoicesState.FAILED, why="no"))
    assert (nothing.state, nothing.why) == (ChoicesState.FAILED, "no")
