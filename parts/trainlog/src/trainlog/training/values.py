"""Parses numbers, names and units as training programs print them, and builds a step from them.

A unit between two numbers may belong to either (`1234 tok/s`, `tok/s 1234`). The text before the first number decides:
the value of a loss has no unit. If nothing decides, the figure is unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from trainlog.regex import lazy_pattern
from trainlog.training.steps import Step

NUMBER = (  # pattern of a number: thousands commas, exponents, nan and inf in any of their spellings
    r"[-+]?(?:\d[\d,]{0,30}\.?\d{0,30}(?:[eE][-+]?\d{1,4})?|\.\d{1,30}(?:[eE][-+]?\d{1,4})?"
    r"|(?:nan|NaN|NAN|inf|INF|Inf)(?!(?!m?s\b)[A-Za-z]))"
)
_WRAPPED_NUMBER = lazy_pattern(  # a number in a wrapper: tensor(2.3, device='cuda:0'), np.float64(2.3)
    r"(?:tensor|[aA]rray|(?:np|numpy|torch|jnp)\.\w{1,12})\(\[{0,2}"
    rf"({NUMBER})\]{{0,2}}(?:, ?\w{{1,20}}=[^()]{{0,60}})?\)"
)
_LONG_DURATION = lazy_pattern(  # a duration of several units: 1h 12m 31s, 02m 05s 112ms
    r"(?<![\w.])(?=\d{1,9} ?[dhms]+ ?\d)(?:(\d{1,6}) ?d ?)?(?:(\d{1,6}) ?h ?)?(?:(\d{1,6}) ?m ?(?!s))?"
    r"(?:(\d{1,6}(?:\.\d{1,9})?) ?s ?)?(?:(\d{1,6}) ?ms)?(?![\w/])"
)
_SECONDS_PER_UNIT = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_UNIT_FACTORS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_COUNT_TEXT = lazy_pattern(r"[0-9]{1,15}")
_DURATION_TEXT = lazy_pattern(r"[0-9]{1,9}")
MAX_TOTAL_STEPS = 10_000_000  # a total above this is a stand-in for "no end"


class StepReport(Struct):
    """A report of one step, and the format it was printed in."""

    format: str
    step: Step
    at: int = 0  # where in its line it begins: in front of it stand the labels of who printed it


def parse_number(text: str) -> float | None:
    """Parse a number with commas, SI letter, percent sign or quotes; None for another text."""
    try:
        return float(text)
    except ValueError:
        pass
    text = text.strip(" \t'\"%").replace(",", "").replace("_", "x")
    times = _UNIT_FACTORS.get(text[-1:], 1.0)
    try:
        return float(text[:-1] if times != 1.0 else text) * times
    except ValueError:
        return None


def unwrap_numbers(text: str) -> str:
    """The text with wrapped numbers as plain ones, and durations of several units as seconds."""
    if "(" in text:
        text = _WRAPPED_NUMBER.sub(r"\1", text)
    if "m " in text or "h " in text:
        text = _LONG_DURATION.sub(lambda found: _format_span(found), text)
    return text


def _format_span(match: re.Match[str]) -> str:
    parts = [(float(part), unit) for part, unit in zip(match.groups(), _SECONDS_PER_UNIT, strict=True) if part]
    behind = " " if match[0].endswith(" ") else ""
    return f"{sum(part * unit for part, unit in parts):.9g}s{behind}" if len(parts) > 1 else match[0]


def parse_figures(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """The values that are numbers, by name; the last one of a repeated name."""
    return {name: value for name, raw in pairs if (value := parse_number(raw)) is not None}


def parse_positive(text: str) -> float | None:
    """Parse a figure that is only meaningful if positive and finite: a rate, speed or time; else None."""
    value = parse_number(text)
    return value if value is not None and 0 < value < math.inf else None


def parse_count(text: str) -> int | None:
    text = text.strip(" \t'\"")
    return int(text) if _COUNT_TEXT.fullmatch(text) else None


def to_step_number(value: float | None) -> int | None:
    """The integer step of a number printed as a decimal or with an exponent; None if it cannot be a step."""
    return round(value) if value is not None and 0 <= value < 1e15 else None


def finite_total(total: int | None) -> int | None:
    """The total number of steps; None if it is not positive, or so large that it stands for "no end"."""
    return total if total is not None and 0 < total < MAX_TOTAL_STEPS else None


def parse_seconds(clock: str) -> int | None:
    """Parse seconds, `mm:ss` or `hh:mm:ss` to seconds; else None."""
    parts, seconds = _DURATION_TEXT.findall(clock), 0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return seconds if 1 <= len(parts) <= 3 else None


def to_reciprocal(value: float | None) -> float | None:
    """The reciprocal: seconds per item from a rate, or the reverse; None for 0."""
    return 1 / value if value else None


def milliseconds_to_seconds(value: float | None) -> float | None:
    return round(value / 1000, 9) if value is not None else None


def is_broken(loss: float | None, grad_norm: float | None = None) -> bool:
    """Whether training has diverged; an infinite gradient alone is an overflow, which is harmless."""
    return (loss is not None and not math.isfinite(loss)) or (grad_norm is not None and math.isnan(grad_norm))


SPEED_NAMES = (
    "tokens_per_s", "tokens_per_second", "tok/s", "tok/sec", "tokens/s", "tokens/sec", "tps",
    "tokens_per_sec", "tokens_per_second_per_gpu", "tgs", "interval_tokens_per_second_per_device", "toks/s",
    "e2e", "device/tokens_per_second", "device/tps",
)  # fmt: skip
TIME_NAMES = (
    "step_time",
    "dt",
    "time",
    "iter_time",
    "time_per_step",
    "step_time_s",
    "time/step",
    "time_per_iteration",
    "total_step_time",
    "elapsed_time_per_iteration",
    "per_step_time",
    "train_step_timing_in_s",
    "iteration_time",
)
TIME_NAMES_MS = ("step_time_ms", "time_ms", "iter_time_ms", "dt_ms", "elapsed_time_per_iteration_ms")
TIME_UNITS = ("s/it", "s/iter", "s/step", "sec/it", "sec/step", "ms/it", "ms/iter", "ms/step")
RATE_UNITS = ("it/s", "iter/s", "steps/s", "it/sec", "steps/sec", "interval_steps_per_second", "steps_per_second")
KNOWN_UNITS = frozenset({*SPEED_NAMES[2:6], *TIME_UNITS, *RATE_UNITS, "ms", "s"})  # behind a figure or before it
_TOKENS_PER_SECOND = lazy_pattern(rf"(?<![\w.,])({NUMBER})([KM]?) ?(?:tok|tokens)/s(?:ec)?\b(?! ?[:=])")
_STEP_RATE = re.compile(rf"(?<![\w.,])({NUMBER})() ?(ms|s|sec|it|iter|steps)/(it|iter|step|s|sec)(?![\w/])(?! ?[:=])")
_BARE_TIME = re.compile(rf"[|,] ?({NUMBER})() ms\b(?!/)")
_NAME_BEFORE = lazy_pattern(r"(?<![\w.])([A-Za-z][\w/.()-]{0,40})(?: {0,6}[:=] {0,8}| {1,8}\[?)$")
_NUMBER_BEFORE = lazy_pattern(rf"(?<![\w.,])({NUMBER})[KM]? ?$")
_UNITLESS_NUMBER = lazy_pattern(
    r"(?i)(?:.*[_/])?(?:loss|norm|gnorm|grad|lr|rate|step|steps|iteration|iter|it|update|num_updates|batch|epoch)"
)

Source = re.Match[str] | str | None  # a number before its unit, the key of a pair, or nothing that is known


def find_tokens_source(text: str, keys: dict[str, tuple[str, str, str]]) -> Source:
    """The key or pattern in the line that gives the tokens per second."""
    key = next((name for name in SPEED_NAMES if name in keys), None)
    found = _TOKENS_PER_SECOND.search(text) if "tok" in text else None
    return _decide_source(found, key, text)


def find_time_source(text: str, keys: dict[str, tuple[str, str, str]]) -> Source:
    """The key or pattern of the line that gives the step time; a rate has to be inverted."""
    if "ups" in keys:  # updates per second: of programs whose time is that of many updates
        return "ups"
    if (time := next((name for name in (*TIME_NAMES, *TIME_NAMES_MS) if name in keys), None)) is not None:
        return time
    key = next((name for name in (*TIME_UNITS, *RATE_UNITS) if name in keys), None)
    rates = (each for each in _STEP_RATE.finditer(text) if f"{each[3]}/{each[4]}" in KNOWN_UNITS)
    found = next(rates, None) if "/" in text else None
    if (found or key) and "%|" not in text:
        return _decide_source(found, key, text)
    return _BARE_TIME.search(text) if " ms" in text else None


def is_per_second(source: re.Match[str] | str) -> bool:
    if isinstance(source, str):
        return source in RATE_UNITS or source == "ups"
    return source.re is _STEP_RATE and source.group(3) in {"it", "iter", "steps"}


def is_milliseconds(source: re.Match[str]) -> bool:
    return source.re is _BARE_TIME or (source.re is _STEP_RATE and source.group(3) == "ms")


def _decide_source(match: re.Match[str] | None, key: str | None, text: str) -> Source:
    if match is None:
        return key
    before = _name_before(text, match.start(1))
    if before and (before.lower() in KNOWN_UNITS or _UNITLESS_NUMBER.fullmatch(before)):
        return key
    return None if before and key in KNOWN_UNITS else match


def _name_before(text: str, start_offset: int) -> str:
    """The name of the number at `start_offset`; empty if the word before it is the unit of an earlier number."""
    first = max(0, start_offset - 60)
    found = _NAME_BEFORE.search(text[first:start_offset])
    if found is None:
        return ""
    if found.group(1).lower() in KNOWN_UNITS:
        at = first + found.start(1)
        number = _NUMBER_BEFORE.search(text[max(0, at - 60) : at])
        if number is not None:
            owner = _name_before(text, max(0, at - 60) + number.start(1))
            return "" if not owner or not _UNITLESS_NUMBER.fullmatch(owner) else found.group(1)
    return found.group(1)


STEP_NAMES = (
    "step",
    "global_step",
    "iteration",
    "iter",
    "train_step",
    "update",
    "num_updates",
    "batch",
    "it",
    "steps",
    "iter(train)",
)
LOSS_NAMES = (
    "reduced_train_loss", "loss", "train_loss", "training_loss", "loss_train", "lm_loss", "train/loss", "total_loss",
    "avg_loss", "step_loss", "train_loss_step", "avr_loss", "ce_loss", "crossentropyloss", "gpt_loss", "loss/total",
    "loss/train/total", "loss/policy_avg",
)  # fmt: skip
NORM_NAMES = (
    "grad_norm",
    "gnorm",
    "norm",
    "gradient_norm",
    "grad",
    "grad_norms/summary/total",
    "total_grad_norm",
    "l2_norm/grad/global",
)
LEARNING_RATE_NAMES = (
    "lr",
    "learning_rate",
    "train_learning_rate",
    "schedules/lr",
    "learning_rate_group0",
    "lr_decoupledadamw/group0",
    "act_lr",
)
FLOPS_NAMES = (
    "tflops",
    "tflops_per_gpu",
    "tflop/s",
    "tflops/gpu",
    "tflop/s/gpu",
    "model_tflops_per_gpu",
    "interval_hardware_tflops_per_device",
)
_FIELD_OF_NAME = {  # name to the field it is of, and how much other names of that field go before it
    name: (role, rank)
    for role, names in (
        ("grad_norm", NORM_NAMES),
        ("lr", LEARNING_RATE_NAMES),
        ("s", TIME_NAMES),
        ("ms", TIME_NAMES_MS),
        ("rate", RATE_UNITS),
        ("tokens", SPEED_NAMES),
        ("tflops", FLOPS_NAMES),
    )
    for rank, name in enumerate(names)
}
TAKEN_NAMES = frozenset({*_FIELD_OF_NAME, *KNOWN_UNITS})  # names of what stands in fields of a step, or would
_NO_STEP = lazy_pattern(  # what makes another figure of a step behind it
    r"(?:.*_)?(?:per|max|min|total|num|warmup|warm|every|each|last|of|until|remaining|skipped|saved?|checkpoint|best|next"
    r"|actor|rollout|env|sampling|decode|prefill|micro|inner|accumulation|tokens?|samples?|val\w*|eval\w*|test)_"
)
_NO_LOSS = lazy_pattern(  # what makes an addition to the loss, or the loss of something else, of a loss beside it
    r"(?:.*[_/.])?(?:aux\w*|z|mtp\w*|load|balanc\w*|router|moe|critic|value|vf|entropy|kl|kd|class|cls|reg\w*|distill\w*|val"
    r"|valid\w*|eval\w*|test|best|min|max|last|prev\w*|old|disc\w*|gen\w*|adv\w*|commit\w*|percept\w*)(?:[_/.].*)?"
)


@lru_cache(maxsize=4096)
def normalize_key(key: str) -> str:
    """The key in lower case with underscores; of several words only the last, if it alone is a name of the step."""
    words = [word.rstrip(".") for word in key.lower().replace("-", "_").split(" ")]
    if len(words) > 1 and words[0] in KNOWN_UNITS:
        del words[0]  # the unit of a number before it
    name = "_".join(words)
    if len(words) > 1 and name not in STEP_NAMES and words[-1] in STEP_NAMES and not _NO_STEP.match(name):
        return words[-1]
    return name


def find_loss_key(keys: Iterable[str]) -> str | None:
    """The key of the loss: a usual name, else the only other "loss" that is no auxiliary loss; None if unknown."""
    usual = next((name for name in LOSS_NAMES if name in keys), None)
    if usual is not None:
        return usual
    names = {name: name.removesuffix("loss_step") for name in keys if name.endswith("loss_step")}  # Lightning's
    names |= {name: name.removesuffix("_loss") for name in keys if name.endswith("_loss")}
    others = [name for name, of in names.items() if not _NO_LOSS.fullmatch(of.rstrip("_"))]
    return others[0] if len(others) == 1 else None


_NAME_PREFIXES = ("train/", "optim/", "throughput/device/", "throughput/", "perf/")  # before names sorted by kind


@lru_cache(maxsize=4096)
def plain_name(key: str) -> str:
    """A figure's name without prefixes and suffixes that only tell its kind."""
    name = normalize_key(key.removeprefix("Train ").strip())
    for _ in range(2):
        name = next((name.removeprefix(kind) for kind in _NAME_PREFIXES if name.startswith(kind)), name)
    return name


def make_step(number: int | None, total: int | None, figures: Mapping[str, float]) -> Step | None:
    """The step with these figures by their plain names; None if none of them is a loss. Others are its `extra`."""
    loss_name = find_loss_key(figures)
    if loss_name is None:
        return None

    best: dict[str, tuple[int, float]] = {}
    extra = {}
    for name, value in figures.items():
        role = _FIELD_OF_NAME.get(name)
        if role is None:
            if name != loss_name:
                extra[name] = value
        elif role[0] not in best or role[1] < best[role[0]][0]:
            best[role[0]] = role[1], value
    known = {role: value for role, (_, value) in best.items()}
    loss, grad_norm = figures[loss_name], known.get("grad_norm")
    time = known.get("s") or milliseconds_to_seconds(known.get("ms")) or to_reciprocal(known.get("rate"))
    return Step(
        step=number,
        total=finite_total(total),
        loss=loss,
        grad_norm=grad_norm,
        lr=known.get("lr"),
        step_time_s=time if time and time > 0 else None,
        tflops_per_gpu=known.get("tflops") or None,
        tokens_per_s=known.get("tokens") or None,
        nan=is_broken(loss, grad_norm),
        extra=extra,
    )
