"""The report on a hanging job: groups processes by stack location, and names the group that the others wait for (pure).

Stacks suffice where the waiting call is a Python call. `loss.item()`, which waits for the GPU, and the backward pass of
DDP, which waits for other ranks, wait in compiled code, so that the rank seems to compute; they are recognized by many
ranks being at the very same line. NCCL RAS, which counts collectives, then tells which ranks are awaited; without RAS
all ranks elsewhere are. If stacks do not differ, as in NCCL tests, a rank that RAS finds behind at the same operation
twice is awaited: ranks of a running job differ for moments only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rankscope import flight_recorder
from rankscope.decoding import Count, Percent, Text
from rankscope.flight_recorder import Desync, Finding, RankDump
from rankscope.nccl_ras import RasReport
from rankscope.rank_names import format_pods, format_processes
from rankscope.stack_location import ACTIVITY_ADVICE, NO_STACK, STACK_NOT_ASKED, Activity, StackLocation, describe_place
from rankscope.torch_analysis import TorchAnalysis
from trainlog import format_ranges

if TYPE_CHECKING:
    from trainlog import ProcessStacks

    Place = tuple[Activity, str]
    Groups = Mapping[Place, "Sequence[TracedProcess]"]

DEAD_STATES = frozenset("ZX")  # letters of the kernel
HALTED_STATES = DEAD_STATES | frozenset("Tt")  # those of processes that are stopped or traced, too


def find_suspects(groups: Groups, ras: RasReport) -> set[Place]:
    """The (activity, line of code) of each group of processes that the others wait for; empty if none stands out."""
    total = sum(map(len, groups.values()))
    rest = {place for place in groups if not place[0].waits_for_ranks}
    waiting = total - sum(len(groups[place]) for place in rest)
    behind = _find_places_behind(groups, ras, total)
    gone = {place for place, members in groups.items() if all(each.is_dead for each in members)}
    if 0 < 2 * sum(len(groups[place]) for place in gone) < total:
        return gone  # the others wait for them wherever they are, as in the handler of the error that it raised
    if waiting == total:
        return behind | {place for place in groups if _is_small_group(groups[place], total)}
    if waiting * 2 < total:
        many = _place_of_majority(groups, total)
        beside = {place for place in groups if place != many and _is_outlier(place, groups[place], total)}
        # Several that wait for something and are no minority may be those who wait for the others.
        beside -= {
            at for at in beside if at[0] is Activity.WAIT and len(groups[at]) > 1 and 2 * len(groups[at]) >= total
        }
        return behind - {many} or beside if many else set()
    # Most wait for other ranks, and the rest are the ranks that they wait for, unless these only seem to compute.
    seeming = all(doing is Activity.COMPUTE for doing, _ in rest)
    return behind if behind and seeming and not behind & rest else rest


def find_ranks_behind(group_ranks: Groups, awaited: set[Place], ras: RasReport) -> frozenset[int]:
    """The ranks whose stack waits like all others' but which NCCL reports as behind: the others wait for them."""
    members = {each.rank: each for several in group_ranks.values() for each in several}
    if not ras.covers_all(len(members)):
        return frozenset()
    known = [each for each in ras.odd if each.rank in members and each.pid in (None, members[each.rank].pid)]
    # Where a rank has an error, others are behind because of that, or have raised one.
    failed = frozenset(each.rank for each in known if each.error and each.rank is not None)
    waiting = all(doing.waits_for_ranks for doing, _ in group_ranks)
    if not failed and not waiting and (awaited or _place_of_majority(group_ranks, len(members)) is None):
        return frozenset()  # who is elsewhere explains it, or the ranks merely work
    late = failed or frozenset(each.rank for each in known if each.stays and each.rank is not None)
    if len(late) * 2 > len(members):
        return frozenset()
    explained = {each.rank for place in awaited for each in group_ranks[place]}
    return late if failed < explained else late - explained


def list_named_by_nccl(processes: Sequence[TracedProcess], ras: RasReport) -> set[int]:
    """The ranks that NCCL reports as failed, silent, or behind at two polls; empty if these are most."""
    members = {each.rank: each for each in processes}
    if not ras.covers_all(len(members)):
        return set()
    named = {
        each.rank
        for each in ras.odd
        if each.rank in members
        and each.pid in (None, members[each.rank].pid)
        and (each.stays or each.error or each.missing)
    }
    return {rank for rank in named if rank is not None} if len(named) * 2 <= len(members) else set()


