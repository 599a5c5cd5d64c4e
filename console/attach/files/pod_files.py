"""Files in a container: listed and changed by shell commands, large ones transferred over SFTP."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from console.attach.files import scripts
from console.attach.files.copy_progress import CopyMethod, CopyProblem, EntryKind, FileEntry
from console.errors import BadInput, Conflict, ConsoleError, CopyFailed, NotAllowed, NotFound, Unreachable, Unreadable

if TYPE_CHECKING:
    from console.attach.ssh.client import SftpConnection


_MAX_SHOWN_COMPLAINT = 4000
MAX_COMPLAINTS = 4 << 20  # bytes of complaints that a command may print, of which the first few are kept; more ends it
QUICK_TIMEOUT = 30.0  # seconds for what looks at one path or makes one folder
FLOW_SECONDS = 6.0  # seconds from the first byte of such an answer to its last
FLOW_BYTES = 1 << 12  # bytes of a listing that have to come in such a time
MAX_SMALL_PIECES, MIN_PIECE_BYTES = 1 << 12, 16  # of an answer; bytes on the average where there are so many pieces
LIST_TIMEOUT = 60.0  # seconds for what is in one folder
MAX_LISTING_BYTES = 32 << 20  # about 300,000 files; what a container answers beyond them ends the command
MAX_ENTRIES = 300_000  # of one folder that is listed
_CHECKSUM_DIGITS = 64
_KILLED_CODES = (129, 130, 137, 143)  # exit codes of a program that was ended from outside, as when its pod goes
_PARTIAL_CODES = (1, 2, 123)  # exit codes of `tar` and `xargs` that did what they could; the rest is asked for again


class RunningCommand(Protocol):
    code: int | None

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the command's output as it arrives: (1 for stdout or 2 for stderr, bytes)."""
        ...


StartCommand = Callable[..., AbstractAsyncContextManager[RunningCommand]]
"""Starts a command from its words, `stdin` (bytes, chunks or None) and `action`, until its `async with` block ends."""


@dataclass(frozen=True, slots=True)
class PathInfo:
    path: str  # absolute, links resolved
    kind: EntryKind | None  # None: nothing yet, but its folder is there
    size: int = 0
    mode: int = 0o644
    modified: int = 0
    free: int | None = None  # free bytes of that file system; None when nobody could say

    @property
    def is_folder(self) -> bool:
        return self.kind is EntryKind.FOLDER


