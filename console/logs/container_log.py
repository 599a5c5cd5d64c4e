"""Follows the log of one container over dropped connections and restarts, without losing or repeating a line.

The API server's `sinceTime` has whole seconds. Therefore the lines of the last seconds are remembered; after a drop
they are requested again, and those delivered before are left out, however many have the same timestamp. The memory is
bounded: a container that prints more than MAX_REMEMBERED_LINES in these seconds resumes after the oldest of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from enum import StrEnum
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.errors import ConsoleError, NotFound, Refused, Unreachable, Unreadable
from console.kube.actions import pod_path
from console.kube.backoff import DEFAULT_BACKOFF, Backoff, Retries
from console.kube.objects.meta import format_time
from console.kube.objects.pod import Pod
from console.kube.stream_completeness import SERVER_CLOCK
from console.kube.watched_kinds import reader_of
from console.logs.log_line import LineSplitter, LogLine, decode_lines, split_timestamps, strip_timestamps
from console.work_slices import WorkSlices
from trainlog import Redactor, redact_line

if TYPE_CHECKING:
    from console.kube.client import Client

    TimedLine = tuple[float, bytes]  # moment and the whole line, its timestamp in front


class StreamState(StrEnum):
    """The state of following one container's log."""

    WAITING = "waiting"  # the container has not started, or was not reached yet
    LIVE = "live"
    RECONNECTING = "reconnecting"  # the connection broke, and it is tried again
    ENDED = "ended"  # all that the container printed was read
    CUT = "cut"  # the pod went away before the end of its log was read
    REFUSED = "refused"  # the server refuses it, or has not answered for minutes


OVERLAP_SECONDS = 2  # that are asked for again after a drop: lines of two streams may be a little out of order
MAX_REMEMBERED_LINES = 4096  # lines of one stream that are remembered
RUNTIME_PART_BYTES = 1 << 14  # bytes of a part of a line, as the runtime writes it
MAX_UNSPLIT_BYTES = 1 << 21  # bytes of lines that are remembered as they came
MAX_LINES_BEFORE_OVERLAP = 8  # lines of one moment that are remembered beyond those seconds


