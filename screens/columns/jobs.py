"""Cells and columns of jobs: state, ranks, attempt, location and explanation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from console.connection_settings import OWN_NAME
from console.durations import DAY
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.metrics.alarm import ALARM_GLYPH, Alarm
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.metrics.health import STEPLESS_WORDS, HealthLevel, JobHealth, job_health
from console.scheduling.pod_slots import PodSlot, first_failure, pod_slots
from console.scheduling.why import JOB_KINDS, Why, awaited_ends, format_ends
from console.scheduling.why_job import why_job
from screens import wording
from screens.columns.column import CREATED, Column, ListLayout, age_column, fact
from screens.wording import Cell, Span
from trainlog import NcclResult

if TYPE_CHECKING:
    from typing import Any

    from console.checkpoints.saved_state import SavedState
    from console.metrics.job_progress import JobProgress
    from console.scheduling.expected_start import ExpectedStart
    from rankscope import SlowReport


RECENT_FAILURE_SECONDS = 86400.0  # seconds for which a job that has failed stands first


class JobLine(Struct, frozen=True, dict=True):
    """A row with a JobSet of one snapshot; derived values are computed when it is drawn."""

    jobset: JobSet
    fleet: Fleet
    job_progress: JobProgress | None = None  # the figures of the end of its log; None: nothing is known
    alarms: tuple[Alarm, ...] = ()  # what is wrong with it now, if it is watched
    late_message: str = ""  # that its next step is late, if somebody follows its steps
    followed: bool = False  # whether somebody follows its steps
    hang_verdict: str = ""  # for whom its ranks wait, if it is late and was inspected
    tab_faults: tuple[str, ...] = ()  # what the tabs of its page found wrong with it
    owner: str = ""  # who launched it; "you" for whoever looks
    may_stop: bool = True  # whether this session may change the cluster
    slow: SlowReport | None = None  # for which ranks the others wait, if this session has asked NCCL
    slow_rank: Diagnosis | None = None  # the slowest rank, or a late one, if a console has found one in this attempt
    expected_start: ExpectedStart | None = None  # when it would start, if it waits and somebody has asked
    saved: SavedState | None = None  # what was last read of its checkpoints
    has_checkpoint: bool = False  # whether its log or its folder tells of one; looked up for jobs with an alarm only
    why_unknown: str = ""  # why nobody can say whether its next step is late
    is_unread: bool = False  # whether nobody has read its log yet

    @cached_property
    def pod_slots(self) -> tuple[PodSlot, ...]:
        return pod_slots(self.jobset, self.fleet)

    @cached_property
    def why(self) -> Why:
        return why_job(self.jobset, self.fleet, self.expected_start)

    @cached_property
    def health(self) -> JobHealth:
        found = self.slow_rank
        slow = slow_rank_words(found, self.fleet.at) if found is not None else ""
        return job_health(
            self.jobset,
            self.fleet,
            alarms=self.alarms,
            late_message=self.late_message,
            why_unknown=self.why_unknown,
            is_followed=self.followed,
            job_progress=self.job_progress,
            faults=self.tab_faults,
            verdict=self.hang_verdict,
            slow_rank=slow,
            is_slow_certain=found is not None and found.kind is DiagnosisKind.SLOW,
            is_unread=self.is_unread,
            why=self.why,
        )

    @property
    def sort_key(self) -> tuple[int, float, tuple[str, str]]:
        """The sort key of a job: hanging or just failed first, then late, running, waiting and ended; newest first."""
        job, state = self.jobset, self.jobset.state
        if state is JobState.PENDING:
            group = 4
        elif state in {JobState.SUCCEEDED, JobState.FAILED}:
            bad = state is JobState.FAILED or (self.job_progress and self.health.level is HealthLevel.BAD)
            group = 1 if bad and self.fleet.at - job.finished_at < RECENT_FAILURE_SECONDS else 5
        else:
            group = {HealthLevel.BAD: 0, HealthLevel.LATE: 2}.get(self.health.level, 3)
            group = 2 if group == 3 and state is JobState.RESTARTING else group
        return group, -job.created, job.key

    @property
    def ready(self) -> int:
        """Number of ranks whose pod is ready or has succeeded."""
        if self.jobset.uid not in self.fleet.pods_by_jobset:  # it may be about to have ten thousand
            return 0
        return sum(rank.ready or rank.phase == "Succeeded" for rank in self.pod_slots)

    @property
    def has_trouble(self) -> bool:
        """Whether the job has an alarm, or its ranks wait for a known slow rank."""
        stands = self.hang_verdict and self.health.state in STEPLESS_WORDS
        return bool(self.alarms or stands or self.waits_for_slow_rank)

    @property
    def may_act(self) -> bool:
        return self.has_trouble or bool(self.slower_text)

    @property
    def slower_text(self) -> str:
        """A text on steps that take longer than before; empty if something worse is known."""
        late = self.health.level is HealthLevel.LATE and self.health.state == JobState.RUNNING
        return self.job_progress.slower if late and self.job_progress is not None else ""

    @property
    def waits_for_slow_rank(self) -> bool:
        """Whether a slow rank was measured for which the others wait in each step."""
        return self.reported_slow_rank is not None and self.reported_slow_rank.kind is DiagnosisKind.SLOW

    @property
    def reported_slow_rank(self) -> Diagnosis | None:
        """The slow or late rank that the row shows; None if there is none, or something worse is known."""
        return self.slow_rank if self.health.verdict and self.health.state not in STEPLESS_WORDS else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the last step, from when the log was read; None if the job does not run or has no known pace."""
        runs = self.jobset.state in {JobState.STARTING, JobState.RUNNING} and self.health.state not in STEPLESS_WORDS
        return self.job_progress.eta if self.job_progress is not None and runs else None

    @property
    def style(self) -> str:
        return "dim" if self.jobset.finished else ""


