"""What is said when a4 itself fails: the traceback without values, secrets redacted, nothing that a terminal obeys.

Everything that Python would print by itself goes this way: exceptions that nobody handles, in the main thread, in
others, in what is freed, and what libraries log where no log is set up.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

LONGEST = 20_000
"""Characters of a report: of more, the beginning and the end."""


def report(error: BaseException) -> str:
    """The traceback of an error and of what led to it, as it may be shown and kept."""
    import traceback

    return cleaned("".join(traceback.format_exception(error)))


def cleaned(text: str) -> str:
    from console.logs.redact import redact
    from screens.wording import for_terminal

    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n…\n{text[-LONGEST // 2 :]}"
    return for_terminal(redact(text))


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
        sys.stderr.flush()


def _unhandled(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return  # Ctrl-C while the program was being loaded
    _write(report(error))


def _in_thread(found: Any) -> None:
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        _write(report(found.exc_value))


def _unraisable(found: Any) -> None:
    if found.exc_value is not None:
        _write(report(found.exc_value))


def install() -> None:
    sys.excepthook, sys.unraisablehook = _unhandled, _unraisable
    import threading

    threading.excepthook = _in_thread


def install_log() -> None:
    """The same for libraries that log; for programs that load `logging` anyway."""
    import logging

    class Cleaned(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _write(cleaned(self.format(record)))

    logging.lastResort = Cleaned(logging.WARNING)
