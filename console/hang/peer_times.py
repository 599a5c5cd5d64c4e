"""How long the data of each rank take to its peers, where the files of Google's CoMMA tell it, and which link is slow.

A step of a send is timed from when the receiver has room for it, so that it tells of the network and of no rank that is
late. Numbers in a file are of a communicator: each process tells which it has there and which in the job, and a number
that no process tells, or two do, stays one of the communicator.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec

from console.attach.many_pods import PYTHON_FROM_INPUT, Answer, Exec, run_in_pods
from console.decoding import MAX_PROCESSES, Count, Text, decode_answer, decode_apart
from console.errors import ConsoleError
from console.scheduling.ranks import Rank

MIN_STEPS = 20  # of a pair, of the same size
MIN_PAIRS = 4  # with steps of that size
FACTOR, MIN_BEYOND = 3, 10.0  # times the usual time, and microseconds per MiB beyond it
MIN_SHARE = 0.025  # of the time: a slow link that costs less is not told
MAX_TOLD = 4096  # pairs
LIMIT, FLOW = 90.0, 6.0  # seconds for a pod's answer, and from its first byte to its last
_SCRIPT = Path(__file__).with_name("read_comma.py")

_WHAT = "What the pod tells of CoMMA"
_Hash = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-f]{16}$", max_length=18)]


class PeerRow(msgspec.Struct, array_like=True, frozen=True):
    communicator: Count  # its place in the list of these
    peer: Count
    send: bool
    step_bytes: Count  # at least, a power of two
    steps: Count
    bytes: Count
    per_mib: Annotated[float, msgspec.Meta(ge=0, le=1e12)]  # microseconds, of the median step
    worst: Count  # microseconds


class RankPeers(msgspec.Struct):
    pid: Count
    rank: Count | None = None
    gpu: Count | None = None
    why: Text = ""  # why it tells nothing
    span: Count = 0  # microseconds from its first line to its last
    busy: Count = 0  # of these with an operation in the network
    communicators: Annotated[list[tuple[_Hash, Count]], msgspec.Meta(max_length=64)] = []
    peers: Annotated[list[PeerRow], msgspec.Meta(max_length=512)] = []


class _PodPeers(msgspec.Struct):
    ranks: Annotated[list[RankPeers], msgspec.Meta(max_length=MAX_PROCESSES)]


@dataclass(frozen=True, slots=True)
class Member:
    communicator: str
    number: int  # in the communicator
    rank: int | None = None  # in the job; None: not known
    pod_index: int | None = None
    node: str = ""

    @property
    def words(self) -> str:
        name = f"rank {self.number} of communicator {self.communicator}" if self.rank is None else f"rank {self.rank}"
        pod = f" (pod {self.pod_index})" if self.pod_index is not None else ""
        return f"{name}{pod}{f' on {self.node}' if self.node else ''}"


@dataclass(frozen=True, slots=True)
class PeerTime:
    """What one rank tells of its steps of about the same size to or from a peer."""

    member: Member
    peer: Member
    direction: str  # send or receive
    step_bytes: int  # at least, a power of two
    steps: int
    bytes: int
    us_per_mib: float  # of the median step; of a reception with the time in which it waits for the sender
    worst_us: int
    slow: bool = False


@dataclass(frozen=True, slots=True)
class SlowPair:
    """A rank whose data go slowly, and to say of it whither and how slowly."""

    member: Member
    pid: int
    gpu: int
    most: float  # share of the time in which it has operations in the network: no wait for it is longer
    what: str


@dataclass(frozen=True, slots=True)
class PeerTimes:
    """What CoMMA's files tell together."""

    words: str  # how many ranks told
    pairs: tuple[PeerTime, ...] = ()  # the slow ones first, then those with most bytes
    slow: SlowPair | None = None


async def ask_peer_times(run: Exec, every: Sequence[Rank]) -> PeerTimes | None:
    """What CoMMA's files tell in these pods; None if there are none in the first one: then no other is asked."""
    script = await asyncio.to_thread(_SCRIPT.read_bytes)
    argv = ("sh", "-c", PYTHON_FROM_INPUT, "sh", str(len(script)))
    found = (await run_in_pods(run, every[:1], argv, script, LIMIT, flow=FLOW)).found
    first = found[every[0].number]
    if isinstance(first, bytes) and await decode_apart(_WHAT, lambda: _has_none(first)):
        return None
    found |= (await run_in_pods(run, every[1:], argv, script, LIMIT, flow=FLOW)).found
    nodes = {rank.number: rank.node for rank in every}
    return await decode_apart(_WHAT, lambda: read_peer_times(found, nodes))


def parse_peers(said: bytes) -> list[RankPeers]:
    """What a pod printed; Unreadable if it is no such answer."""
    return decode_answer(said, _PodPeers, _WHAT).ranks


def _has_none(said: bytes) -> bool:
    try:
        return not parse_peers(said)
    except ConsoleError:
        return False  # said with the answers of all


