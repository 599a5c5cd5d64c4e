"""The launchers of the recipes: the same steps, lines and exit codes, with pauses instead of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.practice.programs.script import Exit, Meet, Say, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.practice.programs.script import Place, Program, Step

_FOREVER = 10.0**8


class Steps:
    """The numbered progress lines of the launchers."""

    def __init__(self) -> None:
        self._number = 0
        self.open = ""
        """The step that has begun and not ended."""

    def run(self, name: str, *inside: Step) -> Iterator[Step]:
        """Do one step: its line, what it prints and waits for, and how long that took."""
        yield self.begin(name)
        seconds = 0.0
        for step in inside:
            if isinstance(step, Wait):
                seconds += step.seconds
            yield step
        yield self.done(name, seconds)

    def begin(self, name: str) -> Say:
        """Return the first line of a step that ends by itself."""
        self._number += 1
        self.open = name
        return Say(f"step {self._number} {name}: run")

    def done(self, name: str, seconds: float) -> Say:
        """Return the last line of a step."""
        self.open = ""
        return Say(f"step {self._number} {name}: done in {int(seconds)} s")

    def failed(self, name: str, code: int) -> Say:
        """Return the last line of a step that went wrong."""
        self.open = ""
        return Say(f"step {self._number} {name}: failed with exit code {code}")

    def skip(self, name: str, why: str) -> Say:
        """Return the line of a step that is left out."""
        self._number += 1
        return Say(f"step {self._number} {name}: skip: {why}")


def launched(recipe: str, body: Program) -> Program:
    """Return the program of a pod that the chart starts: prepare, run the recipe, end with its code."""

    def program(place: Place) -> Iterator[Step]:
        index, nodes = place.rank, place.nodes
        yield Say(f"pod {place.env.get('HOSTNAME', '')}, index {index} of {nodes}, recipe {recipe}")
        steps = Steps()
        yield from _prepare(place, steps)
        code, reason = 0, ""
        place.room.facts.setdefault("steps", {})[index] = steps
        for step in body(place):
            if isinstance(step, Exit):
                code, reason = step.code, step.reason
                if code and steps.open and not reason:
                    yield steps.failed(steps.open, code)
                break
            yield step
        if place.env.get("SLEEP_INFINITY") == "true" and not reason:
            yield Say(f"{recipe} ended with exit code {code}; the pod is kept until the job is stopped")
            yield Wait(_FOREVER)
        if not reason:
            yield Say(f"{recipe} ended with exit code {code}")
        yield Exit(code, reason)

    return program


def steps_of(place: Place) -> Steps:
    """Return the step counter of this pod, which goes on from the preparation."""
    found: Steps = place.room.facts["steps"][place.rank]
    return found


def interactive(place: Place) -> Iterator[Step]:
    """Nothing runs; the pod waits for shells."""
    if place.rank == 0:
        yield Say("ready: open a shell in this pod; mpirun takes --hostfile /etc/job-worker-services.txt")
    else:
        yield Say("ready: open a shell in this pod, or reach it from index 0 through ssh")


def workers(place: Place) -> list[str]:
    """Return the host names of all pods of the job, in order."""
    prefix, domain = place.env.get("HOSTNAME_PREFIX", ""), place.env.get("DOMAIN_NAME", "")
    return [f"{prefix}0-{index}.{domain}" for index in range(place.nodes)]


def _prepare(place: Place, steps: Steps) -> Iterator[Step]:
    said = Say("practice cluster: what follows is printed, not done; no GPU and no network is behind it")
    yield from steps.run("libraries", said, Wait(0.6))
    yield from steps.run("gpus", Say(f"{place.gpus} GPUs, {place.gpus} asked for"), Wait(0.5))
    yield from steps.run("ssh", Say("sshd listens on port 2222"), Wait(0.4))
    place.room.post(f"sshd {place.rank}")
    if place.rank:
        for name in ("discovery", "order", "hostfile"):
            yield steps.skip(name, "index 0 does this")
        return
    names = workers(place)
    yield steps.begin("discovery")
    began = place.now()
    for index, name in enumerate(names):
        yield Meet(f"sshd {index}")
        yield Wait(0.2)
        yield Say(f"pong from {name}")
    yield steps.done("discovery", place.now() - began)
    yield from steps.run("order", *(Say(f"/practice/{at:04d} {name}") for at, name in enumerate(names)), Wait(0.3))
    yield from steps.run("hostfile", *(Say(f"{name} slots={place.gpus}") for name in names))