def _find_places_behind(group_ranks: Groups, ras: RasReport, total: int) -> set[Place]:
    """The (activity, line of code) of each rank that NCCL reports as behind or not answering."""
    named = {odd.rank for odd in ras.odd if odd.rank is not None and odd.stays is not False}
    if not 0 < len(named) < total:
        return set()
    return {place for place, members in group_ranks.items() if {each.rank for each in members} <= named}


def _place_of_majority(group_ranks: Groups, total: int) -> Place | None:
    """The (activity, line of code) of at least half of the ranks, if that computes or sleeps; else None."""
    many = max(
        (place for place in group_ranks if place[0] in (Activity.COMPUTE, Activity.WAIT)),
        key=lambda at: len(group_ranks[at]),
        default=None,
    )
    if many is None or len(group_ranks[many]) * 2 < total or len({each.where.frame for each in group_ranks[many]}) > 1:
        return None
    return many


def _is_outlier(stack_place: Place, members: Sequence[TracedProcess], total: int) -> bool:
    """Whether a group differs from the rest: it alone computes, waits for something other than ranks, or has ended."""
    if stack_place[0] is Activity.UNKNOWN:
        return all(each.pid is None or each.state in HALTED_STATES for each in members)
    return stack_place[0] is not Activity.COMPUTE or _is_small_group(members, total)


def _is_small_group(members: Sequence[TracedProcess], total: int) -> bool:
    return len(members) * 4 <= total


NO_REPORT = RasReport()


@dataclass(frozen=True, slots=True)
class TracedProcess:
    """One process of a training with its stack, or a process that is missing."""

    rank: int  # its RANK, over the whole job: a pod may hold several
    pod_rank: int  # number of its pod
    pod: str
    node: str
    pid: int | None = None  # None: there is no process for that rank
    local_rank: int = 0
    command: str = ""
    state: str = ""  # letter of the kernel: R runs, S sleeps, D waits for a device, Z is dead, T is stopped
    wchan: str = ""  # function of the kernel in which it sleeps
    threads: int | None = None
    stacks: ProcessStacks | None = None
    where: StackLocation = NO_STACK
    problem: str = ""  # why there is no stack; a sentence
    program: str = ""  # its name, if it is no Python: then there can be no stack
    cpu: float | None = None  # percent of one core that it has used since its start

    @property
    def is_dead(self) -> bool:
        """Whether the process is gone, or a zombie that its parent has not collected."""
        return self.pid is None or (self.state in DEAD_STATES and self.where.doing is Activity.UNKNOWN)

    @property
    def sort_place(self) -> tuple[int, int, int]:
        """(rank, pod index, GPU in the pod); the GPU is LOCAL_RANK, as torchrun and mpirun set it."""
        return self.rank, self.pod_rank, self.local_rank


@dataclass(frozen=True, slots=True)
class MpiLauncher:
    """An MPI launcher process: mpirun in the first pod, orted in the others."""

    program: Text
    pid: Count
    state: Text = ""
    wchan: Text = ""
    threads: Count | None = None
    cpu: Percent | None = None


@dataclass(frozen=True, slots=True)
class PodTrace:
    """The facts on one pod in a hang report, such as its node and errors."""

    pod_rank: int
    pod: str
    node: str
    failure: str = ""  # why nothing could be found out; a sentence
    believed: bool = True  # whether it told of no ranks but its own
    py_spy: str = ""  # its py-spy; empty: it has none
    master: str = ""  # address and port where the ranks meet, if the pod knows it
    reached: bool | None = None  # whether that port was reached from the pod; None: not tried
    unreached: str = ""  # why not
    rdma: tuple[tuple[str, str], ...] = ()  # RDMA devices and the state of their port
    launchers: tuple[MpiLauncher, ...] = ()  # processes of MPI that start the others
    gdb: str = ""  # its gdb; empty: it has none


