"""A launch that another screen asks for: a recipe with values to begin from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.models.values import Value


@dataclass(frozen=True, slots=True)
class LaunchWish:
    """What the launch screen's form is to hold when it opens."""

    recipe: str
    values: Mapping[str, Value] = field(default_factory=dict)
    """As in LaunchPlan: nested, only what differs from the recipe's defaults."""
    name: str = ""
    """Release name to begin with; empty or taken: a free one is made."""
    against: Mapping[str, Value] | None = None
    """Values that the differences are shown against; None: the recipe's defaults."""
    against_name: str = ""
    """What those values are called: "llama-3, launched 2 h ago"."""
    over: bool = False
    """Whether the values are laid over what is in the form, the rest of which stays; then `recipe` may be empty, for
    the one that is open."""
    said: str = ""
    """What is said when the form opens; empty: a sentence of the screen's own."""
