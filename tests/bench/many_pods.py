"""`python -m tests.bench.many_pods [--pods 128]`: a hang of 1,024 ranks, asked through one pod and pod by pod.

Real: sshd for each pod, with the settings and keys that launchers/prepare.sh writes, ssh, the streams to an API server
that refuses more than 32 of them at a time, the scripts in the pods, their answers. Not real: all pods are folders of
this machine, each the home of root for its own sshd, with the /proc and the py-spy of practice pods. They share the
cores of this machine with the console, where real pods have a node each: the job is asked once more while the probe's
answers of all pods but the gateway lie ready, and each line says how much of the cores each side took. It needs root,
and Debian's openssh-server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

from aiohttp import web
from msgspec import structs

from console.hang.inspector import JobInspector
from console.kube.client import Client
from console.kube.objects.jobset import JobSet
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from practice.api.exec_channels import EXEC_PROTOCOLS, ExecSession
from practice.node.fake_binaries import write_fake_binaries
from practice.node.proc_files import process_environment, write_proc_files
from practice.programs.hangs import HUNG_FACT
from practice.programs.steps import ProgramContext, SharedFacts
from practice.runtime import Stdio
from tests.apiserver import ApiServer, status
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

MAX_STREAMS = 32
STUCK = 5
"""The pod whose second rank is stuck in its data loader."""
PORT = 2222
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_HOME = 'mount --bind "$1" /root && shift && exec "$@"'
"""Over the pod's sshd root has the pod's folder as its home, without the shell settings of the person who runs this."""
READY = '#!/bin/sh\ncat >/dev/null\nexec cat "$0.said"\n'
"""In place of Python: it takes the probe and prints what that has said before."""
SETTINGS = """Port {port}
ListenAddress {address}
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/id_pods.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
MaxStartups 256
MaxSessions 256
StrictModes no
SetEnv {env}
"""
CONFIG = """Host *
    Port {port}
    User {user}
    IdentityFile {keys}/id_pods
    HostKeyAlias a4-pods
    UserKnownHostsFile {keys}/known_hosts
    StrictHostKeyChecking yes
    LogLevel ERROR
"""


class Pods:
    """Folders of this machine for the pods of a job, each with an sshd of its own at the address of the pod."""

    def __init__(self, folder: Path, pods: Sequence[Pod]) -> None:
        self.folder, self.keys, self.pods, number = folder, folder / "keys", pods, len(pods)
        self.env: dict[str, dict[str, str]] = {}
        room = SharedFacts()
        room.post(HUNG_FACT, STUCK)
        for at, pod in enumerate(self.pods):
            place = folder / pod.name
            place.mkdir()
            env = {"JOB_COMPLETION_INDEX": str(at), "NNODES": str(number), "GPUS_PER_NODE": "8", "MASTER_ADDR": "a"}
            raw = {"metadata": {"name": pod.name}, "spec": {"nodeName": pod.node}}
            context = ProgramContext([], env, raw, room, random.Random(1), lambda: 0.0)
            write_fake_binaries(place, context)
            (place / ".bin" / "ssh").unlink()  # the real one is wanted
            doing = "data" if at == STUCK else "nccl"
            write_proc_files(place, context, doing)
            (place / ".bin" / "doing").write_text(doing)
            (place / ".bin" / "sick").write_text("")
            self.env[pod.name] = {**process_environment(place), "PATH": f"{place}/.bin:{PATH}", "HOME": str(place)}

    def make_keys(self) -> None:
        self.keys.mkdir()
        for name in ("id_pods", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", self.keys / name], check=True)
        (self.keys / "known_hosts").write_text(f"a4-pods {(self.keys / 'host_key.pub').read_text()}")
        for pod in self.pods:
            home = self.folder / pod.name / ".ssh"
            home.mkdir()
            shutil.copy(self.keys / "id_pods", home / "id_pods")
            (home / "config").write_text(CONFIG.format(port=PORT, keys=self.keys, user=getpass.getuser()))

    @contextlib.asynccontextmanager
    async def listening(self, sshd: str, *, said: dict[str, bytes] | None = None) -> AsyncIterator[list[int]]:
        """The processes of the pods' sshd; who comes by them finds what the probe has `said` in place of Python."""
        begun: list[asyncio.subprocess.Process] = []
        try:
            for pod in self.pods:
                place = self.folder / pod.name
                env = self.env[pod.name] | {"PATH": self.prepare(place, said[pod.name])} if said else self.env[pod.name]
                words = " ".join(f'"{name}={value}"' for name, value in env.items() if name != "HOME")
                file = place / "sshd_config"
                file.write_text(SETTINGS.format(port=PORT, address=pod.ip, keys=self.keys, env=words))
                own_home = ["unshare", "-m", "--propagation", "private", "sh", "-c", OWN_HOME, "sh", str(place)]
                argv = [*(own_home if os.geteuid() == 0 else []), sshd, "-D", "-e", "-f", str(file)]
                begun.append(await asyncio.create_subprocess_exec(*argv, stderr=subprocess.DEVNULL))
            async with asyncio.timeout(60):
                for pod in self.pods:
                    await wait_for(pod.ip)
            yield [each.pid for each in begun]
        finally:
            for each in begun:
                each.kill()
                await each.wait()

    @staticmethod
    def prepare(place: Path, said: bytes) -> str:
        """The PATH of a pod whose Python prints that."""
        folder = place / ".ready"
        folder.mkdir()
        (folder / "python3.said").write_bytes(said)
        (folder / "python3").write_text(READY)
        (folder / "python3").chmod(0o755)
        return f"{folder}:{place}/.bin:{PATH}"


