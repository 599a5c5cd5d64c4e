"""Training reports as names and values: a dictionary per line, or a step line with indented `name: value` lines.

Dictionaries are those of HF Trainer 4 and 5, TRL, LLaMA-Factory, ms-swift, and their JSON copies. They are no valid
literals (nan and inf are bare words, values may be strings, the end may be missing), so pairs are searched. Reports of
several lines are those of OLMo-core, Composer, ColossalAI and NeMo-RL, between whose lines others may stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainlog.regex import lazy_pattern
from trainlog.training.steps import Step
from trainlog.training.values import (
    NUMBER,
    StepReport,
    finite_total,
    is_broken,
    make_step,
    parse_count,
    parse_figures,
    parse_number,
    plain_name,
    to_step_number,
    unwrap_numbers,
)

_DICT_START = lazy_pattern(r"""\{\s?['"][\w/(). -]{1,80}['"]\s?:""")
_DICT_PAIR = lazy_pattern(r"""['"]([^'"]{1,120})['"]\s?:\s?(?:'([^']{0,200})'|"([^"]{0,200})"|([^,}\s'")]{1,60}))""")
_STEP_OF_TOTAL = lazy_pattern(r"\s*(\d{1,12})\s*/\s*(\d{1,15})\s*")
_LOSS_KEYS = ("loss", "train/loss", "loss/policy_avg")
_LOSS = lazy_pattern(r"""['"](?:loss|train/loss|loss/policy_avg)['"]""")
_NUMBERED_LOSS_KEYS = ("total_loss", "train_loss")  # of a step only where its number stands beside them
_NUMBERED_LOSS = lazy_pattern(
    r"""['"](?:total|train)_loss['"].*['"](?:iteration|global_step|step|num_updates)['"]"""
    r"""|['"](?:iteration|global_step|step|num_updates)['"].*['"](?:total|train)_loss['"]"""
)
_NO_LOSS = lazy_pattern(r"""['"](?:loss|train/loss)['"]\s?:\s?(?:null|None)\b""")
_STEP_BEFORE = lazy_pattern(r"\bstep (\d{1,12}): ?$")
_STEP_KEYS = (
    "global_step/max_steps",
    "iteration",
    "global_step",
    "step",
    "current_steps",
    "train/step",
    "num_updates",
    "episode",
    "iter",
)
_TOKEN_RATE_KEYS = ("train_tokens_per_second", "tokens_per_second", "throughput")
ENDED = "train_runtime"  # the key of the last dictionary of a run


def find_dictionary_start(text: str, at: int = 0) -> int | None:
    """The offset, from `at` on, where a dictionary of a training step begins in a line; None without one."""
    if "loss" not in text or (
        _LOSS.search(text, at) is None and ("_loss" not in text or ENDED in text or not _NUMBERED_LOSS.search(text, at))
    ):
        return None
    found = _DICT_START.search(text, at)
    return found.start() if found else None


def ends_run(text: str) -> bool:
    return (
        ENDED in text
        and "train_loss" in text
        and _DICT_START.search(text) is not None
        and find_dictionary_start(text) is None
    )


def parse_dictionary(text: str, start_offset: int) -> StepReport | None:
    end = text.find("}", start_offset)
    inside = unwrap_numbers(text[start_offset : end if end > 0 else None])
    pairs = {key: one or two or bare for key, one, two, bare in _DICT_PAIR.findall(inside)}
    key = next((name for name in (*_LOSS_KEYS, *_NUMBERED_LOSS_KEYS) if name in pairs), "")
    if parse_number(pairs.get(key, "")) is None:
        return None
    before = _STEP_BEFORE.search(text, 0, start_offset)
    at, total = (int(before.group(1)), None) if before else _pop_step(pairs)
    name = _detect_format(pairs, text)
    loss, grad_norm = parse_number(pairs.pop(key)), _pop_number(pairs, "grad_norm", "train/grad_norm", "gnorm")
    step = Step(
        step=at,
        total=total,
        loss=loss,
        grad_norm=grad_norm,
        lr=_pop_number(pairs, "learning_rate", "lr", "train/lr-pg_0"),
        step_time_s=_pop_number(pairs, "step_time", "iter_time")
        or None,  # ms-swift's train_speed is an average since the start
        tokens_per_s=next((value for key in _TOKEN_RATE_KEYS if (value := _pop_number(pairs, key))), None),
        nan=is_broken(loss, grad_norm),
        extra=parse_figures(pairs.items()),
    )
    return StepReport(name, step, start_offset)


def iter_dictionaries(text: str, start: int | None) -> Iterator[tuple[int, StepReport | None]]:
    """Yield (offset, step) of each step's dictionary in a line; the step is None if it cannot be parsed."""
    while start is not None:
        end = text.find("}", start) + 1
        part = text[start : end or None]
        if (found := parse_dictionary(text, start)) is not None or (_LOSS.search(part) and not _NO_LOSS.search(part)):
            yield start, found
        start = find_dictionary_start(text, end) if end else None


def parse_steps_of_line(text: str) -> list[StepReport]:
    return [found for _, found in iter_dictionaries(text, find_dictionary_start(text)) if found is not None]


def _pop_number(pairs: dict[str, str], *keys: str) -> float | None:
    key = next((each for each in keys if each in pairs), None)
    return None if key is None else parse_number(pairs.pop(key))


def _pop_step(pairs: dict[str, str]) -> tuple[int | None, int | None]:
    for key in _STEP_KEYS:
        text = pairs.get(key)
        if text is None:
            continue
        if found := _STEP_OF_TOTAL.fullmatch(text):
            del pairs[key]
            return int(found.group(1)), finite_total(int(found.group(2)))
        if (step := parse_count(text)) is not None:
            del pairs[key]
            total = pairs.pop("max_steps", pairs.pop("total_steps", ""))
            return step, finite_total(parse_count(total))
    return None, None


def _detect_format(pairs: dict[str, str], text: str) -> str:
    if any(key in pairs for key in ("train_speed(s/it)", "train_speed(iter/s)", "global_step/max_steps", "token_acc")):
        return "ms-swift"
    if "train/loss" in pairs or "train/loss" in text:
        return "slime"
    if "num_updates" in text:
        return "fairseq"
    if "llamafactory" in text or "num_input_tokens_seen" in pairs:
        return "llama-factory"
    return "trl" if any("rewards" in key or key in {"num_tokens", "objective/kl"} for key in pairs) else "hf"


# reports of several lines

_REPORT_HEAD = lazy_pattern(
    r"\[(?:step|batch)=(\d{1,12})/(\d{1,15})(?:,[^\]]{0,40})?\]:?\s*$|\[Epoch (\d{1,9})() / Train\]:\s*$"
)
_LOOSE_REPORT_HEAD = lazy_pattern(r"={3,60} Step (\d{1,12})/(\d{1,15}) ={3,60}\s*$")
_REPORT_FIGURE = lazy_pattern(
    rf"\s*(?:[•*-] )?([A-Za-z][\w/ .-]{{0,80}}?(?: \([\w/]{{1,40}}\))?) ?[:=] ?({NUMBER})\s*(?:[a-z]{{1,3}}\b|%|$)"
)
_INDENTED = lazy_pattern(r"\s+\S")
_MAX_REPORT_LINES = 400  # lines of a report at most
_NOTEBOOK_ROW = lazy_pattern(rf"\s*(\d{{1,12}})\s+({NUMBER})(?=\s|$)")
_NOTEBOOK_ROW_WITHOUT_LOSS = lazy_pattern(r"\s*\d{1,12}\s+No log(?:\s|$)")
_PIPE_ROW = lazy_pattern(r"^\|\s+(\w{1,60})\s+\|\s+([-+]?\d[\d.e+-]{0,30})\s+\|\s*$")
_NOTEBOOK_HEAD = lazy_pattern(r"(?:^|[\s:])Step\s+Training Loss(?:\s|$)")


class MultilineReport:
    """A report of one step over several lines, parsed line by line."""

    def __init__(self, step: int, total: int | None, *, loose: bool) -> None:
        self._step = step
        self._total = total
        self._loose = loose
        self._figures: dict[str, float] = {}
        self._line_count = 0

    def add_line(self, text: str) -> bool:
        """Parse the next line; returns whether it belongs to the report."""
        self._line_count += 1
        figures = list(_iter_figures(text)) if _INDENTED.match(text) else []
        for name, value in figures:
            self._figures.setdefault(name, value)
        return bool(figures)

    def may_continue(self, text: str) -> bool:
        """Whether the report may continue after this line, which is not part of it."""
        return self._loose and self._line_count < _MAX_REPORT_LINES and _LOOSE_REPORT_HEAD.search(text) is None

    def make_report(self) -> StepReport | None:
        """The reported step; None if the report had no loss."""
        step = make_step(self._step, self._total, self._figures)
        return StepReport("blocks", step) if step else None


class PipeTable(MultilineReport):
    """The table of stable-baselines: a row `| name | value |` for each figure, one of them the iteration."""

    def __init__(self) -> None:
        super().__init__(0, None, loose=False)

    def add_line(self, text: str) -> bool:
        if found := _PIPE_ROW.search(text):
            self._figures[found.group(1)] = float(found.group(2))
        return text.lstrip().startswith("|")

    def make_report(self) -> StepReport | None:
        self._figures.pop("total_timesteps", None)
        number = to_step_number(self._figures.pop("iterations", None))
        step = make_step(number, None, self._figures) if number is not None else None
        return StepReport("blocks", step) if step else None


class NotebookTable:
    """The table that HF Trainer shows in a notebook, one row per step."""

    def add_line(self, text: str) -> StepReport | bool:
        """Parse a row to its step; else whether the line is a row at all."""
        row = _NOTEBOOK_ROW.match(text)
        loss = parse_number(row.group(2)) if row else None
        step = make_step(int(row.group(1)), None, {"loss": loss}) if row and loss is not None else None
        return StepReport("hf-table", step) if step else _NOTEBOOK_ROW_WITHOUT_LOSS.match(text) is not None


def _open_headed(text: str) -> MultilineReport | None:
    loose = _LOOSE_REPORT_HEAD.search(text)
    head = loose or _REPORT_HEAD.search(text)
    if head is None:
        return None
    step, total, *epoch = head.groups()
    return MultilineReport(int(step or epoch[0]), int(total) if total else None, loose=loose is not None)


REPORT_HEADS: dict[str, Callable[[str], MultilineReport | NotebookTable | None]] = {
    "Training Loss": lambda text: NotebookTable() if _NOTEBOOK_HEAD.search(text) else None,
    "| time/ ": lambda _: PipeTable(),
    "= Step ": _open_headed,
    "[batch=": _open_headed,
    "[step=": _open_headed,
    "/ Train]:": _open_headed,
}
"""By text in the first line of a report over several lines: the function that begins such a report."""


def open_report(text: str) -> MultilineReport | NotebookTable | None:
    """The multi-line report or table that begins with this line; None if none does."""
    return next((block for word, begin in REPORT_HEADS.items() if word in text and (block := begin(text))), None)


def _iter_figures(text: str) -> Iterator[tuple[str, float]]:
    for part in text.split(" | "):
        found = _REPORT_FIGURE.match(part)
        value = parse_number(found.group(2)) if found else None
        if found and value is not None:
            yield plain_name(found.group(1).partition(" (")[0]), value
