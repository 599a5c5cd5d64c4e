"""The work that would be lost if jobs ended: for stops, fault reports about nodes, and what-if."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs

from console.errors import ConsoleError
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.lost_work import find_followed_lost_work, find_lost_work, unread_words

if TYPE_CHECKING:
    from console.kube.watched_cluster import WatchedCluster
    from console.launch.jobs_interface import KnownJobs
    from console.launch.session_runs import SessionRuns
    from console.metrics.lost_work import LostWork
    from console.scheduling.what_if import Consequence, WhatIf

LOST_WORK_LOG_TIMEOUT = 10.0  # seconds in which a log has to be read that tells what would be lost


class UnsavedWork:
    def __init__(self, cluster: WatchedCluster, session_runs: SessionRuns, jobs: KnownJobs) -> None:
        self._cluster, self._session_runs, self._jobs = cluster, session_runs, jobs

    async def find_lost_work(self, namespace: str, name: str) -> LostWork | None:
        """The work that a job would lose if it ended now, by its log and its checkpoint folder; None if none."""
        fleet, now = self._cluster.fleet, SERVER_CLOCK.now()
        jobset = fleet.jobsets.get((namespace, name))
        folder = self._jobs.seen_folder((namespace, name))
        if jobset is None or find_lost_work(jobset, fleet, (), now, folder=folder) is None:
            return None
        try:
            async with asyncio.timeout(LOST_WORK_LOG_TIMEOUT):
                measures = await self._jobs.read_log(namespace, name)
            if any(measures.tracks) or measures.tests or not measures.unread:
                return find_followed_lost_work(jobset, fleet, measures, folder, now)
            unread = unread_words(measures.unread[0])
        except TimeoutError:
            unread = f"its log could not be read in {LOST_WORK_LOG_TIMEOUT:g} s"
        except ConsoleError as error:
            unread = unread_words(error)
        spans = await self._session_runs.read_spans(namespace, name)  # what consoles saw of it before
        return find_lost_work(jobset, fleet, spans, now, folder=folder, why_unread="" if spans else unread)

    async def find_unsaved(self, namespace: str, name: str) -> str:
        """The work that a job would lose if it ended now, as a sentence without its full stop; empty if none."""
        loss = await self.find_lost_work(namespace, name)
        return loss.sentence(SERVER_CLOCK.now()) if loss is not None else ""

    async def list_unsaved(self, node: str) -> list[str]:
        """For each job on a node the work that it would lose if it ended now: "NAME: the work since step 40 …"."""
        on_it = (pod for pod in self._cluster.fleet.pods_by_node.get(node, ()) if pod.jobset and not pod.finished)
        jobs = list(dict.fromkeys((pod.namespace, pod.jobset) for pod in on_it))
        found = await asyncio.gather(*(self.find_unsaved(*key) for key in jobs))
        return [f"{name}: {unsaved}" for (_, name), unsaved in zip(jobs, found, strict=True) if unsaved]

    async def add_losses(self, outcome: WhatIf) -> WhatIf:
        """The consequences of a what-if, with the work that each ended job would lose."""

        async def with_loss(consequence: Consequence) -> Consequence:
            lost = await self.find_unsaved(consequence.namespace, consequence.job) if consequence.ends_work else ""
            return structs.replace(consequence, lost=lost)

        return structs.replace(outcome, consequences=tuple(await asyncio.gather(*map(with_loss, outcome.consequences))))
