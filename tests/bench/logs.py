"""Logs: 128 streams of 50 lines a second beside kubectl on the lab, and a file of a gigabyte opened and searched.

Ranks print in step, as those of a training do: 128 lines within 2 ms, 50 times a second. Or each prints at moments of
its own: 16 groups of 8 ranks, 1.25 ms apart.

Half of kubectl's delay is out of reach. It is the delay of the API server and the kubelet, which need both cores to
pass the lines on: 4 of 5 ms where ranks print in step. kubectl itself, in a compiled language, takes the rest. The row
"a reader that costs nothing" is kubectl's delay less all the processor time that kubectl uses for as many lines, as if
each line had waited for all of it. The third column is a reader that only decrypts what comes (see `bare`). What a4
has on top of that is 11 microseconds of Python for each line: its timestamp, secrets redacted, remembered over a
drop, kept for the disk, put in order of time.

Readers take turns in one lab, several times over. Where other work goes on, the delay of whoever needs the processor
most grows first, and that is the console.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.consoles import A4, p95
from tests.bench.large_log import large_file
from tests.lab.control_plane import Lab

RANKS = 128
RATE = 50
SECONDS = 15
ROUNDS = 3
"""How often each reader has its turn; figures are the median of them, and the best."""
GROUPS = {"in step": 1, "each at its own moments": 16}
"""Between two lines of a rank, at how many moments others print."""
KWOK_USER = 64_085
"""The user id as which kwok counts: it takes an inotify instance for each log, and a user has just 128 of them."""
JOB = "bench-logs"
SPARE = 16
"""Inotify instances that are left to the rest of the lab, which takes 12, and to whatever else starts."""
SETTLE = 30.0
"""Seconds that a reader may take to reach all ranks, and to bring what was written last."""
TICK = os.sysconf("SC_CLK_TCK")
_LINE = re.compile(rb"rank=(\d+) seq=(\d+) sent=(\d+\.\d+)")


@dataclass
class Figures:
    """What one reader did."""

    groups: int
    delays: list[float] = field(default_factory=list)
    seen: dict[int, set[int]] = field(default_factory=dict)
    lines: int = 0
    size: int = 0
    """Bytes of them."""
    written: int = 0
    """To each log."""
    cpu: float = 0.0
    """Share of a core while lines came."""
    memory: tuple[float, float] = (0.0, 0.0)
    """MiB at the beginning and at the end."""

    def read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.take(line)

    def take(self, line: bytes) -> None:
        found = _LINE.search(line)
        if found:
            now = time.time()
            self.lines += 1
            self.size += len(line)
            rank, sequence = int(found[1]), int(found[2])
            self.seen.setdefault(rank, set()).add(sequence)
            if sequence:
                self.delays.append(now - float(found[3]))

    def lost(self, written: int, ranks: int = RANKS) -> int:
        return ranks * written - sum(map(len, self.seen.values()))

    def doubled(self) -> int:
        return self.lines - sum(map(len, self.seen.values()))

    @property
    def p95(self) -> float:
        """Milliseconds."""
        return 1000 * p95(self.delays)

    @property
    def floor(self) -> float:
        """What would be left of that if all its processor time were none."""
        return self.p95 - 1000 * self.cpu / (RATE * self.groups)

    @property
    def growth(self) -> float:
        """MiB."""
        return self.memory[1] - self.memory[0]


def watchable() -> int:
    """How many logs kwok can watch at once: it takes an inotify instance for each, of which a user has so many."""
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    used = 0
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it ended meanwhile, or is somebody else's
            used += link.readlink().name == "anon_inode:inotify"
    return limit - used - SPARE


def job(ranks: int) -> dict[str, Any]:
    """A JobSet of as many pods as there are ranks, none of which needs a GPU."""
    pod = {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "busybox"}],
    }
    spec = {"parallelism": ranks, "completions": ranks, "completionMode": "Indexed", "backoffLimit": 0,
            "template": {"spec": pod}}  # fmt: skip
    replicated = [{"name": "w", "replicas": 1, "template": {"spec": spec}}]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": JOB, "namespace": "default"}, "spec": {"replicatedJobs": replicated}}  # fmt: skip


def pods(lab: Lab, ranks: int) -> list[str]:
    """Names of its pods, by rank, once all of them run."""
    selector = f"jobset.sigs.k8s.io/jobset-name={JOB}"
    index = ".metadata.annotations.batch\\.kubernetes\\.io/job-completion-index"
    running = "{range .items[?(@.status.phase=='Running')]}"
    form = f"jsonpath={running}{{{index}}} {{.metadata.name}}{{'\\n'}}{{end}}"
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = dict(
            line.split() for line in lab.kubectl("get", "pods", "-l", selector, "-o", form).splitlines() if line
        )
        if len(found) == ranks:
            return [found[str(rank)] for rank in range(ranks)]
        threading.Event().wait(1)
    raise SystemExit(f"only some of {ranks} pods run")


class Writer:
    """Writes what the containers print, each line with the moment it was written."""

    def __init__(self, files: Sequence[Path], groups: int = 1) -> None:
        self._files = [os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for file in files]
        self._groups = groups
        self._sequence = 0

    def write(self) -> None:
        """A line in every log."""
        for group in range(self._groups):
            self._write(group)
        self._sequence += 1

    def _write(self, group: int) -> None:
        size = -(-len(self._files) // self._groups)
        for rank, file in list(enumerate(self._files))[group * size : (group + 1) * size]:
            now = time.time()
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e9):09d}Z"
            text = f"rank={rank} seq={self._sequence} sent={now:.6f} | lm loss: 2.1 | grad norm: 0.42 | iteration"
            os.write(file, f"{moment} stdout F {text}\n".encode())

    def run(self, seconds: float) -> int:
        """At the rate, for so long; how many lines each log got."""
        began, number = time.monotonic(), int(seconds * RATE)
        for turn in range(number * self._groups):
            self._write(turn % self._groups)
            self._sequence += (turn + 1) % self._groups == 0
            rest = began + (turn + 1) / RATE / self._groups - time.monotonic()
            if rest > 0:
                threading.Event().wait(rest)
        return number

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def measure(command: Sequence[str], files: Sequence[Path], groups: int) -> Figures:
    """Let a reader follow all logs while they are written; what it did. What it keeps is kept nowhere."""
    with tempfile.TemporaryDirectory() as state:
        return measured(command, files, groups, {**os.environ, "XDG_STATE_HOME": state})


def measured(command: Sequence[str], files: Sequence[Path], groups: int, environment: dict[str, str]) -> Figures:
    """The same with that environment."""
    for file in files:
        file.write_bytes(b"")
    writer, figures = Writer(files, groups), Figures(groups)
    writer.write()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    reading = threading.Thread(target=figures.read, args=(process.stdout,), daemon=True)
    reading.start()
    wait_until(lambda: len(figures.seen) == len(files))
    threading.Event().wait(2)
    used, began, memory = cpu(process.pid), time.monotonic(), resident(process.pid)
    figures.written = 1 + in_a_process(writer, SECONDS)
    figures.cpu = (cpu(process.pid) - used) / (time.monotonic() - began)
    figures.memory = memory, resident(process.pid)
    wait_until(lambda: figures.lost(figures.written, len(files)) == 0)
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    process.kill()
    writer.close()
    return figures


def in_a_process(writer: Writer, seconds: float) -> int:
    """Write in a process of its own: reading here must not slow it."""
    child = os.fork()
    if child == 0:
        writer.run(seconds)
        os._exit(0)
    os.waitpid(child, 0)
    return int(seconds * RATE)


def wait_until(holds: Any) -> bool:
    end = time.monotonic() + SETTLE
    while time.monotonic() < end:
        if holds():
            return True
        threading.Event().wait(0.1)
    return False


def cpu(pid: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def streams(ratio: Any, bound: Any, say: Any) -> bool:
    """128 streams by each reader; fewer where kwok cannot count as a user of its own and cannot watch so many."""
    own = KWOK_USER if os.geteuid() == 0 else None
    number = RANKS if own else min(RANKS, watchable())
    if number < RANKS:
        say(f"kwok can watch {number} logs here (fs.inotify.max_user_instances); as root it could watch {RANKS}.")
    load = os.getloadavg()[0]
    say(f"Load of the machine before: {load:.1f}" + (" (not quiet: delays say little)" if load > 1 else ""))
    with Lab(say=say, kwok_user=own) as lab:
        lab.create([job(number)])
        names = pods(lab, number)
        files = [lab.logs.file("default", name, "main") for name in names]
        wait_until(lambda: all(file.exists() for file in files))
        kept = True
        for pattern, groups in GROUPS.items():
            rounds = [
                {name: measure(command, files, groups) for name, command in readers(lab, names).items()}
                for _ in range(ROUNDS)
            ]
            kept &= verdict(rounds, f"{number} streams of {RATE} lines/s, {pattern}", number, ratio, bound, say)
    return kept


def readers(lab: Lab, names: Sequence[str]) -> dict[str, list[str]]:
    """The command of each reader."""
    assert lab.tools is not None
    kubectl = [str(lab.tools.program("kubectl")), "--kubeconfig", str(lab.kubeconfig), "logs", "-f", "--prefix",
               f"--max-log-requests={len(names)}", "-l", f"jobset.sigs.k8s.io/jobset-name={JOB}",
               "--tail=-1"]  # fmt: skip
    a4 = [str(A4), "logs", JOB, "--all", "--follow", "--kubeconfig", str(lab.kubeconfig), "-n", "default"]
    bare = [sys.executable, "-m", "tests.bench.bare", str(lab.kubeconfig), *names]
    return {"kubectl": kubectl, "a4": a4, "bare": bare}


def verdict(rounds: Sequence[dict[str, Figures]], title: str, number: int, ratio: Any, bound: Any, say: Any) -> bool:
    """Print what was measured; whether every bound was kept."""
    each = {name: [one[name] for one in rounds] for name in ("a4", "kubectl", "bare")}

    def line(what: str, of: Any) -> None:
        say(f"{what:52}" + "".join(f"{of(figures):>14}" for figures in each.values()))

    def middle(of: Any) -> Any:
        return lambda figures: f"{median(map(of, figures)):.1f} ({min(map(of, figures)):.1f})"

    say(f"\n{title:52}" + "".join(f"{name:>14}" for name in each))
    line("lines written", lambda figures: f"{sum(one.written * number for one in figures):,}")
    line("lines shown", lambda figures: f"{sum(one.lines for one in figures):,}")
    line("lines lost", lambda figures: sum(one.lost(one.written, number) for one in figures))
    line("delay p50, median and best (ms)", middle(lambda one: 1000 * median(one.delays)))
    line("delay p95, median and best (ms)", middle(lambda one: one.p95))
    line("CPU, median and best (% of a core)", middle(lambda one: 100 * one.cpu))
    line("CPU, of each MB shown (ms)", middle(lambda one: 1e9 * one.cpu * SECONDS / one.size))
    ours, theirs, floor = each["a4"], each["kubectl"], each["bare"]
    say(f"\n{'median of each':40} a4    kubectl     ratio   bound")
    kept = [
        bound("lines lost", float(sum(one.lost(one.written, number) for one in ours)), 0),
        bound("lines doubled", float(sum(one.doubled() for one in ours)), 0),
        ratio("delay p95 (ms)", median(one.p95 for one in ours), median(one.p95 for one in theirs), 2.0),
        ratio(
            "  of a reader that costs nothing (ms)",
            median(one.floor for one in theirs),
            median(one.p95 for one in theirs),
            None,
        ),
        ratio("  of the bare reader (ms)", median(one.p95 for one in floor), median(one.p95 for one in theirs), None),
        bound("CPU (% of a core)", 100 * median(one.cpu for one in ours), 40),
        ratio("memory (MiB)", median(one.memory[1] for one in ours), median(one.memory[1] for one in theirs), None),
        bound(f"memory growth in {SECONDS} s (MiB)", median(one.growth for one in ours), 16),
    ]
    return all(kept)


def main(parts: Sequence[str], ratio: Any, bound: Any, say: Any) -> bool:
    """What of this was asked for: `logs` is all, `logfile` the file alone; whether every bound was kept."""
    kept = large_file(bound, say) if {"logs", "logfile"} & set(parts) else True
    return (streams(ratio, bound, say) if "logs" in parts else True) and kept
