"""`a4 logs`: logs of one rank or all, live or stored; also of previous containers and with common lines merged.

It has the printers of single lines and of lines that ranks have in common, `--previous` (logs of the containers before
their last restart, from the cluster or as stored), and `--tail`, the last lines of each rank, with `--follow`.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from itertools import chain, islice
from operator import itemgetter
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import msgspec

from console.errors import BadInput, NotFound, NotThere
from console.folders import KEEP_LOGS_DAYS, KEEP_LOGS_GB
from console.kube.find_job import find_job, require_listed
from console.kube.objects.pod import Pod
from console.kube.stream_completeness import SERVER_CLOCK
from console.logs.log_line import PodLine
from console.scheduling.pod_slots import first_failure, pod_slots
from rankscope import format_pods
from screens.cli.arguments import Command, Commands, Options, count, flag, json_flag, option, word
from screens.cli.job_arguments import JOB_KINDS, pod_of_rank, selectors_of_job
from screens.cli.open_session import Connect, open_session
from screens.cli.output import pass_raw, print_line, warn, write_to_terminal
from screens.sanitize import one_line
from trainlog import LEVELS, has_severity

if TYPE_CHECKING:
    from console.logs.container_log import LogRequest
    from console.logs.job_log import Gap, JobLog
    from console.logs.log_service import PreviousLogs
    from console.logs.merged_text import CommonLine
    from console.session import Session

    PodLogReader = Callable[[Session, LogRequest], AsyncGenerator[tuple[str, str], None]]


CATCH_UP_SECONDS = 2.0
"""Maximum seconds to collect earlier log lines before they are printed, even if more of them may come."""
_PAUSE_SECONDS = 0.3
"""Seconds without a new line after which all earlier lines have come, provided that every rank is connected."""


async def tail_then_follow(
    lines: AsyncGenerator[list[PodLine], None], log: JobLog, line_count: int, *, follow: bool
) -> AsyncGenerator[list[PodLine], None]:
    """Yield the last `line_count` lines of each rank, then every new line."""
    last: dict[int, deque[tuple[int, PodLine]]] = defaultdict(lambda: deque(maxlen=line_count))
    new: list[PodLine] = []
    places = itertools.count()
    began, until = SERVER_CLOCK.now(), time.monotonic() + CATCH_UP_SECONDS
    coming = _next_batch(lines)
    try:
        while await _more_is_there(coming, log, until if follow else None) and (batch := coming.result()) is not None:
            for line in batch:
                if follow and line.time >= began:
                    new.append(line)
                else:
                    last[line.rank].append((next(places), line))
            coming = _next_batch(lines)
        in_order = sorted(chain.from_iterable(last.values()), key=itemgetter(0))
        yield [*(line for _, line in in_order), *new]
        while (batch := await coming) is not None:
            yield batch
            coming = _next_batch(lines)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def with_pauses(lines: AsyncGenerator[list[PodLine], None]) -> AsyncGenerator[list[PodLine], None]:
    """Yield the batches of `lines`, and an empty batch after each `_PAUSE_SECONDS` without a line."""
    coming = _next_batch(lines)
    try:
        while True:
            await asyncio.wait({coming}, timeout=_PAUSE_SECONDS)
            if not coming.done():
                yield []
            elif (batch := coming.result()) is None:
                return
            else:
                yield batch
                coming = _next_batch(lines)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await lines.aclose()


def _next_batch(lines: AsyncGenerator[list[PodLine], None]) -> asyncio.Future[list[PodLine] | None]:
    return asyncio.ensure_future(anext(lines, None))


async def _more_is_there(next_batch: asyncio.Future[list[PodLine] | None], log: JobLog, until: float | None) -> bool:
    """Whether a further batch came before `until` (monotonic clock) and before a pause; True if `until` is None."""
    if until is None:
        await asyncio.wait({next_batch})
        return True
    while (left := until - time.monotonic()) > 0:
        connected = not log.coverage.waiting and not log.coverage.reconnecting
        await asyncio.wait({next_batch}, timeout=min(left, _PAUSE_SECONDS))
        if next_batch.done() or connected:
            return next_batch.done()
    return False


AGREEMENT_SECONDS = 5.0
"""Seconds after which `--consensus --follow` prints a line that not all ranks have printed."""


class LinePrinter:
    """Prints each line, prefixed with its rank if there are several."""

    def __init__(self, log: JobLog | PreviousLogs, options: LogsOptions) -> None:
        self._log, self._options = log, options
        self._format: Callable[[PodLine], str] = self._format_json if options.json else self._format_line

    def add_lines(self, lines: list[PodLine]) -> None:
        if lines:
            sys.stdout.write("".join(map(self._format, lines)))
            sys.stdout.flush()

    def release(self, new_lines: list[PodLine]) -> None:
        """Do nothing, as this printer holds no line back."""

    def end(self) -> None:
        """Do nothing, as this printer holds no line back."""

    def _format_line(self, line: PodLine) -> str:
        return f"[{line.rank}] {line.text}\n" if self._options.all else f"{line.text}\n"

    @staticmethod
    def _format_json(line: PodLine) -> str:
        return f'{{"pod_index":{line.rank},' + msgspec.json.encode(line).decode()[1:] + "\n"


class CommonLinePrinter:
    """Prints lines that many ranks print alike only once: when all have printed them, or after a delay."""

    def __init__(self, log: JobLog | PreviousLogs, options: LogsOptions) -> None:
        from console.logs.merged_text import CommonLineFinder

        self._log, self._options = log, options
        self._finder = CommonLineFinder()
        self._held: list[tuple[float, CommonLine]] = []
        self._lines_held_so_far = 0
        self._began_at = SERVER_CLOCK.now()
        self._caught_up_at = time.monotonic() + CATCH_UP_SECONDS
        self._has_lines = self._caught_up = False

    def add_lines(self, lines: list[PodLine]) -> None:
        self._finder.add(lines)
        now = time.monotonic()
        self._held += [(now, line) for line in self._finder.lines[self._lines_held_so_far :]]
        self._lines_held_so_far = len(self._finder.lines)

    def release(self, new_lines: list[PodLine]) -> None:
        """Print lines that are complete; `new_lines` are all lines just received, empty in a pause."""
        if not self._options.follow:
            return
        self._has_lines = self._has_lines or bool(new_lines)
        if self._has_lines and not self._caught_up and self._is_caught_up(new_lines):
            self._caught_up = True
            # Date the earlier lines by their timestamps instead of their arrival.
            ago = SERVER_CLOCK.now() - time.monotonic()
            self._held = sorted(((min(came, line.time - ago), line) for came, line in self._held), key=itemgetter(0))
        self._print_before(time.monotonic() - AGREEMENT_SECONDS)

    def _is_caught_up(self, new_lines: list[PodLine]) -> bool:
        """Whether all old lines have come; until then ranks are at different times."""
        if time.monotonic() > self._caught_up_at:
            return all(line.time >= self._began_at for line in new_lines)
        return not new_lines and not self._log.coverage.waiting and not self._log.coverage.reconnecting

    def end(self) -> None:
        self._print_before(float("inf"))

    def _print_before(self, deadline: float) -> None:
        of, gaps, at = self._log.ranks, self._log.gaps, 0
        for began, line in self._held:
            if began > deadline and len(line.ranks) < of:
                break
            at += 1
            text = f"[{line.ranks_text(of, gaps)}] {line.text}"
            sys.stdout.write(f"{self._format_json(line, of, gaps) if self._options.json else text}\n")
        del self._held[:at]
        sys.stdout.flush()

    @staticmethod
    def _format_json(line: CommonLine, total: int, gaps: Sequence[Gap]) -> str:
        pods, unread = sorted(line.ranks), sorted(line.ranks_unread(gaps))
        report = {"time": line.time, "text": line.text, "pods": pods, "ranks": pods, "of": total, "not_read": unread}
        return msgspec.json.encode(report).decode()


LINES_PER_BATCH = 10_000
"""Lines that are printed at a time."""


async def print_previous(session: Session, options: LogsOptions, selects_line: Callable[[PodLine], bool]) -> int:
    """Print the previous logs, and which ranks have none. NotThere for an unknown rank, NotFound if no rank has one."""
    wanted = None if options.all else {options.rank or 0}
    runs = await session.logs.read_previous(session.namespace, options.job, wanted, tail=options.tail)
    if not options.all and not 0 <= (options.rank or 0) < runs.ranks:
        there = f"Its pods are 0 to {runs.ranks - 1}." if runs.ranks else ""
        raise NotThere(f"{options.job} has no pod {options.rank}.", there)
    if len(runs.missing) == runs.requested_ranks:
        reasons = "; ".join(dict.fromkeys(why for _, why in runs.missing)) or "it has no pods"
        who = f"No pod of {options.job} has a" if options.all else f"Pod {options.rank or 0} of {options.job} has no"
        now = f"a4 logs {options.job} {'--all' if options.all else options.rank or 0}"
        raise NotFound(f"{who} previous run: {reasons}.", f"Its last run: {now}")
    if runs.gone:
        warn(f"{options.job} is not in the cluster any more: this is the log kept in {session.logs.folder}.")
    printer = (CommonLinePrinter if options.consensus else LinePrinter)(runs, options)
    every = runs.lines
    while lines := list(islice(every, LINES_PER_BATCH)):
        printer.add_lines([line for line in lines if selects_line(line)])
    printer.end()
    _print_covered_ranks(runs, options)
    return 0


def _print_covered_ranks(previous_logs: PreviousLogs, options: LogsOptions) -> None:
    """Print how many of the job's ranks have a previous log, and why the others have none."""
    words = f"previous run: {previous_logs.coverage.sentence}"
    if options.json:
        _print_coverage(words, previous_logs.coverage)
    elif options.all:
        warn(words)
    reasons: dict[str, list[int]] = {}
    for rank, why in previous_logs.missing:
        reasons.setdefault(why, []).append(rank)
    for why, numbers in reasons.items():
        warn(f"{format_pods(*numbers)}: {why}")


