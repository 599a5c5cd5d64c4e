"""What a container says of itself: GPUs, disks, mounts, environment, InfiniBand, C library, Python."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.models.gpu import Gpu


class FactState(StrEnum):
    """How asking for it went."""

    ASKED = "asked"
    """The answer has not come yet."""
    KNOWN = "known"
    ABSENT = "absent"
    """The container has no such program, folder or device."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ContainerFact:
    """One of them."""

    name: str
    """Machine word: gpus, disks, mounts, environment, infiniband, libc, python."""
    title: str
    state: FactState = FactState.ASKED
    text: str = ""
    """What the command printed, secrets hidden; lines without blank ends."""
    words: str = ""
    """Why there is nothing, or what the text comes to; a sentence, or empty."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """All of them of one container."""

    pod: str
    node: str
    rank: int | None
    facts: tuple[ContainerFact, ...]
    gpus: tuple[Gpu, ...] = ()
    """Read from the table of nvidia-smi."""
