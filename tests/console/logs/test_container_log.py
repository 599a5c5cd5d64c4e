"""Following a log over everything that can interrupt it."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any, cast

import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from console.errors import NotAllowed, NotFound, Refused, Unreachable
from console.kube.backoff import Backoff
from console.kube.client import Client
from console.kube.objects.meta import parse_time
from console.logs import container_log
from console.logs.container_log import (
    LogRequest,
    LogStream,
    ResumeCursor,
    RetryPolicy,
    StreamState,
    follow_log,
    read_text,
)
from console.logs.log_line import MAX_LINE_BYTES, LineSplitter, LogLine, decode_line, split_timestamps, strip_timestamps
from tests.apiserver import ApiServer, eventually, forbidden, gathered, named, status
from trainlog import Redactor

POD = "/api/v1/namespaces/default/pods/p"
QUICK = Backoff(first_seconds=0.01, max_seconds=0.02, refused_seconds=0.02)
START = datetime(2026, 11, 21, 7, 0, tzinfo=UTC).timestamp()


def stamp(second: float) -> str:
    return datetime.fromtimestamp(START + second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"


def bar(step: int, loss: str = "") -> bytes:
    return f"\rTrain:  {step}%|##  | {step}/100 [00:01<00:09, 1.2s/it{loss}]".encode()


class Container:
    """A log as the kubelet serves it: whole seconds in sinceTime, follow until it has ended."""

    def __init__(self, server: ApiServer) -> None:
        self.lines: list[tuple[float, bytes]] = []
        self.ended = False
        self.drops: list[int] = []
        """After so many lines of a connection, it breaks off in the middle of the next."""
        self.politely = False
        """Whether it then ends as an answer does, as behind a proxy that goes down."""
        self.drawn = b""
        """What is drawn on the last line, which has no end."""
        self.queries: list[dict[str, str]] = []
        self.state: dict[str, Any] = {"running": {"startedAt": "2026-11-21T07:00:00Z"}}
        self._more = asyncio.Event()
        server.handlers[f"{POD}/log"] = self.serve
        server.handlers[POD] = self.describe

    def say(self, second: float, *texts: bytes) -> None:
        self.lines += [(second, text) for text in texts]
        self._more.set()

    def draw(self, drawn: bytes) -> None:
        self.drawn += drawn
        self._more.set()

    def end(self) -> None:
        self.ended = True
        self.state = {"terminated": {"exitCode": 0}}
        self._more.set()

    async def describe(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            named(
                "p",
                spec={"containers": [{"name": "main"}]},
                status={"containerStatuses": [{"name": "main", "state": self.state}]},
            )
        )

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        since = parse_time(request.query.get("sinceTime")) // 1 - START
        start = len(self.lines) - int(request.query["tailLines"]) if "tailLines" in request.query else 0
        drop = self.drops.pop(0) if self.drops else None
        sent, drawn, at = 0, 0, max(0, start)
        while True:
            for second, text in self.lines[at:]:
                at += 1
                if second < since:
                    continue
                line = (f"{stamp(second)} ".encode() if "timestamps" in request.query else b"") + text + b"\n"
                if sent == drop:
                    await answer.write(line[: len(line) // 2])
                    assert request.transport is not None
                    if not self.politely:
                        request.transport.abort()
                    return answer
                await answer.write(line)
                sent += 1
            if self.drawn[drawn:]:
                await answer.write(self.drawn[drawn:])
            drawn = len(self.drawn)
            if self.ended or request.query.get("follow") != "true":
                return answer
            self._more.clear()
            await self._more.wait()


@pytest.fixture
def container(server: ApiServer) -> Container:
    return Container(server)


def lines_of(client: Client, wanted: LogRequest, **options: Any) -> AsyncGenerator[LogLine, None]:
    return (line async for lines in follow_log(client, wanted, QUICK, **options) for line in lines)


async def texts(server: ApiServer, **wanted: Any) -> list[str]:
    async with server.client() as client, asyncio.timeout(60):
        return [line.text async for line in lines_of(client, LogRequest("default", "p", **wanted))]


async def text_of(server: ApiServer, **wanted: Any) -> str:
    async with server.client() as client, asyncio.timeout(60):
        return "".join([text async for text, _ in read_text(client, LogRequest("default", "p", **wanted), QUICK)])


async def test_lines_until_the_container_ends(server: ApiServer, client: Client, container: Container) -> None:
    container.say(1, b"one", b"two")
    async with gathered(lines_of(client, LogRequest("default", "p", "main"))) as lines:
        await eventually(lambda: len(lines) == 2)
        container.say(2.5, b"three")
        await eventually(lambda: len(lines) == 3)
        assert lines[2].time == pytest.approx(START + 2.5, abs=1e-5)
    container.end()
    assert await texts(server) == ["one", "two", "three"]
    assert container.queries[0] == {"timestamps": "true", "container": "main", "follow": "true"}


@pytest.mark.parametrize("unsplit", [None, 0, 1 << 10, 1 << 21])
@pytest.mark.parametrize("seed", range(5))
async def test_no_line_is_lost_or_repeated_over_drops(
    seed: int, unsplit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal lines with equal timestamps too, and two streams that are a little out of order; as lines and as text."""
    monkeypatch.setattr(container_log, "MAX_UNSPLIT_BYTES", unsplit)
    chance = random.Random(seed)
    async with ApiServer() as server:
        container = Container(server)
        second, written = 1.0, []
        for number in range(300):
            second += chance.choice([0, 0, 0, 0.001, 0.4])
            text = chance.choice([b"same", b"same", f"line {number}".encode()])
            container.say(second - chance.choice([0, 0, 0.3]), text)
            written.append(text.decode())
        container.end()
        container.drops = [chance.randrange(0, 120) for _ in range(10)]
        assert (await texts(server) if unsplit is None else (await text_of(server)).splitlines()) == written
        assert not container.drops


