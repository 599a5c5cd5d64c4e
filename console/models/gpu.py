"""One GPU as nvidia-smi reports it, and faults that the driver reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One reading of one GPU; None where it says N/A or nothing."""

    index: int
    name: str = ""
    utilization: float | None = None
    """Percent."""
    memory_used: float | None = None
    """MiB."""
    memory_total: float | None = None
    """MiB."""
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watt."""
    power_limit: float | None = None
    """Watt."""
    clock: float | None = None
    """MHz of the streaming multiprocessors."""
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded."""
    bus: str = ""


@dataclass(frozen=True, slots=True)
class Xid:
    """A fault of a GPU, or of a switch between GPUs, as the kernel's log has it."""

    number: int
    bus: str
    switch: bool = False
    """An SXid: of an NVSwitch, not of a GPU."""
    pid: int | None = None
    process: str = ""
    text: str = ""
