"""Follow what a container prints: over dropped connections and restarts, without a line lost or repeated.

The API server can only be asked for lines since a whole second. So the lines of the last seconds are remembered, asked
for again after a drop, and those already given are left out, however many carry the same timestamp. What is remembered
is bounded: a container that prints more than REMEMBERED lines in these seconds is taken up after the oldest of them.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING

from console.cluster.actions import pod_path
from console.cluster.given import OVERLAP, Memory
from console.cluster.log_trouble import Trouble
from console.cluster.watch import USUAL, Backoff
from console.errors import ConsoleError, NotFound, Refused, Unreadable
from console.models.log import LogLine, StreamState
from console.models.pod import Pod
from console.parsers.kinds import KINDS
from console.parsers.secrets import Redactor, redacted
from console.parsers.stamps import LineCutter, stamped, text_of
from console.parsers.timestamp import format_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from console.cluster.client import Client
    from console.cluster.given import Stamped

SILENCE = 120.0
"""Seconds without a line after which the connection is made anew; a quiet program costs one short request."""
LARGE = 1 << 16
"""Bytes of a chunk after which others get their turn."""
TAIL_ROOM, TAIL_LINE = 1 << 20, 4096
"""Bytes of the last lines of a log, where so many are asked for and no more: in all, and for each line besides."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of which container."""

    namespace: str
    pod: str
    container: str = ""
    """Empty: the pod's only container, or the one the pod names as its default."""
    tail: int | None = None
    since: float = 0.0
    """Seconds since the epoch."""
    previous: bool = False
    follow: bool = True


class LogStream:
    """The lines of one container, in batches, with the state of the connection beside."""

    def __init__(
        self,
        client: Client,
        wanted: Wanted,
        *,
        memory: Memory | None = None,
        clean: Callable[[list[bytes]], list[bytes]] | None = None,
        restarts: int = -1,
        backoff: Backoff = USUAL,
    ) -> None:
        """`memory` says what was given before; `clean` gets all whole lines first; `restarts`: of the container as
        known, -1 if it is not.
        """
        self.state = StreamState.WAITING
        self.gaps: list[tuple[float, float]] = []
        """Between which moments lines may be lost."""
        self.open = b""
        """What is seen now of a line that is drawn again and again and has no end yet, such as a progress bar."""
        self.restarts = restarts
        self.memory = memory or Memory(whole=wanted.tail is None and not wanted.since)
        self._client = client
        self._wanted = wanted
        self._clean = clean
        self._backoff = backoff
        self._resumes = bool(self.memory.last)
        """Whether what was given before is from this very run of the container."""
        self._rest: list[bytes] = []
        """Of the last connection: the line that had no end."""
        self._cutter = LineCutter()
        self._before = 0.0
        """Moment of the last line of the connection before, until it is known whether this one goes on from there."""
        self._trouble = Trouble(wanted.follow, backoff, client.rest, seen=self._resumes)
        self._to: Callable[[list[Stamped]], None] | None = None

    async def run(self, to: Callable[[list[Stamped]], None]) -> None:
        """As `batches`, each given to `to` at the moment it comes, which costs less where thousands come a second."""
        self._to = to
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                to(batch)

    async def batches(self) -> AsyncGenerator[list[Stamped], None]:
        """New lines until the container has ended (or once, without `follow`); none of them where only `open` changed.

        A container that has not started is waited for. Raises NotFound, NotAllowed, Refused, and Unreachable when the
        server has not answered for ten minutes.
        """
        wanted, trouble, over = self._wanted, self._trouble, False
        while not over:
            try:
                async with aclosing(self._pass(wanted)) as batches:
                    async for batch in batches:
                        yield batch
                trouble.broke = False
                over = not wanted.follow or await self._ended()
                if not over:
                    self._broken()
                    async with aclosing(self._before_restart()) as batches:
                        async for batch in batches:
                            yield batch
                    await asyncio.sleep(self._backoff.first)
            except ConsoleError as error:
                self._broken()
                over = await trouble.weather(error)
        if wanted.follow:
            async with aclosing(self._end()) as batches:
                async for batch in batches:
                    yield batch
        elif batch := self._last_line():
            yield batch
        if self.state is not StreamState.CUT:
            self.state = StreamState.ENDED

    async def _end(self) -> AsyncGenerator[list[Stamped], None]:
        """What was printed between a drop and the end."""
        with suppress(NotFound):
            async with aclosing(self._pass(self._wanted)) as batches:
                async for batch in batches:
                    yield batch
            self._trouble.broke = False
        if batch := self._last_line():
            yield batch
        if self._trouble.broke:
            # The pod is gone. A connection that ended well brought all it printed, one that broke may not have.
            self.state, now = StreamState.CUT, time()
            self.gaps.append((self.memory.last or now, now))

    def _broken(self) -> None:
        if self.state is StreamState.LIVE:
            self.state = StreamState.RECONNECTING

    async def _ended(self) -> bool:
        """Whether the container, or its pod, is over: else the connection was only dropped."""
        try:
            pod = await read_pod(self._client, self._wanted.namespace, self._wanted.pod)
        except NotFound:
            return True
        named = next((each for each in pod.containers if each.name == self._wanted.container), pod.main)
        if named is not None and named.restarts > self.restarts >= 0:
            return False
        return pod.finished or self._wanted.previous or (named is not None and named.state == "terminated")

    async def _before_restart(self) -> AsyncGenerator[list[Stamped], None]:
        """What the run before printed since the connection broke, if the container was started anew since."""
        if self.restarts < 0:
            if batch := self._last_line():
                yield batch
            return
        with suppress(NotFound):
            pod = await read_pod(self._client, self._wanted.namespace, self._wanted.pod)
            named = next((each for each in pod.containers if each.name == self._wanted.container), pod.main)
            if named is None or named.restarts <= self.restarts:
                return
            self.restarts = named.restarts
            with suppress(Refused):  # the run before may be cleaned away; the gap is told by what comes next
                async with aclosing(self._pass(replace(self._wanted, previous=True))) as batches:
                    async for batch in batches:
                        yield batch
                if batch := self._last_line():
                    yield batch
            self._resumes = False

    async def _pass(self, wanted: Wanted) -> AsyncGenerator[list[Stamped], None]:
        """One connection's worth of new lines."""
        self.memory.rewind()
        self._before = self.memory.last if self._resumes and not wanted.previous else 0.0
        path, doing = pod_path(wanted.namespace, wanted.pod, "log"), f"read the log of pod {wanted.pod}"
        params = _params(wanted, self.memory.last)
        async with self._client.follow(path, doing=doing, params=params, silence=SILENCE) as answer:
            self.state = StreamState.LIVE
            self._cutter, self._rest = LineCutter(), []
            if self._to is not None:
                await answer.pour(self._pass_on)
            else:
                size, room = 0, TAIL_ROOM + TAIL_LINE * (wanted.tail or 0)
                async with aclosing(answer.pieces()) as pieces:
                    async for piece in pieces:
                        batch = self._cut(piece)
                        size += len(piece)
                        if batch is not None:
                            yield batch
                        if size > room and wanted.tail is not None and not wanted.follow:
                            raise Unreadable(
                                f"Could not {doing}: the API server sends more than {room >> 20} MiB for the last "
                                f"{wanted.tail} lines."
                            )
                        await self._client.rest_for_key()
                        if len(piece) >= LARGE:
                            await asyncio.sleep(0)  # a long backlog arrives all at once: others get their turn
            self._rest = self._cutter.end()

    def _pass_on(self, piece: bytes) -> None:
        batch = self._cut(piece)
        if batch is not None and self._to is not None:
            self._to(batch)

    def _cut(self, piece: bytes) -> list[Stamped] | None:
        """The new lines that are whole now; None if there is nothing to be told."""
        cutter, seen = self._cutter, self.open
        batch = self._new(cutter.feed(piece))
        self.open = redacted(cutter.open) if cutter.open else b""
        if batch:
            self._look_for_gap(batch)
        elif self.open == seen:
            return None
        self._trouble.over()
        return batch

    def _last_line(self) -> list[Stamped]:
        """The line in the middle of which the program stopped."""
        self.open, rest, self._rest = b"", self._rest, []
        return self._new(rest)

    def _look_for_gap(self, batch: list[Stamped]) -> None:
        """The log goes on where it was left if a line from before came again; else what was between may be lost."""
        self._resumes = True
        if self._before and not self.memory.met:
            self.gaps.append((self._before, batch[0][0]))
        self._before = 0.0

    def _new(self, raws: list[bytes]) -> list[Stamped]:
        if not raws:
            return []
        since = self._wanted.since
        lines = self.memory.new(stamped(self._clean(raws) if self._clean else raws))
        return [line for line in lines if line[0] >= since] if since else lines


