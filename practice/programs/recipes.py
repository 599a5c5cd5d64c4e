"""Replays the launchers of recipes: stages, lines and exit codes, with pauses instead of work."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from practice.node.registries import Registries
from practice.programs.recordings import recorded_launcher_steps
from practice.programs.steps import ExitStep, PauseStep, PrintLine, WaitForFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from practice.programs.steps import Program, ProgramContext, Step

    Imitation = Callable[[ProgramContext], Iterator[Step]]

SSHD_FACT = "sshd"
"""Name of the fact, followed by the pod's number, that the pod's SSH server listens."""
_FOREVER = 10.0**8
_LAUNCHERS = ("launchers/run.sh", "launchers/logged.sh")
_FOR_SSHD = ("discovery", "order", "hostfile")
_SECONDS = {"libraries": 0.6, "gpus": 0.5, "ssh": 0.4, "order": 0.3, "connectivity": 1.0, "install": 6.0}
"""Practice seconds of launcher stages without an imitated program."""
_VARIABLE = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


class LauncherSteps:
    """The progress lines that a launcher prints for its numbered stages."""

    def __init__(self) -> None:
        self._step_number = 0
        self.current = ""  # the step that has begun and not ended

    def begin_line(self, name: str) -> PrintLine:
        """Return the line that begins a step."""
        self._step_number += 1
        self.current = name
        return PrintLine(f"step {self._step_number} {name}: run")

    def done_line(self, name: str, seconds: float) -> PrintLine:
        self.current = ""
        return PrintLine(f"step {self._step_number} {name}: done in {int(seconds)} s")

    def failed_line(self, name: str, code: int) -> PrintLine:
        """Return the line for a failed step."""
        self.current = ""
        return PrintLine(f"step {self._step_number} {name}: failed with exit code {code}")

    def skip_line(self, name: str, why: str) -> PrintLine:
        """Return the line for a skipped step."""
        self._step_number += 1
        return PrintLine(f"step {self._step_number} {name}: skip: {why}")


def launcher_program(recipe: str, programs: Mapping[str, Imitation]) -> Program:
    """Return the program of a pod of the chart: the recipe's recorded launcher, with imitated stages."""

    def run_launcher(context: ProgramContext) -> Iterator[Step]:
        steps = LauncherSteps()
        context.room.facts.setdefault("steps", {})[context.rank] = steps
        code, reason = 0, ""
        for step in _replay_recipe(recipe, context, steps, programs):
            if isinstance(step, ExitStep):
                code, reason = step.code, step.reason
                if code and steps.current and not reason:
                    yield steps.failed_line(steps.current, code)
                break
            yield step
        if not context.rank and not reason:
            context.room.post("exit code", code)
        has_work = bool(code) or not _has_nothing_to_do(recipe, context)
        if not reason and (context.env.get("SLEEP_INFINITY") == "true" or not has_work):
            how = f"ended with exit code {code}" if has_work else "has nothing to run"
            yield PrintLine(f"{recipe} {how}; the pod is kept until the job is stopped")
            yield PauseStep(_FOREVER)
        if not reason:
            yield PrintLine(f"{recipe} ended with exit code {code}")
        yield ExitStep(code, reason)

    return run_launcher


def worker_host_names(context: ProgramContext) -> list[str]:
    """Return the host names of all pods of the job, in order."""
    prefix, domain = context.env.get("HOSTNAME_PREFIX", ""), context.env.get("DOMAIN_NAME", "")
    return [f"{prefix}0-{index}.{domain}" for index in range(context.nodes)]


def _has_nothing_to_do(recipe: str, context: ProgramContext) -> bool:
    """Return whether every stage that can be skipped is, as in a pod that only serves as a shell."""
    skips = recorded_launcher_steps()["recipes"][recipe].get("skips")
    if recipe == "interactive":
        return context.env.get("SLEEP_INFINITY") == "true"
    return bool(skips) and all(context.env.get(switch) == "true" for switch in skips)


