"""What holds for every launcher, whatever it does."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from console import assets

SCRIPTS = sorted(assets.launchers().glob("*.sh"))
PROGRAMS = sorted(assets.launchers().glob("*.py"))
GOLDEN = Path(__file__).parent.parent / "chart" / "golden"
SHELLS_OWN = {"PATH", "SECONDS", "BASH_SOURCE", "LD_LIBRARY_PATH", "CONFIG", "A4_ROOT", "A4_SSH_PORT"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_shellcheck_has_nothing_to_say() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed on this machine")
    done = subprocess.run(
        ["shellcheck", "-x", *map(str, SCRIPTS)],
        cwd=assets.launchers().parent,
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
    if script.name != "steps.sh":
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in text
    assert "{{" not in text, "the chart passes a launcher as it is"


@pytest.mark.parametrize("recipe", ["nccl-all-reduce", "ddp-smoke"])
def test_the_chart_sets_every_variable_that_is_read(recipe: str) -> None:
    jobset = yaml.safe_load((GOLDEN / f"{recipe}.yaml").read_text().partition("---\n")[0])
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    given = {entry["name"] for entry in job["template"]["spec"]["containers"][0]["env"]}
    for name in ("run.sh", "prepare.sh", f"{recipe}.sh"):
        text = (assets.launchers() / name).read_text()
        needed = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]*)\b(?!:)", text)) - SHELLS_OWN
        optional = set(re.findall(r"\$\{([A-Z][A-Z0-9_]*):", text))
        assert needed - optional <= given, name
