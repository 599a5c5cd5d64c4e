"""Output of `py-spy dump`: the stacks of all threads of one process or of several."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from console.models.stack import Frame, ProcessStacks, ThreadStack
from console.parsers.lines import Lines

_PROCESS = re.compile(r"\s*Process (\d{1,10}): ?(.*)")
_PYTHON = re.compile(r"\s*Python v(\S{1,40})")
_THREAD = re.compile(r"\s*Thread (0x[0-9A-Fa-f]{1,16}|\d{1,20})(?: \(([a-z+]{1,60})\))?(?:: \"(.{0,300})\")?\s*$")
_FRAME = re.compile(r"\s+(\S.{0,500}?) \(([^()]{1,1000}?)(?::(\d{1,9}))?\)\s*$")
_ERROR = re.compile(r"\s*Error: (.{1,1000})")


@dataclass(slots=True)
class _Process:
    pid: int | None = None
    command: str = ""
    python: str = ""
    error: str = ""
    threads: list[tuple[str, str, frozenset[str], list[Frame]]] = field(default_factory=list)

    def stacks(self) -> ProcessStacks:
        threads = tuple(ThreadStack(id_, name, state, tuple(frames)) for id_, name, state, frames in self.threads)
        return ProcessStacks(self.pid, self.command, self.python, threads, self.error)


class PySpyParser:
    """Reads any number of dumps, a piece at a time."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._read: list[_Process] = []
        self._indent = 0

    @property
    def processes(self) -> tuple[ProcessStacks, ...]:
        """All processes so far."""
        return tuple(each.stacks() for each in self._read)

    def feed(self, data: bytes) -> None:
        """Reads on."""
        for line in self._lines.add(data):
            self._line(line)

    def close(self) -> None:
        """Reads what is left without a line end."""
        for line in self._lines.end():
            self._line(line)

    def _line(self, line: str) -> None:
        if found := _PROCESS.match(line):
            self._read.append(_Process(int(found.group(1)), found.group(2).strip()))
        elif found := _THREAD.match(line):
            state = frozenset((found.group(2) or "").split("+")) - {""}
            self._last().threads.append((found.group(1), found.group(3) or "", state, []))
            self._indent = 0
        elif (found := _FRAME.match(line)) and self._read and self._read[-1].threads:
            self._frame(line, found)
        elif (found := _PYTHON.match(line)) and self._read:
            self._read[-1].python = found.group(1)
        elif found := _ERROR.match(line):
            self._last().error = found.group(1).strip()

    def _frame(self, line: str, found: re.Match[str]) -> None:
        """Calls all stand equally deep; arguments and local variables, which may look alike, stand deeper."""
        indent = len(line) - len(line.lstrip())
        self._indent = self._indent or indent
        if indent == self._indent:
            number = found.group(3)
            self._read[-1].threads[-1][3].append(Frame(found.group(1), found.group(2), int(number) if number else None))

    def _last(self) -> _Process:
        if not self._read:
            self._read.append(_Process())
        return self._read[-1]


def parse_pyspy(data: bytes) -> tuple[ProcessStacks, ...]:
    """The processes in a whole dump."""
    parser = PySpyParser()
    parser.feed(data)
    parser.close()
    return parser.processes
