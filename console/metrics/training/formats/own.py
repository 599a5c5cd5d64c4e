"""Lines of programs that a person described in the settings: a pattern whose named groups are a step's figures."""

from __future__ import annotations

from typing import NamedTuple

from console.config import config_in_force
from console.logs.word_search import WordSearch
from console.metrics.training.steps import Step
from console.metrics.training.values import (
    StepReport,
    finite_total,
    is_broken,
    milliseconds_to_seconds,
    parse_figures,
    reciprocal,
    to_step_number,
)
from console.patterns import Pattern, compiled

LONGEST = 2000  # characters of a line that are looked at


class OwnFormat(NamedTuple):
    name: str
    pattern: Pattern

    def parse_line(self, text: str) -> StepReport | None:
        """The step that the line tells of; None if it is no such line."""
        found = self.pattern.search(text[:LONGEST])
        if found is None:
            return None
        at, groups = found
        said = parse_figures(groups.items())
        number = to_step_number(said.pop("step", None))
        if number is None:
            return None
        loss, grad_norm, rate = (said.pop(each, None) for each in ("loss", "grad_norm", "lr"))
        times = (
            said.pop("time", None),
            milliseconds_to_seconds(said.pop("time_ms", None)),
            reciprocal(said.pop("steps_per_s", None)),
        )
        step = Step(
            step=number,
            total=finite_total(to_step_number(said.pop("total", None))),
            loss=loss,
            grad_norm=grad_norm,
            lr=rate,
            step_time_s=next((each for each in times if each is not None and 0 < each < float("inf")), None),
            tflops_per_gpu=said.pop("tflops", None) or None,
            tokens_per_s=said.pop("tokens", None) or None,
            nan=is_broken(loss, grad_norm),
            extra=said,
        )
        return StepReport(f"{self.name} (own)", step, at)


def load_own_formats() -> tuple[OwnFormat, ...]:
    """Those of the settings as they are now."""
    return tuple(OwnFormat(each.name, compiled(each.pattern)) for each in config_in_force().config.formats)


def parse_own_formats(formats: tuple[OwnFormat, ...], text: str) -> StepReport | None:
    return next((found for each in formats if (found := each.parse_line(text))), None)


class StepLineFinder:
    """Finds lines that may tell of a step: those that hold one of the words, and those of one's own formats."""

    def __init__(self, words: WordSearch, formats: tuple[OwnFormat, ...]) -> None:
        self._words, self._formats = words, formats

    def find_lines(self, block: bytes) -> dict[int, int]:
        """As `WordSearch.lines`."""
        found = self._words.find_lines(block)
        for each in self._formats:
            for at in each.pattern.places(block):
                end = block.find(b"\n", at)
                found[block.rfind(b"\n", 0, at) + 1] = end if end >= 0 else len(block)
        return found
