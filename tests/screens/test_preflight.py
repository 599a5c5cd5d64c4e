"""The preflight screen by its keys, over checks that the test sets."""

import asyncio
import time

import pytest

from console.connection_settings import Settings
from console.errors import BadKubeconfig, NotAllowed
from console.preflight.check import Check, LoggedRequest, Repair, RepairKind, Result
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm
from screens.pages.preflight import PreflightScreen
from screens.pages.storage import StorageScreen
from tests.fakes import FakeSession
from tests.screens.press import connecting, console, press, screen_text, toasts, until, until_shown
from tests.screens.scene import scene
from tests.screens.test_launch import session_of, to_form

REPAIR = Repair(RepairKind.SERVICE, ("practice", "lustre.googleapis.com"),
                "Enable lustre.googleapis.com in project practice",
                ("Services may cost money once they are used.",))  # fmt: skip


def found(id_: str, title: str, result: Result, **more: object) -> Check:
    given = {"evidence": "Seen this.", "reason": "Because of that.", "fix": "Do this.", "at": time.time(), **more}
    return Check(id_, title, "storage", result, **given)  # type: ignore[arg-type]


def session(settings: Settings | None = None) -> FakeSession:
    made = FakeSession(scene(), settings=settings)
    made.preflight.found = {
        "P21": found("P21", "Lustre CSI driver", Result.FAIL, repair=REPAIR, command="gcloud services enable x",
                     looks=(LoggedRequest("Google", "container: cluster a4", "answered", 0.31),)),
        "P09": found("P09", "GCS FUSE CSI driver", Result.NOT_ALLOWED),
        "P03": found("P03", "Regional Standard cluster", Result.COULD_NOT),
        "P11": found("P11", "Bucket", Result.NOT_APPLICABLE, reason="No bucket was named."),
    }  # fmt: skip
    return made


async def test_each_result_has_its_mark_and_words() -> None:
    async with console(session(), size=(140, 48)) as (app, pilot, _):
        await press(pilot, "P", then=lambda: "31 ok, 1 fails" in screen_text(app) or "1 fails" in screen_text(app))
        text = screen_text(app)
        assert "Lustre CSI driver" in text.splitlines()[1]
        for mark in (
            "✗  Lustre CSI driver",
            "⊘  GCS FUSE CSI driver",
            "?  Regional Standard",
            "○  Bucket",
            "●  Cluster reachable",
        ):
            assert mark in text, mark
        assert "not allowed to look" in text
        assert "could not look" in text
        assert "No bucket was named." in text


async def test_without_a_cluster_it_says_why_once_and_looks_as_soon_as_there_is_one() -> None:
    made = session()
    missing = BadKubeconfig("There is no kubeconfig.", "`a4 clusters` lists Google's clusters.")
    app = ConsoleApp(Settings(), connect=connecting(missing, made))
    async with app.run_test(size=(140, 48)) as pilot:
        await until(pilot, lambda: app.trouble is not None)
        await pilot.press("B")
        await until(pilot, lambda: isinstance(app.screen, StorageScreen) and "no kubeconfig" in screen_text(app))
        await until(pilot, lambda: "asking Google" not in screen_text(app))
        await pilot.press("P")
        await until(pilot, lambda: isinstance(app.screen, PreflightScreen) and "no kubeconfig" in screen_text(app))
        await until_shown(pilot, "`a4 clusters` lists Google's clusters.")
        assert toasts(app) == ""
        await press(pilot, "ctrl+r", then=lambda: "1 fails" in screen_text(app))
        assert len(made.called("preflight")) == 1


async def test_what_was_asked_and_looking_again() -> None:
    async with console(session(), size=(140, 48)) as (app, pilot, made):
        await press(pilot, "P", then=lambda: "1 fails" in screen_text(app))
        await pilot.press(*["down"] * 20)
        await until_shown(pilot, "Lustre CSI driver Seen this. Because of that. → Do this.")
        assert "container: cluster a4" not in screen_text(app)
        await press(pilot, "enter", then=lambda: "container: cluster a4: answered (0.31 s)" in screen_text(app))
        await press(pilot, "r", then=lambda: made.called("preflight")[-1] == (None, ("P21",)))
        await press(pilot, "R", then=lambda: made.called("preflight")[-1] == (None, ()))


