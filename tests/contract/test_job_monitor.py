"""However many look at a job, the log of each of its containers comes over one connection."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from console.connection_settings import Settings
from console.kube.client import Client
from console.session import Session
from tests.contract.cluster import Cluster
from tests.contract.space import Space
from tests.contract.test_watching_jobs import steps
from tests.contract.watched_job import Job, soon

LOOKS = 5
"""Looks of the list, each of which read the ends of logs before."""


class Connections:
    """Connections to logs, by pod: those that stand, and all that were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.opened = Counter[str](), Counter[str]()
        follow = Client.follow

        @asynccontextmanager
        async def counted(client: Client, path: str, **more: Any) -> AsyncIterator[Any]:
            found = re.search(r"/pods/([^/]+)/log$", path)
            pod = found.group(1) if found else ""
            self.opened[pod] += bool(pod)
            self.open[pod] += bool(pod)
            try:
                async with follow(client, path, **more) as answer:
                    yield answer
            finally:
                self.open[pod] -= bool(pod)

        monkeypatch.setattr(Client, "follow", counted)

    async def stand(self, *pods: str) -> None:
        await soon(lambda: +self.open == Counter(pods), f"one connection to each of {pods}")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_list_alarms_page_and_wait_share_one_connection_to_each_container(
    cluster: Cluster, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.queue("team", 64)
    job = Job(space, "train", 2, 8, 1, steps(1))
    key = space.name, job.name
    await job.submit()
    await job.runs()
    await job.print(12)
    first, last = (pod["metadata"]["name"] for pod in job.pods)
    connections = Connections(monkeypatch)
    async with AsyncExitStack() as stack:
        session = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
        stack.push_async_callback(session.close)
        await session.wait_until_listed("jobsets", "pods", "nodes")
        uid = session.fleet.jobsets[key].uid
        list_, alarms = session.measures.progress_reader, session.alarms

        async def look() -> int | None:
            for _ in range(LOOKS):
                list_._read_at.clear()
                await list_.update([key])
            found = list_.progress_of(uid)
            return found.step if found else None

        alarms.watch_namespace(space.name, always=True)
        await connections.stand(last)
        assert connections.opened[last] == 1
        assert await look() == 12
        assert connections.opened.total() <= 2, "the list asks for no log that is followed"

        alarms.watch_job(*key)
        page = await stack.enter_async_context(session.measures.open_job(*key))
        await stack.enter_async_context(session.logs.open_job_log(*key))
        waited = await stack.enter_async_context(alarms.open_monitor(*key))
        await connections.stand(first, last)
        await soon(lambda: page.track and page.track.last and page.track.last.step == 12, "the page has the steps")
        opened = connections.opened.total()
        await job.print(1)
        await soon(lambda: waited.measures and waited.measures.track and waited.measures.track.last
                   and waited.measures.track.last.step == 13, "a wait hears the next step")  # fmt: skip
        await soon(lambda: not page.is_reading_old_lines, "what was printed before is read")
        assert await look() == 13
        assert +connections.open == Counter((first, last))
        assert connections.opened.total() == opened <= 4
