"""Programs nobody described: a step, a loss and what else stands on their line as `key value`, learned from the log.

A line that begins with its step is believed at once; one that does not, when its keys come a second time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.models.training import Step
from console.parsers.training_known import reporter_in
from console.parsers.training_layout import Layout, Slot, layout
from console.parsers.training_units import (
    SPEEDS,
    TIMES,
    TIMES_MS,
    UNITS,
    milli,
    per_second,
    time_source,
    tokens_source,
)
from console.parsers.training_values import (
    NUMBER,
    Found,
    broken,
    count,
    finite_total,
    inverse,
    number,
    positive,
    thousandth,
)

_PAIR = re.compile(
    r"(?<![\w.])([A-Za-z][\w/.()-]{0,40}(?: [a-z_]{1,20})?)(?: ?\((ms|s)\))?(?: {0,6}[:=] {0,8}| {1,8}\[?)"
    rf"({NUMBER})(?![A-Za-z]{{3}}|[\d.,]{{0,30}}:\d)([KMGT](?![A-Za-z]))?"
    r"(?:(?: ?/ ?| of )(\d{1,15}))?( ?(?:ms|s)\b(?!/))?"
)
_LABELS = re.compile(
    r"[^A-Za-z\[(]*(?:[\[(][^\])]{0,80}[\])][^A-Za-z\[(]*){0,4}"
    r"(?:[\w.-]{1,60} - [A-Z]{4,8} - |[A-Z]{4,8} - [\w.]{1,60} - |[A-Z]{4,8}:[\w.]{1,60}:|[A-Z]{4,8}[: ]+)?"
)
"""What loggers put in front of a line: dates, brackets, levels, names."""
_STEPS = ("step", "global_step", "iteration", "iter", "train_step", "update", "num_updates", "batch", "it", "steps")
_LOSSES = ("loss", "train_loss", "training_loss", "loss_train", "lm_loss", "train/loss", "avg_loss", "total_loss")
_NORMS = ("grad_norm", "gnorm", "norm", "gradient_norm", "grad")
_RATES = ("lr", "learning_rate")
_FLOPS = ("tflops", "tflops_per_gpu", "tflop/s", "tflops/gpu", "tflop/s/gpu")
_OTHER_DATA = re.compile(r"\b(?:[Ee]val\w*|[Vv]alid\w*|val|[Tt]est)[ _/](?:step|loss|after|batch|set|acc)")
LONGEST = 2048
"""Characters of a line that are looked at."""
_ANY = r"[-+]?(?:[\d.,]{1,40}(?:[eE][-+]?\d{1,4})?|[nN][aA][nN]|[iI][nN][fF])"
_MOST = 64
"""Kinds of lines remembered that came once."""
_TAKEN = frozenset({*_NORMS, *_RATES, *TIMES, *TIMES_MS, *SPEEDS, *_FLOPS, *UNITS})
"""Keys that stand in fields of a step, or would."""


class Learned:
    """Recognises the progress line of a program by its keys."""

    def __init__(self) -> None:
        self._once: dict[tuple[str, ...], Found] = {}
        self._known: set[tuple[str, ...]] = set()
        self._template: Template | None = None
        self.layout: Layout | None = None
        """What the lines look like, once that is known."""
        self._alone, self._next = 0, 1
        """Lines read by themselves, and after how many of them the layout is looked for again."""

    def read(self, text: str) -> list[Found]:
        """What the line says; with the line before it that had the same keys, once they are recognised."""
        pairs = self._template.pairs(text) if self._template else {}
        pairs = pairs or _pairs(text)
        keys = tuple(pairs)
        at = next((key for key in _STEPS if key in pairs), None)
        loss = next((key for key in _LOSSES if key in pairs), None)
        if at is None or loss is None or _evaluation(keys) or _other_data(text):
            return []
        found = _found(pairs, at, loss, text)
        if found is None:
            return []
        if keys in self._known or _begins_with(at, text):
            if keys not in self._known:
                self._known.add(keys)
                self._template = Template.of(text)
            self._look(text, at, loss)
            return [found]
        before = self._once.pop(keys, None)
        if before is None:
            if len(self._once) < _MOST:
                self._once[keys] = found
            return []
        self._known.add(keys)
        self._template = Template.of(text)
        return [before, found]

    def fits(self) -> None:
        """Lines were read by the layout."""
        self._alone, self._next = 0, 1

    def _look(self, text: str, at: str, loss: str) -> None:
        self._alone += 1
        if self._alone == self._next:
            self._next += min(self._next, _MOST)
            self.layout = _layout(text, at, loss)


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of line with its words fixed, so that only the numbers have to be read."""

    pattern: re.Pattern[str]
    keys: tuple[str, ...]
    ends: tuple[tuple[str, str], ...]
    """SI letter and unit of each number."""

    @classmethod
    def of(cls, text: str) -> Template | None:
        """The kind of a line of which all is understood."""
        pattern, keys, ends, at = "", [], [], None
        for found in _PAIR.finditer(text[:LONGEST]):
            name = _name(found.group(1))
            if name in keys:
                continue
            pattern += _loose(text[found.start() if at is None else at : found.start(1)])
            pattern += re.escape(found.group(1)) + _loose(text[found.end(1) : found.start(3)]) + f"({_ANY})"
            at = found.end(3)
            if found.group(5):
                pattern += _loose(text[at : found.start(5)]) + r"(\d{1,15})"
                at = found.end(5)
            else:
                pattern += "()"
            keys.append(name)
            ends.append((found.group(4) or "", found.group(2) or (found.group(6) or "").strip()))
        rest = _loose(text[at:LONGEST]) if at is not None else ""
        return cls(re.compile(f"{pattern}{rest}$"), tuple(keys), tuple(ends)) if keys else None

    def pairs(self, text: str) -> dict[str, tuple[str, str, str]]:
        """As `_pairs`; nothing if the line is of another kind."""
        found = self.pattern.search(text)
        if found is None:
            return {}
        groups = found.groups()
        return {
            key: (value + short, total, unit)
            for key, value, total, (short, unit) in zip(self.keys, groups[::2], groups[1::2], self.ends, strict=True)
        }


