"""What holds for every launcher, whatever it does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from console import assets
from console.launch.recipes import LaunchPlan
from tests.chart.plans import CATALOGUE, offline
from tests.launchers.conftest import Launch

SCRIPTS = sorted(assets.launchers_folder().glob("*.sh"))
PROGRAMS = sorted(assets.launchers_folder().glob("*.py"))
SHELLS_OWN = {
    "NODE_RANK",
    "NPROC_PER_NODE",
    "PATH",
    "SECONDS",
    "BASH_SOURCE",
    "LD_LIBRARY_PATH",
    "CONFIG",
    "A4_ROOT",
    "A4_RUN",
    "A4_LAUNCHERS",
    "A4_TRAINING",
    "RANDOM",
    "A4_SSH_PORT",
    "BASH_VERSION",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.programs("shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["shellcheck", "-x", *map(str, SCRIPTS)],
        cwd=assets.launchers_folder().parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_python_can_read_it(program: Path) -> None:
    compile(program.read_text(), str(program), "exec")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_it_says_what_it_is_and_stops_at_the_first_failure(script: Path) -> None:
    text = script.read_text()
    head, _, _ = text.partition("\n\n")
    assert "The chart sets" in head
    if text.startswith("# shellcheck shell=bash\n"):
        assert "ourced by" in head, "what is sourced has no settings of its own"
    else:
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in text
    assert "{{" not in text, "the chart passes a launcher as it is"


@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
async def test_the_chart_sets_every_variable_that_is_read(recipe: str) -> None:
    given = await environment(recipe)
    scripts = CATALOGUE.chart_values(LaunchPlan(recipe, "anna", "team", {}))["launchers"]
    assert isinstance(scripts, dict)
    for name, text in scripts.items():
        if not name.endswith(".sh"):
            continue
        needed = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]*)\b(?!:)", text)) - SHELLS_OWN
        optional = set(re.findall(r"\$\{([A-Z][A-Z0-9_]*):", text))
        assert needed - optional - unused(recipe, text) <= given, name


def unused(recipe: str, text: str) -> set[str]:
    """Variables of steps that a recipe does not have: it sources megatron.sh for the others."""
    own = (assets.launchers_folder() / f"{recipe}.sh").read_text()
    functions = re.findall(r"^(\w+)\(\) \{.*?^\}", text, re.MULTILINE | re.DOTALL)
    bodies = dict(re.findall(r"^(\w+)\(\) (\{.*?^\})", text, re.MULTILINE | re.DOTALL))
    called, wave = set(), {name for name in functions if re.search(rf"\b{name}\b", own)}
    while wave:
        called |= wave
        wave = {name for name in functions for user in called if re.search(rf"\b{name}\b", bodies[user])} - called
    read = {name: set(re.findall(r"\$\{?([A-Z][A-Z0-9_]*)", body)) for name, body in bodies.items()}
    used = set().union(*(read[name] for name in called))
    return set().union(*read.values()) - used


async def environment(recipe: str) -> set[str]:
    manifests = await offline().render(LaunchPlan(recipe, "anna", "team", {}))
    jobset = next(yaml.safe_load(manifest.text) for manifest in manifests if manifest.kind == "JobSet")
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    return {entry["name"] for entry in job["template"]["spec"]["containers"][0]["env"]}


@pytest.mark.slow(reason="runs a launcher as a process", fast_rows=3)
@pytest.mark.parametrize("recipe", [recipe.id for recipe in CATALOGUE.recipes()])
def test_a_pod_of_every_recipe_runs_to_its_end(launch: Launch, recipe: str) -> None:
    """From the preparation to the recipe's last step, every step numbered and ended."""
    pod = launch(recipe, keepAlive=False)
    (pod.root / "own").mkdir()
    (pod.root / "own/own-script-main").write_text("hostname\n")
    pod.environment["A4_OWN_FOLDER"] = str(pod.root / "own")
    lines = pod.run("run.sh")
    assert lines[-1] == f"{recipe} ended with exit code 0"
    begun = [line for line in lines if re.fullmatch(r"step \d+ [-\w]+: (run|skip: .+)", line)]
    assert [line.split()[1] for line in begun] == [str(number) for number in range(1, len(begun) + 1)]
    ended = [line for line in lines if re.fullmatch(r"step \d+ [-\w]+: done in 0 s", line)]
    assert len(ended) == len([line for line in begun if line.endswith(": run")])
