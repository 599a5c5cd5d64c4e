"""Iteration lines of Megatron in the few words that matter, for a screen: the loss stands off it in the whole line."""

from __future__ import annotations

import re

from console.parsers.training_megatron import megatron

_DATE = re.compile(r"\s*\[?\d{4}-\d\d-\d\d[ T][\d:.,]+\]?\s*$")
TINY = 0.01
"""A loss below it is written with an exponent."""
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
