"""`python -m tests.bench.ranks FOLDER ...`: what the console makes of the hangs that gather.py wrote there."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from tests.bench.ranks.judge import Gathered, inspect


async def judge(every: list[Gathered]) -> int:
    """Print a row for each hang; returns how many times another rank was named."""
    wrong = 0
    for gathered in every:
        report = await inspect(gathered)
        named = sorted({rank for group in report.suspects for rank in group.ranks})
        right = tuple(named) == gathered.culprits
        wrong += not right
        kind = report.recorded.kind if report.recorded else "-"
        said = f"{'right' if right else 'WRONG'}  {gathered.hang:10} {gathered.ranks:3} ranks  {kind:8}"
        print(f"{said} {gathered.seconds:.1f} s  {report.short}")  # noqa: T201
    return wrong


if __name__ == "__main__":
    paths = sorted(path for each in sys.argv[1:] for path in Path(each).glob("*.json"))
    sys.exit(asyncio.run(judge([msgspec.json.decode(path.read_bytes(), type=Gathered) for path in paths])))
