"""A single copy of a file or folder, from or to a container."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

from console.attach.files import local
from console.attach.files.copy_progress import (
    CopyMeter,
    CopyProblem,
    CopyReport,
    CopyVerification,
    EntryKind,
    FileEntry,
    format_size,
)
from console.attach.files.local import TarUnpacker, pack_tar, tar_length
from console.attach.files.pod_files import PathInfo, PodFiles, safe_path
from console.errors import BadInput, ConsoleError, CopyFailed, NotFound

MIN_SINGLE_BYTES = 32 << 20  # bytes from which a file is copied by itself, to be resumed; smaller ones go together
_TAR_HEADERS = 4096  # bytes that a tar has at most for each file beside its content, as a rule
_CHECKSUMS_AT_ONCE = 256  # files whose sums are asked for at a time


def local_name(source: str) -> str:
    """The local copy's name, by the typed path: a container could name any file. Empty for ".", ".." and "~"."""
    name = posixpath.basename(source.rstrip("/"))
    return "" if name in (".", "..", "~") else name


class _ContainerCopy:
    def __init__(self, files: PodFiles, meter: CopyMeter) -> None:
        self._files, self._meter = files, meter
        self._problems: list[CopyProblem] = []
        self._verification = CopyVerification.SHA256
        self._began_at = time.monotonic()

    def _make_report(self, source: str, target: str, entries: Sequence[FileEntry]) -> CopyReport:
        return CopyReport(
            source,
            target,
            self._meter.done_files,
            sum(each.size for each in entries if each.is_file),
            self._meter.resumed,
            time.monotonic() - self._began_at,
            self._files.method,
            self._verification,
            self._files.note,
            tuple(self._problems),
        )

    def _list_files(self, entries: Sequence[FileEntry]) -> list[FileEntry]:
        """The files among these entries; sets the meter's totals."""
        files = [each for each in entries if each.is_file]
        self._meter.total, self._meter.all_files = sum(each.size for each in files), len(files)
        return files

    async def _checksum_matches(self, local_path: Path, path: str) -> bool:
        folder, name = posixpath.split(path)
        self._meter.report("comparing checksums")
        theirs = await self._files.sha256(folder, [name])
        if not theirs:
            self._verification = CopyVerification.SIZE
            return True
        return theirs.get(name) == await asyncio.to_thread(local.sha256_of, local_path)

    async def _checksums(
        self, local_path: Path, folder: str, entries: Sequence[FileEntry]
    ) -> list[tuple[FileEntry, str | None, str]]:
        """For each file: entry, checksum in the container (None if unknown) and here; empty without sha256sum there."""
        found: list[tuple[FileEntry, str | None, str]] = []
        for start in range(0, len(entries), _CHECKSUMS_AT_ONCE):
            batch = entries[start : start + _CHECKSUMS_AT_ONCE]
            self._meter.report("comparing checksums")
            theirs = await self._files.sha256(folder, [each.path for each in batch])
            if not theirs:
                self._verification = CopyVerification.SIZE
                return []
            for entry in batch:
                found.append(
                    (entry, theirs.get(entry.path), await asyncio.to_thread(local.sha256_of, local_path / entry.path))
                )
        return found


