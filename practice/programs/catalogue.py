"""Chooses the program of a container: by the recipe in its environment, by command, or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.programs import ddp, megatron, nccl, plain, recipes, stages
from practice.programs.faults import TEST, TRAINING, complaints_of, work_of
from practice.programs.recordings import launchers
from practice.programs.script import Say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from practice.programs.script import Place, Program, Step

_PROGRAMS = {
    **stages.PROGRAMS,
    "all_reduce_perf": nccl.measure,
    "run_mcore_qwen3.sh": megatron.train,
    "megatron rlhf": megatron.train_swift,
    "megatron sft": megatron.train_swift,
}
RECIPES: dict[str, Program] = {name: recipes.launched(name, _PROGRAMS) for name in launchers()["recipes"]}


def choose(argv: list[str], env: dict[str, str], *, init: bool) -> Program:
    if init:
        return plain.installer
    recipe = RECIPES.get(env.get("A4_RECIPE", ""))
    if recipe is not None and any("launchers/run.sh" in part for part in argv):
        return _warned(env["A4_RECIPE"], recipe)
    return plain.command


def _steps(recipe: str, work: str, place: Place) -> int | None:
    """Return the number of iterations of a recipe's training, or of rows of its test; None if unknown."""
    if work == TEST:
        return nccl.rows(place)
    if work != TRAINING:
        return None
    return megatron.swift_iterations(place) if recipe.startswith("swift-") else megatron.iterations(place)


def _warned(name: str, recipe: Program) -> Program:
    """A program that first says which of the job's requested faults will not happen."""

    def program(place: Place) -> Iterator[Step]:
        own = stages.own_script_trains(place)
        work = TRAINING if own else work_of(name)
        for why in complaints_of(place, work, ddp.iterations(place) if own else _steps(name, work, place)):
            yield Say(f"practice cluster: {why}")
        yield from recipe(place)

    return program