class ResumeCursor:
    """Remembers the lines of the last seconds, so that a reconnection does not deliver them twice."""

    def __init__(self, received: Iterable[TimedLine] = (), *, is_whole_file: bool = True) -> None:
        """`received`: the last delivered lines; `is_whole_file`: all other lines are new."""
        self.last = 0.0
        self._delivered_lines: deque[TimedLine] = deque()
        self._replayed: Counter[bytes] = Counter()
        self._replaying = False
        self._is_whole_file = is_whole_file
        self._oldest_time = 0.0
        self._forgotten: tuple[float, int] = (0.0, 0)  # latest moment of forgotten lines, and how many of it
        self._skipping = 0
        self.has_overlap = False  # whether a remembered line came again since `rewind`
        self._before: list[TimedLine] = []  # the last lines before those that are remembered, all of one moment
        self._blocks: deque[tuple[float, bytes]] = deque()  # lines that came after these, not split yet; until when
        self._block_bytes = 0
        self._remember_delivered([*received])

    def rewind(self) -> None:
        """Prepare for a reconnection: the server sends the lines since `last - OVERLAP` again, and they are skipped."""
        self._split_blocks()
        self._replayed = Counter(raw for _, raw in self._delivered_lines)
        self._replaying = bool(self._delivered_lines)
        self._oldest_time = (
            0.0 if self._is_whole_file else min((moment for moment, _ in self._delivered_lines if moment), default=0.0)
        )
        self._skipping = self._forgotten[1]
        self.has_overlap = False

    def drop_repeated_text(self, block: bytes) -> bytes:
        """The lines of a block that were not delivered before, left as one text as long as possible."""
        if self._replaying:
            return b"".join([raw + b"\n" for _, raw in self.drop_repeated(_split_block(block))])
        ((moment, _),) = _split_block(block[block.rfind(b"\n", 0, -1) + 1 :])
        self.last = max(self.last, moment)
        self._blocks.append((moment, block))
        self._block_bytes += len(block)
        while len(self._blocks) > 1 and self._blocks[1][0] < int(self.last) - OVERLAP_SECONDS:
            self._block_bytes -= len(self._blocks.popleft()[1])
        if self._block_bytes > MAX_UNSPLIT_BYTES:
            self._split_blocks()
        return block

    def _split_blocks(self) -> None:
        while self._blocks:
            self._remember_delivered(_split_block(self._blocks.popleft()[1]))
        self._block_bytes = 0

    def drop_repeated(self, lines: list[TimedLine]) -> list[TimedLine]:
        """The lines that have not been delivered yet; they are remembered."""
        if self._replaying:
            return [line for line in lines if self._is_new(line)]
        self._remember_delivered(lines)
        return lines

    def _is_new(self, line: TimedLine) -> bool:
        moment, raw = line
        if self._replayed.get(raw):
            self._replayed[raw] -= 1
            self.has_overlap = True
            return False
        if moment < self._oldest_time or self._is_tail_of_delivered_line(raw, moment):
            return False
        if self._skipping and moment == self._forgotten[0]:
            self._skipping -= 1
            return False
        self._remember_delivered([line])
        return True

    def _is_tail_of_delivered_line(self, line: bytes, moment: float) -> bool:
        """Whether the line is the last 16 KiB part, with a timestamp of its own, of a line that was delivered."""
        if self.has_overlap or not self._before or not self._before[0][0] < moment <= self.last:
            return False
        text = line.partition(b" ")[2]
        return bool(text) and any(
            before.partition(b" ")[2] == text or (len(before) > RUNTIME_PART_BYTES and before.endswith(text))
            for _, before in self._before
        )

    def _remember_delivered(self, received: list[TimedLine]) -> None:
        lines = self._delivered_lines
        lines += received
        for moment, _ in received:
            if moment > self.last:
                self.last = moment
        oldest = int(self.last) - OVERLAP_SECONDS
        while lines and lines[0][0] < oldest:
            gone = lines.popleft()
            if not self._before or gone[0] != self._before[0][0] or len(self._before) == MAX_LINES_BEFORE_OVERLAP:
                self._before = []
            self._before.append(gone)
        while len(lines) > MAX_REMEMBERED_LINES:
            moment, _ = lines.popleft()
            latest, number = self._forgotten
            self._forgotten = (moment, number + 1 if moment == latest else 1)
            self._is_whole_file = False


def _split_block(block: bytes) -> list[TimedLine]:
    return split_timestamps(block.split(b"\n")[:-1])


GIVE_UP_SECONDS = 600.0  # seconds without an answer after which following ends in an error


class RetryPolicy(Retries):
    """Decides after an error whether to wait and retry, to treat the log as ended, or to raise the error."""

    def __init__(self, follow: bool, backoff: Backoff, wait: Callable[[float], Awaitable[None]], *, seen: bool) -> None:
        """`wait` sleeps so many seconds, less once the server answers; `seen`: lines of the log were delivered."""
        super().__init__(backoff)
        self._follow = follow
        self._wait = wait
        self._has_lines = seen
        self._failing_since = 0.0  # when it failed first since something came
        self.is_broken = False  # whether the connection broke, and nothing has come since

    def reset(self) -> None:
        self._failing_since, self._has_lines, self.is_broken = 0.0, True, False

    async def wait_or_raise(self, error: ConsoleError) -> bool:
        """Wait before a retry and return whether the log has ended; raises the error if a retry is useless."""
        if isinstance(error, NotFound) and self._has_lines:
            return True
        if not self._follow or not (isinstance(error, Unreachable) or _is_container_waiting(error)):
            raise error
        self.is_broken = isinstance(error, Unreachable)
        now = asyncio.get_running_loop().time()
        self._failing_since = self._failing_since or now
        if self.fail() == 1:
            await asyncio.sleep(0 if self._has_lines else self.backoff.first_seconds)
            return False
        if now - self._failing_since > GIVE_UP_SECONDS and isinstance(error, Unreachable):
            raise error
        if _is_container_waiting(error):
            await asyncio.sleep(self.backoff.first_seconds)
        else:
            await self._wait(self.backoff.wait(error, self.failures))
        return False