def safe_path(path: str) -> str:
    """The path in a form that no program takes for an option. Raises CopyFailed if it is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise CopyFailed(f"The name {path!r} is not UTF-8, so it cannot be passed to the container.") from None
    if "\0" in path:
        raise CopyFailed("A path cannot hold a zero byte.")
    return f"./{path}" if path.startswith("-") else path


@dataclass(frozen=True, slots=True)
class PodFolder:
    """The contents of a folder of a container, folders first; sizes and free space in bytes, None if unknown."""

    path: str  # absolute, links resolved
    entries: tuple[FileEntry, ...]
    total: int | None = None
    used: int | None = None
    free: int | None = None
    complaints: tuple[str, ...] = ()  # what could not be seen


class PodFiles:
    def __init__(self, start_command: StartCommand, label: str) -> None:
        self.start = start_command
        self.method = CopyMethod.EXEC
        self.note = ""  # why it did not go a better way; empty if it did
        self.packs_small_files = True  # whether small files are copied in one stream
        self.label = label  # how errors call the container: `rank 3 of llama-70b`

    async def _run(
        self,
        script: str,
        *arguments: str,
        stdin: bytes | AsyncIterator[bytes] | None = None,
        task: str,
        path: str = "",
        limit: float | None = None,
    ) -> tuple[bytes, str]:
        """A script's (stdout, stderr). Raises CopyFailed, also after `limit` s, Refused or a subclass, Unreachable."""
        from console.kube.exec import ANNOUNCE_START, START_TIMEOUT

        answer, loop = self._new_limited_output(task), asyncio.get_running_loop()
        ends, pieces, silent = loop.time() + (limit or 0.0), 0, limit is not None and limit > START_TIMEOUT
        try:
            async with (
                closing_input(stdin),
                asyncio.timeout(START_TIMEOUT if silent else limit) as clock,
                self.start(
                    ("sh", "-c", ANNOUNCE_START + script, "sh", *arguments),
                    stdin=stdin,
                    action=f"{task} in {self.label}",
                ) as process,
            ):
                async for channel, data in process.output():
                    if silent:
                        silent = False
                        clock.reschedule(ends)
                    before = len(answer.out)
                    answer.add(channel, data)
                    if channel != 1 or not limit:
                        continue
                    pieces += 1
                    if not before or (limit == LIST_TIMEOUT and before // FLOW_BYTES < len(answer.out) // FLOW_BYTES):
                        clock.reschedule(min(ends, loop.time() + FLOW_SECONDS))
                    if pieces > MAX_SMALL_PIECES and len(answer.out) < MIN_PIECE_BYTES * pieces:
                        words = f"{answer.failure}: it answers in pieces of a few bytes, without an end."
                        raise CopyFailed(words, "Check that container: a4 doctor, a4 facts.")
        except TimeoutError as error:
            late = f"no answer within {START_TIMEOUT if silent else limit:g} s."
            why = f"the answer did not end, or go on, within {FLOW_SECONDS:g} s." if answer.out else late
            hint = "Check that container and its file system: a4 doctor, a4 facts."
            raise CopyFailed(f"{answer.failure}: {why}", hint) from error
        self._raise_if_failed(process.code, answer, path)
        return bytes(answer.out), answer.complaint

    def _new_limited_output(self, task: str) -> _LimitedOutput:
        return _LimitedOutput(f"Could not {task} in {self.label}")

    def _raise_if_failed(self, code: int | None, answer: _LimitedOutput, path: str) -> None:
        if code == scripts.EXIT_MISSING:
            raise NotFound(f"There is no {path} in {self.label}.")
        if code == scripts.EXIT_FORBIDDEN:
            raise NotAllowed(f"{path} in {self.label} cannot be read: the container's user has no permission.")
        if code == scripts.EXIT_OTHER_FILE_SYSTEM:
            where = f"{path} in {self.label} is a mount point; mount points are not deleted."
            raise Conflict(where, "Name files in it.")
        if code in _KILLED_CODES:
            raise Unreachable(f"The copy process was killed in {self.label} (exit code {code}).")
        if code:
            raise script_error(answer.failure, answer.complaint, code)

    async def stat(self, path: str) -> PathInfo:
        """The file or folder at a path. Raises NotFound if its parent folder is missing, Unreadable, CopyFailed."""
        out, _ = await self._run(
            scripts.STAT_PATH, safe_path(path), task=f"inspect {path or 'the folder'}", path=path, limit=QUICK_TIMEOUT
        )
        head, _, rest = out.partition(b"\0\0")
        try:
            kind, size, mode, when, absolute = head.decode(errors="surrogateescape").split("|", 4)
            free = int(float(rest.strip() or b"-1"))
            spot = PathInfo(
                absolute,
                {"f": EntryKind.FILE, "d": EntryKind.FOLDER}.get(kind, EntryKind.OTHER if mode != "0" else None),
                scripts.parse_byte_count(size),
                scripts.parse_mode(mode),
                scripts.parse_time(when),
                free if free >= 0 else None,
            )
        except (ValueError, OverflowError):
            raise Unreadable(f"The answer about {path} in {self.label} cannot be read: {out[:80]!r}.") from None
        return spot

    async def find_for_training(self, path: str) -> list[str]:
        """The absolute folders that a relative path names in the working folders of the training's processes."""
        what = f"find {path} where the training runs"
        out, _ = await self._run(scripts.WORKING_FOLDER, path, task=what, path=path, limit=QUICK_TIMEOUT)
        found = out.decode(errors="replace").split("\0")
        return list(dict.fromkeys(each for each in found if each.startswith("/")))

    async def list_tree(self, folder: str) -> tuple[list[FileEntry], list[CopyProblem]]:
        """All entries of a container's folder, recursively, and those that cannot be read."""
        what = f"list {folder}"
        answer = self._new_limited_output(what)
        argv = ("sh", "-c", scripts.LIST_TREE, "sh", folder)
        async with self.start(argv, stdin=None, action=f"{what} in {self.label}") as process:
            async for channel, data in process.output():
                answer.add(channel, data)
        if process.code == scripts.EXIT_FORBIDDEN or (process.code and not answer.out):
            self._raise_if_failed(process.code, answer, folder)
        problems = [CopyProblem("", line.strip()) for line in answer.complaint.splitlines() if line.strip()]
        entries = []
        for entry in scripts.parse_tree(bytes(answer.out)):
            if entry.kind is EntryKind.OTHER:
                problems.append(CopyProblem(entry.path, "It is a device, pipe or socket, which has no content."))
            elif _is_not_utf8(entry.path):
                problems.append(CopyProblem(entry.path.encode(errors="replace").decode(), "Its name is not UTF-8."))
            else:
                entries.append(entry)
        return entries, problems

    async def read(self, path: str, offset: int, size: int) -> AsyncGenerator[bytes, None]:
        argv = ("sh", "-c", scripts.READ_FILE, "sh", path, str(offset), str(size))
        async with aclosing(self._stream_output(argv, None, f"read {path}", path)) as pieces:
            async for data in pieces:
                yield data

    async def read_ends(self, folder: str, bytes_by_path: Mapping[str, int], *, reads_end: bool) -> dict[str, bytes]:
        """The first (`reads_end`: last) bytes of each readable file in a folder, zero-padded. Raises Unreadable."""
        listed = b"".join(f"{size}\0./{path}\0".encode() for path, size in bytes_by_path.items())
        words = (folder, str(len(listed)), "tail" if reads_end else "head")
        what = f"read files below {folder}"
        out, _ = await self._run(scripts.READ_ENDS, *words, stdin=listed, task=what, path=folder, limit=LIST_TIMEOUT)
        if len(out) != sum(bytes_by_path.values()) + len(bytes_by_path):
            raise Unreadable(f"Could not {what} in {self.label}: {len(out):,} bytes came.", "Try again.")
        found, at = {}, 0
        for path, size in bytes_by_path.items():
            if out[at : at + 1] == b"+":
                found[path] = out[at + 1 : at + 1 + size]
            at += 1 + size
        return found

    async def _stream_output(
        self, argv: Sequence[str], stdin: bytes | None, task: str, path: str, *, lenient: bool = False
    ) -> AsyncGenerator[bytes, None]:
        answer = self._new_limited_output(task)
        async with self.start(argv, stdin=stdin, action=f"{task} in {self.label}") as process:
            async for channel, data in process.output():
                if channel == 1:
                    yield data
                else:
                    answer.add(channel, data)
        if not (lenient and process.code in _PARTIAL_CODES):
            self._raise_if_failed(process.code, answer, path)

    async def file_size(self, path: str) -> int:
        out, _ = await self._run(scripts.FILE_SIZE, path, task=f"inspect {path}", path=path, limit=QUICK_TIMEOUT)
        try:
            return scripts.parse_byte_count(out.decode().strip() or "0")
        except ValueError:
            raise Unreadable(f"The size of {path} in {self.label} cannot be read: {out[:80]!r}.") from None

    async def write(self, path: str, chunks: AsyncIterator[bytes], offset: int, size: int) -> None:
        """Append `size` bytes to a file that has `offset` bytes so far; with offset 0 it is replaced."""
        await self._run(
            scripts.WRITE_PART,
            path,
            str(offset),
            str(size),
            stdin=chunks,
            task=f"write {path}",
            path=posixpath.dirname(path),
        )

    async def finish_file(self, part_name: str, final: str, entry: FileEntry) -> None:
        arguments = (part_name, final, f"{entry.mode:o}", str(entry.modified))
        await self._run(scripts.PUT_IN_PLACE, *arguments, task=f"write {final}", path=final, limit=QUICK_TIMEOUT)

    async def make_folder(self, path: str) -> None:
        await self._run(scripts.MAKE_FOLDER, path, task=f"make the folder {path}", path=path, limit=QUICK_TIMEOUT)

    async def sha256(self, folder: str, names: Sequence[str]) -> dict[str, str]:
        """SHA-256 checksums of files below a folder, by name; empty if sha256sum is missing."""
        found: dict[str, str] = {}
        try:
            if len(names) > 1:
                listed = b"".join(f"./{name}".encode() + b"\0" for name in names)
                argv = ("sh", "-c", scripts.CHECKSUMS, "sh", folder, str(len(listed)))
                what = f"compare {folder}"
                answer = self._new_limited_output(what)
                async with aclosing(self._stream_output(argv, listed, what, folder, lenient=True)) as pieces:
                    async for data in pieces:
                        answer.add(1, data)
                sums = scripts.parse_checksums(bytes(answer.out))
                found = {name.removeprefix("./"): value for name, value in sums.items()}
            for name in names:
                if name not in found and len(names) - len(found) <= 3:  # a name that is printed in an odd way
                    out_one, _ = await self._run(
                        scripts.CHECKSUM, posixpath.join(folder, name), task=f"compare {name}", path=name
                    )
                    found[name] = out_one[:_CHECKSUM_DIGITS].decode(errors="replace")
        except NotFound:
            return {}
        return found

    async def pack_tar(self, folder: str, names: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Yield a tar of these entries of a folder; a tar program other than GNU's packs the whole folder."""
        listed = b"".join(f"./{name}".encode() + b"\0" for name in names)
        what = f"pack {folder}"
        try:
            argv = ("sh", "-c", scripts.PACK_FILES, "sh", folder, str(len(listed)))
            async with aclosing(self._stream_output(argv, listed, what, folder, lenient=True)) as pieces:
                async for data in pieces:
                    yield data
        except CopyFailed as error:
            if error.code != scripts.EXIT_NOT_GNU:
                raise
        else:
            return
        everything = ("sh", "-c", scripts.PACK_TREE, "sh", folder)
        async with aclosing(self._stream_output(everything, None, what, folder, lenient=True)) as pieces:
            async for data in pieces:
                yield data

    async def unpack_tar(self, folder: str, chunks: AsyncIterator[bytes], size: int) -> None:
        """Unpack a tar of `size` bytes into a folder, which is created."""
        await self._run(scripts.UNPACK_TAR, folder, str(size), stdin=chunks, task=f"unpack into {folder}", path=folder)

    async def merge_folder(self, folder: str, final_path: str) -> None:
        await self._run(scripts.MERGE_TREES, folder, final_path, task=f"write {final_path}", path=final_path)

    async def list_folder(self, path: str) -> PodFolder:
        """The contents of a folder, or of the one that contains a file. Raises NotFound, NotAllowed or CopyFailed."""
        what = f"list {path or 'the folder'}"
        out, complaint = await self._run(scripts.LIST_FOLDER, safe_path(path), task=what, path=path, limit=LIST_TIMEOUT)
        where, _, rest = out.partition(b"\0")
        disk, _, entries = rest.partition(b"\0")
        amounts = [int(word) * 1024 for word in disk.split() if word.isdigit()]
        total, used, free = amounts if len(amounts) == 3 else (None, None, None)
        if entries.count(b"\0") > 2 * MAX_ENTRIES:
            hint = "Name a folder with fewer files, or list it there: a4 exec JOB POD -- ls"
            raise CopyFailed(f"Could not {what} in {self.label}: it has more than {MAX_ENTRIES:,} entries.", hint)
        found = sorted(scripts.parse_tree(entries), key=lambda each: (each.kind is not EntryKind.FOLDER, each.path))
        complaints = tuple(line.strip() for line in complaint.splitlines() if line.strip())
        return PodFolder(where.decode(errors="replace"), tuple(found), total, used, free, complaints)

    async def delete_path(self, path: str) -> None:
        """Delete a file, link or folder. Raises BadInput if not absolute or below the root, Conflict if mounted."""
        whole = posixpath.normpath(path)
        if not path.startswith("/") or whole.count("/") < 2:
            raise BadInput(f"{path} is not deleted.", "Give an absolute path with at least two levels: /data/tmp.")
        await self._run(scripts.DELETE_PATH, whole, task=f"delete {whole}", path=whole)


class _LimitedOutput:
    """The output of a command: all of stdout, and the beginning of stderr."""

    def __init__(self, failure: str) -> None:
        self.failure = failure  # how an error begins
        self.out = bytearray()
        self.complaint = ""
        self._complaint_bytes = 0

    def add(self, channel: int, data: bytes) -> None:
        """Add a piece of stdout (channel 1) or stderr. Raises CopyFailed if the output exceeds its limit."""
        if channel == 1:
            if len(self.out) + len(data) > MAX_LISTING_BYTES:
                hint = "Name a folder with fewer files, or pack it into one file there (tar)."
                raise CopyFailed(f"{self.failure}: the answer is longer than {MAX_LISTING_BYTES >> 20} MiB.", hint)
            self.out += data
            return
        self._complaint_bytes += len(data)
        if self._complaint_bytes > MAX_COMPLAINTS:
            last = self.complaint.partition("\n")[0][:200]
            raise CopyFailed(f"{self.failure}: it printed more than {MAX_COMPLAINTS >> 20} MiB of errors: {last}")
        if len(self.complaint) < _MAX_SHOWN_COMPLAINT:
            self.complaint = (self.complaint + data.decode(errors="replace"))[:_MAX_SHOWN_COMPLAINT]


@asynccontextmanager
async def closing_input(chunks: bytes | AsyncIterator[bytes] | None) -> AsyncIterator[None]:
    """Close `chunks`, the input of a command, at the end of the block if it is a generator."""
    try:
        yield
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def _is_not_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return True
    return False


def script_error(action: str, complaint: str, code: int) -> ConsoleError:
    """The error for a script that failed in a pod; the last line of its stderr is the reason."""
    why = complaint.strip().splitlines()[-1] if complaint.strip() else f"exit code {code}"
    hint = ""
    if "No space left" in complaint:
        hint = "Free some space there; the same command then continues where it stopped."
    elif "Permission denied" in complaint or "Read-only file system" in complaint:
        hint = "Choose a folder that the container's user may write, such as /tmp."
    elif "not found" in complaint:
        hint = "The image lacks a program that copying needs (sh, head, tail, tar)."
    return CopyFailed(f"{action}: {why.rstrip('.')}.", hint, code=code)


SFTP_MIN_BYTES = 32 << 20  # bytes from which a file is worth a connection to sshd, which takes half a second


class SftpFiles(PodFiles):
    """A container's files by SFTP from the first large file on; by shell commands without sshd, as `note` explains."""

    def __init__(
        self,
        start_command: StartCommand,
        label: str,
        connect: Callable[[], AbstractAsyncContextManager[SftpConnection]],
        stack: AsyncExitStack,
        *,
        only: bool,
    ) -> None:
        super().__init__(start_command, label)
        self._connect, self._stack, self._only_sftp = connect, stack, only
        self._sftp: SftpConnection | None = None
        self.method = CopyMethod.SFTP if only else CopyMethod.EXEC
        self.packs_small_files = not only

    async def _sftp_if_worthwhile(self, size: int) -> SftpConnection | None:
        """The SFTP connection, opened for a large file; None if all files were small so far or no sshd answers.

        If only SFTP may be used, raises the connection's error, and CopyFailed if no sshd answers.
        """
        if self._sftp is None and not self.note and (self._only_sftp or size >= SFTP_MIN_BYTES):
            try:
                self._sftp = await self._stack.enter_async_context(self._connect())
                self.method = CopyMethod.SFTP
            except ConsoleError as error:
                if self._only_sftp and isinstance(error, Unreachable):
                    raise CopyFailed(error.message, error.hint) from error  # it is not tried again
                if self._only_sftp:
                    raise
                self.note = f"Copied through exec, because SFTP could not be used: {error.message}"
        return self._sftp

    async def read(self, path: str, offset: int, size: int) -> AsyncGenerator[bytes, None]:
        sftp = await self._sftp_if_worthwhile(size)
        source = sftp.read_range(path, offset, size) if sftp else super().read(path, offset, size)
        async with aclosing(source) as pieces:
            async for data in pieces:
                yield data

    async def write(self, path: str, chunks: AsyncIterator[bytes], offset: int, size: int) -> None:
        sftp = await self._sftp_if_worthwhile(size)
        if sftp is None:
            await super().write(path, chunks, offset, size)
            return
        if offset and await self.file_size(path) != offset:
            raise CopyFailed("The part that was already copied has changed.")
        async with closing_input(chunks):
            await sftp.write_chunks(path, chunks, offset)
