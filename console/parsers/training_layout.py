"""Lines of a learned program whose words stay the same: all of a piece of a log taken at once, values by their place.

A line is read by itself until its layout is known; then one pattern, with the words fixed and of each number its kind
(whole, or with decimals), says of a whole piece of the log whether all its lines are like that. Whatever is not, is
read by itself again: "nan", a number that gets another kind, a line of something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from console.models.training import Step
from console.parsers.training_values import count, finite_total, inverse, number, thousandth

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_LONGEST = 1000
"""Letters of a line of which a layout is made: with other numbers it stays below what is read of any line."""
_MOST = 24
"""Numbers of such a line."""
_WHOLE = re.compile(r"[0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,20}(?:[eE][-+]?[0-9]{1,2})?")
_POWER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,20})?[eE][-+]?[0-9]{1,2}")
_STEP = partial(tuple.__new__, Step)
_ONLY_DIGITS = r"[0-9]{1,12}"
_KINDS = ((_WHOLE, r"[0-9]{1,12}(?:,[0-9]{3}){0,3}"), (_POWER, _POWER.pattern), (_DECIMAL, _DECIMAL.pattern))


@dataclass(frozen=True, slots=True)
class Slot:
    """One number of a line."""

    role: str
    """Field of `Step`, or the name under which it stands among the others; empty: neither."""
    rule: str
    """How it is read: one of `_RULES`, or "extra"."""
    start: int
    end: int
    times: str = ""
    """SI letter behind it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the lines of one kind look like, and which field each of their numbers is."""

    label: str
    """Who prints them."""
    pattern: re.Pattern[bytes]
    """One line with its end."""
    many: re.Pattern[bytes]
    """As many of them as follow each other."""
    slots: tuple[Slot, ...]

    def front(self, piece: bytes) -> tuple[int, list[tuple[bytes, ...]]]:
        """Bytes at the beginning of that piece, which are such lines and nothing else, and the numbers of each."""
        rows = self.pattern.findall(piece)
        if len(rows) == piece.count(b"\n") and piece.endswith(b"\n"):
            return len(piece), rows
        found = self.many.match(piece)
        end = found.end() if found else 0
        return end, self.pattern.findall(piece[:end]) if end else []

    def steps(self, rows: Sequence[tuple[bytes, ...]]) -> list[Step]:
        """What these lines say."""
        columns: dict[str, Iterable[object]] = {}
        extras: dict[str, list[float]] = {}
        for slot, column in zip(self.slots, zip(*rows, strict=True), strict=True):
            if slot.rule == "extra":
                extras[slot.role] = _numbers(column, slot)
            elif slot.role:
                columns[slot.role] = _RULES[slot.rule](column, slot)
        others: Iterable[dict[str, float]] = repeat({}, len(rows))
        if len(extras) == 1:
            (name, values), *_ = extras.items()
            others = [{name: value} for value in values]
        elif extras:
            others = [dict(zip(extras, each, strict=True)) for each in zip(*extras.values(), strict=True)]
        nothing: Iterable[object] = repeat(None)
        fields = [columns.get(name, nothing) for name in Step._fields[:9]]
        return list(map(_STEP, zip(*fields, repeat(False), repeat(False), others, strict=False)))


def layout(
    text: str, label: re.Match[str] | None, slots: Sequence[Slot], keys: Sequence[tuple[int, int]]
) -> Layout | None:
    """The layout of that line; None where its numbers are of kinds that may change what the line means.

    `label`: where it says who prints it. Of that and of the keys digits count too.
    """
    slots = sorted(slots, key=lambda slot: slot.start)
    if len(text) > _LONGEST or len(slots) > _MOST:
        return None
    pattern, at = "", 0
    kept = [*keys, label.span()] if label else keys
    for slot in slots:
        value = text[slot.start : slot.end]
        kind = next((kind for shape, kind in _KINDS if shape.fullmatch(value)), None)
        if slot.role in {"step", "total"}:
            kind = _ONLY_DIGITS if value.isascii() and value.isdigit() and len(value) <= 12 else None
        if slot.start < at or kind is None:
            return None
        pattern += f"{_words(text, at, slot.start, kept)}({kind})"
        at = slot.end
    pattern += _words(text, at, len(text), kept) + r"\n"
    whole = pattern.encode()
    name = next((each for each in label.groups() if each), "") if label else ""
    return Layout(
        name,
        re.compile(b"^" + whole, re.MULTILINE),
        re.compile(b"(?:" + re.sub(rb"(?<!\\)\((?!\?)", b"(?:", whole) + b")*+"),
        tuple(slots),
    )


def _words(text: str, start: int, end: int, kept: Sequence[tuple[int, int]]) -> str:
    """A pattern of these words: of other numbers than the values any digits, of padding any width."""
    found = ""
    at = start
    for each in re.finditer(r"[0-9]{1,12}(?![0-9])|(?<! ) {2,6}(?! )", text[start:end]):
        first, last = start + each.start(), start + each.end()
        if any(begin < last and first < stop for begin, stop in kept):
            continue
        found += re.escape(text[at:first]) + (" {2,6}" if text[first] == " " else _ONLY_DIGITS)
        at = last
    return found + re.escape(text[at:end])


def _numbers(column: Sequence[bytes], slot: Slot) -> list[float]:
    """The numbers of a column; those that come again and again (a learning rate) are made once."""
    values = set(column)
    if 2 * len(values) > len(column):
        return _made(column, slot)
    known = dict(zip(values, _made(values, slot), strict=True))
    return list(map(known.__getitem__, column))


def _made(column: Collection[bytes], slot: Slot) -> list[float]:
    if not slot.times:
        try:
            return list(map(float, column))
        except ValueError:  # thousands commas
            pass
    return [number(each.decode() + slot.times) or 0.0 for each in column]


def _plain(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    return _numbers(column, slot)


def _nonzero(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    return [value or None for value in _numbers(column, slot)]


def _positive(column: Sequence[bytes], slot: Slot) -> list[float | None]:
    return [value if value > 0 else None for value in _numbers(column, slot)]


def _milli(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    return map(thousandth, _positive(column, slot))


def _inverse(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    return map(inverse, _positive(column, slot))


def _total(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    known = {each: finite_total(count(each.decode())) for each in set(column)}
    return [known[each] for each in column]


def _step(column: Sequence[bytes], slot: Slot) -> Iterable[object]:
    return map(int, column)


_RULES: dict[str, Callable[[Sequence[bytes], Slot], Iterable[object]]] = {
    "step": _step,
    "total": _total,
    "plain": _plain,
    "nonzero": _nonzero,
    "positive": _positive,
    "milli": _milli,
    "inverse": _inverse,
}
