"""Plain commands beside kubectl, in the same run: medians of wall time, and processor time.

On a fresh practice cluster, on one that is three hours old, whose logs are longer, and on a real control plane with
1,000 nodes and 10,000 pods, nine of ten of DaemonSets.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from practice.child import PracticeProcess
from tests.bench.consoles import A4
from tests.bench.rows import Ratio
from tests.contract.space import jobset
from tests.lab.bulk import Bulk
from tests.lab.control_plane import Lab

ROUNDS, LARGE_ROUNDS = 11, 5
HOURS = 3.0
BUILT = Path(__file__).parents[2] / ".tools/lab/bin/kubectl"
KUBECTL = str(BUILT) if BUILT.exists() else "kubectl"  # that of PATH may be a launcher of several versions
Ours = Mapping[str, tuple[tuple[str, ...], str, float | None]]
"""By its name: the words of a command, those of kubectl beside it, and how many times as long it may take."""


@dataclass(frozen=True)
class Timed:
    """One command, run several times."""

    argv: tuple[str, ...]
    code: int = 0
    """What it exits with."""
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self, environment: dict[str, str]) -> None:
        before = _used()
        began = perf_counter()
        done = subprocess.run(
            self.argv, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert done.returncode == self.code, self.argv
        self.wall.append(perf_counter() - began)
        self.processor.append(_used() - before)


def _used() -> float:
    """Seconds of processor time of the children that have ended: those of the commands alone, one after the other."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(say: Callable[[str], None], ratio: Ratio) -> bool:
    """On practice clusters."""
    practice = PracticeProcess.start()
    try:
        environment = _environment(practice.kubeconfig())
        jobs = _jobs(environment)
        ours = {
            "--help": (("--help",), "--help", 2.0),
            "pods": (("pods",), "get pods", 4.0),
            "jobs": (("jobs",), "get pods", 5.5),
            "queues": (("queues",), "get pods", None),
            "why (of one that failed)": (("why", jobs["failed"]), "get pods", 4.5),
            "why (of one that waits)": (("why", jobs["pending"]), "get pods", 5.5),
        }
        good = _measure(ours, environment, ROUNDS, "a command", say, ratio)
    finally:
        practice.stop()
    with _old_practice() as kubeconfig:
        environment = _environment(kubeconfig)
        jobs = _jobs(environment)
        ours = {
            "jobs -A": (("jobs", "-A"), "get pods", 5.5),
            "forecast -A": (("forecast", "-A"), "get pods", 5.5),
            "why (of one that failed)": (("why", jobs["failed"]), "get pods", 5.0),
            "why (of one that waits)": (("why", jobs["pending"]), "get pods", 5.5),
        }
        return good & _measure(ours, environment, ROUNDS, f"{HOURS:g} hours old", say, ratio)


def on_many_pods(nodes: int, pods: int, say: Callable[[str], None], ratio: Ratio) -> bool:
    """On a real control plane."""
    with Lab(say=say) as lab:
        Bulk(lab).fill(nodes, pods, daemons=True)
        lab.create([jobset(f"bench-{number}", "a4", 1, topology="") for number in range(4)])
        lab.create([jobset("bench-waits", "a4", 10_000, topology="")])
        environment = _environment(lab.kubeconfig)
        deadline = time.monotonic() + 120
        while not {"running", "pending"} <= _jobs(environment).keys():
            assert time.monotonic() < deadline, "no job runs, or none waits"
        ours = {
            "nodes": (("nodes",), "get nodes", 3.0),
            "jobs -A": (("jobs", "-A"), "get nodes", 3.0),
            "queues": (("queues",), "get nodes", 3.0),
            "why (of one that waits)": (("why", "bench-waits"), "get nodes", 4.0),
            "forecast -A": (("forecast", "-A"), "get nodes", 5.0),
            "pods -A": (("pods", "-A"), "get pods -A", 1.0),
        }
        return _measure(ours, environment, LARGE_ROUNDS, f"{nodes:,} nodes, {pods:,} pods", say, ratio)


def _measure(
    ours: Ours, environment: dict[str, str], rounds: int, where: str, say: Callable[[str], None], ratio: Ratio
) -> bool:
    """Each command in turn, round after round, so that what else the machine does hits all alike."""
    theirs = {beside: Timed((KUBECTL, *beside.split())) for _, beside, _ in ours.values()}
    timed = {name: Timed((str(A4), *argv), int("failed" in name)) for name, (argv, _, _) in ours.items()}
    for each in timed.values():
        subprocess.run(each.argv, env=environment, check=False, capture_output=True)
    for _ in range(rounds):
        for each in (*theirs.values(), *timed.values()):
            each.run(environment)
    say(f"\n{where}, median (ms)".ljust(38) + "a4    kubectl     ratio   bound")
    good = True
    for name, (_, beside, most) in ours.items():
        a4, kubectl = timed[name], theirs[beside]
        good &= ratio(f"a4 {name}", _median(a4.wall), _median(kubectl.wall), most)
        ratio("  its processor time", _median(a4.processor), _median(kubectl.processor), None)
    return good


def _median(seconds: list[float]) -> float:
    """In milliseconds."""
    return 1000 * statistics.median(seconds)


def _environment(kubeconfig: Path) -> dict[str, str]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at each start
    return environment


@contextmanager
def _old_practice() -> Iterator[Path]:
    argv = [sys.executable, "-m", "tests.bench.old_practice", f"{HOURS}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Path(process.stdout.readline().strip())
        process.stdin.close()


def _jobs(environment: dict[str, str]) -> dict[str, str]:
    """A job of each state; of one that runs `why` listens to its log for three seconds, which is not measured here."""
    listed = subprocess.run([str(A4), "jobs", "--json"], env=environment, check=True, capture_output=True)
    items: list[dict[str, Any]] = json.loads(listed.stdout)["items"]
    return {each["state"]: each["name"] for each in items}