class FetchCopy(_ContainerCopy):
    async def run(self, source: str, target: str) -> CopyReport:
        """Copy `source` of the container to `target` as `cp -a` does. Raises NotFound, CopyFailed or BadInput."""
        spot = await self._files.stat(source)
        if spot.kind is None:
            raise NotFound(f"There is no {source} in {self._files.label}.")
        if spot.kind is EntryKind.OTHER:
            raise CopyFailed(f"{source} in {self._files.label} is a device, pipe or socket: it has no content.")
        name = local_name(source) or self._files.label.replace(" ", "-").replace("/", "-")
        final = await asyncio.to_thread(local.resolve_target, target, name, folder=spot.is_folder)
        if spot.is_folder:
            entries = await self._fetch_folder(spot.path, final)
        else:
            entries = [FileEntry("", EntryKind.FILE, spot.size, spot.mode & 0o777, spot.modified)]
            self._list_files(entries)
            await self._fetch_file(entries[0], spot.path, final)
        return self._make_report(source, str(final), entries)

    async def _fetch_file(self, entry: FileEntry, path: str, final_path: Path) -> None:
        """Copy one file, resuming; named once its checksum is right. Raises CopyFailed if damaged twice."""
        for second in (False, True):
            part = local.PartialFile(final_path, entry)
            have = await asyncio.to_thread(part.received_bytes)
            await asyncio.to_thread(local.check_space, final_path.parent, entry.size - have)
            self._meter.add_existing(have, is_whole_file=False)
            shrunk = await self._download_part(part, path, entry)
            if shrunk or await self._checksum_matches(part.path, path):
                break
            now = await self._files.stat(path)
            if (now.size, now.modified) != (entry.size, entry.modified):
                self._problems.append(CopyProblem(entry.path or path, "It changed while it was copied."))
                break
            await asyncio.to_thread(part.delete)
            self._meter.done -= entry.size
            if second:
                raise CopyFailed(f"{path} arrived damaged twice: its checksum differs from the one in the container.")
        await asyncio.to_thread(local.finish_file, part.path, final_path, entry)
        self._meter.finish_file()

    async def _download_part(self, part: local.PartialFile, path: str, entry: FileEntry) -> bool:
        """Download a partial file; returns whether the original has become shorter. CopyFailed if too much comes."""
        shrunk = False

        async def attempt() -> bool:
            nonlocal shrunk
            offset = await asyncio.to_thread(part.received_bytes)
            if offset >= entry.size:
                await asyncio.to_thread(part.flush)  # an empty file too
                return True
            self._meter.report(path)
            try:
                left = entry.size - offset
                async with aclosing(self._files.read(path, offset, left)) as chunks:
                    async for data in chunks:
                        left -= len(data)
                        if left < 0:
                            await asyncio.to_thread(part.delete)
                            raise CopyFailed(f"{path}: the container sends more than the {entry.size} bytes it listed.")
                        self._meter.add_copied_bytes(len(data))
                        if part.buffer(data):
                            await asyncio.to_thread(part.flush)
            finally:
                await asyncio.to_thread(part.flush, only_waiting=True)
            if await asyncio.to_thread(part.received_bytes) == offset and await self._files.file_size(path) <= offset:
                self._problems.append(CopyProblem(entry.path or path, "It became shorter while it was copied."))
                shrunk = True
            return shrunk

        await self._meter.retry_while_progressing(path, attempt)
        return shrunk

    async def _fetch_folder(self, top: str, final: Path) -> list[FileEntry]:
        entries, self._problems[:] = await self._files.list_tree(top)
        entries = [each for each in entries if local.stays_inside(each.path) and not local.is_partial_file(each.path)]
        files = self._list_files(entries)
        await asyncio.to_thread(self._make_folders, final, entries)
        missing, present = await asyncio.to_thread(_split_existing, final, files)
        for entry in present:
            self._meter.add_existing(entry.size, is_whole_file=True)
        await asyncio.to_thread(local.check_space, final, sum(each.size for each in missing))
        small = [each for each in missing if each.size < MIN_SINGLE_BYTES]
        if len(small) > 1 and self._files.packs_small_files:
            await self._fetch_tar(top, final, small)
            missing, _ = await asyncio.to_thread(_split_existing, final, missing)
        for entry in missing:
            await self._fetch_single(entry, top, final)
        for entry, theirs, mine in await self._checksums(final, top, [each for each in files if each not in missing]):
            if theirs is None:
                self._verification = CopyVerification.SIZE
            elif theirs != mine:
                self._meter.done -= entry.size
                self._meter.done_files -= 1
                await self._fetch_single(entry, top, final)
        await asyncio.to_thread(self._finish_folders, final, entries)
        return entries

    def _make_folders(self, final_path: Path, entries: Sequence[FileEntry]) -> None:
        with local.translate_os_errors(final_path):
            if final_path.is_symlink():
                hint = "Name another target."
                raise CopyFailed(f"{final_path} is a link on this machine: folders are not copied through links.", hint)
            final_path.mkdir(exist_ok=True)
        for entry in entries:
            try:
                if entry.kind is EntryKind.FOLDER and entry.path:
                    path = local.prepare_target(final_path, entry.path)
                    with local.translate_os_errors(path):
                        if path.is_symlink():
                            raise CopyFailed(f"{path} is a link on this machine: links are not followed.")
                        path.mkdir(exist_ok=True)
                elif entry.kind is EntryKind.LINK:
                    local.create_link(final_path, entry)
            except CopyFailed as error:
                self._problems.append(CopyProblem(entry.path, str(error)))

    def _finish_folders(self, final_path: Path, entries: Sequence[FileEntry]) -> None:
        for entry in reversed([each for each in entries if each.kind is EntryKind.FOLDER]):
            try:
                local.set_folder_mode(final_path, entry)
            except CopyFailed as error:
                self._problems.append(CopyProblem(entry.path, str(error)))

    async def _fetch_tar(self, remote_folder: str, final: Path, entries: Sequence[FileEntry]) -> None:
        """Copy small files in one tar stream; files that the stream lacks are left to `_fetch_single`."""
        sizes = {each.path: each for each in entries}
        seen: dict[str, int] = {}

        def count_written(path: str, size: int) -> None:
            seen[path] = seen.get(path, 0) + size
            self._meter.report(path)
            self._meter.add_copied_bytes(size)

        unpacking = TarUnpacker(
            final, sizes, count_written, max_bytes=2 * self._meter.total + len(sizes) * _TAR_HEADERS + MIN_SINGLE_BYTES
        )

        async def attempt() -> bool:
            wanted = [path for path in sizes if path not in unpacking.created_paths]
            if wanted:
                async with aclosing(self._files.pack_tar(remote_folder, wanted)) as chunks:
                    await unpacking.unpack(chunks)
            return True

        try:
            await self._meter.retry_while_progressing(remote_folder, attempt)
        finally:
            self._meter.done -= sum(size for path, size in seen.items() if path not in unpacking.created_paths)
        self._meter.done_files += len(unpacking.created_paths)
        self._problems += unpacking.problems

    async def _fetch_single(self, entry: FileEntry, remote_folder: str, final_path: Path) -> None:
        """Copy one file of the folder; a failure is recorded as its problem and does not end the copy."""
        try:
            path = await asyncio.to_thread(local.prepare_target, final_path, entry.path)
            await self._fetch_file(entry, posixpath.join(remote_folder, entry.path), path)
        except CopyFailed as error:
            if "space" in error.hint or isinstance(error.__cause__, ConsoleError):
                raise
            self._problems.append(CopyProblem(entry.path, str(error)))
        except ConsoleError as error:
            if error.exit_code == 4:
                raise
            self._problems.append(CopyProblem(entry.path, error.message))


