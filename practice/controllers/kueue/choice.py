"""The outcome of looking for flavors: how well each pod set fits, where, and Kueue's sentences about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from practice.controllers.quantity import words

if TYPE_CHECKING:
    from practice.controllers.kueue.assignment import Place
    from practice.controllers.kueue.info import PodSetInfo, Quantities


class Mode(IntEnum):
    """How well a request fits, worst first; Kueue's ``preemptionMode``."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


@dataclass
class Attempt:
    """What trying one flavor gave, as the QuotaReserved event lists it."""

    flavor: str
    mode: Mode
    borrow: int = 0
    reasons: list[str] = field(default_factory=list)

    def words(self) -> str:
        """Return it for the event; empty for a plain fit."""
        if self.mode is Mode.FIT and not self.borrow:
            return ""
        names = {Mode.NO_CANDIDATES: "NoCandidates", Mode.PREEMPT: "Preempt", Mode.RECLAIM: "Reclaim"}
        mode = f"preemptionMode={names[self.mode]}" if self.mode in names else ("Fit" if self.mode else "NoFit")
        borrow = f";borrow={self.borrow}" if self.borrow else ""
        return f"{self.flavor}({mode}{borrow}{''.join(f';{reason}' for reason in self.reasons)})"


@dataclass
class PodSetChoice:
    """The flavors of one pod set, and where its pods would go."""

    pod_set: PodSetInfo
    flavors: dict[str, str] = field(default_factory=dict)
    mode: Mode = Mode.NO_FIT
    reasons: list[str] = field(default_factory=list)
    error: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    tree: str = ""  # the flavor whose topology places the pods, empty when none does


@dataclass
class Choice:
    """The outcome for a whole Workload."""

    pod_sets: list[PodSetChoice] = field(default_factory=list)
    borrowing: int = 0  # 0 is none, else how high in the cohort tree it has to borrow

    @property
    def mode(self) -> Mode:
        """The worst of the pod sets: FIT, one of the preemption modes, or NO_FIT."""
        return min((choice.mode for choice in self.pod_sets), default=Mode.NO_FIT)

    def message(self) -> str:
        """Return why it does not fit."""
        parts = []
        for choice in self.pod_sets:
            if choice.error:
                return f"failed to assign flavors to pod set {choice.pod_set.name}: {choice.error}"
            if choice.reasons:
                listed = ", ".join(sorted(choice.reasons))
                parts.append(f"couldn't assign flavors to pod set {choice.pod_set.name}: {listed}")
        return "; ".join(parts)

    def considered(self) -> str:
        """Return the flavors that were tried and not a plain fit, for an event."""
        parts = []
        for choice in self.pod_sets:
            listed = ", ".join(filter(None, (attempt.words() for attempt in choice.attempts)))
            if listed:
                parts.append(f"{choice.pod_set.name}: {listed}")
        return " | ".join(parts)

    def usage(self) -> Quantities:
        total: Quantities = {}
        for choice in self.pod_sets:
            for resource, flavor in choice.flavors.items():
                at = (flavor, resource)
                total[at] = total.get(at, 0) + choice.pod_set.requests.get(resource, 0)
        return total


def quantity_words(resource: str, value: int) -> str:
    """Return an amount as Kueue prints it: binary units for memory and storage, plain numbers for the rest."""
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return words(value)
    if value % 1000:
        return f"{value}m"
    whole = value // 1000
    return f"{whole // 1000}k" if whole and whole % 1000 == 0 else str(whole)
