"""An API server that lies: answers without end, redirects, broken JSON. Each ends in words, and nothing goes elsewhere.

A new attack is a row of `BODIES` (what a request gets) or `LINES` (what a watch gets).
"""

import asyncio
import random
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from console.errors import BadKubeconfig, ConsoleError, Refused, Unreachable, Unreadable
from console.kube import exec as executing
from console.kube.backoff import Backoff
from console.kube.client import Client
from console.kube.kubeconfig import User, load
from console.kube.objects.pod import PodSchema, parse_pod
from console.kube.raw_connection import open_connection
from console.kube.watch import Change, Disconnected, HttpSource, Listed, ObjectUnparsable, follow_kind
from console.kube.watched_kinds import KindReader
from console.launch.helm import Helm
from console.preflight.check import CheckContext, CheckedCluster, LaunchNeeds, SharedRequests
from tests.apiserver import ApiServer, listening
from tests.hostile.lying_api import pages_without_end

PATH = "/api/v1/pods"


def pods(client: Client) -> AsyncGenerator[Change, None]:
    """The changes of all pods."""
    return follow_kind(HttpSource(client, PATH, "pods"), KindReader(PodSchema, parse_pod), Backoff(first_seconds=0))


MEMORY = 300 << 20
DEEP = b"[" * 100_000
POD = b'{"metadata": {"name": "good", "namespace": "n"}}'
BAD_TEXT = b'{"metadata": {"name": "\xff\xfe", "namespace": "n"}}'
PIECE = b"x" * (1 << 20)


@asynccontextmanager
async def limited() -> AsyncIterator[None]:
    """What happens inside takes at most 10 s and 300 MiB."""
    tracemalloc.start()
    try:
        async with asyncio.timeout(10):
            yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def endless(start: bytes, piece: bytes = PIECE, *, status: int = 200, **headers: str) -> Callable[..., object]:
    """An answer without end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        with suppress(ConnectionError):
            await response.write(start)
            for _ in range(2000):
                await response.write(piece)
        return response

    return answer


def body(data: bytes, *, status: int = 200, **headers: str) -> Callable[..., object]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=data, status=status, headers=headers)

    return answer


def bomb() -> bytes:
    """A gigabyte of zeros in a megabyte of gzip, of one compressed mebibyte: compressing all takes seconds."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    start, checksum, size = "1f8b0800000000000003", 0x5B64C2B0, 1 << 30
    end = packer.flush() + checksum.to_bytes(4, "little") + size.to_bytes(4, "little")
    return bytes.fromhex(start) + piece * (size >> 20) + end


BODIES: dict[str, Callable[..., object]] = {
    "a list without end": endless(b'{"items": ["'),
    "a refusal without end": endless(b"no", status=403),
    "a failure without end": endless(b"no", status=500),
    "a gigabyte of zeros in a megabyte": body(bomb(), **{"Content-Encoding": "gzip"}),  # type: ignore[arg-type]
    "nesting without end": body(DEEP),
    "nesting without end in an object": body(b'{"items": [{"metadata": ' + DEEP),
    "no UTF-8": body(b'{"items": "\xff"}'),
    "a refusal that is no UTF-8": body(b'{"message": "\xff"}', status=404),
    "a refusal nested without end": body(DEEP, status=404),
    "a number without end": body(b'{"items": [], "metadata": {"resourceVersion": ' + b"9" * 100_000 + b"}}"),
    "nothing": body(b""),
    "a page of HTML": body(b"<html><body>login</body></html>"),
    "an unknown status": body(b"{}", status=299 + 400),
    "too many requests, for ever": body(b"slow down", status=429, **{"Retry-After": "1"}),
    "random bytes": body(random.Random(1).randbytes(1 << 16)),
    "only a failure of the server": body(b"", status=503),
}


@pytest.mark.slow(reason="waits until something that never ends is given up")
@pytest.mark.parametrize("attack", BODIES)
async def test_a_list_ends_in_words(attack: str) -> None:
    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = BODIES[attack]  # type: ignore[assignment]
        async with limited(), aclosing(pods(client)) as changes:
            async for change in changes:
                assert isinstance(change, Disconnected)
                assert isinstance(change.error, Refused | Unreachable | Unreadable)
                assert len(str(change.error)) < 2000
                break


