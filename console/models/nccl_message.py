"""What libnccl itself says while a program runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NcclMessage:
    """One line of NCCL_DEBUG."""

    level: str
    """ "INFO", "WARN", "TRACE", "VERSION" or "ERROR"."""
    text: str
    host: str = ""
    pid: int | None = None
    thread: int | None = None
    device: int | None = None
    """Number of the GPU within its machine; None outside a communicator."""
    source: str = ""
    """File and line of libnccl, which warnings name."""
