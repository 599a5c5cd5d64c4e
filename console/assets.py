"""This program's version, how to run its modules, and where chart/ and launchers/ are in a checkout or a wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from console.errors import Unreadable

_CONSOLE_FOLDER = Path(__file__).resolve().parent
_DATA_FOLDERS = (_CONSOLE_FOLDER.parent, _CONSOLE_FOLDER / "_data")
CHILD_WORKING_FOLDER = "/"
"""Working folder of modules run as processes of their own: the current folder may have been copied from anywhere."""


def chart_folder() -> Path:
    return _find_folder("chart", "Chart.yaml")


def launchers_folder() -> Path:
    """The folder with the scripts that run inside pods."""
    return _find_folder("launchers", "run.sh")


def _find_folder(name: str, proof_file: str) -> Path:
    """The first candidate folder `name` that contains the file `proof_file`. Raises Unreadable if there is none."""
    for place in _DATA_FOLDERS:
        if (place / name / proof_file).is_file():
            return place / name
    raise Unreadable(f"The folder {name}/ of this installation is missing or incomplete.", "Install a4-console again.")


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of this program, even where the current folder has one of that name."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment for `module_command`, with this program's module path."""
    given = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if Path(each).is_absolute()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(_CONSOLE_FOLDER.parent), *given))}


def release_name() -> str:
    """The version, and the commit if known: "0.1.0 (commit 51e6f05)"."""
    from importlib.metadata import version

    commit = _read_commit()
    return version("a4-console") + (f" (commit {commit})" if commit else "")


def _read_commit() -> str:
    """The commit according to git or to the wheel's metadata; empty if unknown."""
    import subprocess

    if (_CONSOLE_FOLDER.parent / ".git").exists():
        asked = ["git", "-C", str(_CONSOLE_FOLDER.parent), "describe", "--always", "--dirty", "--exclude=*"]
        try:
            return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
        except (OSError, subprocess.SubprocessError):  # no git here, or a repository that it refuses to read
            return ""
    built = _CONSOLE_FOLDER / "_data" / "commit"
    return built.read_text().strip() if built.is_file() else ""