def _is_container_waiting(error: ConsoleError) -> bool:
    """Whether the refusal only means that the container has not started yet."""
    message = error.message
    return getattr(error, "status", 0) == HTTPStatus.BAD_REQUEST and (
        "waiting to start" in message or "not assigned" in message or "does not have a host assigned" in message
    )


CATCH_UP_SECONDS = 10.0  # seconds after a break in which what was printed meanwhile comes and is read
LOG_SILENCE_TIMEOUT = 120.0  # seconds without a line after which the connection is made anew
TAIL_BYTE_LIMITS = ((1 << 20, 4096), (16 << 20, 512))  # of the last lines: in all, and each; the less counts
MAX_TAIL_LINE_BYTES = 1 << 20  # bytes of one line of these
TAIL_EXTRA_LINES = 1000  # lines that may have come while the server looked for the first of the tail


class LogRequest(Struct, frozen=True):
    """The container and the lines of its log to fetch."""

    namespace: str
    pod: str
    container: str = ""  # empty: the pod's only container, or the one the pod names as its default
    tail: int | None = None
    previous: bool = False
    follow: bool = True
    max_bytes: int = 0  # bytes after which a log that is not followed is given up; 0: never


class SizeLimit:
    """Limits the size of a log that is read once and not followed."""

    def __init__(self, request: LogRequest) -> None:
        self._pod, self._tail = request.pod, request.tail
        rooms = [request.max_bytes] if request.max_bytes else []
        if request.tail is not None:
            rooms += [room + line * request.tail for room, line in TAIL_BYTE_LIMITS]
        self._max_bytes = min(rooms, default=0)
        self._bytes = self._lines = self._line = 0

    def count_chunk(self, chunk: bytes) -> None:
        """Count a chunk; Unreadable once the limit is exceeded."""
        self._bytes += len(chunk)
        if self._tail is not None:
            self._lines += chunk.count(b"\n")
            if self._lines > self._tail + TAIL_EXTRA_LINES:
                raise self._limit_error(
                    f"the API server sends more than the last {self._tail:,} lines, which were asked for"
                )
        end = chunk.rfind(b"\n") + 1
        self._line = len(chunk) - end + (0 if end else self._line)
        if self._max_bytes and self._line > MAX_TAIL_LINE_BYTES:
            raise self._limit_error(f"a line of it goes on after {MAX_TAIL_LINE_BYTES >> 20} MiB")
        if self._max_bytes and self._bytes > self._max_bytes:
            raise self._limit_error(f"it goes on after {self._max_bytes >> 20} MiB")

    def _limit_error(self, why: str) -> Unreadable:
        return Unreadable(f"Could not read the log of pod {self._pod} to its end: {why}.", "a4 logs shows it all.")