@pytest.mark.slow(reason="waits until something that never ends is given up")
async def test_many_lists_without_end_at_once_do_not_fill_the_memory() -> None:
    """What is beyond a few MiB of each is read one after the other."""
    async with ApiServer(secure=True) as server, server.client() as client:
        paths = [f"/api/v1/kind{number}" for number in range(6)]
        for path in paths:
            server.handlers[path] = endless(b'{"items": ["')  # type: ignore[assignment]

        async def refused(path: str) -> None:
            with pytest.raises(Unreadable, match="more than 32 MiB"):
                await client.request("GET", path, action="list them")

        async with limited():
            await asyncio.gather(*map(refused, paths))


PAGES: dict[str, tuple[Any, int, str]] = {
    "more pages than a list has that counts nothing": (pages_without_end(), 10, "5,000 objects so far, and not said"),
    "as many to come as before": (pages_without_end(remainingItemCount=100_000), 12, "100,500 objects were announced"),
    "more to come than are read": (
        pages_without_end(remainingItemCount=10**9),
        1,
        "1,000,000,500 objects are announced",
    ),
    "a page that is its own next": (pages_without_end(**{"continue": "more"}), 2, "a page is followed by itself"),
    "a page without objects": (
        body(b'{"metadata": {"continue": "more"}}'),
        1,
        "without objects is followed by another",
    ),
}
"""Lists whose every page names another; after how many pages they are given up, and why."""


@pytest.mark.slow(reason="waits until something that never ends is given up")
@pytest.mark.parametrize("attack", PAGES)
async def test_a_list_of_pages_without_end_is_given_up(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.watch.MAX_UNCOUNTED_PAGES", 10)
    answer, pages, why = PAGES[attack]
    read = 0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal read
        read += 1
        answered: web.StreamResponse = await answer(request)
        return answered

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = counted
        async with limited(), aclosing(pods(client)) as changes:
            async for change in changes:
                if isinstance(change, Disconnected):
                    assert f"The list of pods of the API server {client.login.server} does not end" in str(change.error)
                    assert why in str(change.error)
                    break
    assert read - pages in {0, 1}  # the next one may be on its way


async def test_a_list_of_more_bytes_than_a_cluster_has_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.watch.MAX_LIST_BYTES", 100_000)
    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = pages_without_end()
        async with limited(), aclosing(pods(client)) as changes:
            lost = await anext(change async for change in changes if isinstance(change, Disconnected))
    assert "does not end" in str(lost.error)


async def test_a_list_that_says_how_many_are_to_come_may_have_more_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cluster that grows while it is listed, too."""
    monkeypatch.setattr("console.kube.watch.MAX_UNCOUNTED_PAGES", 3)
    number = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal number
        number += 1
        to_come = 40 * (20 - number) + number
        meta = {"continue": f"{number}", "remainingItemCount": to_come} if number < 20 else {}
        items = [{"metadata": {"name": f"p{number}-{each}", "namespace": "n"}} for each in range(40)]
        return web.json_response({"metadata": {"resourceVersion": "1", **meta}, "items": items})

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = answer
        async with limited(), aclosing(pods(client)) as changes:
            async for change in changes:
                assert not isinstance(change, Disconnected)
                if isinstance(change, Listed):
                    assert len(change.objects) == 800
                    break


def event(data: bytes) -> bytes:
    return b'{"type": "ADDED", "object": ' + data + b"}\n"


LINES = {
    "no UTF-8": event(BAD_TEXT),
    "nesting without end": event(b'{"metadata": {"name": "deep", "namespace": "n"}, "spec": ' + DEEP + b"}"),
    "no object": event(b"7"),
    "no event": b"7\n",
    "half a line": b'{"type": "ADD\n',
    "a name that is a number": event(b'{"metadata": {"name": 7}}'),
}


@pytest.mark.parametrize("attack", LINES)
async def test_one_bad_line_of_a_watch_costs_no_more_than_itself(attack: str) -> None:
    """The console goes on: the next object comes, by the same watch or by a new list."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(body=b'{"metadata": {"resourceVersion": "1"}, "items": [' + POD + b"]}")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LINES[attack] + event(POD.replace(b"good", b"next")))
        return response

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = answer
        seen: list[str] = []
        async with (
            limited(),
            aclosing(
                follow_kind(
                    HttpSource(client, PATH, "pods"), KindReader(PodSchema, parse_pod), Backoff(first_seconds=0)
                )
            ) as changes,
        ):
            async for change in changes:
                seen.append(type(change).__name__)
                if isinstance(change, Disconnected | ObjectUnparsable) or seen.count("Listed") > 1 or "Changed" in seen:
                    break
        assert "Listed" in seen


