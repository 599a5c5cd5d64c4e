"""Shells in pods: real ones, on this machine, with nothing of the person's in them; and SSH to port 2222."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

import paramiko
import pytest

from console.practice.cluster import PracticeCluster
from console.practice.objects.refusal import ApiError
from console.practice.objects.resources import PODS
from console.practice.runtime import Stdio
from tests.practice.world import container

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIMIT = 60.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[PracticeCluster]:
    async with PracticeCluster(scene=False, speed=100, folder=tmp_path) as made:
        yield made


@pytest.fixture
def key() -> paramiko.PKey:
    return paramiko.ECDSAKey.generate()


async def pod(cluster: PracticeCluster, name: str = "a", **env: str) -> None:
    variables = [{"name": key, "value": value} for key, value in env.items()]
    running = asyncio.Event()

    def notice(event: object) -> None:
        found = cluster.storage.find(PODS, "default", name)
        if found is not None and found["status"].get("phase") == "Running":
            running.set()

    unsubscribe = cluster.storage.subscribe(notice)
    cluster.storage.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container(env=variables)]}})
    await asyncio.wait_for(running.wait(), LIMIT)
    unsubscribe()


async def run(
    cluster: PracticeCluster, *argv: str, tty: bool = False, typed: bytes | None = None, sizes: int = 0
) -> tuple[int, bytes, bytes]:
    said = {1: b"", 2: b""}

    async def write(channel: int, data: bytes) -> None:
        said[channel] += data

    stdin = None
    if typed is not None:
        stdin = asyncio.StreamReader()
        stdin.feed_data(typed)
        stdin.feed_eof()
    resize: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    if sizes:
        resize.put_nowait((sizes, 33))
    call = cluster.runtime.exec("default", "a", "main", list(argv), Stdio(write, stdin, tty, resize))
    code = await asyncio.wait_for(call, LIMIT)
    return code, said[1], said[2]


async def test_output_errors_and_exit_code(cluster: PracticeCluster) -> None:
    await pod(cluster)
    assert await run(cluster, "sh", "-c", "echo out; echo bad >&2; exit 3") == (3, b"out\n", b"bad\n")


async def test_input_reaches_the_command(cluster: PracticeCluster) -> None:
    await pod(cluster)
    assert await run(cluster, "cat", typed=b"hello") == (0, b"hello", b"")


async def test_the_environment_is_the_containers_alone(
    cluster: PracticeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "hush")
    await pod(cluster, A4_RECIPE="interactive")
    _, out, _ = await run(cluster, "env")
    env = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert env["A4_RECIPE"] == "interactive"
    assert "MY_SECRET" not in env
    assert env["HOME"].startswith(str(cluster.folder))
    assert env["HOME"] != os.environ.get("HOME")
    assert (await run(cluster, "pwd"))[1].decode().strip() == env["HOME"]


async def test_a_terminal_says_where_it_is(cluster: PracticeCluster) -> None:
    await pod(cluster)
    code, out, _ = await run(cluster, "sh", tty=True, typed=b"stty size; exit 4\n", sizes=101)
    assert code == 4
    first = out.decode().splitlines()[0]
    assert first == f"practice cluster: this shell runs on your own machine, in {cluster.folder}/pods/default/a/main"
    assert b"33 101" in out


async def test_a_command_of_the_pod_is_a_recording(cluster: PracticeCluster) -> None:
    await pod(cluster)
    _, out, err = await run(cluster, "nvidia-smi")
    assert b"NVIDIA H200" in out
    assert err == b"practice cluster: a recording on 8 x NVIDIA H200 at rest\n"
    assert (await run(cluster, "hostname"))[1] == b"a\n"


async def test_a_missing_command(cluster: PracticeCluster) -> None:
    await pod(cluster)
    code, _, err = await run(cluster, "no-such-command")
    assert code == 127
    assert b"not found" in err


async def test_a_pod_that_does_not_run_has_no_shell(cluster: PracticeCluster) -> None:
    cluster.storage.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container(gpus=99)]}})
    with pytest.raises(ApiError):
        await run(cluster, "true")


async def test_another_port_is_closed(cluster: PracticeCluster) -> None:
    await pod(cluster)
    with pytest.raises(ApiError, match="connection refused"):
        await cluster.runtime.dial("default", "a", 6006)


async def test_port_2222_speaks_ssh(cluster: PracticeCluster) -> None:
    await pod(cluster)
    reader, writer = await cluster.runtime.dial("default", "a", 2222)
    assert (await asyncio.wait_for(reader.readline(), LIMIT)).startswith(b"SSH-2.0-")
    writer.close()


@contextlib.asynccontextmanager
async def bridge(cluster: PracticeCluster) -> AsyncIterator[socket.socket]:
    """A blocking socket whose other end is port 2222 of the pod."""
    ours, theirs = socket.socketpair()
    near_reader, near_writer = await asyncio.open_connection(sock=theirs)
    far_reader, far_writer = await cluster.runtime.dial("default", "a", 2222)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()

    copies = [
        asyncio.ensure_future(copy(near_reader, far_writer)),
        asyncio.ensure_future(copy(far_reader, near_writer)),
    ]
    try:
        yield ours
    finally:
        ours.close()
        for one in copies:
            one.cancel()
        near_writer.close()
        far_writer.close()


async def test_a_known_key_logs_in(cluster: PracticeCluster, key: paramiko.PKey) -> None:
    await pod(cluster, SSH_PUBLIC_KEY=f"{key.get_name()} {key.get_base64()} me")

    def talk(connection: socket.socket) -> tuple[int, bytes]:
        transport = paramiko.Transport(connection)
        transport.start_client(timeout=LIMIT)
        transport.auth_publickey("root", key)
        channel = transport.open_session(timeout=LIMIT)
        channel.exec_command("echo $HOSTNAME; exit 7")
        out = channel.makefile("rb").read()
        code = channel.recv_exit_status()
        transport.close()
        return code, out

    async with bridge(cluster) as connection:
        assert await asyncio.wait_for(asyncio.to_thread(talk, connection), LIMIT) == (7, b"a\n")


async def test_another_key_does_not(cluster: PracticeCluster, key: paramiko.PKey) -> None:
    await pod(cluster)

    def talk(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.start_client(timeout=LIMIT)
        try:
            transport.auth_publickey("root", key)
        finally:
            transport.close()

    async with bridge(cluster) as connection:
        with pytest.raises(paramiko.AuthenticationException):
            await asyncio.wait_for(asyncio.to_thread(talk, connection), LIMIT)


async def test_a_command_ends_with_its_container(cluster: PracticeCluster) -> None:
    await pod(cluster)
    begun = asyncio.Event()

    async def write(channel: int, data: bytes) -> None:
        begun.set()

    running = asyncio.create_task(
        cluster.runtime.exec("default", "a", "main", ["sh", "-c", "echo begun; sleep 60"], Stdio(write))
    )
    await asyncio.wait_for(begun.wait(), LIMIT)
    cluster.storage.delete(PODS, "default", "a", grace_seconds=0)
    assert await asyncio.wait_for(running, LIMIT) in (129, 137)
