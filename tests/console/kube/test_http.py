"""Answers that go on reach the same server in the same way as plain requests, though another library asks for them."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from console.errors import BadKubeconfig, ConsoleError, NotLoggedIn, Unreachable
from console.kube.api_errors import CHECK_PROXY, read_error_body
from console.kube.client import Client
from console.kube.http import FEW_CONNECTIONS
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.kube.raw_connection import open_connection
from tests.apiserver import ApiServer, eventually, listening
from tests.certificates import make_certificate

PATH = "/version"
VERSION = b'{"gitVersion": "v1.36.4-test"}'
EXAMPLE = Cluster(server="https://api.example")


async def plain(client: Client) -> bytes:
    return await client.request("GET", PATH, action="ask")


async def going_on(client: Client) -> bytes:
    async with client.follow(PATH, action="ask", params={}, silence=5) as answer:
        return await read_error_body(answer.iter_chunks(), 1 << 30)


async def refusals(server: str, user: User | None = None, **cluster: Any) -> list[tuple[type[ConsoleError], str, str]]:
    """What is told of either way of asking, which fails."""
    found = []
    for ask in (plain, going_on):
        client = Client(Login(Target("x", "u", "d", Cluster(server=server, **cluster), user or User())))
        with pytest.raises(ConsoleError) as caught:
            await ask(client)
        await client.close()
        found.append((type(caught.value), caught.value.message, caught.value.hint))
    return found


@pytest.mark.parametrize(
    "server",
    ["https://no-such-name.invalid", "http://127.0.0.1:1", "https://127.0.0.1:1", "htp://x", "https://[x", "nowhere"],
)
async def test_a_server_that_cannot_be_reached_is_reported_in_the_same_words(server: str) -> None:
    first, second = await refusals(server)
    assert first == second


async def test_so_is_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    tls, _ = make_certificate(tmp_path, days=1)
    async with ApiServer(tls) as server:
        first, second = await refusals(server.url)
        assert first == second
        assert "is not from the authority" in second[1]
    old, authority = make_certificate(tmp_path, days=-1)
    async with ApiServer(old) as server:
        first, second = await refusals(server.url, certificate_authority=str(authority))
        assert first == second
        assert second[1].endswith("its certificate has expired.")


async def test_an_authority_that_is_damaged_within_is_named(tmp_path: Path) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    lines = authority.read_text().splitlines(keepends=True)
    lines[1] = f"{lines[1][:6]}{'A' * 10}{lines[1][16:]}"
    authority.write_text("".join(lines))
    async with ApiServer(tls) as server:
        for kind, message, _ in await refusals(server.url, certificate_authority=str(authority)):
            assert kind is BadKubeconfig
            assert message.endswith("is no certificate: it is cut off or damaged.")


async def test_few_connections_are_opened_until_one_is_asked_for_what_lasts() -> None:
    async with ApiServer(secure=True) as server, server.client() as client:
        both = asyncio.Event()

        async def wait(_: web.Request) -> web.Response:
            await asyncio.wait_for(both.wait(), 5)
            return web.Response(body=VERSION)

        def connections() -> int:
            return len({each.transport.get_extra_info("peername") for each in server.requests if each.transport})

        client.expect_little()
        await asyncio.gather(*(plain(client) for _ in range(6)))
        assert connections() <= FEW_CONNECTIONS
        server.handlers[PATH] = wait
        asked = [asyncio.ensure_future(plain(client)) for _ in range(4)]
        await eventually(lambda: len(server.requests) >= 6 + FEW_CONNECTIONS)
        assert len(server.requests) == 6 + FEW_CONNECTIONS  # the others wait for one of these
        asked.append(asyncio.ensure_future(going_on(client)))
        await eventually(lambda: len(server.requests) == 6 + len(asked))
        both.set()
        assert await asyncio.gather(*asked) == [VERSION] * len(asked)


async def test_a_certificate_that_may_be_any_is_accepted_if_the_kubeconfig_says_so(tmp_path: Path) -> None:
    tls, _ = make_certificate(tmp_path, days=1)
    async with ApiServer(tls) as server, server.client(insecure_skip_tls_verify=True) as client:
        assert await plain(client) == await going_on(client) == VERSION


async def test_the_name_that_the_certificate_carries_may_be_another(tmp_path: Path) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    ca = str(authority)
    async with (
        ApiServer(tls) as server,
        server.client(certificate_authority=ca, tls_server_name="api.example") as client,
    ):
        assert await plain(client) == await going_on(client) == VERSION
        assert {each.host for each in server.requests} == {f"127.0.0.1:{server.port}"}
        first, second = await refusals(server.url, certificate_authority=ca, tls_server_name="other.example")
        assert "its certificate is not for other.example" in first[1]
        assert "its certificate is not for other.example" in second[1]


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority)
    pair = tmp_path / "pair.pem"
    user = User(client_certificate=str(authority), client_key=str(pair))
    async with ApiServer(tls) as server, server.client(user, certificate_authority=str(authority)) as client:
        assert await plain(client) == await going_on(client) == VERSION


@pytest.mark.parametrize("token", ["two\r\nX-Evil: 1", "two\nlines", "schlüssel"])
async def test_a_token_that_is_no_header_is_not_sent(token: str) -> None:
    async with ApiServer(secure=True) as server:
        for kind, message, _ in await refusals(server.url, User(token=token)):
            assert kind is BadKubeconfig
            assert token not in message
        assert server.requests == []


async def test_a_line_end_behind_a_token_is_no_part_of_it() -> None:
    async with ApiServer(secure=True) as server, server.client(User(token="t\n")) as client:
        assert await plain(client) == await going_on(client) == VERSION
        assert {each.headers["Authorization"] for each in server.requests} == {"Bearer t"}


async def test_no_password_of_an_address_is_reported() -> None:
    for server, proxy_url in (("http://anna:s3cr3t@127.0.0.1:1", None), ("http://h", "socks9://anna:s3cr3t@h:1")):
        for _, message, hint in await refusals(server, proxy_url=proxy_url):
            assert "s3cr3t" not in f"{message}{hint}"


async def test_no_token_is_reported_in_what_went_wrong(server: ApiServer) -> None:
    server.tokens = {"another"}
    for kind, message, hint in await refusals(server.url, User(token="s3cr3t")):
        assert kind is NotLoggedIn
        assert "s3cr3t" not in f"{message}{hint}"


async def test_a_server_that_says_nothing_is_asked_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.kube.http.CONNECT_TIMEOUT", 0.3)
    callers = []

    async def keep_quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer)
        await reader.read(1)  # the beginning of TLS; there is no answer
        await asyncio.Event().wait()

    async with listening(keep_quiet) as port:
        client = Client(Login(Target("x", "u", "d", Cluster(server=f"https://127.0.0.1:{port}"), User())))

        async def ask() -> str:
            with pytest.raises(Unreachable) as caught:
                await going_on(client)
            return caught.value.message

        said = await asyncio.gather(*(ask() for _ in range(10)))
        assert all(each.endswith(" did not answer in time.") for each in said)
        assert len(callers) == 1
        await client.close()


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Pass on what comes from either side of a connection to a port of this machine."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    there, back = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.gather(pump(reader, back), pump(there, writer))
    finally:
        back.close()


@asynccontextmanager
async def proxy(asked: list[bytes], tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An HTTP proxy that passes on what it is asked for, all of which is on this machine, and notes that."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await relay(reader, writer, int(head.split()[1].rpartition(b":")[2]))

    async with listening(serve, tls=tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


async def test_the_proxy_of_the_kubeconfig_is_gone_through(tmp_path: Path) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    asked: list[bytes] = []
    async with (
        ApiServer(tls) as server,
        proxy(asked) as through,
        server.client(certificate_authority=str(authority), proxy_url=through) as client,
    ):
        async with client.follow(PATH, action="ask", params={}, silence=5) as answer:
            assert "via" not in answer.headers
            assert await read_error_body(answer.iter_chunks(), 99) == VERSION
        assert set(asked) == {b"CONNECT 127.0.0.1:%d HTTP/1.1" % server.port}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One that names no proxy."""
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
    return monkeypatch


