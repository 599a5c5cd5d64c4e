"""The findings of PyTorch's own flight recorder analyser on a hang, run in one pod whose image has it.

The analyser compares the calls of the ranks of a process group, without stacks, processes that are gone, and waiting
across groups. It is therefore evidence and no verdict: it also names ranks that only wait in another group. It is given
collectives only, since it compares sends and receives within the order of a whole group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from rankscope.collective_history import Call, collective_kind
from rankscope.decoding import Count, RankNumber, Signed, Text, decode_answer
from rankscope.flight_recorder import GroupTable, ProcessGroup, RankDump, describe_group
from trainlog import format_ranges

MAX_COLLECTIVES = 200_000  # collectives of all ranks together: 1,024 ranks in three groups take about 5 s and 2 MB
MIN_COLLECTIVES_PER_RANK = 16  # collectives of a rank in a group, however many ranks there are
ANALYSER_SCRIPT = Path(__file__).with_name("run_torch_analyser.py")
_Sizes = tuple[tuple[int, ...], ...]
_Tensors = tuple[_Sizes, _Sizes, tuple[str, ...], tuple[str, ...]]  # inputs, outputs, then their types


class _FoundCollective(msgspec.Struct):
    group: Count
    seq: Signed
    op: Text
    missing: Annotated[list[RankNumber], msgspec.Meta(max_length=100_000)] = []
    culprits: dict[RankNumber, Text] = {}


class _RankEntries(msgspec.Struct):
    """The collectives that one rank called in a group."""

    first: int
    calls: list[int]
    states: dict[int, str]  # of collectives that have not ended


class _AnalyserAnswer(msgspec.Struct):
    torch: Text = ""
    why: Text = ""
    found: list[_FoundCollective] = []
    failed: dict[int, Text] = {}
    log: str = ""


@dataclass(frozen=True, slots=True)
class TorchFinding:
    """The first collective of a group in which the analyser found missing or different ranks."""

    group: str  # "the tensor group"
    members: int
    seq: int
    op: str
    missing: tuple[int, ...]  # ranks that never entered it
    culprits: dict[int, str]  # ranks that called another one than the first rank, with the analyser's reason

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.missing or tuple(self.culprits)

    @property
    def words(self) -> str:
        what = f"{collective_kind(self.op)} #{self.seq} of {self.group}"
        several = len(self.ranks) > 1
        ranks = f"rank{'s' if several else ''} {format_ranges(self.ranks)}"
        if self.missing:
            return f"{ranks} miss{'' if several else 'es'} {what}"
        if all("COLLECTIVE_STATE_MISMATCH" in why for why in self.culprits.values()):
            return f"{ranks} {'have' if several else 'has'} {what} in another state"
        return f"{ranks} differ{'' if several else 's'} in {what}"


@dataclass(frozen=True, slots=True)
class TorchAnalysis:
    torch: str = ""  # version of PyTorch; empty where it could not be asked
    why: str = ""  # why it could not be asked
    found: tuple[TorchFinding, ...] = ()  # the smallest groups first
    asked: int = 0  # groups
    failed: tuple[str, ...] = ()  # of groups about which it failed: why
    log: str = ""  # its own words

    def compare(self, named: Collection[int]) -> str:
        """The analyser's finding as text, and whether it names the same ranks as `named`."""
        if not self.torch:
            return f"PyTorch's own analyser was not asked: {self.why}."
        who = f"PyTorch's own analyser ({self.torch})"
        number = f"{len(self.failed):,} of {self.asked:,}"
        failed = f" It failed for {number} groups: {self.failed[0]}." if self.failed else ""
        if self.failed and len(self.failed) == self.asked:
            return f"{who} failed: {self.failed[0]}."
        if not self.found:
            return f"{who} finds no collective that ranks miss or call otherwise.{failed}"
        chosen = next((each for each in self.found if set(named) & set(each.ranks)), self.found[0])
        more = len(self.found) - 1
        rest = f", and others in {more:,} more group{'s' * (more > 1)}" if more else ""
        ranks = f"rank{'s' if len(named) > 1 else ''} {format_ranges(named)}"
        names = {rank for each in self.found for rank in each.ranks} >= set(named)
        compared = "" if not named else f" It names {ranks} too." if names else f" It does not name {ranks}."
        return f"{who}: {chosen.words}{rest}.{compared}{failed}"


