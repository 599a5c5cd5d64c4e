"""Programs with a line per step: torchtitan, MaxText, DeepSpeed, verl, the nanoGPT family, picotron, tutorials."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from trainlog.regex import lazy_pattern
from trainlog.training.formats.megatron import parse_bars, parse_dllogger, parse_nemo_2
from trainlog.training.formats.unknown_programs import OwnFormat, parse_in_configured_formats
from trainlog.training.steps import ProgressBar, Step
from trainlog.training.values import (
    NUMBER,
    StepReport,
    finite_total,
    is_broken,
    make_step,
    milliseconds_to_seconds,
    parse_count,
    parse_figures,
    parse_number,
    parse_positive,
    parse_seconds,
    to_reciprocal,
)

_TORCHTITAN_STEP = lazy_pattern(r"step:\s{1,12}(\d{1,12})\s{1,12}loss:\s{1,12}([-+\w.,]{1,40})")
_TORCHTITAN_MEMORY = lazy_pattern(r"memory:\s{1,12}(\d{1,12}\.\d{1,9})GiB\((\d{1,12}\.\d{1,9})%\)")
_MAXTEXT_STEP = lazy_pattern(r"completed step: (\d{1,12}), seconds: ")
_MAXTEXT_FIELD = lazy_pattern(rf"([\w/ ]{{1,40}}): ({NUMBER})")
_DEEPSPEED_STEP = lazy_pattern(r"\bstep=(\d{1,12}), skipped=(\d{1,12}), lr=\[([^,\]]{0,40})")
_DEEP_SPEED = lazy_pattern(rf"global_step=(\d{{1,12}}), RunningAvgSamplesPerSec={NUMBER}, CurrSamplesPerSec=({NUMBER})")
_VERL_STEP = lazy_pattern(r"step:(\d{1,12})(?=\s{1,9}-\s|\s*$)")
_VERL_HEAD = lazy_pattern(r"(?:^|\s)step:(\d{1,12})\s{1,9}-\s")
_VERL_CUT = lazy_pattern(r"\s*(\d{1,12}) - [a-z_]{1,30}/")
_VERL_FIELD = lazy_pattern(rf"([A-Za-z_][\w/@.+-]{{1,100}}(?:\([^)\s]{{1,20}}\))?):(?:np\.\w{{1,12}}\()?({NUMBER})")
_VERL_LOSSES = ("actor/pg_loss", "train/loss", "critic/vf_loss")
_VERL_KINDS = ("actor/", "critic/", "train/", "perf/", "timing")  # of training
_VERL_TIMES = ("timing_s/step", "perf/time_per_step", "timing/step", "train/time(s)")
_VERL_RATE = lazy_pattern(r"(?:actor|train)/lr(?:\((1e-\d)\))?")  # in a unit, perhaps


def parse_torchtitan(text: str) -> StepReport | None:
    """The step in `step: 5  loss: 7.3  grad_norm: 49.6  memory: 103.01GiB(73.72%)  tps: 771  mfu: 3.1%`, or None."""
    found = _TORCHTITAN_STEP.search(text) if "loss:" in text else None
    if found is None or "validate step:" in text:
        return None
    loss = parse_number(found.group(2))
    words = text[found.end() :].split()
    pairs = zip(words[::2], words[1::2], strict=False)
    fields = parse_figures((name[:-1], raw.rstrip("%")) for name, raw in pairs if name[-1] == ":" and name != "memory:")
    if memory := _TORCHTITAN_MEMORY.search(text):
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
        nan=is_broken(loss, grad_norm),
        extra=fields,
    )
    return StepReport("torchtitan", step, found.start())


def parse_maxtext(text: str) -> StepReport | None:
    """The step in a line `completed step: 5, seconds: 1.2, TFLOP/s/device: 400.0, ..., loss: 2.1`; else None."""
    found = _MAXTEXT_STEP.search(text)
    if found is None:
        return None
    fields = parse_figures((name.strip(), raw) for name, raw in _MAXTEXT_FIELD.findall(text[found.start() :]))
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
        nan=is_broken(loss),
        extra=fields,
    )
    return StepReport("maxtext", step, found.start())


def parse_deepspeed(text: str) -> StepReport | None:
    """The step in a line of DeepSpeed itself, without a loss: learning rate, skipped steps, samples/s; else None."""
    if found := _DEEPSPEED_STEP.search(text):
        step = Step(step=int(found.group(1)), lr=parse_number(found.group(3)), extra={"skipped": float(found.group(2))})
    elif found := _DEEP_SPEED.search(text):
        speed = parse_positive(found.group(2))
        step = Step(step=int(found.group(1)), extra={"samples_per_s": speed} if speed else {})
    return StepReport("deepspeed", step, found.start()) if found else None


def find_verl_start(text: str) -> int | None:
    """The number of the step whose verl report begins in a line; None if none begins."""
    found = (_VERL_STEP.search(text) if "step:" in text else None) or _VERL_CUT.match(text)
    return int(found.group(1)) if found else None


def begins_next_verl_step(text: str, step: int) -> bool:
    """Whether a line after the report of `step` begins another step; a broken metric name may also contain "step:"."""
    found = _VERL_HEAD.search(text) if "step:" in text else None
    return found is not None and int(found.group(1)) != step


def parse_verl(step: int, text: str) -> StepReport | None:
    """Parse verl's report of that step, on one line or joined from several; None if it has none of verl's metrics."""
    fields = parse_figures(_VERL_FIELD.findall(text))
    fields.pop("step", None)
    if not any(name.startswith(_VERL_KINDS) for name in fields):
        return None
    loss_name = next((name for name in _VERL_LOSSES if name in fields), None)
    loss = fields.pop(loss_name) if loss_name else None
    rate = next((found for name in fields if (found := _VERL_RATE.fullmatch(name))), None)
    time_name = next((name for name in _VERL_TIMES if name in fields), None)
    grad_norm = fields.pop("actor/grad_norm", fields.get("train/grad_norm"))
    read = Step(
        step=step,
        loss=loss,
        grad_norm=grad_norm,
        lr=fields.pop(rate[0]) * float(rate[1] or 1) if rate else None,
        step_time_s=(fields.pop(time_name) or None) if time_name else None,
        tokens_per_s=fields.pop("perf/throughput", None) or None,
        nan=is_broken(loss, grad_norm),
        extra=fields,
    )
    return StepReport("verl", read)


# small programs

_PICOTRON_STEP = lazy_pattern(r"\bStep: (\d{1,12})\s{0,9}\| Loss: ")
_PICOTRON_FIELD = lazy_pattern(rf"([A-Za-z][\w/ ]{{0,40}}): {{1,8}}({NUMBER}[KMGTB]?)")
_FAIRSEQ = lazy_pattern(rf"\| epoch (\d{{1,9}}):? +(\d{{1,12}}) / (\d{{1,15}}) (.{{0,40}}\bloss={NUMBER}.{{0,2000}})")
_EQUALS_FIELD = lazy_pattern(rf"(\w{{1,40}})=({NUMBER})")
_LEVANTER_STEP = lazy_pattern(
    r"\bProgress on:train (\d{1,12})it/(\d{1,15})it rate:([\d.]{1,12})(it/s|s/it).{0,80}? postfix:(.{1,400})"
)


def _parse_picotron(text: str) -> StepReport | None:
    found = _PICOTRON_STEP.search(text)
    if found is None:
        return None
    fields = parse_figures(_PICOTRON_FIELD.findall(text[found.start() :]))
    fields.pop("Step", None)
    loss, tokens, grad_norm = (fields.pop(name, None) for name in ("Loss", "Tokens/s", "Grad norm"))
    step = Step(int(found[1]), None, loss, grad_norm, tokens_per_s=tokens or None, nan=is_broken(loss), extra=fields)
    return StepReport("picotron", step, found.start())


def _parse_fairseq(text: str) -> StepReport | None:
    found = _FAIRSEQ.search(text)
    if found is None:
        return None
    epoch, at, total, rest = found.groups()
    figures = parse_figures(_EQUALS_FIELD.findall(rest))
    updates = figures.pop("num_updates", max(0, int(epoch) - 1) * int(total) + int(at))
    step = make_step(int(updates), None, figures)
    return StepReport("fairseq", step, found.start()) if step else None


def _parse_levanter(text: str) -> StepReport | None:
    found = _LEVANTER_STEP.search(text)
    if found is None:
        return None
    at, total, rate, unit, rest = found.groups()
    step, speed = make_step(int(at), int(total), parse_figures(_EQUALS_FIELD.findall(rest))), parse_positive(rate)
    if step is None:
        return None
    return StepReport(
        "levanter", step._replace(step_time_s=to_reciprocal(speed) if unit == "it/s" else speed), found.start()
    )


_COMMON_WORDS = ("loss", "Loss", "%|", "step")  # one of these stands in nearly every line with a figure
_GROUPS = frozenset({"at", "of", "epoch", "total", "loss", "grad_norm", "lr", "ms", "s", "mfu", "samples_per_s"})


class LineFormat(Struct, frozen=True):
    """The line format of a known training program, and how its lines are parsed."""

    name: str
    word: str
    parse: Callable[[str], StepReport | None]
    gate: str = ""  # the common word in each of its lines; empty: its own word

    @classmethod
    def of_pattern(cls, name: str, word: str, pattern: str, first_epoch: int = 0) -> LineFormat:
        """A format whose lines match a regular expression with named groups. Raises ValueError."""
        _, *parts = re.split(r"\(\?P<(\w+)>", pattern)
        if unknown := {*parts[::2]} - _GROUPS:
            raise ValueError(f"{name}: no figure of a step is called {', '.join(sorted(unknown))}")
        compiled = lazy_pattern(pattern)

        def parse_line(text: str) -> StepReport | None:
            found = compiled.search(text)
            return _make_report(name, found, first_epoch) if found else None

        texts = (word, *parts[1::2])
        return cls(
            name, word, parse_line, next((each for each in _COMMON_WORDS if any(each in text for text in texts)), word)
        )


def _make_report(
    name: str, match: re.Match[str], first_epoch: int, epoch: int | None = None, epochs: int = 0
) -> StepReport:
    """The step that a line reports; `epoch` and `epochs` (their number) come from the line before if this has none."""
    groups = {group: raw or "" for group, raw in match.groupdict().items()}
    at, loss = int(groups["at"]), parse_number(groups["loss"])
    extra = {group: value for group in ("mfu", "samples_per_s") if (value := parse_positive(groups.get(group, "")))}
    if (number_ := epoch if epoch is not None else parse_count(groups.get("epoch", ""))) is not None:
        extra["epoch"] = float(number_)
        at += max(0, number_ - first_epoch) * int(groups.get("of", 0))
    total = finite_total(epochs * int(groups.get("of", 0)) or parse_count(groups.get("total", "")))
    time = milliseconds_to_seconds(parse_positive(groups.get("ms", ""))) or parse_positive(groups.get("s", ""))
    rate, norm = (parse_number(groups.get(group, "")) for group in ("lr", "grad_norm"))
    step = Step(at, total, loss, norm, rate, step_time_s=time, nan=is_broken(loss, norm), extra=extra)
    return StepReport(name, step, match.start())


_KERAS_LINE = lazy_pattern(
    rf"\b(?P<at>\d{{1,12}})/(?P<of>\d{{1,15}}) (?:\[[=>.]{{5,80}}\]|[━ ]{{5,80}}|- \d{{1,9}}s - ).{{0,200}}?"
    rf"(?<![\w_])loss: (?P<loss>{NUMBER})"
)


def parse_keras(text: str, epoch: int, epochs: int) -> StepReport | None:
    """The step in Keras's progress bar or line of an epoch, whose number is on the line before; else None."""
    found = _KERAS_LINE.search(text)
    return _make_report("keras", found, 1, epoch, epochs) if found else None