def slow_rank_words(diagnosis: Diagnosis, now: float) -> str:
    """The text on the slow rank of a job: which rank the others wait for, and when that was measured."""
    return f"{diagnosis.words} (measured at {wording.clock_time(diagnosis.at, now)})"


def state_cell(line: JobLine) -> Cell:
    """The state as glyph and word, glyph first so that narrow columns keep it."""
    return health_spans(line.health, line.style)


def health_spans(health: JobHealth, style: str = "") -> list[Span]:
    """The health as glyph and word: ▲ during an alarm, ✗ once it is over, ⚠ while a step is late or slow."""
    if health.level is HealthLevel.BAD:
        glyph = wording.BAD if health.over or health.state == JobState.FAILED else wording.ALARM
        return [glyph, Span(f" {health.state}", "bad")]
    if health.level is HealthLevel.LATE:
        return [wording.CARE, Span(f" {health.state}", "waits")]
    if health.level is HealthLevel.WAITS and health.state == JobState.RUNNING:
        return [wording.job_glyph(JobState.STARTING), Span(f" {health.state}", style)]
    return [wording.job_glyph(health.state), Span(f" {health.state}", style)]


def ranks_cell(line: JobLine) -> Cell:
    """A cell with the pods that are ready or have succeeded, of all pods."""
    total = line.jobset.ranks
    if line.jobset.state is JobState.SUCCEEDED:
        return Span(f"{total}/{total}", "dim")
    if line.jobset.finished or line.jobset.state is JobState.PENDING:
        return Span(f"{line.ready}/{total}", "dim")
    return Span(f"{line.ready}/{total}", "ok" if line.ready == total else "waits")


def attempt_cell(line: JobLine) -> Cell:
    jobset = line.jobset
    if not jobset.restarts and not jobset.max_restarts:
        return Span("1", "dim")
    return Span(f"{jobset.restarts + 1}/{jobset.max_restarts + 1}", "waits" if jobset.restarts else line.style)


def failure_words(slot: PodSlot) -> str:
    """The failure of a rank: "pod 1: OOMKilled (137)"."""
    ended = slot.ended
    reason = (ended.reason if ended else "") or slot.status
    code = f" ({slot.exit_code})" if slot.exit_code is not None else ""
    return f"pod {slot.number}: {reason}{code}"


