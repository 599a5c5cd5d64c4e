"""What lets the person in is nowhere but in requests to the API server: not at a proxy, in an output or in a file."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from aiohttp import web

from practice.cluster import PracticeCluster
from screens.__main__ import main
from tests.screens.test_read_only import LOOKED, folders, practised
from tests.screens.test_reader import OF_GOOGLE, SEEN

__all__ = ["folders"]

LINES = (
    *(line for line in LOOKED if line.split()[0] not in OF_GOOGLE),
    *sorted(SEEN - set(LOOKED)),
    "exec llama-70b 0 -- hostname", "exec llama-70b --pods 0-1 -- env", "logs llama-70b --all --tail 2",
    "cp README llama-70b:0:/tmp/", "hang -n team-b rag-eval", "forecast", "nccl-quick llama-70b 0 --first 1M --last 1M",
    "why none", "stop none --yes", "jobs -n none", "alarms --listen 1",
)  # fmt: skip
PROXY_PASSWORD = "PLANTED-proxy-password"
PASSWORD = "PLANTED-basic-password"


@contextmanager
def proxied(do: Callable[[Any], Any]) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a proxy, with a password in it, and all bytes of each connection that came to it."""
    came: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at: int | None = None) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if at is not None:
                    came[at] += data
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        came.append(head)
        there, back = await asyncio.open_connection("127.0.0.1", int(head.split()[1].rpartition(b":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        at = len(came) - 1
        await asyncio.gather(pump(reader, back, at), pump(there, writer))

    async def start() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    async def close(server: asyncio.Server) -> None:
        server.close()

    server = do(start())
    try:
        yield f"http://anna:{PROXY_PASSWORD}@127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        do(close(server))


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[PracticeCluster, Callable[[Any], Any], list[web.Request]]]:
    """A practice cluster, what does work there, and what its API server was asked."""
    seen: list[web.Request] = []
    with practised() as (cluster, do):
        cluster.server.listeners.append(seen.append)
        yield cluster, do, seen


def forms(secret: str) -> set[bytes]:
    """How a secret may be written."""
    return {each.encode() for each in (secret, quote(secret), base64.b64encode(secret.encode()).decode().rstrip("="))}


def with_login(cluster: Path, folder: Path, how: str) -> tuple[Path, str]:
    """A kubeconfig that logs in so, and the secret."""
    content = yaml.safe_load(cluster.read_text())
    (user,) = (each["user"] for each in content["users"])
    token, secret = str(user["token"]), str(user["token"])
    if how == "a program's token":
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        plugin = folder / "plugin"
        plugin.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({**credential, 'status': {'token': token}})}\nEND\n")
        plugin.chmod(0o700)
        del user["token"]
        user["exec"] = {"apiVersion": credential["apiVersion"], "command": str(plugin), "interactiveMode": "Never"}
    elif how == "a password":
        del user["token"]
        user |= {"username": "anna", "password": PASSWORD}
        secret = PASSWORD
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path, secret


@pytest.mark.slow(reason="programs and pages with each kind of login")
@pytest.mark.parametrize("how", ["a token", "a program's token", "a password"])
def test_a_login_stands_in_requests_and_nowhere_else(
    how: str,
    shared: tuple[PracticeCluster, Callable[[Any], Any], list[web.Request]],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """All commands, through a proxy that asks for a password of its own."""
    cluster, do, requests = shared
    with proxied(do) as (through, came):
        place = tmp_path / "login"
        place.mkdir()
        kubeconfig, secret = with_login(cluster.kubeconfig, place, how)
        content = yaml.safe_load(kubeconfig.read_text())
        content["clusters"][0]["cluster"]["proxy-url"] = through
        kubeconfig.write_text(yaml.safe_dump(content))
        requests.clear()
        codes = []
        for line in LINES if how != "a program's token" else LINES[::3]:
            first, *words = line.split()
            codes.append(main([first, "--kubeconfig", str(kubeconfig), *words]))
        shown = b"".join(capfdbinary.readouterr())
    assert 0 not in codes[:5] if how == "a password" else codes.count(0) > len(codes) / 2
    connects = [each.partition(b"\r\n\r\n") for each in came]
    asked = [each.headers for each in requests]
    assert len(connects) >= 29
    assert len(asked) >= 24
    assert all(head.startswith(b"CONNECT 127.0.0.1:") for head, _, _ in connects)
    assert all(b"Proxy-Authorization: Basic " in head for head, _, _ in connects)
    assert not any(b"Bearer" in head or b"\nAuthorization" in head for head, _, _ in connects)
    assert not [each for each in asked if "Proxy-Authorization" in each]
    assert {each.get("Authorization", "").split(" ")[0] for each in asked} == {
        "Basic" if how == "a password" else "Bearer"
    }
    sent = b"".join(came)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and place not in path.parents}
    for written in forms(secret):
        assert written not in sent
    for written in (*forms(secret), *forms(PROXY_PASSWORD)):
        assert written not in shown
        assert [path for path, data in kept.items() if written in data] == []
