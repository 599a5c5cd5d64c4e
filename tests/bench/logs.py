"""Logs: 128 streams of 50 lines a second beside kubectl on the lab, and a file of a gigabyte opened and searched."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from console.spool.file import FileText
from tests.bench.consoles import A4, p95
from tests.lab.control_plane import Lab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RANKS = 128
RATE = 50
SECONDS = 20
GIGABYTE = 1 << 30
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

    delays: list[float] = field(default_factory=list)
    seen: dict[int, set[int]] = field(default_factory=dict)
    lines: int = 0
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
            rank, sequence = int(found[1]), int(found[2])
            self.seen.setdefault(rank, set()).add(sequence)
            if sequence:
                self.delays.append(now - float(found[3]))

    def lost(self, written: int, ranks: int = RANKS) -> int:
        return ranks * written - sum(map(len, self.seen.values()))

    def doubled(self) -> int:
        return self.lines - sum(map(len, self.seen.values()))


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

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for file in files]
        self._sequence = 0

    def write(self) -> None:
        """A line in every log."""
        for rank, file in enumerate(self._files):
            now = time.time()
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e9):09d}Z"
            text = f"rank={rank} seq={self._sequence} sent={now:.6f} | lm loss: 2.1 | grad norm: 0.42 | iteration"
            os.write(file, f"{moment} stdout F {text}\n".encode())
        self._sequence += 1

    def run(self, seconds: float) -> int:
        """At the rate, for so long; how many lines each log got."""
        began, number = time.monotonic(), int(seconds * RATE)
        for at in range(number):
            self.write()
            rest = began + (at + 1) / RATE - time.monotonic()
            if rest > 0:
                threading.Event().wait(rest)
        return number

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def measure(command: Sequence[str], files: Sequence[Path], environment: dict[str, str]) -> tuple[Figures, int]:
    """Let a reader follow all logs while they are written; what it did, and how many lines each log got."""
    for file in files:
        file.write_bytes(b"")
    writer, figures = Writer(files), Figures()
    writer.write()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    reading = threading.Thread(target=figures.read, args=(process.stdout,), daemon=True)
    reading.start()
    wait_until(lambda: len(figures.seen) == len(files))
    threading.Event().wait(2)
    used, began, memory = cpu(process.pid), time.monotonic(), resident(process.pid)
    written = 1 + in_a_process(writer, SECONDS)
    figures.cpu = (cpu(process.pid) - used) / (time.monotonic() - began)
    figures.memory = memory, resident(process.pid)
    wait_until(lambda: figures.lost(written, len(files)) == 0)
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    process.kill()
    writer.close()
    return figures, written


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
    """128 streams, by kubectl and by the console; and as many as the lab can really follow, if those are fewer."""
    kept = compared(RANKS, ratio, bound, say)
    both = watchable()
    if both >= RANKS:
        return kept
    say(f"The lab's kwok can watch {both} logs here (fs.inotify.max_user_instances); beyond that it refuses, kubectl")
    say("gives up the stream, and a4 asks again until it is taken. So once more with as many as can be watched:")
    return compared(both, ratio, bound, say) and kept


def compared(ranks: int, ratio: Any, bound: Any, say: Any) -> bool:
    """So many streams by each; whether every bound was kept."""
    with Lab(say=say) as lab, tempfile.TemporaryDirectory() as state:
        lab.create([job(ranks)])
        names = pods(lab, ranks)
        files = [lab.logs.file("default", name, "main") for name in names]
        wait_until(lambda: all(file.exists() for file in files))
        assert lab.tools is not None
        environment = {**os.environ, "XDG_STATE_HOME": state}
        kubectl = [str(lab.tools.program("kubectl")), "--kubeconfig", str(lab.kubeconfig), "logs", "-f", "--prefix",
                   f"--max-log-requests={ranks}", "-l", f"jobset.sigs.k8s.io/jobset-name={JOB}",
                   "--tail=-1"]  # fmt: skip
        theirs, _ = measure(kubectl, files, environment)
        a4 = [str(A4), "logs", JOB, "--all", "--follow", "--kubeconfig", str(lab.kubeconfig), "-n", "default"]
        ours, written = measure(a4, files, environment)
    say(f"\n{ranks} streams of {RATE} lines/s            a4    kubectl     ratio   bound")
    say(f"{'lines written':32} {ranks * written:10,} {ranks * written:10,}")
    say(f"{'lines shown':32} {ours.lines:10,} {theirs.lines:10,}")
    say(f"{'lines lost':32} {ours.lost(written, ranks):10,} {theirs.lost(written, ranks):10,}")
    middle = [1000 * median(each.delays) for each in (ours, theirs)]
    say(f"{'delay of those shown, median (ms)':32} {middle[0]:10.1f} {middle[1]:10.1f}")
    kept = [
        bound("lines lost", float(ours.lost(written, ranks)), 0),
        bound("lines doubled", float(ours.doubled()), 0),
        ratio("delay p95 (ms)", 1000 * p95(ours.delays), 1000 * p95(theirs.delays), 0.5),
        ratio("CPU (% of a core)", 100 * ours.cpu, 100 * theirs.cpu, None),
        bound("CPU (% of a core)", 100 * ours.cpu, 40),
        ratio("memory (MiB)", ours.memory[1], theirs.memory[1], None),
        bound("memory growth (MiB)", ours.memory[1] - ours.memory[0], 32),
    ]
    return all(kept)


def main(parts: Sequence[str], ratio: Any, bound: Any, say: Any) -> bool:
    """What of this was asked for: `logs` is all, `logfile` the file alone; whether every bound was kept."""
    kept = large_file(bound) if {"logs", "logfile"} & set(parts) else True
    return (streams(ratio, bound, say) if "logs" in parts else True) and kept


def lines_of_training() -> Iterator[bytes]:
    for step in range(2000):
        head = f"2026-11-21 12:00:{step % 60:02d} [rank{step % 128}] iteration {step:8d}/ 10000"
        speed = f"elapsed time per iteration (ms): {step / 7:.1f}"
        yield f"{head} | {speed} | lm loss: {step / 3:.6E} | grad norm: {step / 11:.3f} |\n".encode()


def large_file(bound: Any) -> bool:
    """A file of a gigabyte: to its first page, and through all of it."""
    with tempfile.TemporaryDirectory() as folder:
        place, block = Path(folder) / "large.log", b"".join(lines_of_training())
        with place.open("wb") as file:
            for _ in range(-(-GIGABYTE // len(block))):
                file.write(block)
            file.write(b"RuntimeError: the end\n")
        began = time.perf_counter()
        text = FileText(place)
        assert len(text.page(0, 50)) == 50
        opened = time.perf_counter() - began
        while text.advance():
            pass
        assert text.page(len(text) - 1, len(text))[0].text == "RuntimeError: the end"
        kept = [bound("1 GB: open (s)", opened, 1.0),
                bound("1 GB: open and count all lines (s)", time.perf_counter() - began, 5.0)]  # fmt: skip
        for pattern in (re.compile(b"RuntimeError"), re.compile(b"runtimeerror: the.*end", re.IGNORECASE)):
            text.seek(pattern)
            began = time.perf_counter()
            while text.advance():
                pass
            speed = text.size / (time.perf_counter() - began) / 1e6
            assert text.found == 1
            kept.append(bound(f"search {pattern.pattern.decode()[:18]} (s/200 MB)", 200 / speed, 1.0))
            sys.stdout.write(f"{'':8}{speed:,.0f} MB/s\n")
        text.close()
    return all(kept)
