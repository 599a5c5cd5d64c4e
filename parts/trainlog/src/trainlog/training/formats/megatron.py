"""Log formats of Megatron-LM, its derivatives (Pai, Megatron-Bridge, ms-swift up to 3.12, DeepSpeed) and NeMo.

Megatron prints `[date] iteration 5/100 | key: value | ... |`, with the loss only if it is a number: without it the loss
was nan, unless the iteration was skipped. Screens show a shorter form, since the loss is far to the right. NeMo prints
the lines of version 2, the progress bars of version 1 and Lightning, and DLLogger's JSON.
"""

from __future__ import annotations

import re
from typing import Any

from trainlog.regex import lazy_pattern
from trainlog.training.steps import Step
from trainlog.training.values import (
    NUMBER,
    StepReport,
    finite_total,
    is_broken,
    make_step,
    milliseconds_to_seconds,
    normalize_key,
    parse_number,
    parse_positive,
    to_reciprocal,
    to_step_number,
)

_ITERATION_START = lazy_pattern(r"iteration\s+(\d{1,12})/\s*(\d{1,15}) \|")
_ITERATION_WORDS = ("elapsed time per iteration", "consumed samples")
_STEP_TIME = lazy_pattern(
    r"Step Time ?: ?(\d{1,9}(?:\.\d{1,9})?)s(?: +GPU utilization: ?(\d{1,9}(?:\.\d{1,9})?) ?(?:MODEL_)?TFLOP/s/GPU)?"
)
_OTHER_BYTES = bytes(each for each in range(256) if each not in b":|")
_FIELD_MARKS = b":|" * 64  # what is left of `name: value | name: value |` without all but these marks
_LOSS_NAMES = ("lm loss", "loss")
_OTHER_LOSS_WORDS = ("balancing", "z_loss", "mtp", "scale", "aux")


def parse_megatron(text: str) -> list[StepReport]:
    """All iteration reports in a line: two may meet in one when processes share a terminal."""
    if not (_ITERATION_WORDS[0] in text or _ITERATION_WORDS[1] in text) or "Training epoch" in text:
        return []
    read: list[StepReport] = []
    end = len(text)
    for start in reversed(list(_ITERATION_START.finditer(text))):
        step = _make_step(int(start.group(1)), int(start.group(2)), _parse_fields(text[start.end() : end]))
        end = start.start()
        read.insert(0, StepReport("ms-swift" if "memory(GiB)" in step.extra else "megatron", step, end))
    return read


def _parse_fields(text: str) -> dict[str, float]:
    """The numbers between the vertical bars, by the names before them."""
    marks = text.encode().translate(None, _OTHER_BYTES)
    if marks == _FIELD_MARKS[: len(marks)]:  # as nearly all lines are
        pieces = text.replace("|", ":").split(":")
        try:
            return dict(zip(map(str.strip, pieces[:-1:2]), map(float, pieces[1::2]), strict=True))
        except ValueError:
            """One of them is no plain number."""
    fields: dict[str, float] = {}
    for part in text.split("|"):
        name, colon, value = part.partition(":")
        if not colon:
            continue
        try:
            fields[name.strip()] = float(value)
        except ValueError:
            read = parse_number(
                value.partition("/")[0].strip().removesuffix("TFLOPS")
            )  # AMD's fork prints `now/average`
            if read is not None:
                fields[name.strip()] = read
    return fields


def _make_step(offset: int, total: int, fields: dict[str, float]) -> Step:
    take = fields.pop
    skipped = take("number of skipped iterations", take("skipped iterations", None))
    failed = take("number of nan iterations", take("nan iterations", 0.0))
    losses = (name for name in fields if "loss" in name and not any(each in name for each in _OTHER_LOSS_WORDS))
    name = next((name for name in _LOSS_NAMES if name in fields), None) or next(losses, None)  # no addition to a loss
    loss, grad_norm = take(name) if name else None, take("grad norm", None)
    tflops = take("throughput per GPU (TFLOP/s/GPU)", take("TFLOPs", take("approx flops per GPU", None)))
    return Step(
        step=offset,
        total=finite_total(total),
        loss=loss,
        grad_norm=grad_norm,
        lr=take("learning rate", None),
        step_time_s=milliseconds_to_seconds(take("elapsed time per iteration (ms)", None))
        or take("elapsed time per iteration (s)", None),
        tflops_per_gpu=tflops if tflops and tflops > 0 else None,
        tokens_per_s=take("tokens per GPU (tokens/s/GPU)", None),
        skipped=int(skipped) if skipped is not None and 0 <= skipped < 1e12 else None,
        nan=failed != 0 or is_broken(loss, grad_norm) or (loss is None and not skipped),
        extra=fields,
    )