async def test_a_list_with_one_bad_object_keeps_the_others() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b'{"metadata": {}, "items": [' + POD + b"," + BAD_TEXT + b"]}")

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers[PATH] = answer
        async with aclosing(pods(client)) as changes:
            listed = await anext(change async for change in changes if isinstance(change, Listed))
        assert ("n", "good") in listed.objects
        assert len(listed.unreadable) == 1


async def test_a_line_of_a_watch_without_end_is_given_up() -> None:
    async with ApiServer(secure=True) as server, server.client() as client:

        async def answer(request: web.Request) -> object:
            if "watch" not in request.query:
                return web.Response(body=b'{"metadata": {"resourceVersion": "1"}, "items": []}')
            return await endless(b'{"type": "')(request)  # type: ignore[misc]

        server.handlers[PATH] = answer  # type: ignore[assignment]
        async with (
            limited(),
            aclosing(
                follow_kind(
                    HttpSource(client, PATH, "pods"), KindReader(PodSchema, parse_pod), Backoff(first_seconds=0)
                )
            ) as changes,
        ):
            async for change in changes:
                if isinstance(change, Disconnected):
                    assert "longer than" in str(change.error)
                    break


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
async def test_a_redirect_is_no_success_and_is_not_followed(status: int) -> None:
    async with ApiServer(secure=True) as server, ApiServer() as other, server.client(User(token="secret")) as client:
        there = {"Location": f"{other.url}{PATH}"}
        server.handlers[PATH] = body(b"{}", status=status, **there)  # type: ignore[assignment]
        for method in ("GET", "DELETE", "PATCH", "POST"):
            with pytest.raises(Refused, match=f"answers {status}, a redirect"):
                await client.request(method, PATH, action="try it", body=None if method == "GET" else b"{}")
        with pytest.raises(Refused):
            async with client.follow(PATH, action="try it", params={}, silence=5):
                pass
        assert other.requests == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_exec_is_not_carried_elsewhere(status: int) -> None:
    async with ApiServer(secure=True) as server, ApiServer() as other, server.client(User(token="secret")) as client:
        path = "/api/v1/namespaces/n/pods/p/exec"
        server.handlers[path] = body(b"", status=status, Location=f"{other.url}{path}")  # type: ignore[assignment]
        with pytest.raises(ConsoleError, match="a redirect to another address"):
            await executing.run(client, "n", "p", ["cat"], lambda *_: None, stdin=b"secret input")
        assert other.requests == []


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_helm_takes_no_login_elsewhere(status: int, secure: bool) -> None:
    async with ApiServer(secure=True) as server, ApiServer(secure=secure) as other:
        for path in ("/version", "/api/v1/namespaces/default/secrets"):
            there = {"Location": f"{other.url}{path}"}
            server.handlers[path] = body(b"", status=status, **there)  # type: ignore[assignment]
        helm = Helm(server.login(User(token="secret")))
        with pytest.raises(Refused, match=f"a redirect to .*127.0.0.1:{other.port}"):
            await helm.list_releases("a4", "default")
        assert {each.headers["Authorization"] for each in server.requests} == {"Bearer secret"}
        assert other.requests == []


