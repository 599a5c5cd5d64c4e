"""What the console makes of the hangs that gather.py wrote: `python -m tests.bench.ranks [--torch PYTHON] FOLDER ...`.

With `--torch`, the path of a python3 with PyTorch, that one's own analyser is asked too; what it prints is kept in
FOLDER/analyser.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from rankscope import describe_analysis
from tests.bench.ranks.judge import Gathered, inspect


def run_analyser(python: Path, keep: Path, argv: Sequence[str], stdin: bytes) -> bytes:
    """Run the command as in a pod whose Python is this one."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"PATH": f"{python.parent}:{os.environ['PATH']}", "A4_PROC": folder}
        said = subprocess.run([*argv], input=stdin, env=env, capture_output=True, check=True).stdout
    keep.parent.mkdir(exist_ok=True)
    keep.write_bytes(said)
    return said


async def judge(paths: list[Path], python: Path | None) -> int:
    """Print a row for each hang; returns how many times another rank was named."""
    wrong = 0
    for path in paths:
        gathered = msgspec.json.decode(path.read_bytes(), type=Gathered)
        analyse = partial(run_analyser, python, path.parent / "analyser" / path.name) if python else None
        report = await inspect(gathered, analyse=analyse)
        named = sorted({rank for group in report.suspects for rank in group.ranks})
        right = tuple(named) == gathered.culprits
        wrong += not right
        kind = report.recorded.kind if report.recorded else "-"
        said = f"{'right' if right else 'WRONG'}  {gathered.hang:10} {gathered.ranks:3} ranks  {kind:8}"
        print(f"{said} {gathered.seconds:.1f} s  {report.short}")  # noqa: T201
        if report.analysis is not None:
            print(f"       {describe_analysis(report)}")  # noqa: T201
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    asked = parser.parse_args()
    every = sorted(path for folder in asked.folders for path in folder.glob("*.json"))
    sys.exit(asyncio.run(judge(every, asked.torch)))