def _loose(words: str) -> str:
    """A pattern of these words, whatever their numbers and the space between them."""
    pieces = re.split(r"(\s+|\d[\d.,]*)", words)
    return "".join(
        re.escape(each) if not at % 2 else r"\s{1,40}" if each.isspace() else r"[\d.,]{1,30}"
        for at, each in enumerate(pieces)
    )


def _pairs(text: str) -> dict[str, tuple[str, str, str]]:
    """Key to number, total behind a slash and unit; the first of each key."""
    pairs: dict[str, tuple[str, str, str]] = {}
    for key, named, value, short, total, unit in _PAIR.findall(text[:LONGEST]):
        pairs.setdefault(_name(key), (value + short, total, named or unit.strip()))
    return pairs


def _name(key: str) -> str:
    """A key in small letters and joined; of two words the second, where that alone is a step or a loss."""
    first, between, second = key.lower().partition(" ")
    if between and first in UNITS:
        return second  # the unit of a number before it
    name = key.lower().replace(" ", "_").replace("-", "_")
    last = name.rpartition("_")[2]
    return last if " " in key and name not in _LOSSES and (last in _STEPS or last in _LOSSES) else name


def _other_data(text: str) -> bool:
    """Whether the line says that it is about data that is not trained on."""
    return ("val" in text or "Val" in text or "est" in text) and _OTHER_DATA.search(text) is not None


def _evaluation(keys: tuple[str, ...]) -> bool:
    """Whether the line is about data that is not trained on."""
    return any(key.startswith(("val", "eval", "test", "valid")) for key in keys)


def _begins_with(step: str, text: str) -> bool:
    start = _LABELS.match(text)
    rest = text[start.end() if start else 0 :].lower().replace(" ", "_").replace("-", "_")
    return rest.startswith(step)


