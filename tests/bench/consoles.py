"""The console and k9s on the same cluster: how long, how much memory, how much CPU."""

import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.churn import churn
from tests.bench.terminal import Paint, Terminal

IDLE_SECONDS = 20.0
CHURN_SECONDS = 20.0
KEYS = 40
REST = 5.0
"""Seconds after the first lists in which nothing is pressed: what is timed is the console at work, not its start."""
DOWN, PAGE_DOWN, UP, PAGE_UP = b"\x1b[B", b"\x1b[6~", b"\x1b[A", b"\x1b[5~"
A4 = Path(sys.executable).parent / "a4"


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a console on its table of all pods, and how to tell that every pod is there."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    open_pods: bytes = b""
    count: str = "{pods}"
    """What the screen says once that many pods are listed."""

    def complete(self, text: str, pods: int) -> bool:
        """Whether the screen says that all pods are there."""
        return self.count.format(pods=f"{pods:,}") in text


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one program; seconds, MiB, share of a core."""

    first_paint: float
    full_table: float
    full_table_cpu: float
    memory: float
    idle_cpu: float
    churn_cpu: float
    down: tuple[Paint, ...]
    page: tuple[Paint, ...]


def a4(kubeconfig: Path) -> Program:
    """This console."""
    return Program("a4", (str(A4), "--kubeconfig", str(kubeconfig)), {}, b"4", "{pods} pods")


def k9s(binary: Path, kubeconfig: Path, folder: Path) -> Program:
    """k9s with its settings in a folder of its own."""
    argv = (str(binary), "--kubeconfig", str(kubeconfig), "-A", "-c", "pods", "--splashless", "--logoless")
    return Program("k9s", argv, {"K9S_CONFIG_DIR": str(folder), "K9S_LOGS_DIR": str(folder)}, count="[{pods}]")


def measure(program: Program, kubeconfig: Path, pods: int) -> Figures:
    """Start it, wait for the full table, let it idle, shake the cluster, press keys."""
    with Terminal(program.argv, program.environment) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 30)
        first_paint = terminal.first_byte - terminal.started
        terminal.write(program.open_pods)
        full_table = terminal.wait("the full table", lambda text: program.complete(text, pods), 120)
        full_table_cpu = terminal.cpu()
        terminal.settle()
        idle_cpu = share_of_core(terminal, IDLE_SECONDS)
        memory = terminal.memory()
        with churn(kubeconfig):
            churn_cpu = share_of_core(terminal, CHURN_SECONDS)
        terminal.settle()
        down = keys(terminal, DOWN, UP)
        page = keys(terminal, PAGE_DOWN, PAGE_UP)
        return Figures(first_paint, full_table, full_table_cpu, memory, idle_cpu, churn_cpu, down, page)


def share_of_core(terminal: Terminal, seconds: float) -> float:
    """CPU of the program over that time, its screen read meanwhile so that it never waits for its terminal."""
    before, start = terminal.cpu(), time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        terminal.read(min(0.25, seconds - passed))
    return (terminal.cpu() - before) / passed


def keys(terminal: Terminal, forth: bytes, back: bytes) -> tuple[Paint, ...]:
    """Timings of a key, pressed many times one way and then the other."""
    return tuple(terminal.press(key) for key in (forth,) * (KEYS // 2) + (back,) * (KEYS // 2))


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def first_screen_of_practice() -> float:
    """Seconds from the command to a screen that shows the practice cluster's node pools."""
    with Terminal((str(A4), "--demo"), {}) as terminal:
        return terminal.wait("the practice cluster", lambda text: "a4-highgpu-8g-a4-pool" in text, 30)


def key_to_paint(kubeconfig: Path, screen: bytes) -> tuple[Paint, ...]:
    """Timings of Down and PgDn on one of the console's screens."""
    program = a4(kubeconfig)
    with Terminal(program.argv, program.environment) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 30)
        terminal.write(screen)
        terminal.wait("every kind live", lambda text: "● live" in text, 60)
        share_of_core(terminal, REST)
        terminal.settle(20)
        return keys(terminal, DOWN, UP) + keys(terminal, PAGE_DOWN, PAGE_UP)
