"""The steps of the recipes that stand on Pai-Megatron-Patch: what the launchers print, with pauses instead of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from console.practice.programs.recipes import Steps, steps_of
from console.practice.programs.script import Meet, Place, Say, Step, Wait

if TYPE_CHECKING:
    from console.practice.programs.script import Program

Stage = Callable[[Place, Steps], Iterator[Step]]

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


def work(name: str, what: str, seconds: float, *, switch: str = "", alone: bool = False) -> Stage:
    """Return a stage that does nothing but say so; ``alone``: index 0 does it for all."""

    def stage(place: Place, steps: Steps) -> Iterator[Step]:
        if switch and place.env.get(switch) == "true":
            yield steps.skip(name, f"{switch}=true")
        elif alone and place.rank:
            yield steps.skip(name, "index 0 does this")
        else:
            yield from steps.run(name, Say(f"practice cluster: nothing is {what}"), Wait(seconds))

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
    """Show what a person's own script was given; it is not run."""
    launcher = next((at for at, part in enumerate(place.argv) if part.endswith("launchers/run.sh")), len(place.argv))
    yield steps.begin("script")
    yield Say(f"arguments: {' '.join(place.argv[launcher + 1 :])}")
    yield Say("practice cluster: scripts are not run")
    yield Wait(3.0)
    yield steps.done("script", 3.0)


environment = work("environment", "installed", 4.0, switch="SKIP_ENV_SETUP")
clone = work("clone", "cloned", 2.0, switch="SKIP_CLONE_REPO", alone=True)
download = work("download", "downloaded", 5.0, switch="SKIP_DOWNLOAD_DATA", alone=True)
build_data = work("build-data", "built", 4.0, switch="SKIP_DATA_BUILD", alone=True)
convert = work("convert", "converted", 6.0, switch="SKIP_CHECKPOINT_CONVERSION")
convert_always = work("convert", "converted", 6.0)
megatron_core = work("megatron", "cloned", 2.0, alone=True)
export = work("export", "exported", 6.0)
harness = work("harness", "installed", 2.0)
evaluate = work("evaluate", "evaluated, so there are no scores", 5.0)
