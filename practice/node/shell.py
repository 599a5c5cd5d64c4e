"""Shells in pods: a real shell on this machine, in a folder that is the pod's own, with the container's environment."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import pty
import shlex
import shutil
import signal
import struct
import termios
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from practice.node.fake_binaries import activity_of, write_activity, write_fake_binaries
from practice.node.flight_recorder import FlightRecorders
from practice.node.host_keys import HostKeys
from practice.node.pod_ssh import PodSsh
from practice.node.pod_volumes import find_on_machine, write_files
from practice.node.proc_files import process_environment, training_step_seconds
from practice.objects.api_error import ApiError
from practice.objects.resources import PODS
from practice.programs.recipes import SSHD_FACT, launcher_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from practice.controllers.kubelet import Kubelets
    from practice.runtime import Stdio

_NOT_FOUND = 127
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_KEPT = ("TERM", "LANG", "LC_ALL")
_LOGIN = ("HOME", "HOSTNAME", "PATH", "USER", "PS1", "PROMPT_COMMAND", "TMUX_TMPDIR", "A4_PROC", "A4_RDMA", *_KEPT)
"""Variables of the container, or of the practice cluster, that a session of sshd has."""


@dataclass(frozen=True)
class ShellPlace:
    """The folder and the environment in which a command of a pod runs."""

    folder: Path
    env: dict[str, str]
    end_callbacks: set[Callable[[], None]] = field(default_factory=set, compare=False)
    """Callbacks of the container that end its commands when it ends."""
    processes: set[asyncio.subprocess.Process] = field(default_factory=set, compare=False)
    """The process of the command, once it has started."""

    @property
    def notice(self) -> str:
        """The first line a shell shows."""
        return f"practice cluster: this shell runs on your own machine, in {self.folder}"


class PodShells:
    """Starts commands in pods, and ends them all at shutdown."""

    def __init__(self, kubelets: Kubelets, folder: Path) -> None:
        self.kubelets = kubelets
        self._folder = folder
        self.host_keys = HostKeys(kubelets.storage)
        self._recorders = FlightRecorders()
        self._ssh = PodSsh(self, folder / ".ssh" / "socket")
        self._processes: set[asyncio.subprocess.Process] = set()
        self._written: dict[Path, dict[str, int]] = {}

    def has_sshd(self, namespace: str, pod: str) -> bool:
        """Whether an SSH server listens in the pod: in the chart's jobs, once the launcher has started it."""
        place = self.kubelets.find_container(namespace, pod, "").place
        if place is not None and place.rank in place.room.facts.get("steps", {}):
            return f"{SSHD_FACT} {place.rank}" in place.room.facts
        image = self.kubelets.storage.get(PODS, namespace, pod)["spec"]["containers"][0].get("image", "")
        return self.kubelets.registries.has_sshd(image)

    def open_place(self, namespace: str, pod: str, container: str) -> ShellPlace:
        """Return the place of a container. Raises ApiError if it does not run."""
        run = self.kubelets.find_container(namespace, pod, container)
        if not run.running or run.place is None:
            text = f'container not found ("{run.name}")'
            raise ApiError(500, "InternalError", f"unable to upgrade connection: {text}")
        folder = self._folder / namespace / pod / run.name
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
            write_fake_binaries(folder, run.place, self.host_keys.public_key(namespace, pod), self._ssh.socket)
            if launcher_at(run.place.argv) is not None:
                _share_environment(folder, run.place.env, self.host_keys.login_key(namespace, pod))
        write_activity(folder, run.place)
        write_files(folder, run.place, self._written.setdefault(folder, {}))
        place = run.place
        self._recorders.listen(folder, place, lambda: activity_of(place), training_step_seconds(place), run.guests)
        env = {name: value for name, value in run.place.env.items() if not name.startswith("_")}
        env |= {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= process_environment(folder)
        env["TMUX_TMPDIR"] = str(self._tmux_folder(folder))
        prompt = f"{pod} (practice, on this machine):\\w# "
        again = f"PS1={shlex.quote(prompt)}; unset PROMPT_COMMAND"  # after what the files of this machine's bash set
        env |= {"HOME": str(folder), "PATH": f"{folder / '.bin'}:{_SYSTEM_PATH}", "USER": "root"}
        env |= {"PS1": prompt, "PROMPT_COMMAND": again}
        return ShellPlace(folder, env, run.guests)

    @staticmethod
    def login_place(place: ShellPlace) -> ShellPlace:
        """The place of an sshd session, whose environment is only what ~/.ssh/environment contains."""
        env = {name: place.env[name] for name in _LOGIN if name in place.env}
        env |= {"LOGNAME": "root", "SHELL": "/bin/bash"}
        with contextlib.suppress(FileNotFoundError):
            lines = (place.folder / ".ssh" / "environment").read_text().splitlines()
            env |= {name: value for name, cut, value in (line.partition("=") for line in lines) if cut}
        return replace(place, env=env)

    def _tmux_folder(self, folder: Path) -> Path:
        """The folder of the pod's tmux socket, with a path short enough for a socket."""
        found = self._folder / ".tmux" / hashlib.sha256(str(folder).encode()).hexdigest()[:8]
        found.mkdir(parents=True, exist_ok=True, mode=0o700)
        return found

    async def run(self, place: ShellPlace, argv: list[str], stdio: Stdio) -> int:
        """Run a command until it ends, or the caller is cancelled; 127 when there is no such command."""
        found = shutil.which(argv[0], path=place.env["PATH"]) if argv else None
        if found is None:
            missing = argv[0] if argv else "nothing"
            await stdio.write(2, f"practice cluster: {missing}: not found on this machine\n".encode())
            return _NOT_FOUND
        await self._ssh.start()
        begun: set[asyncio.subprocess.Process] = set()
        place = replace(place, processes=begun)

        def end() -> None:
            for process in begun:
                _end_process(process)

        place.end_callbacks.add(end)
        try:
            run = self._run_with_terminal if stdio.tty else self._run_with_pipes
            return await run(place, [found, *(find_on_machine(place.folder, each) for each in argv[1:])], stdio)
        finally:
            place.end_callbacks.discard(end)

    async def close(self) -> None:
        await self._ssh.close()
        self._recorders.close()
        for process in list(self._processes):
            _end_process(process)
        for process in list(self._processes):
            await process.wait()
        for socket in await asyncio.to_thread(lambda: list((self._folder / ".tmux").glob("*/tmux-*/default"))):
            argv = ("tmux", "-S", str(socket), "kill-server")
            await (await asyncio.create_subprocess_exec(*argv, stdout=DEVNULL, stderr=DEVNULL)).wait()

    async def _start_process(
        self,
        place: ShellPlace,
        argv: list[str],
        stdin: int,
        output: int = PIPE,
        own: Callable[[], object] | None = None,
    ) -> asyncio.subprocess.Process:
        """Start a program; the child process calls `own` before it becomes the program."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=place.folder,
            env=place.env,
            start_new_session=True,
            stdin=stdin,
            stdout=output,
            stderr=output,
            preexec_fn=own,
        )
        self._processes.add(process)
        place.processes.add(process)
        return process

    async def _run_with_pipes(self, place: ShellPlace, argv: list[str], stdio: Stdio) -> int:
        stdin, write = stdio.stdin, stdio.write
        process = await self._start_process(place, argv, PIPE if stdin else DEVNULL)
        feeding = asyncio.ensure_future(_copy_to_process(process, stdin)) if stdin is not None else None
        try:
            await asyncio.gather(
                _copy_from_process(process.stdout, 1, write), _copy_from_process(process.stderr, 2, write)
            )
            return _exit_code(await process.wait())
        finally:
            await self._finish_process(process, feeding)

    async def _run_with_terminal(self, place: ShellPlace, argv: list[str], stdio: Stdio) -> int:
        master, slave = pty.openpty()
        _set_size(master, 80, 24)
        process = await self._start_process(place, argv, slave, slave, lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        if _is_shell(argv):
            await stdio.write(1, place.notice.encode() + b"\r\n")
        pipes = [asyncio.ensure_future(_resize_terminal(master, stdio.sizes))]
        if stdio.stdin is not None:
            pipes.append(asyncio.ensure_future(_copy_to_terminal(master, stdio.stdin)))
        try:
            await _copy_from_terminal(master, stdio.write)
            return _exit_code(await process.wait())
        finally:
            await self._finish_process(process, *pipes)
            os.close(master)

    async def _finish_process(self, process: asyncio.subprocess.Process, *pipes: asyncio.Future[None] | None) -> None:
        for helper in pipes:
            if helper is not None:
                helper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await helper
        _end_process(process)
        await process.wait()
        self._processes.discard(process)


def _share_environment(folder: Path, env: dict[str, str], key: str) -> None:
    """Write the job's environment to ~/.ssh as the launchers do, without multi-line values, and the release's key."""
    private = folder / ".ssh"
    private.mkdir(mode=0o700)
    lines = (f"{name}={value}\n" for name, value in env.items() if "\n" not in value and name not in ("HOME", "PATH"))
    (private / "environment").write_text("".join(lines))
    (private / "environment").chmod(0o600)
    (private / "id_pods").touch(mode=0o600)
    (private / "id_pods").write_text(key)
    (private / "config").write_text(f"Host *\n    IdentityFile {private}/id_pods\n")


def _is_shell(argv: list[str]) -> bool:
    """Whether a command line is an interactive shell."""
    name = argv[0].rpartition("/")[2]
    return name in ("sh", "bash", "dash", "zsh") and not any(part == "-c" for part in argv[1:])


def _end_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGHUP)
            os.killpg(process.pid, signal.SIGKILL)


def _exit_code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned


def _set_size(master_fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(master_fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _resize_terminal(master_fd: int, sizes: asyncio.Queue[tuple[int, int]]) -> None:
    while True:
        _set_size(master_fd, *await sizes.get())


async def _copy_to_terminal(master_fd: int, stdin: asyncio.StreamReader) -> None:
    while data := await stdin.read(4096):
        os.write(master_fd, data)
    os.write(master_fd, b"\x04")


async def _copy_from_terminal(master_fd: int, write: Callable[[int, bytes], Awaitable[None]]) -> None:
    """Copy the terminal's output until its last program has ended."""
    os.set_blocking(master_fd, False)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(master_fd, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            try:
                data = os.read(master_fd, 65536)
            except BlockingIOError:
                continue
            except OSError:  # the other end is closed: how a terminal says that it is over
                return
            if not data:
                return
            await write(1, data)
            ready.set()
    finally:
        loop.remove_reader(master_fd)


async def _copy_to_process(process: asyncio.subprocess.Process, stdin: asyncio.StreamReader) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading all
        while data := await stdin.read(65536):
            process.stdin.write(data)
            await process.stdin.drain()
        process.stdin.close()


async def _copy_from_process(
    source: asyncio.StreamReader | None, channel: int, write: Callable[[int, bytes], Awaitable[None]]
) -> None:
    while source is not None and (data := await source.read(65536)):
        await write(channel, data)
