"""The README's picture: the list of jobs of the practice cluster, drawn by the console itself."""

from __future__ import annotations

import asyncio

from console.settings import Settings
from practice.child import PracticeProcess
from screens.app import ConsoleApp

SIZE = 120, 35
JOBS_KEY = "3"
READ = ("diverged", "silent", "TFLOP/s", "busbw")
"""Words of the states that the console finds in logs; the picture is taken once all of them are there."""
TIMEOUT = 60.0
POLL = 0.2


def draw() -> str:
    """The screen as SVG."""
    practice = PracticeProcess.start(speed=1.0, seed=0)
    try:
        return asyncio.run(_draw(practice))
    finally:
        practice.stop()


async def _draw(practice: PracticeProcess) -> str:
    app = ConsoleApp(Settings(practice=True), practice)
    async with app.run_test(size=SIZE) as pilot, asyncio.timeout(TIMEOUT):
        await pilot.press(JOBS_KEY)
        picture = ""
        while not all(word in picture for word in READ):
            await asyncio.sleep(POLL)
            picture = app.export_screenshot(simplify=True)
        await app.action_quit()
    return picture