def build_question(dumps: Sequence[RankDump]) -> tuple[bytes, list[tuple[ProcessGroup, str]]]:
    """The input for PyTorch's flight-recorder analyser, and (process group, description) of each group in it."""
    members: dict[ProcessGroup, dict[int, RankDump]] = defaultdict(dict)
    descs: dict[ProcessGroup, str] = {}
    table = GroupTable()
    for dump in dumps:
        for name, of in dump.groups.items():
            if len(dump.history.get(name, ())) > 1:
                group = table.find(name, of)
                members[group][dump.rank] = dump
                descs[group] = of.desc
    most = max(MIN_COLLECTIVES_PER_RANK, MAX_COLLECTIVES // max(1, sum(map(len, members.values()))))
    kinds = _CallNumbers()
    asked, groups = [], []
    for group in sorted(members, key=lambda each: (len(each.ranks), each.name, each.ranks)):
        entries = _build_entries(group.name, members[group], most, kinds)
        if entries:
            asked.append({"name": group.name, "desc": descs[group], "ranks": group.ranks, "entries": entries})
            groups.append((group, descs[group]))
    version = next((dump.version for dump in dumps if dump.version), "")
    return msgspec.json.encode({"version": version, "kinds": list(kinds.places), "groups": asked}), groups


class _CallNumbers:
    """Numbers for distinct calls, in the order of their first use."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, _Tensors], int] = {}
        self._of: dict[tuple[str, str], int | None] = {}

    def place(self, call: Call) -> int | None:
        """The number of a call; None if its tensors are unknown or not valid JSON."""
        key = call.op, call.tensors
        if key not in self._of:
            try:
                tensors = msgspec.json.decode(call.tensors, type=_Tensors)
                self._of[key] = self.places.setdefault((call.op, tensors), len(self.places))
            except msgspec.DecodeError:
                self._of[key] = None
        return self._of[key]


def _build_entries(
    name: str, members: Mapping[int, RankDump], limit: int, kinds: _CallNumbers
) -> dict[str, _RankEntries]:
    """By rank its collectives in a group, from the earliest that all ranks still remember; empty if there is none."""
    calls = {rank: _list_calls(dump, dump.history[name][1:], kinds) for rank, dump in members.items()}
    begins = {rank: dump.history[name][0] for rank, dump in members.items()}
    last = max(begins[rank] + len(calls[rank]) for rank in members) - 1
    known = (
        begins[rank] + max((at + 1 for at, kind in enumerate(calls[rank]) if kind is None), default=0)
        for rank in members
    )
    first = max(last - limit + 1, *known)
    entries = {}
    for rank, dump in members.items():
        own = calls[rank][max(0, first - begins[rank]) :]
        begin = max(first, begins[rank])
        undone = {
            each.seq: each.state
            for each in dump.operations
            if each.group == name and not each.p2p and each.state != "completed"
        }
        states, state = {}, undone.get(min(undone, default=0), "")
        for seq in range(max(begin, min(undone, default=last + 1)), begin + len(own)):
            state = undone.get(seq, state)  # of many that have not ended only some are told
            states[seq] = state
        entries[str(rank)] = _RankEntries(begin, [kind for kind in own if kind is not None], states)
    return entries if any(each.calls for each in entries.values()) else {}


def _list_calls(dump: RankDump, places: Sequence[int], kinds: _CallNumbers) -> list[int | None]:
    own = [kinds.place(each) for each in dump.kinds]
    return [own[place] if 0 <= place < len(own) else None for place in places]


def read_answer(output: bytes, groups: Sequence[tuple[ProcessGroup, str]]) -> TorchAnalysis:
    """Parse the analyser script's output. Raises UnreadableAnswer."""
    answer = decode_answer(output, _AnalyserAnswer, "What the pod tells of PyTorch's analyser")
    known = {
        number: (describe_group(desc, len(group.ranks)), frozenset(group.ranks))
        for number, (group, desc) in enumerate(groups)
    }
    found = tuple(
        TorchFinding(
            name,
            len(ranks),
            each.seq,
            each.op,
            tuple(sorted(ranks.intersection(each.missing))),
            {rank: why for rank, why in sorted(each.culprits.items()) if rank in ranks},
        )
        for each in answer.found
        if each.group in known
        for name, ranks in (known[each.group],)
    )
    return TorchAnalysis(
        answer.torch,
        answer.why,
        tuple(each for each in found if each.ranks),
        len(groups),
        tuple(answer.failed.values()),
        answer.log,
    )
