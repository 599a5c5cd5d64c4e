"""A 16-rank NCCL test and a 32-rank training watched over a cut to the API server and the death of a pod: counted.

The cut lasts 20 s on the real control plane: watches are stale, and connections are tried again and again. On the
practice cluster it lasts until all have noticed. `A4_CUT_SECONDS` sets it for both.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from time import monotonic

import pytest

from console.connection_settings import Settings
from console.kube.snapshot import WatchState
from console.logs.log_folder import find_stored_job
from console.metrics.training_run import RunEventKind
from screens.app import ConsoleApp
from screens.pages.job import JobScreen
from screens.widgets.charts.nccl_panel import NcclPanel
from screens.widgets.charts.training_panel import TrainingPanel
from screens.widgets.log.log_view import LogView
from screens.widgets.title_and_keys import TitleBar
from tests.contract.cable import Cable, cable
from tests.contract.cluster import Cluster
from tests.contract.space import Space
from tests.contract.watched_job import LIMIT, Job, Watched, numbered, soon, watched
from tests.screens.press import text_of

CUT = {"practice": 0.5, "lab": 20.0}
"""Seconds for which the API server cannot be reached at least."""
KILLED = 7
ROWS = 3
"""Of the table before the cut, and during it at most."""
MORE = 10
"""Steps of the training after it was resumed."""
RECORDING = Path(__file__).parents[2] / "practice/data/nccl_all_reduce_h200x4.txt"
_STEP = (
    " [2026-11-21 07:00:00] iteration {0:8d}/     200 | consumed samples: {0:12d} |"
    " elapsed time per iteration (ms): 2410.3 | throughput per GPU (TFLOP/s/GPU): 770.2 |"
    " learning rate: 1.000000E-05 | global batch size:   256 | lm loss: {1:.6E} | loss scale: 1.0 | grad norm: 0.512 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def table() -> tuple[list[str], list[int]]:
    """A real test: what stands above its first row, then a text for each row; and the sizes of the rows."""
    lines = RECORDING.read_text().splitlines()
    first = next(at for at, text in enumerate(lines) if not text.startswith("#"))
    rows = [text for text in lines[first:] if text and not text.startswith("#")]
    texts = ["\n".join(lines[:first]), *rows]
    texts[-1] += "\n" + "\n".join(lines[first + len(rows) :])
    return texts, [int(row.split()[0]) for row in rows]


def steps(first: int) -> Iterator[str]:
    return (_STEP.format(number, 4 - number / 100) for number in count(first))


async def is_cut(line: Cable, app: ConsoleApp, tests: Watched, trained: Watched, seconds: float) -> int:
    """Cut it off; all ranks go on printing until the console says so and the time is over. How many rounds."""
    line.kill()  # what the server sends, and takes for received, is gone
    await asyncio.gather(tests.job.print(), trained.job.print())
    await line.pull()
    rounds, until = 1, monotonic() + seconds

    def is_reconnecting() -> bool:
        stale = app.fleet.links["pods"].state is WatchState.STALE
        return stale and all(
            f"{each.job.ranks} reconnecting" in each.log.coverage.sentence for each in (tests, trained)
        )

    while monotonic() < until or not is_reconnecting():
        assert monotonic() < until + LIMIT, (tests.log.coverage.sentence, trained.log.coverage.sentence)
        await asyncio.gather(tests.job.print(int(rounds < ROWS)), trained.job.print())
        rounds += 1
        await asyncio.sleep(min(1.0, seconds))
    return rounds


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.timeout(300)
async def test_nothing_is_lost_or_doubled_and_the_panels_go_on(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    seconds = float(os.environ.get("A4_CUT_SECONDS") or CUT[cluster.name])
    texts, sizes = table()
    await space.queue("team", 128)
    nccl = Job(space, "nccl", 16, 4, 0, iter(texts))
    train = Job(space, "train", 32, 2, 31, steps(1))
    await asyncio.gather(nccl.submit(), train.submit())
    await asyncio.gather(nccl.runs(), train.runs())
    async with AsyncExitStack() as stack:
        line, kubeconfig = await stack.enter_async_context(cable(cluster.kubeconfig, tmp_path))
        app = ConsoleApp(Settings(kubeconfig=kubeconfig, namespace=space.name))
        pilot = await stack.enter_async_context(app.run_test(size=(140, 42)))
        stack.push_async_callback(app.action_quit)
        await soon(lambda: len(app.fleet.jobsets) == 2, "both jobs are in the picture")
        tests = await stack.enter_async_context(watched(app.session, nccl))
        app.open_page("job", space.name, "train", "training")
        app.open_page("job", space.name, "nccl", "nccl")
        trained = await stack.enter_async_context(watched(app.session, train))
        jobs = [tests, trained]
        pages = [each for each in app.screen_stack if isinstance(each, JobScreen)]
        await soon(lambda: all(page.is_mounted and page.query(LogView) for page in pages), "the pages")
        rows, curve = pages[1].query_one(NcclPanel), pages[0].query_one(TrainingPanel)

        def panels() -> tuple[list[int], list[int | None]]:
            shown = [row.size for row in rows.test.rows] if rows.test else []
            return shown, [step.step for track in curve.tracks for step in track.steps]

        async def all_there() -> None:
            for each in jobs:
                await each.has_all()

        await asyncio.gather(nccl.print(1 + ROWS), train.print())
        await all_there()
        await soon(lambda: panels() == (sizes[:ROWS], [1]), "the first rows and steps")

        await pilot.press("l")
        rounds = await is_cut(line, app, tests, trained, seconds)
        await soon(lambda: "16 reconnecting" in pages[1].query_one(LogView).status, "the log says so")
        title = pages[1].query_one(TitleBar)
        await soon(lambda: re.search(r"reconnecting, \d+ \w+ old", text_of(title)), "the title says how old it all is")
        await line.plug()
        await all_there()
        whole = ["16 of 16 live, 0 lines lost", "32 of 32 live, 0 lines lost"]
        await soon(lambda: [each.log.coverage.sentence for each in jobs] == whole, "all are followed again")
        await soon(lambda: "● live" in text_of(title), "the picture is live again")
        assert whole[0] in pages[1].query_one(LogView).status
        await pilot.press("b")
        during = sizes[: ROWS + min(rounds, ROWS)], [*range(1, rounds + 2)]
        await soon(lambda: panels() == during, "what was printed during the cut")

        await asyncio.gather(nccl.print(len(sizes)), train.print(2))
        await train.kill(KILLED)
        train.tells = steps(rounds)
        await train.runs()
        await train.print(MORE)
        await all_there()
        await pilot.press("escape")
        await soon(lambda: panels() == (sizes, [*range(1, rounds + MORE)]), "all rows, and the steps of both attempts")
        assert [each.test.avg_busbw for each in tests.measures.tests] == [pytest.approx(275.232, abs=0.01)]
        assert [mark.words for mark in trained.marks() if mark.kind is RunEventKind.RESTART] == [
            f"from {rounds + 3} back to {rounds}"
        ]
        await soon(lambda: [each.log.coverage.sentence for each in jobs] == whole, "all are followed to the end")
        assert {each.log.folder.problem for each in jobs} == {""}
        folder, context = app.session.logs.folder, app.session.context
    for each in jobs:
        shelf = find_stored_job(folder, context, *each.log.key)
        assert shelf is not None
        kept = [text.decode() for part in shelf.load_segments() for text in part.read_texts(0, len(part))]
        assert numbered(kept) == each.job.printed
