"""What is said of runs that are remembered: cells, sentences, differences (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.run import Outcome
from screens import wording
from screens.wording import Run

if TYPE_CHECKING:
    from console.models.run import RunRecord
    from screens.widgets.facts import Fact
    from screens.wording import Cell

_GLYPHS = {
    Outcome.WAITING: wording.IDLE,
    Outcome.RUNNING: wording.OK,
    Outcome.SUCCEEDED: wording.DONE,
    Outcome.FAILED: wording.BAD,
    Outcome.STOPPED: Run("■", "dim"),
    Outcome.UNKNOWN: Run("?", "waits"),
}
_INKS = {Outcome.FAILED: "bad", Outcome.STOPPED: "dim", Outcome.UNKNOWN: "dim"}


def outcome_cell(run: RunRecord) -> Cell:
    """Glyph and word."""
    return [_GLYPHS[run.outcome], Run(f" {run.outcome}", _INKS.get(run.outcome, ""))]


def took_cell(run: RunRecord, now: float) -> Cell:
    """How long it ran; bright while it does."""
    seconds = run.seconds(now)
    return "" if seconds is None else Run(wording.age(seconds), "" if run.open else "dim")


def measure_cell(run: RunRecord) -> Cell:
    """The figure that a run of its kind is known by: peak bus bandwidth, or the last loss and its step."""
    if run.peak_busbw is not None:
        return [Run(f"{run.peak_busbw:,.0f}", "strong"), Run(" GB/s", "dim")]
    if run.loss is not None:
        step = f" at {run.step:,}" if run.step is not None else ""
        return [Run("loss ", "dim"), Run(f"{run.loss:.3f}", "strong"), Run(step, "dim")]
    return ""


def run_sentence(run: RunRecord) -> list[Run]:
    """One run in a sentence: what became of it, and why."""
    runs = [_GLYPHS[run.outcome], Run(f" {run.name} ", "strong"), Run(str(run.outcome), _INKS.get(run.outcome, ""))]
    if run.why:
        runs.append(Run(f"  {wording.sentence(run.why)}"))
    elif run.average_busbw is not None and run.peak_busbw is not None:
        runs.append(Run(f"  peak {run.peak_busbw:,.1f} GB/s, average {run.average_busbw:,.1f}"))
    if run.left_out:
        names = ", ".join(run.left_out)
        runs.append(Run(f"  Not kept, because secret: {wording.one_line(names)}.", "waits"))
    return runs


def run_facts(run: RunRecord, now: float) -> tuple[Fact, ...]:
    """Everything known of a run but its values."""
    seconds = run.seconds(now)
    return (
        ("Recipe", run.recipe),
        ("Run", str(run.number)),
        ("Launched", wording.clock(run.launched)),
        ("By", run.who),
        ("Took", "" if seconds is None else wording.duration(seconds)),
        ("Ended", wording.clock(run.ended)),
        ("GPUs", str(run.gpus or "")),
        ("Queue", run.queue),
        ("Peak busbw", "" if run.peak_busbw is None else f"{run.peak_busbw:,.1f} GB/s"),
        ("Average busbw", "" if run.average_busbw is None else f"{run.average_busbw:,.1f} GB/s"),
        ("Last loss", "" if run.loss is None else f"{run.loss:.4f}"),
        ("Last step", "" if run.step is None else f"{run.step:,}"),
        ("Namespace", run.namespace),
        ("Cluster", run.context),
        ("Chart", run.chart),
    )


def spoken(run: RunRecord, now: float) -> str:
    """How another run is called: "one (run 3, succeeded 2 h ago)"."""
    return f"{run.name} (run {run.number}, {run.outcome} {wording.moment(run.ended or run.launched, now)})"