def parse_step_time(text: str) -> Step | None:
    """A step with the times in Megatron-Bridge's line of rank 0, without its number; None for other lines."""
    found = _STEP_TIME.search(text)
    if found is None:
        return None
    return Step(
        step_time_s=parse_positive(found.group(1)),
        tflops_per_gpu=parse_positive(found.group(2)) if found.group(2) else None,
    )


_DATE_BEFORE = lazy_pattern(r"\s*\[?\d{4}-\d\d-\d\d[ T][\d:.,]+\]?\s*$")
TINY_LOSS = 0.01  # a loss below it is written with an exponent
_ITERATION_WORD = lazy_pattern(r"iteration\s+\d")


def shorten_iteration_line(text: str) -> str:
    """A short form of a line with one iteration report, with the text before its date; empty for other lines."""
    start, found = _ITERATION_WORD.search(text), parse_megatron(text)
    if start is None or len(found) != 1:
        return ""
    step = found[0].step
    figures = [
        f"it {step.step}/{step.total}",
        f"loss {'nan' if step.loss is None else f'{step.loss:.3f}' if step.loss >= TINY_LOSS else f'{step.loss:.2e}'}",
    ]
    figures += [f"gn {step.grad_norm:.2f}"] if step.grad_norm is not None else []
    figures += [f"{step.step_time_s:.2f} s"] if step.step_time_s is not None else []
    figures += [f"{step.tflops_per_gpu:.0f} TF"] if step.tflops_per_gpu is not None else []
    figures += [f"{step.skipped} skipped"] if step.skipped else []
    before = _DATE_BEFORE.sub("", text[: start.start()]).strip()
    return "  ".join([before, *figures] if before else figures)


# NeMo, and bars of Lightning

_NEMO_2 = lazy_pattern(r"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,15}) \|")
_BAR = lazy_pattern(
    r"(?:[Ee]poch (\d{1,9}):(?: ?:)?\s{0,9}|[Ee]poch \[(\d{1,9})/\d{1,9}\]: {0,9}|\b[Ss]teps?: {0,9}|[Tt]raining: {0,9}"
    r"|^\s{0,9})\d{1,3}%\|[^|]{0,400}\| *(\d{1,12})/(\d{1,15}) \[([^\]|]{1,4000})"
)
_RICH = lazy_pattern(r"Epoch (\d{1,9})/\d{1,9}()\s+[━╸╺ ]{2,400} +(\d{1,12})/(\d{1,15}) +([\d:]{4,12} •[^|\n]{1,4000})")
"""Lightning's progress bar as drawn by the library rich."""
_OTHER_DATA = lazy_pattern(r"(?i)\b(?:eval|valid|val|test)\w*\W*$")  # before a bar of other data than training's
_BAR_RATE = lazy_pattern(r"([\d.]{1,20})(it/s|s/it)")
_BAR_PAIR = lazy_pattern(rf"(\w[\w/ -]{{0,60}})=({NUMBER})")
_RICH_PAIR = lazy_pattern(rf"(?<![\w:])([A-Za-z_][\w/-]{{0,60}}): ({NUMBER})")
_NEMO_LOSSES = ("reduced_train_loss", "train_loss", "train_loss_step", "step_loss", "loss")
_TAKEN_NAMES = frozenset(
    {*_NEMO_LOSSES, "grad_norm", "lr", "learning_rate", "global_step", "train_step_timing in s", "TFLOPS_per_GPU"}
)
_NO_FIGURES = frozenset({"global_step", "v_num", "num_updates"})  # pairs of a bar that are no figures of the step