class LogStream:
    """The lines of one container in batches, and the state of its connection."""

    def __init__(
        self,
        client: Client,
        request: LogRequest,
        *,
        cursor: ResumeCursor | None = None,
        clean_lines: Callable[[list[bytes]], list[bytes]] | None = None,
        clean_text: Callable[[bytes], bytes] | None = None,
        restarts: int = -1,
        backoff: Backoff = DEFAULT_BACKOFF,
    ) -> None:
        """`clean_lines`, `clean_text` redact lines and blocks; `cursor`: lines delivered; `restarts`: -1 if unknown."""
        self.state = StreamState.WAITING
        self.gaps: list[tuple[float, float]] = []  # between which moments lines may be lost
        self._received_at = self._broken_at = (
            monotonic()
        )  # when the last piece came; until when all had before the last break
        self._repaired_at = 0.0  # when the first piece after that break came
        self.open_line = b""  # what is seen of a line without an end, such as a progress bar
        self._opened_at = self._waits_since = monotonic()
        self._waited = 0.0  # seconds until the last piece came, with all before it read; then `_waits_since`
        self.restarts = restarts
        self.cursor = cursor or ResumeCursor(is_whole_file=request.tail is None)
        self._client = client
        self._request = request
        self._clean, self._clean_text = clean_lines, clean_text
        self._resumes = bool(self.cursor.last)  # whether what was given before is from this very run of the container
        self._unfinished_line: list[bytes] = []  # of the last connection: the line that had no end
        self._splitter = LineSplitter()
        self._before = 0.0  # moment of the last line of the connection before, until this one is known to go on
        self._retry_policy = RetryPolicy(request.follow, backoff, client.wait_before_retry, seen=self._resumes)
        self._receive: Callable[[list[TimedLine]], None] | None = None
        self._size_limit: SizeLimit | None = None  # of a log that is not followed

    @property
    def is_lagging(self) -> bool:
        """Whether lines arrive faster than they are read, now or for most of the time since the log was opened."""
        if not self._waits_since:
            return True
        now = monotonic()
        return self._waited + now - self._waits_since < (now - self._opened_at) / 2

    @property
    def complete_until(self) -> float:
        """The time (monotonic clock) up to which the log is complete."""
        if self.state in {StreamState.RECONNECTING, StreamState.REFUSED}:
            return self._broken_at
        if self.state is not StreamState.LIVE:
            return self._client.arrivals.last_at
        known = self._client.arrivals.complete_until(self._received_at)
        return known if monotonic() > self._repaired_at + CATCH_UP_SECONDS else min(known, self._broken_at)

    def _note_receipt(self) -> None:
        """Record that the server sends data of this log, perhaps after a break."""
        before, arrivals = self._received_at, self._client.arrivals
        self._received_at = monotonic()
        if before < arrivals.pause[1] and self.state is StreamState.LIVE:
            self._broken_at, self._repaired_at = arrivals.pause[0], self._received_at

    async def run(self, receive: Callable[[list[TimedLine]], None]) -> None:
        """Pass each batch to `receive`, which is cheaper than `batches` for thousands of batches a second."""
        self._receive = receive
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                receive(batch)

    async def batches(self) -> AsyncGenerator[list[TimedLine], None]:
        """Yield new lines, [] if only `open_line` changed. Raises NotFound, NotAllowed, Refused or Unreachable."""
        wanted, trouble, over = self._request, self._retry_policy, False
        while not over:
            try:
                async with aclosing(self._read_connection(wanted)) as batches:
                    async for batch in batches:
                        yield batch
                trouble.is_broken = False
                over = not wanted.follow or await self._has_container_ended()
                if not over:
                    self._on_connection_lost()
                    async with aclosing(self._read_rest_of_previous()) as batches:
                        async for batch in batches:
                            yield batch
                    await asyncio.sleep(trouble.backoff.pause(trouble.fail(), trouble.backoff.max_seconds))
            except ConsoleError as error:
                self._on_connection_lost()
                over = await trouble.wait_or_raise(error)
        if wanted.follow:
            async with aclosing(self._read_rest()) as batches:
                async for batch in batches:
                    yield batch
        elif batch := self._take_unfinished_line():
            yield batch
        if self.state is not StreamState.CUT:
            self.state = StreamState.ENDED

    async def _read_rest(self) -> AsyncGenerator[list[TimedLine], None]:
        """Yield the lines printed between the loss of the connection and the end of the container."""
        with suppress(NotFound):
            async with aclosing(self._read_connection(self._request)) as batches:
                async for batch in batches:
                    yield batch
            self._retry_policy.is_broken = False
        if batch := self._take_unfinished_line():
            yield batch
        if self._retry_policy.is_broken:
            # The pod is gone. A connection that ended well brought all it printed, one that broke may not have.
            self.state, now = StreamState.CUT, SERVER_CLOCK.now()
            self.gaps.append((self.cursor.last or now, now))

    def _on_connection_lost(self) -> None:
        if self.state is StreamState.LIVE:
            self._broken_at = self.complete_until
            self.state = StreamState.RECONNECTING

    async def _has_container_ended(self) -> bool:
        """Whether the container or its pod has ended; if not, only the connection was dropped."""
        try:
            pod = await read_pod(self._client, self._request.namespace, self._request.pod)
        except NotFound:
            return True
        named = next((each for each in pod.containers if each.name == self._request.container), pod.main)
        if named is not None and named.restarts > self.restarts >= 0:
            return False
        return pod.finished or self._request.previous or (named is not None and named.state == "terminated")

    async def _read_rest_of_previous(self) -> AsyncGenerator[list[TimedLine], None]:
        """Yield the rest of the previous container's log, if the container restarted since the connection broke."""
        if self.restarts < 0:
            if batch := self._take_unfinished_line():
                yield batch
            return
        with suppress(NotFound):
            pod = await read_pod(self._client, self._request.namespace, self._request.pod)
            named = next((each for each in pod.containers if each.name == self._request.container), pod.main)
            if named is None or named.restarts <= self.restarts:
                return
            self.restarts = named.restarts
            with suppress(Refused):  # the run before may be cleaned away; the gap is reported with what comes next
                async with aclosing(self._read_connection(replace(self._request, previous=True))) as batches:
                    async for batch in batches:
                        yield batch
                if batch := self._take_unfinished_line():
                    yield batch
            self._resumes = False

    async def _read_connection(self, request: LogRequest) -> AsyncGenerator[list[TimedLine], None]:
        self.cursor.rewind()
        self._before = self.cursor.last if self._resumes and not request.previous else 0.0
        path, doing = pod_path(request.namespace, request.pod, "log"), f"read the log of pod {request.pod}"
        params = _query_parameters(request, self.cursor.last)
        once = not request.follow
        async with self._client.follow(
            path, action=doing, params=params, silence=LOG_SILENCE_TIMEOUT, at_once=once
        ) as answer:
            self._note_receipt()
            self._repaired_at = self._received_at if self.state is StreamState.RECONNECTING else self._repaired_at
            self.state = StreamState.LIVE
            self._retry_policy.begin()
            self._splitter, self._unfinished_line = LineSplitter(), []
            self._size_limit = SizeLimit(request) if once else None
            if self._receive is not None:
                await answer.stream_to(self._forward_chunk)
            else:
                slices = WorkSlices()
                async with aclosing(answer.iter_chunks()) as pieces:
                    async for piece in pieces:
                        self._waited, self._waits_since = self._waited + monotonic() - self._waits_since, 0.0
                        slices.begin()
                        batch = self._split_chunk(piece)
                        if batch is not None:
                            yield batch
                        await answer.wait_for_keypress_pause()
                        await slices.pause()
                        self._waits_since = monotonic()
            self._unfinished_line = self._splitter.flush()

    def _forward_chunk(self, chunk: bytes) -> None:
        batch = self._split_chunk(chunk)
        if batch is not None and self._receive is not None:
            self._receive(batch)

    def _split_chunk(self, chunk: bytes) -> list[TimedLine] | None:
        self._note_receipt()
        if self._size_limit is not None:
            self._size_limit.count_chunk(chunk)
        cutter, seen = self._splitter, self.open_line
        text = cutter.feed_text(chunk) if self._clean_text else b""
        batch = self._drop_known_text(text) if self._clean_text else self._drop_known_lines(cutter.feed(chunk))
        self.open_line = redact_line(cutter.open_line) if cutter.open_line else b""
        if batch:
            # Record a gap unless a line from before the reconnection was sent again
            self._resumes = True
            if self._before and not self.cursor.has_overlap:
                self.gaps.append((self._before, batch[0][0]))
            self._before = 0.0
        elif self.open_line == seen:
            return None
        self._retry_policy.reset()
        return batch

    def _take_unfinished_line(self) -> list[TimedLine]:
        self.open_line, rest, self._unfinished_line = b"", self._unfinished_line, []
        if self._clean_text:
            return self._drop_known_text(b"".join([line + b"\n" for line in rest]))
        return self._drop_known_lines(rest)

    def _drop_known_text(self, block: bytes) -> list[TimedLine]:
        """The new whole lines as one text without timestamps, with the time of the first line."""
        if self._clean_text is None or not block or not (block := self.cursor.drop_repeated_text(block)):
            return []
        ((moment, _),) = split_timestamps([block[: block.find(b"\n")]])
        return [(moment, self._clean_text(strip_timestamps(block)))]

    def _drop_known_lines(self, raws: list[bytes]) -> list[TimedLine]:
        return self.cursor.drop_repeated(split_timestamps(self._clean(raws) if self._clean else raws)) if raws else []


