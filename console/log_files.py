"""What the ranks of a job printed, as files one file a rank, and the tables apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from console.models.log import RankLine

RESULTS, CONNECTIVITY = "nccl-test-results.txt", "connectivity-test.log"
_TABLE = re.compile(r"^\s*#|^\s*\d+\s+\d+\s+\S+\s+\S+\s+-?\d+\s+[\d.]+")
"""A line of nccl-tests: of its head, its foot or a row."""
_BEGUN = re.compile(r"step \d+ connectivity: run$")
_ENDED = re.compile(r"step \d+ connectivity: (?:done|failed)\b")
"""Lines of the launcher between which every rank names its node."""
_FOUND = re.compile(r"\b(?:pong|hostfile|slots=\d+|discover\w*|connectivity|sshd listens)\b", re.IGNORECASE)
"""A line about who reached whom."""


class LogFiles:
    """Files in one folder; call `add` in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reaching = False
        """Whether pod 0 is in the step in which every rank names its node."""
        self.counted: dict[str, int] = {}
        """Name of each file -> its lines."""

    def path(self, name: str) -> Path:
        """Where one of the files is."""
        return self._folder / name

    def add(self, lines: Iterable[RankLine]) -> None:
        """More lines, of any ranks."""
        texts: dict[str, list[str]] = {}
        for line in lines:
            name = "coordinator" if line.rank == 0 else f"worker-{line.rank}"
            texts.setdefault(f"pod-logs/{name}.log", []).append(line.text)
            if line.rank == 0 and (result := self._result(line.text)):
                texts.setdefault(result, []).append(line.text)
        for name, found in texts.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.writelines(f"{text}\n" for text in found)
            self.counted[name] = self.counted.get(name, 0) + len(found)

    def _result(self, text: str) -> str:
        """The file of results that a line of pod 0 belongs into; empty: none."""
        if _BEGUN.match(text):
            self._reaching = True
        if _ENDED.match(text):
            self._reaching = False
            return CONNECTIVITY
        if self._reaching:
            return CONNECTIVITY
        if _TABLE.match(text):
            return RESULTS
        return CONNECTIVITY if _FOUND.search(text) else ""
