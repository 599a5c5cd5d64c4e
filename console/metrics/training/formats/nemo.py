"""NeMo: the lines of version 2, the progress bars of version 1 and Lightning, and DLLogger's JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from console.metrics.training.steps import Step
from console.metrics.training.values import (
    NUMBER,
    Found,
    broken,
    finite_total,
    inverse,
    name_of,
    number,
    positive,
    rounded,
    step_of,
)

_LINE = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,15}) \|")
_BAR = re.compile(
    r"(?:[Ee]poch (\d{1,9}):(?: ?:)?\s{0,9}|[Ee]poch \[(\d{1,9})/\d{1,9}\]: {0,9}|\b[Ss]teps?: {0,9}|[Tt]raining: {0,9}"
    r"|^\s{0,9})\d{1,3}%\|[^|]{0,400}\| *(\d{1,12})/(\d{1,15}) \[([^\]|]{1,4000})"
)
_RICH = re.compile(r"Epoch (\d{1,9})/\d{1,9}()\s+[━╸╺ ]{2,400} +(\d{1,12})/(\d{1,15}) +([\d:]{4,12} •[^|\n]{1,4000})")
"""Lightning's other bar."""
_OTHER_DATA = re.compile(r"(?i)\b(?:eval|valid|val|test)\w*\W*$")
"""What stands before a bar of data that is not trained on."""
_RATE = re.compile(r"([\d.]{1,20})(it/s|s/it)")
_PAIR = re.compile(rf"(\w[\w/ -]{{0,60}})=({NUMBER})")
_RICH_PAIR = re.compile(rf"(\w[\w/-]{{0,60}}): ({NUMBER})")
_LOSSES = ("reduced_train_loss", "train_loss", "train_loss_step", "step_loss", "loss")
_TAKEN = frozenset({*_LOSSES, "grad_norm", "lr", "learning_rate", "global_step", "train_step_timing in s"})
_BESIDE = frozenset({"global_step", "v_num", "num_updates"})  # pairs of a bar that are no figures of the step


def nemo(text: str) -> Found | None:
    """What one line says of a step."""
    if "Training epoch" in text:
        return _second(text)
    if "DLLL {" in text:
        return _logger(text)
    return next(iter(bars(text)), None)


def _second(text: str) -> Found | None:
    found = _LINE.search(text)
    if found is None:
        return None
    fields: dict[str, float] = {}
    for part in text[found.end() :].split("|"):
        name, _, value = part.partition(":")
        read = number(value)
        if read is not None:
            fields[name.strip()] = read
    epoch, at, last = (int(each) for each in found.groups())
    step = rounded(fields.get("global_step"))
    if step is None:
        step = at if epoch == 0 else None
    return _found(fields, step, finite_total(last + 1) if epoch == 0 else None, found.start())


def bars(text: str) -> list[Found]:
    """The bars in a line that tell of losses: several, where a file holds what a terminal draws over each other."""
    if "%|" not in text:
        return [each for found in _RICH.finditer(text) if (each := _drawn(found))] if "━" in text else []
    if "=" not in text:
        return []
    found = (
        each for each in _BAR.finditer(text) if not _OTHER_DATA.search(text, max(0, each.start() - 40), each.start())
    )
    return [each for bar in found if (each := _drawn(bar))]


def _drawn(found: re.Match[str]) -> Found | None:
    *epochs, at, total, behind = found.groups()
    clock, _, rest = behind.rpartition("•") if found.re is _RICH else ("", "", behind)
    pairs = _RICH_PAIR.findall(rest) if clock else _PAIR.findall(rest)
    figures = {name_of(name.strip()): value for name, raw in pairs if (value := number(raw)) is not None}
    if "act_lr" in figures and "pg" in figures:  # OpenRLHF
        figures["policy_loss"] = figures.pop("pg")
    epoch = int(epochs[0] or 0) if epochs[0] else max(0, int(epochs[1] or 1) - 1)
    updates = rounded(figures.get("num_updates"))
    number_ = updates if updates is not None else epoch * int(total) + int(at)
    step = step_of(number_, int(total) if epoch == 0 and updates is None else None, figures)
    if step is None:
        return None
    rate = _RATE.search(rest)
    speed = positive(rate.group(1)) if rate else None
    if speed is not None and rate and rate.group(2) == "it/s":
        speed = inverse(speed)
    kept = {name: value for name, value in step.extra.items() if name not in _BESIDE}
    step = step._replace(step_time_s=step.step_time_s or speed, extra=kept)
    return Found("nemo" if "reduced_train_loss" in figures else "progress-bar", step, found.start())


def _logger(text: str) -> Found | None:
    start = text.index("DLLL {")
    try:
        said = json.loads(text[start + 5 :])
    except (ValueError, RecursionError):
        return None
    data: Any = said.get("data") if isinstance(said, dict) else None
    if not isinstance(data, dict):
        return None
    fields = {str(key): value for key, raw in data.items() if (value := _value(raw)) is not None}
    place = fields.get("global_step", _value(said.get("step")))
    if not any(name in fields for name in _LOSSES):
        return None
    return _found(fields, rounded(place), None, start)


def _value(raw: Any) -> float | None:
    if isinstance(raw, list) and raw:
        raw = raw[-1]
    return number(str(raw)) if isinstance(raw, (int, float, str)) and not isinstance(raw, bool) else None


def _found(fields: dict[str, float], step: int | None, total: int | None, at: int) -> Found:
    name = next((each for each in _LOSSES if each in fields), None)
    loss, grad_norm = fields[name] if name else None, fields.get("grad_norm")
    timing = fields.get("train_step_timing in s")
    extra = {key: value for key, value in fields.items() if key not in _TAKEN}
    read = Step(
        step=step,
        total=total,
        loss=loss,
        grad_norm=grad_norm,
        lr=fields.get("lr", fields.get("learning_rate")),
        step_time_s=timing if timing and timing > 0 else None,
        nan=broken(loss, grad_norm),
        extra=extra,
    )
    return Found("nemo" if name in {None, "reduced_train_loss"} else "progress-bar", read, at)
