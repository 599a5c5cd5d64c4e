"""The command `a4 logs`: of one rank or of all, as it is printed or as it was kept."""

from __future__ import annotations

import re
import sys
import time
from contextlib import aclosing, suppress
from datetime import datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import msgspec

from console.errors import BadInput, NotFound
from console.models.finding import find_job, require_jobs
from console.models.levels import at_least
from console.models.ranks import ranks
from screens.cli.connect import connected
from screens.cli.guarded import pass_raw, write_to_terminal
from screens.cli.jobs import JOB_KINDS, pod_of_rank
from screens.cli.log_previous import print_previous
from screens.cli.log_printers import printer_of
from screens.cli.log_tail import last_first, with_pauses
from screens.cli.output import say, warn
from screens.wording import one_line

if TYPE_CHECKING:
    from console.follow.joblog import JobLog
    from console.models.log import RankLine
    from console.models.pod import Pod
    from console.session import Session
    from screens.cli.options import Options

CLEAR = "\x1b[K"
"""Clears the terminal's line from the cursor on: a progress bar stands where the next line, or itself, comes."""
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


async def logs(options: Options) -> int:
    """Print the log of a rank, or of all of them."""
    if options.all and options.rank is not None:
        raise BadInput(f"Both pod {options.rank} and all pods were named.", "Leave one of them out.")
    if options.previous and options.follow:
        raise BadInput("A previous run is over and cannot be followed.", "Leave out --previous or --follow.")
    if options.raw:
        pass_raw()
    picks = Picks(options)
    async with connected(options, JOB_KINDS) as session:
        fleet = await session.listed(*JOB_KINDS)
        if options.previous:
            return await print_previous(session, options, picks)
        if not options.all and not picks.needed:
            pod: Pod | None = None
            with suppress(NotFound):  # then there may be what was kept
                pod = pod_of_rank(fleet, session.namespace, options.job, options.rank or 0)
            if pod is not None:
                return await one_rank(session, pod, options)
        async with session.follow.job(
            session.namespace, options.job, tail=options.tail, once=not options.follow
        ) as log:
            await log.ready.wait()
            check_there(log, session, options)
            if log.gone:
                require_jobs(session.fleet, f"Whether {options.job} is still in the cluster")
                warn(f"{options.job} is not in the cluster any more: this is the log kept in {session.follow.folder}.")
            await print_all(log, options, picks)
    return 0


def check_there(log: JobLog, session: Session, options: Options) -> None:
    """Raises what is missing, if nothing can be printed: the job, its pods, or the pod of the rank and what it said."""
    if options.all:
        if not log.parts:
            job = find_job(session.fleet, session.namespace, options.job)
            if not any(each.pod for each in ranks(job, session.fleet)):
                raise NotFound(f"{options.job} has no pods: the job is {job.state}.", f"Why: a4 why {options.job}")
    elif not any(len(part) for part in log.parts_of(options.rank or 0)):
        check_rank(log, session, options)


def check_rank(log: JobLog, session: Session, options: Options) -> None:
    """Raises why there is no line of the rank, and none will come."""
    rank, name = options.rank or 0, options.job
    if log.gone and log.ranks:
        if not 0 <= rank < log.ranks:
            raise BadInput(f"{name} has no pod {rank}.", f"Its pods are 0 to {log.ranks - 1}.")
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
    """What else can be read of the job."""
    hints = [] if log.gone else [f"Why: a4 why {name}"]
    if any(part.rank != rank for part in log.parts):
        hints.append(f"What other pods printed: a4 logs {name} --all")
    return ". ".join(hints)


async def one_rank(session: Session, pod: Pod, options: Options) -> int:
    """A rank's log, line by line, from the pod itself."""
    drawn = options.follow and sys.stdout.isatty()
    lines = session.follow_log(pod.namespace, pod.name, tail=options.tail, follow=options.follow, drawn=drawn)
    was_open = False
    async for line in lines:
        if line.open:
            shown = one_line(line.text)[: get_terminal_size().columns - 1]
            write_to_terminal(sys.stdout, f"{CLEAR}{shown}\r")
        else:
            if was_open:
                write_to_terminal(sys.stdout, CLEAR)
            say(line.text)
        was_open = line.open
        if options.follow:
            sys.stdout.flush()
    return 0


class Picks:
    """Which lines are wanted."""

    def __init__(self, options: Options) -> None:
        """Raises BadInput for what cannot be understood."""
        self.needed = bool(options.since or options.grep or options.level or options.consensus or options.json)
        self._since = moment(options.since) if options.since else 0.0
        self._level = options.level
        try:
            self._grep = re.compile(options.grep) if options.grep else None
        except re.error as error:
            raise BadInput(f"--grep {options.grep!r} is no regular expression: {error}.") from error

    def __call__(self, line: RankLine) -> bool:
        """Whether this one is."""
        return (
            line.time >= self._since
            and (self._grep is None or self._grep.search(line.text) is not None)
            and (not self._level or at_least(line.text.encode(), self._level))
        )


def moment(text: str) -> float:
    """Seconds since the epoch: of a time, or of so long ago (90s, 5m, 2h, 1d); BadInput if it is neither."""
    span = _SPAN.fullmatch(text)
    if span:
        return time.time() - float(span[1]) * _UNITS[span[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise BadInput(f"--since {text} is no time.", "Examples: 90s, 5m, 2h, 2026-11-21T12:00:00Z.") from None


async def print_all(log: JobLog, options: Options, picks: Picks) -> None:
    """Every line that is wanted, and at the end how much of the job that was."""
    wanted = None if options.all else {options.rank or 0}
    printer = printer_of(log, options)
    async with aclosing(log.lines(wanted)) as lines:
        tail = lines if options.tail is None else last_first(lines, log, options.tail, follow=options.follow)
        async with aclosing(with_pauses(tail) if options.consensus and options.follow else tail) as batches:
            async for batch in batches:
                printer.take([line for line in batch if picks(line)] if picks.needed else batch)
                printer.release(batch)
    printer.end()
    coverage = log.coverage
    if options.json:
        fields = {"words": coverage.words, **msgspec.to_builtins(coverage)}
        sys.stdout.write(msgspec.json.encode({"coverage": fields}).decode() + "\n")
    elif options.all:
        warn(coverage.words + (f" ({coverage.why})" if coverage.why else ""))
        for gap in coverage.gaps:
            warn(gap.words)
