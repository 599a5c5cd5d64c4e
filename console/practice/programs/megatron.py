"""Megatron-LM pretraining: the iteration lines of the last rank, with the faults a scene asks for."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from console.practice.programs.faults import fault_at, pace
from console.practice.programs.recipes import steps_of
from console.practice.programs.script import Exit, Meet, Say, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.practice.programs.script import Place, Step

_STEP_SECONDS = 2.8
_TFLOPS = 1180.0
_BATCH = 1024
_RATE, _LOWEST_RATE, _WARMUP = 3.0e-4, 3.0e-5, 200
_FOREVER = 10.0**8
_MADE_UP = "practice cluster: these iteration lines are made up; nothing is trained"
_SKIPPED = {"clone": "SKIP_CLONE_REPO=true", "download": "SKIP_DOWNLOAD_DATA=true", "convert": "already converted"}


def pretraining(place: Place) -> Iterator[Step]:
    """Rank 0 starts up aloud, the last rank prints the iterations, the others their NCCL lines."""
    steps = steps_of(place)
    for name, why in _SKIPPED.items():
        yield steps.skip(name, why)
    yield steps.begin("train")
    yield Say(_MADE_UP)
    yield from _start_up(place)
    place.room.post(f"started {place.rank}")
    for index in range(place.nodes):
        yield Meet(f"started {index}")
    if place.rank != place.nodes - 1:
        yield from _quiet(place)
        return
    total = int(place.env.get("A4_TRAIN_ITERATIONS", "10000"))
    for step in _iterations(place, total):
        if isinstance(step, Exit):
            place.room.post("over", step.code)
        yield step
    place.room.post("over", 0)
    yield Say(f"[exiting program at iteration {total}] datetime: {_date(place.now())}")
    yield steps.done("train", pace(place, _STEP_SECONDS) * total)


def _start_up(place: Place) -> Iterator[Step]:
    host, address = place.env.get("HOSTNAME", ""), place.pod.get("status", {}).get("podIP", "")
    yield Wait(2.0)
    yield Say(f"{host}:{1200 + place.rank}:{1200 + place.rank} [0] NCCL INFO Bootstrap: Using eth0:{address}<0>")
    yield Say(f"{host}:{1200 + place.rank}:{1260 + place.rank} [0] NCCL INFO NET/gIB: 8 devices, mlx5_0 to mlx5_7")
    if place.rank == 0:
        ranks = place.nodes * place.gpus
        yield Say(f"using world size: {ranks}, data-parallel size: {ranks // 8}, tensor-model-parallel size: 4, ")
        yield Say("building Qwen3Tokenizer tokenizer ...")
        yield Say("> building the index map in 0.4 s")
    yield Wait(6.0)


def _quiet(place: Place) -> Iterator[Step]:
    yield Say(f"[rank {place.rank * place.gpus}] ready; the last rank prints the iterations")
    killed = fault_at(place, "oom")
    if killed is not None and not place.attempt:
        yield Wait(float(killed))
        yield Exit(137, "OOMKilled")
    yield Meet("over")
    yield Exit(int(place.room.facts["over"]))


def _iterations(place: Place, total: int) -> Iterator[Step]:
    spike, nan, hang, slow = (fault_at(place, kind) for kind in ("spike", "nan", "hang", "slow"))
    first = int(place.env.get("A4_TRAIN_FIRST", "1"))
    seconds = pace(place, _STEP_SECONDS)
    for number in range(first, total + 1):
        if number == hang:
            yield Wait(_FOREVER)
        factor = 1.0 + 0.01 * place.random.random() + (0.35 if slow is not None and number >= slow else 0.0)
        factor += 8.0 if number == first else 0.0
        yield Wait(seconds * factor)
        loss = _loss(number, place)
        if spike is not None and spike <= number < spike + 12:
            loss += 3.5 * math.exp(-(number - spike) / 4)
        lost = nan is not None and number >= nan
        yield Say(_line(place, number, total, seconds * factor, None if lost else loss))
        if number % 1000 == 0:
            yield Say(f"  saving checkpoint at iteration {number:7d} to /mnt/logs/checkpoint in torch_dist format")


def _loss(number: int, place: Place) -> float:
    falling = 1.9 + 8.6 * math.exp(-number / 160) + 1.1 * math.exp(-number / 2600)
    return falling * (1 + 0.012 * (place.random.random() - 0.5))


def _rate(number: int, total: int) -> float:
    if number < _WARMUP:
        return _RATE * number / _WARMUP
    done = (number - _WARMUP) / max(total - _WARMUP, 1)
    return _LOWEST_RATE + (_RATE - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))


def _line(place: Place, number: int, total: int, seconds: float, loss: float | None) -> str:
    """Return one iteration line; Megatron leaves the loss out when it is NaN."""
    norm = "nan" if loss is None else f"{0.25 + 0.3 * loss / 4 + 0.02 * place.random.random():.3f}"
    shown = "" if loss is None else f" lm loss: {loss:.6E} |"
    return (
        f" [{_date(place.now())}] iteration {number:8d}/{total:8d} | consumed samples: {number * _BATCH:12d} |"
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {_TFLOPS * _STEP_SECONDS / max(seconds, 0.001):.1f} |"
        f" learning rate: {_rate(number, total):.6E} | global batch size: {_BATCH:5d} |{shown}"
        f" loss scale: 1.0 | grad norm: {norm} | number of skipped iterations: {0:3d} |"
        f" number of nan iterations: {0 if loss is not None else 1:3d} |"
    )


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
