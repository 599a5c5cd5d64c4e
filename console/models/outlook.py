"""What a launch asks of the cluster, and what can be expected of it: the shapes of a forecast."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from console.models.places import MACHINE_GPUS
from console.models.quota import Account
from console.models.suits import ALWAYS, Toleration
from console.models.values import look

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from console.models.explanation import Held
    from console.models.values import Value

CHECK = "a check, not a promise"
"""To stand beside every forecast."""
ACCELERATOR = "cloud.google.com/gke-accelerator"
BLOCK = "cloud.google.com/gce-topology-block"


class Verdict(StrEnum):
    """What would become of it; the best first."""

    NOW = "fits now"
    SPLIT = "fits split over blocks"
    NO_QUEUE = "no queue"
    """Only machines were looked at: nothing holds a place for it."""
    WAITS = "waits"
    STOPPED = "queue stopped"
    UNKNOWN = "unknown"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a launch asks of the cluster."""

    namespace: str
    queue: str = ""
    """LocalQueue; empty: none."""
    gpus: int = MACHINE_GPUS
    topology: str = "none"
    """preferred, required or none."""
    level: str = BLOCK
    """Node label whose value the pods should or must share."""
    priority_class: str = ""
    target_nodes: tuple[str, ...] = ()
    avoid_nodes: tuple[str, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ALWAYS
    """Taints that its pods put up with."""

    @property
    def size(self) -> int:
        """GPUs of each pod."""
        return min(self.gpus, MACHINE_GPUS)

    @property
    def pods(self) -> int:
        """Pods that ask for GPUs."""
        return self.gpus // self.size if self.gpus > 0 else 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer, in one sentence and in numbers; amounts are GPUs."""

    verdict: Verdict
    sentence: str
    """Without a full stop."""
    flavor: str = ""
    need: int = 0
    free: int = 0
    """What the queue could take now, by borrowing too."""
    total: int = 0
    """What the queue can ever have in that flavor."""
    account: Account = field(default_factory=Account)
    """How the free GPUs come about."""
    short_by: int = 0
    borrows: int = 0
    """How much of it would be borrowed."""
    place: str = ""
    """The smallest place that holds all its pods: "host", "subblock", "block"; empty where none does."""
    place_name: str = ""
    blocks: int = 0
    """Places of the level asked for that it would lie in; 0: not known."""
    hosts_free: int = 0
    """Pods of its size that the machines have room for now."""
    holders: tuple[Held, ...] = ()
    """Who has what is missing, most first."""
    ahead: tuple[Held, ...] = ()
    """Who waits in the same queue and is tried first."""
    unblocks: tuple[Held, ...] = ()
    """The fewest jobs whose end would make room."""
    preempts: bool = False
    """Whether Kueue may evict others for it."""


def ask_of(values: Mapping[str, Value], namespace: str) -> Ask:
    """What complete values of the chart ask for."""
    selector = look(values, "placement.nodeSelector")
    labels = {str(key): str(value) for key, value in selector.items()} if isinstance(selector, dict) else {}
    if accelerator := look(values, "placement.accelerator"):
        labels[ACCELERATOR] = str(accelerator)
    gpus = look(values, "gpus")
    return Ask(
        namespace=namespace,
        queue=str(look(values, "queue") or ""),
        gpus=gpus if isinstance(gpus, int) else 0,
        topology=str(look(values, "topology.request") or "none"),
        level=str(look(values, "topology.level") or BLOCK),
        priority_class=str(look(values, "priorityClass") or ""),
        target_nodes=_words(look(values, "placement.targetNodes")),
        avoid_nodes=_words(look(values, "placement.avoidNodes")),
        node_selector=tuple(sorted(labels.items())),
        tolerations=(*ALWAYS, *_tolerations(look(values, "placement.tolerations"))),
    )


def _tolerations(value: Value) -> Iterator[Toleration]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            said = {name: str(each.get(name) or "") for name in ("key", "value", "effect")}
            yield Toleration(said["key"], str(each.get("operator") or "Equal"), said["value"], said["effect"])


def _words(value: Value) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
