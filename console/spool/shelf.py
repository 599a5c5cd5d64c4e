"""Where logs are kept: a folder for each JobSet by its uid, in it one for each attempt, there a file per container.

    logs/UID/job.json                           which job it was
    logs/UID/attempt-0/0007.main.POD-UID.log   rank 7, container main

Files can be read by their owner only and hold no secrets; lines are only ever added. Of several consoles on one job
the first writes here; the others keep a copy of their own, and what the first missed is added when they leave.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.folders import make_private
from console.models.failure import Ending
from console.spool.part import Part, append_to

if TYPE_CHECKING:
    from collections.abc import Iterator

KEEP_DAYS = 30.0
"""Days for which logs are kept after their last line, unless A4_LOGS_KEEP_DAYS says otherwise."""
KEEP_GB = 20.0
"""Gigabytes that all logs may take, unless A4_LOGS_KEEP_GB says otherwise; the oldest jobs go first."""
TAIL = 5000
"""Last lines of a file that are looked through for those that stand there already."""
_FILE = re.compile(r"(\d{4,})\.([\w-]+)\.([\w-]+)\.log")
_ATTEMPT = re.compile(r"attempt-(\d+)")
_PRIVATE = "private-"


class JobNote(msgspec.Struct, frozen=True):
    """Which job a folder is about."""

    uid: str
    namespace: str
    name: str
    context: str = ""
    ranks: int = 0
    created: float = 0.0
    recipe: str = ""


def logs_folder() -> Path:
    """The folder of all logs, in the folder for state of the XDG rules."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return home / "a4" / "logs"


@dataclass(slots=True)
class Shelf:
    """The logs of one JobSet."""

    folder: Path
    note: JobNote
    private: bool = False
    """Whether another console writes the files, and this one a copy of its own."""
    _lock: int = -1

    @classmethod
    def open(cls, root: Path, note: JobNote) -> Shelf:
        """Make the folder, or go on with it; OSError if the disk will not have it."""
        folder = root / _safe(note.uid)
        make_private(folder)
        if not (folder / "job.json").exists():
            fresh = folder / f".job.{os.getpid()}"
            fresh.unlink(missing_ok=True)
            append_to(fresh, msgspec.json.encode(note))
            fresh.replace(folder / "job.json")
        shelf = cls(folder, note)
        shelf.private = not shelf._take()
        return shelf

    def _take(self) -> bool:
        """Become the one that writes; whether nobody else is."""
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            return False
        return True

    @property
    def _own(self) -> Path:
        return self.folder / f"{_PRIVATE}{os.getpid()}" if self.private else self.folder

    def place(self, rank: int, attempt: int, container: str, uid: str) -> Path:
        """The file for the lines of that container; its folder is made. OSError if the disk will not have it."""
        file = self._own / f"attempt-{attempt}" / f"{rank:04}.{_safe(container or 'main')}.{_safe(uid or 'pod')}.log"
        make_private(file.parent)
        return file

    def parts(self) -> Iterator[Part]:
        """All that is kept, one container after the other, the oldest attempt first."""
        for attempt, file in sorted(_files(self.folder)):
            match = _FILE.fullmatch(file.name)
            if match is not None:
                yield Part.read(file, int(match[1]), attempt=attempt, uid=match[3], container=match[2])

    def close(self) -> None:
        """Let others write. A copy of its own is added to the common files, if nobody else writes those."""
        if self.private:
            own = self._own
            if self._take():
                self._hand_in(own)
            shutil.rmtree(own, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _hand_in(self, own: Path) -> None:
        """Adds the lines that the common files do not have: those after their last moment."""
        for _, file in sorted(_files(own)):
            common = self.folder / file.relative_to(own)
            make_private(common.parent)
            mine = Part.read(file, 0)
            theirs = Part.read(common, 0) if common.exists() else Part(0, file=common)
            theirs.mend()
            known = {raw for _, raw in theirs.tail(TAIL)}
            last = theirs.times[-1] if theirs.times else -1.0
            fresh = [raw for moment, raw in mine.tail(len(mine)) if moment >= last and raw not in known]
            if fresh:
                append_to(common, b"".join(raw + b"\n" for raw in fresh))

    # endings

    def tell(self, ending: Ending) -> None:
        """Keep how a rank ended; only the console that writes does."""
        if not self.private:
            append_to(self.folder / "endings.jsonl", msgspec.json.encode(ending) + b"\n")

    def endings(self) -> tuple[Ending, ...]:
        """How ranks ended badly, as they were told."""
        with suppress(FileNotFoundError):
            lines = (self.folder / "endings.jsonl").read_bytes().split(b"\n")[:-1]
            return tuple(ending for line in lines if (ending := _decoded(line)) is not None)
        return ()


def _safe(name: str) -> str:
    """As the name of a file, whatever a server may call a thing."""
    return re.sub(r"[^0-9A-Za-z-]", "_", name)


def _decoded(line: bytes) -> Ending | None:
    try:
        return msgspec.json.decode(line, type=Ending)
    except msgspec.DecodeError:  # a line that a crash cut
        return None


def _files(folder: Path) -> Iterator[tuple[int, Path]]:
    for attempt in folder.glob("attempt-*"):
        number = _ATTEMPT.fullmatch(attempt.name)
        if number:
            for file in attempt.glob("*.log"):
                yield int(number[1]), file


def kept(root: Path) -> list[Shelf]:
    """All jobs of which logs are kept, the newest first."""
    found: list[tuple[float, Shelf]] = []
    for file in root.glob("*/job.json"):
        with suppress(OSError, msgspec.DecodeError):  # removed in the meantime, or a note that a crash cut
            note = msgspec.json.decode(file.read_bytes(), type=JobNote)
            found.append((note.created or file.stat().st_mtime, Shelf(file.parent, note)))
    return [shelf for _, shelf in sorted(found, key=lambda each: -each[0])]


def kept_job(root: Path, context: str, namespace: str, name: str, uid: str = "") -> Shelf | None:
    """The job of that uid, or without one the newest of that name in that context, of which logs are kept."""

    def is_it(note: JobNote) -> bool:
        if uid:
            return (note.namespace, note.name, note.uid) == (namespace, name, uid)
        return (note.context, note.namespace, note.name) == (context, namespace, name)

    return next((each for each in kept(root) if is_it(each.note)), None)


def limits() -> tuple[float, float]:
    """How long logs are kept (seconds), and how much they may take (bytes), as the environment says it."""
    return _number("A4_LOGS_KEEP_DAYS", KEEP_DAYS) * 86400, _number("A4_LOGS_KEEP_GB", KEEP_GB) * 1e9


def _number(name: str, usual: float) -> float:
    try:
        number = float(os.environ.get(name, ""))
    except ValueError:
        return usual
    return number if number >= 0 else usual


def sweep(root: Path, *, now: float | None = None) -> list[str]:
    """Remove what is older than it may be, then the oldest until the rest is small enough; uids of what went.

    A job that a console writes at this moment stays.
    """
    age, most = limits()
    now = time.time() if now is None else now
    jobs = sorted((_last_change(folder), _size(folder), folder) for folder in root.glob("*/") if folder.is_dir())
    total = sum(size for _, size, _ in jobs)
    gone = []
    for changed, size, folder in jobs:
        if (now - changed > age or total > most) and _removed(folder):
            total -= size
            gone.append(folder.name)
    return gone


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
        return True
    return False


def _last_change(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.rglob("*.*") if file.is_file()), default=folder.stat().st_mtime)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
