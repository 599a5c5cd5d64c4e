"""Ways out of a network, what its firewall lets in, and machines that are reserved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Nat:
    """A Cloud NAT gateway."""

    name: str
    network: str
    subnets: tuple[str, ...] = ()
    """Names of those it serves; none: all of them."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Machines that are set aside for a project."""

    name: str
    dense: bool
    """Whether they stand close together: deployment type DENSE."""
    count: int
    used: int
    status: str
    """READY, CREATING, DELETING ..."""


@dataclass(frozen=True, slots=True)
class Firewall:
    """A rule for what comes in."""

    name: str
    allows: bool
    priority: int
    """The lowest number wins."""
    sources: tuple[str, ...]
    """Address ranges and tags."""
    ports: tuple[str, ...]
    """Of TCP: "2222", "0-65535"."""

    def covers(self, port: int) -> bool:
        """Whether it is about that port."""
        return any(
            int(low) <= port <= int(high or low) for low, _, high in (each.partition("-") for each in self.ports)
        )


def opened(rules: tuple[Firewall, ...], port: int) -> bool:
    """Whether the first rule about a port, by priority, lets it in from a private range; nothing is open by itself."""
    for rule in rules:
        if rule.covers(port) and any(_private(source) for source in rule.sources):
            return rule.allows
    return False


def _private(source: str) -> bool:
    return source.startswith(("10.", "172.16.", "192.168.", "0.0.0.0", "100.64.", "240.")) or "." not in source