def _found(pairs: dict[str, tuple[str, str, str]], at: str, loss: str, text: str) -> Found | None:
    step, total = count(pairs[at][0].replace(",", "")), count(pairs[at][1])
    value = number(pairs[loss][0])
    if step is None or value is None:
        return None

    def first(names: tuple[str, ...]) -> float | None:
        return next((number(pairs[name][0]) for name in names if name in pairs), None)

    grad_norm = first(_NORMS)
    read = Step(
        step=step,
        total=finite_total(total),
        loss=value,
        grad_norm=grad_norm,
        lr=first(_RATES),
        step_time_s=_time(pairs, text),
        tflops_per_gpu=first(_FLOPS) or None,
        tokens_per_s=_speed(pairs, text),
        nan=broken(value, grad_norm),
        extra={
            name: value
            for name, each in pairs.items()
            if name not in _TAKEN and name not in (at, loss) and (value := number(each[0])) is not None
        },
    )
    return Found("key-value", read, 0)


def _speed(pairs: dict[str, tuple[str, str, str]], text: str) -> float | None:
    source = tokens_source(text, pairs)
    if isinstance(source, str):
        return number(pairs[source][0]) or None
    return positive(source.group(1) + source.group(2)) if source else None


def _time(pairs: dict[str, tuple[str, str, str]], text: str) -> float | None:
    source = time_source(text, pairs)
    if source is None:
        return None
    short = _is_short(pairs, source)
    value = positive(pairs[source][0] if isinstance(source, str) else source.group(1))
    if per_second(source):
        return inverse(value)
    return thousandth(value) if short else value


def _is_short(pairs: dict[str, tuple[str, str, str]], source: re.Match[str] | str) -> bool:
    """Whether that time is in milliseconds."""
    return (
        milli(source) if isinstance(source, re.Match) else source in TIMES_MS or "ms" in (source[:2], pairs[source][2])
    )


def _layout(text: str, at: str, loss: str) -> Layout | None:
    """Where in lines like this one stands which field."""
    if len(text) > LONGEST:
        return None
    spans: dict[str, re.Match[str]] = {}
    for each in _PAIR.finditer(text):
        spans.setdefault(_name(each.group(1)), each)
    roles = _roles(text, at, loss)
    slots = {}
    for name, found in spans.items():
        role, rule = roles.get(name, ("", "plain") if name in _TAKEN else (name, "extra"))
        slots[found.span(3)] = Slot(role, rule, *found.span(3), found.group(4) or "")
        if name == at and found.group(5):
            slots[found.span(5)] = Slot("total", "total", *found.span(5))
    pairs = _pairs(text)
    for role, source in (("tokens_per_s", tokens_source(text, pairs)), ("step_time_s", time_source(text, pairs))):
        if not isinstance(source, re.Match):
            continue
        rule = "inverse" if per_second(source) else "milli" if milli(source) else "positive"
        same = slots.get(source.span(1))
        if same is not None and same.role:
            return None  # one number in two fields
        slots[source.span(1)] = Slot(role, rule, *source.span(1), source.group(2))
    kept = [each.span(1) for each in spans.values()]
    return layout(text, reporter_in(text, 0), list(slots.values()), kept)


def _roles(text: str, at: str, loss: str) -> dict[str, tuple[str, str]]:
    """Key to field, and to the rule by which it is read."""
    pairs = _pairs(text)
    roles = {
        names[0]: (role, rule)
        for role, rule, among in (
            ("grad_norm", "plain", _NORMS),
            ("lr", "plain", _RATES),
            ("tflops_per_gpu", "nonzero", _FLOPS),
        )
        if (names := [name for name in among if name in pairs])
    }
    if isinstance(speed := tokens_source(text, pairs), str):
        roles[speed] = ("tokens_per_s", "nonzero")
    if isinstance(time := time_source(text, pairs), str):
        rule = "inverse" if per_second(time) else "milli" if _is_short(pairs, time) else "positive"
        roles[time] = ("step_time_s", rule)
    return roles | {loss: ("loss", "plain"), at: ("step", "step")}
