"""What a parser made of a log, beside what stands in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """From best to worst."""

    RIGHT = "right"
    PARTLY = "partly"
    """Nothing of it is wrong, some is missing."""
    NOTHING = "not understood"
    WRONG = "wrong"
    """A figure is told that is not so: the one thing that must not be."""


@dataclass(frozen=True, slots=True)
class Case:
    """One log and how well it is read."""

    file: str
    verdict: Verdict
    why: str = ""
    """The first fact that is missing or wrong."""


def judge(file: str, wanted: Mapping[str, object], read: Mapping[str, object], *, understood: bool) -> Case:
    """Compare fact by fact; `understood`: the parser told something of the log."""
    verdicts = {name: compare(fact, read.get(name)) for name, fact in wanted.items()}
    for worst in (Verdict.WRONG, Verdict.PARTLY):
        for name, each in verdicts.items():
            if each is worst:
                why = f"{name}: {wanted[name]!r:.160} wanted, {read.get(name)!r:.160} read"
                return Case(file, worst if understood or worst is Verdict.WRONG else Verdict.NOTHING, why)
    return Case(file, Verdict.RIGHT)


def compare(wanted: object, read: object) -> Verdict:
    """Right, partly or wrong; what is None or empty is missing, and of rows some may be missing."""
    if repr(wanted) == repr(read):  # so that nan is nan
        return Verdict.RIGHT
    if read is None or read in ("", (), []):
        return Verdict.PARTLY
    if _is_rows(wanted) and _is_rows(read):
        return _rows(list(wanted), list(read))  # type: ignore[call-overload]
    return Verdict.WRONG


def _is_rows(fact: object) -> bool:
    return isinstance(fact, Sequence) and not isinstance(fact, str)


def _rows(wanted: list[object], read: list[object]) -> Verdict:
    """Each row that was read has to be one of those wanted, in their order."""
    worst, at = Verdict.RIGHT if len(read) == len(wanted) else Verdict.PARTLY, 0
    for row in read:
        verdict = Verdict.WRONG
        while at < len(wanted) and (verdict := compare(wanted[at], row)) is Verdict.WRONG and len(read) < len(wanted):
            at += 1
        if verdict is Verdict.WRONG:
            return verdict
        at += 1
        worst = worst if verdict is Verdict.RIGHT else verdict
    return worst
