"""Checkpoints in a container's file system, read by one command at a time, or in a bucket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from posixpath import basename
from typing import TYPE_CHECKING

from console.attach.files.copies import EntryKind
from console.checkpoints.judge import StoredFile, Survey, survey_checkpoints
from console.errors import NotFound, Unreadable
from console.google.storage import CloudStorage, GcsPlace

if TYPE_CHECKING:
    from console.attach.files.pod_files import PodFiles

MAX_FILES = 100_000  # below the folder that is looked through
MAX_READ = 256 << 20  # bytes of headers and small files that are read of all checkpoints together
BATCH_BYTES = 16 << 20  # bytes that one command in a container reads
FIRST_READ = 4096  # bytes of the beginning of a safetensors file, more than the header of most


async def survey_container(files: PodFiles, folder: str, now: float, most: int = MAX_FILES) -> Survey:
    """The checkpoints below a folder of a container that holds `most` files. NotFound, NotAllowed, Unreachable."""
    place = await files.stat(folder)
    if not place.folder:
        raise NotFound(f"There is no folder {folder} in {files.where}.")
    entries, _ = await files.list_tree(place.path)
    found = [StoredFile(each.path, each.size, each.modified) for each in entries if each.file]
    folders = [each.path for each in entries if each.kind is EntryKind.FOLDER and each.path]
    reader = _BatchedReader(lambda wanted, tail: files.read_ends(place.path, wanted, tail=tail))
    _require_few_files(len(found), folder, most)
    return await survey_checkpoints(found, reader, now, basename(place.path), folders)


async def find_saved_folder(files: PodFiles, folder: str) -> str:
    """The folder that a log names, which may be relative to where the training runs. Unreadable if it runs in many."""
    if folder.startswith("/"):
        return folder
    found = await files.find_for_training(folder)
    if len(found) > 1:
        places = ", ".join(found[:3])
        raise Unreadable(f"{folder}, which the log names, is not one folder in {files.where}: {places}.", "Name one.")
    return found[0] if found else folder


async def survey_bucket(storage: CloudStorage, place: GcsPlace, now: float, most: int = MAX_FILES) -> Survey:
    """The checkpoints below a folder of a bucket that holds `most` files; NotFound where nothing is there."""
    found: list[StoredFile] = []
    folders: list[str] = []  # that are objects of their own, as gcsfuse makes them
    async with aclosing(storage.iter_tree(place)) as objects:
        async for each in objects:
            inside = each.name[len(place.folder) :]
            if inside and each.is_folder:
                folders.append(inside.rstrip("/"))
            elif inside:
                found.append(StoredFile(inside, each.bytes, each.updated))
            _require_few_files(len(found) + len(folders), str(place), most)
    if not found:
        raise NotFound(f"There is nothing at {place}.", "a4 ls shows what there is.")
    sizes = {each.path: each.size for each in found}
    begun: dict[str, bytes] = {}  # how the files begin, as far as it came with what was asked for

    async def read(wanted: Mapping[str, int], tail: bool) -> dict[str, bytes]:
        known = {path: begun.pop(path) for path in wanted if not tail and path in begun}
        known = {path: data for path, data in known.items() if len(data) >= min(wanted[path], sizes[path])}
        # The header of a safetensors file comes with its length: a second request costs more than some bytes.
        parts = {
            path: (max(0, sizes[path] - size), size) if tail
            else (0, max(size, FIRST_READ if path.endswith(".safetensors") else 0))
            for path, size in wanted.items()
            if path not in known
        }  # fmt: skip
        came = await storage.read_parts(place.bucket, {place.folder + path: part for path, part in parts.items()})
        for path, (_, ahead) in parts.items():
            if data := came[place.folder + path]:  # else it was deleted meanwhile
                known[path] = data
                if ahead > wanted[path]:
                    begun[path] = data
        return {path: data[: wanted[path]] for path, data in known.items()}

    return await survey_checkpoints(found, _BatchedReader(read), now, basename(place.path.rstrip("/")), folders)


def _require_few_files(count: int, where: str, most: int) -> None:
    if count > most:
        raise Unreadable(f"There are more than {most:,} files below {where}.", "Name a folder with fewer.")


@dataclass(slots=True)
class _BatchedReader:
    """Reads in parts of limited size, and not more than all together may have."""

    read: Callable[[Mapping[str, int], bool], Awaitable[dict[str, bytes]]]
    left: int = MAX_READ

    async def read_heads(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return await self._read_all(wanted, tail=False)

    async def read_tails(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        return await self._read_all(wanted, tail=True)

    async def _read_all(self, wanted: Mapping[str, int], *, tail: bool) -> dict[str, bytes]:
        self.left -= sum(wanted.values())
        if self.left < 0:
            hint = "Name a folder with fewer."
            raise Unreadable(f"The headers of these checkpoints have more than {MAX_READ >> 20} MiB.", hint)
        found: dict[str, bytes] = {}
        rest = iter(wanted.items())
        while part := dict(islice(rest, 1)):
            size = sum(part.values())
            for path, length in rest:
                part[path] = length
                size += length
                if size > BATCH_BYTES:
                    break
            found.update(await self.read(part, tail))
        return found
