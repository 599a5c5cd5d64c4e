"""Reads checkpoints in a container's file system or in a bucket; a job's folder is the one that its log names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from posixpath import basename
from typing import TYPE_CHECKING

from console.attach.files.copy_progress import EntryKind
from console.checkpoints.completeness import StoredFile, Survey, survey_checkpoints
from console.checkpoints.saved_state import SavedState
from console.errors import ConsoleError, NotFound, Unreachable, Unreadable
from console.google.bucket_paths import GcsPlace, parse_gcs_address
from console.google.storage import CloudStorage
from console.kube.find_job import find_job
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.lost_work import saved_folder
from console.scheduling.pod_slots import pod_slots

if TYPE_CHECKING:
    from console.attach.files.container_copies import FileCopies
    from console.attach.files.pod_files import PodFiles
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.measure_service import MeasureService

UNASKED_TIMEOUT = 60.0  # seconds after which a folder that was not asked for by a command is given up
MAX_FILES_UNASKED = 20_000  # that are looked at then
MAX_FILES = 100_000  # below the folder that is looked through
MAX_READ_BYTES = 256 << 20  # bytes of headers and small files that are read of all checkpoints together
BATCH_BYTES = 16 << 20  # bytes that one command in a container reads
SAFETENSORS_HEAD_BYTES = 4096  # bytes of the beginning of a safetensors file, more than the header of most


class CheckpointReader:
    """Reads the checkpoints of jobs, one job at a time, and keeps the last result of each."""

    def __init__(
        self,
        cluster: WatchedCluster,
        measures: Callable[[], MeasureService],
        copies: Callable[[], FileCopies],
        storage: Callable[[], CloudStorage],
    ) -> None:
        self._cluster, self._measures, self._copies, self._storage = cluster, measures, copies, storage
        self._lock = asyncio.Lock()
        self.saved_states: dict[tuple[str, str], SavedState] = {}

    def on_context_changed(self) -> None:
        self.saved_states.clear()

    async def find_folder(self, namespace: str, name: str) -> str:
        """The checkpoint folder that the job's log names, reading the log if nobody follows it. Raises NotFound."""
        find_job(self._cluster.fleet, namespace, name)
        if place := saved_folder(await self._measures().read_log(namespace, name)):
            return place
        raise NotFound(
            f"The log of {name} does not say where it saves checkpoints.",
            f"Name the folder: a4 checkpoints {name}:0:/PATH, or gs://BUCKET/FOLDER.",
        )

    async def read_job(self, namespace: str, name: str) -> SavedState:
        """Read a job's checkpoints in its first pod or in the bucket; a failure is in the result's `problem`."""
        key = namespace, name
        async with self._lock:
            begun, found = time.monotonic(), SavedState(SERVER_CLOCK.now())
            try:
                async with asyncio.timeout(UNASKED_TIMEOUT):
                    found = replace(found, folder=await self.find_folder(*key))
                    found = await self._survey_place(key, found)
            except TimeoutError:
                found = replace(
                    found, problem=f"The log and the folder of {key[1]} could not be read in {UNASKED_TIMEOUT:.0f} s."
                )
            except ConsoleError as error:
                missing = bool(found.folder) and isinstance(error, NotFound)
                found = replace(found, problem=error.message, folder_missing=missing)
            if found.survey is not None:
                files = sum(each.files for each in found.survey.checkpoints)
                took = f"{files:,} {'file' if files == 1 else 'files'} in {time.monotonic() - begun:.1f} s"
                found = replace(found, by=f"{took}, {found.by}")
            self.saved_states[key] = found
            return found

    async def _survey_place(self, key: tuple[str, str], saved_state: SavedState) -> SavedState:
        if saved_state.folder.startswith("gs:"):
            place = parse_gcs_address(saved_state.folder)
            survey = await survey_bucket(self._storage(), place, saved_state.read_at, max_files=MAX_FILES_UNASKED)
            return replace(saved_state, survey=survey, by="by listing the bucket")
        fleet = self._cluster.fleet
        first = next(iter(pod_slots(find_job(fleet, *key), fleet)), None)
        pod = first.pod if first is not None and first.phase == "Running" else None
        if pod is None or pod.main is None:
            raise Unreachable(f"Pod 0 of {key[1]} does not run.")
        copies = self._copies().for_container(*pod.key, container=pod.main.name, label=f"pod 0 of {key[1]}")
        files = copies.command_files()
        saved_state = replace(saved_state, folder=await find_saved_folder(files, saved_state.folder))
        survey = await survey_container(files, saved_state.folder, saved_state.read_at, limit=MAX_FILES_UNASKED)
        return replace(saved_state, survey=survey, by="by commands in pod 0")


