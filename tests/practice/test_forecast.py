"""Jobs of the opening scene start when the console said they would, also on a practice cluster 40 times faster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from console.connection_settings import Settings
from console.kube.actions import delete_jobset
from console.kube.objects.meta import condition
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.job_arrivals import read_seen_workloads
from console.scheduling.kueue_snapshot import job_name
from console.session import Session
from practice.child import PracticeProcess
from practice.clock import parse_timestamp
from practice.controllers.objects import find_condition
from practice.objects.resources import JOBSETS
from tests.fakes import present
from tests.practice.world import World

SPEED = 40.0
HOURS = 8  # that are played at most
HOUR = 3600.0
LIMIT = 90.0
WAITING = {"dpo-b", "eval-32", "grpo-32", "sweep-7"}
OF_NO_KNOWN_END = (("default", "nccl-0412"), ("default", "dpo-a3b"), ("team-b", "rag-eval"))


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    practice = await asyncio.to_thread(PracticeProcess.start, speed=SPEED, seed=0)
    try:
        opened = await Session.open(Settings(kubeconfig=practice.kubeconfig(), practice=True))
        await opened.wait_until_listed()
        yield opened
        await opened.close()
    finally:
        await asyncio.to_thread(practice.stop)


class Truth:
    """The same scene played forward: when each job of it starts, in seconds of practice time after the opening."""

    def __init__(self) -> None:
        self._world = World(scene=True)
        self._opening = self._world.cluster.clock.now()
        self.llama_since = self._since("llama-70b")

    def _since(self, job: str) -> float | None:
        held = find_condition(self._world.workload(job), "QuotaReserved")
        return (
            parse_timestamp(held["lastTransitionTime"]) - self._opening if held and held["status"] == "True" else None
        )

    def play_until(self, seconds: float) -> None:
        self._world.cluster.clock.simulate_until(self._opening + seconds)

    def stop(self, namespace: str, job: str) -> None:
        self._world.storage.delete(JOBSETS, namespace, job)

    def starts(self, forecasts: Mapping[str, ExpectedStart]) -> dict[str, float]:
        """Of those of which it was told when, if they start within HOURS."""
        found: dict[str, float] = {}
        waiting = {job for job, start in forecasts.items() if start.at}
        until = self._world.cluster.clock.now() - self._opening
        for step in range(HOURS * 120):
            if found.keys() == waiting:
                break
            self.play_until(until + 30.0 * (step + 1))
            found |= {each: since for each in waiting - found.keys() if (since := self._since(each)) is not None}
        return found


async def forecast(session: Session, ready: Callable[[Mapping[str, ExpectedStart]], bool]) -> dict[str, ExpectedStart]:
    """What is told of those that wait, once it is ready: after the first steps at the new speed."""
    async with asyncio.timeout(LIMIT):
        while True:
            await session.forecasts.poll()
            fleet, starts = session.fleet, session.forecasts.starts
            told = {job_name(each): starts[each.key] for each in fleet.workloads.values() if each.key in starts}
            if ready(told):
                return told
            await asyncio.sleep(20 / SPEED)  # of the practice cluster, whose jobs all print a line meanwhile


def check(told: Mapping[str, ExpectedStart], starts: Mapping[str, float], opening: float) -> None:
    """Each starts within its window, or by the latest moment that was told; else it was said what is missing."""
    for job, start in told.items():
        if not start.at:
            assert start.unknown, job
            continue
        since = opening + starts[job] / SPEED
        if start.window is None:
            assert start.latest, job
            assert since <= start.at, job
        else:
            assert start.window[0] <= since <= start.window[1], (job, since, f"{start}")


@pytest.mark.slow(reason="waits until all that is queued in the scene has started")
async def test_what_waits_in_the_scene_starts_when_it_was_forecast(session: Session) -> None:
    truth = Truth()
    assert truth.llama_since is not None
    llama = next(each for each in session.fleet.workloads.values() if job_name(each) == "llama-70b")
    opening = present(condition(llama.conditions, "QuotaReserved")).since - truth.llama_since
    told = await forecast(session, lambda told: 0 < told["dpo-b"].at - session.fleet.at < HOUR)
    assert told.keys() == WAITING
    assert told["dpo-b"].at
    assert told["grpo-32"].latest
    assert told["sweep-7"].unknown == "how long nccl-0412 still runs is not known"
    check(told, Truth().starts(told), opening)
    folder = present(session.watch.current_connection.target.cluster.practice_folder)
    noted = {each.workload.owner_name: each for each in read_seen_workloads(folder / "workloads.json")}
    assert noted.keys() >= {"llama-70b", "dpo-b", "eval-32"}
    assert noted["llama-70b"].recipe

    truth.play_until((session.fleet.at - opening) * SPEED)
    connection = session.watch.current_connection
    for namespace, job in OF_NO_KNOWN_END:
        truth.stop(namespace, job)
        await delete_jobset(connection.client, connection.discovery, namespace, job)
    told = await forecast(session, lambda told: bool("grpo-32" not in told and told["eval-32"].window))
    assert told.keys() == {"eval-32", "sweep-7"}, "the others have started"
    assert told["sweep-7"].latest, "how long eval-32 will run is not known"
    check(told, truth.starts(told), opening)