KEY = (b"-----BEGIN RSA PRIVATE KEY-----", b"MIIEowIBAAKCAQEA", b"def==", b"-----END RSA PRIVATE KEY----- tail")
DAY = b"2026-11-21T07:00:01.5Z"
PRINTED = (
    b"plain", b"", "ü".encode(), b"\xff\xc3", b"HF_TOKEN=my-secret-value", b"\x1b[1mbold\x1b[0m token=abcdefgh",
    bar(1) + bar(2, ", loss=2.5"), DAY + bar(3) + bar(4), b"x" * 20_000, b"with a return\r", b"hf_AbCdEfGhIjKlMnOp.",
)  # fmt: skip


@pytest.mark.parametrize(("tail", "follow"), [(None, False), (3, False), (11, False), (None, True)])
async def test_the_text_of_a_log_is_that_of_its_lines(
    server: ApiServer, container: Container, tail: int | None, follow: bool
) -> None:
    """Over a dropped connection too, where it is followed."""
    container.say(1, *PRINTED, *PRINTED[:7])
    container.drops = [5] * follow
    if follow:
        container.end()
    else:
        container.draw(b"without an end")
    text = await text_of(server, tail=tail, follow=follow)
    assert text == "".join([f"{line}\n" for line in await texts(server, tail=tail, follow=follow)])
    assert container.queries[0].get("tailLines") == (None if tail is None else f"{tail}")
    assert follow is ("sinceTime" in container.queries[1])


@pytest.mark.parametrize("seed", range(20))
def test_it_does_not_matter_where_the_text_of_a_log_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    printed = [*PRINTED, b"y" * (MAX_LINE_BYTES + 9), b"end"]
    chance.shuffle(printed)
    data, at = b"".join([line + b"\n" for line in printed]), 0
    cutter, redactor, found = LineSplitter(stamped=False), Redactor(), b""
    while at < len(data):
        size = chance.choice([1, 30, 5000, 100_000])
        found += redactor.redact_text(cutter.feed_text(data[at : at + size]))
        at += size
    lines, redactor = LineSplitter(stamped=False).feed(data), Redactor()
    assert found.splitlines() == [redactor.redact_lines([b"- " + line])[0][2:] for line in lines]