async def test_no_login_goes_over_plain_http() -> None:
    async with ApiServer() as server:
        for user in (User(token="secret"), User(username="anna", password="secret")):
            async with server.client(user) as client:
                await client.request("GET", "/version", action="ask")
                async with client.follow("/version", action="ask", params={}, silence=5):
                    pass
            async with open_connection(server.login(user), "ask") as wire:
                await wire.get("/version")
        assert len(server.requests) == 6
        await Helm(server.login(User(token="secret"))).list_releases("a4", "default")
        assert len(server.requests) > 6
        assert {each.headers.get("Authorization") for each in server.requests} == {None}


async def test_a_message_of_a_command_without_end_is_given_up() -> None:
    async def answer(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=executing.PROTOCOLS)
        await socket.prepare(request)
        with suppress(ConnectionError):
            await socket.send_bytes(b"\1" + bytes(20 << 20))
        return socket

    async with ApiServer(secure=True) as server, server.client() as client:
        server.handlers["/api/v1/namespaces/n/pods/p/exec"] = answer
        got = 0

        def more(_: int, data: bytes) -> None:
            nonlocal got
            got += len(data)

        with pytest.raises(Unreachable):
            await executing.run(client, "n", "p", ["cat"], more)
        assert got < 8 << 20


HEADS = {
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "a length of words": b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
    "a length of a terabyte": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
    "a negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    "a chunk of words": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunks without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + PIECE + b"\r\n",
    "a body without end": b"HTTP/1.1 200 OK\r\n\r\n",
    "headers without end": b"HTTP/1.1 200 OK\r\nX: ",
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
}


@pytest.mark.parametrize("attack", HEADS)
async def test_a_tunnels_request_ends_in_words(attack: str) -> None:
    again = b"100000\r\n" + PIECE + b"\r\n" if attack == "chunks without end" else PIECE

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEADS[attack])
        for _ in range(100 if "without end" in attack else 0):
            writer.write(again)
            await writer.drain()
        writer.write_eof()
        await reader.read()

    async with ApiServer() as known, listening(serve) as port:
        login = known.login()
        login.server = f"http://127.0.0.1:{port}"
        async with limited():
            with pytest.raises(Unreachable):
                async with open_connection(login, "look at pod p") as wire:
                    await wire.get("/api/v1/namespaces/n/pods/p")


async def test_a_server_that_says_nothing_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.raw_connection.WHOLE_RESPONSE_TIMEOUT", 0.2)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for __ in range(50):  # a byte at a time
            writer.write(b"H")
            await asyncio.sleep(0.05)

    async with ApiServer() as known, listening(serve) as port:
        login = known.login()
        login.server = f"http://127.0.0.1:{port}"
        with pytest.raises(Unreachable, match="look at pod p"):
            async with open_connection(login, "look at pod p") as wire:
                await wire.get("/api/v1/namespaces/n/pods/p")


def test_a_password_in_the_servers_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://anna:PLANTED@api.example'}}]\n"
    )
    with pytest.raises(BadKubeconfig) as told:
        load(path).target()
    assert "PLANTED" not in f"{told.value}{told.value.hint}"


async def test_of_a_list_that_was_asked_for_in_part_no_more_is_read() -> None:
    """A server may send all nodes where the names of two were asked for."""
    node = b'{"metadata": {"name": "n%d", "labels": {"block": "b%d", "zone": "z"}}}'
    nodes = b'{"items": [' + b",".join(node % (number, number) for number in range(20_000)) + b"]}"
    async with ApiServer() as server, server.client() as client:
        server.handlers["/api/v1/nodes"] = body(nodes)  # type: ignore[assignment]
        watch: Any = SimpleNamespace(current_connection=SimpleNamespace(client=client))
        context = CheckContext(SharedRequests(CheckedCluster(watch, cast("Any", None))), LaunchNeeds("default"))
        tracemalloc.start()
        try:
            assert await context.list_names("/api/v1/nodes", "nodes", 2) == ("n0", "n1")
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
