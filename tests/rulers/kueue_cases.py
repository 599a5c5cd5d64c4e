"""Makes the cases of Kueue's own table tests: its module, with a line in each table that writes the case and goes on.

The module comes from the Go module proxy; nothing of it is kept in this repository. What was written once stays in the
cache folder of the person, by version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.lab.build import SOURCE, find_go

VERSIONS = ("v0.18.4", "v0.19.2", "v0.20.0")
CASES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a4-rulers"


class Table(NamedTuple):
    """A table of cases: the function that runs through it, and what of its fixtures a case needs."""

    file: str
    function: str
    fixtures: tuple[str, ...] = ()


TABLES = (
    Table("pkg/scheduler/scheduler_test.go", "runScheduleTestCases", ("cfg",)),
    Table("pkg/scheduler/scheduler_tas_test.go", "TestScheduleForTAS", ("queues",)),
    Table("pkg/scheduler/scheduler_tas_test.go", "runTASScheduleTestCases", ("cfg",)),
    Table("pkg/cache/scheduler/tas_cache_test.go", "TestFindTopologyAssignments"),
    Table("pkg/scheduler/flavorassigner/flavorassigner_test.go", "TestAssignFlavors", ("resourceFlavors",)),
    Table("pkg/scheduler/preemption/preemption_test.go", "TestPreemption", ("flavors",)),
    Table("pkg/scheduler/preemption/preemption_fair_test.go", "TestFairPreemptions", ("flavors",)),
    Table("pkg/scheduler/preemption/preemption_hierarchical_test.go", "TestHierarchicalPreemptions", ("flavors",)),
    Table("pkg/cache/scheduler/fair_sharing_test.go", "TestDominantResourceShare"),
)
RUNS = "TestSchedule$|TestScheduleFor(FairSharing|TAS|TASPreemption|TASCohorts)$|TestScheduleConcurrentAdmission$|" + (
    "|".join(f"{each.function}$" for each in TABLES if each.function.startswith("Test"))
)


class Unavailable(Exception):
    """The cases of a version cannot be had; the message says why."""


def cases_of(version: str) -> list[Path]:
    """The files of the cases of a version, made if there are none yet."""
    folder = CASES / f"kueue-{version}"
    if not (folder / "whole").exists():
        _make(version, folder)
    return sorted(folder.glob("*.json"))


def _make(version: str, folder: Path) -> None:
    go = find_go()
    found = _run([go, "mod", "download", "-json", f"sigs.k8s.io/kueue@{version}"], SOURCE)
    module = json.loads(found.stdout)
    if found.returncode:
        raise Unavailable(f"the module proxy does not serve it: {module.get('Error', found.stderr).splitlines()[0]}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="a4-rulers-") as place:
        source = Path(place) / "kueue"
        shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
        for path in (source, *source.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for table in TABLES:
            _write_in(source, table)
        for package in sorted({Path(each.file).parent for each in TABLES}):
            sys.stderr.write(f"rulers: building the tests of Kueue {version}, {package}\n")
            program = Path(place) / "tests"
            built = _run([go, "test", "-c", "-vet=off", "-o", str(program), f"./{package}"], source)
            if built.returncode:
                raise Unavailable(f"its tests do not build: {built.stderr.strip()[-1000:]}")
            told = _run([str(program), f"-test.run={RUNS}"], source / package, RULER_CASES=str(folder))
            if told.returncode:
                raise Unavailable(f"its tests do not run: {(told.stdout + told.stderr).strip()[-1000:]}")
    (folder / "whole").touch()


def _write_in(source: Path, table: Table) -> None:
    """Let the loop over the table write each case instead of trying it."""
    path = source / table.file
    text = path.read_text()
    start = re.search(rf"^func {table.function}\(", text, re.MULTILINE)
    loop = start and re.compile(r"^\tfor name, tc := range cases \{\n", re.MULTILINE).search(text, start.start())
    if not loop:
        raise Unavailable(f"{table.file} has no table in {table.function} any more")
    parts = "".join(f', "{each}": {each}' for each in table.fixtures)
    write = f'rulerWrite(t.Name(), name, map[string]any{{"case": tc{parts}}})'
    line = f"\t\tif true {{\n\t\t\t{write}\n\t\t\tcontinue\n\t\t}}\n"
    path.write_text(text[: loop.end()] + line + text[loop.end() :])
    package = re.search(r"^package (\w+)", text, re.MULTILINE)
    assert package is not None, f"{table.file} names no package"
    helper = (Path(__file__).parent / "cases.go.txt").read_text().replace("PACKAGE", package[1], 1)
    (path.parent / "ruler_cases_test.go").write_text(helper)


def _run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    nice = ["nice", "-n", "15", *command]
    # As the lab builds, without its pins: a test is built in the module it belongs to.
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return subprocess.run(nice, cwd=folder, env=os.environ | settings | more, capture_output=True, text=True)