async def test_a_clean_end_of_the_connection_is_not_the_end_of_the_container(
    client: Client, container: Container
) -> None:
    container.say(1, b"one")
    container.ended = True  # the connection ends, the container says that it runs
    async with gathered(lines_of(client, LogRequest("default", "p"))) as lines:
        await eventually(lambda: len(container.queries) >= 3)
        container.ended = False
        container.say(2, b"two")
        await eventually(lambda: [line.text for line in lines] == ["one", "two"])


async def test_what_is_printed_between_a_drop_and_the_end_is_read(server: ApiServer, container: Container) -> None:
    container.say(1, b"one")
    container.ended = True
    container.state = {"running": {}}

    async def describe(request: web.Request) -> web.StreamResponse:
        if container.state.get("running") is not None:
            container.say(5, b"last words")
            container.state = {"terminated": {"exitCode": 1}}
        return await container.describe(request)

    server.handlers[POD] = describe
    assert await texts(server) == ["one", "last words"]


async def test_a_tail_does_not_grow_backwards_over_a_drop(server: ApiServer, container: Container) -> None:
    container.say(1, b"old")
    container.say(1.1, b"older than the tail")
    container.say(1.2, b"a", b"b")
    container.end()
    container.drops = [1]
    assert await texts(server, tail=2) == ["a", "b"]


async def test_once_without_following(server: ApiServer, container: Container) -> None:
    container.say(1, b"one", b"two")
    assert await texts(server, follow=False, tail=1) == ["two"]
    assert await texts(server, follow=False, previous=True) == ["one", "two"]
    assert container.queries[-1]["previous"] == "true"


async def test_a_container_that_has_not_started_is_waited_for(server: ApiServer, container: Container) -> None:
    container.say(1, b"one")
    container.end()
    waiting = 'container "main" in pod "p" is waiting to start: ContainerCreating'
    server.refuse[f"{POD}/log"] = [status(400, waiting, reason="BadRequest") for _ in range(3)]
    assert await texts(server) == ["one"]
    server.refuse[f"{POD}/log"] = [status(400, waiting, reason="BadRequest")]
    with pytest.raises(Refused, match="waiting to start"):
        await texts(server, follow=False)


async def test_refusals_are_reported(server: ApiServer) -> None:
    server.refuse[f"{POD}/log"] = status(404, 'pods "p" not found', reason="NotFound")
    with pytest.raises(NotFound):
        await texts(server)
    server.refuse[f"{POD}/log"] = forbidden("pods/log")
    with pytest.raises(NotAllowed):
        await texts(server)
    server.refuse[f"{POD}/log"] = status(400, "container x is not valid for pod p", reason="BadRequest")
    with pytest.raises(Refused, match="not valid"):
        await texts(server)


async def test_a_pod_that_vanishes_ends_its_log(server: ApiServer, container: Container) -> None:
    container.say(1, b"one")
    container.ended = True
    server.refuse[POD] = status(404, 'pods "p" not found', reason="NotFound")
    assert await texts(server) == ["one"]


async def test_long_lines_and_bytes_that_are_no_text(server: ApiServer, container: Container) -> None:
    container.say(1, b"x" * 300_000, b"caf\xc3\xa9 \xff \xf0\x9f\x9a\x80", b"[red]progress\r", b"")
    container.end()
    long, odd, carriage, empty = await texts(server)
    assert len(long) == 300_000
    assert (odd, carriage, empty) == ("café � 🚀", "[red]progress", "")


async def test_ten_thousand_lines(server: ApiServer, container: Container) -> None:
    container.say(1, *(f"line {each}".encode() for each in range(10_000)))
    container.end()
    container.drops = [4321]
    assert await texts(server) == [f"line {each}" for each in range(10_000)]