def _print_coverage(message: str, coverage: Any) -> None:
    fields = {"words": message, **msgspec.to_builtins(coverage)}
    print_line(msgspec.json.encode({"coverage": fields}).decode())


CLEAR_TO_LINE_END = "\x1b[K"
"""The escape sequence that clears the terminal line from the cursor on, since a progress bar may stand there."""
_TIME_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_pod_log(session: Session, request: LogRequest) -> AsyncGenerator[tuple[str, str], None]:
    from console.logs.container_log import read_text  # without the service of logs

    return read_text(session.watch.current_connection.client, request)


async def logs(options: LogsOptions, connect: Connect = open_session, reader: PodLogReader = read_pod_log) -> int:
    if options.all and options.rank is not None:
        raise BadInput(f"Both pod {options.rank} and all pods were named.", "Leave one of them out.")
    if options.previous and options.follow:
        raise BadInput("A previous run is over and cannot be followed.", "Leave out --previous or --follow.")
    if options.raw:
        pass_raw()
    picks = LineSelection(options)
    only = selectors_of_job(options.job)
    if only and not (options.all or options.previous or picks.needed):
        async with connect(options, tuple(only), is_brief=True, selectors=only) as session:
            with suppress(NotFound):  # then there may be what was kept
                pod = pod_of_rank(session.fleet, session.namespace, options.job, options.rank or 0)
                hint_at_other_pods(session, options)
                return await print_one_rank(session, pod, options, reader)
    async with connect(options, JOB_KINDS, is_brief=not options.follow) as session:
        if options.previous:
            return await print_previous(session, options, picks)
        async with session.logs.open_job_log(
            session.namespace, options.job, tail=options.tail, once=not options.follow
        ) as log:
            await log.ready.wait()
            options = with_existing_pod(log, session, options)
            require_lines(log, session, options)
            if log.gone:
                require_listed(session.fleet, "jobsets", f"Whether {options.job} is still in the cluster")
                warn(f"{options.job} is not in the cluster any more: this is the log kept in {session.logs.folder}.")
            await print_all(log, options, picks)
    return 0


