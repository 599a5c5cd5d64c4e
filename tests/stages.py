"""Runs stages of what is checked one after another and says what each took: `python3 -m tests.stages ci`, or names.

A stage is a target of the Makefile. One that fails does not stop the next ones: one run tells all that is wrong.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.advisories import NOT_KNOWN

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "ci": ("test", "slow", "lab-test", "rehearsal-if-changed", "fuzz SECONDS_EACH=2 SEED=20261122"),
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


def run(stage: str) -> Took:
    """Run one stage; what it prints goes where ours goes."""
    began = time.monotonic()
    own = [sys.executable, "-m", "tests.advisories"]  # make would tell all its exit codes as one
    process = subprocess.Popen(
        own if stage == "advisories" else ["make", "--no-print-directory", *shlex.split(stage)], cwd=ROOT
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Took(stage, process.returncode, time.monotonic() - began, used.ru_utime + used.ru_stime)


def main(words: Sequence[str]) -> int:
    if not words:
        sys.stderr.write(f"usage: python3 -m tests.stages {{{'|'.join(GROUPS)}|TARGET}} ...\n")
        return 2
    took = []
    for stage in [stage for word in words for stage in GROUPS.get(word, (word,))]:
        sys.stdout.write(f"── {stage}\n")
        sys.stdout.flush()
        took.append(run(stage))
    lines = [f"{'stage':42}{'':>8}{'wall s':>9}{'processor s':>13}", *map(str, took)]
    codes = {each.code for each in took}
    total = Took("in all", next((1 for code in codes if code not in {0, NOT_KNOWN}), max(codes)),
                 sum(each.wall for each in took), sum(each.processor for each in took))  # fmt: skip
    sys.stdout.write("\n".join([*lines, str(total), ""]))
    return int(total.code not in {0, NOT_KNOWN})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
