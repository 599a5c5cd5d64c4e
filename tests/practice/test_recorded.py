"""What practice pods print is what `make rehearsal` saw the real launchers print."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from practice.programs import launcher_stages, recipes
from practice.programs.choose_program import RECIPES
from practice.programs.recordings import recorded_launcher_steps
from practice.programs.steps import ExitStep, PrintLine, ProgramContext, SharedFacts, Step, WaitForFact
from tests.chart.plans import CATALOGUE
from tests.launchers.conftest import rendered
from tests.rehearsal.cases import RECORDED_SCRIPT, SKIPPED, offered, recorded
from tests.rehearsal.recorded import LINES, is_a_programs, plain

SEEN: list[dict[str, Any]] = json.loads(LINES.read_text())


@cache
def ran(recipe: str) -> frozenset[str]:
    """Programs that ran in the steps of a recipe."""
    known = recorded_launcher_steps()["recipes"][recipe]
    sections = [section for role in ("first", "other") for section in known.get(role, [])]
    return frozenset(event["ran"] for section in sections for event in section.get("prints", []) if "ran" in event)


def lines_of(recipe: str, env: dict[str, str], fails: dict[str, int], argv: list[str]) -> list[str]:
    """What index 0 prints when programs say nothing, and some of them fail."""

    def program(name: str) -> recipes.Imitation:
        def imitation(context: ProgramContext) -> Iterator[Step]:
            code = fails.get(name, fails.get(name.split()[0], 0))
            if code:
                yield ExitStep(code)

        return imitation

    told = recipes.launcher_program(recipe, {name: program(name) for name in ran(recipe)})
    where = ProgramContext(argv, env, {}, SharedFacts(), random.Random(1), lambda: 0.0)
    for index in range(1, where.nodes):
        where.room.post(f"sshd {index}")
    found = []
    for step in told(where):
        if isinstance(step, PrintLine):
            found.append(step.text)
            if "the pod is kept" in step.text:
                break
        elif isinstance(step, WaitForFact):
            assert step.fact in where.room.facts, step.fact
        elif isinstance(step, ExitStep):
            break
    return [line for line in found if not line.startswith("practice cluster:")]


@pytest.mark.slow(reason="a launcher of every recipe", fast_rows=9)
@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: "-".join([seen["recipe"], str(seen["nodes"]), *seen["fails"]]))
async def test_pods_print_what_the_launchers_were_seen_to_print(seen: dict[str, Any]) -> None:
    """Made from a recording on two nodes; here on one, and where a program fails."""
    recipe = seen["recipe"]
    values = offered(recipe, seen["nodes"]) or {}
    if recipe == "own-script":
        values["recipe"] = {"script": dict(RECORDED_SCRIPT)}
    queued = recipe != "qwen3-download"
    env = await rendered(recipe, values) | {
        "JOB_COMPLETION_INDEX": "0", "HOSTNAME": "anna-workload-0-0", "A4_PLACED_BY": "jobset-anna-1" if queued else "",
    }  # fmt: skip
    argv = ["bash", "/a4/launchers/run.sh", *RECORDED_SCRIPT["arguments"]]
    assert lines_of(recipe, env, seen["fails"], argv) == seen["logs"][0]


def test_every_recipe_is_recorded_and_every_program_of_it_imitated() -> None:
    assert set(RECIPES) == {recipe.id for recipe in CATALOGUE.recipes()}
    imitated = {*launcher_stages.PROGRAMS, "all_reduce_perf", "run_mcore_qwen3.sh", "megatron rlhf", "megatron sft"}
    assert set().union(*(ran(recipe) for recipe in RECIPES)) <= imitated


@pytest.mark.parametrize("case", [case for case in recorded() if case.fault == SKIPPED], ids=lambda case: case.recipe)
def test_steps_that_are_skipped_are_the_launchers(case: Any) -> None:
    skips = recorded_launcher_steps()["recipes"][case.recipe]["skips"]
    env = {"A4_RECIPE": case.recipe, "NNODES": "1", "JOB_COMPLETION_INDEX": "0", **dict.fromkeys(skips, "true")}
    found = "\n".join(lines_of(case.recipe, env, {}, []))
    assert re.findall(r"^step \d+ ([-\w]+): skip: (SKIP_\w+)=true$", found, re.MULTILINE) == [
        (step, switch)
        for section in recorded_launcher_steps()["recipes"][case.recipe]["first"]
        for switch, step in skips.items()
        if section.get("step") == step
    ]
    assert found.endswith(f"{case.recipe} has nothing to run; the pod is kept until the job is stopped")


def test_no_line_of_a_program_is_taken_for_a_launchers() -> None:
    steps = json.dumps(recorded_launcher_steps())
    assert "rehearsal:" not in steps
    assert not [line for seen in SEEN for log in seen["logs"] for line in log if is_a_programs(line)]


def test_what_mpirun_says_of_a_race_of_its_own_is_no_step_of_the_launchers() -> None:
    said = "[pod-0:00067] plm:rsh: Warning: setpgid(71,71) failed in parent with errno=Permission denied(13)"
    assert plain(f"step 1 hosts: run\n{said}\nready\n") == ["step 1 hosts: run", "ready"]
