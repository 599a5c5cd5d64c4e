"""Tar streams of known length out of this machine's files, and files out of a tar stream, piece by piece."""

from __future__ import annotations

import asyncio
import io
import queue
import tarfile
from contextlib import aclosing
from typing import IO, TYPE_CHECKING

from console.errors import ConsoleError, CopyFailed
from console.files import local
from console.models.copying import CopyProblem, Entry, EntryKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 18
_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_REFUSED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_SPARSE)
_LONGEST_NAME = 1 << 16
_WAITING = 64
"""Pieces that may wait for the disk."""
_TYPES = {EntryKind.FILE: tarfile.REGTYPE, EntryKind.FOLDER: tarfile.DIRTYPE, EntryKind.LINK: tarfile.SYMTYPE}


def _header(entry: Entry) -> bytes:
    info = tarfile.TarInfo(f"./{entry.path}" if entry.path else ".")
    info.type, info.size, info.mode, info.mtime = _TYPES[entry.kind], entry.size, entry.mode & 0o777, entry.modified
    info.linkname = entry.target
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def length(entries: Sequence[Entry]) -> int:
    """Bytes of the tar of these entries."""
    return sum(len(_header(each)) + _padded(each.size) for each in entries) + 2 * _BLOCK


async def pack(top: Path, entries: Sequence[Entry], sent: Callable[[Entry, int], None]) -> AsyncGenerator[bytes, None]:
    """The tar; `sent` hears of each piece of a file. Close it if it is left before its end."""
    for entry in entries:
        yield _header(entry)
        if entry.file:
            async with aclosing(_content(top / entry.path, entry.size)) as pieces:
                async for data in pieces:
                    yield data
                    sent(entry, len(data))
    yield bytes(2 * _BLOCK)


async def _content(path: Path, size: int) -> AsyncGenerator[bytes, None]:
    """A file's content as long as it was when it was listed: cut, or filled up with zeros, if it has changed since."""
    left = size
    with local.told(path), await local.opened(path) as file:
        while left and (data := await asyncio.to_thread(file.read, min(_PIECE, left))):
            left -= len(data)
            yield data
    while left:
        zeros = min(_PIECE, left)
        left -= zeros
        yield bytes(zeros)
    yield bytes(_padded(size) - size)


class _Pipe(io.RawIOBase):
    """Bytes from the event loop to a thread, a few pieces at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.room = asyncio.Semaphore(_WAITING)
        self._loop = loop
        self._pieces: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = memoryview(b"")
        self._over = False

    def put(self, data: bytes) -> None:
        """Hand on a piece; an empty one is the end."""
        self._pieces.put(data)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Wait for bytes; called by the thread."""
        if not self._rest and not self._over:
            self._rest = memoryview(self._pieces.get())
            self._over = not self._rest
            self._loop.call_soon_threadsafe(self.room.release)
        into = memoryview(buffer)
        size = min(len(self._rest), len(into))
        into[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _Header(tarfile.TarInfo):
    """A header whose names, attributes and maps of holes cannot fill the memory: the library reads them whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """As the library; ReadError for what is longer than a name, and for forms that our commands never make."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _NAMES and 0 <= header.size <= _LONGEST_NAME:
            return header
        if header.type in _NAMES or header.type in _REFUSED or header.size < 0:
            raise tarfile.ReadError("a header that is too long, or of an unexpected kind")
        return header


class Unpacking:
    """Takes a tar stream apart in a thread: only what is wanted, each file under its name once it is whole."""

    def __init__(self, top: Path, wanted: Mapping[str, Entry], wrote: Callable[[str, int], None], *, most: int) -> None:
        self._top, self._wanted, self._wrote = top, wanted, wrote
        self._most = most
        """Bytes of the stream after which it is given up."""
        self.made: set[str] = set()
        """Files that are whole."""
        self.problems: list[CopyProblem] = []

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Until the stream ends. Raises what the stream raises, and CopyFailed when this machine's disk is full."""
        loop = asyncio.get_running_loop()
        pipe = _Pipe(loop)
        taking = asyncio.create_task(asyncio.to_thread(self._take, io.BufferedReader(pipe, _PIECE), loop))
        taking.add_done_callback(lambda _: pipe.room.release())
        try:
            async for data in chunks:
                self._most -= len(data)
                if self._most < 0:
                    raise CopyFailed("The container sends far more than the sizes it listed: the copy was ended.")
                await pipe.room.acquire()
                if taking.done():
                    break
                pipe.put(data)
        finally:
            pipe.put(b"")
            await taking

    def _take(self, source: IO[bytes], loop: asyncio.AbstractEventLoop) -> None:
        with source:
            try:
                with tarfile.open(
                    fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=_Header
                ) as archive:
                    for member in archive:
                        self._member(archive, member, loop)
            except (tarfile.TarError, EOFError, ValueError):
                return  # cut off: what is not in `made` is asked for again
            while source.read(_PIECE):
                pass  # zeros that fill up the last record

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, loop: asyncio.AbstractEventLoop) -> None:
        name = member.name.removeprefix("./")
        name = "" if name == "." else name
        if not local.inside(name):
            self.problems.append(CopyProblem(name, "It would lie outside the folder: it was refused."))
            return
        entry = self._wanted.get(name)
        if entry is None or not member.isreg() or not entry.file or member.size != entry.size:
            return  # a file that has another size by now is copied by itself, cut to the size that was listed
        content = archive.extractfile(member)
        if content is None:
            return
        when = int(min(max(member.mtime, 0), 1 << 33))
        whole = Entry(name, EntryKind.FILE, member.size, entry.mode, when)
        try:
            part = local.Part(local.place_for(self._top, name), entry)
            part.drop()
            while data := content.read(_PIECE):
                if part.add(data):
                    part.flush()
                loop.call_soon_threadsafe(self._wrote, name, len(data))
            part.flush()
            local.finish(part.path, part.final, whole)
            self.made.add(name)
        except CopyFailed as error:
            if _full(error):
                raise
            self.problems.append(CopyProblem(name, str(error)))


def _full(error: ConsoleError) -> bool:
    return isinstance(error.__cause__, OSError) and "space" in error.hint
