"""Unwraps program output from log collectors' formats: JSON, CSV, Ansible, `grep -n`, stern, UTF-16.

JSON is that of Docker's files, Google Cloud, journald and log-shipping agents, with a record per line or in one array;
`grep -n` may print file names; stern prints two words before a line. The first lines show the format; a log without any
of them passes unchanged, at no cost after these lines. The pod, host or file that a record names is put in front of its
text as kubectl writes it, `[pod/NAME] `, so that processes are told apart.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

DETECTION_LINES = 50  # first lines by which it is known what a log is wrapped in
MAX_DOCUMENT_BYTES = 64 << 20  # bytes that are kept until the end of the log, of one that can only be read as a whole
_MAX_RECORD_BYTES = 1 << 20  # bytes of a first line, or of a record, that are looked at
_DOCKER_LINE_BYTES = 16_000  # docker cuts longer lines than this into several records
_TEXT_KEYS = ("log", "textPayload", "MESSAGE", "message", "msg", "line", "text", "@message", "_raw", "body", "content")
"""Keys of a record that may hold the text."""
_TIME_KEYS = ("timestamp", "time", "@timestamp", "receiveTimestamp", "__REALTIME_TIMESTAMP", "ts", "date", "_time")
_PODS = ("resource.labels.pod_name", "kubernetes.pod_name", "kubernetes.pod.name", "pod_name", "pod")
_LINE_LIST = re.compile(r'\s*"(stdout_lines|stderr_lines|msg)": \[\s*$')
_ANSIBLE_HEAD = re.compile(
    r"\s*(?:ok|changed|failed|fatal): \[([^\]\s]{1,253})\](?: => \(item=.{0,300}?\))?(?:: FAILED!)? => (\{.*)$"
)
_LIST_STRING = re.compile(r'\s*("(?:[^"\\]|\\.){0,100000}"),?\s*$')
_ANSIBLE_TEXT = re.compile(r'\s*"(stdout|msg)": ("(?:[^"\\]|\\.){0,1000000}"),?\s*$')
_GREP_NUMBER = re.compile(rb"(\d{1,9})([:-])(?!\d\d(?::\d\d)?\b)(.*)", re.DOTALL)
_GREP_FILE = (
    re.compile(  # a file and perhaps a line number; files of source code stand in front of warnings, /job: is JAX's
        rb"(?!/job:\w)(?P<file>(?:[\w.~@+-]*/)+[\w.@+-]{1,200}|[\w@+-][\w.@+-]{0,200}\.(?:log|txt|out|err)(?:\.\d+)?)"
        rb"(?<!\.py)(?<!\.cc)(?<!\.cu)(?<!\.h)(?<!\.cpp)(?::(?:\d{1,9}:)?|-\d{1,9}-)(?P<text>.*)",
        re.DOTALL,
    )
)
_STERN_PREFIX = re.compile(rb"([a-z][a-z0-9.-]{0,250}-[a-z0-9]{1,10}) ([a-z][a-z0-9-]{0,62}) (.*)", re.DOTALL)
_PROGRAM_WORDS = frozenset(
    b"step iter iteration epoch batch loss rank update episode global info warning error debug".split()
)
"""Words that programs print at the place of stern's container name, and that are no such names."""
_MIN_ALIKE_LINES = 3  # lines that have to look alike where one could be of anything
_MIN_RISING_LINES = 20  # lines whose numbers have to rise: those of tasks, as srun puts them there, do not


