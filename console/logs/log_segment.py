"""The log lines of one run of one container: the newest in memory, all of them in an append-only file."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from console.folders import atomic_write, open_own_file, read_own_file
from console.logs.log_line import decode_lines, split_timestamps
from console.work_slices import WorkSlices

if TYPE_CHECKING:
    from typing import BinaryIO

    from console.logs.container_log import TimedLine

READ_BLOCK_BYTES = 1 << 18  # bytes of a file that are read at once
RECENT_LINES = 128  # lines that stay in memory once they are written
LINES_IN_MEMORY = 5000  # lines of a whole log that are in memory at once
MAX_PENDING_BYTES = 4 << 20  # bytes of lines that are held while they cannot be written; the oldest go first
_NOT_ON_DISK = (1 << 64) - 1
LOST_NOTE = b"(this line is lost: it could not be written to the disk)"
DELETED_NOTE = b"(this line is no longer on the disk)"


class LogSegment:
    """The stored lines of one container, numbered from 0 in order of arrival; one thread adds, any thread reads."""

    def __init__(
        self,
        rank: int,
        *,
        attempt: int = 0,
        pod: str = "",
        container: str = "",
        uid: str = "",
        file: Path | None = None,
    ) -> None:
        self.rank, self.attempt, self.pod, self.container = rank, attempt, pod, container
        self.uid = uid  # the pod's
        self.file = file
        self.times: array[float] = array("d")
        self.opened_with = 0  # how many last lines it was opened with; 0: from the first line on
        self.open_line = b""  # what is seen of a line that has no end yet
        self.lost_lines = 0  # lines that were neither written nor could be held
        self._starts: array[int] = array("Q")
        self._size = 0
        self._recent: list[bytes] = []
        self._held_bytes = 0
        self._written_lines = 0  # lines that are in the file, or lost
        self._lock = Lock()
        self._write_lock = Lock()

    def __len__(self) -> int:
        return len(self.times)

    @property
    def name(self) -> tuple[int, int, str, str]:
        """The segment's key: attempt, rank, container and pod uid."""
        return self.attempt, self.rank, self.container, self.uid

    @property
    def _metadata_path(self) -> Path | None:
        """The marker file that records that older lines are missing; None for a segment without a file."""
        return self.file.with_suffix(".opened") if self.file is not None else None

    def mark_truncated(self, line_count: int) -> None:
        """Record that only the last `line_count` lines were fetched at first; OSError if the disk refuses."""
        self.opened_with = line_count
        if self._metadata_path is not None and not self._metadata_path.exists():
            append_to(self._metadata_path, b"%d\n" % line_count)

    def backfill(self, before: BinaryIO) -> None:
        """Insert older lines at the front, before anyone reads; OSError if the disk is full."""
        assert self.file is not None
        assert self._metadata_path is not None
        with os.fdopen(open_own_file(self.file), "rb") as file:
            atomic_write(self.file, chain(_iter_blocks(before, before.tell()), _iter_blocks(file, self._size)))
        self._metadata_path.unlink(missing_ok=True)
        again = LogSegment.load(self.file, self.rank)
        self.times, self._starts, self._size = again.times, again._starts, again._size
        self._written_lines, self.opened_with = again._written_lines, 0

    def append_lines(self, lines: Sequence[TimedLine]) -> None:
        """Append lines, each starting with its timestamp."""
        with self._lock:
            last = self.times[-1] if self.times else 0.0
            for moment, raw in lines:
                last = moment if moment > last else last
                self.times.append(last)
                self._held_bytes += len(raw)
            self._recent += [raw for _, raw in lines]
            self._starts.extend([_NOT_ON_DISK] * len(lines))
            if self.file is None:
                self._written_lines = len(self.times)
            if self._held_bytes > MAX_PENDING_BYTES:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        first = len(self.times) - len(self._recent)
        gone = 0
        while self._held_bytes > MAX_PENDING_BYTES // 2 and gone < len(self._recent):
            self._held_bytes -= len(self._recent[gone])
            gone += 1
        del self._recent[:gone]
        unwritten = max(0, first + gone - self._written_lines) if self.file is not None else gone
        self.lost_lines += unwritten
        self._written_lines = max(self._written_lines, first + gone)

    @property
    def pending(self) -> bool:
        return self.file is not None and self._written_lines < len(self.times)

    def write_pending(self) -> None:
        """Write pending lines, in one thread at a time; OSError if the disk refuses, and then they stay in memory."""
        with self._write_lock:
            with self._lock:
                start = self._written_lines
                first = len(self.times) - len(self._recent)
                lines = self._recent[start - first :]
            if self.file is None or not lines:
                return
            data = b"".join([line + b"\n" for line in lines])
            size = append_to(self.file, data)
            with self._lock:
                at = size - len(data)
                for number, line in enumerate(lines, start):
                    self._starts[number] = at
                    at += len(line) + 1
                self._size = size
                self.lost_lines -= max(0, self._written_lines - start)  # let go in the meantime, but written
                self._written_lines = start + len(lines)
                # Only the newest of the written lines stay in memory.
                spare = max(0, len(self._recent) - (len(self.times) - self._written_lines) - RECENT_LINES)
                self._held_bytes -= sum(map(len, self._recent[:spare]))
                del self._recent[:spare]

    def delete_file(self) -> None:
        with self._write_lock:
            for file in (self.file, self._metadata_path):
                if file is not None:
                    file.unlink(missing_ok=True)

    @classmethod
    def load(cls, file: Path, rank: int, *, attempt: int = 0, container: str = "", uid: str = "") -> LogSegment:
        """Load a segment from a file; an unterminated last line, left by a crash, is ignored."""
        part = cls(rank, attempt=attempt, container=container, uid=uid, file=file)
        at, last, slices = 0, 0.0, WorkSlices()
        with os.fdopen(open_own_file(file), "rb", buffering=READ_BLOCK_BYTES) as lines:
            while block := b"".join(lines.readlines(READ_BLOCK_BYTES)):
                for moment, raw in split_timestamps(block.split(b"\n")[:-1]):
                    last = moment if moment > last else last
                    part.times.append(last)
                    part._starts.append(at)
                    at += len(raw) + 1
                slices.pause_thread()
        part._size, part._written_lines = at, len(part.times)
        if part._metadata_path is not None and part._metadata_path.exists():
            part.opened_with = int(read_own_file(part._metadata_path).strip() or b"1")
        return part

    def cut_incomplete_line(self) -> None:
        """Truncate an incomplete last line that a crash left, before more is written."""
        if self.file is not None and self.file.exists() and self.file.stat().st_size > self._size:
            os.truncate(self.file, self._size)

    def iter_timed_lines(self, first_line: int) -> Iterator[TimedLine]:
        """Yield the lines from number `first_line` on with their times, page by page."""
        for at in range(max(0, first_line), len(self), LINES_IN_MEMORY):
            yield from split_timestamps(self.read_raw_lines(at, at + LINES_IN_MEMORY))

    def read_raw_lines(self, first_line: int, end_line: int) -> list[bytes]:
        """The lines from `first_line` up to `end_line` or the last, with their timestamps."""
        first_line = max(0, first_line)
        with self._lock:
            end_line = min(end_line, len(self.times))
            first = len(self.times) - len(self._recent)
            if first_line >= first:
                return self._recent[first_line - first : max(end_line, first_line) - first]
            newest = self._recent[max(first_line, first) - first : end_line - first] if end_line > first else []
            starts = self._starts[first_line : min(end_line, first) + 1] if first_line < first else self._starts[:0]
            size = self._size
        if not starts:
            return newest
        return self._read_from_disk(starts, min(end_line, first) - first_line, size) + newest

    def read_texts(self, first_line: int, end_line: int) -> list[bytes]:
        return decode_lines(self.read_raw_lines(first_line, end_line))

    def read_texts_at(self, numbers: Sequence[int]) -> list[bytes]:
        """The texts of these lines, given by ascending numbers; adjacent lines are read together."""
        texts: list[bytes] = []
        # Neighbours are as far from the first of them as their places in the list are.
        for _, run in groupby(enumerate(numbers), key=lambda each: each[1] - each[0]):
            together = [number for _, number in run]
            texts += self.read_texts(together[0], together[-1] + 1)
        return texts

    def _read_from_disk(self, start_indexes: Sequence[int], count: int, size: int) -> list[bytes]:
        """Read `count` lines that start at these offsets; the last offset is the end of the last line."""
        there = [start for start in start_indexes[:count] if start != _NOT_ON_DISK]
        if self.file is None or not there:
            return [LOST_NOTE] * count
        end = start_indexes[count] if count < len(start_indexes) and start_indexes[count] != _NOT_ON_DISK else size
        try:
            with os.fdopen(open_own_file(self.file), "rb") as file:
                data = os.pread(file.fileno(), end - there[0], there[0])
        except OSError:  # somebody cleared the folder: that is what is shown instead
            return [DELETED_NOTE] * count
        if len(there) == count and data.count(b"\n") == count:
            return data.split(b"\n")[:-1]
        lines = iter(data.split(b"\n"))
        return [LOST_NOTE if start == _NOT_ON_DISK else next(lines, DELETED_NOTE) for start in start_indexes[:count]]


def _iter_blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    file.seek(0)
    while size > 0 and (block := file.read(min(size, READ_BLOCK_BYTES))):
        size -= len(block)
        yield block


def append_to(file: Path, data: bytes) -> int:
    """Append to a file (mode 0600) and return its new size; a partial write is undone."""
    fd = open_own_file(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        before = os.fstat(fd).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            os.ftruncate(fd, before)
            raise
        return before + len(data)
    finally:
        os.close(fd)
