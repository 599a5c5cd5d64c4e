"""NeMo: the lines of version 2, the progress bars of version 1 and Lightning, and DLLogger's JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from console.models.training import Step
from console.parsers.training_values import NUMBER, Found, broken, finite_total, inverse, number, positive, rounded

_LINE = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,15}) \|")
_BAR = re.compile(
    r"(?:Epoch (\d{1,9}):\s{0,9}|\b[Ss]teps?: {0,9}|[Tt]raining: {0,9}|^\s{0,9})"
    r"\d{1,3}%\|[^|]{0,400}\| *(\d{1,12})/(\d{1,15}) \[([^\]]{1,4000})"
)
_RATE = re.compile(r"([\d.]{1,20})(it/s|s/it)")
_PAIR = re.compile(rf"(\w[\w/ -]{{0,60}})=({NUMBER})")
_LOSSES = ("reduced_train_loss", "train_loss", "train_loss_step", "step_loss", "loss")
_TAKEN = frozenset({*_LOSSES, "grad_norm", "lr", "learning_rate", "global_step", "train_step_timing in s"})


def nemo(text: str) -> Found | None:
    """What one line says of a step."""
    if "Training epoch" in text:
        return _second(text)
    if "DLLL {" in text:
        return _logger(text)
    return _first(text) if "%|" in text else None


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


def _first(text: str) -> Found | None:
    found = _BAR.search(text)
    if found is None:
        return None
    fields = {name.strip(): value for name, raw in _PAIR.findall(found.group(4)) if (value := number(raw)) is not None}
    epoch, at, total = (int(each or 0) for each in found.groups()[:3])
    rate = _RATE.search(found.group(4))
    speed = positive(rate.group(1)) if rate else None
    if speed is not None and rate and rate.group(2) == "it/s":
        speed = inverse(speed)
    if not any(name in fields for name in _LOSSES):
        return None
    return _found(fields, epoch * total + at, finite_total(total) if epoch == 0 else None, found.start(), speed)


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


def _found(fields: dict[str, float], step: int | None, total: int | None, at: int, speed: float | None = None) -> Found:
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
        step_time_s=timing if timing and timing > 0 else speed,
        nan=broken(loss, grad_norm),
        extra=extra,
    )
    return Found("nemo" if name in {None, "reduced_train_loss"} else "progress-bar", read, at)
