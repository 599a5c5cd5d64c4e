"""Parses many step lines with the same words at once, taking values by position.

To learn what a number in a line means, the line's parser reads the line again with another number in that place: the
field that changes is the number's. Every parser of whole lines thus becomes fast without knowing of layouts. A pattern
with the words fixed, and for each number its notation (whole, decimal, exponent), then checks for a whole piece of the
log whether all its lines have this layout. Other lines are parsed one by one: with "nan", with a number in an untried
notation, or about something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, combinations, pairwise
from typing import Any

from msgspec import Struct

from trainlog.training.steps import PackedSteps, Step, is_same_step, pack_columns
from trainlog.training.values import StepReport, finite_total, milliseconds_to_seconds, parse_number, to_reciprocal

_MAX_LINE = 2000  # characters of a line of which a layout is made, below what is read of any line
_MAX_NUMBERS = 48  # numbers of such a line
_NUMBER = re.compile(
    r"(?:(?<=[\s=:|,'\"(\[])-)?[0-9]{1,15}(?:,[0-9]{3}){0,4}(?:\.[0-9]{1,20})?(?:(?<=[0-9.])[eE][-+]?[0-9]{1,2})?(?![0-9])"
)
_NUMBER_JOINTS = frozenset({"", ",", ".", "e", "E"})
_MAX_JOINTS = 3  # adjacent numbers: each joint multiplies the ways to match; a log's time has one
_DRAWN_BAR = r"(?<![0-9.])[0-9]{1,3}%\|[^|]{0,400}\|"  # the drawn part of a progress bar
_PADDING, _PADDING_WIDTHS = re.compile(r" {2,}| (?=[0-9-])"), (" ", " " * 9)
_BLANKS = re.compile(rf"{_DRAWN_BAR}|{_PADDING.pattern}")
_DRAWN_BAR_PATTERN = r"[0-9]{1,3}%\|[^|\n]{0,1200}\|"
_PADDING_PATTERN = " {1,16}"
_SLOT_JOINT = re.compile(rb"\)(?:\\?[,.]|[eE])?\(")  # between two numbers of a pattern
_STORED_NUMBER = re.compile(rb"(?<!\\)\(((?:[^()]|\(\?:(?:[^()]|\(\?:[^()]*\))*\))*)\)")  # of a pattern in a file
_STORED_LINE = re.compile(
    rf"\^(?:[^\\.^$*+?{{}}\[\]|() \n]|\\[^A-Za-z0-9\n]|{re.escape(_PADDING_PATTERN)}(?! |\\ )"
    rf"|{re.escape(_DRAWN_BAR_PATTERN)}|{_STORED_NUMBER.pattern.decode()})*\\n".encode()
)
_MAX_PATTERN = 16 * _MAX_LINE  # bytes of one
_BEFORE_SIGNED = re.compile(r"[\s=:|'\"(]")  # what stands before a number that may be negative
_ZERO_TEXT, _NEGATIVE_TEXT = "0", "-7.25"


class _NumberNotation(Struct, frozen=True):
    """How a number is written: as an integer, a decimal, or with an exponent."""

    pattern: str
    tries: tuple[str, ...]


_WHOLE_NUMBER = _NumberNotation("[0-9]{1,12}", ("7", "31", "6250"))
_NUMBER_KINDS = (
    _WHOLE_NUMBER,
    _NumberNotation(r"[0-9]{1,12}\.[0-9]{1,9}", ("7.25", "31.5", "6250.125", "0.000007031")),
    _NumberNotation(r"[0-9]{1,12}\.[0-9]{10,20}", ("7.2500000000001", "31.50000000000625")),
    _NumberNotation(
        r"[0-9]{1,3}(?:\.[0-9]{1,17})?[eE][-+]?[0-9]{1,2}", ("7.25e-05", "3e+01", "6.25E-03", "7.03125e-07")
    ),
    _NumberNotation(r"[0-9]{1,3}(?:,[0-9]{3}){1,3}", ("7,250", "31,500,000")),
    _NumberNotation(r"[0-9]{1,3}(?:,[0-9]{3}){1,3}\.[0-9]{1,9}", ("7,250.5", "31,500.25")),
)
_USUAL_KINDS = _NUMBER_KINDS[:4]
_WHOLE_PATTERNS = {_WHOLE_NUMBER.pattern, f"-?(?:{_WHOLE_NUMBER.pattern})"}
_FIELD_RULES: dict[str, Callable[[float], object]] = {  # what a field may be of its number
    "plain": lambda value: value,
    "nonzero": lambda value: value or None,
    "whole": int,
    "total": lambda value: finite_total(int(value)),
    "milli": milliseconds_to_seconds,
    "thousand milli": lambda value: milliseconds_to_seconds(value * 1e3),
    "inverse": lambda value: to_reciprocal(value) if value > 0 else None,
    "thousand": lambda value: value * 1e3,
    "million": lambda value: value * 1e6,
    "billion": lambda value: value * 1e9,
}

ParseLine = Callable[[str], "tuple[StepReport, str] | None"]  # what a line says, and who printed it


class NumberSlot(Struct, frozen=True):
    name: str  # the field of `Step`, or the name under which it stands among the others; empty: neither
    rule: str
    positive: bool  # whether only numbers above 0 mean what they seem to
    pattern: str


class LineLayout(Struct, eq=False):
    """The common form of similar lines: its fixed texts, and the field of each number."""

    format: str
    label: str  # who prints them
    pattern: re.Pattern[bytes]  # one line with its end
    slots: tuple[NumberSlot, ...]
    like: dict[str, Any]  # the values of one of them; what no slot says is the same in all
    draws_bar: bool
    differ: bool = False  # whether a line means something else where two of its numbers are equal

    def match_all(self, lines: bytes) -> list[tuple[bytes, ...]]:
        """The numbers of each line, if all whole lines of `lines` have this form; else empty."""
        rows = self.pattern.findall(lines) if self.pattern.match(lines) else []
        whole = len(rows) == lines.count(b"\n") and lines.endswith(b"\n")
        return rows if whole and not (self.differ and any(len({*row}) < len(row) for row in rows)) else []

    def check_line(self, line: str, parsed: tuple[StepReport, str] | None) -> bool:
        """Whether this layout gives the same step for a line as its parser."""
        rows = self.match_all(line.encode())
        steps = self.parse_rows(rows) if rows and parsed else None
        if not parsed or not steps or (self.format, self.label) != (parsed[0].format, parsed[1]):
            return False
        return is_same_step(steps[0], parsed[0].step)

    def parse_rows(self, rows: Sequence[tuple[bytes, ...]]) -> PackedSteps | None:
        """The steps of these lines; None if one of them must be parsed by itself."""
        found: dict[str, list[Any]] = {}
        for slot, column in zip(self.slots, zip(*rows, strict=True), strict=True):
            if not slot.name:
                continue
            if slot.rule in {"whole", "total"}:
                whole = list(map(int, column))
                found[slot.name] = whole if slot.rule == "whole" else list(map(finite_total, whole))
                if None in found[slot.name]:
                    return None
                continue
            values = _parse_numbers(column)
            if slot.positive and min(values) <= 0:
                return None
            if slot.rule != "plain":
                values = list(map(_FIELD_RULES[slot.rule], values))  # type: ignore[arg-type]
                if None in values or (slot.positive and min(values) <= 0):  # rounded to nothing
                    return None
            found[slot.name] = values
        return pack_columns({name: found.get(name) or [value] * len(rows) for name, value in self.like.items()})

    def can_be_learned(self) -> bool:
        """Whether a real line can have this layout; a layout read from a file may have invalid slots and figures."""
        numbers = [slot.pattern.encode() for slot in self.slots]
        counts = {slot.pattern for slot in self.slots if slot.rule in {"whole", "total"}}
        if numbers != _STORED_NUMBER.findall(self.pattern.pattern) or not counts <= _WHOLE_PATTERNS:
            return False
        try:
            return self.parse_rows([(b"7",) * len(numbers)]) is not None
        except (TypeError, KeyError, OverflowError):
            return False


def compile_stored_pattern(pattern: object) -> re.Pattern[bytes]:
    """The pattern of a layout in a file; ValueError for one that no line has, as it may match without end."""
    if not isinstance(pattern, bytes) or len(pattern) > _MAX_PATTERN or not _STORED_LINE.fullmatch(pattern):
        raise ValueError("a pattern that no line has")
    if len(_SLOT_JOINT.findall(pattern)) > _MAX_JOINTS or not _number_patterns().issuperset(
        _STORED_NUMBER.findall(pattern)
    ):
        raise ValueError("numbers that no line has")
    return re.compile(pattern, re.MULTILINE)


@cache
def _number_patterns() -> set[bytes]:
    """The patterns of the numbers in all slots that a line can have."""
    kinds = chain.from_iterable(combinations(_NUMBER_KINDS, length) for length in range(1, len(_NUMBER_KINDS) + 1))
    return {_number_pattern(some, signed=signed).encode() for some in kinds for signed in (False, True)}


def find_similar(
    layouts: Sequence[LineLayout], piece: bytes, start_indexes: Iterable[int]
) -> dict[int, tuple[LineLayout, PackedSteps, int]]:
    """By start of each line with one of these layouts: (layout, its steps, the line's index among them)."""
    rows: dict[LineLayout, dict[int, tuple[bytes, ...]]] = {}
    for start in start_indexes:
        for layout in layouts:
            row = found.groups() if (found := layout.pattern.match(piece, start)) else ()
            if row and not (layout.differ and len({*row}) < len(row)):
                rows.setdefault(layout, {})[start] = row
                break
    return {
        start: (layout, steps, at)
        for layout, lines in rows.items()
        if (steps := layout.parse_rows([*lines.values()]))
        for at, start in enumerate(lines)
    }


def _parse_numbers(column: Sequence[bytes]) -> list[float]:
    """The numbers of a column; repeated texts (a learning rate) are converted once."""
    values = set(column)
    if 2 * len(values) > len(column):
        return _to_floats(column)
    known = dict(zip(values, _to_floats(list(values)), strict=True))
    return list(map(known.__getitem__, column))


def _to_floats(column: Sequence[bytes]) -> list[float]:
    try:
        return list(map(float, column))
    except ValueError:  # thousands commas
        return [parse_number(each.decode()) or 0.0 for each in column]


def learn_layout(text: str, parse_line: ParseLine) -> LineLayout | None:
    """The layout of a line as `parse_line` parses it; None if its numbers may change the line's meaning."""
    parsed = parse_line(text)
    bars = [bar.span() for bar in re.finditer(_DRAWN_BAR, text)]
    places = [each for each in _NUMBER.finditer(text) if not any(at <= each.start() < end for at, end in bars)]
    if parsed is None or len(text) > _MAX_LINE or len(places) > _MAX_NUMBERS or "\ufffd" in text:
        return None
    if any(value != value for value in parsed[0].step.extra.values()):  # nan, which is like no other
        return None
    if sum(text[one.end() : other.start()] in _NUMBER_JOINTS for one, other in pairwise(places)) > _MAX_JOINTS:
        return None
    trial = _LayoutTrial(text, parse_line, parsed)
    pattern, same, at, slots = "", "", 0, []
    for place in places:
        slot = trial.find_slot(*place.span())
        pattern += trial.text_pattern(at, place.start())
        pattern += f"({slot.pattern})" if slot else re.escape(place.group())
        same += text[at : place.start()] + ("7" if slot else place.group())
        at = place.end()
        slots += [slot] if slot else []
    pattern += trial.text_pattern(at, len(text)) + r"\n"
    names = [slot.name for slot in slots if slot.name]
    lacks_step = parsed[0].step.step is not None and "step" not in names
    if len(slots) < 2 or not names or len(names) > len({*names}) or lacks_step:
        return None
    like = {name: value for name, value in trial.values.items() if value is not None and value is not False}
    line = re.compile(b"^" + pattern.encode(), re.MULTILINE)
    made = LineLayout(parsed[0].format, parsed[1], line, tuple(slots), like, bool(bars))
    alike = f"{same}{text[at:]}\n"
    made.differ = bool(line.match(alike.encode())) and not made.check_line(alike, parse_line(alike[:-1]))
    return made if made.check_line(f"{text}\n", parsed) else None


class _LayoutTrial:
    """Finds the field of each number in a line by parsing the line with other text in its place."""

    def __init__(self, text: str, parse_line: ParseLine, parsed: tuple[StepReport, str]) -> None:
        self._text = text
        self._parse_line = parse_line
        self._parsed = parsed
        self.values = _step_values(parsed[0].step)
        self._pads_freely = all(self._changes_of(_PADDING.sub(width, text)) == {} for width in _PADDING_WIDTHS)

    def find_slot(self, start: int, end: int) -> NumberSlot | None:
        """The field that the number at a position sets; None if the number must be equal in all lines."""
        name, rules, kinds = "", [*_FIELD_RULES], []
        for kind in _NUMBER_KINDS if "," in self._text[start:end] else _USUAL_KINDS:
            tried = [(float(each.replace(",", "")), self._changed_figures(start, end, each)) for each in kind.tries]
            changed = {key for _, values in tried if values is not None for key in values}
            if any(values is None for _, values in tried) or len(changed) > 1 or (name and changed - {name}):
                continue
            if not changed:
                kinds += [] if name else [kind]
                continue
            if not name:
                (name,), kinds = changed, []
            fitting = [
                rule
                for rule in rules
                if all(self._changes_only_field(rule, value, values, name) for value, values in tried)
            ]
            if fitting and (name not in {"step", "total", "skipped"} or kind is _WHOLE_NUMBER):
                rules, kinds = fitting, [*kinds, kind]
        if not kinds:
            return None
        if not name:
            return self._free_slot(start, end, kinds)
        zero, below = self._changed_figures(start, end, _ZERO_TEXT), None
        if _BEFORE_SIGNED.match(self._text, start - 1):
            below = self._changed_figures(start, end, _NEGATIVE_TEXT)
        rule = next((each for each in rules if self._changes_only_field(each, 0.0, zero, name)), None)
        signed = rule is not None and self._changes_only_field(rule, float(_NEGATIVE_TEXT), below, name)
        if self._text[start] == "-" and not signed:
            return None
        return NumberSlot(name, rule or rules[0], rule is None, _number_pattern(kinds, signed=signed))

    def _free_slot(self, start: int, end: int, kinds: Sequence[_NumberNotation]) -> NumberSlot | None:
        """A slot for a number that sets no field; None if 0 in its place changes a field, as with a count of nan."""
        if self._parsed[0].step.nan and self._changed_figures(start, end, _ZERO_TEXT) != {}:
            return None
        return NumberSlot("", "", False, _number_pattern(kinds, signed=self._text[start] == "-"))

    def text_pattern(self, start: int, end: int) -> str:
        """A pattern for this text; padding and bars may have any width where that does not matter."""
        found, at = "", start
        for blanks in _BLANKS.finditer(self._text, start, min(len(self._text), end + 1)):
            if blanks.start() >= end:
                break
            last = min(blanks.end(), end)
            drawn = blanks[0][-1] == "|"
            unsure = () if self._pads_freely else _PADDING_WIDTHS
            widths = ("7%|##|", "100%|##########|") if drawn else unsure
            if all(self._changed_figures(blanks.start(), last, width) == {} for width in widths):
                found += re.escape(self._text[at : blanks.start()])
                found += _DRAWN_BAR_PATTERN if drawn else _PADDING_PATTERN
                at = last
        return found + re.escape(self._text[at:end])

    def _changed_figures(self, start: int, end: int, other: str) -> dict[str, object] | None:
        """The figures that change if `other` stands at a position; None if the line then has another meaning."""
        return self._changes_of(self._text[:start] + other + self._text[end:])

    def _changes_of(self, text: str) -> dict[str, object] | None:
        parsed = self._parse_line(text)
        if parsed is None or parsed[1] != self._parsed[1] or parsed[0].format != self._parsed[0].format:
            return None
        if parsed[0].step == self._parsed[0].step:
            return {}
        values = _step_values(parsed[0].step)
        pairs = {name: (values.get(name), self.values.get(name)) for name in values | self.values}
        return {name: new for name, (new, old) in pairs.items() if new != old and (new == new or old == old)}

    def _changes_only_field(self, rule: str, value: float, changed: dict[str, object] | None, name: str) -> bool:
        """Whether `value` at that position changed only the field `name`, and as the rule says."""
        if changed is None or changed.keys() - {name}:
            return False
        wanted, found = _FIELD_RULES[rule](value), changed.get(name, self.values.get(name))
        return wanted == found and type(wanted) is type(found)


def _step_values(step: Step) -> dict[str, object]:
    """The figures of a step by field name; names of extra figures begin with a blank."""
    fields: dict[str, object] = dict(zip(Step._fields[:-1], step, strict=False))
    return fields | {f" {name}": value for name, value in step.extra.items()}


def _number_pattern(kinds: Sequence[_NumberNotation], *, signed: bool) -> str:
    """One pattern for the three usual notations, which is faster than an alternation."""
    if _USUAL_KINDS[0] in kinds and _USUAL_KINDS[1] in kinds:
        decimals = 20 if _USUAL_KINDS[2] in kinds else 9
        power = r"(?:[eE][-+]?[0-9]{1,2})?" if _USUAL_KINDS[3] in kinds else ""
        usual = rf"[0-9]{{1,12}}(?:\.[0-9]{{1,{decimals}}})?{power}"
        others = [kind.pattern for kind in kinds if kind not in _USUAL_KINDS]
    else:
        usual, others = kinds[0].pattern, [kind.pattern for kind in kinds[1:]]
    every = "|".join([*reversed(others), usual])
    return ("-?" if signed else "") + (f"(?:{every})" if others or signed else every)
