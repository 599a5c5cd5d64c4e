"""How many lines of Python each part has, and how many it may have: tests/architecture/size.toml."""

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BOUNDS = Path(__file__).with_name("size.toml")
MIN_WORDS = 4
"""Words that a reason has at least."""


@dataclass(frozen=True)
class Part:
    """`bound`: the lines it began with, and those that were given reasons since."""

    name: str
    folders: tuple[str, ...]
    bound: int
    lines: int

    @property
    def excess(self) -> str:
        """Why the part is too large, in a sentence; empty if it is not."""
        if self.lines <= self.bound:
            return ""
        over = self.lines - self.bound
        return (
            f"{self.name} has {self.lines:,} lines, {over:,} over its bound of {self.bound:,}: delete as many, or add "
            f"to {BOUNDS.name} what they bought and what was deleted for them"
        )


def packages(root: Path, folder: str) -> Counter[str]:
    """Lines by package: the folders directly below this one, and the modules beside them under its own name."""
    found: Counter[str] = Counter()
    for path in root.glob(f"{folder}/**/*.py"):
        inner = path.relative_to(root).parts
        found["/".join(inner[:2]) if len(inner) > 2 else folder] += path.read_bytes().count(b"\n")
    return found


def parts(root: Path = ROOT, bounds: Path = BOUNDS) -> list[Part]:
    """Each part as it is now; ValueError if a bound was moved without a reason."""
    read = tomllib.loads(bounds.read_text())
    moved: Counter[str] = Counter()
    for change in read.get("change", ()):
        moved[change["part"]] += checked(change, set(read["part"]))
    return [
        Part(name, tuple(given["folders"]), given["lines"] + moved[name],
             sum(packages(root, folder).total() for folder in given["folders"]))
        for name, given in read["part"].items()
    ]  # fmt: skip


def checked(change: dict[str, Any], names: set[str]) -> int:
    """By how much a change moves its bound."""
    if change["part"] not in names:
        raise ValueError(f"{BOUNDS.name}: no part is called {change['part']!r}")
    for key in ("bought", "deleted"):
        if change["by"] > 0 and len(str(change.get(key, "")).split()) < MIN_WORDS:
            raise ValueError(f"{BOUNDS.name}: {change['part']} by {change['by']}: {key!r} has to say it in words")
    return int(change["by"])
