"""Cells and columns of past runs, releases and orphaned resources."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import STALLED_STATE, Outcome, RunRecord
from console.metrics.gpu_time_ledger import LedgerBox, format_gpu_time
from screens import wording
from screens.columns.column import Column, age_column
from screens.columns.jobs import health_spans
from screens.sanitize import one_line
from screens.wording import Cell, Fact, Span, alarm_words, loss_words
from trainlog import find_nan_since

if TYPE_CHECKING:
    from console.launch.recipes import Release
    from console.launch.stop import OrphanedResource
    from console.metrics.gpu_time_ledger import Ledger

_OUTCOME_GLYPHS = {
    Outcome.WAITING: wording.IDLE,
    Outcome.RUNNING: wording.OK,
    Outcome.SUCCEEDED: wording.DONE,
    Outcome.FAILED: wording.BAD,
    Outcome.DIVERGED: wording.ALARM,
    Outcome.STOPPED: Span(wording.HELD.text, "dim"),
    Outcome.UNKNOWN: Span("?", "waits"),
}
_OUTCOME_STYLES: dict[str, str] = {
    Outcome.FAILED: "bad",
    Outcome.DIVERGED: "bad",
    STALLED_STATE: "bad",
    Outcome.STOPPED: "dim",
    Outcome.UNKNOWN: "dim",
}


def outcome_cell(run: RunRecord) -> list[Span]:
    """The outcome as glyph and word; ▲ if an alarm is active, ✗ if one was at the end."""
    if run.now is not None and run.is_open:
        return health_spans(run.now)
    over = wording.BAD if run.ended else wording.ALARM
    glyph = over if run.had_problem else _OUTCOME_GLYPHS[run.outcome]
    return [glyph, Span(f" {run.state}", _OUTCOME_STYLES.get(run.state, ""))]


def duration_cell(run: RunRecord, now: float) -> Cell:
    seconds = run.seconds(now)
    return "" if seconds is None else Span(wording.age(seconds), "" if run.is_open else "dim")


def measure_cell(run: RunRecord) -> Cell:
    """The main figure of the run: peak bus bandwidth, or the last loss with its step."""
    if run.peak_busbw is not None:
        return [Span(f"{run.peak_busbw:,.0f}", "strong"), Span(" GB/s", "dim")]
    if run.nan:
        since, bracket, good = run.nan_words.partition(" (")
        return [Span(since, "bad"), Span(f"{bracket}{good}", "dim")]
    if run.loss is not None:
        step = f" at {run.loss_step:,}" if run.loss_step is not None else ""
        return [Span("loss ", "dim"), Span(f"{run.loss:.3f}", "strong"), Span(step, "dim")]
    return ""


def run_sentence(run: RunRecord) -> list[Span]:
    glyph, state = outcome_cell(run)
    ringing = run.active_alarms(run.ended)
    why = run.reason or run.nan_words or (ringing[0].text if ringing else "")
    runs = [glyph, Span(f" {run.name}", "strong"), Span(f"{state.text}{':' if why else ''}", state.style)]
    if run.outcome is Outcome.STOPPED and why.startswith(Outcome.STOPPED):
        runs[-1] = Span(state.text, state.style)
        runs.append(Span(wording.sentence(why)[len(Outcome.STOPPED) :]))
    elif why:
        runs.append(Span(f" {wording.sentence(why)}"))
    elif run.average_busbw is not None and run.peak_busbw is not None:
        runs.append(Span(f"  peak {run.peak_busbw:,.1f} GB/s, average {run.average_busbw:,.1f} GB/s"))
    if run.left_out:
        names = ", ".join(run.left_out)
        runs.append(Span(f"  Not kept, because secret: {one_line(names)}.", "waits"))
    return runs


def run_facts(run: RunRecord, now: float, owner_text: str = "") -> tuple[Fact, ...]:
    """The facts known about a run, except its values; `owner_text` is its owner as shown."""
    seconds = run.seconds(now)
    return (
        ("Recipe", run.recipe),
        ("Run", str(run.number)),
        ("Launched", wording.clock(run.launched)),
        ("By", f"{owner_text} ({run.who})" if owner_text not in {"", run.who} and run.who else run.who),
        ("Took", "" if seconds is None else wording.duration(seconds)),
        ("Ended", wording.clock(run.ended)),
        ("GPUs", str(run.gpus or "")),
        ("Queue", run.queue),
        ("Peak busbw", "" if run.peak_busbw is None else f"{run.peak_busbw:,.1f} GB/s"),
        ("Average busbw", "" if run.average_busbw is None else f"{run.average_busbw:,.1f} GB/s"),
        ("Last good loss" if run.nan else "Last loss", loss_words(run)),
        ("No number", find_nan_since(run.position).partition(" (")[0] if run.nan else ""),
        ("Last step", "" if run.step is None else f"{run.step:,}"),
        *((f"Alarm {at}", alarm_words(alarm, run)) for at, alarm in enumerate(run.alarms, start=1)),
        ("Namespace", run.namespace),
        ("Cluster", run.context),
        ("Chart", run.chart),
    )


def cost_lines(ledger: Ledger) -> list[str]:
    """Lines of text on what the GPU-time of a run was used for."""
    lines = [f"{format_gpu_time(ledger.allocated / 1000, digits=2)} allocated ({ledger.gpus} GPUs)"]
    shares = box_shares(ledger)
    for box, took in ledger.boxes.items():
        if took:
            lines.append(f"{hours_words(took, 'GPU-'):>14} {shares.get(box, ''):>6}  {box.words}")
    return lines


def box_shares(ledger: Ledger) -> dict[LedgerBox, str]:
    """The percentage of each ledger box in the GPU-time held, as text; the box of queued time has none."""
    held = {box: took for box, took in ledger.boxes.items() if box is not LedgerBox.QUEUED and ledger.allocated}
    return dict(zip(held, wording.percents([*held.values()]), strict=True))


def cost_words(ledger: Ledger) -> str:
    """The largest boxes of a ledger: "5.30 GPU-hours: 80 % productive, 12 % not seen"; empty if nothing was held."""
    largest = sorted(box_shares(ledger).items(), key=lambda each: -ledger.boxes[each[0]])[:4]
    parts = ", ".join(f"{share} {box.words}" for box, share in largest if share[0] not in "0<")
    return f"{format_gpu_time(ledger.allocated / 1000, digits=2)}: {parts}" if ledger.allocated else ""


def hours_words(milliseconds: int, unit_prefix: str = "") -> str:
    """GPU-time in hours, minutes or seconds: "1.78 h", "12.5 min", "8 s"; `unit_prefix` stands before the unit."""
    amount, unit = format_gpu_time(milliseconds / 1000, digits=2).split(" GPU-")
    return f"{amount} {unit_prefix}{_SHORT_UNITS[unit]}"


_SHORT_UNITS = {"hours": "h", "minutes": "min", "seconds": "s"}


def run_reference(run: RunRecord, now: float) -> str:
    """A reference to another run: "one (run 3, succeeded 2 h ago)"."""
    return f"{run.name} (run {run.number}, {run.outcome} {wording.moment(run.ended or run.launched, now)})"


RUNS: tuple[Column[RunRecord], ...] = (
    Column("RUN", lambda run: Span(f"{run.number}", "dim"), least=3, right=True, sort=lambda run: run.number,
           down=True, drop=5),
    Column("RECIPE", lambda run: run.recipe, least=8, most=24, sort=True, drop=2),
    Column("NAME", lambda run: run.name, least=10, most=43, sort=True, style="strong", cut="middle"),
    age_column("WHEN", lambda run: run.launched),
    Column("OUTCOME", outcome_cell, width=11, sort=lambda run: run.state),
    Column("TOOK", lambda run: duration_cell(run, SERVER_CLOCK.now()), width=6, right=True, ages=True, drop=3,
           sort=lambda run: run.seconds(SERVER_CLOCK.now()) or 0.0, down=True),
    Column("RESULT", measure_cell, least=7, most=28, sort=lambda run: run.peak_busbw or run.loss or 0.0, down=True),
    Column("GPUS", lambda run: f"{run.gpus or ''}", width=4, right=True, sort=lambda run: run.gpus, down=True, drop=4),
    Column("QUEUE", lambda run: Span(run.queue or "─", "dim"), least=5, most=14, sort=lambda run: run.queue, drop=6),
    Column("CLUSTER", lambda run: run.context, least=7, most=24, sort=True, drop=7, cut="middle", style="dim"),
    Column("WHY", lambda run: wording.sentence(run.reason), fill=True, least=0, drop=8, style="dim"),
)  # fmt: skip


_STATUS_GLYPHS = {"deployed": Span("● ", "ok"), "failed": Span("✗ ", "bad"), "superseded": Span("○ ", "dim")}


def _status_cell(release: Release) -> list[Span]:
    glyph = _STATUS_GLYPHS.get(release.status, Span("◐ ", "waits"))
    return [glyph, Span(release.status, glyph.style)]


def _updated_at(release: Release) -> float:
    """The time (epoch seconds) when Helm wrote the release's revision; 0.0 if unknown."""
    try:
        return datetime.fromisoformat(release.updated).timestamp()
    except ValueError:
        return 0.0


