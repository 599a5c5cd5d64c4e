"""The logs of all ranks over a cut to the API server and the death of a pod: every line once, counted."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.connection_settings import Settings
from console.kube import http
from console.logs import container_log
from console.logs.job_log import JobLog
from console.logs.log_service import LogService
from console.session import Session
from tests.contract.cable import Cable, cable
from tests.contract.client import Object
from tests.contract.cluster import CORE, Cluster, eventually, soon
from tests.contract.space import Space

pytestmark = pytest.mark.slow(reason="runs jobs on a whole cluster")

RANKS = 4
MANY = 8
LINES = 50


async def print_lines(space: Space, pods: list[Object], about: str) -> Counter[str]:
    """Every pod prints some lines, equal ones too; what was printed."""
    printed: Counter[str] = Counter()
    for rank, pod in enumerate(pods):
        lines = [f"{about} rank {rank} line {number // 2}" for number in range(LINES)]
        await space.cluster.append_log(space.api, space.name, pod["metadata"]["name"], "main", lines)
        printed.update(lines)
    return printed


@dataclass
class Heard:
    """A job whose log is followed through a cable."""

    line: Cable
    log: JobLog
    seen: Counter[str]
    follow: LogService

    async def has(self, printed: Counter[str]) -> None:
        """Every line that was printed is there, as often as it was printed and no more."""

        async def all_there() -> bool:
            assert self.seen <= printed, self.seen - printed
            return self.seen == printed

        try:
            await eventually(all_there, "every line is there", limit=40)
        except AssertionError:
            missing = list((printed - self.seen).elements())
            raise AssertionError(f"{len(missing)} lines are missing: {missing[:3]}; {self.log.coverage}") from None

    async def live(self, ranks: int) -> None:
        await soon(lambda: self.log.coverage.live == ranks, "all ranks are followed")

    async def waits(self, ranks: int) -> None:
        await soon(lambda: self.log.coverage.live < ranks, "the console notices the cut")


@asynccontextmanager
async def hearing(cluster: Cluster, space: Space, folder: Path) -> AsyncIterator[Heard]:
    """The job "job" is followed."""
    async with cable(cluster.kubeconfig, folder) as (line, kubeconfig):
        session = await Session.open(Settings(kubeconfig=kubeconfig, namespace=space.name))
        session.logs = LogService(session.watch, folder=folder / "logs")
        seen: Counter[str] = Counter()
        try:
            await session.wait_until_listed("jobsets", "pods", "nodes")
            async with session.logs.open_job_log(space.name, "job") as log:
                reading = asyncio.create_task(count(log, seen))
                try:
                    yield Heard(line, log, seen, session.logs)
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
        finally:
            await session.close()


async def test_no_line_is_lost_or_doubled(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    await space.queue("team", 64)
    await space.jobset("job", "team", RANKS, restarts=1)
    pods = await space.pods("job", RANKS)
    async with hearing(cluster, space, tmp_path) as heard:
        printed = await print_lines(space, pods, "before")
        await heard.has(printed)
        await heard.line.pull()
        await heard.waits(RANKS)
        printed += await print_lines(space, pods, "meanwhile")
        await heard.line.plug()
        await heard.has(printed)
        old = {pod["metadata"]["uid"] for pod in pods}
        await space.api.send("DELETE", space.path(CORE, "pods", pods[1]["metadata"]["name"]))
        pods = await eventually(lambda: others(space, old), "all ranks are there again")
        first = printed.copy()
        printed += await print_lines(space, pods, "after")
        await heard.has(printed)
        assert heard.log.coverage.lost == 0
        assert heard.log.coverage.gaps == ()
        runs = await heard.follow.read_previous(space.name, "job")
        assert (Counter(line.text for line in runs.lines), runs.missing) == (first, ())
    kept = Counter(text.decode() for part in heard.log.parts for text in part.read_texts(0, len(part)))
    assert kept == heard.seen


async def test_what_is_gone_with_a_pod_while_nobody_could_read_it_is_reported(
    cluster: Cluster, space: Space, tmp_path: Path
) -> None:
    await space.queue("team", 16)
    await space.jobset("job", "team", 2, restarts=1)
    pods = await space.pods("job", 2)
    async with hearing(cluster, space, tmp_path) as heard:
        printed = await print_lines(space, pods, "before")
        await heard.has(printed)
        await heard.line.pull()
        await heard.waits(2)
        await print_lines(space, pods, "lost")
        old = {pod["metadata"]["uid"] for pod in pods}
        await space.api.send("DELETE", space.path(CORE, "pods", pods[1]["metadata"]["name"]))
        pods = await eventually(lambda: others(space, old, 2), "all ranks are there again")
        printed += await print_lines(space, pods, "after")
        await heard.line.plug()
        await heard.has(printed)
        await eventually(lambda: gaps(heard.log, 2), "what may be missing is told of")
        coverage = heard.log.coverage
        assert "2 of 2 live" in coverage.sentence
        assert "2 gaps with lines that may be lost" in coverage.sentence
        assert {gap.why for gap in coverage.gaps} == {"its pod was deleted before the end of its log was read"}


async def test_many_ranks_share_connections_where_the_server_has_http_2(
    cluster: Cluster, space: Space, tmp_path: Path
) -> None:
    """The practice cluster has only HTTP/1.1: there each log is a connection, and no line is lost either."""
    await space.queue("team", 8 * MANY)
    await space.jobset("job", "team", MANY, topology="")
    pods = await space.pods("job", MANY)
    async with hearing(cluster, space, tmp_path) as heard:
        printed = await print_lines(space, pods, "before")
        await heard.live(MANY)
        shared = heard.line.connections < MANY
        assert shared is (cluster.name == "lab")
        await heard.has(printed)


async def test_logs_come_back_from_a_network_that_was_cut_without_a_word(
    cluster: Cluster, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_log, "LOG_SILENCE_TIMEOUT", 4.0)
    monkeypatch.setattr(http, "CONNECT_TIMEOUT", 2.0)
    await space.queue("team", 64)
    await space.jobset("job", "team", RANKS)
    pods = await space.pods("job", RANKS)
    async with hearing(cluster, space, tmp_path) as heard:
        printed = await print_lines(space, pods, "before")
        await heard.has(printed)
        heard.line.hush()
        printed += await print_lines(space, pods, "after")
        await heard.has(printed)
        assert heard.log.coverage.gaps == ()


async def gaps(log: JobLog, number: int) -> bool:
    return len(log.coverage.gaps) == number and log.coverage.live == number


async def test_a_progress_bar_is_seen_while_it_is_drawn_and_is_one_line(
    cluster: Cluster, space: Space, tmp_path: Path
) -> None:
    await space.queue("team", 8)
    await space.jobset("job", "team", 1)
    (pod,) = await space.pods("job", 1)
    where = space.api, space.name, pod["metadata"]["name"], "main"
    session = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
    session.logs = LogService(session.watch, folder=tmp_path / "logs")
    try:
        async with session.logs.open_job_log(space.name, "job") as log:
            await cluster.append_log(*where, ["begins"])
            for step in range(1, 4):
                await cluster.draw_log(*where, f"\rTrain:  {step}%|#   | {step}/9 [00:01<00:08,  1.00s/it]\r")
                await eventually(lambda step=step: drawn(log, f"| {step}/9 ["), "the bar is seen")  # type: ignore[misc]
            await cluster.append_log(*where, ["", "ends"])
            await eventually(lambda: drawn(log, ""), "the bar is over")
            await eventually(lambda: lines_of(log, 3), "all lines")
            texts = [text.decode() for part in log.parts for text in part.read_texts(0, len(part))]
            assert texts == ["begins", "Train:  3%|#   | 3/9 [00:01<00:08,  1.00s/it]", "ends"]
    finally:
        await session.close()


async def drawn(log: JobLog, text: str) -> bool:
    bars = log.progress_bars()
    return text in bars.get(0, "") if text else not bars


async def lines_of(log: JobLog, number: int) -> bool:
    return sum(map(len, log.parts)) == number


async def count(log: JobLog, seen: Counter[str]) -> None:
    async with aclosing(log.iter_lines()) as batches:
        async for batch in batches:
            seen.update(line.text for line in batch if " rank " in line.text)


async def others(space: Space, old: set[str], ranks: int = RANKS) -> list[Object]:
    """The pods, once none of them is one of those."""
    pods = await space.pods("job", ranks)
    return pods if not {pod["metadata"]["uid"] for pod in pods} & old else []