async def wait_for(address: str) -> None:
    """Return once somebody listens there."""
    while True:
        try:
            _, writer = await asyncio.open_connection(address, PORT)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


def address(at: int) -> str:
    """That of the pod with this number."""
    return f"127.77.{at // 250}.{at % 250 + 1}"


class Streams(ABC):
    """The exec endpoint of an API server that has only so many streams."""

    def __init__(self) -> None:
        self.now, self.most, self.every, self.refused = 0, 0, 0, 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.now >= MAX_STREAMS:
            self.refused += 1
            return status(500, "error dialing backend: No agent available", reason="InternalError")
        self.now += 1
        self.every += 1
        self.most = max(self.most, self.now)
        try:
            opened = web.WebSocketResponse(protocols=EXEC_PROTOCOLS)
            await opened.prepare(request)
            await self.carry(request, opened)
            await opened.close()
            return opened
        finally:
            self.now -= 1

    @abstractmethod
    async def carry(self, request: web.Request, opened: web.WebSocketResponse) -> None:
        """Run what is asked for."""


class LocalStreams(Streams):
    """Commands run in the folders of pods."""

    def __init__(self, pods: Pods) -> None:
        super().__init__()
        self.pods = pods
        self.said: dict[str, bytes] = {}
        """What the first command of each pod has printed that succeeded."""

    async def carry(self, request: web.Request, opened: web.WebSocketResponse) -> None:
        pod = request.path.split("/")[-2]
        await ExecSession(opened, request.query).run(
            lambda stdio: self.run(pod, request.query.getall("command"), stdio)
        )

    async def run(self, pod: str, argv: list[str], stdio: Stdio) -> int:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, env=self.pods.env[pod], stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        printed = bytearray()

        async def feed() -> None:
            assert process.stdin is not None
            with contextlib.suppress(ConnectionError):
                while stdio.stdin is not None and (data := await stdio.stdin.read(1 << 15)):
                    process.stdin.write(data)
                    await process.stdin.drain()
            process.stdin.close()

        async def pass_on(stream: asyncio.StreamReader, channel: int) -> None:
            while data := await stream.read(1 << 15):
                printed.extend(data if channel == 1 else b"")
                await stdio.write(channel, data)

        feeding = asyncio.create_task(feed())
        await asyncio.gather(pass_on(process.stdout, 1), pass_on(process.stderr, 2))
        feeding.cancel()
        if not (code := await process.wait()):
            self.said.setdefault(pod, bytes(printed))
        return code


class Cluster:
    """What is known of a cluster, and streams through that client."""

    def __init__(self, fleet: Fleet, client: Client) -> None:
        self.fleet, self.client = fleet, client

    def connection_for_change(self, _: str) -> Cluster:
        return self


def cores_used(others: Sequence[int]) -> tuple[float, float, float]:
    """Seconds of the cores that these took so far: this process, what it has started and ended, and the `others`."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(
        sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) for pid in others
    )
    tick = os.sysconf("SC_CLK_TCK")
    return own.ru_utime + own.ru_stime, ended.ru_utime + ended.ru_stime, ticks / tick


async def measure(job: JobSet, pods: Pods, way: str, servers: Sequence[int] = ()) -> tuple[bool, dict[str, bytes]]:
    """Inspect the job once: whether the right rank was named within 10 s by at most 4 streams, and what pods said."""
    streams = LocalStreams(pods)
    async with ApiServer(secure=True) as server, server.client() as client:
        for pod in pods.pods:
            server.handlers[f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec"] = streams.answer
        before, began = cores_used(servers), time.monotonic()
        cluster = cast("Any", Cluster(fleet_of(job, *pods.pods), client))
        report = await JobInspector(cluster).inspect_job("default", "hung")
        took = time.monotonic() - began
        own, streamed, others = (now - then for now, then in zip(cores_used(servers), before, strict=True))
    print(  # noqa: T201
        f"{way}: {took:.1f} s, {streams.every} streams, {streams.most} at a time, {streams.refused} refused; "
        f"{len(report.processes):,} ranks; {report.asked}\n    {report.short}\n"
        f"    seconds of {os.cpu_count()} cores (load {os.getloadavg()[0]:.1f}): console and API server {own:.1f}, "
        f"what the streams run {streamed:.1f}, sshd of all pods and what that runs {others:.1f}"
    )
    named = [each for group in report.suspects for each in group.ranks]
    return took <= 10 and streams.every <= 4 and named == [8 * STUCK + 1], streams.said


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=128)
    parser.add_argument("--sshd", default=shutil.which("sshd") or "/usr/sbin/sshd", help="by its whole path")
    asked = parser.parse_args()
    await asyncio.to_thread(Path("/run/sshd").mkdir, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="a4-pods-") as name:
        job = jobset("hung", asked.pods)
        every = [structs.replace(rank(job, at, f"node-{at}"), ip=address(at)) for at in range(asked.pods)]
        pods = await asyncio.to_thread(Pods, Path(name), every)
        _, said = await measure(job, pods, "pod by pod")
        await asyncio.to_thread(pods.make_keys)
        async with pods.listening(asked.sshd) as servers:
            right, _ = await measure(job, pods, "through one pod", servers)
        async with pods.listening(asked.sshd, said=said) as servers:
            fast, _ = await measure(job, pods, "through one pod, the answers of the others ready", servers)
    return int(not (right or fast))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