def read_peer_times(answers: Mapping[int, Answer], nodes: Mapping[int, str]) -> PeerTimes | None:
    """What the answers of pods tell, by the pods' numbers; None if no rank has a file."""
    told: list[_Teller] = []
    why = ""
    for number, said in answers.items():
        try:
            if isinstance(said, ConsoleError):
                raise said
            told += [_Teller(number, nodes.get(number, ""), each) for each in parse_peers(said)]
        except ConsoleError as error:
            why = why or error.message.rstrip(".")
    if not told and not why:
        return None
    why = why or next((each.of.why.rstrip(".") for each in told if each.of.why), "")
    timed = sum(bool(each.of.peers) for each in told)
    words = f"CoMMA's files of {timed:,} of {len(told):,} ranks told how long data take to their peers"
    if not told:
        return PeerTimes(f"Whether files of CoMMA tell how long data take is not known ({why})")
    report = _judge(told, _name_members(told))
    return replace(report, words=words + (f" ({why})" if why else ""))


@dataclass(frozen=True, slots=True)
class _Teller:
    pod: int
    node: str
    of: RankPeers


def _name_members(told: Sequence[_Teller]) -> dict[tuple[str, int], Member]:
    """Who has which number in which communicator, unless two claim it."""
    claims: dict[tuple[str, int], list[Member]] = defaultdict(list)
    ranks = Counter(each.of.rank for each in told)
    for each in told:
        rank = each.of.rank if ranks[each.of.rank] == 1 else None
        for name, number in set(each.of.communicators):
            claims[name, number].append(Member(name, number, rank, each.pod, each.node))
    return {key: several[0] for key, several in claims.items() if len(several) == 1}


@dataclass(slots=True)
class _Pair:
    time: PeerTime
    teller: _Teller
    usual: float = 0.0
    pods: frozenset[int] = field(default_factory=frozenset)

    @property
    def costs(self) -> float:
        """The share of the time that it can cost."""
        per_mib = self.time.us_per_mib
        if per_mib < max(FACTOR * self.usual, self.usual + MIN_BEYOND):
            return 0.0
        return (1 - self.usual / per_mib) * _share_busy(self.teller.of)


def _share_busy(rank: RankPeers) -> float:
    return min(1.0, rank.busy / rank.span) if rank.span else 0.0


def _judge(told: Sequence[_Teller], members: Mapping[tuple[str, int], Member]) -> PeerTimes:
    sizes = Counter(name for name, _ in members)
    alike: dict[tuple[int, int], list[_Pair]] = defaultdict(list)  # of communicators and steps of the same size
    every: list[_Pair] = []
    for teller in told:
        for row in teller.of.peers:
            if row.communicator >= len(teller.of.communicators):
                continue
            name, number = teller.of.communicators[row.communicator]
            own = members.get((name, number))
            if own is None:
                continue  # two claim to be it
            peer = members.get((name, row.peer), Member(name, row.peer))
            time = PeerTime(own, peer, "send" if row.send else "receive", row.step_bytes, row.steps, row.bytes,
                            row.per_mib, row.worst)  # fmt: skip
            pods = frozenset(each for each in (own.pod_index, peer.pod_index) if each is not None)
            pair = _Pair(time, teller, pods=pods)
            every.append(pair)
            if row.send and row.steps >= MIN_STEPS and own.pod_index != peer.pod_index:
                alike[sizes[name], row.step_bytes].append(pair)
    slow: list[_Pair] = []
    usual: list[_Pair] = []
    for several in alike.values():
        if len(several) < MIN_PAIRS:
            continue
        middle = sorted(each.time.us_per_mib for each in several)[len(several) // 4]
        for each in several:
            each.usual = middle
            (slow if each.costs >= MIN_SHARE else usual).append(each)
    chosen = _choose_pair(slow, usual)
    named = {id(each) for each in slow} if chosen is not None else set()
    every.sort(key=lambda each: (id(each) not in named, -each.time.bytes))
    pairs = tuple(replace(each.time, slow=id(each) in named) for each in every[:MAX_TOLD])
    return PeerTimes("", pairs, chosen)


def _choose_pair(slow: Sequence[_Pair], usual: Sequence[_Pair]) -> SlowPair | None:
    """The pair to name; None if the slow ones are no matter of one pod, nor few."""
    if not slow:
        return None
    worst = max(slow, key=lambda each: each.costs)
    common = frozenset.intersection(*(each.pods for each in slow))
    if not common and MIN_PAIRS * len(slow) > len(slow) + len(usual):
        return None
    sure = len(common) == 1 and len(frozenset.union(*(each.pods for each in slow))) > 2
    if sure:
        (pod,) = common
        at_sender = [each for each in slow if each.time.member.pod_index == pod]
        worst = max(at_sender, key=lambda each: each.costs, default=worst)
    time = worst.time
    what = (
        f"its data take {_format_us(time.us_per_mib)} per MiB to {time.peer.words}, those of other ranks "
        f"{_format_us(worst.usual)}"
    )
    if sure and time.member.pod_index not in common:
        # Only those who send to the pod are slow: it is named by whom they send to.
        found = Member(time.peer.communicator, time.peer.number, time.peer.rank, time.peer.pod_index, time.peer.node)
        what = (
            f"the data of {time.member.words} take {_format_us(time.us_per_mib)} per MiB to it, those of other ranks "
            f"{_format_us(worst.usual)}"
        )
        return SlowPair(found, 0, 0, _share_busy(worst.teller.of), what)
    if not sure:
        what += "; the network of either can be the cause"
    return SlowPair(time.member, worst.teller.of.pid, worst.teller.of.gpu or 0, _share_busy(worst.teller.of), what)


def _format_us(value: float) -> str:
    digits = max(0, 1 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{round(value, digits):,g} µs" if value < 1e5 else f"{value / 1000:,.0f} ms"