async def answers(cluster: Cluster) -> set[bytes]:
    """What comes of each way of asking: both of a client, and the connection of a tunnel."""
    login = Login(Target("x", "u", "d", cluster, User()))
    client = Client(login)
    found = {await plain(client), await going_on(client)}
    await client.close()
    async with open_connection(login, "ask") as wire:
        (answer,) = await wire.get(PATH)
    return found | {answer.body}


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
async def test_all_ways_of_asking_take_the_proxy_of_the_environment(
    tmp_path: Path, environment: pytest.MonkeyPatch, name: str
) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    asked: list[bytes] = []
    async with ApiServer(tls) as server, proxy(asked) as through:
        environment.setenv(name, through.replace("//", "//anna:s3cr3t@"))
        cluster = Cluster(server=f"https://api.example:{server.port}", certificate_authority=str(authority))
        assert await answers(cluster) == {VERSION}
        assert set(asked) == {b"CONNECT api.example:%d HTTP/1.1" % server.port}
        assert len(asked) == 2  # one of all requests, and the tunnel


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_proxy_that_is_reached_over_tls_has_to_show_a_certificate_too(
    tmp_path: Path, environment: pytest.MonkeyPatch, trusted: bool
) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    asked: list[bytes] = []
    if trusted:
        environment.setenv("SSL_CERT_FILE", str(authority))
    async with ApiServer(tls) as server, proxy(asked, tls) as through:
        cluster = Cluster(server=server.url, certificate_authority=str(authority), proxy_url=through)
        if trusted:
            assert await answers(cluster) == {VERSION}
            assert asked == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % server.port] * 2
        else:
            first, second = await refusals(server.url, certificate_authority=str(authority), proxy_url=through)
            third = await refusal_of_upgrade(cluster)
            assert [("certificate" in words, kind) for kind, words, _ in (first, second, third)] == [
                (True, Unreachable)
            ] * 3
            assert asked == []


