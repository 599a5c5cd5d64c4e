"""How the lines of `a4 logs` are written: each one, or those on which ranks agree once."""

from __future__ import annotations

import sys
import time
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from console.models.consensus import Agreed, Consensus
from screens.cli.log_tail import CATCHES_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from console.follow.joblog import JobLog
    from console.follow.previous import PreviousRuns
    from console.models.log import Gap, RankLine
    from screens.cli.options import Options

SETTLES = 5.0
"""Seconds after which a line that is followed by consensus is printed, though not all ranks have said it."""


def printer_of(log: JobLog | PreviousRuns, options: Options) -> Printer | AgreedPrinter:
    """How lines are written."""
    return AgreedPrinter(log, options) if options.consensus else Printer(log, options)


class Printer:
    """Writes each line, with its rank in front if there are several."""

    def __init__(self, log: JobLog | PreviousRuns, options: Options) -> None:
        self._log, self._options = log, options
        self._line: Callable[[RankLine], str] = self._json if options.json else self._text

    def take(self, lines: list[RankLine]) -> None:
        """Lines in the order of time."""
        if lines:
            sys.stdout.write("".join(map(self._line, lines)))
            sys.stdout.flush()

    def release(self, came: list[RankLine]) -> None:
        """Nothing is held back."""

    def end(self) -> None:
        """Nothing is held back."""

    def _text(self, line: RankLine) -> str:
        return f"[{line.rank}] {line.text}\n" if self._options.all else f"{line.text}\n"

    @staticmethod
    def _json(line: RankLine) -> str:
        return f'{{"pod_index":{line.rank},' + msgspec.json.encode(line).decode()[1:] + "\n"


class AgreedPrinter:
    """Writes lines that many ranks print once, as soon as all of them have, or after a while."""

    def __init__(self, log: JobLog | PreviousRuns, options: Options) -> None:
        self._log, self._options = log, options
        self._consensus = Consensus()
        self._held: list[tuple[float, Agreed]] = []
        self._taken = 0
        self._began = time.time()
        self._until = time.monotonic() + CATCHES_UP
        self._any = self._caught_up = False

    def take(self, lines: list[RankLine]) -> None:
        """Lines in the order of time."""
        self._consensus.add(lines)
        now = time.monotonic()
        self._held += [(now, line) for line in self._consensus.lines[self._taken :]]
        self._taken = len(self._consensus.lines)

    def release(self, came: list[RankLine]) -> None:
        """Print what has settled; `came` is all that came just now, wanted or not: nothing in a pause."""
        if not self._options.follow:
            return
        self._any = self._any or bool(came)
        if self._any and not self._caught_up and self._is_caught_up(came):
            self._caught_up = True
            self._settle()
        self._print(time.monotonic() - SETTLES)

    def _is_caught_up(self, came: list[RankLine]) -> bool:
        """Whether what was there when following began has come: until then one rank's lines come without another's."""
        if time.monotonic() > self._until:
            return all(line.time >= self._began for line in came)
        return not came and not self._log.coverage.waiting and not self._log.coverage.reconnecting

    def _settle(self) -> None:
        """Lines that were there are as old as they say, however late they were read."""
        ago = time.time() - time.monotonic()
        self._held = sorted(((min(came, line.time - ago), line) for came, line in self._held), key=itemgetter(0))

    def end(self) -> None:
        """What was held back."""
        self._print(float("inf"))

    def _print(self, before: float) -> None:
        of, gaps, at = self._log.ranks, self._log.unread, 0
        for began, line in self._held:
            if began > before and len(line.ranks) < of:
                break
            at += 1
            sys.stdout.write(self._json(line, of, gaps) if self._options.json else self._text(line, of, gaps))
        del self._held[:at]
        sys.stdout.flush()

    @staticmethod
    def _text(line: Agreed, of: int, gaps: Sequence[Gap]) -> str:
        return f"[{line.words(of, gaps)}] {line.text}\n"

    @staticmethod
    def _json(line: Agreed, of: int, gaps: Sequence[Gap]) -> str:
        pods, unread = sorted(line.ranks), sorted(line.unread(gaps))
        told = {"time": line.time, "text": line.text, "pods": pods, "ranks": pods, "of": of, "not_read": unread}
        return msgspec.json.encode(told).decode() + "\n"
