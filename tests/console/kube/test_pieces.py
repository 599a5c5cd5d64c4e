"""An answer that goes on, in whatever pieces it comes, with TLS and without."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from console.errors import ConsoleError, NotAllowed, Unreachable
from console.kube.api_errors import read_error_body
from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from tests.apiserver import ApiServer, eventually, forbidden, listening
from tests.certificates import make_certificate

LOG = "/api/v1/namespaces/default/pods/p/log"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def read(client: Client, silence: float = 10) -> bytes:
    async with client.follow(LOG, action="read", params={"follow": "true"}, silence=silence) as answer:
        return b"".join([piece async for piece in answer.iter_chunks()])


async def poured(client: Client, found: list[bytes], silence: float = 10) -> None:
    async with client.follow(LOG, action="read", params={"follow": "true"}, silence=silence) as answer:
        await answer.stream_to(found.append)


async def test_many_records_and_large_ones_over_tls(tmp_path: Path) -> None:
    sizes = [1, 100, 16_384, 16_385, 1 << 20, 7]
    body = [bytes([at % 256]) * size for at, size in enumerate(sizes * 2)]

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for each in body:
            await response.write(each)
        await response.write_eof()
        return response

    tls, authority = make_certificate(tmp_path, days=1)
    async with ApiServer(tls) as server, server.client(certificate_authority=str(authority)) as client:
        server.handlers[LOG] = answer
        assert await read(client) == b"".join(body)
        assert len(server.asked(LOG)) == 1


@pytest.mark.parametrize("secure", [False, True])
async def test_answers_that_never_end_wait_for_no_other(tmp_path: Path, secure: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(60)
        return response

    tls, authority = make_certificate(tmp_path, days=1) if secure else (None, "")
    async with ApiServer(tls) as server, server.client(certificate_authority=str(authority) or None) as client:
        server.handlers[LOG] = answer
        heard: set[int] = set()

        async def listen(number: int) -> None:
            async with client.follow(LOG, action="read", params={}, silence=60) as answer:
                await answer.stream_to(lambda _: heard.add(number))

        listening = [asyncio.create_task(listen(number)) for number in range(20)]
        await eventually(lambda: len(heard) == 20)
        for each in listening:
            each.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


async def test_what_is_refused_is_asked_for_once() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return forbidden("pods/log")

    async with ApiServer() as server, server.client() as client:
        server.handlers[LOG] = answer
        with pytest.raises(NotAllowed):
            await read(client)
        assert len(server.asked(LOG)) == 1


@asynccontextmanager
async def saying(*pieces: bytes, hold: bool = False) -> AsyncIterator[Client]:
    """A server that says just that to whoever asks, each piece in a packet of its own, and then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if hold:
            await reader.read()

    async with listening(serve) as port:
        client = Client(Login(Target("test", "anna", "default", Cluster(server=f"http://127.0.0.1:{port}"), User())))
        try:
            yield client
        finally:
            await client.close()


async def test_an_answer_byte_by_byte() -> None:
    whole = HEAD + chunked([b"one\n", b"two\n"])
    async with saying(*(bytes([each]) for each in whole)) as client:
        assert await read(client) == b"one\ntwo\n"


@pytest.mark.parametrize("end", [b"", b"5\r\nthr"])
async def test_one_that_breaks_off_gives_what_came_and_says_so(end: bytes) -> None:
    found: list[bytes] = []
    async with saying(HEAD + b"4\r\none\n\r\n" + end) as client:
        with pytest.raises(Unreachable, match="the connection was lost"):
            await poured(client, found)
    assert b"".join(found) == b"one\n" + end[3:]


@pytest.mark.parametrize("poured_out", [False, True])
async def test_many_that_break_off_together_have_not_ended_well(poured_out: bool) -> None:
    async with saying(HEAD + b"5\r\nthr") as client:

        async def broken() -> str:
            with pytest.raises(Unreachable) as caught:
                await (poured(client, []) if poured_out else read(client))
            return caught.value.message

        said = await asyncio.gather(*(broken() for _ in range(20)))
        assert all("the connection was lost" in each for each in said), said


async def test_one_without_chunks_ends_with_the_connection_or_by_its_length() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n\r\n", b"one\n", b"two\n") as client:
        assert await read(client) == b"one\ntwo\n"
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", b"one\n", hold=True) as client:
        assert await read(client) == b"one\n"


async def test_one_that_falls_silent_is_given_up() -> None:
    async with saying(HEAD, b"4\r\none\n\r\n", hold=True) as client:
        with pytest.raises(Unreachable, match="did not answer in time"):
            await read(client, silence=0.05)


async def test_nothing_is_asked_once_the_connections_are_closed() -> None:
    async with saying(HEAD, hold=True) as client:
        reading = asyncio.create_task(read(client))
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(Unreachable, match="the connection was lost"):
            await reading
        with pytest.raises(ConsoleError, match="was closed"):
            await read(client)


async def test_what_goes_wrong_with_the_bytes_is_raised_and_ends_the_answer() -> None:
    def refuse(piece: bytes) -> None:
        raise ValueError(piece)

    async with (
        saying(HEAD, b"4\r\none\n\r\n", hold=True) as client,
        client.follow(LOG, action="read", params={}, silence=10) as answer,
    ):
        with pytest.raises(ValueError, match="one"):
            await answer.stream_to(refuse)


@pytest.mark.slow(reason="waits for a reader that is slow")
async def test_a_reader_that_is_slow_keeps_the_server_waiting_and_gets_all() -> None:
    body, sent = b"x" * 65_536, 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(256):
            await response.write(body)
            sent += len(body)
        return response

    async with ApiServer() as server, server.client() as client:
        server.handlers[LOG] = answer
        async with client.follow(LOG, action="read", params={}, silence=10) as slow:
            await asyncio.sleep(0.3)
            before = sent
            await asyncio.sleep(0.3)
            assert before == sent < 256 * len(body)
            assert await read_error_body(slow.iter_chunks(), 1 << 30) == 256 * body