_LOSS = rf"(?P<loss>{NUMBER})"
_IN_EPOCH = r"(?P<at>\d{1,12})/(?P<of>\d{1,15})"
FORMATS = (
    LineFormat("nemo", "Training epoch", parse_nemo_2, gate="step"),
    LineFormat("nemo", "DLLL {", parse_dllogger, gate="loss"),
    LineFormat("maxtext", "completed step", parse_maxtext),
    LineFormat("deepspeed", "step=", parse_deepspeed),
    LineFormat("torchtitan", "step:", parse_torchtitan),
    LineFormat.of_pattern(
        "nanogpt",
        "iter ",
        rf"\biter (?P<at>\d{{1,12}}): loss {_LOSS}, time (?P<ms>{NUMBER})ms(?:, mfu (?P<mfu>{NUMBER})%)?",
    ),
    LineFormat.of_pattern(
        "modded-nanogpt",
        "train_loss:",
        rf"\bstep:(?P<at>\d{{1,12}})/(?P<total>\d{{1,15}}) .{{0,80}}?\btrain_loss:{_LOSS}"
        rf"(?:.{{0,80}}?step_avg:(?P<ms>{NUMBER})ms)?",
    ),
    LineFormat.of_pattern(
        "loss-rows",
        " | loss ",
        r"\A(?>(?>\s{0,16}(?:\[[^\]]{0,300}\](?:<\w{1,20}>)?:?|\([^)]{0,100}\)|[\w.-]{0,60}\d:(?!\S)"
        r"|\d{1,4}[-:/.]\d[\d:.,TZ+/-]{3,40}|>)){0,6})"
        rf"\s{{0,16}}(?P<at>\d{{1,12}}) \| loss {_LOSS}"
        rf"(?: \| lr (?P<lr>{NUMBER}))?(?: \| (?P<ms>{NUMBER})ms)?(?: \| mfu\s{{1,9}}(?P<mfu>{NUMBER})%)?",
    ),
    LineFormat("picotron", "| Loss: ", _parse_picotron),
    LineFormat.of_pattern(
        "fsdp-sample",
        "samples/sec",
        rf"\bBatch (?P<at>\d{{1,12}}) Loss: {_LOSS}, Speed: (?P<samples_per_s>{NUMBER}) samples/sec"
        rf"(?:, lr: (?P<lr>{NUMBER}))?",
    ),
    LineFormat.of_pattern(
        "minibatches", "] loss: ", rf"(?:^|\s)\[(?P<epoch>\d{{1,9}}),\s{{1,9}}(?P<at>\d{{1,12}})\] loss: {_LOSS}"
    ),
    LineFormat.of_pattern("each-rank", "] Loss : ", rf"(?:^|\s)\[(?P<at>\d{{1,12}})\] Loss : {_LOSS}"),
    LineFormat.of_pattern(
        "torchtune", "|Loss: ", rf"(?:^|[\s\]:])\d{{1,9}}\|(?P<at>\d{{1,12}})\|Loss: {_LOSS}(?=:|\s)"
    ),
    LineFormat.of_pattern(
        "pytorch-example",
        "Epoch: ",
        rf"Epoch: (?P<epoch>\d{{1,9}}) \[{_IN_EPOCH} \(\d{{1,3}}%\)\]\s+Loss: {_LOSS}",
        first_epoch=1,
    ),
    LineFormat.of_pattern(
        "pytorch-example", "Epoch: ", rf"Epoch: \[(?P<epoch>\d{{1,9}})\]\[\s*{_IN_EPOCH}\].{{0,200}}?\bLoss {_LOSS}"
    ),
    LineFormat("fairseq", "| epoch ", _parse_fairseq, gate="loss"),
    LineFormat.of_pattern(
        "timm",
        "Train: ",
        rf"\bTrain: (?P<epoch>\d{{1,9}}) \[ *{_IN_EPOCH} \( *\d{{1,3}}%\)\] +Loss: +{_LOSS}"
        rf"(?:.{{0,40}}?\bTime: +(?P<s>{NUMBER})s,)?(?:.{{0,400}}?\bLR: (?P<lr>{NUMBER}))?",
    ),
    LineFormat("levanter", "Progress on:train", _parse_levanter, gate="loss"),
)


