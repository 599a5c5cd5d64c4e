"""The libraries in parts/: each is carried by the wheel of a4, stands alone, and is known by its public names alone."""

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sizes import ROOT

PARTS = sorted(path.name for path in (ROOT / "parts").iterdir() if path.is_dir())
OTHERS = sorted(path for top in ("console", "practice", "screens", "tests") for path in (ROOT / top).rglob("*.py"))


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that is imported, wherever it stands, or looked up in a part (`trainlog.name`)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PARTS:
            yield node.value.id, node.attr


@pytest.mark.slow(reason="parses every module")
@pytest.mark.parametrize("part", PARTS)
def test_nothing_of_a_part_is_imported_but_its_public_names(part: str) -> None:
    public = importlib.import_module(part).__all__
    elsewhere = [path for other in PARTS if other != part for path in (ROOT / "parts" / other).rglob("*.py")]
    inner = [
        f"{path.relative_to(ROOT)}: {module} {name}"
        for path in [*OTHERS, *elsewhere]
        if part in path.read_text()
        for module, name in imports(path)
        if module.startswith(f"{part}.") or (module == part and name and name not in public)
    ]
    assert inner == []


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_itself_and_what_it_declares(part: str) -> None:
    folder, distributions = ROOT / "parts" / part, packages_distributions()
    declared = {re.split(r"[<>=~! ]", each)[0].lower() for each in project(folder)["project"]["dependencies"]}
    assert declared - set(PARTS) <= {
        re.split(r"[<>=~! ]", each)[0].lower() for each in project(ROOT)["project"]["dependencies"]
    }
    used = {module.split(".")[0] for path in folder.glob("src/**/*.py") for module, _ in imports(path)}
    foreign = used - {part} - set(sys.stdlib_module_names)
    everything = {module.split(".")[0] for path in folder.rglob("*.py") for module, _ in imports(path)}
    assert everything & {"console", "practice", "screens", "tests"} == set()
    assert {
        dist.lower().replace("_", "-") for module in foreign for dist in distributions.get(module, [module])
    } == declared


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_carried_and_checked_as_the_rest_is(part: str) -> None:
    own, whole = project(ROOT / "parts" / part), project(ROOT)
    tool, source = whole["tool"], f"parts/{part}/src"
    assert own["project"]["name"] == part.replace("_", "-")
    options, ours = (each["tool"]["hatch"]["version"]["raw-options"] for each in (own, whole))
    assert options == {**ours, "root": "../.."}, "one tag is the version of all"
    assert (ROOT / "parts" / part / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert own["project"]["scripts"].items() <= whole["project"]["scripts"].items()
    assert f"{source}/{part}" in tool["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert source in tool["mypy"]["mypy_path"].split(":")
    assert source in tool["pytest"]["ini_options"]["pythonpath"]
    assert part in tool["importlinter"]["root_packages"]
    (alone,) = (each for each in tool["importlinter"]["contracts"] if each["name"] == "each part stands alone")
    assert part in alone["source_modules"]
    readme = (ROOT / "parts" / part / "README.md").read_text()
    assert [name for name in importlib.import_module(part).__all__ if f"`{name}`" not in readme] == []
