"""Reports of one step over several lines: a line that names the step, then lines of `name: value` that are indented.

OLMo-core, Composer, ColossalAI, and NeMo-RL, between whose lines others may stand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.metrics.training.values import NUMBER, Found, number, plain_name, step_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = re.compile(
    r"\[(?:step|batch)=(\d{1,12})/(\d{1,15})(?:,[^\]]{0,40})?\]:?\s*$|\[Epoch (\d{1,9})() / Train\]:\s*$"
)
_LOOSE = re.compile(r"={3,60} Step (\d{1,12})/(\d{1,15}) ={3,60}\s*$")
_FIGURE = re.compile(
    rf"\s*(?:[•*-] )?([A-Za-z][\w/ .-]{{0,80}}?(?: \([\w/]{{1,40}}\))?) ?[:=] ?({NUMBER})\s*(?:[a-z]{{1,3}}\b|%|$)"
)
_INDENTED = re.compile(r"\s+\S")
_LONGEST = 400  # lines of a report at most
_ROW = re.compile(rf"\s*(\d{{1,12}})\s+({NUMBER})(?=\s|$)")
_NOT_YET = re.compile(r"\s*\d{1,12}\s+No log(?:\s|$)")
_TABLE = re.compile(r"\s*Step\s+Training Loss(?:\s|$)")


class Block:
    """One such report while its lines come."""

    def __init__(self, step: int, total: int | None, *, loose: bool) -> None:
        self._step = step
        self._total = total
        self._loose = loose
        self._figures: dict[str, float] = {}
        self._lines = 0

    def add(self, text: str) -> bool:
        """Take one more line; whether it belongs to the report."""
        self._lines += 1
        figures = list(_figures(text)) if _INDENTED.match(text) else []
        for name, value in figures:
            self._figures.setdefault(name, value)
        return bool(figures)

    def goes_on(self, text: str) -> bool:
        """Whether more of the report may come after that line, which is no part of it."""
        return self._loose and self._lines < _LONGEST and _LOOSE.search(text) is None

    def found(self) -> Found | None:
        """The step, if its loss was told."""
        step = step_of(self._step, self._total, self._figures)
        return Found("blocks", step) if step else None


class Table:
    """The table that the Trainer shows in a notebook: a row a step."""

    def add(self, text: str) -> Found | bool:
        """The step of a row; else whether the line is a row at all."""
        row = _ROW.match(text)
        loss = number(row.group(2)) if row else None
        step = step_of(int(row.group(1)), None, {"loss": loss}) if row and loss is not None else None
        return Found("hf-table", step) if step else _NOT_YET.match(text) is not None


def begins(text: str) -> Block | Table | None:
    """The report or the table that this line begins."""
    if "Training Loss" in text and _TABLE.match(text):
        return Table()
    loose = _LOOSE.search(text) if "= Step " in text else None
    head = loose or (_HEAD.search(text) if "=" in text or "/ Train]" in text else None)
    if head is None:
        return None
    step, total, *epoch = head.groups()
    return Block(int(step or epoch[0]), int(total) if total else None, loose=loose is not None)


def _figures(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(" | "):
        found = _FIGURE.match(part)
        value = number(found.group(2)) if found else None
        if found and value is not None:
            yield plain_name(found.group(1).partition(" (")[0]), value