@pytest.mark.slow(reason="many keys in a whole app")
async def test_a_fix_asks_first_and_looks_again() -> None:
    async with console(session(), size=(140, 48)) as (app, pilot, made):
        await press(pilot, "P", then=lambda: "1 fails" in screen_text(app))
        assert "f Fix" not in screen_text(app), "the first check has nothing to mend"
        await press(pilot, *["down"] * 20, then=lambda: "f Fix" in screen_text(app))
        await press(pilot, "f", then=lambda: isinstance(app.screen, Confirm))
        await until_shown(pilot, "Enable lustre.googleapis.com in project practice?", "cost money")
        await press(pilot, "n", then=lambda: isinstance(app.screen, PreflightScreen))
        assert not made.called("repair")
        await press(pilot, "f", "y", then=lambda: made.called("repair") == [(REPAIR,)])
        await until(pilot, lambda: made.called("preflight")[-1] == (None, ("P21",)))


async def test_a_fix_that_fails_says_why() -> None:
    made = session()
    made.answers["repair"] = NotAllowed("Could not enable it: you may not.", "Ask for a role.")
    async with console(made, size=(140, 48)) as (app, pilot, _):
        await press(pilot, "P", then=lambda: "1 fails" in screen_text(app))
        await press(pilot, *["down"] * 20, "f", "y", then=lambda: "you may not. Ask for a role." in toasts(app))


async def test_nothing_can_be_mended_in_read_only_mode() -> None:
    settings = Settings(read_only=True)
    async with console(session(settings), size=(140, 48), settings=settings) as (app, pilot, made):
        await press(pilot, "P", then=lambda: "1 fails" in screen_text(app))
        await press(pilot, *["down"] * 20, then=lambda: "→ Do this." in screen_text(app))
        assert "f Fix" not in screen_text(app)
        await press(pilot, "f", then=lambda: isinstance(app.screen, PreflightScreen))
        assert not made.called("repair")


async def test_rows_stand_there_while_they_are_looked_at() -> None:
    made = session()
    made.preflight.held = asyncio.Event()
    async with console(made, size=(140, 48)) as (app, pilot, _):
        await press(pilot, "P", then=lambda: "36 under way" in screen_text(app))
        await until_shown(pilot, "◐  Cluster reachable")
        made.preflight.held.set()
        await until_shown(pilot, "1 fails")


async def test_a_narrow_screen_keeps_what_matters() -> None:
    async with console(session(), size=(80, 24)) as (app, pilot, _):
        await press(pilot, "P", then=lambda: "1 fails" in screen_text(app))
        await press(pilot, *["down"] * 20, then=lambda: "✗  Lustre" in screen_text(app))
        await until_shown(pilot, "fail", "→ Do this.")


@pytest.mark.slow(reason="many keys in a whole app")
async def test_the_launch_form_looks_by_itself_and_opens_the_checks() -> None:
    made = session_of()
    made.preflight.found = {"P21": found("P21", "Lustre CSI driver", Result.FAIL)}
    async with console(made, size=(140, 40)) as (app, pilot, _):
        await to_form(app, pilot)
        await until_shown(pilot, "1 fails: Lustre CSI driver")
        plan, ids = made.called("preflight")[-1]
        assert (plan.recipe, plan.name, ids) == ("nccl-all-reduce", "llama-2", ())
        looked = len(made.called("preflight"))
        await press(pilot, "f9", then=lambda: isinstance(app.screen, PreflightScreen))
        await until(pilot, lambda: len(made.called("preflight")) > looked)
        assert made.called("preflight")[-1][0] == plan
