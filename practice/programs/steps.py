"""The steps of a program, and its view of its environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from practice.node.pod_volumes import VolumeFiles


@dataclass(frozen=True, slots=True)
class PrintLine:
    """A program's step that prints one line."""

    text: str


@dataclass(frozen=True, slots=True)
class PauseStep:
    """A program's step that takes time and prints nothing."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitForFact:
    """A program's step that waits until a pod of the job has posted a fact."""

    fact: str


@dataclass(frozen=True, slots=True)
class ExitStep:
    """A program's step that ends it with an exit code and a reason such as OOMKilled."""

    code: int
    reason: str = ""


Step = PrintLine | PauseStep | WaitForFact | ExitStep


class SharedFacts:
    """Facts that the pods of one attempt of a job share."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self._callbacks: dict[str, list[Callable[[], None]]] = {}

    def post(self, fact: str, value: Any = True) -> None:
        """Publish a fact and wake those who wait for it."""
        self.facts[fact] = value
        for call in self._callbacks.pop(fact, []):
            call()

    def call_when(self, fact: str, function: Callable[[], None]) -> None:
        """Call the function once the fact is known."""
        if fact in self.facts:
            function()
        else:
            self._callbacks.setdefault(fact, []).append(function)


@dataclass
class ProgramContext:
    """The input of an imitated program: its environment, its pod, the job's other pods, and the time."""

    argv: list[str]
    env: dict[str, str]
    pod: dict[str, Any]
    room: SharedFacts
    random: Random
    now: Callable[[], float]
    attempt: int = 0  # how often the container was restarted in place
    notes: dict[str, str] = field(default_factory=dict)  # the pod's annotations
    volumes: VolumeFiles = field(default_factory=VolumeFiles)

    @property
    def rank(self) -> int:
        return int(self.env.get("JOB_COMPLETION_INDEX") or 0)

    @property
    def nodes(self) -> int:
        return int(self.env.get("NNODES") or 1)

    @property
    def gpus(self) -> int:
        return int(self.env.get("GPUS_PER_NODE") or 8)


Program = Callable[[ProgramContext], Iterator[Step]]
