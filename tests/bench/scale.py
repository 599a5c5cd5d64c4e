"""The console on 5,000 nodes and 150,000 pods, served by a small TLS server that answers like a real API server."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.consoles import A4, keys, p95, share_of_core
from tests.bench.rows import Bound
from tests.bench.terminal import Terminal

NODES, PODS = 5_000, 150_000
SECONDS = 20.0
UPDATES = 200
"""Pods that change in a second."""
PAIRS = {
    "Down": (b"\x1b[B", b"\x1b[A"),
    "PgDn": (b"\x1b[6~", b"\x1b[5~"),
    "End": (b"\x1b[F", b"\x1b[H"),
}
CUT_AT = 40
LETTERS = b"train-01"
BACKSPACE = b"\x7f"
PAINTED = 50
"""Milliseconds within which all that a key changes is painted, in 19 of 20."""


class Control:
    """The server of another process, and what it is told to do."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.kubeconfig = Path(self._out.readline().strip())

    def tell(self, line: str) -> None:
        """Have it done."""
        self._in.write(f"{line}\n")
        self._in.flush()
        self._out.readline()


@contextmanager
def served(nodes: int, pods: int) -> Iterator[Control]:
    """The server, until the block ends."""
    argv = [sys.executable, "-m", "tests.bench.scale_server", str(nodes), str(pods)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Control(process)
        finally:
            process.terminate()


def main(bound: Bound, say: Callable[[str], None]) -> bool:
    """Print every figure beside its bound; whether all are kept."""
    kept = []
    with served(NODES, PODS) as server:
        say(f"\n{NODES:,} nodes, {PODS:,} pods")
        argv = (str(A4), "--kubeconfig", str(server.kubeconfig))
        with Terminal(argv, {}) as terminal:
            terminal.wait("the first screen", lambda text: bool(text.strip()), 30)
            terminal.write(b"4")
            full = terminal.wait("the full table", lambda text: f"{PODS:,} pods" in text, 120)
            kept += [bound("full pods table (s)", full, 10)]
            say(f"processor time until then (s)    {terminal.cpu():10.2f}")
            share_of_core(terminal, 5)
            terminal.settle()
            kept += [bound("CPU while idle (% of a core)", 100 * share_of_core(terminal, SECONDS), 2)]
            kept += [bound("memory (MiB)", terminal.memory(), 600)]
            server.tell(f"churn {UPDATES}")
            share_of_core(terminal, 3)
            kept += [bound(f"CPU at {UPDATES} updates a second (%)", 100 * share_of_core(terminal, SECONDS), 25)]
            kept += [bound("memory then (MiB)", terminal.memory(), 600)]
            server.tell("churn 0")
            share_of_core(terminal, 3)
            terminal.settle()
            kept += _keys(terminal, "", bound)
            server.tell(f"churn {UPDATES}")
            share_of_core(terminal, 3)
            kept += _keys(terminal, f" at {UPDATES} updates a second", bound)
        for fault in ("cut", "expire"):
            kept += [_broken(argv, server, fault, bound)]
    return all(kept)


def _keys(terminal: Terminal, when: str, bound: Bound) -> list[bool]:
    """Keys that move, a filter typed letter by letter and taken back, and the columns to sort by in turn."""
    paints = {name: keys(terminal, forth, back) for name, (forth, back) in PAIRS.items()}
    paints["sort"] = tuple(terminal.press(b"o") for _ in range(20))
    terminal.press(b"/")
    letters = [bytes([letter]) for letter in LETTERS]
    paints["filter"] = tuple(terminal.press(key) for _ in range(3) for key in (*letters, *(BACKSPACE,) * len(letters)))
    terminal.press(b"\x1b")
    return [
        bound(f"{name}: {what} p95{when} (ms)", p95([1000 * getattr(paint, what) for paint in each]), PAINTED)
        for name, each in paints.items()
        for what in ("first", "settled")
    ]


def _broken(argv: tuple[str, ...], server: Control, fault: str, bound: Bound) -> bool:
    """A page in the middle of the first list breaks off, or has expired: the table fills and is never empty again."""
    server.tell(f"{fault} {CUT_AT}")
    with Terminal(argv, {}) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 30)
        terminal.write(b"4")
        terminal.wait("some pods", lambda text: "train-0" in text, 60)
        empty, deadline = 0, time.perf_counter() + 120
        while f"{PODS:,} pods" not in (text := terminal.text()):
            empty += "train-0" not in text
            if time.perf_counter() > deadline:
                raise TimeoutError(f"after a page that was {fault}, the pods never came; the screen:\n{text}")
            terminal.read(0.05)
        seconds = time.perf_counter() - terminal.started
    return bound(f"{fault}: empty screens", empty, 0) & bound(f"{fault}: full pods table (s)", seconds, 30)
