"""Megatron-LM pretraining: iteration lines of the last rank, including configured faults."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from practice.programs.checkpoints import FIRST_FACT, checkpoint_folder, finish_checkpoint, save_shards
from practice.programs.failure_modes import fail_at_step, failing_steps
from practice.programs.job_faults import fault_at, step_seconds
from practice.programs.process_groups import model_parallel_sizes
from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, Step, WaitForFact

_LEAST_SECONDS = 2.8  # of a step that computes next to nothing: its kernels are still launched one by one
_BEST_TFLOPS = 1180.0  # of a B200 in such a training, about half of what it can do at the most
_RATE, _LOWEST_RATE, _WARMUP = 3.0e-4, 3.0e-5, 200
_START_SECONDS = 8.0  # what the first iteration takes longer than the others, in iterations
_NOT_REAL_NOTE = "practice cluster: these iteration lines are made up; nothing is trained"
_MEMORY_GIB = 121.4

Line = Callable[["ProgramContext", int, int, float, float | None], str]
"""How one iteration is printed: number, total, seconds, loss (None for NaN)."""


def iteration_count(place: ProgramContext) -> int:
    return int(place.env.get("A4_TRAIN_ITERATIONS", "10000"))


def swift_iteration_count(place: ProgramContext) -> int:
    return 100 * int(place.env.get("A4_SWIFT_EPOCHS", "1"))


def train_megatron(place: ProgramContext) -> Iterator[Step]:
    """Imitate Megatron's output: start-up on rank 0, iterations on the last rank, NCCL lines elsewhere."""
    # Fine-tuning on JSON data may follow on the other training.
    again = "train started" in place.room.facts.setdefault("trainings", {}).setdefault(place.rank, [])
    place.room.facts["trainings"][place.rank].append("train started")
    total = 10000 if again else iteration_count(place)
    yield from _run_training(place, "train-json" if again else "train", total, _format_line)


def train_swift(place: ProgramContext) -> Iterator[Step]:
    """Train as ms-swift does, whose version selects the line format; epoch lengths are invented."""
    newer = int(place.env.get("A4_SWIFT_VERSION", "3.10.3").partition(".")[0]) >= 4
    yield from _run_training(
        place, "train", swift_iteration_count(place), _format_swift_4_line if newer else _format_swift_line
    )


def _run_training(place: ProgramContext, name: str, total: int, line: Line) -> Iterator[Step]:
    yield PrintLine(_NOT_REAL_NOTE)
    if place.rank == 0:
        place.room.post(FIRST_FACT, place)
    yield from _start_up(place)
    place.room.post(f"{name} started {place.rank}")
    for index in range(place.nodes):
        yield WaitForFact(f"{name} started {index}")
    over = f"{name} ended"
    if place.rank != place.nodes - 1:
        yield from _run_quiet_rank(place, over, total)
        return
    for step in _run_iterations(place, total, line):
        if isinstance(step, ExitStep):
            place.room.post(over, step.code)
        yield step
    place.room.post(over, 0)
    yield PrintLine(f"[exiting program at iteration {total}] datetime: {_format_date(place.now())}")


def batch_size(place: ProgramContext) -> int:
    return int(place.env.get("A4_GLOBAL_BATCH_SIZE") or place.env.get("A4_SWIFT_GLOBAL_BATCH") or 1024)


def _tflop_per_gpu(place: ProgramContext) -> float:
    """Return the work of a step for each GPU: six FLOPs for each active parameter and token."""
    named = place.env.get("A4_MODEL_SIZE") or place.env.get("A4_SWIFT_LOAD") or "A3B"
    size = re.search(r"A(\d+)B", named) or re.search(r"(\d+(?:\.\d+)?)B", named)
    tokens = batch_size(place) * int(place.env.get("A4_SEQ_LEN") or place.env.get("A4_SWIFT_MAX_LENGTH") or 4096)
    return 6e-3 * (float(size[1]) if size else 3.0) * tokens / (place.nodes * place.gpus)


