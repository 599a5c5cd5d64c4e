"""Figures of a learned line with their unit behind them, or with a unit for a key: `1234 tok/s`, `tok/s 1234`.

Between two numbers a unit may be either. What stands before the first number decides: the value of a loss has no unit;
where nothing does, the figure is unknown.
"""

from __future__ import annotations

import re

from console.parsers.training_values import NUMBER

SPEEDS = (
    "tokens_per_s", "tokens_per_second", "tok/s", "tok/sec", "tokens/s", "tokens/sec", "tps",
    "tokens_per_sec", "tokens_per_second_per_gpu", "tgs", "interval_tokens_per_second_per_device", "toks/s",
    "e2e", "device/tokens_per_second", "device/tps",
)  # fmt: skip
TIMES = (
    "step_time", "dt", "time", "iter_time", "time_per_step", "step_time_s", "time/step", "time_per_iteration",
    "total_step_time", "elapsed_time_per_iteration", "per_step_time",
    "train_step_timing_in_s",
)  # fmt: skip
TIMES_MS = ("step_time_ms", "time_ms", "iter_time_ms", "dt_ms", "elapsed_time_per_iteration_ms")
PER_STEP = ("s/it", "s/iter", "s/step", "sec/it", "sec/step", "ms/it", "ms/iter", "ms/step")
PER_SECOND = ("it/s", "iter/s", "steps/s", "it/sec", "steps/sec", "interval_steps_per_second")
UNITS = frozenset({*SPEEDS[2:6], *PER_STEP, *PER_SECOND, "ms", "s"})
"""Words that may stand behind a figure as well as before it."""
_TOKENS = re.compile(rf"(?<![\w.,])({NUMBER})([KM]?) ?(?:tok|tokens)/s(?:ec)?\b(?! ?[:=])")
_RATE = re.compile(rf"(?<![\w.,])({NUMBER})() ?(ms|s|sec|it|iter|steps)/(it|iter|step|s|sec)(?![\w/])(?! ?[:=])")
_BARE_TIME = re.compile(rf"[|,] ?({NUMBER})() ms\b(?!/)")
_BEFORE = re.compile(r"(?<![\w.])([A-Za-z][\w/.()-]{0,40})(?: {0,6}[:=] {0,8}| {1,8}\[?)$")
_NUMBER_BEFORE = re.compile(rf"(?<![\w.,])({NUMBER})[KM]? ?$")
_UNITLESS = re.compile(
    r"(?i)(?:.*[_/])?(?:loss|norm|gnorm|grad|lr|rate|step|steps|iteration|iter|it|update|num_updates|batch|epoch)"
)

Source = re.Match[str] | str | None
"""A number before its unit, the key of a pair, or nothing that is known."""


def tokens_source(text: str, keys: dict[str, tuple[str, str, str]]) -> Source:
    """Where the line says how many tokens a second."""
    key = next((name for name in SPEEDS if name in keys), None)
    found = _TOKENS.search(text) if "tok" in text else None
    return _decided(found, key, text)


def time_source(text: str, keys: dict[str, tuple[str, str, str]]) -> Source:
    """Where the line says how long a step took; a rate in `PER_SECOND`, or of `it/s`, is to be turned round."""
    for name in (*TIMES, *TIMES_MS):
        if name in keys:
            return name
    key = next((name for name in (*PER_STEP, *PER_SECOND) if name in keys), None)
    found = next((each for each in _RATE.finditer(text) if _is_rate(each)), None) if "/" in text else None
    if (found or key) and "%|" not in text:
        return _decided(found, key, text)
    return _BARE_TIME.search(text) if " ms" in text else None


def per_second(source: re.Match[str] | str) -> bool:
    """Whether that is a rate."""
    if isinstance(source, str):
        return source in PER_SECOND
    return source.re is _RATE and source.group(3) in {"it", "iter", "steps"}


def milli(source: re.Match[str]) -> bool:
    """Whether that is in milliseconds."""
    return source.re is _BARE_TIME or (source.re is _RATE and source.group(3) == "ms")


def _is_rate(found: re.Match[str]) -> bool:
    return f"{found.group(3)}/{found.group(4)}" in UNITS


def _decided(found: re.Match[str] | None, key: str | None, text: str) -> Source:
    if found is None:
        return key
    before = _owner(text, found.start(1))
    if before and (before.lower() in UNITS or _UNITLESS.fullmatch(before)):
        return key
    return None if before and key in UNITS else found


def _owner(text: str, start: int) -> str:
    """The word whose value the number there is; none, if that word is the unit of a number before it."""
    first = max(0, start - 60)
    found = _BEFORE.search(text[first:start])
    if found is None:
        return ""
    if found.group(1).lower() in UNITS:
        at = first + found.start(1)
        number = _NUMBER_BEFORE.search(text[max(0, at - 60) : at])
        if number is not None:
            owner = _owner(text, max(0, at - 60) + number.start(1))
            return "" if not owner or not _UNITLESS.fullmatch(owner) else found.group(1)
    return found.group(1)