async def test_a_log_that_was_rotated_while_it_could_not_be_read_has_a_gap(
    client: Client, container: Container
) -> None:
    container.say(1, b"one", b"two")
    container.drops = [2]
    stream = LogStream(client, LogRequest("default", "p"), backoff=QUICK)
    seen: list[bytes] = []

    async def read() -> None:
        async for batch in stream.batches():
            seen.extend(decode_line(raw) for _, raw in batch)
            if seen[-1] == b"two":
                container.lines = [(50.0, b"fifty")]
                container.end()

    container.say(1, b"cut in the middle")
    await asyncio.wait_for(read(), 60)
    assert seen == [b"one", b"two", b"fifty"]
    ((since, until),) = stream.gaps
    assert (round(since - START), round(until - START)) == (1, 50)
    assert stream.state == "ended"


async def test_a_container_that_is_started_anew_is_read_on_and_the_run_before_to_its_end(
    server: ApiServer, client: Client, container: Container
) -> None:
    container.say(1, b"one")
    container.ended = True
    before = [*container.lines, (2.0, b"last words")]
    restarts = 0

    async def describe(request: web.Request) -> web.StreamResponse:
        nonlocal restarts
        if restarts == 0:
            restarts, container.lines = 1, [(5.0, b"second life")]
        else:
            container.end()
        status = {"name": "main", "state": container.state, "restartCount": restarts}
        found = named("p", spec={"containers": [{"name": "main"}]}, status={"containerStatuses": [status]})
        return web.json_response(found)

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.query.get("previous") != "true":
            return await container.serve(request)
        lines = b"".join(f"{stamp(second)} ".encode() + text + b"\n" for second, text in before)
        return web.Response(body=lines)

    server.handlers[POD], server.handlers[f"{POD}/log"] = describe, serve
    stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
    seen = [decode_line(raw) async for batch in stream.batches() for _, raw in batch]
    assert seen == [b"one", b"last words", b"second life"]
    assert stream.gaps == []


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    cutter, start, lines = LineSplitter(), 0, []
    for end in [*sorted(cuts), len(data)]:
        lines += cutter.feed(data[start:end])
        start = max(start, end)
    return lines + cutter.flush()


