"""Puts the commit of a wheel or a source archive into it, where git knows one: `a4 --version` shows it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Writes console/_data/commit."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Ask git; a wheel that is built from a source archive has the archive's."""
        if version != "standard" or not (Path(self.root) / ".git").exists():
            return
        asked = ["git", "-C", self.root, "describe", "--always", "--dirty", "--exclude=*"]
        try:
            commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return
        file = Path(tempfile.mkdtemp()) / "commit"
        file.write_text(commit)
        build_data["force_include"][str(file)] = "console/_data/commit"
