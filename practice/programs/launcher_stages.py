"""Imitations of the programs in the launchers' stages: pauses, and the programs' last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.programs import ddp
from practice.programs.steps import PauseStep, PrintLine, ProgramContext, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from practice.programs.recipes import Imitation

SCRIPT, TRAINS = "a4-practice/script", "trains"
"""(annotation by which the scene sets what a person's own script does, its value if the script trains)."""


def silent_work(title: str, seconds: float, then: Callable[[ProgramContext], Iterator[str]] | None = None) -> Imitation:
    """Return an imitation that prints the name of its program, waits, and prints ``then`` as its last lines."""

    def imitation(context: ProgramContext) -> Iterator[Step]:
        shown = [PrintLine(line) for line in then(context)] if then is not None else []
        if title:
            yield PrintLine(f"practice cluster: nothing is {title}")
        yield PauseStep(seconds)
        yield from shown

    return imitation


def run_own_script(context: ProgramContext) -> Iterator[Step]:
    """Yield the steps that imitate a person's own script, which is not run; it trains only if the scene says so."""
    if own_script_trains(context):
        yield from ddp.replay_training(context)
    else:
        yield PrintLine("practice cluster: scripts are not run")
        yield PauseStep(3.0)


def own_script_trains(context: ProgramContext) -> bool:
    """Return whether the scene says that the person's own script in this pod trains."""
    return context.notes.get(SCRIPT) == TRAINS


def print_size(context: ProgramContext) -> Iterator[Step]:
    """Print invented sizes of the weights."""
    yield PrintLine(f"57G\t{context.env.get('A4_HF_FOLDER', '')}")


def print_listing(context: ProgramContext) -> Iterator[Step]:
    """Print files with invented sizes."""
    folder = context.env.get("A4_DATA_FOLDER") or f"{context.env.get('PAI_WORKSPACE_ROOT', '')}/evaluation"
    files = context.env.get("A4_DATA_FILES") or context.env.get("A4_EVAL_FILES", "")
    for number, address in enumerate(files.split(), 1):
        name = address.rpartition("/")[2]
        yield PrintLine(f"-rw-r--r-- 1 root root {number * 104_857_613} Nov 21 06:33 {folder}/{name}")


def _conversion_lines(context: ProgramContext) -> Iterator[str]:
    """Yield the last lines of the conversion on its first rank."""
    if context.rank == 0:
        yield "practice cluster: the marker file would be written here; made up: conversion took 6 seconds"


def _export_lines(context: ProgramContext) -> Iterator[str]:
    """Yield the result of the precision test, if requested."""
    if context.env.get("A4_SWIFT_TEST", "true") == "true":
        yield "practice cluster: made up: mean_diff: 0.0004, max_diff: 0.0156 between the model and its conversion"


def _evaluation_lines(context: ProgramContext) -> Iterator[str]:
    """Yield lm-eval's table, with the scores of guessing among four answers."""
    yield "practice cluster: these scores are made up"
    yield "|   Tasks   |Version|Filter|n-shot|Metric|   |Value |   |Stderr|"
    yield "|-----------|------:|------|-----:|------|---|-----:|---|-----:|"
    for task in context.env.get("A4_EVAL_TASKS", "cmmlu,ceval-valid").split(","):
        yield f"|{task:11}|      1|none  |     0|acc   |\u2191  |0.2500|\u00b1  |0.0040|"


PROGRAMS: dict[str, Imitation] = {
    "pip install": silent_work("installed", 4.0),
    "pip uninstall": silent_work("", 0.5),
    "git clone": silent_work("cloned", 2.0),
    "git": silent_work("", 0.1),
    "huggingface-cli download": silent_work("downloaded", 3.0),
    "modelscope download": silent_work("downloaded", 3.0),
    "wget": silent_work("downloaded", 2.0),
    "du": print_size,
    "ls": print_listing,
    "run_build_idxmap_sft_dataset.sh": silent_work("built", 4.0),
    "run_8xH20.sh": silent_work("converted", 6.0, _conversion_lines),
    "run_A22B_16xH20.sh": silent_work("converted", 6.0, _conversion_lines),
    "swift export": silent_work("exported", 6.0, _export_lines),
    "accelerate launch": silent_work("evaluated", 5.0, _evaluation_lines),
    "torchrun": ddp.smoke_test,
    "own-script": run_own_script,
}
"""The imitation of each program that launchers run in their stages."""
