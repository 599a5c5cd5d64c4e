import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from console.errors import BadKubeconfig, ConsoleError, NotAllowed, NotFound, Refused, Unreachable
from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from tests.apiserver import ApiServer, forbidden, status
from tests.certificates import make_certificate


async def failing(client: Client, path: str = "/version") -> ConsoleError:
    with pytest.raises(ConsoleError) as caught:
        await client.request("GET", path, action="ask")
    return caught.value


async def unreachable(server: str, **cluster: Any) -> ConsoleError:
    client = Client(Login(Target("x", "u", "d", Cluster(server=server, **cluster), User())))
    try:
        return await failing(client)
    finally:
        await client.close()


async def test_bytes_come_as_they_are() -> None:
    async with ApiServer(secure=True) as server, server.client(User(token="t")) as client:
        assert await client.request("GET", "/version", action="ask") == b'{"gitVersion": "v1.36.4-test"}'
        assert [each.headers["Authorization"] for each in server.requests] == ["Bearer t"]
        assert {each.headers.get("Accept-Encoding", "identity") for each in server.requests} == {"identity"}


async def test_nothing_is_asked_of_a_client_that_is_closed(server: ApiServer, client: Client) -> None:
    await client.request("GET", "/version", action="ask")
    await client.close()
    assert (await failing(client)).message == "The connection to this cluster was closed."
    with pytest.raises(ConsoleError, match="was closed"):
        async with client.websocket("/exec", action="open a shell", params=(), protocols=("v5.channel.k8s.io",)):
            pass
    assert len(server.requests) == 1


@pytest.mark.slow(reason="waits as long as a server asks for")
async def test_429_is_waited_for(server: ApiServer, client: Client) -> None:
    server.refuse["/version"] = [status(429, "too many", headers={"Retry-After": "1"})]
    started = asyncio.get_running_loop().time()
    assert await client.request("GET", "/version", action="ask")
    assert asyncio.get_running_loop().time() - started >= 1
    assert len(server.requests) == 2


async def test_a_port_where_nothing_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    error = await unreachable(f"http://127.0.0.1:{port}")
    assert isinstance(error, Unreachable)
    assert f"http://127.0.0.1:{port} cannot be reached: nothing answers there (connection refused)" in error.message


async def test_a_name_that_does_not_exist() -> None:
    error = await unreachable("https://no-such-host.invalid")
    assert isinstance(error, Unreachable)
    assert "its name cannot be resolved" in error.message


async def test_an_address_that_is_none() -> None:
    assert isinstance(await unreachable("nonsense"), BadKubeconfig)


async def test_a_connection_that_breaks_off_in_the_body() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "1000"})
        await answer.prepare(request)
        await answer.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return answer

    async with ApiServer() as server, server.client() as client:
        server.handlers["/version"] = breaks
        error = await failing(client)
        assert isinstance(error, Unreachable)
        assert "the connection was lost" in error.message


async def test_a_server_that_says_nothing() -> None:
    async def waits(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with ApiServer() as server, server.client() as client:
        server.handlers["/version"] = waits
        with pytest.raises(Unreachable, match="did not answer in time"):
            await client.request("GET", "/version", action="ask", silence=0.1)


async def test_tls_where_there_is_none(server: ApiServer) -> None:
    error = await unreachable(server.url.replace("http:", "https:"))
    assert isinstance(error, Unreachable)
    assert "TLS failed" in error.message


REFUSALS: dict[str, tuple[Any, type[ConsoleError], dict[str, object]]] = {
    "403": (forbidden("pods"), NotAllowed, {"hint": "Ask for `list pods`.", "exit_code": 3}),
    "404": (status(404, "no pod", reason="NotFound"), NotFound, {"reason": "NotFound"}),
    "429 with a long wait": (status(429, "busy", headers={"Retry-After": "600"}), Refused, {"retry_after": 600}),
    "500": (status(500, "etcd is on holiday"), Unreachable, {"exit_code": 4}),
    "503": (status(503, "etcd is on holiday"), Unreachable, {"exit_code": 4}),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_a_refusal_is_an_error_of_its_kind(what: str) -> None:
    answer, kind, facts = REFUSALS[what]
    async with ApiServer() as server, server.client() as client:
        server.refuse["/x"] = answer
        error = await failing(client, "/x")
        assert isinstance(error, kind)
        assert {name: getattr(error, name) for name in facts} == facts
        assert len(server.requests) == 1
        assert kind is not Unreachable or "etcd is on holiday" in error.message


@pytest.mark.parametrize(
    ("days", "known", "words"),
    [
        (1, True, ""),
        (-1, True, "cannot be reached: its certificate has expired."),
        (1, False, "is not from the authority in the kubeconfig"),
    ],
)
async def test_the_certificate_of_the_server(tmp_path: Path, days: int, known: bool, words: str) -> None:
    tls, authority = make_certificate(tmp_path, days=days)
    trusts: dict[str, Any] = {"certificate_authority": str(authority)} if known else {}
    async with ApiServer(tls) as server, server.client(insecure_skip_tls_verify=True) as insecure:
        assert await insecure.request("GET", "/version", action="ask")
        if words:
            assert words in (await unreachable(server.url, **trusts)).message
        else:
            async with server.client(**trusts) as client:
                assert await client.request("GET", "/version", action="ask")
