"""Ranks by name on a real sshd: changed host keys, and a session like an editor's that outlives its pod."""

import asyncio
import itertools
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.attach.ssh.editors import StepState
from console.errors import HostKeyChanged
from console.session import Session
from tests.contract.client import Api
from tests.contract.cluster import CORE, eventually, real_cluster
from tests.contract.space import Space, open_session, open_space
from tests.lab.control_plane import Lab
from tests.lab.processes import free_ports
from tests.openssh import OpenSsh, alone

pytestmark = [pytest.mark.lab, pytest.mark.programs("ssh")]
JOB = "edited"
CHANNELS = 20
NUMBERS = itertools.count(1)
IDLE = float(os.environ.get("A4_SSH_IDLE", "12"))
"""Seconds without a byte but keep-alives, which come every 10; 600 for the real thing."""
LIMIT = 60.0
SERVER = """
import asyncio
async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.fixture
def openssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OpenSsh:
    return alone(monkeypatch, tmp_path / "ssh")


@pytest.fixture
async def space(lab: Lab) -> AsyncIterator[Space]:
    name = f"lab-ssh-{next(NUMBERS)}"
    async with Api.open(lab.kubeconfig) as api, open_space(api, real_cluster(lab), name) as made:
        queue = await made.queue("a", 16)
        await made.jobset(JOB, queue, 2, restarts=3)
        await made.pods(JOB, 2)
        yield made


@pytest.fixture
async def session(lab: Lab, space: Space) -> AsyncIterator[Session]:
    async with open_session(lab.kubeconfig, space, "jobsets", "pods") as opened:
        yield opened


async def set_up(session: Session) -> str:
    plan = await session.attach.plan_setup(session.namespace, JOB, 0)
    return (await session.attach.set_up(plan)).host


async def replace_pod(space: Space) -> None:
    """Delete the pod of rank 0, and return when another has its place."""
    before = await space.pods(JOB, 2)
    await space.api.delete(space.path(CORE, "pods", before[0]["metadata"]["name"]), gracePeriodSeconds=0)
    gone = before[0]["metadata"]["uid"]

    async def replaced() -> bool:
        return gone not in {each["metadata"]["uid"] for each in await space.pods(JOB, 2)}

    await eventually(replaced, "another pod has its place")


async def test_a_new_pod_explains_a_new_host_key_and_nothing_else_does(
    lab: Lab, space: Space, session: Session, openssh: OpenSsh
) -> None:
    host = await set_up(session)
    assert (await openssh.ssh(host, "true")).code == 0
    assert lab.ssh is not None
    lab.ssh.change_host_key()
    lab.restart_sshd()

    done = await openssh.ssh(host, "true")
    assert done.code == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.err
    with pytest.raises(HostKeyChanged, match=r"is now SHA256:.*; it was SHA256:.*, and its pod is the same"):
        await set_up(session)

    await replace_pod(space)
    done = await openssh.ssh(host, "echo in")
    assert done.out == "in\n", done.err


async def test_the_doctor_says_that_no_sshd_runs(lab: Lab, session: Session, openssh: OpenSsh) -> None:
    assert lab.ssh is not None
    host = await set_up(session)
    lab.processes.kill("sshd")
    try:
        steps = {step.name: step async for step in session.attach.diagnose(session.namespace, JOB, 0)}
        assert steps["port"].state is StepState.FAILED
        assert "Nothing listens on port 2222" in steps["port"].found
        assert "step ssh" in steps["port"].fix
        assert steps["banner"].state is StepState.SKIPPED
        done = await openssh.ssh(host, "true")
        assert (done.code, "Nothing listens on port 2222" in done.err) == (255, True), done.err
    finally:
        lab.processes.start("sshd", *lab.ssh.again())


class Editor:
    """What VS Code does: a server started over ssh, and one connection that leads all channels to it."""

    def __init__(self, openssh: OpenSsh, host: str) -> None:
        self.openssh = openssh
        self.host = host
        self.local, self.socks = free_ports(2)
        self.server = ""

    async def start_server(self) -> int:
        command = f"nohup python3 -c {shlex.quote(SERVER)} </dev/null 2>/dev/null & echo $!; wait"
        started = await self.openssh.start("ssh", "-F", str(self.openssh.config), self.host, command)
        assert started.stdout is not None
        self.server = (await asyncio.wait_for(started.stdout.readline(), LIMIT)).decode().strip()
        return int(await asyncio.wait_for(started.stdout.readline(), LIMIT))

    @asynccontextmanager
    async def connected(self, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
        """`ssh -N` with a forwarded port and a SOCKS proxy, while it stands."""
        tunnel = await self.openssh.start(
            "ssh", "-F", str(self.openssh.config), "-N", "-o", "ExitOnForwardFailure=yes",
            "-L", f"{self.local}:127.0.0.1:{port}", "-D", f"127.0.0.1:{self.socks}", self.host,
        )  # fmt: skip
        try:
            yield tunnel
        finally:
            if tunnel.returncode is None:
                tunnel.terminate()
            await tunnel.communicate()

    async def channel(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection through the forwarded port, once that listens."""
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", self.local)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.1)

    async def through_socks(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.socks)
        writer.write(b"\x05\x01\x00")
        assert await reader.readexactly(2) == b"\x05\x00"
        writer.write(b"\x05\x01\x00\x01\x7f\x00\x00\x01" + port.to_bytes(2, "big"))
        assert (await reader.readexactly(10))[1] == 0
        return reader, writer


async def echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> bool:
    """Whether so many bytes come back as they went."""
    data = os.urandom(size)

    async def send() -> None:
        writer.write(data)
        await writer.drain()

    async with asyncio.timeout(LIMIT):
        _, back = await asyncio.gather(send(), reader.readexactly(size))
    return back == data


@pytest.mark.timeout(IDLE + 240)
async def test_an_editors_session_over_an_idle_time_and_a_new_pod(
    lab: Lab, space: Space, session: Session, openssh: OpenSsh
) -> None:
    editor = Editor(openssh, await set_up(session))
    port = await editor.start_server()
    servers = [int(editor.server)]
    writers = []
    try:
        async with editor.connected(port) as tunnel:
            channels = [await editor.channel() for _ in range(CHANNELS - 1)]
            channels.append(await editor.through_socks(port))
            writers += [writer for _, writer in channels]
            assert all(await asyncio.gather(*(echoes(*each, size=200_000) for each in channels)))
            await asyncio.sleep(IDLE)
            assert tunnel.returncode is None, "the connection outlives silence"
            assert all(await asyncio.gather(*(echoes(*each, size=200_000) for each in channels)))

            lab.restart_sshd()  # what is in a pod dies with it
            await replace_pod(space)
            await asyncio.wait_for(tunnel.wait(), LIMIT)

        port = await editor.start_server()
        servers.append(int(editor.server))
        async with editor.connected(port):
            reader, writer = await editor.channel()
            writers.append(writer)
            assert await echoes(reader, writer, size=200_000)
    finally:
        for writer in writers:
            writer.close()
        for server in servers:
            os.kill(server, signal.SIGTERM)
