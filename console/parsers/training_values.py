"""Numbers as training programs print them, and what a line of a log yields."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.models.training import Step

NUMBER = (
    r"[-+]?(?:\d[\d,]{0,30}\.?\d{0,30}(?:[eE][-+]?\d{1,4})?|\.\d{1,30}(?:[eE][-+]?\d{1,4})?|nan|NaN|NAN|inf|INF|Inf)"
)
"""Pattern of a number: thousands commas, exponents, nan and inf in any of their spellings."""
_SHORT = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_COUNT = re.compile(r"[0-9]{1,15}")
_DURATION = re.compile(r"[0-9]{1,9}")
ENDLESS = 10_000_000
"""A total above this is a stand-in for "no end"."""


@dataclass(slots=True)
class Found:
    """One report of a step, and which program's it is."""

    format: str
    step: Step
    at: int = 0
    """Where in its line it begins: in front of it stand the labels of who printed it."""


def number(text: str) -> float | None:
    """A number with its commas, SI letter, percent sign or quotes; None if it is none."""
    try:
        return float(text)
    except ValueError:
        pass
    text = text.strip(" \t'\"%").replace(",", "").replace("_", "x")
    times = _SHORT.get(text[-1:], 1.0)
    try:
        return float(text[:-1] if times != 1.0 else text) * times
    except ValueError:
        return None


def positive(text: str) -> float | None:
    """A figure that 0 or less, and infinity, would make meaningless: a rate, a speed, a time."""
    value = number(text)
    return value if value is not None and 0 < value < math.inf else None


def count(text: str) -> int | None:
    """A whole number of at most 15 digits."""
    text = text.strip(" \t'\"")
    return int(text) if _COUNT.fullmatch(text) else None


def rounded(value: float | None) -> int | None:
    """A step that was printed as a decimal or with an exponent."""
    return round(value) if value is not None and 0 <= value < 1e15 else None


def finite_total(total: int | None) -> int | None:
    """A total that means one."""
    return total if total is not None and 0 < total < ENDLESS else None


def seconds(clock: str) -> int | None:
    """Seconds of `mm:ss` or `hh:mm:ss`."""
    parts = _DURATION.findall(clock)
    if not 1 <= len(parts) <= 3:
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total


def inverse(value: float | None) -> float | None:
    """Seconds for one from a rate, and the other way round."""
    return 1 / value if value else None


def thousandth(value: float | None) -> float | None:
    """Seconds of milliseconds."""
    return round(value / 1000, 9) if value is not None else None


def broken(loss: float | None, grad_norm: float | None = None) -> bool:
    """Whether these say that training has gone wrong; an infinite gradient alone is an overflow, not a nan."""
    return (loss is not None and not math.isfinite(loss)) or (grad_norm is not None and math.isnan(grad_norm))