def _replay_recipe(
    recipe: str, context: ProgramContext, steps: LauncherSteps, programs: Mapping[str, Imitation]
) -> Iterator[Step]:
    known = recorded_launcher_steps()["recipes"][recipe]
    installs = lacks_sshd(context)
    alone = installs and context.env.get("A4_SSH") == "optional"
    skips = {**_skip_switches(), **known.get("skips", {})}
    for section in known["other" if context.rank else "first"]:
        name = section.get("step", "")
        switch = next((one for one, step in skips.items() if step == name and context.env.get(one) == "true"), "")
        if switch:
            yield steps.skip_line(name, f"{switch}=true")
        elif alone and name in _FOR_SSHD:
            yield steps.skip_line(name, "no sshd in this image, and the recipe needs none")
        elif alone and section.get("prints") == [{"say": "waiting for index 0 to end"}]:
            continue
        elif "skip" in section:
            yield steps.skip_line(name, section["skip"])
        elif name == "order" and not context.env.get("A4_PLACED_BY"):
            yield from _replay_section(recorded_launcher_steps()["unqueued"], context, steps, programs)
        else:
            if name == "ssh" and installs:
                yield PrintLine("no sshd in this image: openssh-server is installed")
                yield PauseStep(_SECONDS["install"])
            yield from _replay_section(section, context, steps, programs)
        if name == "train" and not switch and context.env.get("USE_JSON_SFT") == "true" and "json" in known:
            yield from _replay_section(known["json"], context, steps, programs)


def lacks_sshd(context: ProgramContext) -> bool:
    """Return whether the image of the pod has no SSH server."""
    containers = (context.pod.get("spec") or {}).get("containers") or [{}]
    return not Registries.has_sshd(containers[0].get("image", ""))


@cache
def _skip_switches() -> dict[str, str]:
    """Return by switch the stage that it skips, from recipes recorded with all switches on."""
    found: dict[str, str] = {}
    for recipe in recorded_launcher_steps()["recipes"].values():
        found |= {switch: step for switch, step in recipe.get("skips", {}).items() if step in ("clone", "download")}
    return found


def _replay_section(
    section: Mapping[str, Any], context: ProgramContext, steps: LauncherSteps, programs: Mapping[str, Imitation]
) -> Iterator[Step]:
    name, began = section.get("step", ""), context.now()
    if name:
        yield steps.begin_line(name)
    if name == "libraries":
        yield PrintLine("practice cluster: what follows is printed, not done; no GPU and no network is behind it")
    for event in section["prints"]:
        if "ran" in event:
            yield from programs.get(event["ran"], _unknown_program(event["ran"]))(context)
        elif "each" in event:
            yield from _print_recorded_event(event, context)
        else:
            yield PrintLine(_expand_variables(event["say"], context.env | {"ARGUMENTS": _format_arguments(context)}))
            yield from _wait_for_others(event["say"], name, context)
    yield PauseStep(_SECONDS.get(name, 0.0))
    if name == "ssh":
        context.room.post(f"{SSHD_FACT} {context.rank}")
    elif name and not context.rank:
        context.room.post(f"{name} over")
    if name:
        yield steps.done_line(name, context.now() - began)


def _wait_for_others(line: str, step: str, context: ProgramContext) -> Iterator[Step]:
    """Yield the launcher's wait: for name resolution, for a stage of pod 0, or for the end of that pod."""
    if line == "waiting for index 0":
        yield WaitForFact(f"found {context.rank}" if step == "discovery" else f"{step} over")
    elif line == "waiting for index 0 to end":
        yield WaitForFact("exit code")
        yield ExitStep(int(context.room.facts["exit code"]))


def _print_recorded_event(event: Mapping[str, str], context: ProgramContext) -> Iterator[Step]:
    """Print the event's line for each pod; pod 0 finds the others once their sshd listens."""
    for index, name in enumerate(worker_host_names(context)):
        text = _expand_variables(event["each"], context.env | {"POD": name, "HOST": name.partition(".")[0]})
        if text.startswith("pong"):
            yield WaitForFact(f"{SSHD_FACT} {index}")
            yield PauseStep(0.2)
            context.room.post(f"found {index}")
        for _ in range(int(_expand_variables(event.get("times", "1"), context.env))):
            yield PrintLine(text)


def _format_arguments(context: ProgramContext) -> str:
    """Return the arguments that the chart passes to a person's own script; empty without the chart's launcher."""
    at = launcher_at(context.argv)
    return "" if at is None else " ".join(context.argv[at + 1 :])


def launcher_at(argv: Sequence[str]) -> int | None:
    """Return the index of the chart's launcher in a container's command line; None if it has none."""
    return next((at for at, part in enumerate(argv) if part.endswith(_LAUNCHERS)), None)


def _expand_variables(text: str, env: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda name: env.get(name[1], ""), text)


def _unknown_program(program: str) -> Imitation:
    def imitation(context: ProgramContext) -> Iterator[Step]:
        yield PrintLine(f"practice cluster: {program} is not run")

    return imitation
