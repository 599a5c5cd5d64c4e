"""From this machine to a container."""

from __future__ import annotations

import asyncio
import posixpath
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from console.errors import BadInput, CopyFailed, NotFound
from console.files import local
from console.files.fetch import BIG
from console.files.pod_files import safe
from console.files.tarring import length, pack
from console.models.copying import CopyProblem, CopyReport, Entry, EntryKind, Proof

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from console.files.meter import Meter
    from console.files.pod_files import PodFiles, Spot

_PIECE = 1 << 17
_BATCH = 256


class Send:
    """One copy of a file or a folder."""

    def __init__(self, files: PodFiles, meter: Meter) -> None:
        self._files, self._meter = files, meter
        self._problems: list[CopyProblem] = []
        self._proof = Proof.SHA256

    async def run(self, named: str, target: str) -> CopyReport:
        """Copy a path of this machine to `target` in the container, as `cp -a` would: into it, if it is a folder."""
        began = time.monotonic()
        source = local.home(named)
        with local.told(source):
            entry = await asyncio.to_thread(local.entry_of, source, "", follow=True)
        if entry is None:
            raise BadInput(f"There is no {source} on this machine.")
        if entry.kind is EntryKind.OTHER:
            raise BadInput(f"{source} is a device, pipe or socket: it has no content.")
        spot = await self._target(target)
        name = (await asyncio.to_thread(source.absolute)).name or "files"
        final = posixpath.join(spot.path, safe(name)) if spot.folder else spot.path
        if entry.file:
            entries = [entry]
            self._meter.total, self._meter.all_files = entry.size, 1
            self._check_space(spot, entry.size, final)
            await self._file(entry, source, final)
        else:
            if spot.kind is not None and not spot.folder:
                raise BadInput(f"{final} in {self._files.where} is a file: a folder cannot be put in its place.")
            entries = await self._folder(source, final, spot)
        there = [each for each in entries if each.file]
        return CopyReport(
            str(source), final, self._meter.files, sum(each.size for each in there), self._meter.resumed,
            time.monotonic() - began, self._files.way, self._proof, self._files.note, tuple(self._problems),
        )  # fmt: skip

    async def _target(self, target: str) -> Spot:
        if target.endswith("/"):
            await self._files.make_folder(safe(target))
        try:
            return await self._files.look(target)
        except NotFound:
            where = f"There is no folder {posixpath.dirname(target)} in {self._files.where}."
            raise NotFound(where, "End the target with / to have it made.") from None

    def _check_space(self, spot: Spot, needed: int, final: str) -> None:
        if spot.free is not None and needed > spot.free:
            raise CopyFailed(
                f"{posixpath.dirname(final)} in {self._files.where} has {local.in_words(spot.free)} free, "
                f"and the copy needs {local.in_words(needed)}.",
                "Free some space there, or choose another folder.",
            )

    # one file

    async def _file(self, entry: Entry, source: Path, final: str) -> None:
        """One file, gone on with where an earlier copy ended; under its name only once it is proved."""
        folder, name = posixpath.split(final)
        part = posixpath.join(folder, local.part_name(name, entry))
        for second in (False, True):
            have = await self._files.size(part)
            have = have if have <= entry.size else 0
            self._meter.there(have, whole=False)
            await self._push(entry, source, part)
            if await self._proved(source, part):
                break
            await self._files.make_folder(folder)
            self._meter.done -= entry.size
            now = await asyncio.to_thread(local.entry_of, source, "", follow=True)
            if not entry.same(now):
                raise CopyFailed(f"{source} changed while it was copied.", "Copy it again once it rests.")
            await self._files.write(part, _nothing(), 0, 0)
            if second:
                raise CopyFailed(f"{source} arrived damaged twice: its sum in the container is another one.")
        await self._files.place(part, final, entry)
        self._meter.finished()

    async def _push(self, entry: Entry, source: Path, part: str) -> None:
        async def attempt() -> bool:
            have = await self._files.size(part)
            offset = have if have <= entry.size else 0
            self._meter.done = self._meter.landed = before + offset
            if offset < entry.size or not entry.size:
                self._meter.tell(str(source))
                await self._files.write(part, self._chunks(source, offset, entry.size), offset, entry.size - offset)
            return True

        before = self._meter.done - await self._files.size(part)
        await self._meter.insist(str(source), attempt)

    async def _chunks(self, source: Path, offset: int, size: int) -> AsyncIterator[bytes]:
        with local.told(source):
            file = await local.opened(source)
            try:
                await asyncio.to_thread(file.seek, offset)
                while offset < size:
                    data = await asyncio.to_thread(file.read, min(_PIECE, size - offset))
                    if not data:
                        raise CopyFailed(f"{source} became shorter while it was copied.", "Copy it again.")
                    offset += len(data)
                    yield data
                    self._meter.sent(len(data))
            finally:
                file.close()

    async def _proved(self, source: Path, part: str) -> bool:
        self._meter.tell("comparing checksums")
        folder, name = posixpath.split(part)
        theirs = await self._files.sha256(folder, [name])
        if not theirs:
            self._proof = Proof.SIZE
            return True
        return theirs.get(name) == await asyncio.to_thread(local.sha256, source)

    # a folder

    async def _folder(self, source: Path, final: str, spot: Spot) -> list[Entry]:
        entries, self._problems[:] = await asyncio.to_thread(local.tree, source)
        files = [each for each in entries if each.file]
        self._meter.total, self._meter.all_files = sum(each.size for each in files), len(files)
        folder, name = posixpath.split(final)
        staging = posixpath.join(folder, local.part_name(name, Entry("", EntryKind.FOLDER)))
        staged, placed = await self._present(staging), await self._present(final)
        there = {each.path for each in files if each.same(staged.get(each.path)) or each.same(placed.get(each.path))}
        for entry in files:
            if entry.path in there:
                self._meter.there(entry.size, whole=True)
        missing = [each for each in files if each.path not in there]
        self._check_space(spot, sum(each.size for each in missing), final)
        others = [each for each in entries if not each.file]
        await self._together(source, staging, [*others, *(each for each in missing if self._small(each))])
        for entry in missing:
            if not self._small(entry):
                await self._file(entry, source / entry.path, posixpath.join(staging, entry.path))
        await self._check(source, staging, [each for each in files if not each.same(placed.get(each.path))])
        await self._check(source, final, [each for each in files if each.same(placed.get(each.path))])
        await self._files.merge(staging, final)
        return entries

    def _small(self, entry: Entry) -> bool:
        return self._files.together and entry.size < BIG

    async def _present(self, path: str) -> dict[str, Entry]:
        try:
            spot = await self._files.look(path)
        except NotFound:
            return {}
        entries = (await self._files.tree(path))[0] if spot.folder else []
        return {each.path: each for each in entries}

    async def _together(self, source: Path, staging: str, entries: Sequence[Entry]) -> None:
        """Folders, links and small files in one stream; after a break, those of them that are not there yet."""
        begun = self._meter.done

        def sent(entry: Entry, size: int) -> None:
            self._meter.tell(entry.path)
            self._meter.sent(size)

        async def attempt() -> bool:
            present = await self._present(staging) if self._meter.done > begun else {}
            left = [each for each in entries if not (each.file and each.same(present.get(each.path)))]
            self._meter.done = self._meter.landed = begun + sum(each.size for each in entries if each not in left)
            async with aclosing(pack(source, left, sent)) as packed:
                await self._files.unpack(staging, packed, length(left))
            return True

        await self._meter.insist(str(source), attempt)
        self._meter.done = begun + sum(each.size for each in entries)  # without what fills up blocks
        self._meter.files += sum(each.file for each in entries)
        self._meter.tell()

    async def _check(self, source: Path, folder: str, entries: Sequence[Entry]) -> None:
        """Send again, singly, each file whose sum is not that of the original."""
        for start in range(0, len(entries), _BATCH):
            batch = entries[start : start + _BATCH]
            self._meter.tell("comparing checksums")
            theirs = await self._files.sha256(folder, [each.path for each in batch])
            if not theirs:
                self._proof = Proof.SIZE
                return
            for entry in batch:
                if theirs.get(entry.path) != await asyncio.to_thread(local.sha256, source / entry.path):
                    self._meter.done -= entry.size
                    self._meter.files -= 1
                    await self._file(entry, source / entry.path, posixpath.join(folder, entry.path))


async def _nothing() -> AsyncIterator[bytes]:
    """No bytes."""
    return
    yield b""
