"""The side pane for a job: health, curve, pods, checkpoints, what it waits for, and its last log lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec.structs import replace
from rich.cells import cell_len

from console.checkpoints.saved_state import list_checkpoint_faults
from console.kube.objects.jobset import JobState
from console.kube.objects.meta import condition
from console.metrics.alarm import ALARM_GLYPH
from console.metrics.gpu_metrics import Gpu
from console.metrics.gpu_time_ledger import format_gpu_time
from console.metrics.health import HealthLevel
from console.metrics.job_measures import JobMeasures
from console.metrics.lost_work import find_followed_lost_work, saved_folder
from console.metrics.training_run import TrainingRun
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.why import Why
from screens import wording
from screens.columns.job_header import events_of
from screens.columns.jobs import (
    JobLine,
    attempt_cell,
    place_words,
    progress_cell,
    progress_words,
    reason_cell,
    short_reasons,
    start_words,
    state_cell,
)
from screens.sanitize import one_line
from screens.widgets.charts.braille import DOTS_WIDE, Canvas, PlotBox
from screens.widgets.charts.nccl_panel import draw_curve, measured_points, reference_band
from screens.widgets.charts.training_chart import TrainingChartData, View, clock_words, draw_chart
from screens.widgets.charts.training_panel import value_words
from screens.widgets.side_pane import WIDE_COLUMNS, Lines, event_lines, side_by_side
from screens.widgets.styled_text import cut_sentence, fold_at_spaces
from screens.widgets.table.row_painter import cell_width
from screens.widgets.wrapped_sentence import cut_spans, fold_spans
from screens.wording import Span, spans_of
from trainlog import STEP_METRICS, is_comparable, redact_text, shorten_iteration_line

if TYPE_CHECKING:
    from console.checkpoints.saved_state import SavedState
    from console.launch.ownership import Proof


CURVE_METRICS = STEP_METRICS[0], STEP_METRICS[2]  # the loss, and below it the step time where there is room for two
MIN_LOG_LINES, USUAL_LOG_LINES = 4, 6  # that a curve leaves for the last lines of the log: in a low pane, and in others
MIN_STEP_LINES, STEP_COLUMNS = 6, 14  # lines that steps have at least, and columns of each of their figures
MIN_CURVE_LINES, MAX_CURVE_LINES, MIN_TWO_CURVES_LINES = 4, 20, 10  # lines of one, of all, and of two
MIN_BUSBW_LINES = 6  # lines of a curve of bandwidth, with its sizes
LOG_BESIDE_COLUMNS = 150  # columns from which on the log has room beside the curves
NAME_COLUMNS = 24  # columns of a job's name where what is to be known of it stands beside it
MAX_POD_LINES = 3
"""Maximum lines with a mark for each pod; with more pods only their numbers by state are shown."""
MAX_NODE_LINES = 4
"""Maximum lines of nodes with a mark for each GPU; with more nodes each node has one mark."""


def job_lines(
    job: JobLine,
    measures: JobMeasures | None,
    width: int,
    height: int,
    now: float,
    name_owner: Callable[[str], str] = str,
    *,
    shows_tail: bool = True,
) -> Lines:
    """The text of a job's pane for a width and height, the most important lines first."""
    found = [_title_spans(job, width, now), *reason_lines(job, width, now, name_owner)]
    if job.jobset.state is not JobState.PENDING:
        last = max(MIN_LOG_LINES, min(height // 4, USUAL_LOG_LINES)) if shows_tail else 0
        found += _progress_lines(job, measures, width, height - len(found) - last, now)
    return [*found, *(tail_lines(job, measures, width, height - len(found), now) if shows_tail else [])]


def reason_lines(job: JobLine, width: int, now: float, name_owner: Callable[[str], str]) -> Lines:
    """The state of a job with the reason, advice, and the queue figures of a waiting one."""
    found: Lines = []
    state = spans_of(state_cell(job))
    sentence, quoted = short_reasons(job)
    spans = [Span(f"  {sentence}")]
    for alarm in job.alarms:
        news = alarm.more if alarm.words in sentence else alarm.text
        spans += [Span(f"  {ALARM_GLYPH} {news}.", "bad")] if news else []
    found += fold_spans([*state, *spans], width)
    if quoted:
        found += fold_spans([Span(quoted, "dim")], width)
    if job.health.verdict and not job.health.alarmed:
        words = f"{wording.short_nodes(wording.sentence(job.health.verdict))}."
        mark, style = ("▲", "waits") if job.has_trouble else ("○", "")
        found += fold_spans([Span(f"{mark} {words}", style)], width)
    for words in job.reported_slow_rank.advice if job.reported_slow_rank is not None else ():
        found += fold_spans([Span(f"→ {words}", "accent")], width)
    if job.why.next:
        found += fold_spans([Span(f"→ {job.why.next}.", "accent")], width)
    found.append([])
    if job.jobset.state is JobState.PENDING:
        found += start_lines(job.expected_start, width, now)
        found += waiting_lines(job.why, width, name_owner)
    return found


def course_lines(
    job: JobLine,
    measures: JobMeasures | None,
    width: int,
    height: int,
    now: float,
    *,
    without: Collection[str] = (),
    shows_saved: bool = False,
) -> Lines:
    """The progress of a job with curves, pods and GPUs, and the last lines of its log.

    `without` leaves out parts ("figures", "curves", "gpus", "steps", "log"); `shows_saved` adds what would be lost.
    """
    log = measures if "log" not in without else None
    left = width * 3 // 5 if width >= LOG_BESIDE_COLUMNS else width
    right = _last_lines(log, width - left - 3, height + 1)[1:] if left < width else []
    left = left if right else width
    found = _progress_lines(job, measures, left, height, now, shows_saved=shows_saved, without=without)
    return side_by_side(found, right, left) if right else [*found, *_last_lines(log, width, height - len(found))]


def tail_lines(job: JobLine, measures: JobMeasures | None, width: int, height: int, now: float) -> Lines:
    return _last_lines(measures, width, height) or event_lines(events_of(job).values(), now, width, min(20, height))


def job_entry(job: JobLine, mark: Span, now: float, width: int, *, state: bool = True, low: bool = False) -> Lines:
    """The entry of one job in a list within a pane: name, reason, state, progress and owner."""
    jobset = job.jobset
    reason = spans_of(reason_cell(job)) if state or job.health.level in {HealthLevel.BAD, HealthLevel.LATE} else []
    shown = [*spans_of(state_cell(job)), Span("  "), *reason, Span("  "), *spans_of(progress_cell(job))]
    about = " · ".join(filter(None, (job.owner, f"{jobset.gpus} GPUs", wording.age(now - jobset.created))))
    return pane_entry([mark, Span(f" {jobset.name}", "strong")], shown if state else reason, about, width, low=low)


def pane_entry(name: list[Span], state: list[Span], subject: str, width: int, *, low: bool = False) -> Lines:
    """An entry of a list in a pane: name, state and owner, on one line or on two."""
    first, end = [*name, Span(" " * max(2, NAME_COLUMNS - cell_width(name)))], Span(subject, "dim")
    room = width - cell_width([*first, end]) - 2
    if width >= WIDE_COLUMNS and (low or cell_width(state) <= room):
        shown = cut_sentence(state, room)
        return [[*first, *shown, Span(" " * (room + 2 - cell_width(shown))), end]]
    gap = Span(" " * max(2, width - cell_width(name) - cell_width(end)))
    below = fold_spans(state, width - 2) if cell_width(state) else []
    return [[*name, gap, end] if subject else name, *([Span("  "), *runs] for runs in below)]


def _title_spans(job: JobLine, width: int, now: float) -> list[Span]:
    jobset = job.jobset
    parts = [job.owner, f"{jobset.gpus} GPUs", wording.age(now - jobset.created) if jobset.created else ""]
    facts = " · ".join(part for part in parts if part)
    room = width - cell_len(jobset.name) - cell_len(facts)
    return [Span(jobset.name, "strong"), Span(" " * max(2, room)), Span(facts, "dim")]


# while it waits


def start_lines(expected_start: ExpectedStart | None, width: int, now: float) -> Lines:
    """The expected start of a job and an empty line; nothing if it was not computed."""
    if expected_start is None:
        return []
    return [*fold_spans([Span("starts    ", "dim"), Span(start_words(expected_start, now))], width), []]


def waiting_lines(why: Why, width: int, name_owner: Callable[[str], str]) -> Lines:
    """The facts behind a waiting job's reason: quota, the workloads before it, and who holds the GPUs."""
    found: Lines = []
    account = why.account
    if account is not None:
        sums = [("own quota", f"{account.nominal:,}"), ("to borrow", f"+ {account.borrows:,}")]
        sums += [("used", f"- {account.used:,}")] + ([("lent", f"- {account.lent:,}")] if account.lent else [])
        found.append([Span(f"GPUs of flavor {why.flavor}" if why.flavor else "GPUs", "head")])
        found += [[Span(f"  {name:<10}", "dim"), Span(f"{number:>8}")] for name, number in sums]
        needs = Span(f"   needs {why.need:,}", "waits")
        found += [[Span(f"  {'free':<10}", "dim"), Span(f"{f'= {account.free:,}':>8}", "strong"), needs], []]
    if why.position:
        front = f", after {', '.join(why.ahead[:4])}" + (" …" if len(why.ahead) > 4 else "") if why.ahead else ""
        found += fold_spans([Span("position  ", "dim"), Span(f"{why.position} in its ClusterQueue{front}")], width)
    if why.holders:
        found += [[], [Span("holds that quota", "head")]]
        for each in why.holders[:6]:
            found.append([Span(f"  {each.gpus:>5}  "), Span(f"{each.name:<28}"), wording.owner(name_owner(each.owner))])
    return found


# while it runs, and after


def _progress_lines(
    job: JobLine,
    measures: JobMeasures | None,
    width: int,
    height: int,
    now: float,
    *,
    shows_saved: bool = True,
    without: Collection[str] = (),
) -> Lines:
    """The progress of a job, its curve, pods and cost in `height` lines."""
    curve, figures = "curves" not in without, [] if "figures" in without else _figure_lines(job, measures, width)
    pods, cost = _pod_lines(job, width) if job.pod_slots else [], _cost_spans(job, now)
    at_risk = fold_spans(runs, width) if shows_saved and (runs := saved_state_spans(job, measures, now)) else []
    if pods and cell_width(pods[0]) + cell_width(cost) + 3 <= width:
        pods[0] += [Span("   "), *cost] if cost else []
        cost = []
    least = MIN_BUSBW_LINES if measures is not None and measures.tests else MIN_CURVE_LINES
    most = max(1, height - len(figures) - len(pods) - bool(cost) - 1 - least)
    if curve and len(at_risk) > most and _curve_lines(measures, width, least):  # its page has all of that
        at_risk[most - 1 :] = [cut_spans(at_risk[most - 1], width - 2, " …")]
    pods += [*at_risk, *([cost] if cost and pods else [])]
    pods = pods[: max(1, height - len(figures))]
    busy = [] if "gpus" in without else _gpu_use_lines(job, measures, width, now)[not curve :]
    if len(figures) + (least + 1) * curve + len(pods) + len(busy) > height:
        busy = []
    left = height - len(figures) - len(pods) - len(busy)
    high = max(left - 1, min(left, MIN_CURVE_LINES))  # without the line below it where there is room for no more
    curves = _curve_lines(measures, width, min(MAX_CURVE_LINES, high))[:left] if curve else []
    steps = _step_lines(measures, width, left - len(curves)) if "steps" not in without else []
    return [*figures, *curves, *pods, *busy, *steps]


def _step_lines(measures: JobMeasures | None, width: int, height: int) -> Lines:
    """A blank line, and the figures of some steps, evenly spread up to the last one."""
    track = measures.track if measures is not None else None
    if track is None or not len(track) or height < MIN_STEP_LINES:
        return []
    with track.lock:
        known = [each for each in STEP_METRICS if each.name in track.columns][: width // STEP_COLUMNS - 2]
        last, rows = len(track) - 1, min(len(track), height - 2)
        table = [["step", "time", *(f"{each.title.removesuffix(' per GPU')} {each.unit}".strip() for each in known)]]
        for at in (last * row // max(1, rows - 1) for row in range(rows)):
            figures = (value_words(track.columns[each.name].values[at]) for each in known)
            table.append([f"{track.numbers[at]:,.0f}", clock_words(track.times[at]), *figures])
    texts = ("".join(f"{word:>{STEP_COLUMNS}}" for word in row) for row in table)
    return [[], *([Span(text, "" if at else "head")] for at, text in enumerate(texts))]


def _figure_lines(job: JobLine, measures: JobMeasures | None, width: int) -> Lines:
    progress, found = job.job_progress, list[list[Span]]()
    if progress is not None and progress.busbw is not None and measures is not None and measures.tests:
        peak = measures.tests[-1].test.peak_busbw  # of the same rows as the curve below, which may be newer
        progress = replace(progress, busbw=peak if peak is not None else progress.busbw)
    if progress is not None and progress.step is not None and progress.total and not job.jobset.finished:
        left = f"   {wording.age(job.seconds_left)} left" if job.seconds_left else ""
        share = f" {wording.percent(progress.step, progress.total)}  step {progress.step:,} of {progress.total:,}{left}"
        found.append([*wording.bar(progress.step, progress.total, max(8, width - len(share) - 1)), Span(share)])
    if progress is not None and progress.start is None:
        pace = f"  {progress.step_time:.3g} s a step" if progress.step_time else ""
        figures = progress_words(progress) if not progress.nan else []  # since when it is none stands above
        found.append([*figures, Span(pace if figures else pace.lstrip(), "dim")])
    return found


_drawn_curves: WeakKeyDictionary[TrainingRun, dict[tuple[int, int], tuple[int, object, Lines]]] = WeakKeyDictionary()
"""The last drawn curves of each training by (width, height): (number of values, run, metrics and marks, lines).

Curves are most of the cost of a pane drawn each second; they are drawn again once they grow by a column of dots.
"""


def _curve_lines(measures: JobMeasures | None, width: int, height: int) -> Lines:
    """The curves of a training or an NCCL test, then a blank line; empty if there is room for few lines only."""
    if height < MIN_CURVE_LINES:
        return []
    track = measures.track if measures is not None else None
    test = measures.tests[-1] if measures is not None and measures.tests else None
    known = [each for each in CURVE_METRICS if track and (column := track.columns.get(each.name)) and column.known > 1]
    if track is not None and known:
        known = known[: max(1, height // (MIN_TWO_CURVES_LINES // 2))]
        with track.lock:
            steps, part = f"steps {track.numbers[0]:,.0f} to {track.numbers[-1]:,.0f}", height // len(known)
            steps += ", read so far" if measures is not None and measures.is_reading_old_lines else ""
            data = TrainingChartData(track, track.list_events())
            values = sum(track.columns[each.name].known for each in known)
            drawn, about = _drawn_curves.setdefault(track, {}), (track.numbers[0], known, data.events)
            before, shown, lines = drawn.get((width, height), (0, None, []))
            if shown != about or not 0 <= (values - before) * width * DOTS_WIDE < values:
                canvas = Canvas(width, height)
                for at, each in enumerate(known):
                    draw_chart(canvas, PlotBox(0, at * part, width, part), data, each, View(), "", large=False)
                lines = canvas.rows()
                drawn[width, height] = values, about, lines
        titles = {at * part: [Span(f"{each.title}, {steps}"[:width], "dim")] for at, each in enumerate(known)}
        return [*(titles.get(at, line) for at, line in enumerate(lines)), []]
    if test is None or len(test.test.rows) < 2 or height < MIN_BUSBW_LINES:
        return []
    band = reference_band() if is_comparable(test.test, test.accelerator) else ()
    return [*draw_curve(measured_points(test.test), band, width, height).rows(), []]


def _pod_lines(job: JobLine, width: int) -> Lines:
    """One glyph per pod in index order; for very many pods the count of each state."""
    slots = job.pod_slots
    ready = f"{job.ready}/{len(slots)} pods"
    where = place_words(job)
    tries = [Span("   attempt ", "dim"), *spans_of(attempt_cell(job))] if job.jobset.max_restarts else []
    found: Lines = [[Span(ready, "ok" if job.ready == len(slots) else "waits"), Span(f"  {where}", "dim"), *tries]]
    if len(slots) <= (width // 2) * MAX_POD_LINES:
        glyphs = [
            wording.pod_glyph(rank.status, is_ready=rank.ready) if rank.pod else Span("·", "faint") for rank in slots
        ]
        marks = [run for glyph in glyphs for run in (glyph, Span(" "))]
        if cell_width(found[0]) + len(marks) < width:
            found[0][1:1] = [Span("  "), *marks[:-1]]
        else:
            found += [marks[start : start + width // 2 * 2] for start in range(0, len(marks), width // 2 * 2)]
    return found


def _gpu_use_lines(job: JobLine, measures: JobMeasures | None, width: int, now: float) -> Lines:
    """GPU utilization by rank and node; empty without an exporter, or after the job's end."""
    pods = {rank.name for rank in job.pod_slots if rank.pod}
    read = [each for each in measures.gpus if each.pod in pods] if measures is not None else []
    known = [each.at for each in read if any(gpu.utilization is not None for gpu in each.gpus)]
    if job.jobset.finished or not known:
        return []
    asked = Span(f", {wording.age(now - min(known))} ago", "dim")
    names = [wording.short_node(each.node) for each in read]
    most = max(map(cell_len, names))
    entries = [
        [Span(name + " " * (most - cell_len(name) + 1), "dim"), *_gpus_of_node(each.gpus)]
        for name, each in zip(names, read, strict=True)
    ]
    column = max(map(cell_width, entries)) + 3
    across = max(1, (width + 3) // column)
    if len(entries) > across * MAX_NODE_LINES:
        least = (
            min(
                each.gpus,
                key=lambda gpu: (not gpu.faults, -1.0 if gpu.utilization is None else gpu.utilization),
                default=Gpu(0),
            )
            for each in read
        )
        marks = [_gpu_mark(each) for each in least]
        rows = [marks[start : start + width] for start in range(0, len(marks), width)]
        return [[], [Span("GPU busy, the least busy of each node", "head"), asked], *rows]
    for number, each in enumerate(entries, 1):
        if number % across:
            each.append(Span(" " * (column - cell_width(each))))
    rows = [[*chain(*entries[start : start + across])] for start in range(0, len(entries), across)]
    return [[], [Span("GPU busy, by node", "head"), asked], *rows]


def _gpu_mark(gpu: Gpu) -> Span:
    if gpu.faults:
        return Span("✗", "bad")
    if gpu.utilization is None:
        return Span("─", "faint")
    return wording.heat_bar(gpu.utilization / 100, low_is_bad=True)


def _gpus_of_node(gpus: Sequence[Gpu]) -> list[Span]:
    shares = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    mean = f" {sum(shares) / len(shares):3.0f} %" if shares else " not known"
    return [*map(_gpu_mark, gpus), Span(mean)]


def _cost_spans(job: JobLine, now: float) -> list[Span]:
    """The GPU-time of a job since Kueue admitted it, as a text; empty if it was not admitted."""
    workload = job.fleet.workload_of(job.jobset)
    admitted = condition(workload.conditions, "Admitted") if workload else None
    if admitted is None or not admitted.is_true or not admitted.since:
        return []
    spent = job.jobset.gpus * max(0.0, (job.jobset.finished_at or now) - admitted.since)
    return [Span(format_gpu_time(spent), ""), Span(" since its admission", "dim")]


def _last_lines(measures: JobMeasures | None, width: int, height: int) -> Lines:
    """The last log lines of the pod that prints the steps, shortened; the newest is wrapped."""
    texts = measures.last_lines(max(12, height)) if measures is not None and height > 2 else []
    if measures is None or not texts or measures.is_reading_old_lines:
        return []
    *before, newest = [shorten_iteration_line(text) or redact_text(text) for text in texts]
    folded = fold_at_spaces(one_line(newest), width)[: height - 2]
    before = before[max(0, len(before) - (height - 2 - len(folded))) :]
    return [[], [Span("last lines", "head")], *([Span(text, "dim")] for text in (*before, *folded))]


_RUNNING_STATES = {JobState.RUNNING, JobState.RESTARTING}


# what is saved of it


def saved_state_spans(line: JobLine, measures: JobMeasures | None, now: float, key: str = "") -> list[Span]:
    """The last complete checkpoint and what would be lost now, empty without training; `key` reads its folder."""
    if line.jobset.state not in _RUNNING_STATES or measures is None or not any(measures.tracks):
        return []
    if measures.is_reading_old_lines:
        return []
    saved = line.saved
    loss = find_followed_lost_work(line.jobset, line.fleet, measures, saved.in_folder if saved else None, now)
    if loss is None:
        return []
    runs = [Span("at risk  ", "dim"), Span(f"{loss.sentence(now)}. ", "" if loss.saved_at else "waits")]
    if loss.saved_at:
        runs.append(Span("Complete by its folder. " if loss.by_folder else "Saved by its log. ", "dim"))
    if saved is not None:
        return [*runs, *_fault_spans(saved), *_reading_spans(saved, now)]
    return [*runs, *([Span(f"{key} reads its folder.", "dim")] if key and saved_folder(measures) else [])]


def should_read_unasked(line: JobLine, measures: JobMeasures | None, now: float, proof: Proof) -> bool:
    """Whether to read a job's checkpoint folder without being asked: only the person's own job, and seldom."""
    if line.jobset.state is not JobState.RUNNING or not proof.may_look or not line.may_stop:
        return False
    return bool(saved_folder(measures)) and (line.saved is None or line.saved.should_be_read_again(now, measures))


def _fault_spans(saved_state: SavedState) -> list[Span]:
    if saved_state.survey is None:
        return []
    faults = list_checkpoint_faults(saved_state.survey)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return [Span(f"{faults[0][:1].upper()}{one_line(faults[0][1:])}{more}. ", "waits")] if faults else []


def _reading_spans(saved_state: SavedState, now: float) -> list[Span]:
    ago = f"{wording.age(now - saved_state.read_at)} ago"
    if saved_state.folder_missing:
        return [Span(f"Looked for {ago}.", "dim")]
    if saved_state.survey is None:
        why = wording.lower_first_letter(one_line(saved_state.problem).rstrip("."))
        return [Span("Its folder could not be read: ", "dim"), Span(why), Span(f" (tried {ago}).", "dim")]
    return [Span(f"{one_line(saved_state.folder)}, read {ago}: {saved_state.by}.", "dim")]
