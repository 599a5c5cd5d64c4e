"""What a text says should be launched: values that were read, and what could not be taken, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.kube.nested_values import Value

HIDDEN = "(hidden)"
"""Stands in every text where a secret value would be; read back, it means the value that was there."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to say of one place of a text."""

    path: str
    """A field's path, "name", "namespace", "recipe" or a key that no field has; empty: the text as a whole."""
    message: str  # one sentence
    line: int = 0  # counted from 1; 0: it has none

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True, slots=True)
class Draft:
    """A launch as a text describes it."""

    values: dict[str, Value] = field(default_factory=dict)
    """Nested, only what differs from the recipe's defaults; as `LaunchPlan.values`."""
    given: dict[str, Value] = field(default_factory=dict)
    """Nested, all values that the text names, those that are the recipe's defaults too."""
    recipe: str = ""  # id of the recipe it is about; empty: it does not say
    name: str = ""
    namespace: str = ""
    problems: tuple[Remark, ...] = ()  # what has to be mended before the values can be used
    left_out: tuple[Remark, ...] = ()  # keys that were not taken, each with what to use instead
    notes: tuple[Remark, ...] = ()  # worth knowing of what was taken

    @property
    def sound(self) -> bool:
        """Whether the values can be used."""
        return not self.problems
