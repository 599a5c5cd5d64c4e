"""Parses the output of `py-spy dump`, text or JSON: the stacks of all threads of one or more processes.

The output with --json is an array of objects, one for each thread: pid, thread_id, thread_name, os_thread_id, active,
owns_gil, frames (name, filename, short_filename, line), process_info (command_line) or null (py-spy 0.3.14 to 0.4.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from trainlog.lines import MAX_LINE_BYTES, TextLineSplitter


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    file: str
    line: int | None = None  # None in native code


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread and its stack, innermost call first."""

    id: str
    name: str = ""
    state: tuple[str, ...] = ()  # sorted: "active" or "idle", and "gil" for the one that holds it
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    pid: int | None
    command: str = ""
    python: str = ""  # version of the interpreter
    threads: tuple[ThreadStack, ...] = ()
    error: str = ""  # why there is no stack


_PROCESS_LINE = re.compile(r"\s*Process (\d{1,10}): ?(.*)")
_STACK_DUMP_LINE = re.compile(r"\s*Stack dump for (?:(?:process|pid|PID) )?(?:(\d{1,10})\b)?[^\n]{0,300}$")
_LINE_LABEL = re.compile(r"\[(?:pod/[^\]\s]{1,300}|rank\d{1,7})\]:? ?|\d{1,7}: ")
_PID_HEAD = re.compile(r"\s*== pid (\d{1,10}) ==\s*$")  # before the dump of a process, or the error instead of it
_PYTHON_VERSION = re.compile(r"\s*Python v(\S{1,40})")
_THREAD_LINE = re.compile(r"\s*Thread (0x[0-9A-Fa-f]{1,16}|\d{1,20})(?: \(([a-z+]{1,60})\))?(?:: \"(.{0,300})\")?\s*$")
_FRAME_LINE = re.compile(r"\s+(\S.{0,500}?) \(([^()]{1,1000}?)(?::(\d{1,9}))?\)\s*$")
_ERROR_LINE = re.compile(r"\s*Error: (.{1,1000})")


MAX_THREADS, MAX_FRAMES = 4096, 1024  # of a process, and calls of a thread, that are kept
MAX_LINES_BETWEEN = 1000  # lines that none of a dump's patterns takes, such as local variables, until the dump is over
MAX_JSON_BYTES = 16 << 20  # bytes of a dump in JSON that are kept


class _JsonFrame(msgspec.Struct):
    name: str
    filename: str = ""
    short_filename: str | None = None
    line: int | None = None


class _JsonInfo(msgspec.Struct):
    command_line: str = ""


class _JsonThread(msgspec.Struct):
    pid: int
    thread_id: int = 0
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False
    frames: list[_JsonFrame] = []
    process_info: _JsonInfo | None = None

    def to_thread(self) -> tuple[str, str, tuple[str, ...], list[Frame]]:
        state = {"active" if self.active else "idle", *(["gil"] if self.owns_gil else [])}
        name = f"{self.os_thread_id}" if self.os_thread_id is not None else f"0x{self.thread_id:X}"
        # Native code has line 0.
        frames = [Frame(each.name, each.short_filename or each.filename, each.line or None) for each in self.frames]
        return name, self.thread_name or "", tuple(sorted(state)), frames


_DUMP_DECODER = msgspec.json.Decoder(list[_JsonThread])


@dataclass(slots=True)
class _DumpedProcess:
    pid: int | None = None
    command: str = ""
    python: str = ""
    error: str = ""
    threads: list[tuple[str, str, tuple[str, ...], list[Frame]]] = field(default_factory=list)

    def to_process_stacks(self) -> ProcessStacks:
        threads = tuple(ThreadStack(id_, name, state, tuple(frames)) for id_, name, state, frames in self.threads)
        return ProcessStacks(self.pid, self.command, self.python, threads, self.error)


