"""Logs, commands and ports of a running pod."""

import asyncio
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError, ClientWebSocketResponse, WSServerHandshakeError
from aiohttp.web import BaseRequest, WebSocketResponse

from practice.api.authn import AccessRule, Account
from practice.api.port_forward import _Pipe
from tests.apiserver import listening
from tests.practice.api_client import PODS, ServedApi, serving

LOG = f"{PODS}/run/log?container=main"
EXEC = f"{PODS}/run/exec?container=main"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "old\nmiddle\nnew\n"),
        ({"tailLines": "2"}, "middle\nnew\n"),
        ({"tailLines": "0"}, ""),
        ({"sinceTime": "2026-01-01T00:00:05Z"}, "middle\nnew\n"),
        ({"limitBytes": "6"}, "old\nmi"),
        ({"timestamps": "true", "tailLines": "1"}, "2026-01-01T00:00:09.500000000Z new\n"),
    ],
)
async def test_parts_of_a_log(query: dict[str, str], expected: str, api: ServedApi) -> None:
    start = 1767225600.0
    for line, at in ((b"old", 0), (b"middle", 5), (b"new", 9.5)):
        api.runtime.output.add(line, at=start + at)
    assert (await api.get(LOG, **query)).body == expected


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"{PODS}/run/log", 400, "a container name must be specified for pod run, choose one of: [main side]"),
        (f"{PODS}/run/log?container=x", 400, "container x is not valid for pod run"),
        (f"{LOG}&previous=true", 400, 'previous terminated container "main" in pod "run" not found'),
        (f"{LOG}&tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        (f"{EXEC}", 400, "you must specify at least one command for the container"),
        (f"{EXEC}&command=ls", 400, "Upgrade request required"),
    ],
)
async def test_streams_that_cannot_be(path: str, status: int, message: str, api: ServedApi) -> None:
    answer = await api.get(path)
    assert answer.status == status, answer.body
    assert message in answer.message


async def frames(socket: ClientWebSocketResponse) -> list[tuple[int, bytes]]:
    """All messages up to the status: channel and data."""
    seen = []
    async for message in socket:
        seen.append((message.data[0], message.data[1:]))
        if seen[-1][0] == 3:
            break
    return [(channel, data) for channel, data in seen if data]


def open_exec(api: ServedApi, command: str, protocol: str, **query: str) -> Any:
    parts = "".join(f"&command={part}" for part in command.split())
    asked = "".join(f"&{name}={value}" for name, value in query.items())
    return api.http.ws_connect(f"{EXEC}{parts}&stdout=true&stderr=true{asked}", protocols=(protocol,))


@pytest.mark.parametrize(
    "path", [f"{EXEC}&command=size", f"{PODS}/run/attach?container=main", f"{PODS}/run/portforward?ports=22"]
)
async def test_a_client_that_goes_before_the_upgrade_is_answered_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    tried = []

    async def gone(self: WebSocketResponse, request: BaseRequest) -> None:
        tried.append(request.path)
        raise ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(WebSocketResponse, "prepare", gone)
    async with serving(tmp_path) as api:
        with pytest.raises(WSServerHandshakeError):
            await api.http.ws_connect(path, protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"))
    assert len(tried) == 1
    assert not caplog.records


async def test_a_terminal_has_a_size(api: ServedApi) -> None:
    async with open_exec(api, "size", "v5.channel.k8s.io", tty="true") as socket:
        await socket.send_bytes(b'\x04{"Width":80,"Height":24}')
        assert (await frames(socket))[0] == (1, b"(80, 24)")


async def test_attaching_shows_what_comes(api: ServedApi) -> None:
    api.runtime.output.add(b"before")
    path = f"{PODS}/run/attach?container=main&stdout=true"
    async with api.http.ws_connect(path, protocols=("v5.channel.k8s.io",)) as socket:
        assert await socket.receive_bytes() == b"\x01"
        api.runtime.output.add(b"after")
        assert await socket.receive_bytes() == b"\x01after\n"
        api.runtime.output.end()
        assert json.loads((await socket.receive_bytes())[1:])["status"] == "Success"


async def test_exec_needs_both_verbs(tmp_path: Path) -> None:
    half = Account("half", (AccessRule(frozenset({"get"}), frozenset({"pods/exec"})),))
    async with serving(tmp_path, half) as api:
        with pytest.raises(WSServerHandshakeError) as refused:
            await open_exec(api, "echo hi", "v5.channel.k8s.io")
        assert refused.value.status == 403


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one message with itself, then close."""
    writer.write(b"echo " + await reader.read(100))
    await writer.drain()
    writer.close()


async def test_a_port_in_channels(tmp_path: Path) -> None:
    async with listening(echo) as port, serving(tmp_path) as api:
        path = f"{PODS}/run/portforward?ports={port}"
        async with api.http.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
            assert await socket.receive_bytes() == b"\x00" + struct.pack("<H", port)
            assert await socket.receive_bytes() == b"\x01" + struct.pack("<H", port)
            await socket.send_bytes(b"\x00hi")
            assert await socket.receive_bytes() == b"\x00echo hi"


async def test_a_closed_port_says_so_on_its_error_channel(tmp_path: Path) -> None:
    async with listening(echo) as port:
        pass
    async with serving(tmp_path) as api:
        path = f"{PODS}/run/portforward?ports={port}"
        async with api.http.ws_connect(path, protocols=("v4.channel.k8s.io",)) as socket:
            await socket.receive_bytes()
            await socket.receive_bytes()
            error = await socket.receive_bytes()
    assert error[0] == 1
    assert f"error forwarding port {port} to pod run".encode() in error


async def test_the_connection_to_a_pod_is_closed_however_often_forwarding_is_cancelled() -> None:
    ours, theirs = socket.socketpair()
    streams = await asyncio.open_connection(sock=ours)
    pipe = _Pipe(22, lambda _: asyncio.sleep(0, streams), asyncio.sleep, asyncio.sleep)  # type: ignore[arg-type]
    running = asyncio.ensure_future(pipe.run())
    await asyncio.sleep(0.01)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(running, return_exceptions=True)
    assert streams[1].is_closing()
    theirs.close()
