"""`a4 wait`: waits until a job reaches a condition or has an alarm.

`a4 alarms`: the active alarms of running jobs, once or as they begin.
"""

from __future__ import annotations

import asyncio
import operator
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from console.alarm_thresholds import Thresholds
from console.errors import BadInput
from console.kube.find_job import find_job, require_listed
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import Alarm, AlarmCoverage, AlarmKind, format_alarm
from console.metrics.health import is_kept, job_health
from console.scheduling.why import WAIT_KINDS
from console.settings_file import current_config, with_thresholds
from screens.cli.arguments import (
    EXIT_ALARM,
    Command,
    Commands,
    Options,
    above_zero,
    flag,
    json_flag,
    option,
    seconds_of_an_hour,
    word,
)
from screens.cli.job_arguments import JOB_KINDS, alarm_json, alarm_line
from screens.cli.lists import read_diagnoses, read_progress_of_jobs
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_table, warn
from screens.columns.alarms import ALARMS
from screens.columns.column import text_table
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import alarm_by_log, alarms_of_session, with_diagnoses
from screens.wording import count

if TYPE_CHECKING:
    from console.metrics.job_measures import JobMeasures
    from console.metrics.job_monitor import JobMonitor
    from console.session import Session


REACHED, FAILED, TIMED_OUT, ENDED = 0, 1, 6, 7
WATCHED_KINDS = (*WAIT_KINDS, "jobsets", "pods", "nodes")
JOB_APPEARS_SECONDS = 30.0
"""Seconds to wait for a job that does not exist yet."""
POLL_SECONDS = 0.25
OLD_STEP_SECONDS = 10.0
"""Minimum age in seconds of an old step: while old steps are read, they do not show the job's present state."""
NO_OLD_STEP_SECONDS = 2.0
"""Seconds without a further old step after which the last one is the job's present step: the job is stalled."""
_CONDITION = re.compile(r"\s*(busbw|step|loss)\s*(>=|<=|>|<|=)\s*([0-9.]+(?:[eE][-+]?\d+)?)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class WaitCondition:
    text: str
    label: str
    """The figure or state to wait for: "busbw", "step", "loss", "running" or "done"."""
    accepts_value: Callable[[float], bool] = lambda _: False

    def is_reached(self, value: float | None, *, is_running: bool = False, is_done: bool = False) -> bool:
        if self.label == "done":
            return is_done
        if self.label == "running":
            return is_running
        return value is not None and self.accepts_value(value)


def parse_conditions(texts: tuple[str, ...]) -> tuple[WaitCondition, ...]:
    """Parse the conditions. Raises BadInput for an invalid one."""
    found = []
    for text in texts or ("done",):
        matched = _CONDITION.fullmatch(text)
        if text.strip() in ("done", "running"):
            found.append(WaitCondition(text.strip(), text.strip()))
        elif matched is None:
            raise BadInput(f"{text!r} cannot be waited for.", "Write busbw>250, step=100, loss<2, running or done.")
        else:
            found.append(_parse_comparison(text, *matched.groups()))
    return tuple(found)


def _parse_comparison(text: str, label: str, sign: str, number: str) -> WaitCondition:
    wanted = float(number)
    # Iterations are printed every tenth, so step=100 is reached by the first that is not before it.
    compare = operator.ge if label == "step" and sign == "=" else _OPERATORS[sign]
    return WaitCondition(text.strip(), label, lambda value: compare(value, wanted))


async def run_wait(options: WaitOptions) -> int:
    """Run `a4 wait`, whose help describes the exit codes."""
    wanted = parse_conditions(options.until)
    async with open_session(options, WATCHED_KINDS) as session:
        if (session.namespace, options.job) not in session.fleet.jobsets:
            await session.watch.require_namespace(session.namespace)
        warn_of_settings()
        given = {
            name: value
            for name in ("silent", "stall", "behind", "busbw")
            if (value := getattr(options, name)) is not None
        }
        if options.without:
            given["off"] = tuple(options.without.split(","))
        thresholds = with_thresholds(session.alarms.thresholds, given)
        replay = _EarlierLog()
        async with session.alarms.open_monitor(session.namespace, options.job, thresholds) as watched:
            try:
                async with asyncio.timeout(options.timeout):
                    code, words = await _wait_until(session, options, wanted, watched, replay)
                alarms = watched.watch.alarms
            except TimeoutError:
                off = {*(AlarmKind if options.ignore_alarms else (AlarmKind.KEPT, *thresholds.off))}
                off |= (
                    {AlarmKind.STALL} if given.keys() - {"off"} else set()
                )  # the end of a log is judged by the settings
                state, alarm = await _read_state(session, watched, off, replaying=replay.is_being_read(watched))
                alarms = [*watched.watch.alarms, *([alarm] if alarm is not None else [])]
                code, words = (
                    TIMED_OUT,
                    f"{options.job}: {_join_texts(wanted)} not reached within {options.timeout:g} s; {state}",
                )
                if alarm is not None:
                    code, words = EXIT_ALARM, _alarm_words(session, alarm)
        if options.json:
            print_json(_outcome_json(options, code, words, watched.measures, alarms))
        else:
            (print_line if code == REACHED else warn)(f"{words}.")
    return code


def warn_of_settings() -> None:
    """Report problems of the alarm thresholds in the person's settings."""
    loaded = current_config()
    for each in loaded.problems:
        if each.path[:1] == ("alarms",):
            warn(f"{loaded.path}:{each.line}: {each.text}")


def _join_texts(conditions: tuple[WaitCondition, ...]) -> str:
    return " or ".join(each.text for each in conditions)


async def _wait_until(
    session: Session, options: WaitOptions, wanted: tuple[WaitCondition, ...], monitor: JobMonitor, replay: _EarlierLog
) -> tuple[int, str]:
    key, printed, last, gone_at = monitor.key, "", None, time.monotonic() + JOB_APPEARS_SECONDS
    while True:
        if monitor.error is not None:
            raise monitor.error
        jobset = session.fleet.jobsets.get(key)
        last = jobset or last
        if jobset is None and last is not None and last.finished:
            jobset = last  # it was removed after its end, and is read out
        # That it failed is no alarm here: it has an exit code of its own, and so has a job whose pods are kept.
        active = (each for each in monitor.watch.active if each.kind not in {AlarmKind.FAILED, AlarmKind.KEPT})
        alarm = None if options.ignore_alarms else next(active, None)
        kept = jobset is not None and is_kept(jobset, monitor.progress)
        succeeded = jobset is not None and jobset.state is JobState.SUCCEEDED
        # Whether a run that ended well has diverged is known once its log was read.
        done = succeeded and (options.ignore_alarms or (monitor.is_complete and alarm is None))
        done = done or (kept and not _ended_badly(monitor) and (options.ignore_alarms or alarm is None))
        replaying = replay.is_being_read(monitor)
        reached = "" if replaying else _find_fulfilled(session, wanted, jobset, monitor.measures, is_done=done)
        if reached:
            return REACHED, f"{options.job}: {reached}"
        if alarm is not None:
            return EXIT_ALARM, _alarm_words(session, alarm)
        over = _final_outcome(options.job, jobset, session.fleet, last is not None, monitor, wanted)
        if over is not None:
            return over
        if last is None and time.monotonic() > gone_at:
            find_job(session.fleet, session.namespace, options.job)
        printed = printed if replaying else _print_progress(options, monitor.measures, printed)
        await asyncio.sleep(POLL_SECONDS)


def _ended_badly(monitor: JobMonitor) -> bool:
    end = monitor.measures.end
    return end is not None and end.code != 0


@dataclass(slots=True)
class _EarlierLog:
    """Detects whether old log lines are still being read, whose steps are not the job's present ones."""

    last_step_at: float = 0.0  # when it was printed, seconds since the epoch; 0.0: none was
    changed_at: float = 0.0  # when it was read, by the monotonic clock

    def is_being_read(self, monitor: JobMonitor) -> bool:
        """Whether an old step was read within the last `NO_OLD_STEP_SECONDS`."""
        track = monitor.measures.track if monitor.measures is not None else None
        last_step, now = track.times[-1] if track is not None and track.times else 0.0, time.monotonic()
        if last_step != self.last_step_at:
            self.last_step_at, self.changed_at = last_step, now
        is_old = last_step < SERVER_CLOCK.now() - OLD_STEP_SECONDS
        return is_old and now < self.changed_at + NO_OLD_STEP_SECONDS and not monitor.is_complete


def _find_fulfilled(
    session: Session,
    conditions: tuple[WaitCondition, ...],
    jobset: JobSet | None,
    measures: JobMeasures | None,
    *,
    is_done: bool,
) -> str:
    from console.scheduling.pod_slots import pod_slots

    every = pod_slots(jobset, session.fleet) if jobset else ()
    up = bool(every) and all(rank.ready or rank.phase == "Succeeded" for rank in every)
    for each in conditions:
        value = latest_figure(each.label, measures)
        if each.is_reached(value, is_running=up, is_done=is_done):
            return each.text if value is None else f"{each.text} reached ({each.label} {value:g})"
    return ""


def latest_figure(label: str, measures: JobMeasures | None) -> float | None:
    """The latest value of busbw (average of the last finished test), step or loss; None if unknown."""
    if measures is None:
        return None
    if label == "busbw":
        ended = [each for each in measures.tests if each.test.finished]
        return (ended[-1].busbw if ended[-1].busbw is not None else ended[-1].test.avg_busbw) if ended else None
    track = measures.track
    if track is None or track.last is None:
        return None
    return track.last.step if label == "step" else track.last.loss if label == "loss" else None


def _alarm_words(session: Session, alarm: Alarm) -> str:
    return f"{alarm.job}: {alarm.kind.label} alarm: {format_alarm(alarm, session.watch).rstrip('.')}"


async def _read_state(
    session: Session, monitor: JobMonitor, disabled_kinds: Collection[AlarmKind], *, replaying: bool
) -> tuple[str, Alarm | None]:
    """The job's health as in `a4 jobs`, and an alarm found by reading the end of its log."""
    jobset, watch, progress = session.fleet.jobsets.get(monitor.key), monitor.watch, monitor.progress
    if jobset is None:
        return f"there is no job {monitor.key[1]} in namespace {monitor.key[0]}", None
    if replaying or (progress is None and not jobset.finished):
        progress = (await read_progress_of_jobs(session, [jobset])).get(jobset.uid)
        if progress is None and replaying:
            return f"it is {jobset.state}, and its log was not read up to now", None
    line = JobLine(jobset, session.fleet, progress, watch.active, watch.late_text, followed=watch.has_step_cadence)
    line = with_diagnoses(session, line)
    health, alarm = line.health, alarm_by_log(line)
    words = f"it is {health.state}{f': {health.words}' if health.words else ''}"
    return words, alarm if alarm is not None and alarm.kind not in disabled_kinds else None


def _final_outcome(
    job: str,
    jobset: JobSet | None,
    fleet: Fleet,
    was_seen: bool,
    monitor: JobMonitor,
    conditions: tuple[WaitCondition, ...],
) -> tuple[int, str] | None:
    """(exit code, message) if nothing more can happen: the job failed, is gone, or is done; else None."""
    if jobset is None and not was_seen:
        return None
    if jobset is None:
        return ENDED, f"{job} is gone before {_join_texts(conditions)} was reached"
    health, kept = job_health(jobset, fleet, job_progress=monitor.progress), is_kept(jobset, monitor.progress)
    if jobset.state is JobState.FAILED or (kept and health.code):
        return FAILED, f"{job} failed before {_join_texts(conditions)} was reached: {health.words or f'a4 why {job}'}"
    if kept:
        return ENDED, f"{job} is done, and {_join_texts(conditions)} was not reached: {health.words}"
    if jobset.finished and monitor.is_complete:
        return ENDED, f"{job} is done, and {_join_texts(conditions)} was not reached"
    return None


def _print_progress(options: WaitOptions, measures: JobMeasures | None, printed_text: str) -> str:
    """Print a line on standard error if it differs from `printed_text`; returns the line, empty if nothing is known."""
    step, loss, busbw = (latest_figure(what, measures) for what in ("step", "loss", "busbw"))
    words = [f"step {step:g}"] if step is not None else []
    words += [f"loss {loss:.4g}"] if loss is not None else []
    words += [f"busbw {busbw:.4g} GB/s"] if busbw is not None else []
    message = ", ".join(words)
    if message != printed_text and message and not options.quiet:
        warn(f"{options.job}: {message}")
    return message


def _outcome_json(
    options: WaitOptions, code: int, message: str, measures: JobMeasures | None, alarms: Sequence[Alarm]
) -> dict[str, object]:
    result = {REACHED: "reached", FAILED: "failed", EXIT_ALARM: "alarm", TIMED_OUT: "timeout", ENDED: "ended"}[code]
    return {
        "job": options.job,
        "code": code,
        "result": result,
        "words": message,
        **{what: latest_figure(what, measures) for what in ("step", "loss", "busbw")},
        "alarms": alarms,
    }


async def run_alarms(options: AlarmsOptions) -> int:
    """Print active alarms, or each as it begins; returns 5 if there is one."""
    warn_of_settings()
    async with open_session(options, (*JOB_KINDS, "nodes"), waits=False) as session:
        fleet = await session.wait_until_listed(*JOB_KINDS)
        require_listed(fleet, "jobsets", "Which jobs run")
        if not (options.all_namespaces or any(where == session.namespace for where, _ in fleet.jobsets)):
            await session.watch.require_namespace(session.namespace)
        watching = session.alarms
        namespace = "" if options.all_namespaces else session.namespace
        await read_diagnoses(session)
        watching.watch_namespace(namespace, always=True, inspects=options.follow)
        if options.follow:
            return await _follow_alarms(session, options)
        await asyncio.sleep(options.listen)
        found = await _active_alarms(session, namespace)
        if options.json:
            coverage = watching.coverage
            items = [alarm_json(session, each) for each in found]
            print_json({"coverage": msgspec.to_builtins(coverage) | {"words": coverage.words}, "alarms": items})
        else:
            show_alarms(found, options.listen, watching.coverage, namespace)
    return EXIT_ALARM if found else 0


async def _active_alarms(session: Session, namespace: str) -> list[Alarm]:
    """The active alarms as on the Alarms page; a stall includes the cause found by an inspection since."""
    watching = session.alarms
    jobsets = (each for each in session.fleet.jobsets.values() if namespace in {"", each.namespace})
    monitors = {each: watching.find(each.key) for each in jobsets if not each.finished}
    unknown = [each for each, monitor in monitors.items() if not (monitor and monitor.watch.has_step_cadence)]
    await read_progress_of_jobs(session, unknown)
    return [alarm for alarm in alarms_of_session(session, session.fleet, namespace) if alarm.is_active]


def show_alarms(alarms: Sequence[Alarm], watched_seconds: float, coverage: AlarmCoverage, namespace: str) -> None:
    if alarms:
        print_table(*text_table(ALARMS, alarms))
    else:
        jobs = f"{coverage.read} of {count(coverage.running, 'running job')}"
        print_line(f"No alarms in {watched_seconds:g} s, in which lines of the log of {jobs} were read.")
        if coverage.read < coverage.running:
            warn("Of the others it is not known: --listen SECONDS watches longer.")
    warn(f"{coverage.words}{f' These are of namespace {namespace}; -A is for all.' if namespace else ''}")


async def _follow_alarms(session: Session, options: AlarmsOptions) -> int:
    """Print each new alarm, each stall again once its cause is known, and each change of coverage, until Ctrl-C."""
    watching, words = session.alarms, ""
    unexplained: set[tuple[str, str, float]] = set()
    while True:
        new = watching.pop_new_alarms()
        stalls = {
            (each.namespace, each.job, each.time): each
            for each in watching.latest_alarms
            if each.kind is AlarmKind.STALL and each.is_active
        }
        new += [alarm for name, alarm in stalls.items() if name in unexplained and alarm.verdict and alarm not in new]
        unexplained = {name for name, alarm in stalls.items() if not alarm.verdict}
        for alarm in new:
            if options.json:
                print_line(msgspec.json.encode(alarm_json(session, alarm)).decode())
            else:
                when = time.strftime("%H:%M:%S", time.localtime(alarm.since))
                print_line(f"{when} {alarm_line(alarm, session.watch)}")
        if not options.json and (covered := watching.coverage.words) != words:
            words = covered
            warn(words)
        await asyncio.sleep(POLL_SECONDS)


_THRESHOLDS_HELP = "".join(
    f"  {name} = {value:g}\n"
    for name in Thresholds.__struct_fields__
    if isinstance(value := getattr(Thresholds(), name), int | float) and not isinstance(value, bool)
)


class WaitOptions(Options):
    job: str = word("JOB")
    until: tuple[str, ...] = option(
        "--until",
        action="append",
        metavar="WHAT",
        help="busbw>250 (GB/s, the last test), step=100, loss<2, running, or done (default); one of several is enough",
    )
    timeout: float | None = option(
        "--timeout", type=above_zero, metavar="SECONDS", help="give up after that (default: never)"
    )
    ignore_alarms: bool = flag("--ignore-alarms", help="only the job's end and the timeout count")
    without: str = option("--without", metavar="ALARMS", help="alarms to ignore, such as spike,gpu")
    silent: float | None = option("--silent", type=float, metavar="S", help="seconds without a line of any pod")
    stall: float | None = option("--stall", type=float, metavar="S", help="seconds without a new iteration")
    behind: int | None = option("--behind", type=int, metavar="N", help="steps that a pod may be behind")
    busbw: float | None = option("--busbw", type=float, metavar="GB/S", help="pass line of NCCL tests")
    quiet: bool = flag("-q", "--quiet", help="no progress on standard error")
    json: bool = json_flag()


class AlarmsOptions(Options):
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    listen: float = option(
        "--listen",
        type=seconds_of_an_hour,
        default=15.0,
        metavar="SECONDS",
        help="how long to watch first (default: 15)",
    )
    follow: bool = flag("-f", "--follow", help="each alarm as it begins, until Ctrl-C")
    json: bool = json_flag()


COMMANDS: Commands = {
    "wait": Command(
        run_wait,
        WaitOptions,
        description="""\
Wait for a state or metric of a job. An alarm ends the wait too, unless --ignore-alarms is given: no new
iteration or line (stall), nan, a loss spike, busbw under the line, a pod behind, a restart, a GPU
fault (gpu). Warm-up, evaluation and checkpoints have more time. Of a job that is done the log is read to
its end first: a run that diverged is an alarm then too.""",
        epilog=f"""\
Exit codes: 0 reached, 1 the job failed, 2 usage, 3 not allowed, 4 cannot reach the cluster, 5 an alarm,
6 timed out without one (then the end of the log counts too, as in a4 alarms), 7 the job ended without it.
Thresholds stand under [alarms] in $XDG_CONFIG_HOME/a4/config.toml (~/.config), where options are not given:
{_THRESHOLDS_HELP}\
  off = ["spike"]   # alarms to turn off
  inspect = false   # a job of one's own that has stalled is not inspected by itself
  notify = false    # no bell and no notification in the console's terminal
in seconds; stall_steps: usual steps, the longer of both counts; behind: steps; gpus: between two looks at
the GPUs, 0 for none; kept: for which the kept pods of an ended job hold idle GPUs; busbw: GB/s, 0 for the
usual pass line; warm_up and pause: silence before the pace is known, and while it evaluates or saves;
streams: logs that are followed of running jobs whose page is not open (running = false: of none).
JSON: job, code, result (reached, failed, alarm, timeout, ended), words, step, loss, busbw, alarms.""",
    ),
    "alarms": Command(
        run_alarms,
        AlarmsOptions,
        description="""\
Alarms of all running jobs of the namespace. One or two logs of each are followed: the first and last pod,
then the one that prints steps or tests; at most `streams` logs together, the largest jobs first.
Of the other jobs only restarts and failures are watched. GPUs are read from the DCGM exporter.""",
        epilog="""\
Exit codes: 0 no alarm, 2 usage, 3 not allowed, 4 cannot reach the cluster, 5 an alarm.
Thresholds stand under [alarms] in $XDG_CONFIG_HOME/a4/config.toml, see a4 wait --help; running = false: the
console watches only jobs whose page was opened.
JSON: coverage (running, heard, streams, most, refused, read, words), alarms (kind, words, time: when it was
noticed, namespace, job, over, began: when it happened, 0 not known, ended, more, held, nodes:
where its cause is, verdict: for whom the ranks of a stalled job wait, as a console has found, else
empty, next); with --follow one alarm a line as it begins, a stall again with its verdict.""",
    ),
}
