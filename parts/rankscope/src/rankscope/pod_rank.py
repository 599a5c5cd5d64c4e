"""What this library needs to know of each pod of a job."""

from __future__ import annotations

from typing import Protocol


class PodRank(Protocol):
    """One pod of a job, by its index."""

    @property
    def number(self) -> int: ...

    @property
    def replicated_job(self) -> str: ...

    @property
    def gpus(self) -> int:
        """GPUs that it asks for, one for each of its ranks."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def address(self) -> str:
        """Its IP address; empty while it has none."""