def place_words(line: JobLine) -> str:
    """The nodes of a job: "on NODE", or their number and smallest common topology domain; empty if unknown."""
    nodes = [line.fleet.nodes[("", rank.node)] for rank in line.pod_slots if ("", rank.node) in line.fleet.nodes]
    if not nodes:
        return ""
    if len({node.name for node in nodes}) == 1:
        return f"on {wording.short_node(nodes[0].name)}"
    subblocks = {node.subblock for node in nodes}
    blocks = sorted({node.block for node in nodes if node.block})
    where = f"subblock {subblocks.pop()}" if len(subblocks) == 1 and "" not in subblocks else ""
    if not where and blocks:
        where = f"block {blocks[0]}" if len(blocks) == 1 else f"{len(blocks)} blocks"
    hosts = wording.count(len({node.name for node in nodes}), "node")
    return f"on {hosts} of {where}" if where else f"on {hosts}"


def reason_and_message(line: JobLine) -> tuple[str, str]:
    """(explanation, the controller's message if it adds something or disagrees) of a job."""
    sentence = wording.sentence(line.health.words)
    return wording.short_nodes(sentence), wording.quotation(line.why, sentence, line.jobset.failure)


def short_reasons(line: JobLine) -> tuple[str, str]:
    """(explanation, controller's message) of a waiting job, short, without its queue's figures and expected start."""
    sentence, own = reason_and_message(line)
    if line.health.words == line.why.sentence:
        sentence = wording.short_nodes(wording.sentence(line.why.without_figures(line.expected_start)))
    return sentence, own


_DETAILS = re.compile(r" \([^()]*\)|, usually one takes .*|(?<=steps) take|(?<=after) step")
"""Parts of a sentence that are shown in the side pane and on the page, and left out in a list."""


def reason_cell(line: JobLine) -> Cell:
    """The most important fact on a job: why it waits, what failed first, its result, or where it runs."""
    state, health = line.jobset.state, line.health
    slow = line.reported_slow_rank
    words = wording.sentence(slow.short if slow else _DETAILS.sub("", health.verdict or health.words))
    sick = Span(words, "bad" if health.level is HealthLevel.BAD else "waits")
    if state is JobState.SUCCEEDED:
        progress = line.job_progress
        if progress and progress.busbw and progress.passing is NcclResult.RUNNING and not progress.repeats:
            progress = None  # what was read last was before its end: no result
        took = line.jobset.finished_at - line.jobset.created
        done = Span(f"done after {wording.duration(took)}" if took > 0 else "done", "dim")
        if health.level is HealthLevel.BAD:
            return [sick, Span("  "), done]
        result = progress_words(progress) if progress else []
        return [*result, Span("  "), done] if any(span.text for span in result) else done
    first = first_failure(line.jobset, line.fleet) if state in {JobState.FAILED, JobState.RESTARTING} else None
    if first is not None and not health.kept:
        reason = line.job_progress.failure if line.job_progress is not None and state is JobState.FAILED else ""
        words = "; ".join(filter(None, (wording.sentence(reason), failure_words(first))))
        return Span(words, "bad" if state is JobState.FAILED else "waits")
    if health.level in {HealthLevel.BAD, HealthLevel.LATE}:
        return sick
    waits = state is JobState.PENDING and line.why.brief
    if reason := wording.sentence(waits or health.words or line.why.sentence):
        return Span(reason, line.style)
    figures = progress_words(line.job_progress) if line.job_progress else []
    return figures if any(each.text for each in figures) else Span(place_words(line), "dim")


