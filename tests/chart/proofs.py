"""Tests by file and name, for the tables that say which one proves what; a name that no file has is a mistake."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = {
    "accepted": "chart/test_accepted.py",
    "assets": "console/test_assets.py",
    "conflicts": "chart/test_conflicts.py",
    "dry_run": "chart/test_dry_run.py",
    "fit": "console/models/test_fit.py",
    "golden": "chart/test_golden.py",
    "jobs": "screens/test_jobs.py",
    "launch": "console/test_launch.py",
    "megatron": "launchers/test_megatron.py",
    "practised": "chart/test_practised.py",
    "prepare": "launchers/test_prepare.py",
    "profiles": "console/test_profiles.py",
    "real_ssh": "launchers/test_real_ssh.py",
    "recipes": "launchers/test_recipes.py",
    "recordings": "launchers/test_recordings.py",
    "render": "chart/test_render.py",
    "runs": "contract/test_runs.py",
    "schema": "chart/test_schema.py",
    "storage": "chart/test_storage.py",
    "swift": "launchers/test_swift.py",
}


@cache
def tests_of(file: str) -> frozenset[str]:
    """The tests of one of FILES, without their `test_`."""
    tree = ast.parse((TESTS / FILES[file]).read_text())
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name.removeprefix("test_") for name in functions if name.startswith("test_"))


def unknown(table: dict[str, tuple[str, ...]]) -> list[str]:
    """Entries `file/name` of a table that are no tests, and rows without any."""
    found = [f"{row}: nothing" for row, proofs in table.items() if not proofs]
    for row, proofs in table.items():
        for proof in proofs:
            file, _, name = proof.partition("/")
            if name not in tests_of(file):
                found.append(f"{row}: {proof}")
    return found
