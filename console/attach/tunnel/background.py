"""Tunnels, also in background processes of their own, which end when stopped or when the job has ended."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from console import assets
from console.attach.tunnel import tunnel_files
from console.attach.tunnel.local_forward import LocalForward, PortForwarder
from console.attach.tunnel.relay import load_login
from console.attach.tunnel.tunnel_files import Tunnel, TunnelProfile, find_free_name, parse_tunnel
from console.detached_tasks import start_task
from console.errors import BadInput, ConsoleError, Unreachable
from console.kube.pod_address import PodAddress, PortPair

if TYPE_CHECKING:
    from console.kube.login import Login
    from console.kube.watched_cluster import WatchedCluster


PROCESS_START_TIMEOUT = 30.0  # seconds a process has to open its ports


@dataclass(frozen=True, slots=True)
class TunnelRequest:
    namespace: str
    job: str
    rank: str
    ports: tuple[str, ...]
    context: str = ""
    kubeconfig: str = ""  # empty: as the environment says

    @property
    def address(self) -> PodAddress:
        return PodAddress.parse(self.namespace, self.job, self.rank)


class BackgroundTunnel:
    """A tunnel of this process that other processes can see and stop."""

    def __init__(self, local_forward: LocalForward, *, is_kept: bool) -> None:
        self.local_forward = local_forward
        self._is_kept = is_kept
        self._server: asyncio.Server | None = None
        self._socket_path: Path | None = None
        self._stopped, self._closed = asyncio.Event(), asyncio.Event()

    @property
    def tunnel(self) -> Tunnel:
        return replace(self.local_forward.tunnel, kept=self._is_kept)

    async def open(self) -> None:
        """Open the local ports and publish the tunnel. Raises BadInput, JobEnded and Refused."""
        await self.local_forward.open()
        self._socket_path = await asyncio.to_thread(tunnel_files.socket_path, self.tunnel.name)
        await asyncio.to_thread(self._socket_path.unlink, missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._answer_request, self._socket_path)
        finally:
            os.umask(before)
        await self._write_state()

    async def _write_state(self) -> None:
        """Write the tunnel's state to its file, for other processes to list."""
        await asyncio.to_thread(tunnel_files.write_json, tunnel_files.state_file(self.tunnel.name), asdict(self.tunnel))

    async def _answer_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        writer.write(json.dumps(asdict(self.tunnel)).encode() + b"\n")
        if asked.strip() == b"stop":
            self.stop()
            await self._closed.wait()  # the end of this connection tells the caller that the ports are free
        writer.close()

    def stop(self) -> None:
        self._stopped.set()

    async def wait_until_over(self) -> bool:
        """Wait until the tunnel is stopped (returns False) or its job has ended (True)."""
        waits = [asyncio.ensure_future(each.wait()) for each in (self._stopped, self.local_forward.ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return not self._stopped.is_set()

    async def close(self) -> None:
        """Close the local ports; the state file stays unless the tunnel was stopped by request."""
        await self.local_forward.close()
        if self._server:
            self._server.close()
        if self._socket_path:
            await asyncio.to_thread(self._socket_path.unlink, missing_ok=True)
        if self._is_kept and self.local_forward.ended.is_set() and not self._stopped.is_set():
            await self._write_state()
        else:
            await asyncio.to_thread(tunnel_files.state_file(self.tunnel.name).unlink, missing_ok=True)
        self._closed.set()


async def start_tunnel(login: Login, request: TunnelRequest, *, is_background: bool) -> BackgroundTunnel:
    address = request.address
    ports = [PortPair.parse(each) for each in request.ports]
    if not ports:
        raise BadInput("No port was named.", "Name one or more: 8888, or 9000:8888.")
    forwarding = LocalForward(
        PortForwarder(login),
        address,
        ports,
        name=await find_free_name(address.slug),
        context=request.context or login.target.context,
    )
    running = BackgroundTunnel(forwarding, is_kept=is_background)
    await running.open()
    return running


async def start_detached_tunnel(request: TunnelRequest) -> tuple[Tunnel, list[str]]:
    """Start a tunnel in another process; (state once its ports are open, notes). Raises the reason of a failure."""
    line = await asyncio.to_thread(_spawn_and_read_line, json.dumps(asdict(request)).encode() + b"\n")
    answer = json.loads(line or b'{"error": "The tunnel\'s process ended at once."}')
    if "error" in answer:
        error = ConsoleError(answer["error"], answer.get("hint", ""))
        error.exit_code = answer.get("code", 1)
        raise error
    return parse_tunnel(answer["tunnel"]), answer["notes"]


def _spawn_and_read_line(request: bytes) -> bytes:
    """Start the tunnel process through a short-lived shell, so it is no child of this one; returns its first line.

    The process imports modules from this program's folder only. Unreachable after PROCESS_START_TIMEOUT seconds.
    """
    program, environment = assets.module_command("console.attach.tunnel.background"), assets.module_environment()
    if listed := os.environ.get("KUBECONFIG"):  # the process runs in another folder
        environment["KUBECONFIG"] = os.pathsep.join(
            str(Path(each).absolute()) for each in listed.split(os.pathsep) if each
        )
    with subprocess.Popen(
        ["/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
        cwd=assets.CHILD_WORKING_FOLDER,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        with suppress(BrokenPipeError):  # one that ended at once reads no order, and answers nothing
            shell.stdin.write(request)
            shell.stdin.close()
        if not select.select([shell.stdout], [], [], PROCESS_START_TIMEOUT)[0]:
            os.killpg(shell.pid, signal.SIGKILL)
            words = f"The tunnel did not open within {PROCESS_START_TIMEOUT:.0f} s."
            raise Unreachable(words, "Try `a4 forward` in the foreground.")
        return shell.stdout.readline()


def main() -> int:
    """The tunnel process: reads a request from stdin, prints one line, and continues in the background."""
    order = json.loads(sys.stdin.readline())
    return asyncio.run(_run_detached(TunnelRequest(**{**order, "ports": tuple(order["ports"])})))


async def _run_detached(order: TunnelRequest) -> int:
    loop = asyncio.get_running_loop()
    try:
        who = await asyncio.to_thread(load_login, Path(order.kubeconfig) if order.kubeconfig else None, order.context)
        running = await start_tunnel(who, order, is_background=True)
    except ConsoleError as error:
        _report_and_detach({"error": error.message, "hint": error.hint, "code": error.exit_code})
        return error.exit_code
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, running.stop)
    _report_and_detach({"tunnel": asdict(running.tunnel), "notes": running.local_forward.notes})
    await running.wait_until_over()
    await running.close()
    return 0


def _report_and_detach(fields: dict[str, object]) -> None:
    """Print one line of JSON, then detach from the terminal, pipes and folder of the starting process."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nowhere, each)
    os.close(nowhere)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())


class Tunnels:
    """Opens tunnels to ranks of this cluster; lists and stops tunnels of all processes."""

    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster
        self._running: dict[str, BackgroundTunnel] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_tunnel(
        self, address: PodAddress, ports: Sequence[str], *, keeps_open: bool = False
    ) -> tuple[Tunnel, list[str]]:
        """Open a tunnel, which outlives this process if `keeps_open`: (state, notes). BadInput, JobEnded or Refused."""
        settings = self._cluster.settings
        file = str(await asyncio.to_thread(settings.kubeconfig.absolute)) if settings.kubeconfig else ""
        order = TunnelRequest(
            address.namespace, address.job_text, address.rank_text, tuple(ports), self._cluster.context, file
        )
        if keeps_open:
            return await start_detached_tunnel(order)
        login = self._cluster.current_connection.client.login
        running = await start_task(start_tunnel(login, order, is_background=False), "tunnel:start")
        self._running[running.tunnel.name] = running
        task = start_task(self._close_when_over(running), f"tunnel:{running.tunnel.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return running.tunnel, running.local_forward.notes

    async def _close_when_over(self, running: BackgroundTunnel) -> None:
        try:
            await running.wait_until_over()
        finally:
            self._running.pop(running.tunnel.name, None)
            await running.close()

    def opened_here(self) -> list[Tunnel]:
        """The tunnels of this process, which end with it."""
        return [each.tunnel for each in self._running.values()]

    async def list_tunnels(self) -> tuple[Tunnel, ...]:
        """All tunnels of this user by name; ended ones stay listed for a day."""
        return await tunnel_files.list_tunnels()

    async def stop_tunnel(self, name: str) -> Tunnel:
        """Stop a tunnel, or remove an ended one; returns its last state. Raises NotFound, Unreachable if it hangs."""
        return await tunnel_files.stop_tunnel(name)

    async def list_profiles(self) -> tuple[TunnelProfile, ...]:
        return await asyncio.to_thread(tunnel_files.read_profiles)

    async def save_profile(self, profile: TunnelProfile) -> None:
        """Save a profile; one of the same name is replaced."""
        await asyncio.to_thread(tunnel_files.save_profile, profile)

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for running in tuple(self._running.values()):
            running.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
