"""This machine's side of a copy: trees, parts that become files, checksums, free space. All of it blocks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import threading
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from console.errors import BadInput, CopyFailed
from console.models.copying import CopyProblem, Entry, EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".a4-part"
"""End of the names of what is not whole yet."""
_BLOCK = 1 << 20
_KEPT_BYTES = 80
"""Bytes of a file's name that its part's name repeats, so that a person knows it."""


def part_name(name: str, entry: Entry) -> str:
    """Temporary name of a copy; another content has another one, so no part is gone on with wrongly."""
    about = f"{name}\0{entry.kind}\0{entry.size}\0{entry.modified}"
    mark = hashlib.sha256(about.encode(errors="surrogateescape")).hexdigest()[:12]
    return f".{name.encode(errors='replace')[:_KEPT_BYTES].decode(errors='ignore')}.{mark}{SUFFIX}"


def is_part(path: str) -> bool:
    """Whether it, or a folder it is in, is of an unfinished copy."""
    return any(part.endswith(SUFFIX) for part in path.split("/"))


@contextmanager
def told(path: Path | str) -> Iterator[None]:
    """Says what this machine's file system refused, as CopyFailed."""
    try:
        yield
    except OSError as error:
        hint = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some space; the same command then goes on where it ended."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "Choose another folder, or give yourself the right."
        raise CopyFailed(f"{path} on this machine: {error.strerror or error}.", hint) from error


def home(path: str) -> Path:
    """The path, `~` read."""
    return Path(path).expanduser()


def entry_of(path: Path, relative: str, *, follow: bool = False) -> Entry | None:
    """What is at a path; None if nothing is."""
    try:
        found = path.stat() if follow else path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode, when = stat.S_IMODE(found.st_mode) & 0o777, int(found.st_mtime)
    if stat.S_ISREG(found.st_mode):
        return Entry(relative, EntryKind.FILE, found.st_size, mode, when)
    if stat.S_ISDIR(found.st_mode):
        return Entry(relative, EntryKind.FOLDER, 0, mode, when)
    if stat.S_ISLNK(found.st_mode):
        return Entry(relative, EntryKind.LINK, 0, mode, when, str(path.readlink()))
    return Entry(relative, EntryKind.OTHER, 0, mode, when)


def tree(top: Path) -> tuple[list[Entry], list[CopyProblem]]:
    """A folder and everything below it, and what has to be left out; links are not followed."""
    own = entry_of(top, "", follow=True)
    entries, problems = [own] if own else [], []
    for folder, folders, files in os.walk(top, onerror=lambda error: problems.append(_unreadable(error))):
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            relative = path.relative_to(top).as_posix()
            entry = None if is_part(name) else entry_of(path, relative)
            if entry is None:
                continue
            if entry.kind is EntryKind.OTHER:
                problems.append(CopyProblem(relative, "It is a device, pipe or socket, which has no content."))
            elif entry.file and not os.access(path, os.R_OK):
                problems.append(CopyProblem(relative, "You may not read it."))
            else:
                entries.append(entry)
    return entries, problems


def _unreadable(error: OSError) -> CopyProblem:
    return CopyProblem(str(error.filename or ""), f"It cannot be read: {error.strerror}.")


