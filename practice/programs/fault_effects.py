"""Failures of trainings: what each pod prints, which ranks wait, and which exit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from practice.programs.fault_settings import parse_faults
from practice.programs.hangs import ADDRESSES_FACT, DATA, HOW_FACT, HUNG_FACT
from practice.programs.stacks import stack_frames
from practice.programs.steps import ExitStep, PauseStep, PrintLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from practice.programs.fault_settings import JobFault
    from practice.programs.steps import ProgramContext, Step

SICK_FACT = "a GPU has a fault: pod"
"""Name of the fact, followed by the pod's number, that a GPU of the pod has a fault."""
_FOREVER = 10.0**8
_KINDS = ("oom", "fail", "hang", "timeout", "xid")
_WATCHDOG_SECONDS = 600.0
_KILLED = 137


def failing_steps(context: ProgramContext) -> tuple[int, ...]:
    """Return the steps at which a training stops in any pod."""
    return tuple(sorted(fault.step for fault in parse_faults(context) if _ends_training(context, fault)))


def fail_at_step(context: ProgramContext, number: int) -> Iterator[Step]:
    """Yield the steps of this pod if it fails at step `number`: it exits or waits for ever; else nothing."""
    for fault in parse_faults(context):
        if fault.step != number or not _ends_training(context, fault):
            continue
        mine = _is_in_pod(context, fault)
        if fault.kind == "xid":
            if mine:
                context.room.post(f"{SICK_FACT} {context.rank}")
        elif fault.kind == "oom":
            yield ExitStep(_KILLED, "OOMKilled") if mine else PauseStep(_FOREVER)
        elif fault.kind == "fail":
            yield from _print_cuda_error(context, number) if mine else iter((PauseStep(_FOREVER),))
        else:
            yield from _hang_until_timeout(context, fault, number, is_own=mine)


def _ends_training(context: ProgramContext, fault: JobFault) -> bool:
    # A container that was killed for its memory and started again in the same pod has it behind itself.
    return fault.kind in _KINDS and not (fault.kind == "oom" and context.attempt)


def _is_in_pod(context: ProgramContext, fault: JobFault) -> bool:
    if fault.rank is None:
        return fault.kind == "oom" or context.rank == context.nodes - 1
    return fault.rank == context.rank


def _print_cuda_error(context: ProgramContext, number: int) -> Iterator[Step]:
    rank = context.rank * context.gpus
    yield PrintLine(f"[rank{rank}]: Traceback (most recent call last):")
    for frame in reversed(stack_frames(context, "train")):
        function, _, where = frame.rstrip(")").partition(" (")
        file, _, line = where.partition(":")
        yield PrintLine(f'[rank{rank}]:   File "{file}", line {line}, in {function}')
    yield PrintLine(f"[rank{rank}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    name = context.env.get("HOSTNAME", "")
    yield PrintLine(
        f"E{_format_clock(context)} 1100 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1)"
    )
    yield PrintLine(f"  host      : {name}")
    yield PrintLine(f"  rank      : {rank} (local_rank: 0), at step {number}")
    yield ExitStep(1)


def _hang_until_timeout(context: ProgramContext, fault: JobFault, number: int, *, is_own: bool) -> Iterator[Step]:
    culprit = context.nodes - 1 if fault.rank is None else fault.rank
    address = (context.pod.get("status") or {}).get("podIP")
    context.room.facts.setdefault(ADDRESSES_FACT, {})[context.rank] = address
    context.room.post(HOW_FACT, fault.how or DATA)
    context.room.post(HUNG_FACT, culprit)
    if is_own or fault.kind == "hang":
        yield PauseStep(_FOREVER)
    yield PauseStep(_WATCHDOG_SECONDS)
    rank, milliseconds = context.rank * context.gpus, int(_WATCHDOG_SECONDS * 1000)
    yield PrintLine(
        f"[rank{rank}]:[E{_format_clock(context)} ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught"
        " collective operation"
        f" timeout: WorkNCCL(SeqNum={number * 97}, OpType=ALLREDUCE, NumelIn=67108864, NumelOut=67108864,"
        f" Timeout(ms)={milliseconds}) ran for {milliseconds + 31} milliseconds before timing out."
    )
    yield ExitStep(1)


def _format_clock(context: ProgramContext) -> str:
    """Return the time as glog writes it: 1121 12:08:33.051."""
    return datetime.fromtimestamp(context.now(), UTC).strftime("%m%d %H:%M:%S.%f")[:-3]