async def follow_log(
    client: Client, wanted: Wanted, backoff: Backoff = USUAL, *, drawn: bool = False, memory: Memory | None = None
) -> AsyncGenerator[LogLine, None]:
    """Lines of a container, secrets redacted, until it has ended (or once, without `follow`).

    `drawn`: also what is seen of a line that has no end yet, each time it changes. `memory`: as of `LogStream`. Raises
    as `LogStream.batches` does.
    """
    stream = LogStream(client, wanted, memory=memory, clean=Redactor().lines, backoff=backoff)
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            for moment, raw in batch:
                yield LogLine(moment, text_of(raw).decode("utf-8", errors="replace"))
            if drawn and stream.open:
                yield LogLine(time(), stream.open.decode("utf-8", errors="replace"), open=True)


async def read_pod(client: Client, namespace: str, name: str) -> Pod:
    """The pod as it is now; NotFound if there is none."""
    kind = next(each for each in KINDS if each.plural == "pods")
    body = await client.request("GET", pod_path(namespace, name), doing=f"look at pod {name}")
    made, odd = kind.reader.models(kind.reader.page(b'{"items":[' + body + b"]}").items)
    found = made.get((namespace, name))
    if not isinstance(found, Pod):
        raise Unreadable(f"The pod {name} cannot be read: {next(iter(odd.values()), 'it has another name')}.")
    return found


def _params(wanted: Wanted, last: float) -> dict[str, str]:
    params = {"timestamps": "true"}
    if wanted.container:
        params["container"] = wanted.container
    if wanted.previous:
        params["previous"] = "true"
    elif wanted.follow:
        params["follow"] = "true"
    if last:
        params["sinceTime"] = format_time(max(int(last) - OVERLAP, int(wanted.since)))
        return params
    if wanted.since:
        params["sinceTime"] = format_time(int(wanted.since))
    if wanted.tail is not None:
        params["tailLines"] = str(wanted.tail)
    return params
