"""The log of one container: chosen on the pod's page, and the run before its last restart by a key."""

from __future__ import annotations

from console.models.log import LogLine
from screens.log import LogScreen
from screens.pod import PodScreen
from tests.fakes import FakeSession
from tests.screens.press import console, focus, screen_text, until
from tests.screens.scene import scene

KEY = ("default", "dpo-[b]-workload-0-1-x7k1")


async def test_a_container_of_a_pod_is_chosen_and_its_run_before() -> None:
    session = FakeSession(scene())
    session.logs[KEY] = [LogLine(1.0, "iteration 7")]
    async with console(session) as (app, pilot, _):
        app.open_page("pod", *KEY)
        await until(pilot, lambda: isinstance(app.screen, PodScreen))
        page = app.screen
        assert isinstance(page, PodScreen)
        await until(pilot, lambda: page.containers.row is not None)
        names = [each.name for each in app.fleet.pods[KEY].containers]
        await focus(pilot, page.containers)
        page.containers.move_to((names[-1],))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LogScreen) and "iteration 7" in screen_text(app))
        assert f"log of {KEY[1]}/{names[-1]}" in screen_text(app)
        await pilot.press("p")
        await until(pilot, lambda: "previous run" in screen_text(app))
        asked = session.called("follow_log")
        assert [(container, previous) for _, _, container, _, _, previous, _ in asked] == [
            (names[-1], False), (names[-1], True),
        ]  # fmt: skip
        await pilot.press("p")
        await until(pilot, lambda: len(session.called("follow_log")) == 3)
        assert session.called("follow_log")[-1][5] is False


async def test_a_pod_is_listed_with_its_node_and_its_address() -> None:
    async with console(size=(220, 35)) as (app, pilot, session):
        await pilot.press("4")
        await until(pilot, lambda: KEY[1] in screen_text(app))
        line = next(each for each in screen_text(app).splitlines() if KEY[1] in each)
        pod = session.fleet.pods[KEY]
        assert pod.node
        assert pod.node in line
        assert "IP" in screen_text(app)
        assert (pod.ip or "") in line
