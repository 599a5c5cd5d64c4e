"""Ranks of a group that called another collective than the others, by all that their flight recorders hold (pure).

Ranks that disagree may go on for many collectives before they hang: over sockets NCCL takes the rest of one tensor for
the next one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_EQUAL_SIZE_COLLECTIVE = re.compile(r"all_?reduce|_?all_?gather_base|_?reduce_?scatter_base|broadcast")
_MAX_COMPARED = 1000  # collectives of a group that are compared


class Call(NamedTuple):
    op: str
    sizes: str = ""
    frame: str = ""  # the line of the program
    tensors: str = ""  # JSON: sizes of its inputs, of its outputs, then their types; empty where not told

    @property
    def kind(self) -> str:
        return collective_kind(self.op)


@dataclass(frozen=True, slots=True)
class RankHistory:
    """The collectives that one rank has called in one group, in order."""

    first: int  # number of the first one
    calls: Sequence[int]  # for each its place among `kinds`; -1: not known
    kinds: Sequence[Call]

    def call_at(self, seq: int) -> Call | None:
        place = self.calls[seq - self.first] if 0 <= seq - self.first < len(self.calls) else -1
        return self.kinds[place] if 0 <= place < len(self.kinds) else None


class CollectiveMismatch(NamedTuple):
    """The first collective of a group that its ranks did not call alike."""

    seq: int
    odd: tuple[int, ...]  # ranks; all where nothing tells which ones are wrong
    mine: Call  # of the first odd one
    theirs: Call
    others: int  # how many called that; none where all are odd


def collective_kind(op: str) -> str:
    """The collective's own name in an operation such as "nccl:_all_gather_base"."""
    return op.rpartition(":")[2].partition(" ")[0].lstrip("_")


def find_mismatch(fields: Mapping[int, RankHistory], *, only_sizes: bool = False) -> CollectiveMismatch | None:
    """The first collective that the ranks of a group called by different names, or sizes where these must agree.

    None if there is none; with `only_sizes` different names do not count.
    """
    marks: dict[tuple[str, str], int] = {}
    rows: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for rank, history in fields.items():
        of = [marks.setdefault(_comparison_key(call), len(marks)) for call in history.kinds]
        row = tuple(of[place] if 0 <= place < len(of) else -1 for place in history.calls)
        rows[history.first, row].append(rank)
    if len(rows) < 2:
        return None
    kinds = [kind for kind, _ in marks]
    often = Counter(mark for (_, row), ranks in rows.items() for mark in row for _ in ranks)
    last = max(first + len(row) for first, row in rows)
    for seq in range(max(min(first for first, _ in rows), last - _MAX_COMPARED), last):
        here: dict[int, list[int]] = defaultdict(list)
        for (first, row), ranks in rows.items():
            if 0 <= seq - first < len(row) and row[seq - first] >= 0:
                here[row[seq - first]] += ranks
        if len(here) < 2 or (only_sizes and len({kinds[mark] for mark in here}) > 1):
            continue
        # Of as many ranks on both sides those are odd who call what is called less often.
        usual, second, *_ = sorted(here, key=lambda mark: (-len(here[mark]), -often[mark]))
        undecided = (len(here[usual]), often[usual]) == (len(here[second]), often[second])
        odd = sorted(rank for mark, ranks in here.items() if mark != usual for rank in ranks)
        mine, theirs = fields[odd[0]].call_at(seq), fields[here[usual][0]].call_at(seq)
        assert mine is not None
        assert theirs is not None
        if undecided:
            return CollectiveMismatch(
                seq, tuple(sorted(rank for ranks in here.values() for rank in ranks)), mine, theirs, 0
            )
        return CollectiveMismatch(seq, tuple(odd), mine, theirs, len(here[usual]))
    return None


def _comparison_key(call: Call) -> tuple[str, str]:
    return call.kind, call.sizes if _EQUAL_SIZE_COLLECTIVE.fullmatch(call.kind) else ""
