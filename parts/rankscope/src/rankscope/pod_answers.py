"""Parses the hang probe's answer from each pod, and makes the list of the job's processes (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Protocol, TypeVar

import msgspec
from msgspec import structs

from rankscope.decoding import MAX_PROCESSES, Count, Percent, RankNumber, Text, decode_answer
from rankscope.errors import UnreadableAnswer
from rankscope.flight_recorder import Finding, RankDump, judge_dumps
from rankscope.hang_report import HALTED_STATES, MpiLauncher, PodTrace, TracedProcess
from rankscope.nccl_ras import RasReport
from rankscope.stack_location import NO_STACK, STACK_NOT_ASKED, Activity, locate_compiled, locate_process
from trainlog import format_ranges


class PodRank(Protocol):
    """One pod of a job, known by its pod index."""

    @property
    def number(self) -> int: ...

    @property
    def replicated_job(self) -> str: ...

    @property
    def gpus(self) -> int:
        """The number of GPUs that the pod requests, one for each of its ranks."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def address(self) -> str:
        """The pod's IP address; empty while it has none."""


MAX_STACK_LINES = 300_000  # of all processes of a pod, as many as fit into its answer: of calls they are long


class ProcessAnswer(msgspec.Struct):
    pid: Count
    command: Text = ""
    state: Text = ""
    threads: Count | None = None
    wchan: Text = ""
    cpu: Percent | None = None
    program: Text = ""
    rank: RankNumber | None = None
    local_rank: RankNumber | None = None
    dump: str = ""
    error: str = ""
    asked: bool = True  # whether py-spy was to look at it


class MasterAnswer(msgspec.Struct):
    address: Text
    port: Count
    ok: bool
    why: Text = ""


class RasAnswer(msgspec.Struct):
    text: str = ""
    why: str = ""  # why there is no text


class RdmaAnswer(msgspec.Struct):
    name: Text
    state: Text = ""
    rate: Text = ""


class PodAnswer(msgspec.Struct):
    processes: Annotated[list[ProcessAnswer], msgspec.Meta(max_length=MAX_PROCESSES)]
    py_spy: Text = ""
    master: MasterAnswer | None = None
    ras: RasAnswer | None = None
    rdma: Annotated[list[RdmaAnswer], msgspec.Meta(max_length=MAX_PROCESSES)] = []
    recorder: Annotated[list[RankDump], msgspec.Meta(max_length=MAX_PROCESSES)] = []
    launchers: Annotated[tuple[MpiLauncher, ...], msgspec.Meta(max_length=1000)] = ()
    gdb: str = ""

    def to_trace(self, pod: PodTrace) -> PodTrace:
        master = self.master
        return replace(
            pod,
            py_spy=self.py_spy,
            master=f"{master.address}:{master.port}" if master else "",
            reached=master.ok if master else None,
            unreached=master.why if master else "",
            rdma=tuple((each.name, " ".join(filter(None, (each.state, each.rate)))) for each in self.rdma),
            launchers=self.launchers,
            gdb=self.gdb,
        )

    def add_stacks(self, answer: PodAnswer | str, ranks: Collection[int]) -> PodAnswer:
        """This answer with the stacks of `ranks` from a second answer, or the reason why there are none."""
        stacks = {} if isinstance(answer, str) else {each.pid: each for each in answer.processes}
        why = answer if isinstance(answer, str) else "py-spy was not started: the process has gone, or the tool has"
        processes = []
        for each in self.processes:
            if not each.asked and each.rank in ranks:
                found = stacks.get(each.pid)
                dump, error = (found.dump, found.error) if found is not None else ("", why)
                each = structs.replace(each, asked=True, dump=dump, error=error)
            processes.append(each)
        return structs.replace(self, processes=processes)


class AnswerRefusal(str):
    """The reason why a pod's answer is not used."""

    __slots__ = ()


R = TypeVar("R", bound=PodRank)
Answers = Sequence[tuple[R, PodAnswer | str]]


