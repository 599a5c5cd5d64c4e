"""What goes over the network of a pod's GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkRate:
    """A port of an RDMA network card."""

    name: str
    """Card and port: "mlx5_0/1"."""
    received: float | None = None
    """Bytes a second; None: not known."""
    sent: float | None = None
    """Bytes a second; None: not known."""


def added(rates: list[float | None]) -> float | None:
    """All of them together; None where one is not known, or there is none."""
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known and len(known) == len(rates) else None
