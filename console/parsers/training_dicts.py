"""Logs of one dictionary a line: HF Trainer 4 and 5, TRL, LLaMA-Factory, ms-swift, and their JSON copies.

They are no literals: nan and inf are bare words, values may be strings, the end may be missing. So pairs are picked.
"""

from __future__ import annotations

import re

from console.models.training import Step
from console.parsers.training_values import Found, broken, count, finite_total, inverse, number

_OPEN = re.compile(r"""\{\s?['"][\w/(). -]{1,80}['"]\s?:""")
_PAIR = re.compile(
    r"""['"]([^'"]{1,120})['"]\s?:\s?(?:'([^']{0,200})'|"([^"]{0,200})"|(?:np\.\w{1,12}\()?([^,}\s'")]{1,60}))"""
)
_OF = re.compile(r"\s*(\d{1,12})\s*/\s*(\d{1,15})\s*")
_PLACES = ("global_step/max_steps", "iteration", "global_step", "step", "current_steps")
_TOKENS = ("train_tokens_per_second", "tokens_per_second", "throughput")
ENDED = "train_runtime"
"""The key of the last dictionary of a run."""


def opens(text: str) -> int | None:
    """Where a dictionary of a training step begins in this line."""
    if "'loss'" not in text and '"loss"' not in text:
        return None
    found = _OPEN.search(text)
    return found.start() if found else None


def ends_run(text: str) -> bool:
    """Whether this line sums up a run."""
    return ENDED in text and "train_loss" in text and _OPEN.search(text) is not None and opens(text) is None


def dictionary(text: str, start: int) -> Found | None:
    """The step that the dictionary says."""
    end = text.find("}", start)
    pairs = {key: one or two or bare for key, one, two, bare in _PAIR.findall(text[start : end if end > 0 else None])}
    if number(pairs.get("loss", "")) is None:
        return None
    at, total = _place(pairs)
    name = _format(pairs, text)
    loss, grad_norm = number(pairs.pop("loss")), _taken(pairs, "grad_norm")
    per_step, per_second = _taken(pairs, "train_speed(s/it)"), _taken(pairs, "train_speed(iter/s)")
    step = Step(
        step=at,
        total=total,
        loss=loss,
        grad_norm=grad_norm,
        lr=_taken(pairs, "learning_rate"),
        step_time_s=per_step or inverse(per_second),
        tokens_per_s=next((value for key in _TOKENS if (value := _taken(pairs, key))), None),
        nan=broken(loss, grad_norm),
        extra={key: value for key, text in pairs.items() if (value := number(text)) is not None},
    )
    return Found(name, step, start)


def _taken(pairs: dict[str, str], key: str) -> float | None:
    text = pairs.pop(key, None)
    return None if text is None else number(text)


def _place(pairs: dict[str, str]) -> tuple[int | None, int | None]:
    for key in _PLACES:
        text = pairs.get(key)
        if text is None:
            continue
        if found := _OF.fullmatch(text):
            del pairs[key]
            return int(found.group(1)), finite_total(int(found.group(2)))
        if (step := count(text)) is not None:
            del pairs[key]
            total = pairs.get("max_steps", pairs.get("total_steps", ""))
            return step, finite_total(count(total))
    return None, None


def _format(pairs: dict[str, str], text: str) -> str:
    if any(key in pairs for key in ("train_speed(s/it)", "train_speed(iter/s)", "global_step/max_steps", "token_acc")):
        return "ms-swift"
    if "llamafactory" in text or "num_input_tokens_seen" in pairs:
        return "llama-factory"
    return "trl" if any("rewards" in key or key == "num_tokens" for key in pairs) else "hf"
