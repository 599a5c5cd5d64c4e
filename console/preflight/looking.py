"""How checks look: each question is asked once for all of them, has its place in the log, and ends in time.

A check gets a `Looking`: its own log, over the questions that all checks share.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar, cast

from console.errors import ConsoleError, NotAllowed, NotFound, Unreachable
from console.models.check import Look
from console.models.link import LinkState
from console.parsers.found import NamedWire, NamesWire, read_found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from console.in_cloud import ClusterInCloud
    from console.models.fleet import Fleet
    from console.models.gke import GkeCluster, Place
    from console.preflight.wish import Wish

_T = TypeVar("_T")
KUBERNETES, GOOGLE, REGISTRY = "Kubernetes", "Google", "registry"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PATIENCE = 20.0
"""Seconds for which a kind that is still being listed is waited for."""


class Questions:
    """What was asked in one round of checks, and the answers: nothing is asked twice."""

    def __init__(self, cluster: ClusterInCloud) -> None:
        self.cluster = cluster
        self._asked: dict[Hashable, asyncio.Task[object]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Awaitable[_T]]) -> _T:
        """The answer, or the error, that this question had or has now; who stops waiting stops nobody else."""
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(_told(question))
            task.add_done_callback(_seen)
        return cast("_T", await asyncio.shield(task))  # the key names the question

    def close(self) -> None:
        """Nobody waits any longer."""
        for task in self._asked.values():
            task.cancel()


async def _told(question: Callable[[], Awaitable[object]]) -> object:
    return await question()


def _seen(task: asyncio.Task[object]) -> None:
    """Its error may come when nobody waits any more: it is no mistake of the program."""
    if not task.cancelled():
        task.exception()


class Looking:
    """The eyes of one check."""

    def __init__(self, questions: Questions, wish: Wish) -> None:
        self.questions, self.wish = questions, wish
        self.looks: list[Look] = []

    @property
    def fleet(self) -> Fleet:
        """What the watch sees."""
        return self.questions.cluster.fleet

    @property
    def cluster(self) -> ClusterInCloud:
        """The cluster that is looked at."""
        return self.questions.cluster

    async def ask(self, at: str, what: str, question: Callable[[], Awaitable[_T]]) -> _T:
        """Ask, once for all checks, and write down what came of it."""
        started = time.monotonic()
        outcome = "no answer in time"
        try:
            answer = await self.questions.ask((at, what), question)
            outcome = "answered"
        except ConsoleError as error:
            outcome = error.message
            raise
        finally:
            if all(each.what != what for each in self.looks):
                self.looks.append(Look(at, what, outcome, round(time.monotonic() - started, 3)))
        return answer

    # Kubernetes

    async def get(self, path: str, type_: type[_T], **params: str) -> _T:
        """An object or a list of the API server; NotFound, NotAllowed and the rest of Refused."""
        what = path + ("?" + "&".join(f"{key}={value}" for key, value in params.items()) if params else "")

        async def question() -> _T:
            client = self.cluster.connected.client
            return read_found(await client.request("GET", path, params=params, doing=f"look at {path}"), type_)

        return await self.ask(KUBERNETES, f"GET {what}", question)

    async def names(self, path: str, noun: str, **params: str) -> tuple[NamedWire, ...]:
        """A list of which only the metadata is asked for, so that no secret comes to this machine."""

        async def question() -> tuple[NamedWire, ...]:
            client = self.cluster.connected.client
            body = await client.request("GET", path, params=params, doing=f"list {noun}", accept=_METADATA)
            return tuple(read_found(body, NamesWire).items or ())

        shown = "&".join(f"{key}={value}" for key, value in params.items())
        return await self.ask(KUBERNETES, f"GET {path}?{shown} (metadata)", question)

    async def find(self, path: str, type_: type[_T], **params: str) -> _T | None:
        """The same, None where there is none."""
        try:
            return await self.get(path, type_, **params)
        except NotFound:
            return None

    async def watched(self, *kinds: str) -> Fleet:
        """The picture, once these kinds are known; NotAllowed, NotFound or Unreachable where one is not."""

        async def question() -> Fleet:
            try:
                fleet = await self.cluster.listed(*kinds, timeout=PATIENCE)
            except KeyError as error:
                raise Unreachable(f"{error.args[0]} are not watched.") from error
            for kind in kinds:
                link = fleet.links[kind]
                if link.state is LinkState.FORBIDDEN:
                    raise NotAllowed(link.why, link.hint, status=403)
                if link.state is LinkState.ABSENT:
                    raise NotFound(link.why, link.hint, status=404)
            return fleet

        return await self.ask(KUBERNETES, f"watch of {', '.join(kinds)}", question)

    # Google

    async def place(self) -> Place:
        """Where the cluster lies."""
        return await self.ask(GOOGLE, "where the cluster lies", self.cluster.cloud.place)

    async def gke(self) -> GkeCluster:
        """The cluster as Google's API knows it."""
        place = await self.place()

        async def question() -> GkeCluster:
            service = await self.cluster.cloud.gke()
            return await service.cluster(place.project, place.location, place.cluster)

        return await self.ask(GOOGLE, f"container: cluster {place.cluster} in {place.location}", question)
