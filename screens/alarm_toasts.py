"""Delivers alarms and starts of waiting jobs: toasts, terminal notifications, and which jobs are watched."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from console.connection_settings import OWN_NAME
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import GPU, condition
from console.kube.objects.workload import Workload, WorkloadState
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import ALARM_GLYPH, Alarm, AlarmKind, format_alarm
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import find_diagnoses, live_line
from screens.session_app import SessionApp
from screens.widgets.styled_text import cut_sentence
from screens.wording import Span, duration

if TYPE_CHECKING:
    from console.launch.run_record import RunRecord

NOTIFY_VARIABLE = "A4_NOTIFY"
"""Variable that turns the terminal's notification off by "0", "no", "off" or "false", as the settings can."""
_NO_WORDS = ("0", "no", "off", "false")
_TERMINALS_WITH_BOTH_CODES = ("wezterm", "ghostty", "xterm-ghostty", "xterm-kitty")
"""Terminals, as they call themselves, that show OSC 9 and OSC 777."""
MAX_MESSAGE_CHARACTERS = 200
LOW_TERMINAL_LINES = 30  # lines of a terminal below which a message is as short as it can be
TOAST_SECONDS = 10  # seconds that an alarm is shown
_WAITING_STATES = {WorkloadState.PENDING, WorkloadState.RESERVED, WorkloadState.EVICTED}
REFOUND_SECONDS = 60.0  # seconds after a reconnect in which earlier alarms are found again


def live_job_line(app: SessionApp, jobset: JobSet, fleet: Fleet) -> JobLine:
    return live_line(app.session if app.connected else None, jobset, fleet)


def has_changed(app: SessionApp, line: JobLine) -> bool:
    key = line.jobset.key
    if not app.connected:
        return bool(line.alarms or line.late_message)
    session = app.session
    if (session.jobs.slow_report(key), session.jobs.saved_state(key)) != (line.slow, line.saved):
        return True
    known, shown = session.measures.progress_reader.progress_of(line.jobset.uid), line.job_progress
    if known is not None and (shown is None or known.at != shown.at):  # its log was read, though others' are not yet
        return True
    if find_diagnoses(session, line) != (line.hang_verdict, line.slow_rank):
        return True
    if session.measures.progress_reader.is_unread(line.jobset) != line.is_unread:
        return True
    monitor, shown_alarms = (
        session.jobs.find_monitor(key),
        (line.alarms, line.late_message, line.why_unknown, line.followed),
    )
    watch = monitor.watch if monitor is not None else None
    now = (watch.active, watch.late_text, watch.why_unknown, watch.has_step_cadence) if watch else ((), "", "", False)
    return now != shown_alarms


