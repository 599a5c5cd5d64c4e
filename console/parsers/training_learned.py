"""Programs nobody described: a step, a loss and what else stands on their line as `key value`, learned from the log.

A line that begins with its step is believed at once; one that does not, when its keys come a second time.
"""

from __future__ import annotations

import re

from console.models.training import Step
from console.parsers.training_values import NUMBER, Found, broken, count, finite_total, number, positive, thousandth

_PAIR = re.compile(
    r"(?<![\w.])([A-Za-z][\w/.()-]{0,40}(?: [a-z_]{1,20})?)(?: {0,6}[:=] {0,8}| {1,8})"
    rf"({NUMBER})(?![A-Za-z]{{3}})([KMGT](?![A-Za-z]))?(?: ?/ ?(\d{{1,15}}))?( ?(?:ms|s)\b(?!/))?"
)
_TOKENS = re.compile(rf"({NUMBER}[KM]?) ?(?:tok|tokens)/s(?:ec)?\b")
_LABELS = re.compile(
    r"[^A-Za-z]*(?:[\[(][^\])]{0,80}[\])][^A-Za-z]*){0,4}(?:[\w.-]{1,60} - [A-Z]{4,8} - |[A-Z]{4,8}[: ]+)?"
)
_STEPS = ("step", "global_step", "iteration", "iter", "train_step", "update", "batch", "it", "steps")
_LOSSES = ("loss", "train_loss", "training_loss", "loss_train", "lm_loss", "train/loss", "avg_loss", "total_loss")
_NORMS = ("grad_norm", "gnorm", "norm", "gradient_norm", "grad")
_RATES = ("lr", "learning_rate")
_TIMES = ("step_time", "dt", "time", "iter_time", "time_per_step", "step_time_s", "time/step", "time_per_iteration")
_TIMES_MS = ("step_time_ms", "time_ms", "iter_time_ms", "dt_ms")
_SPEEDS = ("tokens_per_s", "tokens_per_second", "tok/s", "tok/sec", "tokens/s", "tokens/sec", "tps")
_FLOPS = ("tflops", "tflops_per_gpu", "tflop/s", "tflops/gpu", "tflop/s/gpu")
_OTHER_DATA = re.compile(r"\b(?:[Ee]val\w*|[Vv]alid\w*|val|[Tt]est)[ _/](?:step|loss|after|batch|set|acc)")
_MOST = 64
"""Kinds of lines remembered that came once."""


class Learned:
    """Recognises the progress line of a program by its keys."""

    def __init__(self) -> None:
        self._once: dict[tuple[str, ...], Found] = {}
        self._known: set[tuple[str, ...]] = set()

    def read(self, text: str) -> list[Found]:
        """What the line says; with the line before it that had the same keys, once they are recognised."""
        pairs = _pairs(text)
        keys = tuple(pairs)
        at = next((key for key in _STEPS if key in pairs), None)
        loss = next((key for key in _LOSSES if key in pairs), None)
        if at is None or loss is None or _evaluation(keys) or _OTHER_DATA.search(text):
            return []
        found = _found(pairs, at, loss, text)
        if found is None:
            return []
        if keys in self._known or _begins_with(at, text):
            self._known.add(keys)
            return [found]
        before = self._once.pop(keys, None)
        if before is None:
            if len(self._once) < _MOST:
                self._once[keys] = found
            return []
        self._known.add(keys)
        return [before, found]


def _pairs(text: str) -> dict[str, tuple[str, str, str]]:
    """Key to number, total behind a slash and unit; the first of each key."""
    pairs: dict[str, tuple[str, str, str]] = {}
    for key, value, short, total, unit in _PAIR.findall(text[:4096]):
        name = key.lower().replace(" ", "_").replace("-", "_")
        for each in (name, name.rpartition("_")[2] if " " in key else name):
            if each in _STEPS or each in _LOSSES or each == name:
                pairs.setdefault(each, (value + short, total, unit.strip()))
                break
    return pairs


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
    tokens = _TOKENS.search(text)
    taken = {at, loss, *_NORMS, *_RATES, *_TIMES, *_TIMES_MS, *_SPEEDS, *_FLOPS}
    read = Step(
        step=step,
        total=finite_total(total),
        loss=value,
        grad_norm=grad_norm,
        lr=first(_RATES),
        step_time_s=_time(pairs),
        tflops_per_gpu=first(_FLOPS) or None,
        tokens_per_s=positive(tokens.group(1)) if tokens else first(_SPEEDS) or None,
        nan=broken(value, grad_norm),
        extra={
            name: value for name, each in pairs.items() if name not in taken and (value := number(each[0])) is not None
        },
    )
    return Found("key-value", read, 0)


def _time(pairs: dict[str, tuple[str, str, str]]) -> float | None:
    for names, always in ((_TIMES, False), (_TIMES_MS, True)):
        for name in names:
            if name in pairs:
                value, _, unit = pairs[name]
                return thousandth(positive(value)) if always or unit == "ms" else positive(value)
    return None
