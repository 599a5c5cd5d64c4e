"""PyTorch's flight recorder of a practice pod: each rank has the pipe that the chart names, and dumps what it holds.

The collectives are made up, in the form of PyTorch 2.11: four all_reduce in each step, in which all ranks are for as
long as the last one lets them wait.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import shutil
import time
from typing import TYPE_CHECKING, Any

from practice.programs.failure_modes import HUNG_FACT
from practice.programs.faults import slow_rank
from practice.programs.stacks import stack_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from practice.programs.steps import ProgramContext

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_FOLDER, _PIPE_NAME = ".recorder", "all.pipe"
_A_STEP, _SECONDS, _MOST = 4, 90.0, 2000
"""Collectives of a step, seconds that are told of, and entries that a recorder keeps."""
_BUSY, _BUSY_NETWORK = 0.02, 0.08
"""Share of the time in which all ranks are in a collective, and that with a slow NIC."""
_NANOSECONDS = 10**9
_HUNG_AT = 4117  # as NCCL RAS tells


def recorder_variables(folder: Path, place: ProgramContext) -> dict[str, str]:
    """Return the variables by which a rank is asked; none where the job has not set them."""
    if not place.env.get(PIPE):
        return {}
    return {PIPE: f"{folder / _FOLDER}/pipe-", **dict.fromkeys(_DUMPS, f"{folder / _FOLDER}/dump-")}


class FlightRecorders:
    """Listens at the pipes of all pods in which somebody has run a command."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def listen(
        self, folder: Path, place: ProgramContext, doing: Callable[[], str], step: float, ends: set[Callable[[], None]]
    ) -> None:
        """Listen at the pipes of a pod, once, until `close` or what is added to `ends` is called."""
        home = folder / _FOLDER
        if not recorder_variables(folder, place) or home in self._open:
            return
        shutil.rmtree(home, ignore_errors=True)  # of the container's run before
        home.mkdir()
        os.mkfifo(home / _PIPE_NAME)
        ranks = range(place.rank * place.gpus, (place.rank + 1) * place.gpus)
        for rank in ranks:
            (home / f"pipe-{rank}.pipe").symlink_to(_PIPE_NAME)
        door = self._open[home] = os.open(home / _PIPE_NAME, os.O_RDWR | os.O_NONBLOCK)

        def dump() -> None:
            os.read(door, 65536)
            for rank in ranks if doing() != "idle" else ():
                beside = home / f".{rank}"
                beside.write_bytes(pickle.dumps(make_dump(place, doing(), rank, step, time.time()), 2))
                beside.replace(home / f"dump-{rank}")

        asyncio.get_running_loop().add_reader(door, dump)
        ends.add(lambda: self._close(home))

    def _close(self, home: Path) -> None:
        if (door := self._open.pop(home, None)) is not None:
            asyncio.get_running_loop().remove_reader(door)
            os.close(door)

    def close(self) -> None:
        for home in list(self._open):
            self._close(home)


def make_dump(place: ProgramContext, doing: str, rank: int, step: float, now: float) -> dict[str, Any]:
    """Return what the recorder of a rank holds."""
    world = place.nodes * place.gpus
    hung = place.room.facts.get(HUNG_FACT)
    culprit = None if hung is None else hung * place.gpus + min(1, place.gpus - 1)
    each, count = step / _A_STEP, min(_MOST, int(_SECONDS / step * _A_STEP))
    last = _HUNG_AT if hung is not None else int(now % 10**6 / each)
    function, _, where = stack_frames(place, "nccl")[0].rstrip(")").partition(" (")
    file, _, line = where.partition(":")
    frames = [
        {"name": "all_reduce", "filename": "/usr/lib/torch/distributed/distributed_c10d.py", "line": 2696},
        {"name": function, "filename": file, "line": int(line or 0)},
    ]
    entries = []
    for number in range(last - count + 1, last + 1):
        if number == _HUNG_AT and rank == culprit:
            break
        waits = number == _HUNG_AT and hung is not None
        at = now - (last - number) * each
        entries.append({
            "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce",
            "time_created_ns": int(at * _NANOSECONDS), "input_sizes": [[67108864]], "input_dtypes": ["BFloat16"],
            "output_sizes": [[67108864]], "output_dtypes": ["BFloat16"], "state": "started" if waits else "completed",
            "time_discovered_started_ns": int(at * _NANOSECONDS),
            "time_discovered_completed_ns": None if waits else int((at + each) * _NANOSECONDS), "retired": not waits,
            "timeout_ms": 600000, "is_p2p": False, "frames": frames,
        } | ({} if waits else {"duration_ms": 1000 * _took(place, rank, number, step)}))  # fmt: skip
    ranks = str(list(range(world)))
    group = {"name": "0", "desc": "default_pg", "ranks": ranks}
    return {"version": "2.10", "nccl_version": "2.28.9", "pg_config": {"0": group}, "pg_status": {}, "entries": entries}


def _took(place: ProgramContext, rank: int, number: int, step: float) -> float:
    """Return for how many seconds a rank was in a collective: the last one of a step waits for a slow rank."""
    slow = slow_rank(place)
    network = slow is not None and slow.cause == "network"
    busy = (_BUSY_NETWORK if network else _BUSY) * step / _A_STEP
    chance = random.Random(f"{rank} {number}").uniform(0.95, 1.05)
    waits = slow is not None and not network and slow.rank != rank and number % _A_STEP == 0
    return busy * chance + (slow.share * step if slow is not None and waits else 0.0)
