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
    clock_max: float | None = None
    """MHz."""
    ecc_corrected: int | None = None
    throttle: int | None = None
    """Why its clock is held down: bits of NVML's clock event reasons."""
    recovery: str = ""
    """What the driver advises to recover it; empty: nothing."""
    xid: int | None = None
    """Last Xid, where DCGM tells it."""
    nvlink_received: float | None = None
    """Bytes a second over all its links."""
    nvlink_sent: float | None = None
    """Bytes a second over all its links."""
    pod: str = ""
    """NAMESPACE/NAME of the pod that has it, where DCGM tells it."""

    @property
    def memory_share(self) -> float | None:
        """Memory in use, percent."""
        if self.memory_used is None or not self.memory_total:
            return None
        return 100 * self.memory_used / self.memory_total

    @property
    def nvlink(self) -> float | None:
        """Bytes a second over NVLink, both ways together."""
        if self.nvlink_received is None or self.nvlink_sent is None:
            return None
        return self.nvlink_received + self.nvlink_sent

    @property
    def held_down(self) -> tuple[str, ...]:
        """What holds its clock down though it should not: heat, a power brake."""
        return tuple(words for bit, words in THROTTLES.items() if (self.throttle or 0) & bit)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it, in words."""
        said = [f"{self.ecc_uncorrected} uncorrected ECC errors"] if self.ecc_uncorrected else []
        said += [f"Xid {self.xid}"] if self.xid else []
        said += list(self.held_down)
        said += [f"the driver advises: {self.recovery}"] if self.recovery else []
        return tuple(said)


THROTTLES = {
    0x08: "clock cut by hardware (heat or power)", 0x20: "clock held down for heat",
    0x40: "clock cut by hardware for heat", 0x80: "clock cut by a power brake",
}  # fmt: skip
"""Clock event reasons that are faults; idling and the power cap are not."""


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
