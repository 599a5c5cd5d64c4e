"""PyTorch DDP: the smoke test of the launchers, and a small training with its recorded steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from practice.programs.faults import pace
from practice.programs.mishaps import mishap
from practice.programs.recordings import lines
from practice.programs.script import Meet, Say, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from practice.programs.script import Place, Step

_RECORDED = "practice cluster: these lines are as recorded on NVIDIA H200; the numbers of ranks are this job's"

STEP_SECONDS = 1.5


def smoke_test(place: Place) -> Iterator[Step]:
    """One all_reduce: every rank names its device, rank 0 compares the sum."""
    ranks = place.nodes * place.gpus
    yield Say(_RECORDED)
    for line in lines("ddp_smoke_h200x4.txt")[:4]:
        yield Say(line)
    yield Wait(3.0 + place.random.random())
    place.room.post(f"ready {place.rank}")
    for index in range(place.nodes):
        yield Meet(f"ready {index}")
    for local in range(place.gpus):
        rank = place.rank * place.gpus + local
        yield Say(f"[rank {rank}/{ranks}] local rank {local} device cuda:{local} NVIDIA H200")
    yield Wait(1.5)
    if place.rank == 0:
        total = ranks * (ranks - 1) / 2
        yield Say(f"expected sum {total}, actual sum {total}: PASSED on {ranks} GPUs")


def _recorded_steps() -> list[str]:
    return [line for line in lines("train_ddp.txt") if line.startswith("step ")]


def iterations(place: Place) -> int:
    return int(place.env.get("A4_TRAIN_ITERATIONS") or len(_recorded_steps()))


def training(place: Place) -> Iterator[Step]:
    """Replay a recorded training, a step every second or two; every pod prints, under its first rank's label."""
    yield Say(_RECORDED)
    recorded, total = _recorded_steps(), iterations(place)
    seconds = pace(place, STEP_SECONDS)
    label = f"[rank{place.rank * place.gpus}]: " if place.nodes > 1 else ""
    for number in range(1, total + 1):
        yield Wait(seconds)
        yield from mishap(place, number)
        line = recorded[min(number, len(recorded)) - 1]
        yield Say(label + re.sub(r"step \d+/\d+", f"step {number}/{total}", line))
