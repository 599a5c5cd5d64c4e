"""Follow what a container prints: over dropped connections, without a line lost or repeated.

The API server can only be asked for lines since a whole second. So the lines of the last seconds are remembered, asked
for again after a drop, and those already given are left out, however many carry the same timestamp.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from console.cluster.actions import pod_path
from console.cluster.watch import USUAL, Backoff
from console.errors import ConsoleError, NotFound, Unreachable, Unreadable
from console.models.log import LogLine
from console.models.pod import Pod
from console.parsers.kinds import KINDS
from console.parsers.timestamp import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from console.cluster.client import Client

SILENCE = 120.0
"""Seconds without a line after which the connection is made anew; a quiet program costs one short request."""
LONGEST = 1 << 20
"""Bytes of one line that are kept; the rest is counted and left out."""
GIVE_UP = 600.0
"""Seconds without an answer after which following ends in an error."""
OVERLAP = 2
"""Seconds that are asked for again after a drop: lines of two streams may be out of order by a little."""


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


class _Memory:
    """Lines given in the last seconds, so that none is given twice."""

    def __init__(self) -> None:
        self._seconds: dict[int, Counter[bytes]] = {}
        self._again: Counter[bytes] = Counter()
        self._first = 0.0
        self._replaying = False
        self.last = 0

    def rewind(self) -> None:
        """The lines since `last - OVERLAP` come once more."""
        self._again = Counter()
        self._replaying = bool(self.last)
        for counted in self._seconds.values():
            self._again += counted

    def is_new(self, raw: bytes, moment: float) -> bool:
        """Whether this line has not been given yet; remembers it."""
        if self._again and self._again[raw] > 0:
            self._again[raw] -= 1
            return False
        self._first = self._first or moment
        if self._replaying and moment < self._first:
            return False  # older than what a tail began with
        second = int(moment)
        if second > self.last:
            self.last = second
            for old in [each for each in self._seconds if each < second - OVERLAP]:
                del self._seconds[old]
        if second >= self.last - OVERLAP:
            self._seconds.setdefault(second, Counter())[raw] += 1
        return True


async def follow_log(client: Client, wanted: Wanted, backoff: Backoff = USUAL) -> AsyncGenerator[LogLine, None]:
    """Lines of a container until it has ended (or once, without `follow`).

    A container that has not started is waited for. Raises NotFound, NotAllowed, Refused, and Unreachable when the
    server has not answered for ten minutes.
    """
    memory, trouble = _Memory(), _Trouble(wanted, backoff)
    over = False
    while not over:
        try:
            async with aclosing(_pass(client, wanted, memory)) as lines:
                async for line in lines:
                    trouble.over()
                    yield line
            over = not wanted.follow or await _ended(client, wanted)
            if not over:
                await asyncio.sleep(backoff.first)
        except ConsoleError as error:
            over = await trouble.weather(error)
    if wanted.follow:
        with suppress(NotFound):  # the pod may be gone, and then this was all
            async with aclosing(_pass(client, wanted, memory)) as lines:  # what was printed between a drop and the end
                async for line in lines:
                    yield line


class _Trouble:
    """What to do when a log cannot be read: wait and go on, take it for ended, or give up."""

    def __init__(self, wanted: Wanted, backoff: Backoff) -> None:
        self._wanted = wanted
        self._backoff = backoff
        self._failures = 0
        self._seen = False
        self._since = 0.0

    def over(self) -> None:
        """A line has come."""
        self._failures, self._seen = 0, True

    async def weather(self, error: ConsoleError) -> bool:
        """Wait as long as is right, and say whether the log has ended; raises the error if waiting is no use."""
        if isinstance(error, NotFound) and self._seen:
            return True
        if not self._wanted.follow or not (isinstance(error, Unreachable) or _waits(error)):
            raise error
        now = asyncio.get_running_loop().time()
        self._failures += 1
        if self._failures == 1:
            self._since = now
            await asyncio.sleep(0 if self._seen else self._backoff.first)
            return False
        if now - self._since > GIVE_UP and isinstance(error, Unreachable):
            raise error
        await asyncio.sleep(self._backoff.first if _waits(error) else self._backoff.wait(error, self._failures))
        return False


def _waits(error: ConsoleError) -> bool:
    """Whether the refusal only means that the container has not started yet."""
    said = error.message
    return getattr(error, "status", 0) == HTTPStatus.BAD_REQUEST and (
        "waiting to start" in said or "not assigned" in said or "does not have a host assigned" in said
    )


async def _ended(client: Client, wanted: Wanted) -> bool:
    """Whether the container, or its pod, is over: else the connection was only dropped."""
    try:
        pod = await read_pod(client, wanted.namespace, wanted.pod)
    except NotFound:
        return True
    named = next((each for each in pod.containers if each.name == wanted.container), pod.main)
    return pod.finished or wanted.previous or (named is not None and named.state == "terminated")


async def read_pod(client: Client, namespace: str, name: str) -> Pod:
    """The pod as it is now; NotFound if there is none."""
    kind = next(each for each in KINDS if each.plural == "pods")
    body = await client.request("GET", pod_path(namespace, name), doing=f"look at pod {name}")
    made, odd = kind.reader.models(kind.reader.page(b'{"items":[' + body + b"]}").items)
    found = made.get((namespace, name))
    if not isinstance(found, Pod):
        raise Unreadable(f"The pod {name} cannot be read: {next(iter(odd.values()), 'it has another name')}.")
    return found


def _params(wanted: Wanted, memory: _Memory) -> dict[str, str]:
    params = {"timestamps": "true"}
    if wanted.container:
        params["container"] = wanted.container
    if wanted.previous:
        params["previous"] = "true"
    elif wanted.follow:
        params["follow"] = "true"
    if memory.last:
        params["sinceTime"] = format_time(max(memory.last - OVERLAP, int(wanted.since)))
        return params
    if wanted.since:
        params["sinceTime"] = format_time(int(wanted.since))
    if wanted.tail is not None:
        params["tailLines"] = str(wanted.tail)
    return params


async def _pass(client: Client, wanted: Wanted, memory: _Memory) -> AsyncGenerator[LogLine, None]:
    """One connection's worth of new lines."""
    memory.rewind()
    path, doing = pod_path(wanted.namespace, wanted.pod, "log"), f"read the log of pod {wanted.pod}"
    async with (
        client.stream(path, doing=doing, params=_params(wanted, memory), silence=SILENCE) as answer,
        aclosing(split_lines(answer.content.iter_any())) as lines,
    ):
        async for raw in lines:
            line = read_line(raw)
            if memory.is_new(raw, line.time) and line.time >= wanted.since:
                yield line


def read_line(raw: bytes) -> LogLine:
    """A line that begins with the kubelet's timestamp; one that does not has time 0.0."""
    stamp, _, text = raw.partition(b" ")
    try:
        moment = parse_time(stamp.decode("ascii"))
    except (Unreadable, UnicodeDecodeError):
        moment, text = 0.0, raw
    return LogLine(moment, text.removesuffix(b"\r").decode("utf-8", errors="replace"))


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines without their ends, of any length, though of a very long one only the first mebibyte.

    A last line without an end is given too: a program may stop in the middle of one.
    """
    rest, dropped = bytearray(), 0
    async for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for piece in whole:
            room = LONGEST - len(rest)
            rest += piece[:room]
            yield _cut(rest, dropped + max(0, len(piece) - room))
            rest, dropped = bytearray(), 0
        room = LONGEST - len(rest)
        rest += last[:room]
        dropped += max(0, len(last) - room)
        await asyncio.sleep(0)  # a long backlog arrives all at once: others get their turn
    if rest:
        yield _cut(rest, dropped)


def _cut(line: bytearray, dropped: int) -> bytes:
    return bytes(line) + (f" … ({dropped} bytes more)".encode() if dropped else b"")
