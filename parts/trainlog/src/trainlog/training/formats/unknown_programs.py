"""Step lines of unknown programs: lines of `key value` pairs, and lines described by a pattern in the settings.

Lines of pairs count at once if they begin with the step, else from the second such line on. The named groups of a
pattern are a step's figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainlog.lines import WordSearch
from trainlog.regex import Re2Pattern, lazy_pattern
from trainlog.training import values
from trainlog.training.steps import Step

_KEY_VALUE = lazy_pattern(
    r"(?<![\w.])([A-Za-z][\w/.()-]{0,60}(?: (?!(?i:nan|inf)\b)[A-Za-z_]{1,20}){0,2})"
    r"(?: ?\(([A-Za-z][\w/ .]{0,24})\))?"
    r"(?: {0,6}[:=] {0,8}(?:\{'\w{1,40}': |\[ {0,8})?| {1,8}(?:\[ {0,8})?)"
    rf"({values.NUMBER})(?![A-Za-z]{{3}}|[\d.,]{{0,30}}[:-]\d)([KMGT](?![A-Za-z]))?"
    r"(?:(?: ?/ {0,8}| of )(\d{1,3}(?:,\d{3}){1,4}(?!\d)|\d{1,15}))?( ?(?:ms|s)\b(?!/))?"
)
_LOGGER_LABELS = lazy_pattern(  # what loggers put in front of a line: dates, brackets, levels, names
    r"[^A-Za-z\[(]*(?:[\[(][^\])]{0,80}[\])][^A-Za-z\[(]*){0,4}"
    r"(?:[A-Z]{4,8} \| (?:[\w.-]{1,60} \| )?)?"
    r"(?:[\w.-]{1,60} - [A-Z]{4,8} - |[A-Z]{4,8} - [\w.]{1,60} - |[A-Z]{4,8}:[\w.]{1,60}:|[A-Z]{4,8}[: ]+)?"
)
_OTHER_DATA = lazy_pattern(r"\b(?:[Ee]val\w*|[Vv]alid\w*|val|[Tt]est)[ _/](?:step|loss|after|batch|set|acc)")
_OTHER_DATA_NAMES = ("val", "eval", "test", "best")  # how names begin of what is told of data that is not trained on
_NANOGPT_ESTIMATE = lazy_pattern(r"\bstep \d{1,12}: train loss \S{1,20}, val loss ")  # nanoGPT's, on both kinds of data
_IN_EPOCH = lazy_pattern(  # OpenMMLab's, torchvision's (MetricLogger) and Swin's step
    r"(?:Epoch(?:\(train\)|:)?|Train:) {1,4}\[ {0,8}(\d{1,9})(?:/\d{1,9})?\] {0,4}\[ {0,12}(\d{1,12})/ {0,12}\d{1,15}\]"
)
_CLU_STEP = lazy_pattern(r"logging_writer\.py:\d{1,6}\] \[(\d{1,12})\]")  # CLU's step, of Flax
_TOTAL_KEYS = ("max_steps", "total_steps", "max_updates")
MAX_CHARACTERS = 2048  # characters of a line that are looked at
_MAX_REMEMBERED = 64  # kinds of lines remembered that came once


class LearnedFormat:
    """The format of an unknown program's progress lines, recognised by their keys."""

    def __init__(self) -> None:
        self._once: dict[tuple[str, ...], values.StepReport] = {}
        self._known_keys: set[tuple[str, ...]] = set()

    def learn_from_line(self, text: str) -> list[values.StepReport]:
        """The steps in this line, and in the one before with the same keys, once the keys are recognised."""
        keys, found, begins = _parse_line(text)
        if found is None:
            return []
        if begins or keys in self._known_keys:
            self._known_keys.add(keys)
            return [found]
        before = self._once.pop(keys, None)
        if before is None:
            if len(self._once) < _MAX_REMEMBERED:
                self._once[keys] = found
            return []
        self._known_keys.add(keys)
        return [before, found]

    def parse_known_line(self, text: str) -> list[values.StepReport]:
        """The step in this line if its keys are recognised; learns nothing."""
        keys, found, _ = _parse_line(text)
        return [found] if found is not None and keys in self._known_keys else []


def _parse_line(text: str) -> tuple[tuple[str, ...], values.StepReport | None, bool]:
    """(names with numbers, step, whether the line begins with the step)."""
    pairs = _parse_pairs(text)
    keys = tuple(pairs)
    at, loss = next((key for key in values.STEP_NAMES if key in pairs), None), values.find_loss_key(pairs)
    if at is None or loss is None or _is_evaluation(text, keys, loss):
        return keys, None, False
    if pairs.get("iter", pairs[at])[0] != pairs[at][0]:
        pairs.pop("iter_time", None)  # of a part of a step
    label = _LOGGER_LABELS.match(text)
    rest = text[label.end() if label else 0 :].lower().replace(" ", "_").replace("-", "_")
    return keys, _build_report(pairs, at, loss, text), at == "global_step" or rest.startswith(at)


