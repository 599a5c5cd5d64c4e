"""One command in many ranks: what each of them said, and which of them said the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.models.rank_words import pod_words, ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

TIMED_OUT = 124
"""Exit code of a rank that took too long, as `timeout` has it."""
_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class RankOutput:
    """How the command went in one rank."""

    rank: int
    pod: str
    node: str
    code: int | None = None
    """None until it has ended."""
    output: str = ""
    """What it printed; where it wrote to both, errors as they came in between."""
    errors: str = ""
    """What of that went to standard error."""
    failure: str = ""
    """Why it could not run, or was given up; a sentence."""
    seconds: float = 0.0
    cut: bool = False
    """Whether it printed more than is kept."""

    @property
    def said(self) -> str:
        """What a person compares: the output without blank ends, or why there is none."""
        return self.output.rstrip() if not self.failure else f"{self.output.rstrip()}\n{self.failure}".strip()


@dataclass(frozen=True, slots=True)
class OutputGroup:
    """Ranks that said the same."""

    ranks: tuple[int, ...]
    code: int | None
    said: str
    odd: bool = False
    """Whether most ranks said something else, or it failed."""

    @property
    def words(self) -> str:
        """The ranks, such as "pods 0-6" or "pod 7"."""
        return pod_words(*self.ranks)


def grouped(outputs: Iterable[RankOutput]) -> tuple[OutputGroup, ...]:
    """Those that have ended, equal ones together: the largest group first, then by their first rank."""
    found: dict[tuple[str, int | None], list[int]] = {}
    for each in sorted(outputs, key=lambda each: each.rank):
        if each.code is not None:
            found.setdefault((each.said, each.code), []).append(each.rank)
    ranked = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[1][0]))
    every = sum(len(ranks) for _, ranks in ranked)
    most = bool(ranked) and len(ranked[0][1]) * 2 > every  # without a majority nobody is odd, as with `hostname`
    return tuple(
        OutputGroup(tuple(ranks), code, said, bool(code) or (most and at > 0))
        for at, ((said, code), ranks) in enumerate(ranked)
    )


def worst(outputs: Iterable[RankOutput]) -> int:
    """The exit code of all: the highest."""
    return max((each.code or 0 for each in outputs), default=0)


def parse_ranks(text: str, known: Collection[int]) -> tuple[int, ...]:
    """The ranks that `0-3,7` means, in order; BadInput if one of them is not known, or it is no such list."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadInput(f"{text!r} is no list of pods.", "Write it such as 0-3,7.")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise BadInput(f"{part.strip()} runs backwards.", f"Write {high}-{low}.")
        strange = next((rank for rank in range(low, high + 1) if rank not in known), None)
        if strange is not None:
            raise BadInput(f"There is no pod {strange}.", f"Its pods are {ranges(known)}." if known else "")
        found.update(range(low, high + 1))
    return tuple(sorted(found))