def hint_at_other_pods(session: Session, options: LogsOptions) -> None:
    """Print that this is pod 0's log if the person named no pod: many frameworks print the steps in another one."""
    job = session.fleet.jobsets.get((session.namespace, options.job))
    pods = len(pod_slots(job, session.fleet)) if job is not None and options.rank is None else 0
    if pods > 1:
        warn(f"This is the log of pod 0 of {pods}; another: a4 logs {options.job} POD, all of them: --all.")


def with_existing_pod(log: JobLog, session: Session, options: LogsOptions) -> LogsOptions:
    """The options, with an existing pod (a failed one if any) in place of pod 0 of an ended job, if its log is lost."""
    job = session.fleet.jobsets.get((session.namespace, options.job))
    if options.all or options.rank is not None or job is None or not job.finished:
        return options
    there = [slot for slot in pod_slots(job, session.fleet) if slot.pod is not None]
    if not there or there[0].number == 0 or any(len(part) for part in log.segments_of(0)):
        return options
    failed = first_failure(job, session.fleet)
    instead, why = (failed, "failed first") if failed else (there[0], "is still there")
    gone = f"Pod 0 of {options.job} is gone, and nothing of its log was kept"
    warn(f"{gone}: this is the log of pod {instead.number}, which {why}.")
    return options.replaced(rank=instead.number)


