"""A program in a pseudo-terminal: keys in, what a person would see out, and when."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyte

COLUMNS, LINES = 200, 50
QUIET = 0.12
"""Seconds without a byte after which a screen has settled."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Paint:
    """How long one key took, in seconds from the byte written: to the first byte drawn, and to the last."""

    first: float
    settled: float


class Terminal:
    """One program and its screen; leaving the block ends the program and all its children."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.argv = list(argv)
        self.environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        self.started = 0.0
        self.first_byte = 0.0

    def __enter__(self) -> Self:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(self.argv[0], self.argv, self.environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        deadline = time.perf_counter() + 5
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            self.read(0.05)
            if time.perf_counter() > deadline:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                break
        os.close(self.fd)

    def read(self, timeout: float) -> bytes:
        """What the program writes within that time, b"" if nothing; the screen shows it afterwards."""
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return b""
        try:
            data = os.read(self.fd, 1 << 20)
        except OSError:  # the program has closed its side
            return b""
        self.first_byte = self.first_byte or time.perf_counter()
        self.stream.feed(data)
        return data

    def write(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.fd, keys)

    def text(self) -> str:
        """The screen as lines of text."""
        return "\n".join(self.screen.display)

    def wait(self, what: str, seen: Callable[[str], bool], limit: float) -> float:
        """Seconds since the start until the screen shows it."""
        deadline = time.perf_counter() + limit
        while time.perf_counter() < deadline:
            self.read(0.02)
            if seen(self.text()):
                return time.perf_counter() - self.started
        raise TimeoutError(f"{self.argv[0]}: {what} not seen in {limit} s; the screen:\n{self.text()}")

    def settle(self, limit: float = 10) -> None:
        """Read until nothing has been drawn for a while."""
        deadline = time.perf_counter() + limit
        while self.read(QUIET * 2) and time.perf_counter() < deadline:
            pass

    def press(self, key: bytes) -> Paint:
        """Press one key and time what it draws; bytes are kept aside until the screen is quiet."""
        written: list[bytes] = []
        start = time.perf_counter()
        os.write(self.fd, key)
        first = last = 0.0
        while True:
            ready, _, _ = select.select([self.fd], [], [], QUIET if first else 1.0)
            if not ready:
                break
            try:
                written.append(os.read(self.fd, 1 << 20))
            except OSError:
                raise RuntimeError(f"{self.argv[0]} ended at key {key!r}; its last screen:\n{self.text()}") from None
            last = time.perf_counter() - start
            first = first or last
        for data in written:
            self.stream.feed(data)
        return Paint(first or float("nan"), last or float("nan"))

    def memory(self) -> float:
        """MiB of all its processes that are its own (resident, shared pages counted once each)."""
        return sum(_status(pid, "VmRSS") for pid in self._family()) / 1024

    def cpu(self) -> float:
        """CPU seconds of all its processes so far."""
        return sum(cpu_of(pid) for pid in self._family())

    def _family(self) -> list[int]:
        parents = {int(each.name): _parent(each) for each in Path("/proc").iterdir() if each.name.isdigit()}
        family = {self.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return sorted(family)


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _status(pid: int, key: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
    return 0


def cpu_of(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0