def with_jobs(app: SessionApp, records: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    """The run records; those of jobs that still run carry the job's present health."""
    from console.launch.run_record import is_run_of_job  # its Kueue is more than the first screen waits for

    jobs = app.fleet.jobsets if app.connected else {}
    return tuple(
        replace(run, now=live_job_line(app, jobset, app.fleet).health)
        if run.is_open
        and run.server == app.session.watch.server
        and (jobset := jobs.get(run.key))
        and is_run_of_job(run, jobset)
        else run
        for run in records
    )


class AlarmNotifier:
    """The alarms already shown: a reconnection finds the same alarms again, which are not shown twice."""

    def __init__(self) -> None:
        self._connection: object | None = None
        self._cluster = ""
        self._since = 0.0
        self._opened = SERVER_CLOCK.now()
        self._notified: Counter[tuple[str, str, str]] = Counter()
        self._before: Counter[tuple[str, str, str]] = Counter()
        self._unexplained: set[tuple[str, str, float]] = set()

    def not_yet_notified(self, app: SessionApp, alarms: list[Alarm]) -> list[Alarm]:
        """The alarms that were not shown before the last reconnection to this cluster."""
        if app.connection is not self._connection:
            self._connection, cluster, self._cluster = app.connection, self._cluster, app.session.context
            self._before = self._notified if cluster == self._cluster else Counter()
            self._notified, self._since = Counter(), time.monotonic()
        again = time.monotonic() - self._since < REFOUND_SECONDS
        new = []
        for alarm in alarms:
            name = alarm.namespace, alarm.job, alarm.kind
            self._notified[name] += 1
            if not again or self._notified[name] > self._before[name]:
                new.append(alarm)
        return new

    def is_for_person(self, app: SessionApp, alarm: Alarm) -> bool:
        """Whether the alarm is of a job of this person, and began while the console was open."""
        jobset = app.fleet.jobsets.get((alarm.namespace, alarm.job))
        return jobset is not None and app.format_owner(jobset.owner) == OWN_NAME and alarm.since >= self._opened

    def newly_explained(self, alarms: Iterable[Alarm]) -> list[Alarm]:
        """The stall alarms whose cause, a rank, has become known since they were shown."""
        found = []
        for each in alarms:
            name = each.namespace, each.job, each.time
            if each.kind is AlarmKind.STALL and each.is_active and not each.more:
                self._unexplained.add(name)
            elif each.more and name in self._unexplained:
                self._unexplained.discard(name)
                found.append(each)
        return found


class StartNotifier:
    """Remembers which workloads wait, to notify their owners when they start."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None
        self._waiting_uids: set[str] = set()  # uids of JobSets

    def new_starts(self, fleet: Fleet, name_owner: Callable[[str], str]) -> list[Workload]:
        """The person's workloads that waited at the last call and have been admitted since."""
        if fleet is self._fleet:
            return []
        self._fleet, before, known = fleet, self._waiting_uids, fleet.workload_by_owner
        gone = {uid for uid in before if uid not in known}  # a list that is read anew lacks them for a moment
        self._waiting_uids = gone | {uid for uid, each in known.items() if each.state in _WAITING_STATES}
        return [
            known[uid]
            for uid in sorted(before - self._waiting_uids)
            if known[uid].state is WorkloadState.ADMITTED
            and (job := fleet.jobset_by_uid.get(uid)) is not None
            and name_owner(job.owner) == OWN_NAME
        ]


def notify_starts(app: SessionApp, start_notifier: StartNotifier) -> None:
    """Notify the person of their own waiting jobs that start now."""
    for each in start_notifier.new_starts(app.fleet, app.format_owner) if app.connected else ():
        admitted = condition(each.conditions, "Admitted")
        waited = f" after {duration(admitted.since - each.created)}" if admitted and admitted.since else ""
        words = f"Kueue has admitted it to queue {each.cluster_queue}{waited}: {each.total(GPU)} GPUs"
        app.notify(f"{words}.", title=f"{each.owner_name} starts", timeout=TOAST_SECONDS)
        _send(app, [(f"{each.owner_name} starts", words, each.namespace)])


def notify_new_alarms(app: SessionApp, bell: AlarmNotifier) -> None:
    """Watch running jobs for alarms; shows new ones of the person's own jobs, and counts all in the title."""
    if not app.connected or not (app.fleet.jobsets or app.session.jobs.alarms is not None):
        return
    alarms = app.session.alarms
    alarms.watch_namespace(app.only_namespace)
    begun = bell.not_yet_notified(app, alarms.pop_new_alarms())
    new = begun + bell.newly_explained(alarms.latest_alarms)
    own = [each for each in new if bell.is_for_person(app, each)]
    _show_toasts(app, own)
    new.sort(key=lambda each: each not in own or each not in begun)
    notes = [(f"{each.job}: {each.kind.label}", format_alarm(each, app.session.watch), each.namespace) for each in new]
    _send(app, notes, to_terminal=sum(each in begun for each in own))  # it cannot replace what it was sent


def _send(app: SessionApp, messages: Sequence[tuple[str, str, str]], *, to_terminal: int | None = None) -> None:
    """Send messages (title, text, namespace): to the terminal if `to_terminal`, and to the addresses of the settings.

    Alarms of the practice cluster are not sent to addresses.
    """
    if app.session.alarms.thresholds.notify and os.environ.get(NOTIFY_VARIABLE, "").lower() not in _NO_WORDS:
        for title, text, _ in messages[:to_terminal]:
            notify_terminal(app, title, text)
    outbox = app.outbox
    if not messages or not app.loaded.config.notifications.to or app.settings.practice:
        return
    for title, text, namespace in messages:
        outbox.add_message(title, f"{text} ({app.session.context}, namespace {namespace})")
    if not outbox.sending:
        outbox.sending = True
        tell = partial(app.notify, title="Alarms are not sent", severity="warning", timeout=TOAST_SECONDS)
        app.run_worker(outbox.send_pending(lambda: app.loaded.config.notifications.to, tell), group="notifications")


def _show_toasts(app: SessionApp, alarms: list[Alarm]) -> None:
    """Show alarms as toasts of one line."""
    for each in alarms:
        title = f"{ALARM_GLYPH} {each.job}: {each.kind.label}"
        app.close_alarms(title)  # a stall that has been inspected since replaces its earlier message
        line = cut_sentence([Span(f"{title}  {each.text}")], app.size.width - 6)
        app.notify("".join(run.text for run in line), severity="warning", timeout=TOAST_SECONDS)


def notify_terminal(app: SessionApp, title: str, message: str) -> None:
    """Ring the bell and send a terminal notification: OSC 9 (iTerm2, Windows) and OSC 777 (rxvt)."""
    program = os.environ.get("TERM_PROGRAM", "") or os.environ.get("TERM", "")
    app.write_to_terminal(escape_sequences(title, message, both=program.lower() not in _TERMINALS_WITH_BOTH_CODES))


def escape_sequences(title: str, message: str, *, both: bool = True) -> str:
    """The escape sequences of a notification, with sanitized text.

    `both`: OSC 777 beside OSC 9; a terminal that shows both would notify twice.
    """
    texts = ("".join(each if each.isprintable() else " " for each in text) for text in (title, message))
    clean, body = (text[:MAX_MESSAGE_CHARACTERS] for text in texts)
    other = f"\x1b]777;notify;{clean.replace(';', ',')};{body.replace(';', ',')}\x07" if both else ""
    return f"\x07\x1b]9;{clean}: {body}\x07{other}"
