"""Tests that replace behaviour of ours are few: the product takes what differs as an argument."""

import ast
import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.screen import Screen

ROOT = Path(__file__).resolve().parents[2]
OURS = ("console", "screens", "practice", "kueue_rules", "rankscope", "trainlog")
FOREIGN = (App, Screen, io.StringIO)  # whose methods may be replaced on what a test has made of them
MOST = 17


def resolve(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    try:
        return import_module(dotted)
    except ImportError:
        return getattr(resolve(module), name)


def is_ours(holder: str, name: str) -> bool:
    """Whether that attribute is a function, a class or a property of ours; `holder`: empty for an object of a test."""
    if not holder:
        return not name.isupper() and not any(hasattr(each, name) for each in FOREIGN)
    if holder.partition(".")[0] not in OURS:
        return False
    held = getattr(resolve(holder), name)
    return isinstance(held, property) or (callable(held) and held.__module__.partition(".")[0] in OURS)


def imported(tree: ast.Module) -> dict[str, str]:
    """Names of a module, and what they were imported from."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return known


def target_of(where: ast.expr, name: ast.expr, known: dict[str, str]) -> tuple[str, str]:
    """The holder and the name of what a call of `setattr` replaces."""
    if isinstance(where, ast.Constant):
        holder, _, attribute = str(where.value).rpartition(".")
        return holder, attribute
    root, dot, rest = ast.unparse(where).partition(".")
    return known[root] + dot + rest if root in known else "", str(name.value) if isinstance(name, ast.Constant) else ""


def replaced(path: Path) -> Iterator[int]:
    """Lines at which a test module replaces behaviour of ours."""
    tree = ast.parse(path.read_text())
    known = imported(tree)
    for node in ast.walk(tree):
        patches = ("setattr", "object")  # of monkeypatch, and of mock.patch
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in patches:
            holder, name = target_of(node.args[0], node.args[1], known)
            if name and not isinstance(node.args[0], ast.JoinedStr) and is_ours(holder, name):
                yield node.lineno
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "ignore[method-assign" in line and is_ours("", line.partition(" = ")[0].rpartition(".")[2]):
            yield number


@pytest.mark.slow(reason="parses every test module")
def test_behaviour_of_ours_is_handed_in_and_not_patched() -> None:
    files = [*(ROOT / "tests").glob("**/*.py"), *ROOT.glob("parts/*/tests/**/*.py")]
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files if file != Path(__file__) for line in replaced(file)]
    assert len(found) <= MOST, "\n".join(["more than there may be:", *found])