def parse_known_program(text: str) -> StepReport | None:
    """The step in a line of any known program; None if the line has none."""
    for each in FORMATS:
        if each.word in text and (found := each.parse(text)):
            return found
    return None


# progress alone, for every line of every rank

_TQDM_BAR = lazy_pattern(r"\| *(\d{1,12})/(\d{1,15}) \[([\d:]{1,12})<[^,]{0,30}, *([\d.?]{1,12})(it/s|s/it)")
PLAIN_BAR = lazy_pattern(  # a line that holds nothing else
    rb"(?m)[^\S\n]*\d{1,3}%\|[^|A-Za-z=\n]{0,1200}\| *(\d{1,12})/(\d{1,15}) \[(?:(\d{1,6}):)?(\d\d):(\d\d)<"
    rb"[\d:?]{1,30}, *(\d{1,9}\.\d{1,3})(it/s|s/it)\][^\S\n]*$"
)
GATE = tuple(dict.fromkeys((*_COMMON_WORDS, *(each.gate or each.word for each in FORMATS))))
"""Words of which every line of the known formats has one; other lines are not parsed."""
_TRAINING_BAR_NAME = lazy_pattern(
    r"(?i)\btrain(?:ing)?$|\]$|\bpid=\d{1,10}[^()]{0,100}\)$"
)  # what stands before the bar of training, if anything does


