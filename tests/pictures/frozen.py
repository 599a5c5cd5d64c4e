"""The console over a practice cluster that stands still, so that a screen shows the same whenever it is drawn."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot

from console.connection_settings import Settings
from console.kube.snapshot import Store
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics import job_measures
from console.session import Session
from practice.cluster import PracticeCluster, Scene
from screens.app import ConsoleApp
from screens.theme import DARK, LIGHT

MOMENT = datetime(2026, 11, 16, 9, 30, tzinfo=UTC).timestamp()
STILL = 1e-9  # speed of the practice cluster at which nothing that is waited for ever comes
QUICK = 1000.0  # speed at which what is asked of a container is answered at once
LOOK = 0.1  # seconds between two looks at the screen
SAME = 4  # looks that have to be alike until a screen is taken to be complete
PATIENCE = 30.0
OURS = {"console", "screens", "practice", "tests"}
READ = ("stalled", "loss is NaN", "% longer", "peak 657 GB/s", "peak 700 GB/s")
"""What the list of jobs says once the logs of all jobs have been read."""
TOLD = "|".join(READ)
LAST_STEP = "4113/"
"""What the last line of the longest log says, which a pane shows."""
THEMES = {"dark": DARK.name, "light": LIGHT.name}


def stands_still(real: Callable[[], float] = time.time) -> float:
    """What takes the place of `time.time`. Libraries go on with the real one: gRPC reckons its deadlines by it."""
    asks = str(sys._getframe(1).f_globals.get("__name__", "")).partition(".")[0]
    return MOMENT if asks in OURS else real()


@contextmanager
def stopped_clock(folder: Path) -> Iterator[None]:
    """Stop the clock of this program, in UTC, and let the console keep its own things in that folder."""
    homes = {name: str(folder / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "A4_SSH_FOLDER")}
    with ExitStack() as stack:
        stack.callback(time.tzset)
        stack.enter_context(patch.dict(os.environ, {**homes, "TZ": "UTC", "USER": "you"}))
        time.tzset()
        stack.enter_context(patch.object(time, "time", stands_still))
        stack.enter_context(
            patch.object(SERVER_CLOCK, "now", stands_still)
        )  # else that of the practice cluster's answers
        stack.enter_context(patch.dict(Store.__init__.__kwdefaults__, clock=stands_still))
        # by a clock that stands still no second passes after the last of the lines from before
        stack.enter_context(patch.object(job_measures, "NEXT_LINES_SECONDS", 0.0))
        yield


@dataclass
class Still:
    """The console, its pilot, and the practice cluster that stands still."""

    app: ConsoleApp
    pilot: Pilot[int]
    cluster: PracticeCluster

    def text(self) -> str:
        """The screen, but for how busy GPUs are in a pane, which changes even here."""
        return re.sub(r"(█{8}  )\d\d %", r"\1.. %", screen_text(self.app))

    async def look(self) -> None:
        if self.app._exception is not None:
            raise self.app._exception
        await self.pilot.pause()
        await asyncio.sleep(LOOK)

    async def settled(self) -> None:
        """Wait until the screen has stayed as it is for a while."""
        end, same, last = time.monotonic() + PATIENCE, 0, ""
        while same < SAME:
            await self.look()
            self.app.clear_notifications()
            seen = self.text()
            same, last = (same + 1, last) if seen == last else (0, seen)
            if time.monotonic() > end:
                raise TimeoutError(f"The screen does not come to rest:\n{last}")

    async def until(self, what: str, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"Waited for {what}:\n{self.text()}")
            await self.look()

    async def read_through(self) -> None:
        """Wait until the console has found in the logs of all jobs what there is to be found."""
        await self.app.switch_mode("jobs")
        await self.until("what logs tell", lambda: {*READ} <= {*re.findall(TOLD, self.text())})
        measures = self.app.session.measures.find_followed(("default", "llama-70b"))
        if measures is not None:
            await self.until("its last step", lambda: any(LAST_STEP in line for line in measures.last_lines(1)))

    async def home(self) -> None:
        """Back to the first page, with nothing open over any page."""
        while len(self.app.screen_stack) > 1:
            await self.app.pop_screen()
        await self.app.switch_mode("fleet")
        while len(self.app.screen_stack) > 1:
            await self.app.pop_screen()
        self.app.clear_notifications()
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)


def without_ports(text: str) -> str:
    """The text with one port of this machine for any: the cluster takes another one each time."""
    return re.sub(r"127\.0\.0\.1:\d{5}", "127.0.0.1:16443", text)


def screen_text(app: ConsoleApp) -> str:
    strips: Any = app.screen._compositor
    return without_ports("\n".join(strip.text.rstrip() for strip in strips.render_strips()))


@asynccontextmanager
async def still_console(*, size: tuple[int, int], scene: Scene = "full", reader: bool = False) -> AsyncIterator[Still]:
    """The console on its first page over a cluster that stands still; `reader`: by an account that may only look."""
    async with PracticeCluster(speed=STILL, seed=0, scene=scene) as cluster:
        settings = Settings(practice=True)
        kubeconfig = cluster.folder / "reader.kubeconfig" if reader else cluster.kubeconfig

        async def connect() -> Session:
            return await Session.open(settings._replace(kubeconfig=kubeconfig))

        app = ConsoleApp(settings, connect=connect)
        async with app.run_test(size=size) as pilot:
            app.animation_level = "none"
            still = Still(app, pilot, cluster)
            await still.until("the first picture", lambda: app.fleet.nodes)
            if scene == "full":
                await still.read_through()
            yield still
            await app.action_quit()
