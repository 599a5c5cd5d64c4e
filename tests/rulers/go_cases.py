"""Makes the cases of table tests of Go modules: the module, with a line in each table that writes the case and goes on.

The module comes from the Go module proxy; nothing of it is kept in this repository. What was written once stays in the
cache folder of the person, by version.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.lab.build import SOURCE, find_go

HERE = Path(__file__).parent
CASES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a4-rulers"


class Table(NamedTuple):
    """A table of cases: the function that runs through it, its loop, and what of its fixtures a case needs."""

    file: str
    function: str
    fixtures: tuple[str, ...] = ()
    loop: str = "name, tc := range cases"
    name: str = "name"
    mark: str = ""  # of a second table in one function


class Calls(NamedTuple):
    """A function of which each call that a test makes is a case: what it was asked, and what it answered."""

    file: str
    function: str  # its signature, as it stands there
    suite: str = ""  # else its name
    more: str = ""  # Go's text of further parts of what it was asked


class Module(NamedTuple):
    path: str
    version: str
    tables: tuple[Table | Calls, ...]
    runs: str  # the tests to run, as Go takes it

    @property
    def folder(self) -> Path:
        """Where its cases are."""
        return CASES / f"{self.path.rpartition('/')[2]}-{self.version}"


class Unavailable(Exception):
    """The cases of a module cannot be had; the message says why."""


def cases_of(module: Module) -> list[dict[str, Any]]:
    """The cases of a module, made if there are none yet."""
    if not (module.folder / "whole").exists():
        _make(module)
    version = {"version": module.version.removeprefix("v")}
    return [json.loads(each.read_text()) | version for each in sorted(module.folder.glob("*.json"))]


def folder_of(module: Module) -> Path:
    """Its source, as the module proxy serves it."""
    found = _run([find_go(), "mod", "download", "-json", f"{module.path}@{module.version}"], SOURCE)
    answer = json.loads(found.stdout) if found.stdout else {"Error": found.stderr}
    if found.returncode:
        raise Unavailable(f"the module proxy does not serve it ({str(answer.get('Error')).splitlines()[0][-120:]})")
    return Path(answer["Dir"])


def _make(module: Module) -> None:
    go = find_go()
    original = folder_of(module)
    shutil.rmtree(module.folder, ignore_errors=True)
    module.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="a4-rulers-") as place:
        source = Path(place) / "module"
        shutil.copytree(original, source, copy_function=shutil.copyfile)
        for path in (source, *source.rglob("*")):
            path.chmod(0o755)
        for table in module.tables:
            _write_in(source, table)
        for package in sorted({Path(each.file).parent for each in module.tables}):
            sys.stderr.write(f"rulers: building the tests of {module.path} {module.version}, {package}\n")
            program = Path(place) / "tests"
            built = _run([go, "test", "-c", "-vet=off", "-o", str(program), f"./{package}"], source)
            if built.returncode:
                raise Unavailable(f"its tests do not build: {built.stderr.strip()[-1000:]}")
            tried = _run([str(program), f"-test.run={module.runs}"], source / package, RULER_CASES=str(module.folder))
            if tried.returncode:
                raise Unavailable(f"its tests do not run: {(tried.stdout + tried.stderr).strip()[-1000:]}")
    (module.folder / "whole").touch()


def _write_in(source: Path, table: Table | Calls) -> None:
    """Let the loop over the table write each case instead of trying it, or a function write each call."""
    path = source / table.file
    text = path.read_text()
    package = re.search(r"^package (\w+)", text, re.MULTILINE)
    assert package is not None, f"{table.file} names no package"
    helper = (HERE / "cases.go.txt").read_text().replace("PACKAGE", package[1], 1)
    beside = "ruler_cases_test.go" if package[1].endswith("_test") else "ruler_cases.go"
    (path.parent / beside).write_text(helper)
    if isinstance(table, Calls):
        if f"\n{table.function} {{\n" not in text:
            raise Unavailable(f"{table.file} has no {table.function} any more")
        path.write_text(text.replace(f"\n{table.function} {{\n", f"\n{_around(table)}", 1))
        return
    start = re.search(rf"^func {table.function}\(", text, re.MULTILINE)
    head = re.compile(rf"^\tfor {re.escape(table.loop)} \{{\n", re.MULTILINE)
    loop = start and head.search(text, start.start())
    if not loop:
        raise Unavailable(f"{table.file} has no such table in {table.function} any more")
    case = table.loop.split(" :=")[0].split(", ")[-1]
    parts = "".join(f', "{each}": {each}' for each in table.fixtures)
    write = f'rulerWrite(t.Name()+"{table.mark}", {table.name}, map[string]any{{"case": {case}{parts}}})'
    line = f"\t\tif true {{\n\t\t\t{write}\n\t\t\tcontinue\n\t\t}}\n"
    path.write_text(text[: loop.end()] + line + text[loop.end() :])


def _around(table: Calls) -> str:
    """A function of the same name that writes each call, and the head of the old one under another name."""
    found = re.fullmatch(r"func (?:\((\w+) [^)]*\) )?(\w+)\((.*?)\)(?: \((.*)\)| (.*))", table.function)
    assert found is not None, f"not a function that answers: {table.function}"
    receiver, name, given, several, _ = found.groups()
    names = [each.split()[0] for each in given.split(",") if each]
    answers = ", ".join(f"answer{number}" for number in range(several.count(",") + 1 if several else 1))
    asked = "".join(f'"{each}": {each}, ' for each in [*names, *([receiver] if receiver else [])])
    old, call = f"ruler{name}", f"{receiver}.ruler{name}" if receiver else f"ruler{name}"
    return (
        f"{table.function} {{\n\tasked := rulerAsked(map[string]any{{{asked}{table.more}}})\n"
        f"\t{answers} := {call}({', '.join(names)})\n"
        f'\trulerAnswered("{table.suite or name}", asked, {answers})\n\treturn {answers}\n}}\n\n'
        f"{table.function.replace(f'{name}(', f'{old}(', 1)} {{\n"
    )


def _run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    nice = ["nice", "-n", "15", *command]
    # As the lab builds, without its pins: a test is built in the module it belongs to.
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return subprocess.run(nice, cwd=folder, env=os.environ | settings | more, capture_output=True, text=True)