def iter_drawn_bars(text: str) -> Iterator[ProgressBar]:
    """Yield the progress bars in a line, several if frames were joined; a bar with a name only if of a training."""
    start = text.find("%|")
    while start >= 0:
        if bar := _parse_bar_at(text, start):
            yield bar
        start = text.find("%|", start + 2)


def _parse_bar_at(text: str, start: int) -> ProgressBar | None:
    found = _TQDM_BAR.match(text, text.find("|", start + 2))
    if found is None:
        return None
    name = text[max(0, start - 200) : start].rstrip("0123456789").rstrip(" \t:>")
    if name and (name[-1].isalpha() or name[-1] in ")]") and not _TRAINING_BAR_NAME.search(name):
        return None
    at, total, clock, rate, unit = found.groups()
    speed = parse_positive(rate)
    return ProgressBar(int(at), int(total), parse_seconds(clock), 1 / speed if speed and unit == "it/s" else speed)


def make_plain_bar(match: re.Match[bytes]) -> ProgressBar:
    at, total, hours, minutes, seconds, rate, unit = match.groups()
    elapsed, speed = 3600 * int(hours or 0) + 60 * int(minutes) + int(seconds), float(rate) or None
    return ProgressBar(int(at), int(total), elapsed, 1 / speed if speed and unit == b"it/s" else speed)


