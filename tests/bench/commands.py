"""Plain commands on the practice cluster beside kubectl, in the same run: medians of wall time, and processor time."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from practice.child import PracticeProcess
from tests.bench.consoles import A4

ROUNDS = 11
BUILT = Path(__file__).parents[2] / ".tools/lab/bin/kubectl"
KUBECTL = str(BUILT) if BUILT.exists() else "kubectl"  # that of PATH may be a launcher of several versions


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


def main(say: Callable[[str], None], ratio: Callable[[str, float, float, float | None], bool]) -> bool:
    """Each command in turn, round after round, so that what else the machine does hits all alike."""
    practice = PracticeProcess.start()
    try:
        environment = {**os.environ, "KUBECONFIG": str(practice.kubeconfig())}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at each start
        jobs = _jobs(environment)
        ours = {
            "--help": (("--help",), "--help", 2.0),
            "pods": (("pods",), "get pods", 4.0),
            "jobs": (("jobs",), "get pods", 6.0),
            "queues": (("queues",), "get pods", None),
            "why (of one that failed)": (("why", jobs["failed"]), "get pods", 6.0),
            "why (of one that waits)": (("why", jobs["pending"]), "get pods", 6.0),
        }
        theirs = {each: Timed((KUBECTL, *each.split())) for each in ("--help", "get pods")}
        timed = {name: Timed((str(A4), *argv), int("failed" in name)) for name, (argv, _, _) in ours.items()}
        for each in timed.values():
            subprocess.run(each.argv, env=environment, check=False, capture_output=True)
        for _ in range(ROUNDS):
            for each in (*theirs.values(), *timed.values()):
                each.run(environment)
    finally:
        practice.stop()
    say("\na command, median (ms)                   a4    kubectl     ratio   bound")
    good = True
    for name, (_, beside, most) in ours.items():
        a4, kubectl = timed[name], theirs[beside]
        good &= ratio(f"a4 {name}", _median(a4.wall), _median(kubectl.wall), most)
        ratio("  its processor time", _median(a4.processor), _median(kubectl.processor), None)
    return good


def _median(seconds: list[float]) -> float:
    """In milliseconds."""
    return 1000 * statistics.median(seconds)


def _jobs(environment: dict[str, str]) -> dict[str, str]:
    """A job of each state; of one that runs `why` listens to its log for three seconds, which is not measured here."""
    listed = subprocess.run([str(A4), "jobs", "--json"], env=environment, check=True, capture_output=True)
    items: list[dict[str, Any]] = json.loads(listed.stdout)["items"]
    return {each["state"]: each["name"] for each in items}
