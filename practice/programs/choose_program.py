"""Chooses the program of a container: by the recipe in its environment, by command, or by name."""

from __future__ import annotations

from collections.abc import Iterator

from practice.programs import ddp, kept_logs, launcher_stages, megatron, nccl, recipes, shell_commands
from practice.programs.fault_settings import TEST, TRAINING, fault_kinds_of, impossible_faults_of
from practice.programs.recordings import recorded_launcher_steps
from practice.programs.steps import PrintLine, Program, ProgramContext, Step

_PROGRAMS = {
    **launcher_stages.PROGRAMS,
    "all_reduce_perf": nccl.run_all_reduce,
    "run_mcore_qwen3.sh": megatron.train_megatron,
    "megatron rlhf": megatron.train_swift,
    "megatron sft": megatron.train_swift,
}
RECIPES = {name: recipes.launcher_program(name, _PROGRAMS) for name in recorded_launcher_steps()["recipes"]}


def choose_program(argv: list[str], env: dict[str, str], *, is_init: bool) -> Program:
    if is_init:
        return shell_commands.run_installer
    recipe = RECIPES.get(env.get("A4_RECIPE", ""))
    if recipe is None or recipes.launcher_at(argv) is None:
        return shell_commands.run_command
    program = _with_fault_warnings(env["A4_RECIPE"], recipe)
    return kept_logs.keep_log(program) if env.get("A4_LOG_FOLDER") else program


def _step_count(recipe: str, program: str, context: ProgramContext) -> int | None:
    """Return the number of iterations of a recipe's training, or of rows of its test; None if unknown."""
    if program == TEST:
        return nccl.row_count(context)
    if program != TRAINING:
        return None
    return megatron.swift_iteration_count(context) if recipe.startswith("swift-") else megatron.iteration_count(context)


def _with_fault_warnings(name: str, recipe: Program) -> Program:
    """A program that first prints which requested faults of the job will not happen."""

    def program(context: ProgramContext) -> Iterator[Step]:
        own = launcher_stages.own_script_trains(context)
        work = TRAINING if own else fault_kinds_of(name)
        for why in impossible_faults_of(
            context, work, ddp.iteration_count(context) if own else _step_count(name, work, context)
        ):
            yield PrintLine(f"practice cluster: {why}")
        yield from recipe(context)

    return program
