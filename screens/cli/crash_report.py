"""Prints crash reports: the traceback without values, secrets redacted, sanitized for the terminal.

This replaces all that Python would print by itself: unhandled exceptions of every thread and of finalizers, and log
records of libraries where no logging is set up.
"""

from __future__ import annotations

import sys

from screens.sanitize import for_terminal

MAX_REPORT_CHARACTERS = 20_000
"""Maximum length of a report in characters; the middle of a longer one is left out."""


def format_crash(error: BaseException) -> str:
    import traceback

    return clean_text("".join(traceback.format_exception(error)))


def clean_text(text: str) -> str:
    from trainlog import redact_text

    if len(text) > MAX_REPORT_CHARACTERS:
        text = f"{text[: MAX_REPORT_CHARACTERS // 2]}\n…\n{text[-MAX_REPORT_CHARACTERS // 2 :]}"
    return for_terminal(redact_text(text))


def _write_stderr(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
        sys.stderr.flush()


def _report_unhandled(error: BaseException | None) -> None:
    """Report an unhandled exception, but not Ctrl-C or SystemExit."""
    if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
        _write_stderr(format_crash(error))


def install_hooks() -> None:
    import threading

    sys.excepthook = lambda kind, error, trace: _report_unhandled(error)
    sys.unraisablehook = lambda found: _report_unhandled(found.exc_value)
    threading.excepthook = lambda found: _report_unhandled(found.exc_value)


def install_log_handler() -> None:
    """Sanitize the log output of libraries, as `install_hooks` does for exceptions."""
    import logging

    class Cleaned(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _write_stderr(clean_text(self.format(record)))

    logging.lastResort = Cleaned(logging.WARNING)
