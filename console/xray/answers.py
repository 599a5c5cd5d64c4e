"""What the probe says of one pod, as it is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from console.errors import Unreadable
from console.models.hang import Launcher, PodTrace, Traced
from console.models.whereabouts import NOWHERE, compiled, whereabouts
from console.parsers.meta import UNREADABLE

if TYPE_CHECKING:
    from console.models.ranks import Rank


class ProcessAnswer(msgspec.Struct):
    """A process."""

    pid: int
    command: str = ""
    state: str = ""
    threads: int | None = None
    wchan: str = ""
    cpu: float | None = None
    program: str = ""
    rank: int | None = None
    local_rank: int | None = None
    dump: str = ""
    error: str = ""


class MasterAnswer(msgspec.Struct):
    """Whether the master was reached."""

    address: str
    port: int
    ok: bool
    why: str = ""


class RasAnswer(msgspec.Struct):
    """NCCL's words, or why there are none."""

    text: str = ""
    why: str = ""


class RdmaAnswer(msgspec.Struct):
    """An RDMA device."""

    name: str
    state: str = ""
    rate: str = ""


class PodAnswer(msgspec.Struct):
    """A pod."""

    processes: list[ProcessAnswer]
    py_spy: str = ""
    master: MasterAnswer | None = None
    ras: RasAnswer | None = None
    rdma: list[RdmaAnswer] = []
    launchers: list[ProcessAnswer] = []
    gdb: str = ""

    def of(self, pod: PodTrace) -> PodTrace:
        """That pod with what it said."""
        master = self.master
        return replace(
            pod,
            py_spy=self.py_spy,
            master=f"{master.address}:{master.port}" if master else "",
            reached=master.ok if master else None,
            unreached=master.why if master else "",
            rdma=tuple((each.name, " ".join(filter(None, (each.state, each.rate)))) for each in self.rdma),
            launchers=tuple(
                Launcher(each.program, each.pid, each.state, each.wchan, each.threads, each.cpu)
                for each in self.launchers
            ),
            gdb=self.gdb,
        )


def read_answer(said: bytes) -> PodAnswer:
    """The answer in a probe's output; Unreadable if there is none."""
    line = said[max(0, said.rfind(b"\n{") + 1) :]
    try:
        return msgspec.json.decode(line, type=PodAnswer)
    except UNREADABLE as error:
        raise Unreadable("The answer of the pod cannot be understood.") from error


def traced(rank: Rank, answer: PodAnswer) -> list[Traced]:
    """The processes of a pod; of those that do not say their rank it is -1."""
    from console.parsers.pyspy import parse_pyspy

    found = []
    for place, each in enumerate(answer.processes):
        stacks = next(iter(parse_pyspy(each.dump.encode())), None) if each.dump else None
        where = whereabouts(stacks) if stacks else compiled(each.program, each.state) if each.program else NOWHERE
        found.append(
            Traced(
                -1 if each.rank is None else each.rank, rank.number, rank.name, rank.node, each.pid,
                place if each.local_rank is None else each.local_rank, each.command, each.state, each.wchan,
                each.threads, stacks, where, problem_words(each, tool=bool(answer.py_spy)), each.program, each.cpu,
            )
        )  # fmt: skip
    return found


def problem_words(process: ProcessAnswer, *, tool: bool) -> str:
    """Why a process has no stack, and what helps."""
    if process.program or (process.dump and not process.error):
        return ""
    if process.state in ("T", "t"):
        return f"It is stopped (SIGSTOP, or a debugger): kill -CONT {process.pid} in its pod lets it go on."
    if not tool:
        return "There is no py-spy in its pod."
    if "ermission" in process.error or "ptrace" in process.error.lower():
        return "py-spy may not trace it: the container lacks SYS_PTRACE, or runs as somebody else."
    last = process.error.splitlines()[-1] if process.error else "py-spy printed nothing"
    return f"{last.removeprefix('Error: ').rstrip('.')}."
