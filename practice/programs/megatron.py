"""Megatron-LM pretraining: iteration lines of the last rank, including configured faults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from practice.programs.checkpoints import FIRST_FACT, checkpoint_folder, finish_checkpoint, save_shards
from practice.programs.fault_effects import fail_at_step, failing_steps
from practice.programs.fault_settings import fault_at, step_seconds
from practice.programs.process_groups import model_parallel_sizes
from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, Step, WaitForFact

_LEAST_SECONDS = 2.8  # of a step that computes next to nothing: its kernels are still launched one by one
_BEST_TFLOPS = 1180.0  # of a B200 in such a training, about half of what it can do at the most
_RATE, _LOWEST_RATE, _WARMUP = 3.0e-4, 3.0e-5, 200
_START_SECONDS = 8.0  # what the first iteration takes longer than the others, in iterations
_NOT_REAL_NOTE = "practice cluster: these iteration lines are made up; nothing is trained"
_MEMORY_GIB = 121.4

Line = Callable[["ProgramContext", int, int, float, float | None], str]
"""A function that formats one iteration: (context, number, total, seconds, loss or None for NaN)."""


def iteration_count(context: ProgramContext) -> int:
    return int(context.env.get("A4_TRAIN_ITERATIONS", "10000"))


def swift_iteration_count(context: ProgramContext) -> int:
    return 100 * int(context.env.get("A4_SWIFT_EPOCHS", "1"))


def train_megatron(context: ProgramContext) -> Iterator[Step]:
    """Yield Megatron's output: start-up on rank 0, iterations on the last rank, NCCL lines on all."""
    # Fine-tuning on JSON data may follow on the other training.
    again = "train started" in context.room.facts.setdefault("trainings", {}).setdefault(context.rank, [])
    context.room.facts["trainings"][context.rank].append("train started")
    total = 10000 if again else iteration_count(context)
    yield from _run_training(context, "train-json" if again else "train", total, _format_line)


def train_swift(context: ProgramContext) -> Iterator[Step]:
    """Yield ms-swift's output in the line format of its version; epoch lengths are invented."""
    newer = int(context.env.get("A4_SWIFT_VERSION", "3.10.3").partition(".")[0]) >= 4
    yield from _run_training(
        context, "train", swift_iteration_count(context), _format_swift_4_line if newer else _format_swift_line
    )


def _run_training(context: ProgramContext, name: str, total: int, line: Line) -> Iterator[Step]:
    yield PrintLine(_NOT_REAL_NOTE)
    if context.rank == 0:
        context.room.post(FIRST_FACT, context)
    yield from _start_up(context)
    context.room.post(f"{name} started {context.rank}")
    for index in range(context.nodes):
        yield WaitForFact(f"{name} started {index}")
    over = f"{name} ended"
    if context.rank != context.nodes - 1:
        yield from _run_quiet_rank(context, over, total)
        return
    for step in _run_iterations(context, total, line):
        if isinstance(step, ExitStep):
            context.room.post(over, step.code)
        yield step
    context.room.post(over, 0)
    yield PrintLine(f"[exiting program at iteration {total}] datetime: {_format_date(context.now())}")


def batch_size(context: ProgramContext) -> int:
    return int(context.env.get("A4_GLOBAL_BATCH_SIZE") or context.env.get("A4_SWIFT_GLOBAL_BATCH") or 1024)


def _tflop_per_gpu(context: ProgramContext) -> float:
    """Return the TFLOP of a step for each GPU: six FLOPs for each active parameter and token."""
    named = context.env.get("A4_MODEL_SIZE") or context.env.get("A4_SWIFT_LOAD") or "A3B"
    size = re.search(r"A(\d+)B", named) or re.search(r"(\d+(?:\.\d+)?)B", named)
    tokens = batch_size(context) * int(context.env.get("A4_SEQ_LEN") or context.env.get("A4_SWIFT_MAX_LENGTH") or 4096)
    return 6e-3 * (float(size[1]) if size else 3.0) * tokens / (context.nodes * context.gpus)


def seconds_per_step(context: ProgramContext) -> float:
    """The duration of a step: set by the job's values, or the requested pace."""
    return step_seconds(context, _LEAST_SECONDS + _tflop_per_gpu(context) / _BEST_TFLOPS)


