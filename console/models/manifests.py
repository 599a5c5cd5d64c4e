"""What is different between two renderings of a release: object by object, in lines a screen can colour."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.models.launch import Manifest

_AROUND = 3
"""Lines shown before and after a change."""


class Change(StrEnum):
    """What became of an object."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a difference."""

    mark: str
    """" " as before, "+" new, "-" gone, "@" where lines are left out."""
    text: str


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """One object of both renderings, or of one of them."""

    kind: str
    name: str
    change: Change
    lines: tuple[DiffLine, ...] = ()
    """Empty while nothing changed."""

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines that are gone."""
        return sum(line.mark == "-" for line in self.lines)


def diff_manifests(before: Sequence[Manifest], after: Sequence[Manifest]) -> tuple[ObjectDiff, ...]:
    """Every object of either, in the order of `after`; those that are gone last."""
    old = {(each.kind, each.name): each.text for each in before}
    new = {(each.kind, each.name): each.text for each in after}
    return tuple(_object(key, old.get(key), new.get(key)) for key in dict.fromkeys((*new, *old)))


def unified(diffs: Sequence[ObjectDiff]) -> str:
    """The differences as text, in the form of `diff -u`; empty if there are none."""
    parts = []
    for diff in diffs:
        if diff.change is not Change.SAME:
            parts += [f"--- {diff.kind} {diff.name}", f"+++ {diff.kind} {diff.name} ({diff.change})"]
            parts += [f"{line.mark}{line.text}" if line.mark != "@" else f"@@ {line.text} @@" for line in diff.lines]
    return "".join(f"{part}\n" for part in parts)


def _object(key: tuple[str, str], old: str | None, new: str | None) -> ObjectDiff:
    if old == new:
        return ObjectDiff(*key, Change.SAME)
    change = Change.ADDED if old is None else Change.REMOVED if new is None else Change.CHANGED
    return ObjectDiff(*key, change, tuple(_lines((old or "").splitlines(), (new or "").splitlines())))


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        if group[0][1] or group[0][3]:
            yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[old_start:old_end])
                continue
            yield from (DiffLine("-", line) for line in old[old_start:old_end])
            yield from (DiffLine("+", line) for line in new[new_start:new_end])