def start_words(start: ExpectedStart, now: float) -> str:
    """The expected start as text after a label, without a full stop."""
    soon = f", {wording.moment(start.at, now)}" if start.at and start.window is None else ""
    after = f", when {format_ends([start.after_job])}" if start.after_job and start.at else ""
    sooner = f"at once if {awaited_ends((), start)}" if start.sooner else ""
    if not start.at:
        end = f", when {format_ends([start.earliest_after])}" if start.earliest_after else ""
        bound = "; ".join(filter(None, (sooner, _bound_words(start, now) + end)))
        when = f"{bound}; {start.unknown}" if end else f"{bound or 'not known'}: {start.unknown}"
    elif start.latest:
        bound = "" if sooner else _bound_words(start, now)
        when = "; ".join(
            filter(None, (sooner, bound, f"at the latest {wording.clock_time(start.at, now)}{soon}{after}"))
        )
    else:
        when = f"{start_time(replace(start, checks=()), now)}{soon}{after}"
    if not start.checks:
        return when
    checks = f"admission check{'s' if len(start.checks) > 1 else ''} {', '.join(start.checks)}"
    return f"quota {when}; then machines are provisioned ({checks}), when is not known"


def _bound_words(start: ExpectedStart, now: float) -> str:
    return f"not before {wording.clock_time(start.earliest, now)}" if start.earliest else ""


def start_time(start: ExpectedStart, now: float) -> str:
    """The expected start of a waiting job in the few words of a table column."""
    quota = "quota " if start.checks else ""
    if not start.at:
        return f"{quota}{_bound_words(start, now) or 'not known'}"
    first, last = (wording.clock_time(each, now) for each in start.window or (start.at, start.at))
    if first != last:
        return f"{quota}between {first} and {last}"
    return f"{quota}{'by' if start.latest else 'about'} {first}"


def start_json(start: ExpectedStart, now: float) -> dict[str, Any]:
    known = start.at or None
    return {
        "at": None if start.checks else known,
        "after": start.after_job,
        "latest": start.latest,
        "window": None if start.checks else start.window,
        "not_before": start.earliest or None,
        "not_after": known if start.latest and not start.checks else None,
        "at_once_if_ends": start.sooner,
        "quota_at": known if start.checks else None,
        "checks": start.checks,
        "unknown": start.unknown,
        "words": start_words(start, now),
    }


def progress_words(job_progress: JobProgress) -> list[Span]:
    """The latest figures: "loss 2.104  1,180 TFLOP/s", "✓ peak 594 GB/s, avg 416 GB/s"."""
    if job_progress.busbw is not None:
        so_far = " so far" if job_progress.passing is NcclResult.RUNNING else ""
        average = f"avg {job_progress.average:,.0f} GB/s" if job_progress.average is not None else ""
        if job_progress.repeats:  # a peak that begins anew with each test is not that of the last one
            words = Span(f"{f'{average}, now ' if average else 'this test '}peak {job_progress.busbw:,.0f} GB/s")
        else:
            words = Span(", ".join(filter(None, (f"peak {job_progress.busbw:,.0f} GB/s{so_far}", average))))
        mark = {NcclResult.FAILED: wording.BAD, NcclResult.PASSED: wording.DONE}.get(job_progress.passing)
        return [mark, Span(" "), words] if mark else [words]  # in front, where no column cuts it
    if job_progress.nan:
        return [Span(f"{ALARM_GLYPH} {job_progress.nan_words}", "bad")]
    loss = f"loss {job_progress.loss:.4g}" if job_progress.loss is not None else ""
    speed = f"{wording.figure(job_progress.tflops)} TFLOP/s" if job_progress.tflops is not None else ""
    return [Span("  ".join(words for words in (loss, speed) if words))]


def time_left_words(line: JobLine) -> str:
    """The time until a training's last step, with the time of day if under a day: "2h left, at 14:30"; or empty."""
    left, progress = line.seconds_left, line.job_progress
    if not left or progress is None:
        return ""
    at = f", at {wording.clock_time(progress.at + left, progress.at)}" if left < DAY else ""
    return f"{wording.duration(left)} left{at}"


PROGRESS_COLUMNS, BAR_COLUMNS = 20, 4  # of the column, and of the bar in it where its figures leave that
STALE_SECONDS = 60.0  # seconds after which figures are shown with their age


