"""What was measured in one job, as far as its log has been read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from console.models.ranks import ranks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from console.errors import ConsoleError
    from console.models.failure import Ending
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.nccl_kept import MeasuredTest
    from console.models.training_track import Track
    from console.models.unreadable import Unreadable


class JobMeasures:
    """Tests and training runs of a job. It grows; `changes` says when."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.uid = ""
        self.recipe = ""
        self.accelerator = ""
        """Label of the GPUs on the nodes of its ranks; empty: not known."""
        self.tests: tuple[MeasuredTest, ...] = ()
        """In the order they began, those of the first rank before the others'."""
        self.tracks: tuple[Track, ...] = ()
        """Training runs in the order they began; one goes on over restarts from a checkpoint."""
        self.unreadable: dict[str, tuple[int, Unreadable]] = {}
        """What could not be read, of which rank: of tables ("nccl") and of steps ("training")."""
        self.over = False
        """Whether nothing more will come."""
        self.trouble: ConsoleError | None = None
        """What keeps the log from being read."""
        self.endings_seen: tuple[str, int, int] = ("", 0, -1)
        self._endings: dict[tuple[int, int, str], Ending] = {}
        self._nodes: dict[int, str] = {}
        self._server = ""
        self._woken: set[asyncio.Event] = set()

    @property
    def track(self) -> Track | None:
        """The latest training run."""
        return self.tracks[-1] if self.tracks else None

    # who looks

    def wake(self) -> None:
        """Something changed."""
        for event in self._woken:
            event.set()

    async def changes(self) -> AsyncGenerator[JobMeasures, None]:
        """This, at once and after each change, until nothing more will come. Raises what keeps it from being read."""
        event = asyncio.Event()
        self._woken.add(event)
        try:
            while True:
                yield self
                if self.over:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await event.wait()
                event.clear()
        finally:
            self._woken.discard(event)
        if self.trouble is not None:
            raise self.trouble

    # it grows

    def forget(self) -> None:
        """Another job of the same name begins."""
        self.tests, self.tracks, self.unreadable = (), (), {}
        self._endings, self._nodes, self.endings_seen = {}, {}, ("", 0, -1)

    def place(self, jobset: JobSet, fleet: Fleet, server: str) -> None:
        """On which nodes it is measured."""
        self.recipe, self._server = jobset.recipe, server
        self._nodes |= {rank.number: rank.node for rank in ranks(jobset, fleet) if rank.node}
        labels = {fleet.nodes[("", node)].accelerator for node in self._nodes.values() if ("", node) in fleet.nodes}
        if len(labels) == 1:
            self.accelerator = labels.pop()
        self.tests = tuple(self._placed(each) for each in self.tests)

    def _placed(self, test: MeasuredTest) -> MeasuredTest:
        namespace, job = self.key
        return replace(
            test,
            namespace=namespace,
            job=job,
            uid=self.uid,
            recipe=self.recipe,
            accelerator=self.accelerator,
            server=self._server,
            nodes=test.nodes or tuple(dict.fromkeys(self._nodes[each] for each in sorted(self._nodes))),
        )

    def ended_badly(self, told: Sequence[Ending]) -> bool:
        """Ranks ended badly; whether that is news."""
        before = len(self._endings)
        self._endings |= {(each.attempt, each.rank, each.pod): each for each in told}
        if self.track is not None:
            self.track.ended_badly(self._endings.values())
        return len(self._endings) != before

    def grown(self) -> None:
        """A run more: what ended before it is a mark on it as well."""
        if self.track is not None and self._endings:
            self.track.ended_badly(self._endings.values())
