"""Nothing is sent to a server that cannot prove who it is; one whose certificate is not checked is told of."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from console.errors import BadKubeconfig, ConsoleError, Unreachable
from console.kube.api_errors import read_error_body
from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.kube.raw_connection import open_connection
from console.launch.helm import Helm
from tests.apiserver import ApiServer
from tests.certificates import make_certificate, usual_certificate
from tests.fakes import FakeSession
from tests.screens.press import console, screen_text
from tests.screens.scene import scene

PATH = "/version"


async def plain(target: Target) -> object:
    client = Client(Login(target))
    try:
        return await client.request("GET", PATH, action="ask")
    finally:
        await client.close()


async def going_on(target: Target) -> object:
    client = Client(Login(target))
    try:
        async with client.follow(PATH, action="ask", params={}, silence=5) as answer:
            return await read_error_body(answer.iter_chunks(), 1 << 20)
    finally:
        await client.close()


async def command(target: Target) -> object:
    client = Client(Login(target))
    try:
        async with client.websocket(PATH, action="ask", params=(), protocols=("v5.channel.k8s.io",)) as socket:
            return socket
    finally:
        await client.close()


async def tunnel(target: Target) -> object:
    login = Login(target)
    async with open_connection(login, "ask") as wire:
        return wire


async def helm(target: Target) -> object:
    return await Helm(Login(target)).list_releases("a4", "default")


WAYS: dict[str, Callable[[Target], Awaitable[object]]] = {
    "a request": plain,
    "an answer that goes on": going_on,
    "a command": command,
    "a tunnel": tunnel,
    "Helm": helm,
}
LIES = ("another authority", "another name", "expired", "no authority given", "another tls-server-name")


def lying_target(lie: str, folder: Path, port: int) -> Target:
    """The server's address as the kubeconfig gives it, and what it is to be trusted by."""
    authority: dict[str, Any] = {"certificate_authority": str(folder / "ca.crt")}
    host = "localhost" if lie == "another name" else "127.0.0.1"
    if lie == "another authority":
        (folder / "other").mkdir()
        authority["certificate_authority"] = str(make_certificate(folder / "other", days=1)[1])
    elif lie == "no authority given":
        authority = {}
    elif lie == "another tls-server-name":
        authority["tls_server_name"] = "other.example"
    return Target("x", "u", "default", Cluster(server=f"https://{host}:{port}", **authority), User(token="s3cr3t"))


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", WAYS)
async def test_who_cannot_prove_to_be_the_server_is_sent_nothing(way: str, lie: str, tmp_path: Path) -> None:
    tls, _ = make_certificate(tmp_path, days=-1 if lie == "expired" else 1)
    async with ApiServer(tls) as server:
        with pytest.raises(Unreachable) as told:
            await WAYS[way](lying_target(lie, tmp_path, server.port))
        assert server.requests == []
    assert "certificate" in told.value.message
    assert "s3cr3t" not in f"{told.value.message}{told.value.hint}"


@pytest.mark.parametrize("way", WAYS)
async def test_who_can_is_reached(way: str, tmp_path: Path) -> None:
    tls, _ = make_certificate(tmp_path, days=1)
    async with ApiServer(tls) as server:
        target = lying_target("", tmp_path, server.port)
        if way == "a command":  # this server has no pod to run one in: it was asked all the same
            with pytest.raises(ConsoleError):
                await command(target)
        else:
            await WAYS[way](target)
        sent = {each.headers["Authorization"] for each in server.requests}
    assert sent == (set() if way == "a tunnel" else {"Bearer s3cr3t"})


@pytest.mark.slow(reason="opens every page")
@pytest.mark.parametrize("size", [(80, 24), (140, 42)])
async def test_the_title_says_so_on_every_page(size: tuple[int, int]) -> None:
    session = FakeSession(scene())
    session.watch.unverified = True
    async with console(session, size=size) as (app, pilot, _):
        for key in "123456":
            await pilot.press(key)
            await pilot.pause()
            assert "TLS unverified" in screen_text(app).splitlines()[0]


def login(**cluster: object) -> Login:
    return Login(Target("c", "u", "default", Cluster("https://h", **cluster), User()))  # type: ignore[arg-type]


async def test_an_authority_that_is_not_to_be_asked_is_refused_as_by_kubectl(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text(usual_certificate()[1])
    both = login(insecure_skip_tls_verify=True, certificate_authority=str(tmp_path / "ca"))
    with pytest.raises(BadKubeconfig, match="insecure-skip-tls-verify"):
        await both.tls()
    alone = login(insecure_skip_tls_verify=True)
    await alone.tls()
    assert alone.unverified
    assert not login().unverified
