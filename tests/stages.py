"""Runs stages of what is checked one after another and says what each took: `python3 -m tests.stages ci`, or names.

A stage is a target of the Makefile. One that fails does not stop the next ones: one run tells all that is wrong. What
stands behind " & " runs beside the stage before it, at the lowest priority: the lab needs one core of two.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.advisories import NOT_KNOWN

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "ci": ("test", "slow", "lab-test & fuzz SECONDS_EACH=2 SEED=20261122", "rehearsal-if-changed"),
    "nightly": (
        "test", "alone", "slow", "versions", "lab-test", "rehearsal", "fuzz SECONDS_EACH=15",
        "bench PARTS='parsers panels panes launch practice commands'", "advisories",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Took:
    """How one stage ended, and the seconds it took: of the wall clock, and of processors."""

    stage: str
    code: int
    wall: float
    processor: float

    def __str__(self) -> str:
        ended = {0: "passed", NOT_KNOWN: "not known"}.get(self.code, "FAILED")
        return f"{self.stage[:41]:41}{ended:>9}{self.wall:>9.0f}{self.processor:>13.0f}"


def run(stages: Sequence[str]) -> list[Took]:
    """Run stages beside each other; what the first prints goes where ours goes, what the others print follows it."""
    began, begun = time.monotonic(), []
    took: dict[int, Took] = {}
    for number, stage in enumerate(stages):
        words = ["make", "--no-print-directory", *shlex.split(stage)]
        if stage == "advisories":  # make would tell all its exit codes as one
            words = [sys.executable, "-m", "tests.advisories"]
        kept = tempfile.TemporaryFile() if number else None  # noqa: SIM115
        lowest = ["nice", "-n", "19"] if number else []
        begun.append((subprocess.Popen([*lowest, *words], cwd=ROOT, stdout=kept, stderr=kept), stage, kept))
    while len(took) < len(begun):
        pid, status, used = os.wait4(-1, 0)
        for process, stage, _ in begun:
            if process.pid == pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                wall = time.monotonic() - began
                took[pid] = Took(stage, process.returncode, wall, used.ru_utime + used.ru_stime)
    for _, stage, kept in begun:
        if kept is not None:
            kept.seek(0)
            sys.stdout.write(f"── {stage}, beside it\n{kept.read().decode(errors='replace')}")
            kept.close()
    return [took[process.pid] for process, _, _ in begun]


def main(words: Sequence[str]) -> int:
    if not words:
        sys.stderr.write(f"usage: python3 -m tests.stages {{{'|'.join(GROUPS)}|TARGET}} ...\n")
        return 2
    took, began = [], time.monotonic()
    for stages in [stages for word in words for stages in GROUPS.get(word, (word,))]:
        sys.stdout.write(f"── {stages}\n")
        sys.stdout.flush()
        took += run(stages.split(" & "))
    lines = [f"{'stage':42}{'':>8}{'wall s':>9}{'processor s':>13}", *map(str, took)]
    codes = {each.code for each in took}
    total = Took("in all", next((1 for code in codes if code not in {0, NOT_KNOWN}), max(codes)),
                 time.monotonic() - began, sum(each.processor for each in took))  # fmt: skip
    sys.stdout.write("\n".join([*lines, str(total), ""]))
    return int(total.code not in {0, NOT_KNOWN})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