class CollectorUnwrapper:
    """Removes a log collector's wrapping from a log that comes in chunks."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._has_begun = False
        self._head, self._rest = b"", b""
        self._held_lines: list[bytes] = []  # first lines that may be wrapped, until it is clear in what
        self._seen = 0
        self._wrap: _JsonUnwrapper | _CsvUnwrapper | _AnsibleUnwrapper | _PrefixUnwrapper | None = None
        self._whole: bytearray | None = None  # all so far of a log that may be one JSON array
        self._plain = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes and return the unwrapped lines that are known so far."""
        if not self._has_begun:
            self._head += data
            if len(self._head) < _MIN_UTF16_BYTES:
                return b""
            data = self._detect_encoding()
        elif self._decoder is not None:
            data = self._decoder.decode(data).encode()
        return data if self._plain else self._unwrap_lines(data)

    def close(self) -> bytes:
        data = self._detect_encoding() if not self._has_begun else b""
        if self._decoder is not None:
            data += self._decoder.decode(b"", True).encode()
        rest_text = self._unwrap_lines(data) if not self._plain else data
        if self._whole is not None:
            return rest_text + _text_of_json_array(bytes(self._whole))
        rest, self._rest = self._rest, b""
        if self._plain:
            return rest_text + rest
        if rest:
            rest_text += self._unwrap_line(rest)
        rest_text += self._detect_wrapping(is_over=True)
        return rest_text + (self._wrap.flush() if self._wrap else b"")

    def _detect_encoding(self) -> bytes:
        """Detect the encoding: UTF-16 by its byte order mark or by zeros in every second byte, else UTF-8."""
        self._has_begun = True
        head, self._head = self._head, b""
        name = _detect_utf16(head)
        if name:
            self._decoder = codecs.getincrementaldecoder(name)("replace")
            head = self._decoder.decode(head).lstrip("\ufeff").encode()
        head = head.removeprefix(codecs.BOM_UTF8)
        if _ARRAY_START.match(head):
            self._whole = bytearray()
        return head

    def _unwrap_lines(self, data: bytes) -> bytes:
        if self._whole is not None:
            self._whole += data
            if len(self._whole) <= MAX_DOCUMENT_BYTES:
                return b""
            data, self._whole = bytes(self._whole), None
        data = self._rest + data
        cut = data.rfind(b"\n") + 1
        self._rest = data[cut:]
        unwrapped, at = [], 0
        while at < cut and not self._plain:
            end = data.index(b"\n", at) + 1
            unwrapped.append(self._unwrap_line(data[at:end]))
            at = end
        drawn = self._wrap is None and b"\r" in self._rest[:-1]  # a progress bar, which no collector splits
        if self._plain or drawn or len(self._rest) > _MAX_RECORD_BYTES:
            unwrapped.append(data[at:cut] + self._rest)
            self._rest = b""
            self._plain = self._plain or self._wrap is None
        return b"".join(unwrapped)

    def _unwrap_line(self, line: bytes) -> bytes:
        if self._wrap is not None:
            return self._wrap.unwrap_line(line)
        if not line.strip() or line.startswith((b"+ ", b"--\n")):
            if not self._held_lines:
                return line
            self._held_lines.append(line)
            return b""
        self._wrap = _find_unwrapper(line) if not self._held_lines else None
        if self._wrap is not None:
            return self._wrap.unwrap_line(line)
        if any(bare(line) is not None for bare, _ in _PREFIX_FORMATS):
            self._held_lines.append(line)
            return self._detect_wrapping()
        self._seen += 1
        self._plain = self._seen >= DETECTION_LINES
        return self._release_held_lines() + line

    def _release_held_lines(self) -> bytes:
        held, self._held_lines = b"".join(self._held_lines), []
        return held

    def _detect_wrapping(self, *, is_over: bool = False) -> bytes:
        """Detect the wrapping from the lines held so far; returns nothing while more lines are needed."""
        if not self._held_lines:
            return b""
        lines = [line for line in self._held_lines if line.strip() and not line.startswith((b"+ ", b"--\n"))]
        for bare, enough in _PREFIX_FORMATS:
            if any(bare(line) is None for line in lines) or (
                bare is _strip_grep_number and not _has_rising_numbers(lines)
            ):
                continue
            if len(lines) < (min(enough, 2) if is_over else enough):
                return b"" if not is_over else self._release_held_lines()
            self._wrap = _PrefixUnwrapper(bare)
            held, self._held_lines = self._held_lines, []
            return b"".join(map(self._wrap.unwrap_line, held))
        self._seen += len(lines)
        self._plain = self._seen >= DETECTION_LINES or any(map(_GREP_NUMBER.match, lines))
        return self._release_held_lines()


_MIN_UTF16_BYTES = 8  # first bytes by which UTF-16 is known
_ARRAY_START = re.compile(rb"\s*\[\s*[\[{\"]|\s*\[\s*$")


def _detect_utf16(first_bytes: bytes) -> str:
    """The name of the UTF-16 variant; empty for another encoding."""
    if first_bytes.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if first_bytes[0] == 0xFF else "utf-16-be"
    even, odd = first_bytes[0:64:2], first_bytes[1:64:2]
    if len(odd) < 4:
        return ""
    if even.count(0) == 0 and odd.count(0) == len(odd):
        return "utf-16-le"
    return "utf-16-be" if odd.count(0) == 0 and even.count(0) == len(even) else ""