def _start_up(program: ProgramContext) -> Iterator[Step]:
    host, address = program.env.get("HOSTNAME", ""), program.pod.get("status", {}).get("podIP", "")
    yield PauseStep(2.0)
    yield PrintLine(
        f"{host}:{1200 + program.rank}:{1200 + program.rank} [0] NCCL INFO Bootstrap: Using eth0:{address}<0>"
    )
    yield PrintLine(
        f"{host}:{1200 + program.rank}:{1260 + program.rank} [0] NCCL INFO NET/gIB: 8 devices, mlx5_0 to mlx5_7"
    )
    if program.rank == 0:
        ranks, (tensor, pipeline, context) = program.nodes * program.gpus, model_parallel_sizes(program)
        yield PrintLine(
            f"using world size: {ranks}, data-parallel size: {max(1, ranks // (tensor * pipeline * context))},"
            f" context-parallel size: {context}, hierarchical context-parallel sizes: None,"
            f" tensor-model-parallel size: {tensor}, pipeline-model-parallel size: {pipeline}"
        )
        yield PrintLine("building Qwen3Tokenizer tokenizer ...")
        yield PrintLine("> building the index map in 0.4 s")
    yield PauseStep(6.0)
    yield PrintLine(
        f"{host}:{1200 + program.rank}:{1260 + program.rank} [0] NCCL INFO ncclCommInitRank - Init COMPLETE"
    )


def _run_quiet_rank(context: ProgramContext, over: str, total: int) -> Iterator[Step]:
    rank, past = context.rank * context.gpus, 0.0
    yield PrintLine(f"[rank {rank}] ready; the last rank prints the iterations")
    seconds, failing = seconds_per_step(context), [step for step in failing_steps(context) if step <= total]
    yield PauseStep(seconds * (1 + _START_SECONDS))
    if 1 not in failing:
        yield PrintLine(_format_memory(rank))
    for number in failing:
        yield PauseStep(seconds * (number - past))
        past = number
        yield from fail_at_step(context, number)
    yield WaitForFact(over)
    code = int(context.room.facts[over])
    if code:
        yield ExitStep(code)


def _run_iterations(context: ProgramContext, total: int, line: Line) -> Iterator[Step]:
    spike, nan, slow = (fault_at(context, kind) for kind in ("spike", "nan", "slow"))
    first = int(context.env.get("A4_TRAIN_FIRST", "1"))
    seconds = seconds_per_step(context)
    for number in range(first, total + 1):
        yield from fail_at_step(context, number)
        factor = 1.0 + 0.01 * context.random.random() + (0.35 if slow is not None and number >= slow else 0.0)
        factor += _START_SECONDS if number == first else 0.0
        yield PauseStep(seconds * factor)
        loss = _loss_at(number, context)
        if spike is not None and spike <= number < spike + 12:
            loss += 3.5 * math.exp(-(number - spike) / 4)
        lost = nan is not None and number >= nan
        yield PrintLine(line(context, number, total, seconds * factor, None if lost else loss))
        if number == first:
            yield PrintLine(_format_memory(context.nodes * context.gpus - 1))
        if number % _save_interval(context) == 0 or number == total:
            yield from _save_checkpoint(context, number)


def _save_interval(context: ProgramContext) -> int:
    """Return the number of iterations between checkpoints."""
    return max(1, int(context.env.get("A4_SAVE_INTERVAL") or context.env.get("A4_SWIFT_SAVE_INTERVAL") or 1000))


def _save_checkpoint(context: ProgramContext, number: int) -> Iterator[Step]:
    folder = checkpoint_folder(context)
    yield PrintLine(f"saving checkpoint at iteration {number:7d} to {folder} in torch_dist format")
    save_shards(context, number)
    yield PauseStep(seconds_per_step(context) * 2)
    finish_checkpoint(context, number)
    yield PrintLine(f"  successfully saved checkpoint from iteration {number:7d} to {folder}")


def _format_memory(rank: int) -> str:
    """Return the memory report that each pod's first rank prints after the first iteration."""
    kept, most = 61_204.7 + rank, 97_318.4 + rank
    return (
        f"[Rank {rank}] (after 1 iterations) memory (MB) | allocated: {kept:.2f} | max allocated: {most:.2f} |"
        f" reserved: {most + 4096:.2f} | max reserved: {most + 4096:.2f}"
    )