def require_lines(log: JobLog, session: Session, options: LogsOptions) -> None:
    """Raise NotFound or another error if a job, its pods or the log of the chosen pod are missing."""
    if options.all:
        if not log.parts:
            job = find_job(session.fleet, session.namespace, options.job)
            if not any(each.pod for each in pod_slots(job, session.fleet)):
                raise NotFound(f"{options.job} has no pods: the job is {job.state}.", f"Why: a4 why {options.job}")
    elif not any(len(part) for part in log.segments_of(options.rank or 0)):
        require_rank_lines(log, session, options)


def require_rank_lines(log: JobLog, session: Session, options: LogsOptions) -> None:
    """Raise the reason if the rank has no lines and will not get any."""
    rank, name = options.rank or 0, options.job
    if log.gone and log.ranks:
        if not 0 <= rank < log.ranks:
            raise NotThere(f"{name} has no pod {rank}.", f"Its pods are 0 to {log.ranks - 1}.")
        raise NotFound(f"{name} is gone, and nothing of the log of its pod {rank} was kept.", others(log, name, rank))
    try:
        pod_of_rank(session.fleet, session.namespace, name, rank)
    except NotFound as error:
        job = find_job(session.fleet, session.namespace, name)
        if job.finished:
            raise NotFound(
                f"Pod {rank} of {name} is gone, and nothing of its log was kept: the job is {job.state}.",
                others(log, name, rank),
            ) from error
        if not options.follow or not log.parts:
            raise


def others(log: JobLog, name: str, rank: int) -> str:
    hints = [] if log.gone else [f"Why: a4 why {name}"]
    if any(part.rank != rank for part in log.parts):
        hints.append(f"What other pods printed: a4 logs {name} --all")
    return ". ".join(hints)


async def print_one_rank(session: Session, pod: Pod, options: LogsOptions, reader: PodLogReader) -> int:
    """Print a rank's log directly from its pod."""
    from console.logs.container_log import LogRequest

    wanted, was_open = LogRequest(pod.namespace, pod.name, tail=options.tail, follow=options.follow), False
    draws = options.follow and sys.stdout.isatty()
    # Nobody may read on (`| head`): what it is made of ends one after the other.
    async with aclosing(reader(session, wanted)) as text_blocks:
        async for text, bar in text_blocks:
            if draws and text and was_open:
                write_to_terminal(sys.stdout, CLEAR_TO_LINE_END)
            sys.stdout.write(text)
            if draws and (was_open := bool(bar)):
                shown = one_line(bar)[: get_terminal_size().columns - 1]
                write_to_terminal(sys.stdout, f"{CLEAR_TO_LINE_END}{shown}\r")
            sys.stdout.flush()
    return 0


