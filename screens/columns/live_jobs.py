"""Live data that a session adds to a snapshot: a job's row with alarms and progress, and how recent the snapshot is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.kube.objects.jobset import JobSet
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from console.metrics.alarm import INSPECTED_PREFIX, Alarm, AlarmKind
from console.metrics.diagnosis import DiagnosisKind, judge_pace
from console.metrics.health import HealthLevel, alarm_kind_of_health
from console.settings_file import current_config
from screens.columns.jobs import JobLine
from screens.wording import Span, duration, first_names, format_freshness, sentence

if TYPE_CHECKING:
    from console.metrics.diagnosis import Diagnosis
    from console.session import Session


def live_line(session: Session | None, jobset: JobSet, fleet: Fleet) -> JobLine:
    """A job with its progress, expected start and alarms; without a session, only what the snapshot has."""
    if session is None:
        return JobLine(jobset, fleet, owner=jobset.owner)
    key, workload = jobset.key, fleet.workload_of(jobset)
    line = JobLine(
        jobset,
        fleet,
        session.measures.progress_reader.progress_of(jobset.uid),
        owner=session.watch.format_owner(jobset.owner),
        may_stop=not session.watch.read_only,
        slow=session.jobs.slow_report(key),
        saved=session.jobs.saved_state(key),
        expected_start=session.forecasts.starts.get(workload.key) if workload is not None else None,
        is_unread=session.measures.progress_reader.is_unread(jobset),
    )
    line = with_diagnoses(session, line)
    if (monitor := session.jobs.find_monitor(key)) is None:
        return line
    watch, active = monitor.watch, monitor.watch.active
    saves = bool(active) and bool(session.jobs.has_checkpoint(jobset))
    followed = watch.has_step_cadence
    late, why = watch.late_text, watch.why_unknown
    return replace(line, alarms=active, has_checkpoint=saves, late_message=late, why_unknown=why, followed=followed)


def with_diagnoses(session: Session, line: JobLine) -> JobLine:
    """The row of a job with the hang and slow-rank diagnoses that any console made of it."""
    verdict, slow = find_diagnoses(session, line)
    if (found := line.job_progress) is not None:
        seen, taken = (
            session.diagnoses.find(line.jobset.uid, kind) for kind in (DiagnosisKind.SLOWER, DiagnosisKind.PACE)
        )
        line = replace(line, job_progress=judge_pace(found, seen, taken))
    return replace(line, hang_verdict=verdict, slow_rank=slow)


def find_diagnoses(session: Session, line: JobLine) -> tuple[str, Diagnosis | None]:
    """The hang verdict on a job, and the diagnosis of its slow or late rank."""
    key, progress, diagnoses = line.jobset.key, line.job_progress, session.diagnoses
    slow = diagnoses.find_slow_rank(line.jobset, line.fleet)
    monitor = session.jobs.find_monitor(key)
    if monitor is not None and (monitor.watch.verdict or monitor.watch.has_step_cadence):
        return monitor.watch.verdict, slow
    hang = diagnoses.find_hang(line.jobset, line.fleet, progress.moved_at) if progress is not None else None
    return hang.words if hang is not None else "", slow


def alarm_by_log(line: JobLine) -> Alarm | None:
    """The alarm that the end of a job's log shows, for a job followed too briefly; None if it shows none."""
    kind, progress = alarm_kind_of_health(line.health), line.job_progress
    if kind is AlarmKind.KEPT and progress is not None and progress.end is not None:
        held_for, limit = progress.at - progress.end.time, current_config().config.alarms.kept
        if progress.in_use or held_for <= limit or not line.jobset.gpus or line.health.alarmed:
            return None
        words, began = f"{line.health.state}: {line.health.words}", progress.end.time
        return Alarm(kind, words, progress.at, *line.jobset.key, held=line.jobset.gpus, began=began)
    if kind is None or progress is None or line.health.level is not HealthLevel.BAD or line.health.alarmed:
        return None
    if line.jobset.finished or not (progress.is_stalled or progress.nan):
        return None
    words = f"{line.health.words} (by its log)"
    began = progress.where.nan_at if kind is AlarmKind.NAN else progress.moved_at
    found = f"{INSPECTED_PREFIX}{line.health.verdict}" if line.health.verdict else ""
    return Alarm(kind, words, progress.at, *line.jobset.key, more=found, held=line.jobset.gpus, began=began)


def alarms_of_session(session: Session, fleet: Fleet, namespace: str = "") -> list[Alarm]:
    """The alarms of followed jobs and, in `namespace` (empty: all), those at the ends of logs, the latest first."""
    known = session.measures.progress_reader.known
    ill = {uid for uid, found in known.items() if found.end or found.nan or found.is_stalled}
    odd = [each for each in fleet.jobsets.values() if each.uid in ill and namespace in {"", each.namespace}]
    live = (live_line(session, each, fleet) for each in odd if not each.finished)
    by_log = [alarm for line in live if (alarm := alarm_by_log(line)) is not None]
    return sorted([*session.alarms.latest_alarms, *by_log], key=lambda each: -each.since)


QUIET_STEP_SECONDS = 5
"""The step in seconds in which the shown age of a live snapshot grows, so that it is not painted every second."""
GLYPHS = {
    WatchState.LIVE: Span("●", "ok"),
    WatchState.LISTING: Span("◐", "waits"),
    WatchState.STALE: Span("◐", "waits"),
    WatchState.FORBIDDEN: Span("✗", "bad"),
}


def freshness_spans(links: Sequence[WatchStatus], now: float, *, reason: str = "") -> list[Span]:
    """A phrase on the worst of these watches' states, without absent kinds; `reason`: why not connected, if given."""
    if reason:
        return [Span("✗ ", "bad"), Span(f"not connected: {sentence(reason)}", "bad")]
    known = [link for link in links if link.state is not WatchState.ABSENT]
    if not links:
        return [Span("◐ ", "waits"), Span("connecting …", "dim")]
    if not known:
        return [Span("● ", "ok"), Span("live", "dim")]
    for state in (WatchState.STALE, WatchState.LISTING, WatchState.FORBIDDEN):
        in_state = [link for link in known if link.state is state]
        if in_state:
            return [Span(f"{GLYPHS[state].text} ", GLYPHS[state].style), *_describe_links(state, in_state, known, now)]
    last_seen = max(link.last_seen for link in known)
    quiet = (now - last_seen) // QUIET_STEP_SECONDS * QUIET_STEP_SECONDS if last_seen else 0
    return [Span("● ", "ok"), Span("live", "text"), Span(f", no change for {duration(quiet)}" if quiet else "", "dim")]


def _describe_links(
    state: WatchState, links: Sequence[WatchStatus], known: Sequence[WatchStatus], now: float
) -> list[Span]:
    kinds = "" if len(links) == len(known) else _join_names(links) + " "
    if state is WatchState.LISTING:
        return [Span(f"listing {_join_names(links)} …", "dim")]
    if state is WatchState.FORBIDDEN:
        return [Span(f"not allowed: {_join_names(links)}", "bad")]
    oldest = min((max(link.last_seen, link.since) for link in links), default=now)  # up to then it was heard
    why = next((link.why for link in links if link.why), "")
    return [
        Span(f"{kinds}reconnecting, {format_freshness(now - oldest)} old", "waits"),
        *([Span(f": {sentence(why)}", "dim")] if why else []),
    ]


def _join_names(links: Sequence[WatchStatus]) -> str:
    return first_names([link.kind for link in links])
