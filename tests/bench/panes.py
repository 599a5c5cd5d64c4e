"""`python -m tests.bench panes`: what a page with its pane costs to draw, and keys among 10,000 pods beside without it.

Of keys the first paint is bounded: ages in a pane go on every second, so what is painted next need not be the key's.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from screens.app import ConsoleApp
from screens.list_and_pane import PanedScreen
from tests.bench.consoles import A4, DOWN, PAGE_DOWN, PAGE_UP, REST, UP, keys, p95, share_of_core
from tests.bench.rows import Bound
from tests.bench.scale import served
from tests.bench.terminal import COLUMNS, LINES, Paint, Terminal
from tests.pictures.frozen import Still, still_console, stopped_clock
from tests.pictures.views import POOL

Say = Callable[[str], None]

PICTURES = 40
PAGES = (("jobs",), ("queues",), ("pods",), ("runs",), ("pool", POOL))
MOST = 25.0
"""Milliseconds of processor time that a picture may take."""
NODES, PODS = 1_000, 10_000
SIDES = {"no pane": b"zz", "pane": b""}
"""What is pressed on a wide terminal, on which the pane is open at first."""


def main(bound: Bound, say: Say) -> bool:
    """Print every figure beside its bound; whether all are kept."""
    say(f"\na new snapshot of the practice cluster, drawn at {COLUMNS}x{LINES}")
    with tempfile.TemporaryDirectory() as home, stopped_clock(Path(home)):
        kept = asyncio.run(_pictures(bound, say))
    say(f"\n{PODS:,} pods")
    painted = {name: _keys(press, name, say) for name, press in SIDES.items()}
    for number, key in enumerate(("Down", "PgDn")):
        for name, paints in painted.items():
            kept &= bound(f"{key}, {name}: painted p95 (ms)", 1000 * p95([each.first for each in paints[number]]), 50)
    return kept


async def _pictures(bound: Bound, say: Say) -> bool:
    kept = True
    async with still_console(size=(COLUMNS, LINES)) as still:
        for page, *about in PAGES:
            await still.home()
            if page in still.app.MODES:
                await still.app.switch_mode(page)
            else:
                still.app.open_page(page, *about)
            await still.settled()
            took = await _pictures_of_rows(still)
            kept &= bound(f"{page}: a picture (ms)", statistics.median(took), MOST)
            say(f"{'  p95':32} {p95(took):10.2f}")
    return kept


async def _pictures_of_rows(still: Still) -> list[float]:
    """Processor time of a picture with each of the first rows under the cursor, which decides what the pane draws."""
    app, screen = still.app, still.app.screen
    assert isinstance(screen, PanedScreen)
    assert screen.pane_shown
    took = []
    for number in range(PICTURES):
        await still.press("down" if number % 10 else "home")
        fleet = replace(app.fleet, at=app.fleet.at + 1e-3)  # another snapshot: nothing that was reckoned helps
        began = time.thread_time()
        app.set_reactive(ConsoleApp.fleet, fleet)
        screen.draw_fleet()
        screen.pane.refresh()
        for strip in screen._compositor.render_strips():
            assert strip is not None
        took.append(1000 * (time.thread_time() - began))
    return took


def _keys(before: bytes, name: str, say: Say) -> tuple[tuple[Paint, ...], tuple[Paint, ...]]:
    with served(NODES, PODS) as server, Terminal((str(A4), "--kubeconfig", str(server.kubeconfig)), {}) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 60)
        terminal.write(b"4")
        terminal.wait("the full table", lambda text: f"{PODS:,} pods" in text, 120)
        for key in before:
            terminal.press(bytes([key]))
        share_of_core(terminal, REST)
        terminal.settle(20)
        used = terminal.cpu()
        painted = keys(terminal, DOWN, UP), keys(terminal, PAGE_DOWN, PAGE_UP)
        each = 1000 * (terminal.cpu() - used) / sum(map(len, painted))
        say(f"{f'a key, {name} (ms of processor)':32} {each:10.2f}")
        return painted
