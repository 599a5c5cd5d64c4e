"""This machine's side of a copy (blocking): file trees, partial files, checksums, free space, tar streams."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import socket
import stat
import tarfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from console.attach.files.copy_progress import CopyProblem, EntryKind, FileEntry, format_size
from console.errors import BadInput, CopyFailed

PARTIAL_SUFFIX = ".a4-part"  # end of the names of what is not whole yet
_READ_BYTES = 1 << 20
_MAX_NAME_BYTES = 80  # bytes of a file's name that its part's name repeats, so that a person knows it


def part_name(name: str, entry: FileEntry, owner: str = "") -> str:
    """The temporary name of an unfinished copy; only the same file from the same pod (`owner`) resumes it."""
    about = "\0".join([name, str(entry.kind), str(entry.size), str(entry.modified), *([owner] if owner else [])])
    mark = hashlib.sha256(about.encode(errors="surrogateescape")).hexdigest()[:12]
    return f".{name.encode(errors='replace')[:_MAX_NAME_BYTES].decode(errors='ignore')}.{mark}{PARTIAL_SUFFIX}"


def is_partial_file(path: str) -> bool:
    """Whether the path is, or is inside, a temporary name of an unfinished copy."""
    return any(part.endswith(PARTIAL_SUFFIX) for part in path.split("/"))


@contextmanager
def translate_os_errors(path: Path | str) -> Iterator[None]:
    """Turn an OSError of this machine's file system into CopyFailed."""
    try:
        yield
    except OSError as error:
        hint = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some space; the same command then continues where it stopped."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "Choose another folder, or change its permissions."
        raise CopyFailed(f"{path} on this machine: {error.strerror or error}.", hint) from error


def read_entry(path: Path, relative: str, *, follow: bool = False) -> FileEntry | None:
    """The file, folder or link at a path; None if there is none."""
    try:
        found = path.stat() if follow else path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode, when = stat.S_IMODE(found.st_mode) & 0o777, int(found.st_mtime)
    if stat.S_ISREG(found.st_mode):
        return FileEntry(relative, EntryKind.FILE, found.st_size, mode, when)
    if stat.S_ISDIR(found.st_mode):
        return FileEntry(relative, EntryKind.FOLDER, 0, mode, when)
    if stat.S_ISLNK(found.st_mode):
        return FileEntry(relative, EntryKind.LINK, 0, mode, when, str(path.readlink()))
    return FileEntry(relative, EntryKind.OTHER, 0, mode, when)


def list_tree(top: Path) -> tuple[list[FileEntry], list[CopyProblem]]:
    """All entries of a local folder and its subfolders, and those that cannot be read; links are not followed."""
    own = read_entry(top, "", follow=True)
    entries, problems = [own] if own else [], []

    def add_unreadable(error: OSError) -> None:
        problems.append(CopyProblem(str(error.filename or ""), f"It cannot be read: {error.strerror}."))

    for folder, folders, files in os.walk(top, onerror=add_unreadable):
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            relative = path.relative_to(top).as_posix()
            entry = None if is_partial_file(name) else read_entry(path, relative)
            if entry is None:
                continue
            if entry.kind is EntryKind.OTHER:
                problems.append(CopyProblem(relative, "It is a device, pipe or socket, which has no content."))
            elif entry.is_file and not os.access(path, os.R_OK):
                problems.append(CopyProblem(relative, "Permission denied."))
            else:
                entries.append(entry)
    return entries, problems


def sha256_of(path: Path) -> str:
    with translate_os_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resolve_target(target: str, name: str, *, folder: bool) -> Path:
    """The path of a copy `name`, as `cp` chooses it; creates `target/`. Raises BadInput if a copy cannot be there."""
    path = Path(target or ".").expanduser()
    with translate_os_errors(path):
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