def _parse_pairs(text: str) -> dict[str, tuple[str, str, str]]:
    """By key (number, total after a slash, unit), from the first pair with that key."""
    pairs: dict[str, tuple[str, str, str]] = {}
    if "[" in text:
        text = _CLU_STEP.sub(r"; step \1", _IN_EPOCH.sub(r"; epoch \1 iter \2", text))
    for key, named, value, short, total, unit in _KEY_VALUE.findall(values.unwrap_numbers(text[:MAX_CHARACTERS])):
        if key.endswith(".py"):  # the line of a source file
            continue
        name = values.plain_name(key) if "/" in key else values.normalize_key(key)
        pairs.setdefault(name, (value + short, total, named if named in {"ms", "s"} else unit.strip()))
    return pairs


def _is_evaluation(text: str, keys: Sequence[str], loss: str) -> bool:
    """Whether the line is only about evaluation data."""
    others = [key for key in keys if key.startswith(_OTHER_DATA_NAMES)]
    if any("loss" in key or key in {"val", "eval", "test"} for key in others):
        return "loss" not in loss or _NANOGPT_ESTIMATE.search(text) is not None
    if others:
        return True
    return ("val" in text or "Val" in text or "est" in text) and _OTHER_DATA.search(text) is not None


def _build_report(pairs: dict[str, tuple[str, str, str]], at: str, loss: str, text: str) -> values.StepReport | None:
    behind = pairs[at][1] or next((pairs[name][0] for name in _TOTAL_KEYS if name in pairs), "")
    step, total = (values.parse_count(each.replace(",", "")) for each in (pairs[at][0], behind))
    value = values.parse_number(pairs[loss][0])
    if step is None or value is None:
        return None

    def first_number(names: tuple[str, ...]) -> float | None:
        return next((values.parse_number(pairs[name][0]) for name in names if name in pairs), None)

    grad_norm = first_number(values.NORM_NAMES)
    read = Step(
        step=step,
        total=values.finite_total(total),
        loss=value,
        grad_norm=grad_norm,
        lr=first_number(values.LEARNING_RATE_NAMES),
        step_time_s=_parse_step_time(pairs, text),
        tflops_per_gpu=first_number(values.FLOPS_NAMES) or None,
        tokens_per_s=_parse_tokens_per_second(pairs, text),
        nan=values.is_broken(value, grad_norm),
        extra={
            name: value
            for name, each in pairs.items()
            if name not in values.TAKEN_NAMES
            and name not in (at, loss, "eta", *_TOTAL_KEYS)
            and (value := values.parse_number(each[0])) is not None
        },
    )
    return values.StepReport("key-value", read, 0)


def _parse_tokens_per_second(pairs: dict[str, tuple[str, str, str]], text: str) -> float | None:
    source = values.find_tokens_source(text, pairs)
    if isinstance(source, str):
        return values.parse_number(pairs[source][0]) or None
    return values.parse_positive(source.group(1) + source.group(2)) if source else None


def _parse_step_time(pairs: dict[str, tuple[str, str, str]], text: str) -> float | None:
    source = values.find_time_source(text, pairs)
    if source is None:
        return None
    if isinstance(source, str):
        value, short = (
            values.parse_positive(pairs[source][0]),
            source in values.TIME_NAMES_MS or "ms" in (source[:2], pairs[source][2]),
        )
    else:
        value, short = values.parse_positive(source.group(1)), values.is_milliseconds(source)
    if values.is_per_second(source):
        return values.to_reciprocal(value)
    return values.milliseconds_to_seconds(value) if short else value


class OwnFormat(NamedTuple):
    name: str
    pattern: Re2Pattern

    def parse_line(self, text: str) -> values.StepReport | None:
        """The step in this line; None if the pattern does not match."""
        found = self.pattern.search(text[:MAX_CHARACTERS])
        if found is None:
            return None
        at, groups = found
        figures = values.parse_figures(groups.items())
        number = values.to_step_number(figures.pop("step", None))
        if number is None:
            return None
        loss, grad_norm, rate = (figures.pop(each, None) for each in ("loss", "grad_norm", "lr"))
        times = (
            figures.pop("time", None),
            values.milliseconds_to_seconds(figures.pop("time_ms", None)),
            values.to_reciprocal(figures.pop("steps_per_s", None)),
        )
        step = Step(
            step=number,
            total=values.finite_total(values.to_step_number(figures.pop("total", None))),
            loss=loss,
            grad_norm=grad_norm,
            lr=rate,
            step_time_s=next((each for each in times if each is not None and 0 < each < float("inf")), None),
            tflops_per_gpu=figures.pop("tflops", None) or None,
            tokens_per_s=figures.pop("tokens", None) or None,
            nan=values.is_broken(loss, grad_norm),
            extra=figures,
        )
        return values.StepReport(f"{self.name} (own)", step, at)


def parse_in_configured_formats(formats: tuple[OwnFormat, ...], text: str) -> values.StepReport | None:
    return next((found for each in formats if (found := each.parse_line(text))), None)


class StepLineFinder:
    """Finds lines that may report a step: those with a word of a known format, and those of formats in the settings."""

    def __init__(self, word_search: WordSearch, formats: tuple[OwnFormat, ...]) -> None:
        self._word_search, self._formats = word_search, formats

    def find_lines(self, block: bytes) -> dict[int, int]:
        """The offsets of lines that may report a step, found by their words."""
        found = self._word_search.find_lines(block)
        for each in self._formats:
            for at in each.pattern.places(block):
                end = block.find(b"\n", at)
                found[block.rfind(b"\n", 0, at) + 1] = end if end >= 0 else len(block)
        return found
