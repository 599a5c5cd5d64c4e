"""The lab's processes: started on free ports, each with its own log, none left behind."""

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tests.lab.build import LabError

_PORTS = range(15_000, 32_000)
TAIL = 15
"""Lines of a log that a failure shows."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nothing listens on, all different.

    Below those that the kernel hands to outgoing connections: one of those may be taken before a program listens on it.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    raise LabError(f"This machine has no {count} free ports between {_PORTS.start} and {_PORTS.stop}.")


def children(parent: int) -> list[int]:
    """Processes that one has started and that still run."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


@dataclass(slots=True)
class Processes:
    """The running programs of one lab; the one started last stops first."""

    logs: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self, name: str, *command: object, environment: Mapping[str, str] | None = None, user: int | None = None
    ) -> None:
        """Start a program that dies with this process, however this process ends.

        `user`: as whom it counts, while it may read and write every file; for root only.
        """
        # setpriv asks the kernel for the signal: it reaches the child even when we are killed with -9.
        setpriv = shutil.which("setpriv")
        whom = (
            [f"--reuid={user}", "--keep-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
            if user is not None
            else []
        )
        guard = [setpriv, *whom, "--pdeathsig", "KILL", "--"] if setpriv else []
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*guard, *(str(part) for part in command)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for us: we stop them, in order
            )  # fmt: skip

    def wait_ready(self, name: str, ready: Callable[[], bool], limit: float = 90) -> None:
        """Wait until the program says it is ready, or fail with the end of its log."""
        deadline = monotonic() + limit
        while not ready():
            try:
                code = self.running[name].wait(0.1)
            except subprocess.TimeoutExpired:
                if monotonic() > deadline:
                    raise self.failure(name, f"was not ready within {limit:.0f} s") from None
                continue
            raise self.failure(name, f"ended with exit code {code}")

    def check(self) -> None:
        """Raise for a program that has ended by itself."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise self.failure(name, f"ended with exit code {process.returncode}")

    def failure(self, name: str, what: str) -> LabError:
        log = self.logs / f"{name}.log"
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])
        return LabError(f"{name} {what}; the end of {log}:\n{tail}")

    def kill(self, name: str) -> None:
        """End one program at once, as a crash would."""
        process = self.running.pop(name)
        _signal(process, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all, politely first, and wait for them."""
        order = list(reversed(self.running.values()))
        for process in order:
            _signal(process, signal.SIGTERM)
        deadline = monotonic() + 3
        for process in order:
            try:
                process.wait(max(0.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()
        self.running.clear()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the whole group: sshd and kwok have children of their own."""
    if process.poll() is None:
        os.killpg(process.pid, number)