async def survey_container(files: PodFiles, folder: str, now: float, limit: int = MAX_FILES) -> Survey:
    """The checkpoints below a container folder, of at most `limit` files. Raises NotFound, NotAllowed, Unreachable."""
    place = await files.stat(folder)
    if not place.is_folder:
        raise NotFound(f"There is no folder {folder} in {files.label}.")
    entries, _ = await files.list_tree(place.path)
    found = [StoredFile(each.path, each.size, each.modified) for each in entries if each.is_file]
    folders = [each.path for each in entries if each.kind is EntryKind.FOLDER and each.path]
    reader = _BatchedReader(lambda wanted, tail: files.read_ends(place.path, wanted, reads_end=tail))
    _require_few_files(len(found), folder, limit)
    return await survey_checkpoints(found, reader, now, basename(place.path), folders)


async def find_saved_folder(files: PodFiles, folder: str) -> str:
    """The absolute path of a log's checkpoint folder if a pod has it, else `folder`. Raises Unreadable if ambiguous."""
    if folder.startswith("/"):
        return folder
    found = await files.find_for_training(folder)
    if len(found) > 1:
        places = ", ".join(found[:3])
        raise Unreadable(f"{folder}, which the log names, is not one folder in {files.label}: {places}.", "Name one.")
    return found[0] if found else folder


async def survey_bucket(storage: CloudStorage, place: GcsPlace, now: float, max_files: int = MAX_FILES) -> Survey:
    """The checkpoints below a bucket folder of at most `max_files` files. Raises NotFound if it is empty."""
    found: list[StoredFile] = []
    folders: list[str] = []  # that are objects of their own, as gcsfuse makes them
    async with aclosing(storage.iter_tree(place)) as objects:
        async for each in objects:
            inside = each.name[len(place.folder) :]
            if inside and each.is_folder:
                folders.append(inside.rstrip("/"))
            elif inside:
                found.append(StoredFile(inside, each.bytes, each.updated))
            _require_few_files(len(found) + len(folders), str(place), max_files)
    if not found:
        raise NotFound(f"There is nothing at {place}.", "a4 ls shows what there is.")
    sizes = {each.path: each.size for each in found}
    begun: dict[str, bytes] = {}  # how the files begin, as far as it came with what was asked for

    async def read(bytes_by_path: Mapping[str, int], reads_end: bool) -> dict[str, bytes]:
        known = {path: begun.pop(path) for path in bytes_by_path if not reads_end and path in begun}
        known = {path: data for path, data in known.items() if len(data) >= min(bytes_by_path[path], sizes[path])}
        # The header of a safetensors file comes with its length: a second request costs more than some bytes.
        parts = {
            path: (max(0, sizes[path] - size), size)
            if reads_end
            else (0, max(size, SAFETENSORS_HEAD_BYTES if path.endswith(".safetensors") else 0))
            for path, size in bytes_by_path.items()
            if path not in known
        }
        came = await storage.read_parts(place.bucket, {place.folder + path: part for path, part in parts.items()})
        for path, (_, ahead) in parts.items():
            if data := came[place.folder + path]:  # else it was deleted meanwhile
                known[path] = data
                if ahead > bytes_by_path[path]:
                    begun[path] = data
        return {path: data[: bytes_by_path[path]] for path, data in known.items()}

    return await survey_checkpoints(found, _BatchedReader(read), now, basename(place.path.rstrip("/")), folders)


def _require_few_files(count: int, folder: str, limit: int) -> None:
    if count > limit:
        raise Unreadable(f"There are more than {limit:,} files below {folder}.", "Name a folder with fewer.")


@dataclass(slots=True)
class _BatchedReader:
    """Reads parts of files in batches; a batch and the sum of all are limited in size."""

    read_batch: Callable[[Mapping[str, int], bool], Awaitable[dict[str, bytes]]]
    bytes_left: int = MAX_READ_BYTES

    async def read_heads(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return await self._read_all(bytes_by_path, reads_end=False)

    async def read_tails(self, bytes_by_path: Mapping[str, int]) -> dict[str, bytes]:
        return await self._read_all(bytes_by_path, reads_end=True)

    async def _read_all(self, bytes_by_path: Mapping[str, int], *, reads_end: bool) -> dict[str, bytes]:
        self.bytes_left -= sum(bytes_by_path.values())
        if self.bytes_left < 0:
            hint = "Name a folder with fewer."
            raise Unreadable(f"The headers of these checkpoints have more than {MAX_READ_BYTES >> 20} MiB.", hint)
        found: dict[str, bytes] = {}
        rest = iter(bytes_by_path.items())
        while part := dict(islice(rest, 1)):
            size = sum(part.values())
            for path, length in rest:
                part[path] = length
                size += length
                if size > BATCH_BYTES:
                    break
            found.update(await self.read_batch(part, reads_end))
        return found