def _find_unwrapper(line: bytes) -> _JsonUnwrapper | _AnsibleUnwrapper | _CsvUnwrapper | None:
    """The wrapping that can be recognised from this line alone; None if there is none."""
    if line.startswith(b"{"):
        record = _parse_record(line)
        return _JsonUnwrapper() if record is not None and _record_text(record) is not None else None
    text = line.decode("utf-8", "replace")
    if _ANSIBLE_HEAD.match(text) or _LINE_LIST.match(text):
        return _AnsibleUnwrapper()
    if b"," in line and len(line) < 10_000 and (columns := _find_columns(text)):
        return _CsvUnwrapper(*columns)
    return None


# records


class _SortedRecords:
    """Sorts records by time: some collectors write the newest first."""

    def __init__(self) -> None:
        self._time = ""
        self._stored: list[bytes] = []  # texts whose order is not known yet, or all if they are in none
        self._size = 0
        self._forward: bool | None = None

    def add_record(self, text: str, time: str, pod: str) -> bytes:
        """Add a record; returns the texts that can be output now."""
        # The text as lines with [pod/NAME] in front of each
        lines = text.removesuffix("\n").split("\n")
        label = f"[pod/{pod}] " if pod else ""
        labelled = "\n".join(f"{label}{line}" if line.strip() else line for line in lines).encode("utf-8", "replace")
        labelled = labelled if len(labelled) >= _DOCKER_LINE_BYTES and not text.endswith("\n") else labelled + b"\n"
        if self._forward is None and self._time and time and time != self._time:
            self._forward = time > self._time
        self._time = time or self._time
        if self._forward or not time:
            return self.flush() + labelled if self._forward else labelled
        self._stored.append(labelled)
        self._size += len(labelled)
        return self.flush() if self._size > MAX_DOCUMENT_BYTES else b""

    def flush(self) -> bytes:
        """The texts that were held back, oldest first."""
        kept, self._stored, self._size = self._stored, [], 0
        return b"".join(kept if self._forward is not False else reversed(kept))


class _JsonUnwrapper(_SortedRecords):
    def unwrap_line(self, line: bytes) -> bytes:
        record = (_parse_record(line) if line[:1] == b"{" else None) or {}
        text = _record_text(record)
        if text is None:
            return line
        return self.add_record(text, _first_field(record, _TIME_KEYS), _first_field(record, _PODS))


class _CsvUnwrapper(_SortedRecords):
    """Unwraps CSV, whose rows are one record each; a text may contain line ends."""

    def __init__(self, text_column: int, time_column: int, pod_column: int) -> None:
        super().__init__()
        self._columns = text_column, time_column, pod_column
        self._open = b""
        self._heading = True

    def unwrap_line(self, line: bytes) -> bytes:
        if self._heading:
            self._heading = False
            return b""
        self._open += line
        if self._open.count(b'"') % 2 and len(self._open) < _MAX_RECORD_BYTES:
            return b""
        row, self._open = self._open.decode("utf-8", "replace").rstrip("\r\n"), b""
        cells = _split_cells(row)
        text, time, pod = (cells[at] if 0 <= at < len(cells) else "" for at in self._columns)
        return self.add_record(text.rstrip("\r\n"), time, pod)


class _AnsibleUnwrapper:
    """Unwraps Ansible's output: lists of lines as JSON, below the name of a host."""

    def __init__(self) -> None:
        self._host = ""
        self._in_list = False
        self._held_back = ""  # a text that counts unless the same comes as a list

    def unwrap_line(self, line: bytes) -> bytes:
        text = line.decode("utf-8", "replace")
        if found := _ANSIBLE_HEAD.match(text):
            self._host = found.group(1)
            return self.flush() + self._unwrap_object(found.group(2))
        if _LINE_LIST.match(text):
            self._in_list, self._held_back = True, ""
            return b""
        if self._in_list and (found := _LIST_STRING.match(text)):
            return self._label_lines(_decode_escapes(found.group(1)))
        if found := _ANSIBLE_TEXT.match(text):
            self._held_back = _decode_escapes(found.group(2))
            return b""
        self._in_list = False
        return self.flush() if text.startswith("}") else b""

    def _unwrap_object(self, text: str) -> bytes:
        """Unwrap an Ansible result that is on one line."""
        record = _parse_record(text.encode())
        if record is None:
            return b""
        for name in ("stdout_lines", "msg", "stdout"):
            lines = record.get(name)
            if isinstance(lines, list) and lines:
                return b"".join(self._label_lines(str(each)) for each in lines)
            if isinstance(lines, str) and lines:
                return self._label_lines(lines)
        return b""

    def flush(self) -> bytes:
        kept, self._held_back = self._held_back, ""
        return self._label_lines(kept) if kept else b""

    def _label_lines(self, text: str) -> bytes:
        label = f"[pod/{self._host}] " if self._host else ""
        return "".join(f"{label}{each}\n" for each in text.split("\n")).encode("utf-8", "replace")


