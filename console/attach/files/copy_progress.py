"""The path, entries, progress, retries and report of a copy between this machine and a pod."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from console.errors import BadInput, CopyFailed, NotAllowed, NotLoggedIn, Refused, Unreachable

_JOB_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_REMOTE_PATH = re.compile(
    rf"(?:(?P<pod>pod/{_JOB_NAME})|(?P<job>{_JOB_NAME}):(?P<rank>(?:{_JOB_NAME}/)?\d{{1,6}}|all|\*)):(?P<path>.*)",
    re.DOTALL,
)
_PATH_WITHOUT_POD = re.compile(rf"({_JOB_NAME}):(/(?!/).*)", re.DOTALL)
ALL_RANKS = "all"  # instead of a rank: each of them


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A path in a rank of a job, written `JOB:RANK:PATH`, or in a pod, `pod/NAME:PATH`."""

    job: str  # or pod/NAME
    rank: str  # a number, REPLICATED/INDEX, `ALL`, or empty for a pod
    path: str  # relative paths begin where the container's programs begin; empty is that folder itself

    @property
    def is_all_ranks(self) -> bool:
        return self.rank == ALL_RANKS


def parse_remote_path(text: str) -> RemotePath | None:
    """Parse `JOB:RANK:PATH` or `pod/NAME:PATH`; None for a path of this machine (`./a:0`). BadInput for `JOB:/PATH`."""
    found = _REMOTE_PATH.fullmatch(text)
    if found is None:
        if podless := _PATH_WITHOUT_POD.fullmatch(text):
            job, path = podless.groups()
            raise BadInput(f"{text} names no pod of {job}.", f"Write its index, such as {job}:0:{path}")
        return None
    rank = found["rank"] or ""
    return RemotePath(found["pod"] or found["job"], ALL_RANKS if rank == "*" else rank, found["path"])


class EntryKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a device, socket or pipe: it has no content to copy


@dataclass(frozen=True, slots=True)
class FileEntry:
    path: str  # relative to the top of the tree, with slashes; empty for the top itself
    kind: EntryKind
    size: int = 0  # bytes; 0 unless it is a file
    mode: int = 0o644  # permission bits
    modified: int = 0  # seconds since the epoch
    target: str = ""  # what a link points to, as written in it

    @property
    def is_file(self) -> bool:
        return self.kind is EntryKind.FILE

    def seems_unchanged(self, other_file: FileEntry | None) -> bool:
        """Whether `other_file` seems equal: same size and modification time, or link target; False if it is None."""
        if other_file is None or other_file.kind is not self.kind:
            return False
        if self.is_file:
            return (self.size, self.modified) == (other_file.size, other_file.modified)
        return self.target == other_file.target


class CopyMethod(StrEnum):
    SFTP = "sftp"
    EXEC = "exec"  # `tar`, `head` and `tail` in the container


class CopyVerification(StrEnum):
    """The way in which a copy was compared with its original."""

    SHA256 = "sha256"
    SIZE = "size and time"  # the container has no `sha256sum`


@dataclass(frozen=True, slots=True)
class CopyProgress:
    done: int = 0  # bytes that are there, those from before included
    total: int = 0
    done_files: int = 0
    all_files: int = 0
    now: str = ""  # what is under way: a path, or what is done to all of them
    resumed_bytes: int = 0  # bytes of `done` that were there when it began


@dataclass(frozen=True, slots=True)
class CopyProblem:
    path: str
    why: str  # a sentence


@dataclass(frozen=True, slots=True)
class CopyReport:
    source: str
    target: str
    files: int
    bytes: int  # of those files
    resumed: int  # bytes that had been there before
    seconds: float
    way: CopyMethod
    proof: CopyVerification
    note: str = ""  # why it did not go the better way; empty if it did
    problems: tuple[CopyProblem, ...] = ()


def format_size(size: int) -> str:
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


Listener = Callable[[CopyProgress], None]
MAX_FRUITLESS_ATTEMPTS = 5  # attempts without a byte of progress after which a copy gives up
_FIRST_RETRY_SECONDS = 0.5  # seconds before the second attempt; doubled each time
RETRY_HINT = "Run the same command again: it continues where this one stopped."


class CopyMeter:
    def __init__(self, listener: Listener, *, first_retry_seconds: float = _FIRST_RETRY_SECONDS) -> None:
        self._listener = listener
        self._first_retry_seconds = first_retry_seconds
        self.done = 0
        self.landed = 0  # the same, as far as it is known to have arrived
        self.total = 0
        self.done_files = 0
        self.all_files = 0
        self.resumed = 0
        self.now = ""

    def report(self, current_item: str | None = None) -> None:
        self.now = self.now if current_item is None else current_item
        self._listener(CopyProgress(self.done, self.total, self.done_files, self.all_files, self.now, self.resumed))

    def add_copied_bytes(self, size: int) -> None:
        self.landed += size
        self.add_file(size)

    def add_file(self, size: int) -> None:
        self.done += size
        self.report()

    def add_existing(self, size: int, *, is_whole_file: bool) -> None:
        """Count bytes that existed before this copy began."""
        self.done += size
        self.resumed += size
        self.done_files += is_whole_file
        self.report()

    def finish_file(self) -> None:
        self.done_files += 1
        self.report()

    async def retry_while_progressing(self, action: str, attempt: Callable[[], Awaitable[bool]]) -> None:
        """Repeat `attempt` until True, as long as bytes arrive between connection errors; else CopyFailed."""
        fruitless = 0
        while True:
            before = self.landed
            try:
                if await attempt():
                    return
                error: Unreachable | None = None
            except Unreachable as broken:
                error = broken
            except Refused as gone:
                if not gone.status or isinstance(gone, NotAllowed | NotLoggedIn):
                    raise  # words for one file, or for the account
                raise CopyFailed(f"{action}: {self._progress_text()} {gone.message}", RETRY_HINT) from gone
            fruitless = 0 if self.landed > before else fruitless + 1
            if fruitless >= MAX_FRUITLESS_ATTEMPTS:
                why = error.message if error else "The other side stopped sending."
                raise CopyFailed(f"{action} was interrupted: {self._progress_text()} {why}", RETRY_HINT) from error
            await asyncio.sleep(self._first_retry_seconds * 2**fruitless if fruitless else 0)

    def _progress_text(self) -> str:
        return f"{format_size(self.done)} of {format_size(self.total)} are there."