def parse_nemo_2(text: str) -> StepReport | None:
    found = _NEMO_2.search(text)
    if found is None:
        return None
    fields: dict[str, float] = {}
    for part in text[found.end() :].split("|"):
        name, _, value = part.partition(":")
        read = parse_number(value)
        if read is not None:
            fields[name.strip()] = read
    epoch, at, last = (int(each) for each in found.groups())
    step = to_step_number(fields.get("global_step"))
    if step is None:
        step = at if epoch == 0 else None
    return _make_nemo_step(fields, step, finite_total(last + 1) if epoch == 0 else None, found.start())


def parse_bars(text: str) -> list[StepReport]:
    """The progress bars with losses in a line; several if a file holds the frames of a redrawn line."""
    if "%|" not in text:
        return [each for found in _RICH.finditer(text) if (each := _parse_bar(found))] if "━" in text else []
    if "=" not in text and ": " not in text:
        return []
    found = (
        each for each in _BAR.finditer(text) if not _OTHER_DATA.search(text, max(0, each.start() - 40), each.start())
    )
    return [each for bar in found if (each := _parse_bar(bar))]


def _parse_bar(match: re.Match[str]) -> StepReport | None:
    *epochs, at, total, behind = match.groups()
    clock, _, rest = behind.rpartition("•") if match.re.pattern == _RICH.pattern else ("", "", behind)
    pairs = _RICH_PAIR.findall(rest) if clock or "=" not in rest else _BAR_PAIR.findall(rest)
    figures = {normalize_key(name.strip()): value for name, raw in pairs if (value := parse_number(raw)) is not None}
    if "act_lr" in figures and "pg" in figures:  # OpenRLHF
        figures["policy_loss"] = figures.pop("pg")
    epoch = int(epochs[0] or 0) if epochs[0] else max(0, int(epochs[1] or 1) - 1)
    updates = to_step_number(figures.get("num_updates"))
    number_ = updates if updates is not None else epoch * int(total) + int(at)
    step = make_step(number_, int(total) if epoch == 0 and updates is None else None, figures)
    if step is None:
        return None
    rate = _BAR_RATE.search(rest)
    speed = parse_positive(rate.group(1)) if rate else None
    if speed is not None and rate and rate.group(2) == "it/s":
        speed = to_reciprocal(speed)
    kept = {name: value for name, value in step.extra.items() if name not in _NO_FIGURES}
    step = step._replace(step_time_s=step.step_time_s or speed, extra=kept)
    return StepReport("nemo" if "reduced_train_loss" in figures else "progress-bar", step, match.start())


def parse_dllogger(text: str) -> StepReport | None:
    start = text.index("DLLL {")
    try:
        import json  # 1 ms that few logs need

        record = json.loads(text[start + 5 :])
    except (ValueError, RecursionError):
        return None
    data: Any = record.get("data") if isinstance(record, dict) else None
    if not isinstance(data, dict):
        return None
    fields = {str(key): value for key, raw in data.items() if (value := _to_number(raw)) is not None}
    place = fields.get("global_step", _to_number(record.get("step")))
    if not any(name in fields for name in _NEMO_LOSSES):
        return None
    return _make_nemo_step(fields, to_step_number(place), None, start)


def _to_number(value: Any) -> float | None:
    if isinstance(value, list) and value:
        value = value[-1]
    return parse_number(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None


def _make_nemo_step(fields: dict[str, float], step: int | None, total: int | None, offset: int) -> StepReport:
    name = next((each for each in _NEMO_LOSSES if each in fields), None)
    loss, grad_norm = fields[name] if name else None, fields.get("grad_norm")
    timing = fields.get("train_step_timing in s")
    extra = {key: value for key, value in fields.items() if key not in _TAKEN_NAMES}
    read = Step(
        step=step,
        total=total,
        loss=loss,
        grad_norm=grad_norm,
        lr=fields.get("lr", fields.get("learning_rate")),
        step_time_s=timing if timing and timing > 0 else None,
        tflops_per_gpu=fields.get("TFLOPS_per_GPU") or None,
        nan=is_broken(loss, grad_norm),
        extra=extra,
    )
    return StepReport("nemo" if name in {None, "reduced_train_loss"} else "progress-bar", read, offset)
