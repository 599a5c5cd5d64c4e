"""What the console says of a gathered hang."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import structs

from console.hang.inspector import JobInspector
from console.kube.objects.pod import Pod
from rankscope import HangReport, run_torch_analyser
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

ANALYSER = Path(run_torch_analyser.__file__).read_bytes()


class Gathered(msgspec.Struct):
    """What gather.py writes."""

    hang: str
    victim: int
    ranks: int
    tp: int
    pp: int
    seconds: float
    answers: list[msgspec.Raw]
    ras: list[msgspec.Raw] = []  # what NCCL said in the first pod, twice
    facts: dict[str, object] = {}

    @property
    def net(self) -> str:
        """The address of the pods without its end, as NCCL tells it; each has one, or all have that of this machine."""
        found = re.search(rb"on node (\d+\.\d+\.\d+\.)", b"".join(map(bytes, self.ras)))
        return found[1].decode() if found else "10.77.0."

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks for which the others wait."""
        if self.hang != "epoch":
            return (self.victim,)
        dp = self.ranks // self.tp // self.pp
        replica = self.victim // self.tp % dp
        return tuple(each for each in range(self.ranks) if each // self.tp % dp == replica)


class _Cluster:
    def __init__(self, pods: int, net: str) -> None:
        job = jobset("hung", pods)
        several = [rank(job, number, f"node-{number}") for number in range(pods)]
        shared = net.startswith("127.")
        self.fleet = fleet_of(
            job, *(structs.replace(each, ip=f"{net}{1 if shared else at + 1}") for at, each in enumerate(several))
        )

    def connection_for_change(self, action: str) -> None:
        """Allow everything."""


def _spare(answer: msgspec.Raw) -> bytes:
    """What the probe says if it is asked for no stacks."""
    said = msgspec.json.decode(answer)
    for each in said["processes"]:
        if each.get("rank") is not None and not each.get("program"):
            each |= {"asked": False, "dump": "", "error": ""}
    return msgspec.json.encode(said)


def _stacks(answer: msgspec.Raw, ranks: str) -> bytes:
    """What the probe says if it is asked for the stacks of these ranks."""
    wanted = {int(each) for each in ranks.split(",")}
    every = msgspec.json.decode(answer)["processes"]
    told = [{name: each[name] for name in ("pid", "dump", "error")} for each in every if each["rank"] in wanted]
    return msgspec.json.encode({"processes": told})


async def inspect(
    gathered: Gathered, *, all_stacks: bool = False, analyse: Callable[[Sequence[str], bytes], bytes] | None = None
) -> HangReport:
    """The console's report from these answers; `analyse` runs PyTorch's own analyser with its input."""
    said = list(gathered.ras)

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if argv[-1] == "ras-only" and said:
            take(1, bytes(said.pop(0)))
            return 0
        if argv[-1] == "ras-only" or b"a4-gateway" in stdin:
            take(2, b"\n")
            return 44
        if analyse is not None and stdin.startswith(ANALYSER):
            take(1, analyse(argv, stdin))
            return 0
        answer = gathered.answers[pod.completion_index]
        if argv[-2] == "stacks":
            take(1, _stacks(answer, argv[-1]))
        else:
            take(1, bytes(answer) if argv[-1] == "all-stacks" else _spare(answer))
        return 0

    cluster = cast("Any", _Cluster(len(gathered.answers), gathered.net))
    probe = JobInspector(cluster, run)
    report = await probe.inspect_job("default", "hung", all_stacks=all_stacks)
    return report if analyse is None else await probe.add_torch_analysis("default", "hung", report)