class PySpyParser:
    """Parses any number of py-spy dumps, fed in pieces."""

    def __init__(self) -> None:
        self._splitter = TextLineSplitter(MAX_JSON_BYTES)
        self._processes: list[_DumpedProcess] = []
        self._indent = 0
        self._headed: int | None = None  # the process whose head came last
        self._json: list[str] | None = None  # lines of a dump in JSON, from its first on
        self._kept = 0
        self._between = 0  # lines since the last one of a dump
        self.open = False  # whether the last line was one of a dump in text, so that the next may be one too

    @property
    def processes(self) -> tuple[ProcessStacks, ...]:
        return tuple(each.to_process_stacks() for each in self._processes)

    def feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._parse_line(line)

    def close(self) -> None:
        for line in self._splitter.flush():
            self._parse_line(line)

    def _parse_line(self, line: str) -> None:
        if self._json is None and (found := _LINE_LABEL.match(line)):
            line = line[found.end() :]
        if self._json is not None or line.startswith("["):
            self._parse_json_line(line)
        else:
            line = line[:MAX_LINE_BYTES]
            is_dump = self._parse_text_line(line)
            self._between = 0 if is_dump else self._between + 1
            self.open = is_dump or (self.open and not line[:1].strip() and self._between < MAX_LINES_BETWEEN)

    def _parse_json_line(self, line: str) -> None:
        """Add a line to the JSON dump, which ends with the line that closes the array; invalid JSON is dropped."""
        if self._json is None:
            self._json, self._kept = [], 0
        elif line[:1] not in (" ", "\t", "]", ""):
            self._json = None  # it was no dump, or one that broke off
            self._parse_line(line)
            return
        self._json.append(line)
        self._kept += len(line)
        last = line.rstrip()
        over = last == "]" or (len(self._json) == 1 and (last != "[" and not last.endswith("{")))
        if not over and self._kept <= MAX_JSON_BYTES:
            return
        text, self._json = "\n".join(self._json), None
        try:
            threads = _DUMP_DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return
        found: dict[int, _DumpedProcess] = {}
        for each in threads:
            process = found.setdefault(each.pid, _DumpedProcess(each.pid))
            process.threads.append(each.to_thread())
            if each.process_info is not None:
                process.command = each.process_info.command_line
        self._processes += found.values()

    def _parse_text_line(self, line: str) -> bool:
        """Parse a line of a text dump; returns whether it is one."""
        if found := _PID_HEAD.match(line):
            self._headed = int(found.group(1))
        elif found := _PROCESS_LINE.match(line):
            self._processes.append(_DumpedProcess(int(found.group(1)), found.group(2).strip()))
        elif found := _STACK_DUMP_LINE.match(line):
            self._processes.append(_DumpedProcess(int(found.group(1)) if found.group(1) else None))
        elif found := _THREAD_LINE.match(line):
            state = tuple(sorted({*(found.group(2) or "").split("+")} - {""}))
            if len(self._current_process().threads) < MAX_THREADS:
                self._current_process().threads.append((found.group(1), found.group(3) or "", state, []))
            self._indent = 0
        elif (found := _FRAME_LINE.match(line)) and self._processes and self._processes[-1].threads:
            # Calls all stand equally deep; arguments and local variables, which may look alike, stand deeper.
            indent = len(line) - len(line.lstrip())
            self._indent = self._indent or indent
            if indent == self._indent and len(self._processes[-1].threads[-1][3]) < MAX_FRAMES:
                frame = Frame(found.group(1), found.group(2), int(found.group(3)) if found.group(3) else None)
                self._processes[-1].threads[-1][3].append(frame)
        elif (found := _PYTHON_VERSION.match(line)) and self._processes:
            self._processes[-1].python = found.group(1)
        elif found := _ERROR_LINE.match(line):
            self._add_error(found.group(1).strip())
        else:
            return False
        return True

    def _add_error(self, error: str) -> None:
        if (
            not self._processes or self._processes[-1].threads or self._processes[-1].error
        ):  # what is there is another process
            self._processes.append(_DumpedProcess(self._headed))
        self._processes[-1].error, self._headed = error, None

    def _current_process(self) -> _DumpedProcess:
        if not self._processes:
            self._processes.append(_DumpedProcess())
        return self._processes[-1]


def parse_pyspy(data: bytes) -> tuple[ProcessStacks, ...]:
    parser = PySpyParser()
    parser.feed(data)
    parser.close()
    return parser.processes
