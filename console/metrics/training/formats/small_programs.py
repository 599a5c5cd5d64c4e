"""Lines of small training programs: the nanoGPT family, picotron, the FSDP sample, and tutorials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.metrics.training.steps import Step
from console.metrics.training.values import (
    NUMBER,
    Found,
    broken,
    finite_total,
    inverse,
    number,
    positive,
    step_of,
    thousandth,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_NANO = re.compile(rf"\biter (\d{{1,12}}): loss ({NUMBER}), time ({NUMBER})ms(?:, mfu ({NUMBER})%)?")
_MODDED = re.compile(
    rf"\bstep:(\d{{1,12}})/(\d{{1,15}}) .{{0,80}}?\btrain_loss:({NUMBER})(?:.{{0,80}}?step_avg:({NUMBER})ms)?"
)
_ROW = re.compile(
    r"(?>\s{0,16}(?:\[[^\]]{0,300}\](?:<\w{1,20}>)?:?|\([^)]{0,100}\)|[\w.-]{0,60}\d:(?!\S)"
    r"|\d{1,4}[-:/.]\d[\d:.,TZ+/-]{3,40}|>)){0,6}+"
    rf"\s{{0,16}}(\d{{1,12}}) \| loss ({NUMBER})"
    rf"(?: \| lr ({NUMBER}))?(?: \| ({NUMBER})ms)?(?: \| mfu\s{{1,9}}({NUMBER})%)?"
)
_PICOTRON = re.compile(r"\bStep: (\d{1,12})\s{0,9}\| Loss: ")
_PICOTRON_FIELD = re.compile(rf"([A-Za-z][\w/ ]{{0,40}}): {{1,8}}({NUMBER}[KMGTB]?)")
_BATCH = re.compile(rf"\bBatch (\d{{1,12}}) Loss: ({NUMBER}), Speed: ({NUMBER}) samples/sec(?:, lr: ({NUMBER}))?")
_SAMPLES = re.compile(rf"Epoch: (\d{{1,9}}) \[(\d{{1,12}})/(\d{{1,15}}) \(\d{{1,3}}%\)\]\s+Loss: ({NUMBER})")
_BATCHES = re.compile(rf"Epoch: \[(\d{{1,9}})\]\[\s*(\d{{1,12}})/(\d{{1,15}})\].{{0,200}}?\bLoss ({NUMBER})")
_RECIPE = re.compile(rf"(?:^|[\s\]:])\d{{1,9}}\|(\d{{1,12}})\|Loss: ({NUMBER})(?=:|\s)")
_FAIRSEQ = re.compile(rf"\| epoch (\d{{1,9}}):? +(\d{{1,12}}) / (\d{{1,15}}) (.{{0,40}}\bloss={NUMBER}.{{0,2000}})")
_TIMM = re.compile(
    rf"\bTrain: (\d{{1,9}}) \[ *(\d{{1,12}})/(\d{{1,15}}) \( *\d{{1,3}}%\)\] +Loss: +({NUMBER})(.{{0,400}})"
)
_EQUALS = re.compile(rf"(\w{{1,40}})=({NUMBER})")
_LR = re.compile(rf"\bLR: ({NUMBER})")
_LEVANTER = re.compile(
    r"\bProgress on:train (\d{1,12})it/(\d{1,15})it rate:([\d.]{1,12})(it/s|s/it).{0,80}? postfix:(.{1,400})"
)
_KERAS = re.compile(
    rf"\b(\d{{1,12}})/(\d{{1,15}}) (?:\[[=>.]{{5,80}}\]|[━ ]{{5,80}}).{{1,200}}?(?<![\w_])loss: ({NUMBER})"
)
_MINIBATCH = re.compile(rf"(?:^|\s)\[(\d{{1,9}}),\s{{1,9}}(\d{{1,12}})\] loss: ({NUMBER})")


def _nano(text: str) -> Found | None:
    found = _NANO.search(text)
    if found is None:
        return None
    at, loss, time, mfu = found.groups()
    share = positive(mfu or "")
    return _found(
        "nanogpt", found, int(at), number(loss), {"mfu": share} if share else {}, time=thousandth(positive(time))
    )


def _modded(text: str) -> Found | None:
    found = _MODDED.search(text)
    if found is None:
        return None
    at, total, loss, time = found.groups()
    return _found(
        "modded-nanogpt", found, int(at), number(loss), {}, total=int(total), time=thousandth(positive(time or ""))
    )


def _row(text: str) -> Found | None:
    found = _ROW.match(text)
    if found is None:
        return None
    at, loss, rate, time, mfu = found.groups()
    share = positive(mfu or "")
    extra = {"mfu": share} if share else {}
    return _found(
        "loss-rows", found, int(at), number(loss), extra, lr=number(rate or ""), time=thousandth(positive(time or ""))
    )


def _picotron(text: str) -> Found | None:
    found = _PICOTRON.search(text)
    if found is None:
        return None
    fields = {
        name: value
        for name, raw in _PICOTRON_FIELD.findall(text[found.start() :])
        if (value := number(raw)) is not None
    }
    fields.pop("Step", None)
    tokens = fields.pop("Tokens/s", None)
    result = _found("picotron", found, int(found.group(1)), fields.pop("Loss", None), fields)
    result.step = result.step._replace(tokens_per_s=tokens or None, grad_norm=fields.pop("Grad norm", None))
    return result


def _batch(text: str) -> Found | None:
    found = _BATCH.search(text)
    if found is None:
        return None
    at, loss, speed, rate = found.groups()
    samples = positive(speed)
    extra = {"samples_per_s": samples} if samples else {}
    return _found("fsdp-sample", found, int(at), number(loss), extra, lr=number(rate or ""))


def _minibatch(text: str) -> Found | None:
    found = _MINIBATCH.search(text)
    if found is None:
        return None
    epoch, at, loss = found.groups()
    return _found("minibatches", found, int(at), number(loss), {"epoch": float(epoch)})


def _found(
    name: str,
    match: re.Match[str],
    at: int,
    loss: float | None,
    extra: dict[str, float],
    *,
    total: int | None = None,
    lr: float | None = None,
    time: float | None = None,
) -> Found:
    step = Step(
        step=at,
        total=finite_total(total),
        loss=loss,
        lr=lr,
        step_time_s=time,
        nan=broken(loss),
        extra=extra,
    )
    return Found(name, step, match.start())


def _sample(text: str) -> Found | None:
    found = _SAMPLES.search(text) or _BATCHES.search(text)
    if found is None:
        return None
    epoch, at, total, loss = found.groups()
    first = 1 if found.re is _SAMPLES else 0
    step = max(0, int(epoch) - first) * int(total) + int(at)
    return _found("pytorch-example", found, step, number(loss), {"epoch": float(epoch)})


def _recipe(text: str) -> Found | None:
    found = _RECIPE.search(text)
    return _found("torchtune", found, int(found.group(1)), number(found.group(2)), {}) if found else None


def _fairseq(text: str) -> Found | None:
    found = _FAIRSEQ.search(text)
    if found is None:
        return None
    epoch, at, total, rest = found.groups()
    figures = {name: value for name, raw in _EQUALS.findall(rest) if (value := number(raw)) is not None}
    updates = figures.pop("num_updates", max(0, int(epoch) - 1) * int(total) + int(at))
    step = step_of(int(updates), None, figures)
    return Found("fairseq", step, found.start()) if step else None


def _timm(text: str) -> Found | None:
    found = _TIMM.search(text)
    if found is None:
        return None
    epoch, at, total, loss, rest = found.groups()
    rate = _LR.search(rest)
    step = int(epoch) * int(total) + int(at)
    return _found(
        "timm", found, step, number(loss), {"epoch": float(epoch)}, lr=number(rate.group(1)) if rate else None
    )


def _levanter(text: str) -> Found | None:
    found = _LEVANTER.search(text)
    if found is None:
        return None
    at, total, rate, unit, rest = found.groups()
    figures = {name: value for name, raw in _EQUALS.findall(rest) if (value := number(raw)) is not None}
    step, speed = step_of(int(at), int(total), figures), positive(rate)
    if step is None:
        return None
    return Found("levanter", step._replace(step_time_s=inverse(speed) if unit == "it/s" else speed), found.start())


def keras(text: str, epoch: int) -> Found | None:
    """Keras: a bar in each epoch, whose number stands on the line before."""
    found = _KERAS.search(text)
    if found is None:
        return None
    at, total, loss = found.groups()
    step = max(0, epoch - 1) * int(total) + int(at)
    return _found("keras", found, step, number(loss), {"epoch": float(epoch)})


_READERS: tuple[tuple[str, Callable[[str], Found | None]], ...] = (
    ("iter ", _nano),
    ("train_loss:", _modded),
    (" | loss ", _row),
    ("| Loss: ", _picotron),
    ("samples/sec", _batch),
    ("] loss: ", _minibatch),
    ("|Loss: ", _recipe),
    ("Epoch: ", _sample),
    ("| epoch ", _fairseq),
    ("Train: ", _timm),
    ("Progress on:train", _levanter),
)
"""What has to stand in a line for each."""


def small(text: str) -> Found | None:
    """What a small program says of a step."""
    for mark, reader in _READERS:
        if mark in text and (found := reader(text)):
            return found
    return None
