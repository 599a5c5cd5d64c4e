"""Prints the results in a log: text while it is read, or JSON at its end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trainlog.log_file import NotALog, UnreadableLog, iter_pieces
from trainlog.log_results import LogResults
from trainlog.results_json import iter_json
from trainlog.results_text import ResultsPrinter
from trainlog.training.formats.unknown_programs import OwnFormat


class PrintedLog(NamedTuple):
    results: LogResults
    error: UnreadableLog | None = None  # why it could not be read to its end
    interrupted: bool = False  # by Ctrl-C, which is the end of a log that never ends


def print_log(
    name: str, add_note: Callable[[str], None], formats: tuple[OwnFormat, ...] = (), *, as_json: bool = False
) -> PrintedLog:
    """Print the results in a file or standard input ("-"); `add_note` is called with a message when input is awaited.

    Raises UnreadableLog if the file cannot be opened.
    """
    results, printer = LogResults(formats), ResultsPrinter(print_lines)
    error, interrupted = None, False
    with _without_collector():
        try:
            for data in iter_pieces(name, add_note):
                if results.feed(data) and not as_json:
                    printer.more(results)
                    sys.stdout.flush()
        except KeyboardInterrupt:
            interrupted = True
        except NotALog as failed:
            error = failed
        results.close()
        if as_json:
            print_results_json(results)
        elif results.has_results or not (error or interrupted):
            printer.more(results, has_ended=True)
            printer.end(results)
        sys.stdout.flush()
    return PrintedLog(results, error, interrupted)


def print_lines(text: str) -> None:
    sys.stdout.write(text + "\n")


def print_results_json(results: LogResults) -> None:
    for part in iter_json(results):
        sys.stdout.write(part.decode())
    sys.stdout.write("\n")


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable cyclic garbage collection, which is slow for a million steps and not needed by parsers."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
