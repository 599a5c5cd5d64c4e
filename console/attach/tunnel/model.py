"""How a tunnel is: its ports, and the state a list shows."""

from __future__ import annotations

from dataclasses import dataclass

from console.kube.rank_address import SSH_PORT, Address, LivePod, Ports

__all__ = ["SSH_PORT", "USUAL_PORTS", "Address", "Listener", "LivePod", "Ports", "Profile", "Tunnel"]

USUAL_PORTS = {8888: "Jupyter", 6006: "TensorBoard", SSH_PORT: "ssh"}


@dataclass(frozen=True, slots=True)
class Listener:
    """One port of this machine, and what has gone through it."""

    local: int
    remote: int
    open: int = 0  # connections now
    connections: int = 0
    sent: int = 0  # bytes to the pod
    received: int = 0  # bytes from the pod

    def __str__(self) -> str:
        return f"127.0.0.1:{self.local} forwards to port {self.remote}"


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Ports of this machine that lead to one rank, and how that goes."""

    name: str
    namespace: str
    job: str  # JOB, or pod/NAME
    rank: str
    context: str
    server: str
    state: str
    """ready: the pod runs; waiting: it does not; ended: for good; lost: the API server cannot be reached."""
    words: str = ""  # why it waits or has ended
    pod: str = ""
    listeners: tuple[Listener, ...] = ()
    last_end: str = ""  # why the last connection that broke did
    last_end_at: float = 0.0
    reconnections: int = 0  # how often another pod took the last one's place
    since: float = 0.0  # when it was opened (Unix time)
    pid: int = 0
    kept: bool = False  # whether it goes on by itself, without a terminal or a console

    @property
    def address(self) -> Address:
        return Address.of(self.namespace, self.job, self.rank)


@dataclass(frozen=True, slots=True)
class Profile:
    """A tunnel to be opened again by name."""

    name: str
    namespace: str
    job: str
    rank: str
    ports: tuple[str, ...]
    context: str = ""