@dataclass(frozen=True, slots=True)
class HangGroup:
    """Processes with the same activity at the same line of code."""

    doing: Activity
    label: str
    members: tuple[TracedProcess, ...]
    suspect: bool = False  # whether the others wait for these
    behind: bool = False  # whether NCCL alone tells these from the others: they stay behind, or failed
    failure: str = ""  # what NCCL says of these then, such as "reported Invalid usage"

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(each.rank for each in self.members)

    @property
    def is_gone(self) -> bool:
        """Whether the processes of the group have ended or are stopped."""
        gone = all(each.pid is None or each.state in HALTED_STATES for each in self.members)
        return gone and self.doing is Activity.UNKNOWN

    @property
    def advice(self) -> str:
        if self.behind:
            return FAILED_ADVICE if self.failure else BEHIND_ADVICE
        return GONE_ADVICE if self.is_gone else ACTIVITY_ADVICE[self.doing]

    @property
    def sentence(self) -> str:
        """The group in short, such as "1 in data loader (rank 9, pod 1, GPU 1, n0)"."""
        bare = self.doing in (Activity.UNKNOWN, Activity.NOT_ASKED, Activity.COMPILED)
        text = f"{len(self.members)} {self.label if bare else describe_place(self.doing, self.label)}"
        return f"{text} ({self.format_short_members})" if self.suspect or len(self.members) <= 2 else text

    @property
    def format_members(self) -> str:
        """The members with their nodes: "ranks 41, 97 (pods 5, 12) on 2 nodes" or the like."""
        return self.processes + (f" on {self.place}" if self.place else "")

    @property
    def processes(self) -> str:
        """The members without their nodes: "ranks 41, 97 (pods 5, 12)"."""
        return format_processes(*(each.sort_place for each in self.members))

    @property
    def place(self) -> str:
        """The members' node, or the number of nodes they are on."""
        nodes = dict.fromkeys(each.node for each in self.members if each.node)
        return f"{len(nodes)} nodes" if len(nodes) > 1 else next(iter(nodes), "")

    @property
    def format_short_members(self) -> str:
        """The members in a form for parentheses, such as "ranks 41, 97, pod 5, n0"."""
        name = self.processes.removesuffix(")").replace(" (", ", ", 1)
        return name + (f", {self.place}" if self.place else "")