def seconds_per_step(place: ProgramContext) -> float:
    """The duration of a step: set by the job's values, or the requested pace."""
    return step_seconds(place, _LEAST_SECONDS + _tflop_per_gpu(place) / _BEST_TFLOPS)


def _start_up(place: ProgramContext) -> Iterator[Step]:
    host, address = place.env.get("HOSTNAME", ""), place.pod.get("status", {}).get("podIP", "")
    yield PauseStep(2.0)
    yield PrintLine(f"{host}:{1200 + place.rank}:{1200 + place.rank} [0] NCCL INFO Bootstrap: Using eth0:{address}<0>")
    yield PrintLine(
        f"{host}:{1200 + place.rank}:{1260 + place.rank} [0] NCCL INFO NET/gIB: 8 devices, mlx5_0 to mlx5_7"
    )
    if place.rank == 0:
        ranks, (tensor, pipeline, context) = place.nodes * place.gpus, model_parallel_sizes(place)
        yield PrintLine(
            f"using world size: {ranks}, data-parallel size: {max(1, ranks // (tensor * pipeline * context))},"
            f" context-parallel size: {context}, hierarchical context-parallel sizes: None,"
            f" tensor-model-parallel size: {tensor}, pipeline-model-parallel size: {pipeline}"
        )
        yield PrintLine("building Qwen3Tokenizer tokenizer ...")
        yield PrintLine("> building the index map in 0.4 s")
    yield PauseStep(6.0)
    yield PrintLine(f"{host}:{1200 + place.rank}:{1260 + place.rank} [0] NCCL INFO ncclCommInitRank - Init COMPLETE")


def _run_quiet_rank(place: ProgramContext, over: str, total: int) -> Iterator[Step]:
    rank, past = place.rank * place.gpus, 0.0
    yield PrintLine(f"[rank {rank}] ready; the last rank prints the iterations")
    seconds, failing = seconds_per_step(place), [step for step in failing_steps(place) if step <= total]
    yield PauseStep(seconds * (1 + _START_SECONDS))
    if 1 not in failing:
        yield PrintLine(_format_memory(rank))
    for number in failing:
        yield PauseStep(seconds * (number - past))
        past = number
        yield from fail_at_step(place, number)
    yield WaitForFact(over)
    code = int(place.room.facts[over])
    if code:
        yield ExitStep(code)


def _run_iterations(place: ProgramContext, total: int, line: Line) -> Iterator[Step]:
    spike, nan, slow = (fault_at(place, kind) for kind in ("spike", "nan", "slow"))
    first = int(place.env.get("A4_TRAIN_FIRST", "1"))
    seconds = seconds_per_step(place)
    for number in range(first, total + 1):
        yield from fail_at_step(place, number)
        factor = 1.0 + 0.01 * place.random.random() + (0.35 if slow is not None and number >= slow else 0.0)
        factor += _START_SECONDS if number == first else 0.0
        yield PauseStep(seconds * factor)
        loss = _loss_at(number, place)
        if spike is not None and spike <= number < spike + 12:
            loss += 3.5 * math.exp(-(number - spike) / 4)
        lost = nan is not None and number >= nan
        yield PrintLine(line(place, number, total, seconds * factor, None if lost else loss))
        if number == first:
            yield PrintLine(_format_memory(place.nodes * place.gpus - 1))
        if number % _save_interval(place) == 0 or number == total:
            yield from _save_checkpoint(place, number)


def _save_interval(place: ProgramContext) -> int:
    """Return the number of iterations between checkpoints."""
    return max(1, int(place.env.get("A4_SAVE_INTERVAL") or place.env.get("A4_SWIFT_SAVE_INTERVAL") or 1000))


def _save_checkpoint(place: ProgramContext, number: int) -> Iterator[Step]:
    folder = checkpoint_folder(place)
    yield PrintLine(f"saving checkpoint at iteration {number:7d} to {folder} in torch_dist format")
    save_shards(place, number)
    yield PauseStep(seconds_per_step(place) * 2)
    finish_checkpoint(place, number)
    yield PrintLine(f"  successfully saved checkpoint from iteration {number:7d} to {folder}")


