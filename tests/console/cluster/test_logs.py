"""Following a log over everything that can interrupt it."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from console.cluster.logs import LogStream, Wanted, follow_log
from console.cluster.watch import Backoff
from console.errors import NotAllowed, NotFound, Refused
from console.parsers.stamps import LONGEST, LineCutter, moment_of, text_of
from console.parsers.timestamp import parse_time
from tests.apiserver import ApiServer, eventually, forbidden, gathered, named, status

POD = "/api/v1/namespaces/default/pods/p"
QUICK = Backoff(first=0.01, most=0.02, refused=0.02)
START = datetime(2026, 11, 21, 7, 0, tzinfo=UTC).timestamp()


def stamp(second: float) -> str:
    return datetime.fromtimestamp(START + second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"


class Container:
    """A log as the kubelet serves it: whole seconds in sinceTime, follow until it has ended."""

    def __init__(self, server: ApiServer) -> None:
        self.lines: list[tuple[float, bytes]] = []
        self.ended = False
        self.drops: list[int] = []
        """After so many lines of a connection, it breaks off in the middle of the next."""
        self.queries: list[dict[str, str]] = []
        self.state: dict[str, Any] = {"running": {"startedAt": "2026-11-21T07:00:00Z"}}
        self._more = asyncio.Event()
        server.handlers[f"{POD}/log"] = self.serve
        server.handlers[POD] = self.describe

    def say(self, second: float, *texts: bytes) -> None:
        self.lines += [(second, text) for text in texts]
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
        sent, at = 0, max(0, start)
        while True:
            for second, text in self.lines[at:]:
                at += 1
                if second < since:
                    continue
                line = f"{stamp(second)} ".encode() + text + b"\n"
                if sent == drop:
                    await answer.write(line[: len(line) // 2])
                    assert request.transport is not None
                    request.transport.abort()
                    return answer
                await answer.write(line)
                sent += 1
            if self.ended or request.query.get("follow") != "true":
                return answer
            self._more.clear()
            await self._more.wait()


async def texts(server: ApiServer, **wanted: Any) -> list[str]:
    async with server.client() as client, asyncio.timeout(10):
        return [line.text async for line in follow_log(client, Wanted("default", "p", **wanted), QUICK)]


async def test_lines_until_the_container_ends() -> None:
    async with ApiServer() as server, server.client() as client:
        container = Container(server)
        container.say(1, b"one", b"two")
        async with gathered(follow_log(client, Wanted("default", "p", "main"), QUICK)) as lines:
            await eventually(lambda: len(lines) == 2)
            container.say(2.5, b"three")
            await eventually(lambda: len(lines) == 3)
            assert lines[2].time == pytest.approx(START + 2.5, abs=1e-5)
        container.end()
        assert await texts(server) == ["one", "two", "three"]
        assert container.queries[0] == {"timestamps": "true", "container": "main", "follow": "true"}


@pytest.mark.parametrize("seed", range(5))
async def test_no_line_is_lost_or_repeated_over_drops(seed: int) -> None:
    """Equal lines with equal timestamps too, and two streams that are a little out of order."""
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
        assert await texts(server) == written


async def test_a_clean_end_of_the_connection_is_not_the_end_of_the_container() -> None:
    async with ApiServer() as server, server.client() as client:
        container = Container(server)
        container.say(1, b"one")
        container.ended = True  # the connection ends, the container says that it runs
        async with gathered(follow_log(client, Wanted("default", "p"), QUICK)) as lines:
            await eventually(lambda: len(container.queries) >= 3)
            container.ended = False
            container.say(2, b"two")
            await eventually(lambda: [line.text for line in lines] == ["one", "two"])


async def test_what_is_printed_between_a_drop_and_the_end_is_read() -> None:
    async with ApiServer() as server:
        container = Container(server)
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


async def test_a_tail_does_not_grow_backwards_over_a_drop() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"old")
        container.say(1.1, b"older than the tail")
        container.say(1.2, b"a", b"b")
        container.end()
        container.drops = [1]
        assert await texts(server, tail=2) == ["a", "b"]


async def test_since_is_exact() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1.2, b"before")
        container.say(1.6, b"after")
        container.end()
        assert await texts(server, since=START + 1.5) == ["after"]


async def test_once_without_following() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"one", b"two")
        assert await texts(server, follow=False, tail=1) == ["two"]
        assert await texts(server, follow=False, previous=True) == ["one", "two"]
        assert container.queries[-1]["previous"] == "true"


async def test_a_container_that_has_not_started_is_waited_for() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"one")
        container.end()
        waiting = 'container "main" in pod "p" is waiting to start: ContainerCreating'
        server.refuse[f"{POD}/log"] = [status(400, waiting, reason="BadRequest") for _ in range(3)]
        assert await texts(server) == ["one"]
        server.refuse[f"{POD}/log"] = [status(400, waiting, reason="BadRequest")]
        with pytest.raises(Refused, match="waiting to start"):
            await texts(server, follow=False)


async def test_refusals_are_told() -> None:
    async with ApiServer() as server:
        server.refuse[f"{POD}/log"] = status(404, 'pods "p" not found', reason="NotFound")
        with pytest.raises(NotFound):
            await texts(server)
        server.refuse[f"{POD}/log"] = forbidden("pods/log")
        with pytest.raises(NotAllowed):
            await texts(server)
        server.refuse[f"{POD}/log"] = status(400, "container x is not valid for pod p", reason="BadRequest")
        with pytest.raises(Refused, match="not valid"):
            await texts(server)


async def test_a_pod_that_vanishes_ends_its_log() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"one")
        container.ended = True
        server.refuse[POD] = status(404, 'pods "p" not found', reason="NotFound")
        assert await texts(server) == ["one"]


async def test_long_lines_and_bytes_that_are_no_text() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"x" * 300_000, b"caf\xc3\xa9 \xff \xf0\x9f\x9a\x80", b"[red]progress\r", b"")
        container.end()
        long, odd, carriage, empty = await texts(server)
        assert len(long) == 300_000
        assert (odd, carriage, empty) == ("café � 🚀", "[red]progress", "")


async def test_ten_thousand_lines() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, *(f"line {each}".encode() for each in range(10_000)))
        container.end()
        container.drops = [4321]
        assert await texts(server) == [f"line {each}" for each in range(10_000)]


async def test_a_log_that_was_rotated_while_it_could_not_be_read_has_a_gap() -> None:
    async with ApiServer() as server, server.client() as client:
        container = Container(server)
        container.say(1, b"one", b"two")
        container.drops = [2]
        stream = LogStream(client, Wanted("default", "p"), backoff=QUICK)
        seen: list[bytes] = []

        async def read() -> None:
            async for batch in stream.batches():
                seen.extend(text_of(raw) for _, raw in batch)
                if seen[-1] == b"two":
                    container.lines = [(50.0, b"fifty")]
                    container.end()

        container.say(1, b"cut in the middle")
        await asyncio.wait_for(read(), 10)
        assert seen == [b"one", b"two", b"fifty"]
        ((since, until),) = stream.gaps
        assert (round(since - START), round(until - START)) == (1, 50)
        assert stream.state == "ended"


async def test_a_container_that_is_started_anew_is_read_on_and_the_run_before_to_its_end() -> None:
    async with ApiServer() as server, server.client() as client:
        container = Container(server)
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
        stream = LogStream(client, Wanted("default", "p", "main"), restarts=0, backoff=QUICK)
        seen = [text_of(raw) async for batch in stream.batches() for _, raw in batch]
        assert seen == [b"one", b"last words", b"second life"]
        assert stream.gaps == []


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    cutter, start, lines = LineCutter(), 0, []
    for end in [*sorted(cuts), len(data)]:
        lines += cutter.feed(data[start:end])
        start = max(start, end)
    return lines + cutter.end()


@given(
    st.lists(st.binary(max_size=20).filter(lambda each: b"\n" not in each and each), max_size=8),
    st.lists(st.integers(0, 150)),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert cut(data, cuts) == lines


@pytest.mark.parametrize("cuts", [[], list(range(0, LONGEST, 65536))])
def test_a_line_beyond_all_bounds_is_cut_and_says_so(cuts: list[int]) -> None:
    data = b"before\n" + b"a" * (LONGEST + 1000) + b"\nnext\n"
    zero, first, second = cut(data, cuts)
    assert zero == b"before"
    assert first.startswith(b"aaa")
    assert first.endswith("… (1000 bytes more)".encode())
    assert second == b"next"


def test_of_a_progress_bar_of_megabytes_the_last_picture_is_kept() -> None:
    pictures = b"".join(b"\r%d %%" % number + b" " * 5000 for number in range(1000))
    line = f"{stamp(0)} ".encode() + pictures
    (kept,) = cut(line + b"\n", list(range(0, len(line), 10_000)))
    assert moment_of(kept) == START + 0.000000789
    assert text_of(kept).split(b"\r")[-1].startswith(b"999 %")
    assert len(kept) <= LONGEST


@pytest.mark.parametrize("line", [b"no stamp here", b"", b"2026-11-21 12:00:00 mine", b"2026-99-99T99:99:99Z x"])
def test_a_line_without_a_timestamp(line: bytes) -> None:
    assert moment_of(line) == 0.0


def test_timestamps_of_every_form() -> None:
    assert moment_of(b"1970-01-01T00:00:01Z x") == 1.0
    assert moment_of(b"1970-01-01T00:00:01.5Z x") == 1.5
    assert moment_of(b"1970-01-01T01:00:01.250000000+01:00 x") == 1.25
    assert text_of(b"1970-01-01T00:00:01.5Z caf\xc3\xa9\r") == b"caf\xc3\xa9"
    assert text_of(b"1970-01-01T00:00:01.5Z ") == b""


async def test_secrets_in_a_pods_log_are_blotted_out() -> None:
    async with ApiServer() as server:
        container = Container(server)
        container.say(1, b"HF_TOKEN=hf_abcdefghijklmnop", b"loss 2.1")
        container.end()
        assert await texts(server) == ["HF_TOKEN=\u2039secret\u203a", "loss 2.1"]