@given(
    st.lists(st.binary(max_size=20).filter(lambda each: not {10, 13} & {*each} and each), max_size=8),
    st.lists(st.integers(0, 150)),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert cut(data, cuts) == lines


async def test_a_connection_that_ends_well_in_the_middle_of_a_line_gives_the_line_once(
    client: Client, container: Container
) -> None:
    container.drops, container.politely = [1], True
    container.say(1, b"one", b"two and a half")
    stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
    lines: list[bytes] = []
    async with gathered(stream.batches()) as batches:
        await eventually(lambda: sum(map(len, batches)) == 2)
        container.end()
        await eventually(lambda: stream.state is StreamState.ENDED)
        lines = [decode_line(raw) for batch in batches for _, raw in batch]
    assert lines == [b"one", b"two and a half"]


async def test_a_bar_is_seen_while_it_is_drawn_and_is_one_line_in_the_end(client: Client, container: Container) -> None:
    container.say(1, b"one")
    stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
    async with gathered(stream.batches()) as batches:
        await eventually(lambda: sum(map(len, batches)) == 1)
        container.draw(f"{stamp(2)} ".encode() + b"\r 10%|# | 1/9\r 20%|# | 2/9 hf_AbCdEfGhIjk\r")
        await eventually(lambda: stream.open_line)
        assert stream.open_line == " 20%|# | 2/9 ‹secret›".encode()
        container.draw(b"\r 30%|# | 3/9\r")
        await eventually(lambda: stream.open_line == b" 30%|# | 3/9")
        container.end()
        await eventually(lambda: stream.state is StreamState.ENDED)
        assert stream.open_line == b""
    assert [decode_line(raw) for batch in batches for _, raw in batch] == [b"one", b" 30%|# | 3/9"]


async def test_whoever_reads_one_log_sees_the_bar_too(client: Client, container: Container) -> None:
    async with gathered(read_text(client, LogRequest("default", "p", "main"), QUICK)) as texts:
        container.draw(f"{stamp(2)} ".encode() + b"\r 10%|# | 1/9\r")
        await eventually(lambda: texts == [("", " 10%|# | 1/9")])
        container.end()
        await eventually(lambda: len(texts) == 2)
    assert texts[1] == (" 10%|# | 1/9\n", "")


async def test_a_log_goes_on_in_another_session_where_it_was_left(server: ApiServer) -> None:
    container, memory = Container(server), ResumeCursor(is_whole_file=False)
    container.say(1, b"same")
    container.say(2, b"same", b"two")
    seen = []
    wanted = LogRequest("default", "p", "main", tail=10)
    async with server.client() as client, gathered(lines_of(client, wanted, cursor=memory)) as lines:
        await eventually(lambda: len(lines) == 3)
        seen += lines
    container.say(2, b"same")
    container.say(3, b"three")
    async with server.client() as client, gathered(lines_of(client, wanted, cursor=memory)) as lines:
        await eventually(lambda: len(lines) == 2)
        container.end()
        seen += lines
    assert [line.text for line in seen] == ["same", "same", "two", "same", "three"]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([bar(1) + bar(2), bar(3) + b"\r{'loss': 1.5}"], [bar(3)[1:], b"{'loss': 1.5}"]),
        ([bar(1) + bar(2), bar(3) + b"\rSaving."], [b"Saving."]),
        ([b"a" * 20_000, b"b" * 20_000], [b"a" * 20_000 + b"b" * 20_000]),
    ],
)
async def test_the_last_part_of_a_line_that_comes_again_is_no_line(parts: list[bytes], lines: list[bytes]) -> None:
    """A runtime writes long lines in parts with timestamps of their own, and `sinceTime` may fall between two."""
    first, second = (f"{stamp(at)} ".encode() for at in (1, 30))
    after = f"{stamp(30.1)} ".encode() + b"after\n"
    answers = [
        first + parts[0] + parts[1] + b"\n" + after,
        second + parts[1] + b"\n" + after + after.replace(b"after", b"more"),
    ]
    async with ApiServer() as server, server.client() as client:
        container = Container(server)

        async def serve(request: web.Request) -> web.StreamResponse:
            body = answers.pop(0) if answers else after
            if not answers:
                container.end()
            return web.Response(body=body)

        server.handlers[f"{POD}/log"] = serve
        stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
        seen = [decode_line(raw) async for batch in stream.batches() for _, raw in batch]
    assert seen == [*lines, b"after", b"more"]


async def test_a_pod_that_goes_while_nobody_can_read_its_log_may_have_printed_more(
    server: ApiServer, client: Client, container: Container
) -> None:
    container.say(1, b"one", b"two")
    container.drops = [1]
    stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
    async with aclosing(stream.batches()) as batches:
        assert [decode_line(raw) for _, raw in await anext(batches)] == [b"one"]
        gone = status(404, 'pods "p" not found', reason="NotFound")
        server.refuse |= {POD: gone, f"{POD}/log": gone}
        assert [batch async for batch in batches] == []
    assert stream.state is StreamState.CUT
    assert [since for since, _ in stream.gaps] == [pytest.approx(START + 1, abs=1e-5)]


async def test_all_go_on_once_the_server_has_answered_one_of_them(
    server: ApiServer, client: Client, container: Container
) -> None:
    patient, eager = (
        LogStream(
            client,
            LogRequest("default", "p", "main"),
            restarts=0,
            backoff=Backoff(first_seconds=first, max_seconds=first),
        )
        for first in (60.0, 0.02)
    )
    async with gathered(patient.batches()) as slow, gathered(eager.batches()) as quick:
        container.say(1, b"one")
        await eventually(lambda: slow and quick)
        await server.stop()
        await eventually(lambda: {patient.state, eager.state} == {StreamState.RECONNECTING})
        await asyncio.sleep(0.2)  # both have tried again, and wait
        await server.start()
        container.say(2, b"two")
        await eventually(lambda: len(slow) == len(quick) == 2)
        container.end()
        await eventually(lambda: patient.state is eager.state is StreamState.ENDED)