@dataclass(frozen=True)
class HangReport:
    """The result of inspecting all pods of a job."""

    job: str
    pods: tuple[PodTrace, ...]
    processes: tuple[TracedProcess, ...]
    ras: RasReport = NO_REPORT
    ras_problem: str = ""  # why NCCL could not be asked
    at: float = 0.0
    absent: tuple[tuple[int, str], ...] = ()  # pods that are not running beside those that are, and their status
    recorded: Finding | None = None  # the ranks that the others wait for, by the dumps of PyTorch's flight recorder
    recorder_words: str = "not asked"  # which ranks gave a dump
    dumps: tuple[RankDump, ...] = ()
    asked: str = ""  # how many pods answered, and by which way
    bundle: str = ""  # the archive of it that was written, or why it could not be
    analysis: TorchAnalysis | None = None  # what PyTorch's own analyser says of these dumps; None: not asked

    @cached_property
    def groups(self) -> tuple[HangGroup, ...]:
        """The groups of processes: first those that the others wait for, then by size."""
        named = self.recorded is not None and self.recorded.kind is not Desync.NETWORK
        return group_processes(
            self.processes, self.ras, self.recorded.ranks if self.recorded is not None and named else ()
        )

    @property
    def spared(self) -> tuple[int, ...]:
        """The ranks whose stacks were not requested."""
        return tuple(each.rank for each in self.processes if each.where is STACK_NOT_ASKED)

    @property
    def suspects(self) -> tuple[HangGroup, ...]:
        return tuple(group for group in self.groups if group.suspect)

    @property
    def suspected_nodes(self) -> tuple[str, ...]:
        """The nodes of the processes that the others wait for."""
        return tuple(dict.fromkeys(each.node for group in self.suspects for each in group.members if each.node))

    @property
    def summary(self) -> str:
        """The groups in one line: "126 in all_reduce, 2 in data loader (ranks 41, 97, pods 5, 12, 2 nodes)"."""
        largest = sorted(self.groups, key=lambda group: -len(group.members))
        unasked = all(pod.failure for pod in self.pods)
        none = "no pod answered" if unasked else "no process of a training or an NCCL test"
        return ", ".join(group.sentence for group in largest) or none

    @property
    def without_py_spy(self) -> tuple[PodTrace, ...]:
        """The pods whose processes could be inspected if py-spy were installed in them."""
        compiled = {each.pod for each in self.processes if each.program}
        return tuple(pod for pod in self.pods if not pod.failure and not pod.py_spy and pod.pod not in compiled)

    @property
    def only_compiled_programs(self) -> bool:
        """Whether only compiled programs (NCCL tests) run, which have no Python stacks."""
        return bool(self.processes) and all(each.program for each in self.processes)

    @property
    def alarming(self) -> bool:
        """Whether action is needed: a rank stands out, a pod is absent, or no pod answered."""
        return bool(self.suspects or self.absent or self.recorded) or all(pod.failure for pod in self.pods)

    @property
    def unreached(self) -> tuple[PodTrace, ...]:
        """The pods from which the master's port cannot be reached."""
        return tuple(pod for pod in self.pods if pod.reached is False)

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """The sentences on the cause of the hang, the most important first."""
        parts = []
        if self.absent:
            pods, several = format_ranges(number for number, _ in self.absent), len(self.absent) > 1
            status = ", ".join(dict.fromkeys(status for _, status in self.absent))
            subject, verb, them = (f"Pods {pods}", "do", "them") if several else (f"Pod {pods}", "does", "it")
            parts = [f"{subject} {verb} not run ({status}): ranks that need {them} in a collective wait forever."]
        if self.recorded is not None:
            parts.append(self._recorder_verdict(self.recorded))
        elif self.groups:
            parts.append(self._format_suspects())
        else:
            parts += self._format_no_processes()
        parts += [self.ras.words] if self.ras.words else []
        if self.unreached:
            far = format_pods(*(pod.pod_rank for pod in self.unreached))
            parts.append(f"{self.unreached[0].master} was not reached from {far}: {self.unreached[0].unreached}.")
        for believed, failed in ((False, "cannot be believed"), (True, "could not be asked")):
            if deaf := [pod for pod in self.pods if pod.failure and pod.believed is believed]:
                named = format_pods(*(pod.pod_rank for pod in deaf)).capitalize()
                named += f" ({len(deaf):,} of {len(self.pods):,})" if len(deaf) > 1 else ""
                parts.append(f"{named} {failed}: {deaf[0].failure}")
        if missing := len(self.without_py_spy):
            parts.append(f"py-spy is missing in {missing} of {len(self.pods)} pods: without it there are no stacks.")
        return tuple(parts)

    def _format_no_processes(self) -> list[str]:
        """The explanation if no process was found; [] if no pod answered."""
        answered = [pod for pod in self.pods if not pod.failure]
        if any(pod.launchers for pod in answered):
            return ["mpirun runs, but it has no child processes: it is starting or ending."]
        words = "No process of a training or an NCCL test was found in"
        if len(answered) < len(self.pods):
            return [f"{words} the pods that answered."] if answered else []
        return [f"{words} any pod: it is starting, or has ended."]

    @property
    def short(self) -> str:
        """The first sentence of the verdict, without nodes and calls."""
        if self.recorded is not None and not self.absent:
            return self._recorder_verdict(self.recorded, is_short=True)
        return self._format_suspects(is_short=True) if self.suspects and not self.absent else self.verdict[0]

    def _recorder_verdict(self, finding: Finding, *, is_short: bool = False) -> str:
        """The verdict of the flight recorders, with the code line at which the awaited ranks are."""
        places = [each.sort_place for each in self.processes if each.rank in set(finding.ranks)]
        several = len(finding.ranks) > 1
        unknown = f"rank{'s' if several else ''} {format_ranges(finding.ranks)}"
        parts = [f"{format_processes(*places) if places else unknown} {finding.what}"]
        for group in self.suspects[:2]:
            gone = group.doing is Activity.UNKNOWN and all(each.pid is None for each in group.members)
            words = describe_suspects(group, is_short=is_short).removeprefix(
                group.processes if is_short else group.format_members
            )
            where = "" if is_short or not group.place else f" on {group.place}"
            if gone or not group.doing.waits_for_ranks:
                parts.append(f"{'they' if len(group.members) > 1 else 'it'}{words}{where}")
        parts += [f"{finding.waiting:,} wait{'s' if finding.waiting == 1 else ''}"] if finding.waiting else []
        sentence = f"{'; '.join(parts)}."
        return sentence[0].upper() + sentence[1:]

    def _format_suspects(self, *, is_short: bool = False) -> str:
        suspects, rest = self.suspects, [group for group in self.groups if not group.suspect]
        if not suspects:
            return describe_no_suspect(rest)
        many = max(rest, key=lambda group: len(group.members), default=None)
        parts = [describe_suspects(group, is_short=is_short) for group in suspects[:3]]
        beside = f" while {describe_others(many)}" if many else ""
        sentence = f"{' and '.join(parts)}{beside}."
        return sentence[0].upper() + sentence[1:]

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """The advice for the person, by the stack location of the suspect ranks."""
        groups = self.suspects or self.groups
        recorded = [flight_recorder.DESYNC_ADVICE[self.recorded.kind]] if self.recorded is not None else []
        stacks = [group.advice for group in groups if not (recorded and group.doing.waits_for_ranks)]
        if self.recorded is not None and self.recorded.kind is Desync.MISSED and self._stacks_explain:
            recorded = []  # it skipped nothing: it is kept from coming
        advice = list(dict.fromkeys([*recorded, *stacks]))[:3]
        tests = {each.pod for group in groups if group.doing is Activity.COMPILED for each in group.members}
        return (*advice, gdb_hint([pod for pod in self.pods if pod.pod in tests])) if tests else tuple(advice)

    @property
    def _stacks_explain(self) -> bool:
        """Whether the suspects' stacks explain why they do not come to the collective."""
        return bool(self.suspects) and all(group.is_gone or group.doing.explains_wait for group in self.suspects)

    @property
    def blames_program(self) -> bool:
        """Whether the verdict names the program, its data or its storage, so that other nodes would not help."""
        if self.absent or any(group.is_gone for group in self.suspects):
            return False
        if any("Invalid" in group.failure for group in self.suspects):
            return True
        found = self.recorded
        return self._stacks_explain or (found is not None and (found.in_another or found.kind in PROGRAM_AT_FAULT))


