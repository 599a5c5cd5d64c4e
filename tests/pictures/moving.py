"""The moving picture of the first job: the steps of docs/first-job.md, one after another in one animated SVG."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from screens.dialogs.launch import LaunchLook
from screens.pages.job import JobScreen
from screens.widgets.charts.nccl_panel import CurveWidget, NcclPanel
from tests.pictures.frozen import STILL, Still, still_console, without_ports

FIRST_JOB = "first-job"
SIZE = 100, 30
SECONDS = 3.0  # for which each step is seen
PACE = 20.0  # speed of the practice cluster from the launch on
ROWS = 5, 10  # of the test's table at which it is drawn while the test runs


async def draw_first_job(folder: Path) -> None:
    async with still_console(size=SIZE) as still:
        steps: list[str] = []

        async def step(label: str) -> None:
            if still.cluster.clock.speed != PACE:
                await still.settled()
            steps.append(still.app.export_screenshot(title=label, simplify=True))

        await still.home()
        await step("1  Is there room? Free GPUs by place")
        await still.press("2")
        await step("2  What have the queues left?")
        await still.press("5")
        await still.until("the recipes", lambda: "GPUs" in still.text())
        await step("5  Choose a recipe")
        await still.press("enter")
        await step("Enter  Fill in the form")
        await still.press("ctrl+s")
        await still.until("what will be created", lambda: isinstance(still.app.screen, LaunchLook))
        await step("ctrl+s  What will be created?")
        await watch_run(still, step)
    (folder / f"{FIRST_JOB}.svg").write_text(without_ports(animated(steps)))


async def watch_run(still: Still, step: Callable[[str], Awaitable[None]]) -> None:
    still.cluster.clock.speed = PACE
    await still.press("enter")
    await still.until(
        "the job's page", lambda: isinstance(still.app.screen, JobScreen) and still.app.screen.query(CurveWidget)
    )
    panel = still.app.screen.query_one(NcclPanel)
    for rows in ROWS:
        await still.until(f"{rows} rows", lambda rows=rows: panel.test and len(panel.test.rows) >= rows)  # type: ignore[misc]
        still.cluster.clock.speed = 1.0  # else the test may be over before it is drawn; what STILL begins never ends
        await step("ctrl+s  Launched: bandwidth as it is measured")
        still.cluster.clock.speed = PACE
    await still.until("the test's end", lambda: panel.test and panel.test.finished)
    still.cluster.clock.speed = STILL
    await step("Passed")
    await still.press("6")
    await step("6  What was launched, and how it ended")


def animated(steps: list[str]) -> str:
    """The pictures over each other; each is seen when its turn has come, and the first where nothing moves."""
    whole, share = SECONDS * len(steps), 100 / len(steps)
    head = re.match(r"<svg[^>]*>", steps[0])
    assert head is not None
    style = (
        f"@keyframes turn {{ 0% {{ visibility: visible }} {share:.3f}%, 100% {{ visibility: hidden }} }}"
        f" .step {{ visibility: hidden; animation: turn {whole:g}s step-end infinite }}"
        " .step:first-of-type { visibility: visible }"
    )
    parts = [
        f'<g class="step" style="animation-delay: {SECONDS * number:g}s">\n{picture}\n</g>'
        for number, picture in enumerate(steps)
    ]
    return "\n".join([head[0], f"<style>{style}</style>", *parts, "</svg>", ""])