class StuckProxy:
    """Takes all bytes of both sides; while it is stuck it passes none on."""

    def __init__(self, port: int) -> None:
        self._port, self._tasks, self.held = port, set[asyncio.Task[None]](), 0
        self.passes = asyncio.Event()
        self.passes.set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._tasks |= {asyncio.create_task(self._pass(reader, back)), asyncio.create_task(self._pass(there, writer))}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1 << 16):
                self.held += not self.passes.is_set()
                await self.passes.wait()
                writer.write(piece)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_a_log_behind_a_proxy_that_got_stuck_is_complete_until_then_and_settles_before_it_is_judged(
    server: ApiServer,
) -> None:
    container, proxy = Container(server), StuckProxy(server.port)
    async with proxy as url, server.client(server=url) as client, gathered(_beats(client)):
        client.arrivals.quiet_seconds = 0.1
        stream = LogStream(client, LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
        async with gathered(stream.batches()) as batches:
            container.say(1, b"one")
            await eventually(lambda: batches and server.asked("/version"))
            proxy.passes.clear()
            await eventually(lambda: proxy.held and monotonic() > client.arrivals.last_at + 0.3)
            stuck = stream.complete_until
            assert (stuck, stream.state) == (client.arrivals.last_at, StreamState.LIVE)
            proxy.passes.set()
            await eventually(lambda: client.arrivals.last_at > stuck)
            assert stream.complete_until == stuck, "only answers to others have come"
            container.say(2, b"two")
            await eventually(lambda: len(batches) == 2)
            assert stream.complete_until == stuck, "more of what was printed may be on its way"


async def _beats(client: Client) -> AsyncGenerator[None]:
    await client.keep_alive(0.02)
    yield


async def test_a_log_that_breaks_after_each_line_is_asked_for_less_and_less_often() -> None:
    waits: list[float] = []

    async def rest(seconds: float) -> None:
        waits.append(seconds)

    policy = RetryPolicy(True, Backoff(first_seconds=1.0), rest, seen=True)
    for _ in range(6):
        policy.begin()
        policy.reset()  # a line has come
        await policy.wait_or_raise(Unreachable("broke"))
    assert len(waits) == 5
    assert waits[0] <= 2 < 4 <= waits[-1]


async def test_a_quiet_log_is_read_to_its_end_though_its_connection_was_made_anew(
    server: ApiServer, client: Client
) -> None:
    container, silences = Container(server), iter([0.05])
    container.say(1, b"one")

    class Quiet:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def follow(self, *path: Any, **how: Any) -> Any:
            return client.follow(*path, **{**how, "silence": next(silences, 60.0)})

    stream = LogStream(cast("Any", Quiet()), LogRequest("default", "p", "main"), restarts=0, backoff=QUICK)
    async with gathered(stream.batches()) as batches:
        await eventually(lambda: len(container.queries) == 2 and stream.state is StreamState.LIVE)
        server.refuse[POD] = server.refuse[f"{POD}/log"] = status(404, 'pods "p" not found', reason="NotFound")
        container.end()
        await eventually(lambda: stream.state in {StreamState.ENDED, StreamState.CUT})
    assert [decode_line(raw) for batch in batches for _, raw in batch] == [b"one"]
    assert (stream.state, stream.gaps) == (StreamState.ENDED, [])


PICTURES = (b"\r", b"\r", b"\n", b"x", b" ", b"| 1/9 [", b"| 2/9 [", b"%|", b"loss=", b"2026-11-21T12:00:00Z ")


@pytest.mark.slow(reason="many random examples")
@given(st.lists(st.sampled_from(PICTURES), max_size=40).map(b"".join), st.lists(st.integers(0, 150)))
def test_pictures_are_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert cut(data, cuts) == cut(data, [])
    assert not any(b"\r" in line for line in cut(data, cuts))


def test_of_a_progress_bar_its_last_picture_is_kept_and_seen_while_it_is_drawn() -> None:
    cutter = LineSplitter()
    assert cutter.feed(f"{stamp(0)} ".encode() + bar(1)[1:]) == []
    for step in range(2, 50):
        assert cutter.feed(bar(step) + b"\r" * step + bar(step)) == []
        assert cutter.open_line == bar(step)[1:]
        assert len(cutter._partial_line) < 100
    assert cutter.feed(b"\n") == [f"{stamp(0)} ".encode() + bar(49)[1:]]
    assert cutter.open_line == b""


def test_of_a_bar_that_tells_of_a_loss_each_step_is_kept_once_as_it_was_drawn_last() -> None:
    drawn = [bar(1, ", loss=9"), bar(2, ", loss=9"), bar(2, ", loss=4"), bar(3, ", loss=4"), bar(3, ", loss=1")]
    assert cut(b"".join(drawn) + b"\n", []) == [drawn[0][1:], drawn[2][1:], drawn[4][1:]]
    assert cut(b"".join(drawn) + b"\r   \rdone\n", []) == [drawn[0][1:], drawn[2][1:], drawn[4][1:], b"done"]


def test_the_bar_stays_over_which_a_loss_was_printed() -> None:
    line = bar(1) + bar(2) + b"\r{'loss': 1.5}\n" + bar(3) + b"\rSaving.\n"
    assert cut(line, []) == [bar(2)[1:], b"{'loss': 1.5}", b"Saving."]


@pytest.mark.parametrize("cuts", [[], list(range(0, MAX_LINE_BYTES, 65536))])
def test_a_line_beyond_all_bounds_is_cut_and_says_so(cuts: list[int]) -> None:
    data = b"before\n" + b"a" * (MAX_LINE_BYTES + 1000) + b"\nnext\n"
    zero, first, second = cut(data, cuts)
    assert zero == b"before"
    assert first.startswith(b"aaa")
    assert first.endswith("… (1000 bytes more)".encode())
    assert second == b"next"


def test_of_a_progress_bar_of_megabytes_the_last_picture_is_kept() -> None:
    pictures = b"".join(b"\r%d %%" % number + b" " * 5000 for number in range(1000))
    line = f"{stamp(0)} ".encode() + pictures
    (kept,) = cut(line + b"\n", list(range(0, len(line), 10_000)))
    assert split_timestamps([kept])[0][0] == START + 0.000000789
    assert decode_line(kept).startswith(b"999 %")
    assert len(kept) < 6000


@pytest.mark.parametrize("line", [b"no stamp here", b"", b"2026-11-21 12:00:00 mine", b"2026-99-99T99:99:99Z x"])
def test_a_line_without_a_timestamp(line: bytes) -> None:
    assert split_timestamps([line])[0][0] == 0.0


def test_timestamps_of_every_form() -> None:
    lines = [b"1970-01-01T00:00:01Z x", b"1970-01-01T00:00:01.5Z x", b"1970-01-01T01:00:01.250000000+01:00 x"]
    assert [time for time, _ in split_timestamps(lines)] == [1.0, 1.5, 1.25]
    assert decode_line(b"1970-01-01T00:00:01.5Z caf\xc3\xa9\r") == b"caf\xc3\xa9"
    assert decode_line(b"1970-01-01T00:00:01.5Z ") == b""


WORDS = (b"1970-01-01T00:00:01.5Z", b"2026-", b"T00:", b"1970-x 1-0T1x:", b" ", b"a line", b"x" * 30)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(b"".join), max_size=5))
def test_a_block_is_stripped_of_timestamps_as_its_lines_are(lines: list[bytes]) -> None:
    assert strip_timestamps(b"".join([line + b"\n" for line in lines])).split(b"\n")[:-1] == [*map(decode_line, lines)]


async def test_secrets_in_a_pods_log_are_blotted_out(server: ApiServer, container: Container) -> None:
    container.say(1, b"HF_TOKEN=hf_abcdefghijklmnop", b"loss 2.1")
    container.end()
    assert await texts(server) == ["HF_TOKEN=\u2039secret\u203a", "loss 2.1"]
