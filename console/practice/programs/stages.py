"""The steps of the recipes that stand on Pai-Megatron-Patch: what the launchers print, with pauses instead of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from console.practice.programs import ddp
from console.practice.programs.recipes import Steps, steps_of
from console.practice.programs.script import Meet, Place, Say, Step, Wait

if TYPE_CHECKING:
    from console.practice.programs.script import Program

Stage = Callable[[Place, Steps], Iterator[Step]]
Lines = Callable[[Place], Iterator[str]]
"""What a program of a stage prints in the end."""

SCRIPT, TRAINS = "a4-practice/script", "trains"
"""The annotation by which the scene says what a person's own script does, and what it says."""
_FOREVER = 10.0**8


def staged(*stages: Stage, keep: tuple[str, ...] = ()) -> Program:
    """Return a recipe of stages, one after the other; its pod is kept when all the switches named are on."""

    def program(place: Place) -> Iterator[Step]:
        steps = steps_of(place)
        for stage in stages:
            yield from stage(place, steps)
        if keep and all(place.env.get(switch) == "true" for switch in keep):
            recipe = place.env.get("A4_RECIPE", "")
            yield Say(f"{recipe} ended with exit code 0; the pod is kept until the job is stopped")
            yield Wait(_FOREVER)

    return program


def work(
    name: str, what: str, seconds: float, *, switch: str = "", alone: bool = False, then: Lines | None = None
) -> Stage:
    """Return a stage that does nothing but say so; ``alone``: index 0 does it for all; ``then``: its last lines."""

    def stage(place: Place, steps: Steps) -> Iterator[Step]:
        if switch and place.env.get(switch) == "true":
            yield steps.skip(name, f"{switch}=true")
        elif alone and place.rank:
            yield steps.skip(name, "index 0 does this")
        else:
            shown = [Say(line) for line in then(place)] if then is not None else []
            yield from steps.run(name, Say(f"practice cluster: nothing is {what}"), Wait(seconds), *shown)

    return stage


def sync(place: Place, steps: Steps) -> Iterator[Step]:
    """Let index 0 say that everything up to here is done; the others wait for that."""
    yield steps.begin("sync")
    began = place.now()
    if place.rank == 0:
        place.room.post("synced")
    else:
        yield Say("waiting for index 0")
        yield Meet("synced")
    yield steps.done("sync", place.now() - began)


def script(place: Place, steps: Steps) -> Iterator[Step]:
    """Show what a person's own script was given; it is not run, unless the scene says that it trains."""
    launcher = next((at for at, part in enumerate(place.argv) if part.endswith("launchers/run.sh")), len(place.argv))
    began = place.now()
    yield steps.begin("script")
    yield Say(f"arguments: {' '.join(place.argv[launcher + 1 :])}")
    if own_script_trains(place):
        yield from ddp.training(place)
    else:
        yield Say("practice cluster: scripts are not run")
        yield Wait(3.0)
    yield steps.done("script", place.now() - began)


def own_script_trains(place: Place) -> bool:
    """Whether the scene says that a person's own script in this pod is a training."""
    return place.notes.get(SCRIPT) == TRAINS


def _downloaded(place: Place) -> Iterator[str]:
    """Print the files with their sizes, as the launcher does; the sizes are made up."""
    if "A4_MODEL_ID" in place.env:
        yield f"57G\t{place.env.get('A4_HF_FOLDER', '')}"
    folder = place.env.get("A4_DATA_FOLDER") or f"{place.env.get('PAI_WORKSPACE_ROOT', '')}/evaluation"
    files = place.env.get("A4_DATA_FILES") or place.env.get("A4_EVAL_FILES", "")
    for number, address in enumerate(files.split(), 1):
        yield f"-rw-r--r-- 1 root root {number * 104_857_613} Nov 21 06:33 {folder}/{address.rpartition('/')[2]}"


def _converted(place: Place) -> Iterator[str]:
    """Print what the conversion ends with on its first rank."""
    if place.rank == 0:
        yield "practice cluster: the marker file would be written here; made up: conversion took 6 seconds"


def _exported(place: Place) -> Iterator[str]:
    """Print the result of the precision test, when it was asked for."""
    if place.env.get("A4_SWIFT_TEST", "true") == "true":
        yield "practice cluster: made up: mean_diff: 0.0004, max_diff: 0.0156 between the model and its conversion"


def _evaluated(place: Place) -> Iterator[str]:
    """Print lm-eval's table; its scores are those of guessing among four answers."""
    yield "practice cluster: these scores are made up"
    yield "|   Tasks   |Version|Filter|n-shot|Metric|   |Value |   |Stderr|"
    yield "|-----------|------:|------|-----:|------|---|-----:|---|-----:|"
    for task in place.env.get("A4_EVAL_TASKS", "cmmlu,ceval-valid").split(","):
        yield f"|{task:11}|      1|none  |     0|acc   |\u2191  |0.2500|\u00b1  |0.0040|"


environment = work("environment", "installed", 4.0, switch="SKIP_ENV_SETUP")
clone = work("clone", "cloned", 2.0, switch="SKIP_CLONE_REPO", alone=True)
download = work("download", "downloaded", 5.0, switch="SKIP_DOWNLOAD_DATA", alone=True, then=_downloaded)
build_data = work("build-data", "built", 4.0, switch="SKIP_DATA_BUILD", alone=True)
convert = work("convert", "converted", 6.0, switch="SKIP_CHECKPOINT_CONVERSION", then=_converted)
convert_always = work("convert", "converted", 6.0, then=_converted)
megatron_core = work("megatron", "cloned", 2.0, alone=True)
export = work("export", "exported", 6.0, then=_exported)
harness = work("harness", "installed", 2.0)
evaluate = work("evaluate", "evaluated", 5.0, then=_evaluated)