def _format_memory(rank: int) -> str:
    """Return the memory report that each pod's first rank prints after the first iteration."""
    kept, most = 61_204.7 + rank, 97_318.4 + rank
    return (
        f"[Rank {rank}] (after 1 iterations) memory (MB) | allocated: {kept:.2f} | max allocated: {most:.2f} |"
        f" reserved: {most + 4096:.2f} | max reserved: {most + 4096:.2f}"
    )


def _loss_at(number: int, place: ProgramContext) -> float:
    falling = 1.9 + 8.6 * math.exp(-number / 160) + 1.1 * math.exp(-number / 2600)
    return falling * (1 + 0.012 * (place.random.random() - 0.5))


def _learning_rate_at(number: int, total: int) -> float:
    if number < _WARMUP:
        return _RATE * number / _WARMUP
    done = (number - _WARMUP) / max(total - _WARMUP, 1)
    return _LOWEST_RATE + (_RATE - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))


def _format_line(place: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one iteration line; Megatron leaves the loss out when it is NaN."""
    norm = "nan" if loss is None else f"{0.25 + 0.3 * loss / 4 + 0.02 * place.random.random():.3f}"
    shown = "" if loss is None else f" lm loss: {loss:.6E} |"
    if place.env.get("A4_MODEL_SIZE", "A3B").startswith("A"):
        shown += f" load_balancing_loss: {1.0 + 0.1 * place.random.random():.6E} |"
    tflops = min(_BEST_TFLOPS, _tflop_per_gpu(place) / max(seconds, 0.001))  # a pace may be beyond what B200 can do
    return (
        f" [{_format_date(place.now())}] iteration {number:8d}/{total:8d} | consumed samples:"
        f" {number * batch_size(place):12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
        f" learning rate: {_learning_rate_at(number, total):.6E} | global batch size: {batch_size(place):5d} |{shown}"
        f" loss scale: 1.0 | grad norm: {norm} | number of skipped iterations: {0:3d} |"
        f" number of nan iterations: {0 if loss is not None else 1:3d} |"
    )


def _format_swift_line(place: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one line of ms-swift 3.7 to 3.12, which prints a NaN as such."""
    losses = "".join(f" {key}: {value:.6E} |" for key, value in _swift_losses(place, loss).items())
    return (
        f" [{_format_date(place.now())}] iteration {number:8d}/{total:8d} | consumed samples:"
        f" {number * batch_size(place):12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} | memory(GiB): {_MEMORY_GIB:.2f} |"
        f" elapsed time: {_format_duration(number * seconds)} | remaining time:"
        f" {_format_duration((total - number) * seconds)} |"
        f" learning rate: {_learning_rate_at(number, total):.6E} | global batch size: {batch_size(place):5d} |{losses}"
        f" loss scale: 1.0 | grad norm: {_swift_grad_norm(place, loss):.3f} |"
        f" number of skipped iterations: {0:3d} | number of nan iterations: {0 if loss is not None else 1:3d} |"
    )


def _format_swift_4_line(place: ProgramContext, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one line of ms-swift 4: a dict as Python prints it."""
    values: dict[str, float | str] = {key: round(value, 8) for key, value in _swift_losses(place, loss).items()}
    values |= {
        "grad_norm": round(_swift_grad_norm(place, loss), 8),
        "learning_rate": _learning_rate_at(number, total),
        "iteration": f"{number}/{total}",
        "elapsed_time": _format_duration(number * seconds),
        "remaining_time": _format_duration((total - number) * seconds),
        "memory(GiB)": _MEMORY_GIB,
        "train_speed(s/it)": round(seconds, 6),
    }
    return str(values)


def _swift_grad_norm(place: ProgramContext, loss: float | None) -> float:
    return math.nan if loss is None else 0.4 + 0.1 * place.random.random()


def _swift_losses(place: ProgramContext, loss: float | None) -> dict[str, float]:
    """Return the loss, and for preference training the rewards."""
    shown = math.nan if loss is None else loss
    if "A4_SWIFT_BETA" not in place.env:
        return {"loss": shown}
    margin = max(0.0, 2.0 - 0.15 * shown) * (1 + 0.05 * place.random.random())
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
