"""`a4 logs --previous`: the run before the last of one rank or of all, from the cluster or as it was kept."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from console.errors import BadInput, NotFound
from console.models.rank_words import pod_words
from screens.cli.log_printers import printer_of
from screens.cli.output import warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.follow.previous import PreviousRuns
    from console.models.log import RankLine
    from console.session import Session
    from screens.cli.options import Options


AT_ONCE = 10_000
"""Lines that are printed at a time."""


async def print_previous(session: Session, options: Options, picks: Callable[[RankLine], bool]) -> int:
    """Print them, and of which ranks there is none; NotFound if there is of nobody."""
    wanted = None if options.all else {options.rank or 0}
    runs = await session.follow.previous(session.namespace, options.job, wanted, tail=options.tail)
    _check(runs, options)
    if runs.gone:
        warn(f"{options.job} is not in the cluster any more: this is the log kept in {session.follow.folder}.")
    printer = printer_of(runs, options)
    every = runs.lines
    while lines := list(islice(every, AT_ONCE)):
        printer.take([line for line in lines if picks(line)])
    printer.end()
    _tell(runs, options)
    return 0


def _check(runs: PreviousRuns, options: Options) -> None:
    if not options.all and not 0 <= (options.rank or 0) < runs.ranks:
        raise BadInput(
            f"{options.job} has no pod {options.rank}.", f"Its pods are 0 to {runs.ranks - 1}." if runs.ranks else ""
        )
    if len(runs.without) == runs.asked:
        reasons = "; ".join(dict.fromkeys(why for _, why in runs.without)) or "it has no pods"
        who = f"No pod of {options.job} has a" if options.all else f"Pod {options.rank or 0} of {options.job} has no"
        now = f"a4 logs {options.job} {'--all' if options.all else options.rank or 0}"
        raise NotFound(f"{who} previous run: {reasons}.", f"Its last run: {now}")


def _tell(runs: PreviousRuns, options: Options) -> None:
    """How much of the job that was."""
    said = f"previous run: {runs.coverage.words}"
    if options.json:
        fields = {"words": said, **msgspec.to_builtins(runs.coverage)}
        sys.stdout.write(msgspec.json.encode({"coverage": fields}).decode() + "\n")
    elif options.all:
        warn(said)
    reasons: dict[str, list[int]] = {}
    for rank, why in runs.without:
        reasons.setdefault(why, []).append(rank)
    for why, numbers in reasons.items():
        warn(f"{pod_words(*numbers)}: {why}")
