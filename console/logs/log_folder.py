"""The log folder on disk: one folder per JobSet uid, in it one per attempt, and there one file per container.

    logs/UID/job.json                           metadata of the job
    logs/UID/attempt-0/0007.main.POD-UID.log   rank 7, container main

Files are readable by their owner only and hold no secrets; lines are only ever appended. Of several consoles on one job
the first writes here; the others write a private copy, whose newer lines are merged when they close.

`JobFolder` is the folder of a followed job; `RankLogFiles` writes a file per rank, and files of result tables.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from console.folders import (
    KEEP_LOGS_DAYS,
    KEEP_LOGS_GB,
    atomic_write,
    make_private,
    open_own_file,
    read_own_file,
    state_folder,
)
from console.kube.objects.pod import Pod
from console.logs.log_segment import LogSegment, append_to
from console.scheduling.pod_failure import PodFailure
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.logs.log_line import PodLine


OVERLAP_LINES = 5000  # last lines of a file that are looked through for those that stand there already
_LOG_FILE_NAME = lazy_pattern(r"(\d{4,})\.([\w-]+)\.([\w-]+)\.log")
_ATTEMPT_FOLDER_NAME = lazy_pattern(r"attempt-(\d+)")
_PRIVATE_PREFIX = "private-"


class JobMetadata(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    context: str = ""
    ranks: int = 0
    created: float = 0.0
    recipe: str = ""
    server: str = ""  # address of the API server: two clusters may be one context name; empty in older notes


def logs_folder() -> Path:
    return state_folder() / "logs"


class JobLogStore(Struct):
    folder: Path
    metadata: JobMetadata
    is_private: bool = False  # whether another console writes the files, and this one a copy of its own
    _lock: int = -1

    @classmethod
    def open(cls, root: Path, metadata: JobMetadata) -> JobLogStore:
        """Create or reopen the folder; OSError if the disk refuses."""
        folder = root / _file_name_part(metadata.uid)
        make_private(folder)
        if not (folder / "job.json").exists():
            atomic_write(folder / "job.json", msgspec.json.encode(metadata))
        stored = cls(folder, metadata)
        stored.is_private = not stored._lock_for_writing()
        return stored

    def _lock_for_writing(self) -> bool:
        """Try to become the only writer of this folder; returns whether that succeeded."""
        self._lock = open_own_file(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            return False
        return True

    @property
    def _private_folder(self) -> Path:
        return self.folder / f"{_PRIVATE_PREFIX}{os.getpid()}" if self.is_private else self.folder

    def segment_path(self, rank: int, attempt: int, container: str, uid: str) -> Path:
        """The file for that container's lines; its folder is created. OSError if the disk refuses."""
        file = (
            self._private_folder
            / f"attempt-{attempt}"
            / f"{rank:04}.{_file_name_part(container or 'main')}.{_file_name_part(uid or 'pod')}.log"
        )
        make_private(file.parent)
        return file

    def load_segments(self) -> list[LogSegment]:
        """All stored segments, one per container, the oldest attempt first."""
        return [
            LogSegment.load(file, int(match[1]), attempt=attempt, uid=match[3], container=match[2])
            for attempt, file in sorted(_iter_log_files(self.folder))
            if (match := _LOG_FILE_NAME.fullmatch(file.name)) is not None
        ]

    def close(self) -> None:
        """Release the lock; a private copy is merged into the shared files unless another console writes them."""
        if self.is_private:
            import shutil

            own = self._private_folder
            if self._lock_for_writing():
                self._merge_private_copy(own)
            shutil.rmtree(own, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _merge_private_copy(self, own_path: Path) -> None:
        """Append to the shared files the lines that are newer than their last one."""
        for _, file in sorted(_iter_log_files(own_path)):
            common = self.folder / file.relative_to(own_path)
            make_private(common.parent)
            mine = LogSegment.load(file, 0)
            theirs = LogSegment.load(common, 0) if common.exists() else LogSegment(0, file=common)
            theirs.cut_incomplete_line()
            known = {raw for _, raw in theirs.iter_timed_lines(len(theirs) - OVERLAP_LINES)}
            last = theirs.times[-1] if theirs.times else -1.0
            lines = mine.iter_timed_lines(bisect_left(mine.times, last))
            fresh = (raw + b"\n" for moment, raw in lines if moment >= last and raw not in known)
            while some := b"".join(islice(fresh, OVERLAP_LINES)):
                append_to(common, some)

    def record_failure(self, failure: PodFailure) -> None:
        if not self.is_private:
            append_to(self.folder / "endings.jsonl", msgspec.json.encode(failure) + b"\n")

    def read_failures(self) -> tuple[PodFailure, ...]:
        found: list[PodFailure] = []
        with suppress(OSError):
            for line in read_own_file(self.folder / "endings.jsonl").split(b"\n")[:-1]:
                with suppress(msgspec.DecodeError):  # a line that a crash cut
                    found.append(msgspec.json.decode(line, type=PodFailure))
        return tuple(found)


def _file_name_part(name: str) -> str:
    """The name with all but letters, digits and hyphens replaced by underscores, for use in a file name."""
    return re.sub(r"[^0-9A-Za-z-]", "_", name)


def _iter_log_files(folder: Path) -> Iterator[tuple[int, Path]]:
    for attempt in folder.glob("attempt-*"):
        number = _ATTEMPT_FOLDER_NAME.fullmatch(attempt.name)
        if number:
            for file in attempt.glob("*.log"):
                yield int(number[1]), file


def stored_jobs(root: Path) -> list[JobLogStore]:
    """All jobs with stored logs, the newest first."""
    found: list[tuple[float, JobLogStore]] = []
    for file in root.glob("*/job.json"):
        with suppress(OSError, msgspec.DecodeError):  # removed in the meantime, or a note that a crash cut
            note = msgspec.json.decode(read_own_file(file), type=JobMetadata)
            found.append((note.created or file.stat().st_mtime, JobLogStore(file.parent, note)))
    return [stored for _, stored in sorted(found, key=lambda each: -each[0])]


def find_stored_job(
    root: Path, context: str, namespace: str, name: str, uid: str = "", *, server: str = ""
) -> JobLogStore | None:
    """The stored logs of that uid, else of that cluster's newest job of that name (by server or context); or None."""
    for stored in stored_jobs(root):
        note = stored.metadata
        here = note.server == server if note.server and server else note.context == context
        if (note.namespace, note.name) == (namespace, name) and (note.uid == uid if uid else here):
            return stored
    return None


def _limit_from_environment(name: str, default: float) -> float:
    try:
        number = float(os.environ.get(name, ""))
    except ValueError:
        return default
    return number if number >= 0 else default


def delete_old_logs(root: Path, *, now: float | None = None) -> list[str]:
    """Delete logs over the limits of age and size that no console writes; returns the deleted uids."""
    age = _limit_from_environment("A4_LOGS_KEEP_DAYS", KEEP_LOGS_DAYS) * 86400
    most = _limit_from_environment("A4_LOGS_KEEP_GB", KEEP_LOGS_GB) * 1e9
    now = time.time() if now is None else now
    jobs = []
    for folder in root.glob("*/"):
        with suppress(FileNotFoundError):  # another console deleted the folder
            made = folder.stat().st_mtime
            files = list(_iter_stats(folder))
            changed = max((file.st_mtime for file in files if file.st_size), default=made)  # a lock is empty
            jobs.append((changed, sum(file.st_size for file in files), folder))
    jobs.sort()
    total = sum(size for _, size, _ in jobs)
    gone = []
    for changed, size, folder in jobs:
        if (now - changed > age or total > most) and _remove_folder(folder):
            total -= size
            gone.append(folder.name)
    return gone


def _iter_stats(folder: Path) -> Iterator[os.stat_result]:
    """Yield the state of each file below a folder; a file that vanishes meanwhile is left out."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(place, name).lstat()


def _remove_folder(folder: Path) -> bool:
    import shutil

    with suppress(OSError):
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
        return True
    return False


class JobFolder:
    """The log folder of one job; disk errors are reported instead of raised."""

    def __init__(self) -> None:
        self._stored: JobLogStore | None = None
        self.problem = ""  # why lines are not kept; empty: they are
        self._recorded: set[tuple[int, int, str, str]] = set()

    @property
    def metadata(self) -> JobMetadata | None:
        return self._stored.metadata if self._stored is not None else None

    async def read_failures(self) -> tuple[PodFailure, ...]:
        return await asyncio.to_thread(self._stored.read_failures) if self._stored is not None else ()

    async def open_folder(self, folder: Path, metadata: JobMetadata) -> list[LogSegment]:
        """Open that job's folder for writing; returns its segments."""
        self._stored = None
        with self.translate_write_errors():
            stored = await asyncio.to_thread(JobLogStore.open, folder, metadata)
            parts = await asyncio.to_thread(stored.load_segments)
            failures = await asyncio.to_thread(stored.read_failures)
            self._recorded = {(each.attempt, each.rank, each.pod, each.cause) for each in failures}
            self._stored = stored
            return parts
        return []

    async def load_segments(self, log_store: JobLogStore) -> list[LogSegment]:
        """Open the folder of a job that is gone; returns its segments."""
        self._stored = log_store
        return await asyncio.to_thread(log_store.load_segments)

    async def record_failure(self, failure: PodFailure) -> None:
        name = failure.attempt, failure.rank, failure.pod, failure.cause
        if name in self._recorded:
            return
        self._recorded.add(name)
        if self._stored is not None:
            with self.translate_write_errors():
                await asyncio.to_thread(self._stored.record_failure, failure)

    async def open_segment(self, kept: LogSegment | None, rank: int, pod: Pod, container: str) -> LogSegment:
        """The segment for a container's lines: `kept`, if this console writes the folder, else a new one."""
        part = LogSegment(rank, attempt=pod.attempt, pod=pod.name, container=container, uid=pod.uid)
        stored = self._stored
        if stored is not None:
            with self.translate_write_errors():
                if kept is not None and not stored.is_private:
                    await asyncio.to_thread(kept.cut_incomplete_line)
                    kept.pod = pod.name
                    return kept
                part.file = await asyncio.to_thread(stored.segment_path, rank, pod.attempt, container, pod.uid)
        return part

    async def write_segments(self, segments: Iterable[LogSegment]) -> bool:
        """Write the pending lines of these segments; returns whether that succeeded."""

        def write_all(waiting: list[LogSegment]) -> None:
            for part in waiting:
                part.write_pending()

        waiting = [part for part in segments if part.pending]
        if not waiting:
            return True
        with self.translate_write_errors():
            await asyncio.to_thread(write_all, waiting)
            self.problem = ""
            return True
        return False

    async def close(self) -> None:
        if self._stored is not None:
            await asyncio.to_thread(self._stored.close)

    @contextmanager
    def translate_write_errors(self) -> Iterator[None]:
        """Record an OSError of the block in `problem` instead of raising it, so that following continues."""
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            self.problem = f"Not saved to disk: {why[:1].lower()}{why[1:]}; following continues"


RESULTS_FILE, CONNECTIVITY_FILE = "nccl-test-results.txt", "connectivity-test.log"
_NCCL_TABLE_LINE = lazy_pattern(r"^\s*#|^\s*\d+\s+\d+\s+\S+\s+\S+\s+-?\d+\s+[\d.]+")  # of nccl-tests: head, foot or row
_CONNECTIVITY_BEGINS = lazy_pattern(r"step \d+ connectivity: run$")
_CONNECTIVITY_ENDS = lazy_pattern(r"step \d+ connectivity: (?:done|failed)\b")  # between them every rank names its node
_CONNECTIVITY_LINE = lazy_pattern(r"(?i)\b(?:pong|hostfile|slots=\d+|discover\w*|connectivity|sshd listens)\b")
"""A line of the connectivity test, in which ranks reach each other."""


class RankLogFiles:
    """Writes the log of each rank to a file in one folder; call `add_lines` in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reaching = False  # whether pod 0 is in the step in which every rank names its node
        self.lines_by_file: dict[str, int] = {}  # name of each file -> its lines

    def file_path(self, name: str) -> Path:
        return self._folder / name

    def add_lines(self, lines: Iterable[PodLine]) -> None:
        texts: dict[str, list[str]] = {}
        for line in lines:
            name = "coordinator" if line.rank == 0 else f"worker-{line.rank}"
            texts.setdefault(f"pod-logs/{name}.log", []).append(line.text)
            if line.rank == 0 and (result := self._results_file(line.text)):
                texts.setdefault(result, []).append(line.text)
        for name, found in texts.items():
            path = self.file_path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.writelines(f"{text}\n" for text in found)
            self.lines_by_file[name] = self.lines_by_file.get(name, 0) + len(found)

    def _results_file(self, text: str) -> str:
        """The results file for a line of pod 0; empty if the line is no result."""
        over = _CONNECTIVITY_ENDS.match(text) is not None
        self._reaching = (self._reaching or _CONNECTIVITY_BEGINS.match(text) is not None) and not over
        if self._reaching or over:
            return CONNECTIVITY_FILE
        if _NCCL_TABLE_LINE.match(text):
            return RESULTS_FILE
        return CONNECTIVITY_FILE if _CONNECTIVITY_LINE.search(text) else ""
