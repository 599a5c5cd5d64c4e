"""Conditions: what controllers say of their objects, always picked by type, never by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object."""

    type: str
    status: str
    """"True", "False" or "Unknown"."""
    reason: str = ""
    message: str = ""
    since: float = 0.0

    @property
    def is_true(self) -> bool:
        """Whether the controller says yes."""
        return self.status == "True"


def condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, if the object has one."""
    return next((each for each in conditions if each.type == type_), None)


def holds(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition of that type is there and true."""
    found = condition(conditions, type_)
    return found is not None and found.is_true