def refuse_foreign_ranks(answers: Answers[R]) -> list[tuple[R, PodAnswer | str]]:
    """The answers of pods, with an error for each pod that claims ranks of another pod."""
    claimed: dict[int, set[int]] = {}
    for rank, answer in answers:
        if isinstance(answer, PodAnswer):
            every = [*(each.rank for each in answer.processes), *(each.rank for each in answer.recorder)]
            claimed[rank.number] = {each for each in every if each is not None}
    claimed = {number: ranks for number, ranks in claimed.items() if ranks}
    working = {rank.replicated_job for rank, _ in answers if rank.number in claimed}
    first = min((rank.number for rank, _ in answers if rank.replicated_job in working), default=0)
    sizes = {len(ranks) for ranks in claimed.values()} | {rank.gpus for rank, _ in answers if rank.gpus and claimed}

    def own_ranks(number: int, size: int) -> range:
        return range((number - first) * size, (number - first + 1) * size)

    def count_at_home(size: int) -> int:
        return sum(ranks <= set(own_ranks(number, size)) for number, ranks in claimed.items())

    size = max(sorted(sizes), key=count_at_home, default=0)
    whole = {number for number, ranks in claimed.items() if len({each // size for each in ranks}) == 1}
    by_number, in_blocks = 2 * count_at_home(size) > len(claimed), 2 * len(whole) >= len(claimed) or len(answers) == 1
    most = max(sizes, default=0)
    times = Counter(each for ranks in claimed.values() for each in ranks)
    found: list[tuple[R, PodAnswer | str]] = []
    for rank, answer in answers:
        foreign = claimed.get(rank.number, set()).difference(own_ranks(rank.number, size))
        if not by_number and (rank.number in whole or not in_blocks):
            foreign = {each for each in foreign if times[each] > 1 or each >= most * len(answers)}
        ranks = f"rank{'s' if len(foreign) > 1 else ''} {format_ranges(foreign)}"
        theirs = "are not its own" if len(foreign) > 1 else "is not its own"
        refusal = AnswerRefusal(f"pod {rank.number} answered for {ranks}, which {theirs}")
        found.append((rank, refusal if foreign else answer))
    return found


def list_dumps(answers: Answers[PodRank]) -> list[RankDump]:
    return [dump for _, answer in answers if isinstance(answer, PodAnswer) for dump in answer.recorder]


def list_spared(answers: Answers[PodRank]) -> set[int]:
    """The ranks whose stacks have not been requested yet."""
    every = (each for _, answer in answers if isinstance(answer, PodAnswer) for each in answer.processes)
    return {each.rank for each in every if not each.asked and each.rank is not None}


def parse_answer(output: bytes) -> PodAnswer:
    """Parse the output of the probe in a pod. Raises UnreadableAnswer if it has no answer."""
    answer = decode_answer(output, PodAnswer, "The answer of the pod")
    if sum(each.dump.count("\n") for each in answer.processes) > MAX_STACK_LINES:
        raise UnreadableAnswer(f"The stacks of the pod have more than {MAX_STACK_LINES:,} lines.")
    return answer


def to_traced_processes(rank: PodRank, answer: PodAnswer) -> list[TracedProcess]:
    """The processes of a pod; the rank is -1 for those whose environment does not give it."""
    from trainlog import parse_pyspy

    found = []
    for place, each in enumerate(answer.processes):
        stacks = next(iter(parse_pyspy(each.dump.encode())), None) if each.dump else None
        where = (
            locate_process(stacks)
            if stacks
            else locate_compiled(each.program, each.state)
            if each.program
            else NO_STACK
            if each.asked
            else STACK_NOT_ASKED
        )
        found.append(
            TracedProcess(
                -1 if each.rank is None else each.rank, rank.number, rank.name, rank.node, each.pid,
                place if each.local_rank is None else each.local_rank, each.command, each.state, each.wchan,
                each.threads, stacks, where, format_problem(each, tool=bool(answer.py_spy)), each.program, each.cpu,
            )
        )  # fmt: skip
    return found


def format_problem(process: ProcessAnswer, *, tool: bool) -> str:
    """The reason why a process has no stack, and what to do about it; empty if it has one."""
    if process.program or (process.dump and not process.error):
        return ""
    if process.state in ("T", "t"):
        return f"It is stopped (SIGSTOP, or a debugger): kill -CONT {process.pid} in its pod resumes it."
    if not tool:
        return "There is no py-spy in its pod."
    if not process.asked:
        return "Its stack was not asked for: it waits, too, and for other ranks."
    if "ermission" in process.error or "ptrace" in process.error.lower():
        return "py-spy has no permission to trace it: the container lacks SYS_PTRACE, or runs as another user."
    last = process.error.splitlines()[-1] if process.error else "py-spy printed nothing"
    return f"{last.removeprefix('Error: ').rstrip('.')}."


def parse_or_explain(answer: bytes | str) -> PodAnswer | str:
    try:
        return parse_answer(answer) if isinstance(answer, bytes) else answer
    except UnreadableAnswer as error:
        return str(error)


_NO_PROCESS = "There is no process for it any more."


def list_processes(answers: Sequence[tuple[PodRank, PodAnswer | str]]) -> tuple[list[PodTrace], list[TracedProcess]]:
    """The pods and processes of all answers, each process with its rank in the whole job."""
    pods: list[PodTrace] = []
    found: list[tuple[PodRank, list[TracedProcess]]] = []
    for rank, answer in answers:
        trace = PodTrace(rank.number, rank.name, rank.node)
        if isinstance(answer, str):
            why = answer if answer.endswith(".") else f"{answer}."
            pods.append(replace(trace, failure=why, believed=not isinstance(answer, AnswerRefusal)))
            continue
        pods.append(answer.to_trace(trace))
        found.append((rank, to_traced_processes(rank, answer)))
    a_pod = max((len(each) for _, each in found), default=0)
    working = {rank.replicated_job for rank, several in found if several}
    processes: list[TracedProcess] = []
    for rank, several in found:
        known = {each.local_rank for each in several}
        first = rank.number * a_pod
        processes += [each if each.rank >= 0 else replace(each, rank=first + each.local_rank) for each in several]
        if (a_pod > 1 or not several) and rank.replicated_job in working:
            # A pod in which fewer ranks live than in others of its part of the job has lost some, or all.
            processes += [
                TracedProcess(first + local, rank.number, rank.name, rank.node, local_rank=local, problem=_NO_PROCESS)
                for local in range(a_pod)
                if local not in known
            ]
    return pods, processes


def rank_by_process(
    processes: Sequence[TracedProcess], all_ranks: Sequence[PodRank], ras: RasReport
) -> dict[tuple[str, int | None], int]:
    """Ranks by (IP address, pid), as NCCL names a process; ambiguous ones are left out."""
    addresses = {rank.number: rank.address for rank in all_ranks if rank.address}
    places = [(addresses.get(each.pod_rank, ""), each.pid) for each in processes]
    times = Counter(places)
    found = {place: each.rank for place, each in zip(places, processes, strict=True) if times[place] == 1}
    lost = {(each.node, each.pid) for each in ras.odd if each.missing} - found.keys()
    ended = Counter(address for address, _ in lost)
    return found | {
        (address, pid): found[address, None]
        for address, pid in lost
        if ended[address] == 1 and (address, None) in found
    }


def judge_processes(dumps: Sequence[RankDump], processes: Sequence[TracedProcess]) -> Finding | None:
    """The verdict of the flight recorders' dumps, with the stacks taken into account; None as of `judge_dumps`."""
    stacks = [each for each in processes if each.where.doing not in (Activity.UNKNOWN, Activity.NOT_ASKED)]
    return judge_dumps(
        dumps,
        {each.rank for each in processes if each.pid is None or each.state in HALTED_STATES},
        {each.rank for each in stacks if each.where.doing.waits_for_ranks},
        {each.rank for each in stacks if not each.where.doing.waits_for_ranks},
    )