def group_processes(
    processes: Iterable[TracedProcess], ras: RasReport = NO_REPORT, ranks: Collection[int] = ()
) -> tuple[HangGroup, ...]:
    """The processes grouped by place; marked are groups that others wait for, those with `ranks` if given."""
    found: dict[Place, list[TracedProcess]] = {}
    for process in sorted(processes, key=lambda each: each.rank):
        found.setdefault((process.where.doing, process.where.label), []).append(process)
    unread = found.get((NO_STACK.doing, NO_STACK.label), [])
    dead = [each for each in unread if each.is_dead]
    if 0 < len(dead) < len(unread):  # that there is no stack is no place at which both are
        found[NO_STACK.doing, "dead"] = dead
        found[NO_STACK.doing, NO_STACK.label] = [each for each in unread if not each.is_dead]
    awaited = set() if ranks else find_suspects(found, ras)
    late = frozenset(ranks) or find_ranks_behind(found, awaited, ras)
    if any(each.rank in late for place in awaited for each in found[place]):
        awaited = set()
    failures = {each.rank: each.error for each in ras.odd if each.error}
    groups = list[HangGroup]()
    for (doing, label), members in found.items():
        behind = tuple(each for each in members if each.rank in late)
        rest = tuple(each for each in members if each.rank not in late)
        parts = {"" if ranks else failures.get(each.rank, "") for each in behind}
        failure = parts.pop() if len(parts) == 1 else ""
        title = label if ranks else f"{label}, {failure or 'behind'}"
        groups.append(HangGroup(doing, title, behind, suspect=True, behind=not ranks, failure=failure))
        groups.append(HangGroup(doing, label, rest, (doing, label) in awaited))
    groups.sort(key=lambda group: (not group.suspect, group.doing is Activity.UNKNOWN, -len(group.members)))
    return tuple(group for group in groups if group.members)


BEHIND_ADVICE = (
    "Behind: NCCL found it at the same operation twice, so the others wait for it: look at its process, the GPUs and "
    "the NICs of its node (Xid errors, links that are down), and keep the node out of the next launch if it is behind "
    "there again."
)
"""Advice on a rank that only NCCL RAS distinguishes from the others."""
FAILED_ADVICE = (
    "Failed: NCCL stopped there; the log of the rank says more (NCCL_DEBUG=WARN). Invalid usage or argument: it called "
    "another collective than the others, or with another size, so look at code that differs by rank. A system or CUDA "
    "error: look at the GPUs and the NICs of its node (Xid errors, links that are down)."
)
"""Advice on a rank for which NCCL reports an error."""
GONE_ADVICE = (
    "Process: it has ended or is stopped; look at the end of its log, and on its node for what ended it (out of "
    "memory, Xid errors)."
)
PROGRAM_AT_FAULT = frozenset({Desync.ORDER, Desync.SHAPE, Desync.EPOCH, Desync.CYCLE})