def _split_existing(final: Path, files: Sequence[FileEntry]) -> tuple[list[FileEntry], list[FileEntry]]:
    """Split files into those to copy and those that exist already with the same size and time."""
    missing: list[FileEntry] = []
    present: list[FileEntry] = []
    for entry in files:
        (present if entry.seems_unchanged(local.read_entry(final / entry.path, entry.path)) else missing).append(entry)
    return missing, present


_CHUNK_SIZE = 1 << 17


class SendCopy(_ContainerCopy):
    async def run(self, local_path: str, target: str) -> CopyReport:
        """Copy a local path to `target` in the container as `cp -a` does. Raises BadInput, NotFound, CopyFailed."""
        source = await asyncio.to_thread(Path(local_path).expanduser)
        with local.translate_os_errors(source):
            entry = await asyncio.to_thread(local.read_entry, source, "", follow=True)
        if entry is None:
            raise BadInput(f"There is no {source} on this machine.")
        if entry.kind is EntryKind.OTHER:
            raise BadInput(f"{source} is a device, pipe or socket: it has no content.")
        spot = await self._inspect_target(target)
        name = (await asyncio.to_thread(source.absolute)).name or "files"
        final = posixpath.join(spot.path, safe_path(name)) if spot.is_folder else spot.path
        if entry.is_file:
            entries = [entry]
            self._list_files(entries)
            self._check_space(spot, entry.size, final)
            await self._send_file(entry, source, final)
        else:
            if spot.kind is not None and not spot.is_folder:
                raise BadInput(f"{final} in {self._files.label} is a file: a folder cannot be put in its place.")
            entries = await self._send_folder(source, final, spot)
        return self._make_report(str(source), final, entries)

    async def _inspect_target(self, target: str) -> PathInfo:
        if target.endswith("/"):
            await self._files.make_folder(safe_path(target))
        try:
            return await self._files.stat(target)
        except NotFound:
            where = f"There is no folder {posixpath.dirname(target)} in {self._files.label}."
            raise NotFound(where, "End the target with / to have it made.") from None

    def _check_space(self, target_info: PathInfo, needed_bytes: int, final_path: str) -> None:
        if target_info.free is not None and needed_bytes > target_info.free:
            raise CopyFailed(
                f"{posixpath.dirname(final_path)} in {self._files.label} has {format_size(target_info.free)} free, "
                f"and the copy needs {format_size(needed_bytes)}.",
                "Free some space there, or choose another folder.",
            )

    async def _send_file(self, entry: FileEntry, source: Path, final_path: str) -> None:
        """Copy one file, resuming; named once its checksum is right. Raises CopyFailed if changed, or damaged twice."""
        folder, name = posixpath.split(final_path)
        part = posixpath.join(folder, local.part_name(name, entry, self._files.label))
        for second in (False, True):
            have = await self._files.file_size(part)
            have = have if have <= entry.size else 0
            self._meter.add_existing(have, is_whole_file=False)
            await self._send_bytes(entry, source, part)
            if await self._checksum_matches(source, part):
                break
            await self._files.make_folder(folder)
            self._meter.done -= entry.size
            now = await asyncio.to_thread(local.read_entry, source, "", follow=True)
            if not entry.seems_unchanged(now):
                raise CopyFailed(f"{source} changed while it was copied.", "Copy it again when nothing writes to it.")
            await self._files.write(part, _no_chunks(), 0, 0)
            if second:
                raise CopyFailed(f"{source} arrived damaged twice: its checksum in the container differs.")
        await self._files.finish_file(part, final_path, entry)
        self._meter.finish_file()

    async def _send_bytes(self, entry: FileEntry, source: Path, part_name: str) -> None:
        async def attempt() -> bool:
            have = await self._files.file_size(part_name)
            offset = have if have <= entry.size else 0
            self._meter.done = self._meter.landed = before + offset
            if offset < entry.size or not entry.size:
                self._meter.report(str(source))
                await self._files.write(
                    part_name, self._read_chunks(source, offset, entry.size), offset, entry.size - offset
                )
            return True

        before = self._meter.done - await self._files.file_size(part_name)
        await self._meter.retry_while_progressing(str(source), attempt)

    async def _read_chunks(self, source: Path, offset: int, size: int) -> AsyncIterator[bytes]:
        with local.translate_os_errors(source):
            file = await local.open_in_thread(source)
            try:
                await asyncio.to_thread(file.seek, offset)
                while offset < size:
                    data = await asyncio.to_thread(file.read, min(_CHUNK_SIZE, size - offset))
                    if not data:
                        raise CopyFailed(f"{source} became shorter while it was copied.", "Copy it again.")
                    offset += len(data)
                    yield data
                    self._meter.add_file(len(data))
            finally:
                file.close()

    async def _send_folder(self, source: Path, final_path: str, target_info: PathInfo) -> list[FileEntry]:
        entries, self._problems[:] = await asyncio.to_thread(local.list_tree, source)
        files = self._list_files(entries)
        folder, name = posixpath.split(final_path)
        staging = posixpath.join(folder, local.part_name(name, FileEntry("", EntryKind.FOLDER), self._files.label))
        staged, placed = await self._list_existing(staging), await self._list_existing(final_path)
        there = {
            each.path
            for each in files
            if each.seems_unchanged(staged.get(each.path)) or each.seems_unchanged(placed.get(each.path))
        }
        for entry in files:
            if entry.path in there:
                self._meter.add_existing(entry.size, is_whole_file=True)
        missing = [each for each in files if each.path not in there]
        self._check_space(target_info, sum(each.size for each in missing), final_path)
        others = [each for each in entries if not each.is_file]
        await self._send_tar(source, staging, [*others, *(each for each in missing if self._fits_in_tar(each))])
        for entry in missing:
            if not self._fits_in_tar(entry):
                await self._send_file(entry, source / entry.path, posixpath.join(staging, entry.path))
        await self._resend_damaged(
            source, staging, [each for each in files if not each.seems_unchanged(placed.get(each.path))]
        )
        await self._resend_damaged(
            source, final_path, [each for each in files if each.seems_unchanged(placed.get(each.path))]
        )
        await self._files.merge_folder(staging, final_path)
        return entries

    def _fits_in_tar(self, entry: FileEntry) -> bool:
        return self._files.packs_small_files and entry.size < MIN_SINGLE_BYTES

    async def _list_existing(self, path: str) -> dict[str, FileEntry]:
        try:
            spot = await self._files.stat(path)
        except NotFound:
            return {}
        entries = (await self._files.list_tree(path))[0] if spot.is_folder else []
        return {each.path: each for each in entries}

    async def _send_tar(self, source: Path, staging: str, entries: Sequence[FileEntry]) -> None:
        """Copy folders, links and small files in one tar stream; a retry sends only what is missing."""
        begun = self._meter.done

        def count_sent(entry: FileEntry, size: int) -> None:
            self._meter.report(entry.path)
            self._meter.add_file(size)

        async def attempt() -> bool:
            present = await self._list_existing(staging) if self._meter.done > begun else {}
            left = [each for each in entries if not (each.is_file and each.seems_unchanged(present.get(each.path)))]
            self._meter.done = self._meter.landed = begun + sum(each.size for each in entries if each not in left)
            async with aclosing(pack_tar(source, left, count_sent)) as packed:
                await self._files.unpack_tar(staging, packed, tar_length(left))
            return True

        await self._meter.retry_while_progressing(str(source), attempt)
        self._meter.done = begun + sum(each.size for each in entries)  # without what fills up blocks
        self._meter.done_files += sum(each.is_file for each in entries)
        self._meter.report()

    async def _resend_damaged(self, source: Path, folder: str, entries: Sequence[FileEntry]) -> None:
        for entry, theirs, mine in await self._checksums(source, folder, entries):
            if theirs != mine:
                self._meter.done -= entry.size
                self._meter.done_files -= 1
                await self._send_file(entry, source / entry.path, posixpath.join(folder, entry.path))


async def _no_chunks() -> AsyncIterator[bytes]:
    return
    yield b""