@asynccontextmanager
async def socks(asked: list[tuple[bytes, bytes]], *, refuses: bool = False) -> AsyncIterator[str]:
    """A SOCKS 5 proxy that notes as whom, and for which host, it is asked, and connects to this machine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(2))[1])
        assert 2 in methods
        writer.write(b"\5\2")
        name = await reader.readexactly((await reader.readexactly(2))[1])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\1\0")
        assert await reader.readexactly(4) == b"\5\1\0\3"
        host = await reader.readexactly((await reader.readexactly(1))[0])
        port = int.from_bytes(await reader.readexactly(2), "big")
        asked.append((name + b":" + password, host))
        writer.write(b"\5" + (b"\5" if refuses else b"\0") + b"\0\1" + bytes(6))
        if not refuses:
            await relay(reader, writer, port)

    async with listening(serve) as port:
        yield f"socks5://anna:s3cr3t@127.0.0.1:{port}"


@pytest.mark.parametrize("from_environment", [True, False])
async def test_a_socks_proxy_is_gone_through_and_resolves_the_name(
    tmp_path: Path, environment: pytest.MonkeyPatch, from_environment: bool
) -> None:
    tls, authority = make_certificate(tmp_path, days=1)
    asked: list[tuple[bytes, bytes]] = []
    async with ApiServer(tls) as server, socks(asked) as through:
        environment.setenv("HTTPS_PROXY", through if from_environment else "http://127.0.0.1:1")
        given = None if from_environment else through
        address = f"https://api.example:{server.port}"
        cluster = Cluster(server=address, certificate_authority=str(authority), proxy_url=given)
        assert await answers(cluster) == {VERSION}
        assert asked == [(b"anna:s3cr3t", b"api.example")] * 2


async def test_a_socks_proxy_that_refuses_is_reported_in_the_same_words(environment: pytest.MonkeyPatch) -> None:
    async with socks([], refuses=True) as through:
        environment.setenv("HTTPS_PROXY", through)
        first, _ = await refusals("https://api.example")
        assert first == await refusal_of_upgrade(EXAMPLE)
        assert first[1].endswith("cannot be reached: the proxy refuses (SOCKS).")
        assert "s3cr3t" not in f"{first}"


async def test_none_of_them_takes_it_where_it_is_not_to_be_taken(environment: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    async with proxy(asked) as through:
        environment.setenv("ALL_PROXY", through)
        environment.setenv("NO_PROXY", "10.0.0.0/8, *.invalid")
        first, second = await refusals("https://no-such-name.invalid")
        assert first == second
        assert first[1].endswith("its name cannot be resolved.")
        assert asked == []


@pytest.mark.parametrize("address", ["socks4://anna:s3cr3t@h:1", "http://anna:s3cr3t@", "http://anna:s3cr3t@h:port"])
async def test_a_proxy_that_cannot_be_used_is_reported_in_the_same_words(
    environment: pytest.MonkeyPatch, address: str
) -> None:
    environment.setenv("HTTPS_PROXY", address)
    for given in (None, address):
        first, second = await refusals("https://api.example", proxy_url=given)
        assert first == second
        assert first[0] is BadKubeconfig
        assert ("HTTPS_PROXY" in first[1]) is (given is None)
        assert "s3cr3t" not in f"{first}"


async def refusal_of_upgrade(cluster: Cluster) -> tuple[type[ConsoleError], str, str]:
    """What is told where the connection is to become a tunnel."""
    with pytest.raises(ConsoleError) as caught:
        async with open_connection(Login(Target("x", "u", "d", cluster, User())), "ask"):
            pass
    return type(caught.value), caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://anna:s3cr3t@127.0.0.1:1", "nothing answers there (connection refused)"),
        ("http://anna:s3cr3t@no.such.proxy.invalid:3128", "its name cannot be resolved"),
    ],
)
async def test_a_proxy_that_is_not_there_is_blamed_in_place_of_the_server(
    environment: pytest.MonkeyPatch, address: str, why: str
) -> None:
    environment.setenv("HTTPS_PROXY", address)
    first, second = await refusals("https://api.example")
    assert first == second == await refusal_of_upgrade(EXAMPLE)
    assert first == (
        Unreachable,
        f"Could not ask: the API server https://api.example cannot be reached: the proxy cannot be reached: {why}.",
        CHECK_PROXY,
    )


async def test_a_proxy_that_says_nothing_is_thought_of(
    environment: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("http", "raw_connection"):
        monkeypatch.setattr(f"console.kube.{module}.CONNECT_TIMEOUT", 0.2)

    async def keep_quiet(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)  # the beginning of CONNECT; there is no answer
        await asyncio.Event().wait()

    async with listening(keep_quiet) as port:
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        client = Client(Login(Target("x", "u", "d", EXAMPLE, User())))
        with pytest.raises(Unreachable, match="no answer came through the proxy in time") as caught:
            await going_on(client)
        assert caught.value.hint == CHECK_PROXY
        assert await refusal_of_upgrade(EXAMPLE) == (Unreachable, caught.value.message, CHECK_PROXY)
        await client.close()


async def test_no_password_of_a_proxy_that_refuses_is_reported(environment: pytest.MonkeyPatch) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with listening(refuse) as port:
        environment.setenv("HTTPS_PROXY", f"http://anna:s3cr3t@127.0.0.1:{port}")
        first, second = await refusals("https://api.example")
        assert first == await refusal_of_upgrade(EXAMPLE)
    assert first == second
    assert first[:2] == (
        Unreachable,
        "Could not ask: the API server https://api.example cannot be reached: the proxy refuses (407).",
    )
    assert "HTTPS_PROXY" in first[2]
    assert "s3cr3t" not in f"{first}"