def describe_others(group: HangGroup) -> str:
    """A text on what the largest group does: "3 others wait in all_reduce"."""
    number = len(group.members)
    several = number > 1
    who = f"{number} other{'s' if several else ''}"
    if group.doing is Activity.UNKNOWN:
        return f"of the {who} no stack could be read"
    if group.doing is Activity.COMPILED:
        return f"{who} {'run' if several else 'runs'} {group.label}"
    if group.doing is Activity.NOT_ASKED:
        return f"{who} {'wait' if several else 'waits'}"
    one, many = ("waits", "wait") if group.doing.waits_for_ranks else ("is", "are")
    return f"{who} {many if several else one} {describe_place(group.doing, group.label)}"


def describe_no_suspect(groups: Sequence[HangGroup]) -> str:
    largest = max(groups, key=lambda group: len(group.members))
    number, total = len(largest.members), sum(len(group.members) for group in groups)
    every = f"All {number}" if number == total else f"{number} of {total}"
    if largest.doing is Activity.UNKNOWN:
        return f"{number} processes were found, but no stack could be read."
    if largest.doing is Activity.NOT_ASKED:
        return f"{number} ranks were not asked for a stack."
    if largest.doing is Activity.COMPILED:
        pods = len({each.pod for each in largest.members})
        text = f"{number} {largest.label} process{'es' if number > 1 else ''} in {pods} pod{'s' if pods > 1 else ''}"
        alone = all(group.doing is Activity.COMPILED for group in groups)
        kind = "no training" if alone else "and other processes beside it"
        return f"An NCCL test, {kind}: {text}; py-spy can only read Python processes."
    if largest.doing.waits_for_ranks:
        return f"{every} ranks are in {largest.label}: the network, NCCL, or ranks in different collectives."
    if largest.doing is Activity.COMPUTE:
        compute = "1 rank computes" if number == 1 else f"{number} ranks compute"
        return f"{compute} ({largest.label}): this is not a hang, unless it stays like this."
    return f"{every} ranks are in {largest.label}."


def describe_suspects(group: HangGroup, *, is_short: bool) -> str:
    """The verdict on a suspect group: who it is and where; `is_short` leaves out node and call."""
    several = len(group.members) > 1
    named = group.processes if is_short else group.format_members
    if group.doing is Activity.UNKNOWN and all(each.pid is None for each in group.members):
        return f"{named} {'have' if several else 'has'} no process any more"
    if group.failure:
        return f"{named} {group.failure.replace('has ', 'have ', several)} in NCCL"
    if group.behind:
        return f"{named} {'stay' if several else 'stays'} behind in NCCL"
    frame = None if is_short else group.members[0].where.frame
    call = f" ({frame.function}, {frame.file}:{frame.line})" if frame and frame.line else ""
    return f"{named} {'are' if several else 'is'} {_format_place(group)}{call}"


def gdb_hint(pods: Sequence[PodTrace]) -> str:
    """The command that gets the stacks of an NCCL test running in these pods, as a hint."""
    if any(pod.gdb for pod in pods):
        return "C stacks: gdb -p PID -batch -ex 'thread apply all bt' in the pod."
    return "C stacks: its image has no gdb; apt-get install gdb in the pod, if it may trace."


def _format_place(group: HangGroup) -> str:
    """The activity of a group as text: "in the data loader"; for a compiled program its process state."""
    if group.doing is Activity.UNKNOWN:
        dead = all(each.is_dead for each in group.members)
        return (
            "stopped"
            if all(each.state in ("T", "t") for each in group.members)
            else "dead"
            if dead
            else "without a stack"
        )
    if group.doing is Activity.COMPILED:
        program, _, state = group.label.partition(", ")
        return state or f"in {program}"
    return f"in the {group.label}" if group.label == "data loader" else describe_place(group.doing, group.label)