class LineSelection:
    def __init__(self, options: LogsOptions) -> None:
        """Raises BadInput for invalid options."""
        self.needed = bool(options.since or options.grep or options.level or options.consensus or options.json)
        self._since = parse_moment(options.since) if options.since else 0.0
        self._level = options.level
        try:
            self._grep = re.compile(options.grep) if options.grep else None
        except re.error as error:
            raise BadInput(f"--grep {options.grep!r} is not a regular expression: {error}.") from error

    def __call__(self, line: PodLine) -> bool:
        return (
            line.time >= self._since
            and (self._grep is None or self._grep.search(line.text) is not None)
            and (not self._level or has_severity(line.text.encode(), self._level))
        )


def parse_moment(text: str) -> float:
    """Parse a time or a duration ago (90s, 5m, 2h, 1d) to seconds since the epoch. Raises BadInput for other texts."""
    span = _TIME_SPAN.fullmatch(text)
    if span:
        return SERVER_CLOCK.now() - float(span[1]) * _SECONDS_PER_UNIT[span[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise BadInput(f"--since {text} is not a valid time.", "Examples: 90s, 5m, 2h, 2026-11-21T12:00:00Z.") from None


async def print_all(log: JobLog, options: LogsOptions, selection: LineSelection) -> None:
    """Print every selected line, and at the end how many ranks were covered."""
    wanted = None if options.all else {options.rank or 0}
    printer = (CommonLinePrinter if options.consensus else LinePrinter)(log, options)
    async with aclosing(log.iter_lines(wanted)) as lines:
        tail = lines if options.tail is None else tail_then_follow(lines, log, options.tail, follow=options.follow)
        async with aclosing(with_pauses(tail) if options.consensus and options.follow else tail) as batches:
            trouble = ""
            async for batch in batches:
                if options.follow and not trouble and (trouble := log.folder.problem):
                    warn(f"{trouble}.")
                printer.add_lines([line for line in batch if selection(line)] if selection.needed else batch)
                printer.release(batch)
    printer.end()
    coverage = log.coverage
    if options.json:
        _print_coverage(coverage.sentence, coverage)
    elif options.all:
        warn(coverage.sentence + (f" ({coverage.why})" if coverage.why else ""))
        for gap in coverage.gaps:
            warn(gap.sentence)


class LogsOptions(Options):
    job: str = word("JOB")
    rank: int | None = word("POD", nargs="?", type=count, default=None, help="index of the pod in the job")
    all: bool = flag("-a", "--all", help="of all pods, merged by time, the pod in front")
    follow: bool = flag("-f", "--follow", help="until the container, or the job, has ended")
    tail: int | None = option("--tail", type=count, metavar="LINES", help="only the last lines (of each pod)")
    previous: bool = flag(
        "-p", "--previous", help="of the previous container (before its last restart), or of an earlier pod"
    )
    since: str = option("--since", metavar="TIME", help="lines from then on: 90s, 5m, 2h ago, or a date and time")
    grep: str = option("--grep", metavar="RE", help="lines in which the regular expression is found")
    level: str = option("--level", choices=LEVELS, help="minimum severity")
    consensus: bool = flag("--consensus", help="collapse identical lines across pods: 7/8 (all but 7)")
    raw: bool = flag(
        "--raw", help="colours and control characters as they were printed; else a terminal gets text alone"
    )
    json: bool = json_flag("an object a line, the last one says what is missing")


COMMANDS: Commands = {
    "logs": Command(
        logs,
        LogsOptions,
        epilog="Logs that were followed are kept on this machine, secrets redacted, and are printed when the job is "
        f"gone: for {KEEP_LOGS_DAYS:g} days and up to {KEEP_LOGS_GB:g} GB, or A4_LOGS_KEEP_DAYS and A4_LOGS_KEEP_GB. "
        "See a4 --help for exit codes. "
        "JSON: pod_index (and rank, its older name), time, text, attempt, pod (its name), container; with --consensus "
        "time, text, pods (and ranks, their older name), of, not_read (pods); at the end coverage "
        "(words, total, live, reconnecting, waiting, ended, cut, refused, gaps, lost, why, disk).",
    )
}