async def open_in_thread(path: Path) -> BinaryIO:
    """Open a file for reading in a thread; the file is closed if the caller is cancelled before it is open."""
    opening = asyncio.ensure_future(asyncio.to_thread(path.open, "rb"))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: asyncio.Task[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def check_space(folder: Path, needed: int) -> None:
    """Raise CopyFailed if there is not enough free space."""
    with translate_os_errors(folder):
        free = shutil.disk_usage(folder).free
    if needed > free:
        hint = "Free some space."
        raise CopyFailed(f"{folder} has {format_size(free)} free, and the copy needs {format_size(needed)}.", hint)


def stays_inside(relative: str) -> bool:
    """Whether a relative name that the pod sent stays below the folder that is copied."""
    path = PurePosixPath(relative)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in relative


def prepare_target(folder: Path, relative: str) -> Path:
    """The path for an entry, whose folder is created. Raises CopyFailed if a name or link leads out of the folder."""
    path = folder / relative if relative else folder
    if not stays_inside(relative):
        raise CopyFailed(f"{relative} would be written outside {folder}: it was not copied.")
    with translate_os_errors(path):
        if relative:
            if not path.parent.resolve().is_relative_to(folder.resolve()):
                raise CopyFailed(f"{relative} would be written outside {folder}, through a link: it was not copied.")
            path.parent.mkdir(parents=True, exist_ok=True)
    return path


def set_folder_mode(top: Path, entry: FileEntry) -> None:
    """Set a copied folder's mode, never through a link; the owner keeps access, to resume or delete it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with translate_os_errors(top / entry.path), contextlib.ExitStack() as stack:
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


def finish_file(part_path: Path, final_path: Path, entry: FileEntry) -> None:
    with translate_os_errors(final_path):
        part_path.chmod(entry.mode & 0o777)
        os.utime(part_path, (entry.modified, entry.modified))
        part_path.replace(final_path)


def create_link(folder: Path, entry: FileEntry) -> None:
    """Create a copied link; copies never follow links, so its target does not matter."""
    path = prepare_target(folder, entry.path)
    fresh = path.with_name(part_name(path.name, entry))
    with translate_os_errors(path):
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(entry.target)
        fresh.replace(path)


class PartialFile:
    """The temporary file of an unfinished copy; it is kept when this program ends."""

    def __init__(self, final_path: Path, entry: FileEntry) -> None:
        self.final_path, self.entry = final_path, entry
        self.path = final_path.with_name(part_name(final_path.name, entry))
        self._buffer = bytearray()
        self._write_lock = threading.Lock()

    def received_bytes(self) -> int:
        """Number of bytes from an earlier try; a file that is too long is deleted."""
        with translate_os_errors(self.path):
            try:
                size = self.path.lstat().st_size
            except FileNotFoundError:
                return 0
            if size > self.entry.size or self.path.is_symlink():
                self.path.unlink()
                return 0
            return size

    def buffer(self, data: bytes) -> bool:
        """Buffer bytes; returns whether it is time to call `flush`."""
        self._buffer += data
        return len(self._buffer) >= _READ_BYTES

    def flush(self, *, only_waiting: bool = False) -> None:
        """Write the buffered bytes to disk; `only_waiting`: without creating the file."""
        with self._write_lock:
            if only_waiting and not self._buffer:
                return
            waiting, self._buffer = self._buffer, bytearray()
            with translate_os_errors(self.path), self.path.open("ab") as file:
                file.write(waiting)

    def delete(self) -> None:
        with self._write_lock, translate_os_errors(self.path):
            self.path.unlink(missing_ok=True)
            self._buffer = bytearray()


_TAR_BLOCK = tarfile.BLOCKSIZE
_CHUNK_SIZE = 1 << 18
_LONG_NAME_ENTRIES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_REFUSED_ENTRIES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_SPARSE)
_MAX_LONG_NAME_BYTES = 1 << 16
_TAR_TYPES = {EntryKind.FILE: tarfile.REGTYPE, EntryKind.FOLDER: tarfile.DIRTYPE, EntryKind.LINK: tarfile.SYMTYPE}


def _tar_header(entry: FileEntry) -> bytes:
    info = tarfile.TarInfo(f"./{entry.path}" if entry.path else ".")
    info.type, info.size, info.mode, info.mtime = _TAR_TYPES[entry.kind], entry.size, entry.mode & 0o777, entry.modified
    info.linkname = entry.target
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padded_size(size: int) -> int:
    return -(-size // _TAR_BLOCK) * _TAR_BLOCK


def tar_length(entries: Sequence[FileEntry]) -> int:
    return sum(len(_tar_header(each)) + _padded_size(each.size) for each in entries) + 2 * _TAR_BLOCK


async def pack_tar(
    folder: Path, entries: Sequence[FileEntry], on_sent: Callable[[FileEntry, int], None]
) -> AsyncGenerator[bytes, None]:
    """Yield the entries as a tar; `on_sent` is called with each piece of a file. Close the generator to stop early."""
    for entry in entries:
        yield _tar_header(entry)
        if entry.is_file:
            async with aclosing(_iter_content(folder / entry.path, entry.size)) as pieces:
                async for data in pieces:
                    yield data
                    on_sent(entry, len(data))
    yield bytes(2 * _TAR_BLOCK)


async def _iter_content(path: Path, size: int) -> AsyncGenerator[bytes, None]:
    """Yield a file's content in its listed size: truncated, or padded with zeros, if it has changed since."""
    left = size
    with translate_os_errors(path), await open_in_thread(path) as file:
        while left and (data := await asyncio.to_thread(file.read, min(_CHUNK_SIZE, left))):
            left -= len(data)
            yield data
    while left:
        zeros = min(_CHUNK_SIZE, left)
        left -= zeros
        yield bytes(zeros)
    yield bytes(_padded_size(size) - size)


class _TarHeader(tarfile.TarInfo):
    """A tar header with limited sizes; tarfile itself would read names of any length into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _TarHeader:
        """Parse a header; ReadError for overlong names, and for kinds that this program's commands never write."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _LONG_NAME_ENTRIES and 0 <= header.size <= _MAX_LONG_NAME_BYTES:
            return header
        if header.type in _LONG_NAME_ENTRIES or header.type in _REFUSED_ENTRIES or header.size < 0:
            raise tarfile.ReadError("a header that is too long, or of an unexpected kind")
        return header


class TarUnpacker:
    """Unpacks a tar stream in a thread: only wanted entries, each renamed to its final name when complete."""

    def __init__(
        self, folder: Path, files: Mapping[str, FileEntry], on_written: Callable[[str, int], None], *, max_bytes: int
    ) -> None:
        self._folder, self._wanted_files, self._on_written = folder, files, on_written
        self._max_bytes = max_bytes  # bytes of the stream after which it is given up
        self.created_paths: set[str] = set()  # files that are whole
        self.problems: list[CopyProblem] = []

    async def unpack(self, chunks: AsyncIterator[bytes]) -> None:
        """Unpack until the stream ends. Raises the stream's errors, and CopyFailed for those of the local disk."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()  # what the thread has not taken yet keeps the sender waiting
        ours.setblocking(False)
        taking = asyncio.create_task(
            asyncio.to_thread(self._read_archive, os.fdopen(theirs.detach(), "rb", _CHUNK_SIZE), loop)
        )
        try:
            async for data in chunks:
                self._max_bytes -= len(data)
                if self._max_bytes < 0:
                    raise CopyFailed("The container sends far more than the sizes it listed: the copy was stopped.")
                try:
                    await loop.sock_sendall(ours, data)
                except ConnectionError:  # the thread has ended, and says why
                    break
        finally:
            ours.close()
            await taking

    def _read_archive(self, source: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        with source:
            try:
                with tarfile.open(
                    fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=_TarHeader
                ) as archive:
                    for member in archive:
                        self._unpack_member(archive, member, loop)
            except (tarfile.TarError, EOFError, ValueError):
                return  # cut off: what is not in `created_paths` is asked for again
            while source.read(_CHUNK_SIZE):
                pass  # zeros that fill up the last record

    def _unpack_member(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, loop: asyncio.AbstractEventLoop
    ) -> None:
        name = member.name.removeprefix("./")
        name = "" if name == "." else name
        if not stays_inside(name):
            self.problems.append(CopyProblem(name, "It would be written outside the folder: it was not copied."))
            return
        entry = self._wanted_files.get(name)
        if entry is None or not member.isreg() or not entry.is_file or member.size != entry.size:
            return  # a file that has another size by now is copied by itself, cut to the size that was listed
        content = archive.extractfile(member)
        if content is None:
            return
        when = int(min(max(member.mtime, 0), 1 << 33))
        whole = FileEntry(name, EntryKind.FILE, member.size, entry.mode, when)
        try:
            part = PartialFile(prepare_target(self._folder, name), entry)
            part.delete()
            while data := content.read(_CHUNK_SIZE):
                if part.buffer(data):
                    part.flush()
                loop.call_soon_threadsafe(self._on_written, name, len(data))
            part.flush()
            finish_file(part.path, part.final_path, whole)
            self.created_paths.add(name)
        except CopyFailed as error:
            if isinstance(error.__cause__, OSError) and "space" in error.hint:
                raise
            self.problems.append(CopyProblem(name, str(error)))