_MAX_CHARACTERS = 2000  # characters of a line that are looked at
_STEP_WORDS = ("iter", "step", "%|", "Iter", "Step", "STEP", "DLLL")
_PLAIN_STEP = lazy_pattern(
    r"(?i)\b(?:iter(?:ation)?s?|(?:global_?)?step(?:/max_steps)?)[\s:=#\"']{0,8}(\d{1,12})(?![\d.]*\s*(?:ms|s\b))"
)


def parse_step(line: str, formats: tuple[OwnFormat, ...] = ()) -> tuple[int, int] | None:
    """(step, length of its progress bar or 0) in any rank's line; None if it has no step."""
    if formats and (described := parse_in_configured_formats(formats, line)) and described.step.step is not None:
        return described.step.step, 0
    if not any(word in line for word in _STEP_WORDS):
        return None
    text = line[:_MAX_CHARACTERS]
    if "%|" in text and "loss=" not in text and (bars := [*iter_drawn_bars(text)]):
        return bars[-1].step, bars[-1].total
    found = [*parse_bars(text), parse_known_program(text)][0] if "%|" in text or "DLLL" in text else None
    if found and found.step.step is not None:
        return found.step.step, 0
    plain = _PLAIN_STEP.search(text)
    return (int(plain[1]), 0) if plain else None


_SAVED_LINES = (
    lazy_pattern(r"successfully saved checkpoint (?:from|at) (?:iteration|step)\s+(\d{1,12})", re.IGNORECASE),
    lazy_pattern(r"Saving model checkpoint to \S{0,400}?checkpoint-(\d{1,12})\b"),
    lazy_pattern(r"(?i)\bsaved a checkpoint at step (\d{1,12})\b"),
    lazy_pattern(r"(?i)\bcheckpoint\b.{0,80}\bsaved (?:at|for|from) (?:global_)?step[ :=]{1,3}(\d{1,12})\b"),
)
_SAVED_SOMEWHERE = lazy_pattern(r"(?i)finished saving the checkpoint|saved checkpoint (?:to|in) ")
_SAVED_PLACE = lazy_pattern(r"(?i)\b(?:to|in) ((?:gs://|/|[\w.-]{1,255}/)[^\s'\"]{1,400})")


class SavedCheckpoint(Struct, frozen=True):
    step: int | None  # None: the line does not say of which step; it is the last one
    place: str = ""  # folder that it was saved to, as the line says, in a pod's maybe relative; empty: it does not say


def parse_checkpoint(text: str) -> SavedCheckpoint | None:
    """The saved checkpoint that a line reports; None if it reports none."""
    if "heckpoint" not in text:
        return None
    place = found.group(1) if (found := _SAVED_PLACE.search(text)) else ""
    for pattern in _SAVED_LINES:
        if found := pattern.search(text):
            return SavedCheckpoint(int(found.group(1)), place)
    return SavedCheckpoint(None, place) if _SAVED_SOMEWHERE.search(text) else None