# marks in front of lines


class _PrefixUnwrapper:
    """Unwraps plain lines with a prefix, such as that of `grep -n` or stern."""

    def __init__(self, bare: Callable[[bytes], bytes | None]) -> None:
        self._bare = bare

    def unwrap_line(self, line: bytes) -> bytes:
        bare = self._bare(line)
        return bare if bare is not None else b"" if line == b"--\n" else line

    def flush(self) -> bytes:
        return b""


def _strip_grep_number(line: bytes) -> bytes | None:
    """The line without the line number of `grep -n`; None for other lines."""
    found = _GREP_NUMBER.match(line)
    return found.group(3) if found else None


def _convert_grep_file(line: bytes) -> bytes | None:
    """The line with the file name of `grep` turned into a label [pod/FILE]; None for other lines."""
    found = _GREP_FILE.match(line)
    return found and b"[pod/" + found.group("file").strip(b"/").replace(b"/", b"_") + b"] " + found.group("text")


def _convert_stern_prefix(line: bytes) -> bytes | None:
    found = _STERN_PREFIX.match(line)
    if found is None or found.group(2) in _PROGRAM_WORDS or not any(map(str.isdigit, found.group(1).decode())):
        return None
    return b"[pod/" + found.group(1) + b"/" + found.group(2) + b"] " + found.group(3)


def _has_rising_numbers(lines: Sequence[bytes]) -> bool:
    """Whether the numbers in front of lines rise, as those of `grep -n` do."""
    numbers = [int(found.group(1)) for line in lines if (found := _GREP_NUMBER.match(line))]
    return all(low < high for low, high in pairwise(numbers))


_PREFIX_FORMATS = (
    (_strip_grep_number, _MIN_RISING_LINES),
    (_convert_grep_file, _MIN_ALIKE_LINES),
    (_convert_stern_prefix, _MIN_ALIKE_LINES),
)  # what may precede lines, and how many tell


# what stands in a record


def _parse_record(line: bytes) -> dict[str, Any] | None:
    if len(line) > _MAX_RECORD_BYTES:
        return None
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) else None


def _record_text(record: dict[str, Any]) -> str | None:
    """The text of a record; None if it has none, or if the program itself printed this JSON."""
    if any("loss" in name for name in record):
        return None
    for name in _TEXT_KEYS:
        if isinstance(text := record.get(name), str):
            return text
    inner = record.get("jsonPayload")
    return _record_text(inner) if isinstance(inner, dict) else None


def _first_field(record: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these fields that has text, else empty; dotted names are nested (resource.labels.pod_name)."""
    for name in names:
        value: Any = record
        for part in (name,) if name in record else name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return ""


def _find_columns(heading: str) -> tuple[int, int, int] | None:
    """(column numbers of text, time and pod, -1 if absent) by the heading of a CSV table; None for another line."""
    cells = [cell.strip() for cell in _split_cells(heading.strip())]
    plain = all(re.fullmatch(r"[\w@./ -]{1,80}", cell) for cell in cells)
    if len(cells) < 2 or len(set(cells)) < len(cells) or not plain:
        return None
    text, time, pod = (
        next((cells.index(name) for name in names if name in cells), -1) for names in (_TEXT_KEYS, _TIME_KEYS, _PODS)
    )
    if text < 0:
        text = next((at for at, cell in enumerate(cells) if cell.lower() in {"message", "log", "line"}), -1)
    return (text, time, pod) if text >= 0 else None


def _split_cells(row: str) -> list[str]:
    try:
        return next(csv.reader(row.splitlines(keepends=True)), [])
    except csv.Error:
        return []


def _text_of_json_array(data: bytes) -> bytes:
    """The texts in a JSON array of records or lines, as lines; other bytes unchanged."""
    try:
        entries = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return data
    if not isinstance(entries, list) or not entries:
        return data
    if all(isinstance(each, str) for each in entries):
        return b"".join(each.encode("utf-8", "replace") + b"\n" for each in entries)
    records, texts = _SortedRecords(), [(each, _record_text(each)) for each in entries if isinstance(each, dict)]
    rendered = [
        records.add_record(text, _first_field(each, _TIME_KEYS), _first_field(each, _PODS))
        for each, text in texts
        if text is not None
    ]
    return b"".join(rendered) + records.flush() if rendered else data


def _decode_escapes(text: str) -> str:
    try:
        return str(msgspec.json.decode(text.encode()))
    except msgspec.DecodeError:
        return text.strip('"')
