"""What the console says of a gathered hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from console.hang.inspection import HangProbe
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.hang.report import HangReport
    from console.kube.objects.pod import Pod


class Gathered(msgspec.Struct):
    """What gather.py writes."""

    hang: str
    victim: int
    ranks: int
    tp: int
    pp: int
    seconds: float
    answers: list[msgspec.Raw]

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks for which the others wait."""
        if self.hang != "epoch":
            return (self.victim,)
        dp = self.ranks // self.tp // self.pp
        replica = self.victim // self.tp % dp
        return tuple(each for each in range(self.ranks) if each // self.tp % dp == replica)


class _Cluster:
    def __init__(self, pods: int) -> None:
        job = jobset("hung", pods)
        self.fleet = fleet_of(job, *(rank(job, number, f"node-{number}") for number in range(pods)))

    def connection_for_change(self, what: str) -> None:
        """Allow everything."""


async def inspect(gathered: Gathered) -> HangReport:
    """The console's report, from these answers of the pods."""

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if argv[-1] == "ras-only" or b"a4-gateway" in stdin:
            take(2, b"\n")
            return 44
        take(1, bytes(gathered.answers[pod.completion_index]))
        return 0

    return await HangProbe(cast("Any", _Cluster(len(gathered.answers))), run).inspect_job("default", "hung")
