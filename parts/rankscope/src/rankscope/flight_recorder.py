"""The verdict on a hang from all ranks' flight-recorder dumps: the awaited ranks, and the operation (pure).

Each rank numbers the collectives of each process group, so numbers are compared within a group only. A rank waits at
its first unfinished operation: for the members of the group that have not entered it, or for the peer of a receive. A
rank that others wait for and that waits for nobody is the culprit, even through several groups.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from rankscope.collective_history import Call, RankHistory, collective_kind, find_mismatch
from rankscope.decoding import RankNumber, Signed, Text
from trainlog import format_ranges

MAX_KINDS, MAX_HISTORY = 100, 501  # of a rank, and of one of its groups, as the script has them


class GroupRanks(Struct):
    desc: Text = ""
    ranks: list[RankNumber] = []

    def __post_init__(self) -> None:
        """Refuse a group that has a rank twice."""
        if len(set(self.ranks)) < len(self.ranks):
            raise ValueError("a rank is in a group once")


class Operation(Struct):
    group: Text
    seq: Signed
    op: Text
    state: Text = ""  # scheduled, started or completed
    sizes: Text = ""
    frame: Text = ""  # the line of the program that called it
    p2p: bool = False

    @property
    def kind(self) -> str:
        return collective_kind(self.op)


class RankDump(Struct):
    """The flight recorder's dump of one rank: each group's last operations, and operations that have not ended."""

    rank: RankNumber
    why: Text = ""  # why there is none
    version: Text = ""  # of the format of its dump
    groups: dict[str, GroupRanks] = {}
    operations: list[Operation] = []
    kinds: Annotated[list[Call], Meta(max_length=MAX_KINDS)] = []
    history: dict[
        str, Annotated[list[Signed], Meta(max_length=MAX_HISTORY)]
    ] = {}  # of each group the number of the first collective, then places in `kinds`


class Desync(StrEnum):
    MISSED = "missed"  # ranks never entered a collective
    STAGE = "stage"  # a pipeline stage never sent, or never received
    ORDER = "order"  # ranks call collectives in another order
    SHAPE = "shape"  # ranks call the same one with another shape
    EPOCH = "epoch"  # ranks have left the loop in which the others are
    CYCLE = "cycle"  # ranks wait for each other in different groups
    GPU = "GPU"  # ranks have launched it, and their GPU does not come to it
    NETWORK = "network"  # all have entered it, and it does not end
    NO_DUMP = "no dump"  # those that the others wait for gave no dump


DESYNC_ADVICE: dict[Desync, str] = {
    Desync.MISSED: "Skipped collective: look at the line that calls it for a condition that differs between ranks, and "
    "have every rank of the group call it; where the stack below shows the rank stuck before it, look at that first.",
    Desync.STAGE: "Pipeline: look at the stack of that stage; the stages after it only wait for it.",
    Desync.ORDER: "Order: all ranks of a group have to call the same collectives in the same order; compare the lines "
    "that call them.",
    Desync.SHAPE: "Shape: the tensors differ between ranks; pad the last batch (drop_last), or exchange sizes first.",
    Desync.EPOCH: "End of the epoch: ranks have different numbers of batches; use drop_last, a sampler that pads, or "
    "join() of DDP.",
    Desync.CYCLE: "Deadlock: groups are used in different orders; enter them in the same order on all ranks.",
    Desync.GPU: "GPU: a kernel before that collective does not end, or the GPU has failed; look for Xid errors of its "
    "node.",
    Desync.NETWORK: "Network: all ranks are there; look for links that are down, Xid errors, and warnings of NCCL in "
    "the log.",
    Desync.NO_DUMP: "No dump: the process is dead, stopped, or its watchdog hangs; see what the kernel says of it.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of the dumps: the ranks that the others wait for, and in which operation."""

    kind: Desync
    ranks: tuple[int, ...]
    what: str  # "never entered all_gather #201 of the tensor group", to follow the ranks
    waiting: int
    frame: str = ""
    in_another: bool = False  # the ranks wait in another collective, so that only the program left this one out