def progress_cell(line: JobLine) -> Cell:
    """Progress and remaining time; for a waiting job its expected start."""
    if line.expected_start is not None and line.jobset.state is JobState.PENDING:
        when = start_time(line.expected_start, line.fleet.at)
        if " and " in when:  # shorter than in a sentence
            return Span(when.replace("quota between ", "quota ").replace("between ", "").replace(" and ", "–"), "dim")
        bare = line.expected_start.checks or (line.expected_start.earliest and not line.expected_start.at)
        return Span(when if bare else f"{'starts' if line.expected_start.at else 'start'} {when}", "dim")
    job_progress = line.job_progress
    if job_progress is None or line.jobset.finished:
        return ""
    if job_progress.size is not None and job_progress.busbw is not None:
        return Span(f"at {wording.size(job_progress.size)}", "dim")
    if job_progress.step is None:
        return ""
    if not job_progress.total:
        return Span(f"step {job_progress.step:,}", "dim")
    left = f" {wording.age(line.seconds_left)} left" if line.seconds_left else ""
    runs = line.jobset.state in {JobState.STARTING, JobState.RUNNING}
    if runs and job_progress.at and (old := line.fleet.at - job_progress.at) > STALE_SECONDS:
        left = f" {wording.age(old)} ago"
    share = f" {wording.percent(job_progress.step, job_progress.total)}"
    bar = wording.bar(job_progress.step, job_progress.total, min(BAR_COLUMNS, PROGRESS_COLUMNS - len(share + left)))
    return [*bar, Span(share), Span(left, "dim")]


def _share_done(line: JobLine) -> float:
    """The share of a job that is done, from 0 to 1; -1 if unknown."""
    job_progress = line.job_progress
    return (job_progress.step or 0) / job_progress.total if job_progress and job_progress.total else -1.0


def job_lines(
    fleet: Fleet,
    namespace: str | None,
    name_owner: Callable[[str], str],
    progress: Mapping[str, JobProgress] | None = None,
    expected_starts: Mapping[tuple[str, str], ExpectedStart] | None = None,
) -> Iterable[JobLine]:
    """The rows of the Jobs page (`namespace` None: of all), newest first, with progress and expected starts."""
    for job in sorted(fleet.jobsets.values(), key=lambda each: (-each.created, each.key)):
        if namespace in {None, job.namespace}:
            workload = fleet.workload_of(job) if expected_starts else None
            start = expected_starts.get(workload.key) if expected_starts and workload is not None else None
            yield JobLine(job, fleet, (progress or {}).get(job.uid), owner=name_owner(job.owner), expected_start=start)


def _progress_json(line: JobLine) -> dict[str, Any] | None:
    if (progress := line.job_progress) is None:
        return None
    return {
        "step": progress.step,
        "total": progress.total,
        "loss": progress.loss,
        "size": progress.size,
        "busbw": progress.busbw,
    }


def _start_json(line: JobLine) -> dict[str, Any] | None:
    start = line.expected_start
    if start is None or line.jobset.state is not JobState.PENDING:
        return None
    return start_json(start, line.fleet.at)


def health_json(health: JobHealth) -> dict[str, Any]:
    return {
        "state": health.state,
        "level": health.level,
        "words": health.words,
        "exit_code": health.code,
        "pod_index": health.culprit,
        "kept": health.kept,
    }


def _pods_json(line: JobLine) -> list[dict[str, Any]]:
    return [
        {
            "pod_index": rank.number,
            "group": rank.replicated_job,
            "pod": rank.pod.name if rank.pod else None,
            "node": rank.pod.node if rank.pod else None,
            "phase": rank.pod.phase if rank.pod else None,
            "status": rank.status,
            "exit_code": rank.exit_code,
            "restarts": rank.pod.restarts if rank.pod else 0,
        }
        for rank in line.pod_slots
    ]


