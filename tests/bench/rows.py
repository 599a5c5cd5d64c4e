"""What a run has measured beside what, and whether bounds are kept, as far as the machine lets that be told."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

Ratio = Callable[[str, float, float, float | None], bool]
Bound = Callable[[str, float, float], bool]

HISTORY = Path(__file__).parents[2] / ".tools/bench/history.jsonl"
CORES = os.cpu_count() or 1
BUSY = 2.0
"""Load for each core above which nothing is told: what is measured and its peer make about one of it themselves."""


@dataclass(frozen=True, slots=True)
class Row:
    work: str
    ours: float
    peer: float | None
    limit: float | None
    """Of the ratio where there is a peer, else of the figure."""
    load: float
    is_rate: bool = False
    """Whether the more the better: then the limit is what it has to reach."""

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.ours / self.peer if self.peer else float("inf")

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        if self.load > BUSY * CORES:
            return "too loaded to tell"
        figure = self.ours if self.ratio is None else self.ratio
        return "kept" if (figure >= self.limit if self.is_rate else figure <= self.limit) else "BROKEN"

    def line(self) -> str:
        peer, ratio, limit = (f"{each:10.2f}" if each is not None else " " * 10
                              for each in (self.peer, self.ratio, self.limit))  # fmt: skip
        return f"{self.work:34} {self.ours:10.2f} {peer} {ratio} {limit}  {self.load:5.1f}  {self.verdict}".rstrip()


def table(rows: list[Row]) -> list[str]:
    head = f"{'work':34} {'ours':>10} {'peer':>10} {'ratio':>10} {'bound':>10}  {'load':>5}  verdict"
    return [head, *(row.line() for row in rows)]


def keep(rows: list[Row]) -> None:
    """Add a line of this commit to the history."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    kept = [{**asdict(row), "verdict": row.verdict} for row in rows]
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    with HISTORY.open("a") as history:
        history.write(json.dumps({"commit": commit.stdout.strip(), "at": time.time(), "rows": kept}) + "\n")
