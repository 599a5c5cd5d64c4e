"""How soon the console answers a key during a flood: `python -m tests.bench.flooded_keys [PART OF A NAME ...]`."""

import os
import select
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.consoles import A4
from tests.bench.floods import MEMORY, environment, lying
from tests.bench.terminal import Terminal
from tests.hostile.lying_api import FLOODS

JOB = "llama-70b"
KEYS = 20
PAUSE, PAUSES = 0.13, 7
"""Seconds by which each of so many keys waits longer than the one before: some come in a row, some after a rest."""
LIMIT = 0.2
"""Seconds from a key to what it opens."""
OPEN, CLOSE, OPENED = b"?", b"\x1b", "Keys that work here"
"""The help, and its title."""
LOG, GPUS, HANG, EVENTS = b"l", b"h", b"H", b"e"
"""Tabs of a job's page."""
PLACES = {
    "": LOG,
    "log: lines without end": LOG,
    "log: a line without end": LOG,
    "log: long lines without end": LOG,
    "exec: lines without end": GPUS,
    "exec: a line without end": HANG,
    "exec: errors without end": HANG,
    "exec: bytes one by one": GPUS,
    "exec: readings of GPUs without end": GPUS,
    "list: items without end": None,
    "list: all kinds without end": None,
    "list: pages without end": None,
    "list: a refusal without end": None,
    "watch: changes without end": None,
    **{
        name: LOG if name.startswith("log") else EVENTS if "an event that" in name else None
        for name in FLOODS
        if any(each.isdigit() for each in name) or name.endswith((" alone", " circle", " a time"))
        if not name.startswith("exec")
    },
    "watch: pods without end": None,
    "watch: a line without end": None,
    "watch: events without end": EVENTS,
    "watch: events with messages of 1 MB": EVENTS,
}
"""Where the console stands under a flood; None: on the table of all pods, from its start on."""


def key(terminal: Terminal) -> float:
    """Seconds from a key to the page that it opens, infinite after ten; the page is closed again."""
    terminal.write(OPEN)
    start, opened, data = time.perf_counter(), float("inf"), b""
    while opened == float("inf") and time.perf_counter() - start < 10:
        if select.select([terminal.fd], [], [], 0.1)[0]:
            data += os.read(terminal.fd, 1 << 20)
            if OPENED.encode() in data:
                opened = time.perf_counter() - start
    terminal.stream.feed(data)  # only now: it would take longer than what is timed, and the console would wait for it
    terminal.write(CLOSE)
    end = time.perf_counter() + 10
    while OPENED in terminal.text() and time.perf_counter() < end:
        terminal.read(0.1)
    return opened


def measure(
    flood: str,
    kubeconfig: Path,
    folder: Path,
    set_flood: Callable[[str], None],
    *,
    keys: int = KEYS,
    first: float = 3.0,
) -> tuple[list[float], float]:
    """Seconds of each key, of which the first comes so many seconds after the flood, and MiB at most."""
    tab = PLACES[flood]
    if tab is None:
        set_flood(flood)
    argv = (str(A4), "--kubeconfig", str(kubeconfig))
    with Terminal(argv, environment(folder)) as terminal:
        terminal.wait("the first screen", lambda text: bool(text.strip()), 60)
        if tab is None:
            terminal.write(b"4")
            terminal.wait("pods", lambda text: "POD" in text or "NAME" in text, 60)
        else:
            terminal.write(b"3")
            terminal.wait("the jobs", lambda text: JOB in text, 60)
            terminal.write(b"/" + JOB.encode() + b"\r\r")
            terminal.wait("the job", lambda text: "H Hang" in text and "e Events" in text, 60)
            set_flood(flood)
            terminal.write(tab)
            if tab == HANG:  # of a job that is not one's own it asks first
                terminal.wait("the question", lambda text: "Look (y)" in text, 60)
                terminal.write(b"y")
        times, memory, pause = [], 0.0, first
        for number in range(keys):
            end = time.perf_counter() + pause
            while time.perf_counter() < end:
                terminal.read(0.01)
            times.append(key(terminal))
            pause = PAUSE * (number % PAUSES)
            memory = max(memory, terminal.memory())
        set_flood("")
        return times, memory


def main(parts: list[str], say: Callable[[str], None]) -> bool:
    """Print the table; whether every key was answered in time."""
    broken = 0
    say(f"{'flood':38} {'median s':>9} {'worst s':>8} {'MiB':>6}   a key of the console")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with lying(folder) as (kubeconfig, set_flood):
            for flood in PLACES:
                if parts and not any(part in (flood or "none") for part in parts):
                    continue
                try:
                    times, memory = measure(flood, kubeconfig, folder, set_flood)
                except (RuntimeError, TimeoutError) as error:
                    say(f"{flood:38} BROKEN {error}")
                    broken += 1
                    set_flood("")
                    continue
                good = max(times) <= LIMIT and memory <= MEMORY
                broken += not good
                median = sorted(times)[len(times) // 2]
                word = "" if good else "BROKEN"
                say(f"{flood or 'none':38} {median:9.3f} {max(times):8.3f} {memory:6.0f}   {word}")
    say(f"{broken} floods delay a key by more than {LIMIT:g} s, or fill more than {MEMORY:g} MiB")
    return not broken


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:], lambda line: print(line, flush=True)))  # noqa: T201
