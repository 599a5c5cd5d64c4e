"""Output of plain commands: JSON, text tables and error messages; writing a text to a file that a command was given.

Text is sanitized on a terminal, so that data from a cluster cannot control it. A pipe or a file gets every text as it
is. Bytes (`exec`, `shell`, `logs --raw`) pass on purpose.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

from console.errors import BadInput, ConsoleError
from console.folders import atomic_write
from screens.sanitize import for_terminal

if TYPE_CHECKING:
    from screens.columns.column import Column


def print_line(text: str = "") -> None:
    """Print one line and flush, since the reader may be a program."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print a value as indented JSON; frozen dataclasses and tuples become objects and lists."""
    import msgspec

    raw = msgspec.json.format(msgspec.json.encode(value), indent=2)
    print_line(raw.decode())


class MessageStyle:
    """The style of messages on standard error: lines for people, or one JSON object per line."""

    as_json: ClassVar[bool] = False
    namespace: ClassVar[str] = ""
    """The namespace that suggested commands have to name; empty if it is their default."""


@contextmanager
def message_style(*, as_json: bool) -> Iterator[None]:
    """Use this message style (text or JSON) during the block."""
    MessageStyle.as_json = as_json
    try:
        yield
    finally:
        MessageStyle.as_json, MessageStyle.namespace = False, ""


def _with_namespace(text: str) -> str:
    """The text with the current namespace added to the a4 commands in it."""
    if not MessageStyle.namespace:
        return text
    from console.kube.find_job import with_namespace_option

    return with_namespace_option(text, MessageStyle.namespace)


def print_hint(text: str) -> None:
    """Print a hint; its commands get the current namespace."""
    print_line(_with_namespace(text))


def warn(text: str) -> None:
    """Print a note on standard error; its commands get the current namespace."""
    text = _with_namespace(text)
    _write_message({"note": text}, text)


def show_progress(text: str) -> None:
    """On a terminal, replace the line of progress on standard error; "" clears it."""
    if sys.stderr.isatty():
        write_to_terminal(sys.stderr, f"\r\x1b[K{text}")
        sys.stderr.flush()


def print_error(error: ConsoleError) -> int:
    """Print an error on standard error; returns the exit code."""
    message, hint, whole = (_with_namespace(text) for text in (error.message, error.hint, str(error)))
    _write_message({"error": message, "hint": hint}, whole)
    return error.exit_code


def _write_message(fields: dict[str, str], text: str) -> None:
    if MessageStyle.as_json:
        import msgspec

        sys.stderr.write(f"{msgspec.json.encode(fields).decode()}\n")
    else:
        sys.stderr.write(f"a4: {text}\n")


def print_result(as_json: bool, value: Any, *lines: str) -> int:
    """Print the value as JSON if `as_json`, else its lines; returns 0."""
    if as_json:
        print_json(value)
    else:
        for line in lines:
            print_line(line)
    return 0


def print_listing(as_json: bool, value: Any, columns: Sequence[Column[Any]], rows: Iterable[Any], none: str) -> int:
    """Print the value as JSON if `as_json`, else the rows as a table, or the text `none` if there are no rows."""
    from screens.columns.column import text_table

    if as_json:
        print_json(value)
        return 0
    titles, cells = text_table(columns, rows)
    if cells:
        print_table(titles, cells)
    else:
        print_line(none)
    return 0


def table_lines(titles: Iterable[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows under titles with aligned columns; a column whose title begins with > is flush right."""
    bare, flush = zip(*((title.removeprefix(">"), title[0] == ">") for title in titles), strict=True)
    widths = [max(map(len, column)) for column in zip(bare, *rows, strict=True)]
    for row in (bare, *rows):
        columns = zip(row, widths, flush, strict=True)
        yield "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in columns).rstrip()


def print_table(titles: Iterable[str], rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(titles, rows):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_entries(entries: Sequence[tuple[str, str, str]]) -> None:
    """Print size, age and name of the entries of a folder; columns that are empty everywhere are left out."""
    widths = [max((len(each[at]) for each in entries), default=0) for at in (0, 1)]
    for *known, name in entries:
        cells = [cell.rjust(width) for cell, width in zip(known, widths, strict=True) if width]
        print_line("  ".join([*cells, name]))


def write_text(path: str, text: str) -> None:
    """Write the text to a file, whole or not at all, or to standard output for "-". Raises BadInput if that fails."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        file = Path(path).expanduser().resolve()
        if file.is_file() or not file.exists():
            atomic_write(file, text.encode())
        else:
            file.write_text(text, encoding="utf-8")  # a pipe, or a device
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.", "Name another file.") from error


class GuardedStream:
    """A stream that sanitizes text before writing it to the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        self.unguarded.write(for_terminal(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextmanager
def sanitized_output() -> Iterator[None]:
    """Sanitize what is written to a terminal during this block."""
    out, error = sys.stdout, sys.stderr
    if out.isatty():
        sys.stdout = cast("TextIO", GuardedStream(out))
    if error.isatty():
        sys.stderr = cast("TextIO", GuardedStream(error))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, error


def pass_raw() -> None:
    """Stop sanitizing standard output, on the person's request."""
    sys.stdout = getattr(sys.stdout, "unguarded", sys.stdout)


def raw_stream(stream: TextIO) -> TextIO:
    """The terminal's own stream, without sanitizing, for escape sequences of this program."""
    return cast("TextIO", getattr(stream, "unguarded", stream))


def write_to_terminal(stream: TextIO, text: str) -> None:
    """Write this program's own escape sequences, around sanitized text, to the terminal."""
    raw_stream(stream).write(text)
