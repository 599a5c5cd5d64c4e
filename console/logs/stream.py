"""The connection to one container's log, and the segment that its lines go to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from console.errors import ConsoleError, NotAllowed
from console.kube.arrivals import SERVER_CLOCK
from console.kube.backoff import DEFAULT_BACKOFF
from console.logs.line import Coverage, Gap, StreamState
from console.scheduling.pod_slots import PodSlot
from trainlog import Redactor

if TYPE_CHECKING:
    from console.kube.objects.pod import Container, Pod
    from console.logs.container_log import LogRequest, LogStream, ResumeCursor, TimedLine
    from console.logs.segment import LogSegment

    OpenStream = Callable[[LogRequest, ResumeCursor, Callable[[list[bytes]], list[bytes]], int], LogStream]
    """Opens a log: which, the lines given before, what cleans all whole lines, restarts of the container."""


REFUSED_RETRY_SECONDS = 30.0  # seconds until a refused log is asked for again, at most
_BROKEN_STATES = (StreamState.RECONNECTING, StreamState.CUT, StreamState.REFUSED)
CLOCK_SKEW_SECONDS = 600.0  # seconds by which the clocks of machines may differ


class FollowedContainer(Struct):
    """A container whose log is followed, with its connection and its segment."""

    part: LogSegment
    stream: LogStream
    main: bool
    task: asyncio.Task[None] | None = None
    error: ConsoleError | None = None
    redactor: Redactor = field(default_factory=Redactor)
    refusals: int = 0  # in a row, each soon after the one before
    again: float = 0.0  # when a refused log may be asked for again, by the loop's clock
    tail: int = 0  # how many last lines it is opened with, until it is known whether there were more; 0: with all
    fresh: bool = False  # whether nothing of it was kept before
    opened: float = field(default_factory=SERVER_CLOCK.now)

    def append_batch(self, batch: list[TimedLine]) -> None:
        self.part.append_lines(batch)
        self.part.open = self.stream.open

    def may_lack_older_lines(self) -> bool:
        """Whether the first request returned as many lines as asked for; asked until fewer are known."""
        if not self.tail or not len(self.part):
            return False
        if self.part.times[-1] > self.opened + CLOCK_SKEW_SECONDS and len(self.part) < self.tail:
            self.tail = 0  # these are new, and all that were there have come
        return 0 < self.tail <= len(self.part)

    def on_refused(self, error: ConsoleError) -> None:
        """Record that the log is refused, or that the server has not answered for minutes."""
        self.error, self.stream.state = error, StreamState.REFUSED
        now, most = asyncio.get_running_loop().time(), REFUSED_RETRY_SECONDS
        self.refusals = self.refusals + 1 if now < self.again + most else 1
        self.again = now + (most if isinstance(error, NotAllowed) else DEFAULT_BACKOFF.pause(self.refusals, most))

    @property
    def is_retry_due(self) -> bool:
        """Whether the log was refused and it is time to request it again."""
        ended = self.task is None or self.task.done()
        return self.error is not None and ended and asyncio.get_running_loop().time() > self.again

    @property
    def gaps(self) -> list[Gap]:
        found = [Gap(self.part.rank, since, until) for since, until in self.stream.gaps]
        if found and self.stream.state is StreamState.CUT:
            found[-1] = replace(found[-1], why="its pod was deleted before the end of its log was read")
        return found

    async def mark_truncated(self) -> None:
        """Record on disk that older lines may be missing; OSError."""
        last, self.tail = self.tail, 0
        await asyncio.to_thread(self.part.mark_truncated, last)


async def fetch_older_lines(part: LogSegment, streams: OpenStream, pod: Pod, container: str) -> None:
    """Fetch the older lines that were skipped at first, if the container still has them; OSError of the disk."""
    from console.logs.container_log import LogRequest, ResumeCursor

    if not part.opened_with or not part.times:
        return
    first = part.times[0]
    wanted = LogRequest(pod.namespace, pod.name, container, follow=False)
    # With an error coverage goes on saying that they are missing.
    with suppress(ConsoleError), TemporaryFile(dir=part.file.parent if part.file else None) as before:
        async with aclosing(streams(wanted, ResumeCursor(), Redactor().redact_lines, -1).batches()) as batches:
            async for batch in batches:
                before.writelines(raw + b"\n" for moment, raw in batch if moment < first)
                if batch[-1][0] >= first:
                    break
        await asyncio.to_thread(part.backfill, before)


def count_coverage(
    followed: Iterable[FollowedContainer], ranks: int, parts: Iterable[LogSegment], disk: str, *, gone: bool
) -> Coverage:
    """The coverage of all ranks, judged by the newest main container of each."""
    states: dict[int, StreamState] = {}
    gaps: list[Gap] = []
    errors: list[str] = []
    for each in followed:
        if each.main:
            states[each.part.rank] = each.stream.state
        gaps += each.gaps
        errors += [str(each.error)] if each.error else []
    number = Counter(states.values())
    parts = list(parts)
    opened = [part for part in parts if part.opened_with]
    if gone and not states:
        number[StreamState.ENDED] = ranks
    return Coverage(
        ranks,
        number[StreamState.LIVE],
        number[StreamState.RECONNECTING],
        max(0, ranks - sum(number.values())) + number[StreamState.WAITING],
        number[StreamState.ENDED],
        number[StreamState.CUT],
        number[StreamState.REFUSED],
        tuple(gaps),
        len({part.rank for part in opened}),
        max((part.opened_with for part in opened), default=0),
        sum(part.lost for part in parts),
        errors[0] if errors else "",
        disk,
    )


def find_gaps(followed: Iterable[FollowedContainer], parts: Iterable[LogSegment]) -> tuple[Gap, ...]:
    """Periods in which ranks may lack lines: before a log was opened late, and after a connection broke."""
    found: list[Gap] = []
    ends: dict[int, float] = {}
    for part in sorted(parts, key=lambda each: each.times[0] if each.times else float("inf")):
        if part.opened_with:
            until = part.times[0] if part.times else float("inf")
            found.append(Gap(part.rank, ends.get(part.rank, 0.0), until, "older lines were left out"))
        if part.times:
            ends[part.rank] = max(ends.get(part.rank, 0.0), part.times[-1])
    for each in followed:
        found += each.gaps
        if each.main and each.stream.state in _BROKEN_STATES:
            found.append(Gap(each.part.rank, ends.get(each.part.rank, 0.0), float("inf"), "not read so far"))
    return tuple(found)


def loggable_containers(slot: PodSlot) -> list[Container]:
    """The main and init containers of a rank; a sidecar is left out once the main one has started."""
    if slot.pod is None or slot.pod.main is None:
        return []
    main = slot.pod.main
    started = slot.pod.finished or main.restarts > 0 or main.state != "waiting"
    first = [
        each
        for each in slot.pod.containers
        if each.init and (each.state == "terminated" or (each.state == "running" and not started))
    ]
    return [*first, main] if started else first
