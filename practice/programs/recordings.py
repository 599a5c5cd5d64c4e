"""The recordings that programs replay: output of real machines, with its origin."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent.parent / "data"
LAUNCHER_FILE = "launcher_steps.json"  # what the launchers do, step by step; `make rehearsal` writes it
NCCL_FILE = "nccl_all_reduce_h200x4.txt"
NCCL_SOURCE = "4 x NVIDIA H200 of one machine"


def data_file(name: str) -> Path:
    return _DATA / name


@cache
def recorded_launcher_steps() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data_file(LAUNCHER_FILE).read_text())
    return found


@cache
def lines(name: str) -> tuple[str, ...]:
    return tuple((_DATA / name).read_text().splitlines())


@cache
def all_reduce_rows() -> dict[int, str]:
    """Return the recorded rows of all_reduce_perf by size in bytes; a coarser recording fills in missing sizes."""
    rows: dict[int, str] = {}
    for name in ("nccl_all_reduce_h200x4_8B.txt", NCCL_FILE):
        for line in lines(name):
            first = line.split(maxsplit=1)[:1]
            if first and first[0].isdigit():
                rows[int(first[0])] = line
    return rows


def all_reduce_header(host: str) -> list[str]:
    """Return the lines before an all_reduce_perf table, as if all ranks ran on `host`."""
    head = [line for line in lines(NCCL_FILE)[:14] if line.startswith("#")]
    return [re.sub(r" on +\S+ device", f" on {host.partition('.')[0]:>10} device", line) for line in head]
