"""Lines of torchtitan, MaxText, DeepSpeed and verl."""

from __future__ import annotations

import re

from console.metrics.training.steps import Step
from console.metrics.training.values import NUMBER, Found, broken, number, positive

_TITAN = re.compile(r"step:\s{1,12}(\d{1,12})\s{1,12}loss:\s{1,12}([-+\w.,]{1,40})")
_MEMORY = re.compile(r"memory:\s{1,12}(\d{1,12}\.\d{1,9})GiB\((\d{1,12}\.\d{1,9})%\)")
_MAX = re.compile(r"completed step: (\d{1,12}), seconds: ")
_MAX_FIELD = re.compile(rf"([\w/ ]{{1,40}}): ({NUMBER})")
_DEEP = re.compile(r"\bstep=(\d{1,12}), skipped=(\d{1,12}), lr=\[([^,\]]{0,40})")
_DEEP_SPEED = re.compile(rf"global_step=(\d{{1,12}}), RunningAvgSamplesPerSec={NUMBER}, CurrSamplesPerSec=({NUMBER})")
_VERL_STEP = re.compile(r"step:(\d{1,12})(?=\s{1,9}-\s|\s*$)")
_VERL_CUT = re.compile(r"\s*(\d{1,12}) - [a-z_]{1,30}/")
_VERL_FIELD = re.compile(rf"([A-Za-z_][\w/@.+-]{{1,100}}(?:\([^)\s]{{1,20}}\))?):(?:np\.\w{{1,12}}\()?({NUMBER})")
_VERL_LOSSES = ("actor/pg_loss", "train/loss", "critic/vf_loss")
_VERL_KINDS = ("actor/", "critic/", "train/", "perf/", "timing")
"""What stands before the names of training, other than of validation."""
_VERL_TIMES = ("timing_s/step", "perf/time_per_step", "timing/step")


def titan(text: str) -> Found | None:
    """Torchtitan: `step: 5  loss: 7.3  grad_norm: 49.6  memory: 103.01GiB(73.72%)  tps: 771  tflops: 31  mfu: 3.1%`."""
    found = _TITAN.search(text)
    if found is None or "validate step:" in text:
        return None
    loss = number(found.group(2))
    words = text[found.end() :].split()
    fields = {
        name[:-1]: value
        for name, raw in zip(words[::2], words[1::2], strict=False)
        if name[-1] == ":" and name != "memory:" and (value := number(raw.rstrip("%").replace(",", ""))) is not None
    }
    if memory := _MEMORY.search(text):
        fields["memory_gib"], fields["memory_percent"] = float(memory.group(1)), float(memory.group(2))
    grad_norm, tflops, tokens = (fields.pop(name, None) for name in ("grad_norm", "tflops", "tps"))
    if not fields.get("mfu", 1.0) > 0:
        del fields["mfu"]
    step = Step(
        step=int(found.group(1)),
        loss=loss,
        grad_norm=grad_norm,
        lr=fields.pop("lr", None),
        tflops_per_gpu=tflops or None,
        tokens_per_s=tokens or None,
        nan=broken(loss, grad_norm),
        extra=fields,
    )
    return Found("torchtitan", step, found.start())


def maxtext(text: str) -> Found | None:
    """MaxText: `completed step: 5, seconds: 1.2, TFLOP/s/device: 400.0, Tokens/s/device: 900.0, ..., loss: 2.1`."""
    found = _MAX.search(text)
    if found is None:
        return None
    fields = {
        name.strip(): value
        for name, raw in _MAX_FIELD.findall(text[found.start() :])
        if (value := number(raw)) is not None
    }
    loss = fields.pop("loss", None)
    fields.pop("completed step", None)
    step = Step(
        step=int(found.group(1)),
        loss=loss,
        grad_norm=fields.pop("grad_norm", None),
        lr=fields.pop("learning_rate", None),
        step_time_s=fields.pop("seconds", None) or None,
        tflops_per_gpu=fields.pop("TFLOP/s/device", fields.pop("TFLOP/s", None)) or None,
        tokens_per_s=fields.pop("Tokens/s/device", None) or None,
        nan=broken(loss),
        extra=fields,
    )
    return Found("maxtext", step, found.start())


def deepspeed(text: str) -> Found | None:
    """DeepSpeed's own lines: steps, learning rate, skipped steps since the start and samples a second, but no loss."""
    if found := _DEEP.search(text):
        step = Step(step=int(found.group(1)), lr=number(found.group(3)), extra={"skipped": float(found.group(2))})
        return Found("deepspeed", step, found.start())
    if found := _DEEP_SPEED.search(text):
        speed = positive(found.group(2))
        step = Step(step=int(found.group(1)), extra={"samples_per_s": speed} if speed else {})
        return Found("deepspeed", step, found.start())
    return None


def verl_start(text: str) -> int | None:
    """The step that a line of verl announces."""
    found = (_VERL_STEP.search(text) if "step:" in text else None) or _VERL_CUT.match(text)
    return int(found.group(1)) if found else None


def verl(step: int, text: str) -> Found | None:
    """What verl says of that step, on one line or on several that were joined."""
    fields = {name: value for name, raw in _VERL_FIELD.findall(text) if (value := number(raw)) is not None}
    fields.pop("step", None)
    if not any(name.startswith(_VERL_KINDS) for name in fields):
        return None
    loss_name = next((name for name in _VERL_LOSSES if name in fields), None)
    loss = fields.pop(loss_name) if loss_name else None
    rate_name = next((name for name in ("actor/lr", "actor/lr(1e-4)", "train/lr") if name in fields), None)
    rate = fields.pop(rate_name) if rate_name else None
    time_name = next((name for name in _VERL_TIMES if name in fields), None)
    grad_norm = fields.pop("actor/grad_norm", fields.get("train/grad_norm"))
    read = Step(
        step=step,
        loss=loss,
        grad_norm=grad_norm,
        lr=rate * 1e-4 if rate is not None and rate_name == "actor/lr(1e-4)" else rate,
        step_time_s=(fields.pop(time_name) or None) if time_name else None,
        tokens_per_s=fields.pop("perf/throughput", None) or None,
        nan=broken(loss, grad_norm),
        extra=fields,
    )
    return Found("verl", read)