def _loss_at(number: int, context: ProgramContext) -> float:
    falling = 1.9 + 8.6 * math.exp(-number / 160) + 1.1 * math.exp(-number / 2600)
    return falling * (1 + 0.012 * (context.random.random() - 0.5))


def _learning_rate_at(number: int, total: int) -> float:
    if number < _WARMUP:
        return _RATE * number / _WARMUP
    done = (number - _WARMUP) / max(total - _WARMUP, 1)
    return _LOWEST_RATE + (_RATE - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))


def _format_line(context: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one iteration line; Megatron leaves the loss out when it is NaN."""
    norm = "nan" if loss is None else f"{0.25 + 0.3 * loss / 4 + 0.02 * context.random.random():.3f}"
    shown = "" if loss is None else f" lm loss: {loss:.6E} |"
    if context.env.get("A4_MODEL_SIZE", "A3B").startswith("A"):
        shown += f" load_balancing_loss: {1.0 + 0.1 * context.random.random():.6E} |"
    tflops = min(_BEST_TFLOPS, _tflop_per_gpu(context) / max(seconds, 0.001))  # a pace may be beyond what B200 can do
    return (
        f" [{_format_date(context.now())}] iteration {number:8d}/{total:8d} | consumed samples:"
        f" {number * batch_size(context):12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
        f" learning rate: {_learning_rate_at(number, total):.6E} | global batch size: {batch_size(context):5d} |{shown}"
        f" loss scale: 1.0 | grad norm: {norm} | number of skipped iterations: {0:3d} |"
        f" number of nan iterations: {0 if loss is not None else 1:3d} |"
    )


def _format_swift_line(context: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one iteration line of ms-swift 3.7 to 3.12, which prints a NaN loss as nan."""
    losses = "".join(f" {key}: {value:.6E} |" for key, value in _swift_losses(context, loss).items())
    return (
        f" [{_format_date(context.now())}] iteration {number:8d}/{total:8d} | consumed samples:"
        f" {number * batch_size(context):12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} | memory(GiB): {_MEMORY_GIB:.2f} |"
        f" elapsed time: {_format_duration(number * seconds)} | remaining time:"
        f" {_format_duration((total - number) * seconds)} |"
        f" learning rate: {_learning_rate_at(number, total):.6E} | global batch size: {batch_size(context):5d} |"
        f"{losses} loss scale: 1.0 | grad norm: {_swift_grad_norm(context, loss):.3f} |"
        f" number of skipped iterations: {0:3d} | number of nan iterations: {0 if loss is not None else 1:3d} |"
    )


def _format_swift_4_line(context: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return a line of ms-swift 4, a dict as Python prints it; `seconds` of a step, and a loss of None is NaN."""
    values: dict[str, float | str] = {key: round(value, 8) for key, value in _swift_losses(context, loss).items()}
    values |= {
        "grad_norm": round(_swift_grad_norm(context, loss), 8),
        "learning_rate": _learning_rate_at(number, total),
        "iteration": f"{number}/{total}",
        "elapsed_time": _format_duration(number * seconds),
        "remaining_time": _format_duration((total - number) * seconds),
        "memory(GiB)": _MEMORY_GIB,
        "train_speed(s/it)": round(seconds, 6),
    }
    return str(values)


def _swift_grad_norm(context: ProgramContext, loss: float | None) -> float:
    return math.nan if loss is None else 0.4 + 0.1 * context.random.random()


def _swift_losses(context: ProgramContext, loss: float | None) -> dict[str, float]:
    """Return the loss, and for preference training the rewards."""
    shown = math.nan if loss is None else loss
    if "A4_SWIFT_BETA" not in context.env:
        return {"loss": shown}
    margin = max(0.0, 2.0 - 0.15 * shown) * (1 + 0.05 * context.random.random())
    return {
        "loss": shown / 15,
        "rewards/chosen": margin * 0.4,
        "rewards/rejected": -margin * 0.6,
        "rewards/accuracies": min(1.0, 0.5 + margin / 5),
        "rewards/margins": margin,
    }


def _format_duration(seconds: float) -> str:
    """Return a duration as ms-swift writes it: ``1h 44m 10s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h"] if hours else []
    return " ".join([*parts, *([f"{minutes}m"] if minutes or hours else []), f"{rest}s"])


def _format_date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
