"""How programs call the figures of a step, and a step of such figures: for lines, bars, blocks and dictionaries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from console.models.training import Step
from console.parsers.training_units import PER_SECOND, SPEEDS, TIMES, TIMES_MS, UNITS
from console.parsers.training_values import broken, finite_total, inverse, thousandth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STEPS = (
    "step", "global_step", "iteration", "iter", "train_step", "update", "num_updates", "batch", "it", "steps",
    "iter(train)",
)  # fmt: skip
LOSSES = (
    "reduced_train_loss", "loss", "train_loss", "training_loss", "loss_train", "lm_loss", "train/loss", "total_loss",
    "avg_loss", "step_loss", "train_loss_step", "avr_loss", "ce_loss", "crossentropyloss", "gpt_loss", "loss/total",
    "loss/train/total", "loss/policy_avg",
)  # fmt: skip
NORMS = (
    "grad_norm", "gnorm", "norm", "gradient_norm", "grad", "grad_norms/summary/total", "total_grad_norm",
    "l2_norm/grad/global",
)  # fmt: skip
RATES = ("lr", "learning_rate", "schedules/lr", "learning_rate_group0", "lr_decoupledadamw/group0", "act_lr")
FLOPS = (
    "tflops", "tflops_per_gpu", "tflop/s", "tflops/gpu", "tflop/s/gpu", "model_tflops_per_gpu",
    "interval_hardware_tflops_per_device",
)  # fmt: skip
_ROLES = {
    name: (role, rank)
    for role, names in (
        ("grad_norm", NORMS), ("lr", RATES), ("s", TIMES), ("ms", TIMES_MS), ("rate", PER_SECOND), ("tokens", SPEEDS),
        ("tflops", FLOPS),
    )
    for rank, name in enumerate(names)
}  # fmt: skip
"""Name to the field it is of, and how much other names of that field go before it."""
TAKEN = frozenset({*_ROLES, *UNITS})
"""Names of what stands in fields of a step, or would."""
_NO_STEP = re.compile(
    r"(?:.*_)?(?:per|max|min|total|num|warmup|warm|every|each|last|of|until|remaining|skipped|saved?|checkpoint|best|next"
    r"|actor|rollout|env|sampling|decode|prefill|micro|inner|accumulation|tokens?|samples?|val\w*|eval\w*|test)_"
)
"""What makes another figure of a step behind it."""
_NO_LOSS = re.compile(
    r"(?:.*[_/.])?(?:aux\w*|z|mtp\w*|load|balanc\w*|router|moe|critic|value|vf|entropy|kl|kd|class|cls|reg\w*|distill\w*|val"
    r"|valid\w*|eval\w*|test|best|min|max|last|prev\w*|old|disc\w*|gen\w*|adv\w*|commit\w*|percept\w*)(?:[_/.].*)?"
)
"""What makes an addition to the loss, or the loss of something else, of a loss beside it."""


@lru_cache(maxsize=4096)
def name_of(key: str) -> str:
    """A key in small letters and joined; of several words the last, where that alone is a step."""
    words = key.lower().replace("-", "_").split(" ")
    if len(words) > 1 and words[0] in UNITS:
        del words[0]  # the unit of a number before it
    name = "_".join(words)
    if len(words) > 1 and name not in STEPS and words[-1] in STEPS and not _NO_STEP.match(name):
        return words[-1]
    return name


def loss_of(keys: Iterable[str]) -> str | None:
    """The key of the loss: one of the usual names, else the only one of another name that is no addition to a loss."""
    usual = next((name for name in LOSSES if name in keys), None)
    if usual is not None:
        return usual
    others = [name for name in keys if name.endswith("_loss") and not _NO_LOSS.fullmatch(name.removesuffix("_loss"))]
    return others[0] if len(others) == 1 else None


_KINDS = ("train/", "optim/", "throughput/device/", "throughput/", "perf/")
"""What stands before the names of figures of training, where they are sorted by kind."""


@lru_cache(maxsize=4096)
def plain_name(key: str) -> str:
    """A name without the kind of figure it is."""
    name = name_of(key.removeprefix("Train ").strip())
    for _ in range(2):
        name = next((name.removeprefix(kind) for kind in _KINDS if name.startswith(kind)), name)
    return name


def step_of(number: int | None, total: int | None, figures: Mapping[str, float]) -> Step | None:
    """The step of these figures, by their plain names; None if no loss is among them."""
    loss_name = loss_of(figures)
    if loss_name is None:
        return None

    best: dict[str, tuple[int, float]] = {}
    extra = {}
    for name, value in figures.items():
        role = _ROLES.get(name)
        if role is None:
            if name != loss_name:
                extra[name] = value
        elif role[0] not in best or role[1] < best[role[0]][0]:
            best[role[0]] = role[1], value
    known = {role: value for role, (_, value) in best.items()}
    loss, grad_norm = figures[loss_name], known.get("grad_norm")
    time = known.get("s") or thousandth(known.get("ms")) or inverse(known.get("rate"))
    return Step(
        step=number,
        total=finite_total(total),
        loss=loss,
        grad_norm=grad_norm,
        lr=known.get("lr"),
        step_time_s=time if time and time > 0 else None,
        tflops_per_gpu=known.get("tflops") or None,
        tokens_per_s=known.get("tokens") or None,
        nan=broken(loss, grad_norm),
        extra=extra,
    )