def sha256(path: Path) -> str:
    """Sum of a file."""
    with told(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def final_path(target: str, name: str, *, folder: bool) -> Path:
    """Where a thing called `name` goes that is copied to `target`, as `cp` would; `target/` is made if need be."""
    path = home(target or ".")
    with told(path):
        if target.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            path = path / name
        if not path.parent.is_dir():
            raise BadInput(f"There is no folder {path.parent} on this machine.", "Make it, or end the target with /.")
        if folder and path.exists() and not path.is_dir():
            raise BadInput(f"{path} is a file: a folder cannot be put in its place.")
        if not folder and path.is_dir():
            raise BadInput(f"{path} is a folder: a file cannot be put in its place.")
    return path


def in_words(size: int) -> str:
    """Bytes as an error says them."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


async def opened(path: Path) -> BinaryIO:
    """The file, open for reading; closed if nobody waits for it any more, as when a copy is stopped."""
    opening = asyncio.ensure_future(asyncio.to_thread(path.open, "rb"))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Task[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def check_space(where: Path, needed: int) -> None:
    """CopyFailed if that much has no room there."""
    with told(where):
        free = shutil.disk_usage(where).free
    if needed > free:
        raise CopyFailed(
            f"{where} has {in_words(free)} free, and the copy needs {in_words(needed)}.", "Free some space."
        )


def inside(relative: str) -> bool:
    """Whether a name given by the other side stays below the folder it is for."""
    path = PurePosixPath(relative)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in relative


def place_for(top: Path, relative: str) -> Path:
    """The path for an entry, its folder made. CopyFailed if the name, or a link on the way, leads out of the folder."""
    path = top / relative if relative else top
    if not inside(relative):
        raise CopyFailed(f"{relative} would lie outside {top}: it is refused.")
    with told(path):
        if relative:
            if not path.parent.resolve().is_relative_to(top.resolve()):
                raise CopyFailed(f"{relative} would lie outside {top}, through a link: it is refused.")
            path.parent.mkdir(parents=True, exist_ok=True)
    return path


def set_folder_mode(top: Path, entry: Entry) -> None:
    """Give a copied folder its mode, through no link; its owner keeps every right, to go on with the copy or delete it.

    What is not a folder, or lies behind a link, is left alone.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with told(top / entry.path), contextlib.ExitStack() as stack:
        try:
            folder = os.open(top, flags)
            stack.callback(os.close, folder)
            for part in PurePosixPath(entry.path).parts:
                folder = os.open(part, flags, dir_fd=folder)
                stack.callback(os.close, folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                return
            raise
        os.fchmod(folder, entry.mode & 0o777 | stat.S_IRWXU)


def finish(part: Path, final: Path, entry: Entry) -> None:
    """Give a whole part its mode, time and name."""
    with told(final):
        part.chmod(entry.mode & 0o777)
        os.utime(part, (entry.modified, entry.modified))
        part.replace(final)


def link(top: Path, entry: Entry) -> None:
    """Make a link as it was; it is never followed in a copy, so where it leads does not matter."""
    path = place_for(top, entry.path)
    fresh = path.with_name(part_name(path.name, entry))
    with told(path):
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(entry.target)
        fresh.replace(path)


class Part:
    """The growing copy of one file; what it has survives this program."""

    def __init__(self, final: Path, entry: Entry) -> None:
        self.final, self.entry = final, entry
        self.path = final.with_name(part_name(final.name, entry))
        self._waiting = bytearray()
        self._writing = threading.Lock()

    def have(self) -> int:
        """Bytes from before; a part that is too long is dropped."""
        with told(self.path):
            try:
                size = self.path.lstat().st_size
            except FileNotFoundError:
                return 0
            if size > self.entry.size or self.path.is_symlink():
                self.path.unlink()
                return 0
            return size

    def add(self, data: bytes) -> bool:
        """Take bytes; whether it is time to write them down."""
        self._waiting += data
        return len(self._waiting) >= _BLOCK

    def flush(self, *, only_waiting: bool = False) -> None:
        """Write down what waits, each byte once: the thread of a copy that is stopped may still be writing.

        The file is made if it is not there, unless `only_waiting` and nothing waits.
        """
        with self._writing:
            if only_waiting and not self._waiting:
                return
            waiting, self._waiting = self._waiting, bytearray()
            with told(self.path), self.path.open("ab") as file:
                file.write(waiting)

    def drop(self) -> None:
        """Forget it."""
        with self._writing, told(self.path):
            self.path.unlink(missing_ok=True)
            self._waiting = bytearray()

    def finish(self) -> None:
        """Make it the file."""
        finish(self.path, self.final, self.entry)
