import asyncio
from pathlib import Path

from screens.tour import TourGuide
from tests.fakes import FakeSession
from tests.screens.press import console
from tests.screens.queue_scene import queue_scene


async def test_the_tour_waits_until_the_jobs_page_is_drawn(tmp_path: Path) -> None:
    async with console(FakeSession(queue_scene())) as (app, pilot, _):
        watched = asyncio.Event()

        class Watched(TourGuide):
            def step(self, keys: str, label: str) -> None:
                watched.set()

        guide = Watched(app, pilot, tmp_path)
        app.open_page("job", "default", "llama")  # as on a busy machine: it is there, and not drawn yet
        watching = asyncio.create_task(guide.watch_test())
        seen = asyncio.create_task(watched.wait())
        done, _ = await asyncio.wait({watching, seen}, return_when=asyncio.FIRST_COMPLETED)
        assert seen in done, watching.exception()
        watching.cancel()
        await asyncio.wait({watching})