async def follow_log(
    client: Client, request: LogRequest, backoff: Backoff = DEFAULT_BACKOFF, *, cursor: ResumeCursor | None = None
) -> AsyncGenerator[list[LogLine], None]:
    """Yield redacted lines, after those of `cursor`, until the log ends (or once); raises as `LogStream.batches`."""
    stream = LogStream(client, request, cursor=cursor, clean_lines=Redactor().redact_lines, backoff=backoff)
    async with aclosing(stream.batches()) as batches:
        async for batch in batches:
            texts = (text.decode(errors="replace") for text in decode_lines([raw for _, raw in batch]))
            if lines := [LogLine(moment, text) for (moment, _), text in zip(batch, texts, strict=True)]:
                yield lines


async def read_text(
    client: Client, request: LogRequest, backoff: Backoff = DEFAULT_BACKOFF
) -> AsyncGenerator[tuple[str, str], None]:
    """Yield a log's redacted text, now or followed, in blocks of lines, and an unfinished progress bar."""
    redactor = Redactor()
    if request.follow:
        stream = LogStream(client, request, clean_text=redactor.redact_text, backoff=backoff)
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                text = b"".join([block for _, block in batch])
                yield text.decode(errors="replace"), stream.open_line.decode(errors="replace")
        return
    path, doing = pod_path(request.namespace, request.pod, "log"), f"read the log of pod {request.pod}"
    params = {name: value for name, value in _query_parameters(request, 0.0).items() if name != "timestamps"}
    cutter, room = LineSplitter(stamped=False), SizeLimit(request)
    async with (
        client.follow(path, action=doing, params=params, silence=LOG_SILENCE_TIMEOUT, at_once=True) as answer,
        aclosing(answer.iter_chunks()) as pieces,
    ):
        async for piece in pieces:
            room.count_chunk(piece)
            if block := cutter.feed_text(piece):
                yield redactor.redact_text(block).decode(errors="replace"), ""
    for line in cutter.flush():
        yield redactor.redact_text(line + b"\n").decode(errors="replace"), ""


async def read_tail(client: Client, pod: Pod, lines: int) -> list[LogLine]:
    """The last lines of the pod's main container."""
    wanted = LogRequest(pod.namespace, pod.name, pod.main.name if pod.main else "", lines, follow=False)
    async with aclosing(follow_log(client, wanted)) as printed:
        return [line async for lines in printed for line in lines]


async def read_pod(client: Client, namespace: str, name: str) -> Pod:
    body = await client.request("GET", pod_path(namespace, name), action=f"read pod {name}")
    found: Pod = reader_of("pods").read_object(body, f"The pod {name}")
    return found


def _query_parameters(request: LogRequest, last_time: float) -> dict[str, str]:
    params = {"timestamps": "true"}
    if request.container:
        params["container"] = request.container
    if request.previous:
        params["previous"] = "true"
    elif request.follow:
        params["follow"] = "true"
    if last_time:
        params["sinceTime"] = format_time(max(int(last_time) - OVERLAP_SECONDS, 0))
        return params
    if request.tail is not None:
        params["tailLines"] = str(request.tail)
    return params
