"""PyTorch DDP: the smoke test of the launchers, and a small training with its recorded steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from practice.programs.fault_effects import fail_at_step
from practice.programs.fault_settings import step_seconds
from practice.programs.recordings import lines
from practice.programs.steps import PauseStep, PrintLine, ProgramContext, Step, WaitForFact

_RECORDED = "practice cluster: these lines are as recorded on NVIDIA H200; ranks and times of steps are this job's"

STEP_SECONDS = 1.5


def smoke_test(context: ProgramContext) -> Iterator[Step]:
    """Yield the steps of one all_reduce: every rank prints its device, rank 0 compares the sum."""
    ranks = context.nodes * context.gpus
    yield PrintLine(_RECORDED)
    for line in lines("ddp_smoke_h200x4.txt")[:4]:
        yield PrintLine(line)
    yield PauseStep(3.0 + context.random.random())
    context.room.post(f"ready {context.rank}")
    for index in range(context.nodes):
        yield WaitForFact(f"ready {index}")
    for local in range(context.gpus):
        rank = context.rank * context.gpus + local
        yield PrintLine(f"[rank {rank}/{ranks}] local rank {local} device cuda:{local} NVIDIA H200")
    yield PauseStep(1.5)
    if context.rank == 0:
        total = ranks * (ranks - 1) / 2
        yield PrintLine(f"expected sum {total}, actual sum {total}: PASSED on {ranks} GPUs")


def _recorded_steps() -> list[str]:
    return [line for line in lines("train_ddp.txt") if line.startswith("step ")]


def iteration_count(context: ProgramContext) -> int:
    return int(context.env.get("A4_TRAIN_ITERATIONS") or len(_recorded_steps()))


def replay_training(context: ProgramContext) -> Iterator[Step]:
    """Replay the losses of a recorded training, a step every second or two; every pod prints, labelled by rank."""
    yield PrintLine(_RECORDED)
    recorded, total = _recorded_steps(), iteration_count(context)
    seconds = step_seconds(context, STEP_SECONDS)
    label = f"[rank{context.rank * context.gpus}]: " if context.nodes > 1 else ""
    for number in range(1, total + 1):
        yield PauseStep(seconds)
        yield from fail_at_step(context, number)
        line = recorded[min(number, len(recorded)) - 1]
        line = re.sub(r"step \d+/\d+", f"step {number}/{total}", line)
        yield PrintLine(label + re.sub(r"step_time \S+", f"step_time {seconds:.4f}s", line))
