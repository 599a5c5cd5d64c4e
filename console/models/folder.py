"""A folder of a container: what is in it, and how full its disk is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.models.copying import Entry


@dataclass(frozen=True, slots=True)
class PodFolder:
    """What is in it, folders first; amounts are bytes, of the file system it lies on, None where nobody could say."""

    path: str
    """Absolute, links resolved."""
    entries: tuple[Entry, ...]
    total: int | None = None
    used: int | None = None
    free: int | None = None
    complaints: tuple[str, ...] = ()
    """What could not be seen."""