RELEASES: tuple[Column[Release], ...] = (
    Column("NAMESPACE", lambda each: each.namespace),
    Column("NAME", lambda each: each.name),
    Column(
        "REVISION",
        lambda each: Span(f"{each.revision}", "strong"),
        right=True,
        sort=lambda each: each.revision,
        down=True,
    ),
    Column("STATUS", _status_cell, least=12, most=20),
    age_column("AGE", _updated_at),
    Column("RECIPE", lambda each: each.recipe, least=8, most=30),
    Column("CHART", lambda each: each.chart, least=6, fill=True, style="dim"),
)


ORPHANED: tuple[Column[OrphanedResource], ...] = (
    Column("KIND", lambda each: each.kind, least=7, most=24, sort=True),
    Column("NAMESPACE", lambda each: each.namespace or "─", least=9, most=20, drop=3, style="dim",
           sort=lambda each: each.namespace),
    Column("NAME", lambda each: each.name, least=12, most=50, sort=True, style="strong"),
    Column("DATA", lambda each: "⚠ holds data" if each.holds_data else "⚠ runs" if each.runs else "", width=12,
           style="waits", sort=lambda each: (each.holds_data, each.runs), down=True),
    Column("WHY", lambda each: each.why, least=10, fill=True, style="dim"),
)  # fmt: skip
