"""Formats a log line for the terminal: sanitized, coloured by severity, wrapped, with matches marked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import chop_cells

from console.logs.line import HEAD, level
from screens.wording import Span, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_INKS = {"error": "bad", "warn": "waits"}
_STEP = re.compile(r"step \d+ .*?: (?:run|skip|done)")


def printable(text: str) -> str:
    """The line without colour codes and overwritten text before a carriage return, tabs expanded."""
    if text.isprintable():
        return text
    plain = _ANSI.sub("", text).rstrip("\r\n")
    return one_line(plain.rpartition("\r")[2].expandtabs(8))


def line_ink(text: str) -> str:
    head = text[:HEAD]
    if _STEP.search(head):
        return "strong"
    serious = _INKS.get(level(head.encode()), "")
    return serious or ("dim" if head.startswith("#") else "")


def pattern(query: str) -> re.Pattern[str] | None:
    """The search as a regular expression, or literal if it is not valid; case matters if it has capitals."""
    if not query:
        return None
    flags = re.NOFLAG if any(letter.isupper() for letter in query) else re.IGNORECASE
    try:
        return re.compile(query, flags)
    except re.error:
        return re.compile(re.escape(query), flags)


def byte_pattern(query: str) -> re.Pattern[bytes] | None:
    """Like `pattern`, for lines that are not decoded."""
    found = pattern(query)
    return re.compile(found.pattern.encode(), found.flags & re.IGNORECASE) if found else None


def marked(text: str, ink: str, wanted: re.Pattern[str] | None) -> list[Span]:
    """The line as spans, with every match highlighted."""
    if wanted is None:
        return [Span(text, ink)]
    runs: list[Span] = []
    last = 0
    for match in wanted.finditer(text):
        if match.start() == match.end():
            continue
        runs += [Span(text[last : match.start()], ink), Span(match.group(), "found")]
        last = match.end()
    return [run for run in (*runs, Span(text[last:], ink)) if run.text]


def folded(text: str, width: int) -> Sequence[str]:
    """The line in pieces of at most that many columns; an empty line is one empty piece."""
    if width <= 0 or not text:
        return [text]
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)]
    return chop_cells(text, width)