GROUP_NAMES = (
    ("expert", re.compile(r"EXPERT|\bep\b", re.IGNORECASE)),
    ("tensor", re.compile(r"TENSOR|\btp\b", re.IGNORECASE)),
    ("pipeline", re.compile(r"PIPELINE|\bpp\b", re.IGNORECASE)),
    # Megatron reduces gradients in DATA_PARALLEL_GROUP_WITH_CP.
    ("data", re.compile(r"DATA|FSDP|DDP|\bdp\b", re.IGNORECASE)),
    ("context", re.compile(r"CONTEXT|\bcp\b", re.IGNORECASE)),
)
_SEND_OR_RECEIVE = re.compile(r"(send|recv) (\d+)(->|<-)(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class ProcessGroup:
    """A process group of ranks; equal groups share one object (`GroupTable`)."""

    name: str
    ranks: tuple[int, ...]


class GroupTable:
    """One shared ProcessGroup object per name and ranks, in whichever ranks' dumps it is listed."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, tuple[int, ...]], ProcessGroup] = {}

    def find(self, name: str, group_ranks: GroupRanks) -> ProcessGroup:
        key = name, tuple(group_ranks.ranks)
        return self._groups.setdefault(key, ProcessGroup(*key))


class _WaitGraph:
    """The graph of ranks that wait for other ranks, by their flight-recorder dumps."""

    def __init__(self, dumps: Iterable[RankDump], trusted: Collection[int] = ()) -> None:
        """`trusted`: ranks without a dump that are assumed to have entered all collectives."""
        self.known = {dump.rank: dump for dump in dumps if not dump.why}
        self.trusted = frozenset(trusted)
        self.descs: dict[ProcessGroup, str] = {}
        self.entered: dict[ProcessGroup, dict[int, int]] = defaultdict(dict)  # the last collective of each rank
        self.history: dict[ProcessGroup, dict[int, RankHistory]] = defaultdict(dict)
        self.pending: dict[
            int, list[tuple[ProcessGroup, Operation]]
        ] = {}  # operations that have not ended, the oldest first
        self._absent: dict[tuple[ProcessGroup, int], frozenset[int]] = {}
        # NCCL launches ahead: where it is told what a GPU has begun, the rest of what its host launched does not count.
        timed = any(each.state == "started" for dump in self.known.values() for each in dump.operations)
        table = GroupTable()
        for rank, dump in self.known.items():
            groups = {name: table.find(name, each) for name, each in dump.groups.items()}
            self.descs |= {groups[name]: each.desc for name, each in dump.groups.items()}
            self.pending[rank] = []
            for name, calls in dump.history.items():
                if name in groups and calls:
                    self.history[groups[name]][rank] = RankHistory(calls[0], calls[1:], dump.kinds)
            for each in dump.operations:
                group = groups.get(each.group)
                if group is None:
                    continue
                if not each.p2p and (each.state != "scheduled" or not timed):
                    self.entered[group][rank] = max(each.seq, self.entered[group].get(rank, 0))
                if each.state != "completed":
                    self.pending[rank].append((group, each))
        self.blocked = {
            rank: waits[0]
            for rank, waits in self.pending.items()
            if waits and not (timed and waits[0][1].state == "scheduled" and not waits[0][1].p2p)
        }
        self.of = {rank: self._ranks_waited_for(rank, *at) for rank, at in self.blocked.items()}

    def _ranks_waited_for(self, rank: int, group: ProcessGroup, operation: Operation) -> frozenset[int]:
        if operation.p2p:
            peer = self.peer(group, operation)
            there = (
                peer is None
                or peer in self.trusted
                or any(at.p2p and self.peer(group, at) == rank for group, at in self.pending.get(peer, ()))
            )
            return frozenset() if peer is None or there else frozenset({peer})
        key = group, operation.seq
        if key not in self._absent:
            entered = self.entered[group]
            absent = frozenset(each for each in group.ranks if entered.get(each, -1) < operation.seq)
            self._absent[key] = absent - self.trusted
        return self._absent[key]

    def launched(self, rank: int) -> list[tuple[ProcessGroup, int]]:
        """The collectives that a rank's host has launched and that have not ended."""
        return [(group, each.seq) for group, each in self.pending.get(rank, ()) if not each.p2p]

    @staticmethod
    def peer(group: ProcessGroup, operation: Operation) -> int | None:
        """The rank to which a point-to-point operation sends, or from which it receives; None if unknown."""
        found = _SEND_OR_RECEIVE.search(operation.op)
        number = int(found[4]) if found else -1
        return group.ranks[number] if 0 <= number < len(group.ranks) else None

    def count_through(self, name: str, seq: int, apart: Collection[ProcessGroup]) -> int:
        """The number of ranks that have entered collective `seq` in groups of that name, without the groups `apart`."""
        return sum(
            last >= seq
            for group, entered in self.entered.items()
            if group not in apart and self.group_name(group) == name
            for last in entered.values()
        )

    def group_name(self, group: ProcessGroup) -> str:
        return describe_group(self.descs.get(group, ""), len(group.ranks))


def describe_group(desc: str, ranks: int) -> str:
    """A process group in the program's words, such as "the tensor group"."""
    if desc in ("default_pg", "default"):
        return "the group of all ranks"
    name = next((name for name, pattern in GROUP_NAMES if pattern.search(desc.replace("_", " "))), "")
    return f"the {name} group" if name else f"a group of {ranks} ranks"


def judge_dumps(
    dumps: Iterable[RankDump],
    gone_ranks: Collection[int] = (),
    waiting_ranks: Collection[int] = (),
    working: Collection[int] = (),
) -> Finding | None:
    """The verdict of a job's dumps; None if no rank waits in a collective, or stacks explain more.

    By their stacks, `gone_ranks` have no process any more, `waiting_ranks` wait for others, `working` ranks compute.
    """
    dumps = list(dumps)
    waits = _WaitGraph(dumps)
    if not waits.blocked:
        return None
    found = _find_mismatch(waits, blocked=True)
    # Who lives and gave no dump in time is often as well as the others: those are asked for first who are known.
    late = {dump.rank for dump in dumps if dump.why} - set(gone_ranks)
    if found is None and late:
        trusting = _WaitGraph(dumps, late)
        found = _find_awaited(trusting, frozenset(gone_ranks)) or _find_skipped_collective(trusting)
    # Whose stack waits for others is no culprit, though it gave no dump.
    found = found or _find_awaited(_WaitGraph(dumps, late & set(waiting_ranks)), frozenset(gone_ranks))
    if found is not None and found.kind is Desync.MISSED and working and set(found.ranks) <= set(waiting_ranks):
        return None  # they wait in what is not recorded, as sends of gloo are, for those who do something else
    return (
        found
        or _find_mismatch(waits, blocked=False)
        or _find_skipped_collective(waits)
        or _find_wait_cycle(waits)
        or _network_finding(waits)
    )


def _find_mismatch(graph: _WaitGraph, *, blocked: bool) -> Finding | None:
    """The finding that ranks of a group called different collectives under one number; None if none did.

    `blocked`: only groups in which ranks wait; else all groups, and only sizes that differ.
    """
    groups = {group for group, at in graph.blocked.values() if not at.p2p} if blocked else graph.history.keys()
    found = [
        (mismatch, group)
        for group in groups
        if (mismatch := find_mismatch(graph.history[group], only_sizes=not blocked))
    ]
    if not found:
        return None
    (seq, odd, mine, theirs, others), group = min(found, key=lambda each: each[0].seq)
    here = f"#{seq:,} of {graph.group_name(group)}"
    lines = f" (called in {mine.frame}, not {theirs.frame})" if mine.frame != theirs.frame else ""
    waiting = len(graph.blocked.keys() - set(odd))
    # Of NCCL a barrier is called all_reduce_barrier.
    ordered = mine.kind != theirs.kind and not any("barrier" in kind for kind in (mine.kind, theirs.kind))
    shaped = mine.kind == theirs.kind and not lines
    kind = Desync.ORDER if ordered else Desync.SHAPE if shaped else Desync.EPOCH
    if not others:
        differ = (
            f"at {mine.kind} with {mine.sizes} and with {theirs.sizes}"
            if shaped
            else f"at {mine.kind} and at {theirs.kind}"
        )
        return Finding(kind, odd, f"are {differ}, {here}{lines}", waiting, mine.frame)
    many = "the other is" if others == 1 else f"{others} others are"
    what = {
        Desync.ORDER: f"where {many} at {theirs.kind}: the order differs",
        Desync.SHAPE: f"with {mine.sizes}, where {many} at it with {theirs.sizes}",
        Desync.EPOCH: f"where {many} at {'another ' * (mine.kind == theirs.kind)}{theirs.kind}: not in the same loop",
    }[kind]
    comma = " " if shaped else ", "
    verb = "is" if len(odd) == 1 else "are"
    return Finding(kind, odd, f"{verb} at {mine.kind} {here}{comma}{what}{lines}", waiting, mine.frame)


def _find_awaited(graph: _WaitGraph, gone_ranks: frozenset[int]) -> Finding | None:
    """The finding of ranks that others wait for and that wait for none, those without process first; else None."""
    awaited = frozenset[int]().union(*graph.of.values())
    found = awaited - graph.blocked.keys()
    found = found & gone_ranks or found
    if not found:
        return None
    # Who is awaited in turn waits nearest to it; and a small group says more than that of all ranks.
    waiter = min(
        (rank for rank, those in graph.of.items() if those & found),
        key=lambda rank: (rank not in awaited, len(graph.of[rank] & found), len(graph.blocked[rank][0].ranks), rank),
    )
    group, at = graph.blocked[waiter]
    ranks = tuple(sorted(graph.of[waiter] & found))
    name = f"{at.kind} #{at.seq:,} of {graph.group_name(group)}"
    number = len(graph.blocked)
    if not any(rank in graph.known for rank in ranks):
        silent = tuple(sorted(found - graph.known.keys()))
        if len(silent) > 1 and not gone_ranks.issuperset(silent):
            return Finding(
                Desync.NO_DUMP, silent, f"gave no dump, and one or more did not enter {name}", number, at.frame
            )
        return Finding(Desync.NO_DUMP, ranks, f"gave no dump and never entered {name}", number, at.frame)
    if all(any(each == (group, at.seq) for each in graph.launched(rank)) for rank in ranks):
        what = f"launched {name}, but {'its GPU has' if len(ranks) == 1 else 'their GPUs have'} not come to it"
        return Finding(Desync.GPU, ranks, what, number, at.frame)
    if at.p2p:
        never = "never sent to" if at.kind == "recv" else "never received from"
        return Finding(Desync.STAGE, ranks, f"{never} rank {waiter:,} ({name})", number, at.frame)
    return Finding(Desync.MISSED, ranks, f"never entered {name}", number, at.frame)


_GroupCollective = tuple[str, str, int]
"""A collective as (group name, kind, number)."""


def _find_skipped_collective(graph: _WaitGraph) -> Finding | None:
    """The finding of ranks that skipped a collective, where ranks wait for each other; None if it is not certain."""
    lacked: dict[_GroupCollective, set[int]] = defaultdict(set)
    unlaunched: dict[_GroupCollective, set[int]] = defaultdict(set)
    stuck: dict[_GroupCollective, set[ProcessGroup]] = defaultdict(set)
    for rank, awaited in graph.of.items():
        group, at = graph.blocked[rank]
        if awaited and not at.p2p:
            name = graph.group_name(group), at.kind, at.seq
            lacked[name].update(awaited)
            stuck[name].add(group)
            if never := {each for each in awaited if (group, at.seq) not in graph.launched(each)}:
                unlaunched[name].update(never)
    if len(lacked) < 2:
        return None
    if len(unlaunched) == 1:
        ((few, ranks),) = unlaunched.items()
        return _describe_left_out(graph, few, ranks)
    over = {key: graph.count_through(key[0], key[2], groups) for key, groups in stuck.items()}
    (few, ranks), (other, more), *_ = sorted(lacked.items(), key=lambda each: (len(each[1]), -over[each[0]]))
    undecided = len(ranks) == len(more) and over[few] == over[other]
    return None if undecided else _describe_left_out(graph, few, ranks)


def _describe_left_out(graph: _WaitGraph, few: _GroupCollective, ranks: set[int]) -> Finding | None:
    """The finding that ranks skipped a collective and wait in another; None unless all wait in the same one."""
    if not ranks <= graph.blocked.keys():
        return None
    own = {(graph.group_name(group), at.kind, at.seq): at for rank in ranks for group, at in (graph.blocked[rank],)}
    if len(own) > 1 or few in own:
        return None
    (name, kind, seq), at = own.popitem()
    verb = "waits" if len(ranks) == 1 else "wait"
    what = f"never entered {few[1]} #{few[2]:,} of {few[0]} and {verb} in {kind} #{seq:,} of {name}"
    desync = Desync.EPOCH if "barrier" in kind else Desync.MISSED
    return Finding(desync, tuple(sorted(ranks)), what, len(graph.blocked) - len(ranks), at.frame, True)


def _find_wait_cycle(graph: _WaitGraph) -> Finding | None:
    """The finding that ranks wait for each other, directly or through others; None if none do."""
    rank, seen = next((rank for rank, awaited in graph.of.items() if awaited), None), list[int]()
    while rank is not None and rank not in seen:
        seen.append(rank)
        rank = min(graph.of.get(rank, ()), default=None)
    if rank is None:
        return None
    ring = seen[seen.index(rank) :]
    parts = (
        f"rank {each:,} in {at.kind} #{at.seq:,} of {graph.group_name(group)}"
        for each in sorted(ring)[:3]
        for group, at in (graph.blocked[each],)
    )
    return Finding(Desync.CYCLE, tuple(sorted(ring)), f"wait for each other: {', '.join(parts)}", len(graph.blocked))


def _network_finding(graph: _WaitGraph) -> Finding:
    """The finding of the lowest-numbered operation that all ranks have entered and that does not end."""
    group, at = min(graph.blocked.values(), key=lambda each: (each[1].p2p, each[1].seq))
    ranks = tuple(sorted(rank for rank, each in graph.blocked.items() if each[0] == group))
    entered = "have all entered" if len(ranks) > 1 else "has entered"
    what = f"{entered} {at.kind} #{at.seq:,} of {graph.group_name(group)}, and it does not end"
    return Finding(Desync.NETWORK, ranks, what, len(graph.blocked), at.frame)


def describe_dumps(dumps: Iterable[RankDump]) -> str:
    """A text on how many ranks gave a dump, and why others gave none."""
    every = list(dumps)
    reasons: Mapping[str, list[int]] = defaultdict(list)
    for each in every:
        if each.why:
            reasons[each.why].append(each.rank)
    failed = "; ".join(
        f"rank{'s' if len(ranks) > 1 else ''} {format_ranges(ranks)}: {why}" for why, ranks in list(reasons.items())[:3]
    )
    words = f"{len(every) - sum(map(len, reasons.values()))} of {len(every)} ranks gave a dump"
    return f"{words} ({failed})" if failed else words
