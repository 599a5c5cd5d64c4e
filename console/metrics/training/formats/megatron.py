"""Iteration lines of Megatron-LM and what is built on it: Pai, Megatron-Bridge, ms-swift up to 3.12, DeepSpeed's fork.

`[date] iteration 5/100 | key: value | ... |`. The loss stands there only if it is a number: where it is missing and the
iteration was not skipped, it was nan. A screen shows a shorter form, since the loss stands far to the right.
"""

from __future__ import annotations

import re

from console.metrics.training.steps import Step
from console.metrics.training.values import Found, broken, finite_total, number, positive, thousandth

_START = re.compile(r"iteration\s+(\d{1,12})/\s*(\d{1,15}) \|")
_MARKS = ("elapsed time per iteration", "consumed samples")
_STEP_TIME = re.compile(
    r"Step Time ?: ?(\d{1,9}(?:\.\d{1,9})?)s(?: +GPU utilization: ?(\d{1,9}(?:\.\d{1,9})?) ?(?:MODEL_)?TFLOP/s/GPU)?"
)
_NO_MARKS = bytes(each for each in range(256) if each not in b":|")
_MARKED = b":|" * 64  # what is left of `name: value | name: value |` without all but these marks
_LOSSES = ("lm loss", "loss")
_BESIDE = ("balancing", "z_loss", "mtp", "scale", "aux")


def megatron(text: str) -> list[Found]:
    """All iteration lines in a line: two of them meet in one when processes share a terminal."""
    if not (_MARKS[0] in text or _MARKS[1] in text) or "Training epoch" in text:
        return []
    read: list[Found] = []
    end = len(text)
    for start in reversed(list(_START.finditer(text))):
        step = _step(int(start.group(1)), int(start.group(2)), _fields(text[start.end() : end]))
        end = start.start()
        read.insert(0, Found("ms-swift" if "memory(GiB)" in step.extra else "megatron", step, end))
    return read


def _fields(text: str) -> dict[str, float]:
    """The numbers between the bars, by the words before them."""
    marks = text.encode().translate(None, _NO_MARKS)
    if marks == _MARKED[: len(marks)]:  # as nearly all lines are
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
            read = number(value.partition("/")[0].strip().removesuffix("TFLOPS"))  # AMD's fork prints `now/average`
            if read is not None:
                fields[name.strip()] = read
    return fields


def _step(at: int, total: int, fields: dict[str, float]) -> Step:
    take = fields.pop
    skipped = take("number of skipped iterations", take("skipped iterations", None))
    failed = take("number of nan iterations", take("nan iterations", 0.0))
    name = _loss_name(fields)
    loss, grad_norm = take(name) if name else None, take("grad norm", None)
    tflops = take("throughput per GPU (TFLOP/s/GPU)", take("TFLOPs", take("approx flops per GPU", None)))
    return Step(
        step=at,
        total=finite_total(total),
        loss=loss,
        grad_norm=grad_norm,
        lr=take("learning rate", None),
        step_time_s=thousandth(take("elapsed time per iteration (ms)", None))
        or take("elapsed time per iteration (s)", None),
        tflops_per_gpu=tflops if tflops and tflops > 0 else None,
        tokens_per_s=take("tokens per GPU (tokens/s/GPU)", None),
        skipped=int(skipped) if skipped is not None and 0 <= skipped < 1e12 else None,
        nan=failed != 0 or broken(loss, grad_norm) or (loss is None and not skipped),
        extra=fields,
    )


def _loss_name(fields: dict[str, float]) -> str | None:
    """Which field is the loss: by its usual names, else the first loss that is no addition to one."""
    for name in _LOSSES:
        if name in fields:
            return name
    losses = (name for name in fields if "loss" in name and not any(each in name for each in _BESIDE))
    return next(losses, None)


def step_time(text: str) -> Step | None:
    """Megatron-Bridge's line of the first rank, which names no step: the next iteration line does."""
    found = _STEP_TIME.search(text)
    if found is None:
        return None
    return Step(
        step_time_s=positive(found.group(1)), tflops_per_gpu=positive(found.group(2)) if found.group(2) else None
    )


_DATE = re.compile(r"\s*\[?\d{4}-\d\d-\d\d[ T][\d:.,]+\]?\s*$")
TINY = 0.01  # a loss below it is written with an exponent
_BEGINS = re.compile(r"iteration\s+\d")


def short(text: str) -> str:
    """An iteration line in the few words that matter, after what stands in front of its date; empty: it is none."""
    start, found = _BEGINS.search(text), megatron(text)
    if start is None or len(found) != 1:
        return ""
    step = found[0].step
    said = [
        f"it {step.step}/{step.total}",
        f"loss {'nan' if step.loss is None else f'{step.loss:.3f}' if step.loss >= TINY else f'{step.loss:.2e}'}",
    ]
    said += [f"gn {step.grad_norm:.2f}"] if step.grad_norm is not None else []
    said += [f"{step.step_time_s:.2f} s"] if step.step_time_s is not None else []
    said += [f"{step.tflops_per_gpu:.0f} TF"] if step.tflops_per_gpu is not None else []
    said += [f"{step.skipped} skipped"] if step.skipped else []
    before = _DATE.sub("", text[: start.start()]).strip()
    return "  ".join([before, *said] if before else said)