JOBS: ListLayout[JobLine] = ListLayout(
    JOB_KINDS[0],
    JOB_KINDS[1:],
    job_lines,
    (
        Column("JOB", lambda line: Span(line.jobset.name, line.style or "strong"), "name", "the JobSet",
               lambda line: line.jobset.name, least=12, most=44, sort=True, cut="middle"),
        Column("NAMESPACE", lambda line: line.jobset.namespace, "namespace", "its namespace", least=9, most=16, drop=9,
               sort=lambda line: line.jobset.key, style="dim"),
        Column("OWNER", lambda line: wording.owner(line.owner), "owner", "who launched it",
               lambda line: line.jobset.owner, least=5, most=12, drop=1, sort=lambda line: line.owner),
        fact("mine", "whether that is the account that asks, by its label", lambda line: line.owner == OWN_NAME),
        Column("RECIPE", lambda line: Span(line.jobset.recipe or "─", line.style or "text"), "recipe",
               "the recipe it was launched from", lambda line: line.jobset.recipe, least=6, most=20, drop=6, sort=True),
        fact("state", "how it is, by the end of its log too: its phase, or diverged, stalled, late or refused",
             lambda line: line.health.state),
        fact("phase", "of its JobSet: pending, starting, running, restarting, succeeded, failed or stopping",
             lambda line: line.jobset.state),
        Column("STATE", state_cell, "health",
               "the same state, with level (well: nothing is known to be wrong; waits, late or bad), words, exit_code "
               "and pod_index of the pod that failed first (null: none, or not known), kept: ended, but its pods go on",
               lambda line: health_json(line.health), width=12, sort=lambda line: line.jobset.state),
        Column("PODS", ranks_cell, "pods",
               "ready or succeeded, of all; in JSON: pod_index, group, pod, node, phase, status, exit_code, restarts",
               _pods_json, least=5, right=True, drop=5, sort=lambda line: line.jobset.ranks, down=True),
        fact("ranks", "the same by an older name, with rank for pod_index",
             lambda line: [{"rank": each["pod_index"], **each} for each in _pods_json(line)]),
        Column("GPUS", lambda line: Span(f"{line.jobset.gpus or ''}", line.style), "gpus", "GPUs of all its pods",
               lambda line: line.jobset.gpus, width=4, right=True, sort=True, down=True),
        Column("ATTEMPT", attempt_cell, "restarts", "restarts of the whole JobSet", lambda line: line.jobset.restarts,
               width=7, right=True, drop=7, sort=True, down=True),
        fact("max_restarts", "restarts allowed", lambda line: line.jobset.max_restarts),
        Column("QUEUE", lambda line: Span(line.jobset.queue or "─", "dim"), "queue", "its LocalQueue",
               lambda line: line.jobset.queue, least=5, most=14, drop=8, sort=True),
        Column("PROGRESS", progress_cell, "progress",
               "by the end of its log: step, total, loss (the last number), of a test size and busbw; null: not known",
               _progress_json, width=PROGRESS_COLUMNS, drop=2, sort=_share_done, down=True),
        fact("seconds_left", "until its last step, by its pace; null: it does not run, stalled, or it is not known",
             lambda line: line.seconds_left),
        fact("expected_start", "of a job that waits: at (seconds since the epoch; null: not known), after, "
             "latest, window, bounds, unknown and words as a4 forecast has them; null of any other", _start_json),
        Column("TREND", lambda line: wording.sparkline(line.job_progress.trend) if line.job_progress else "", "trend",
               "loss over the steps that were read, or GB/s over the sizes of a test, in at most 8 means",
               lambda line: list(line.job_progress.trend) if line.job_progress else [],
               width=8, drop=5, style="accent"),
        Column("STATUS", reason_cell, "why",
               "why it does not run, what is wrong with it, or what it does before its first step, in one sentence",
               lambda line: line.health.words or line.why.sentence, fill=True, least=20),
        fact("verdict", "for whom the ranks of a late, stalled or slow job wait, if a console has looked; else empty",
             lambda line: line.health.verdict),
        fact("category", "what kind of thing it waits for", lambda line: line.why.category),
        fact("next", "what to do about it, where that is known", lambda line: line.why.next),
        fact("removed", "when it goes by itself, seconds since the epoch; null while it runs, or if it stays",
             lambda line: line.jobset.removed_at or None),
        fact("finished", "when it ended, seconds since the epoch; null while it has not",
             lambda line: line.jobset.finished_at or None),
        age_column("AGE", lambda line: line.jobset.created, *CREATED, drop=3),
    ),
)  # fmt: skip
