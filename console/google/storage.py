"""Storage for a cluster: buckets and their objects, uploads of logs, Lustre and Filestore instances."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from console.attach.files.copy_progress import CopyMeter, CopyProgress
from console.errors import BadInput, Conflict, ConsoleError, NotFound, Unreadable
from console.google.bucket_paths import Bucket, GcsPlace, StoredObject

if TYPE_CHECKING:
    from console.google.account import GoogleAccount
    from console.google.api.cloud_storage import Buckets
    from console.kube.nested_values import Value
    from console.logs.log_service import LogService


LATEST_MARKER = "latest_checkpointed_iteration.txt"
"""Name of Megatron's file that holds the iteration of the last complete checkpoint."""
TENSORBOARD_FOLDER = "tensorboard"  # the folder of a result tree that TensorBoard is to be pointed at


@dataclass(frozen=True, slots=True)
class FolderListing:
    place: GcsPlace
    objects: tuple[StoredObject, ...]  # folders first
    note: str = ""  # what there is to say about it: its checkpoints, a TensorBoard folder
    has_more: bool = False  # whether there is more than was asked for


@dataclass(frozen=True, slots=True)
class FetchReport:
    source: str
    target: str
    files: int
    bytes: int
    kept: int  # files that were there already, whole and the same
    seconds: float
    problems: tuple[tuple[str, str], ...] = ()  # object -> why it was left out


@dataclass(frozen=True, slots=True)
class StoreReport:
    place: str
    objects: tuple[tuple[str, int], ...]  # name under the place -> lines


@dataclass(frozen=True, slots=True)
class LustreInstance:
    project: str
    location: str  # a zone
    name: str
    state: str  # ACTIVE, CREATING, ...
    filesystem: str
    mount_point: str  # "10.0.0.2@tcp:/lustrefs"
    gib: int
    network: str
    throughput: int = 0  # MB/s per TiB
    legacy_port: bool = False  # whether it was made for clients of GKE that use the legacy port
    why: str = ""

    @property
    def ready(self) -> bool:
        return self.state == "ACTIVE"

    @property
    def endpoint(self) -> str:
        """The mount source; empty while there is none."""
        return self.mount_point

    @property
    def server(self) -> str:
        return self.mount_point.partition("@")[0]

    def launch_values(self) -> dict[str, Value]:
        filled: dict[str, Value] = {
            "claim": f"{self.name}-pvc",
            "server": self.server,
            "filesystem": self.filesystem or self.mount_point.rpartition("/")[2],
            "instance": self.name,
            "project": self.project,
            "location": self.location,
            "size": f"{self.gib}Gi",
        }
        return {"storage": {"lustre": filled}}


@dataclass(frozen=True, slots=True)
class FilestoreInstance:
    project: str
    location: str
    name: str
    state: str  # READY, CREATING, ...
    tier: str
    share: str
    gib: int
    address: str
    network: str
    why: str = ""

    @property
    def ready(self) -> bool:
        return self.state == "READY"

    @property
    def endpoint(self) -> str:
        """The mount source; empty while there is none."""
        return f"{self.address}:/{self.share}" if self.address else ""

    @property
    def server(self) -> str:
        return self.address

    def launch_values(self) -> dict[str, Value]:
        filled: dict[str, Value] = {
            "claim": f"{self.name}-pvc",
            "server": self.address,
            "share": self.share,
            "instance": self.name,
            "location": self.location,
            "size": f"{self.gib}Gi",
        }
        return {"storage": {"nfs": filled}}


InstanceT = TypeVar("InstanceT", LustreInstance, FilestoreInstance)


def bucket_values(bucket: str) -> dict[str, Value]:
    return {"storage": {"gcs": {bucket: "/gcs"}}}


def sort_and_mark_checkpoints(objects: Iterable[StoredObject], latest: int | None) -> tuple[StoredObject, ...]:
    """Sort folders first, checkpoints by iteration; mark the last that Megatron's file `latest` calls complete."""
    found = [replace(each, latest=latest is not None and each.iteration == latest) for each in objects]
    return tuple(sorted(found, key=lambda each: (not each.is_folder, each.iteration or 0, each.name)))


MAX_FETCHED_OBJECTS = 1_000_000  # objects that one fetch brings
MAX_CONCURRENT_OBJECTS = 4  # objects that come at the same time


class CloudStorage:
    """Buckets and file systems that the login can see, and uploads of job logs."""

    def __init__(self, account: GoogleAccount, logs: Callable[[], LogService]) -> None:
        self._account = account
        self._logs = logs
        self._buckets: dict[str, Buckets] = {}

    async def close(self) -> None:
        made, self._buckets = list(self._buckets.values()), {}
        for each in made:
            await each.close()

    async def project_or_default(self, project: str = "") -> str:
        """The given project, else the cluster's, else the login's. Raises BadInput if there is none."""
        found = project or await self._account.default_project()
        if not found:
            raise BadInput("No cluster is connected, and the login names no project.", "Name one: --project ID.")
        return found

    async def cluster_region(self) -> str:
        try:
            return (await self._account.cluster_place()).region
        except NotFound:
            return ""

    async def _buckets_of(self, project: str = "") -> Buckets:
        if not project:
            project = await self._account.default_project()
        if project not in self._buckets:
            made = await self._account.client("cloud_storage", lambda api, login: api.Buckets(login, project))
            self._buckets[project] = made
        return self._buckets[project]

    async def list_buckets(self, project: str = "") -> tuple[Bucket, ...]:
        """The buckets of the project, nearest to the cluster first."""
        found = await (await self._buckets_of(await self.project_or_default(project))).list_buckets()
        region = await self.cluster_region()
        return tuple(
            sorted(found, key=lambda each: (not each.is_near(region), each.location_type != "region", each.name))
        )

    async def list_folder(self, place: GcsPlace) -> FolderListing:
        """The contents of a folder; checkpoints are sorted by iteration, and the last complete one is marked."""
        buckets = await self._buckets_of()
        if place.path and not place.path.endswith("/"):
            place = GcsPlace(place.bucket, place.folder)
        objects, more = await buckets.list_folder(place)
        latest = None
        if any(each.title == LATEST_MARKER for each in objects):
            text = (await buckets.read_bytes(GcsPlace(place.bucket, place.folder + LATEST_MARKER), limit=100)).strip()
            latest = int(text) if text.isdigit() else None
        return FolderListing(
            place, sort_and_mark_checkpoints(objects, latest), _listing_note(place, objects, latest), more
        )

    async def iter_tree(self, place: GcsPlace) -> AsyncGenerator[StoredObject, None]:
        async with aclosing((await self._buckets_of()).iter_tree(place)) as found:
            async for each in found:
                yield each

    async def read_parts(self, bucket: str, byte_ranges: Mapping[str, tuple[int, int]]) -> dict[str, bytes]:
        """By object name its bytes for (offset, maximum bytes); fewer at its end, empty past that or if missing."""
        return await (await self._buckets_of()).read_parts(bucket, byte_ranges)

    async def fetch_folder(
        self, place: GcsPlace, folder: Path, progress: Callable[[CopyProgress], None] = lambda _: None
    ) -> FetchReport:
        """Download an object or folder; whole local files are kept, failures reported. Raises NotFound, Unreadable."""
        start = time.monotonic()
        buckets = await self._buckets_of()
        wanted: list[tuple[StoredObject, Path]] = []
        problems: list[tuple[str, str]] = []
        base = place.folder.rstrip("/").rpartition("/")[0]
        async with aclosing(buckets.iter_tree(place)) as found:
            async for each in found:
                if each.name.endswith("/"):
                    continue  # a folder that was made by hand: its name is all it is
                if len(wanted) + len(problems) >= MAX_FETCHED_OBJECTS:
                    raise Unreadable(
                        f"There are more than {MAX_FETCHED_OBJECTS:,} objects below {place}.", "Fetch less of it."
                    )
                inside = each.name[len(base) :].lstrip("/")
                parts = PurePosixPath(inside).parts
                if not inside or inside.startswith("/") or ".." in parts or "\0" in inside or "//" in inside:
                    problems.append((each.name, "Its name is not a valid file name in that folder."))
                else:
                    wanted.append((each, folder / inside))
        if not wanted and not problems:
            raise NotFound(f"There is nothing at {place}.", "a4 ls shows what there is.")
        meter, kept = CopyMeter(progress), 0
        meter.total, meter.all_files = sum(each.bytes for each, _ in wanted), len(wanted)
        room = asyncio.Semaphore(MAX_CONCURRENT_OBJECTS)

        async def download(obj: StoredObject, target: Path) -> None:
            nonlocal kept
            async with room:
                meter.report(obj.name)
                try:
                    came: bool = await self._account.call(
                        "cloud_storage",
                        lambda api, _: api.download_object(buckets, place.bucket, obj, target, meter.add_file),
                    )
                except ConsoleError as error:
                    problems.append((obj.name, str(error)))
                else:
                    kept += not came
                    meter.finish_file()

        async with asyncio.TaskGroup() as group:
            for stored, target in wanted:
                group.create_task(download(stored, target))
        seconds = time.monotonic() - start
        return FetchReport(str(place), str(folder), meter.done_files, meter.done, kept, seconds, tuple(problems))

    async def store_logs(self, namespace: str, job: str, place: GcsPlace, *, replace: bool = False) -> StoreReport:
        """Upload the logs of all ranks of a job to a bucket. Raises Conflict if the folder is not empty.

        The folder gets pod-logs/coordinator.log (rank 0), pod-logs/worker-N.log, nccl-test-results.txt if rank 0
        printed tables of an NCCL test, connectivity-test.log if it printed results of that test. NotFound without logs.
        """
        from console.logs.log_folder import RankLogFiles

        self._account.require_writable(f"store the logs of {job}")
        buckets = await self._buckets_of()
        there, _ = await buckets.list_folder(GcsPlace(place.bucket, place.folder), limit=1)
        if there and not replace:
            raise Conflict(f"{place} is not empty.", "Choose another folder, or replace what is there.")
        with tempfile.TemporaryDirectory(prefix="a4-logs-") as folder:
            logs = RankLogFiles(Path(folder))
            async with (
                self._logs().open_job_log(namespace, job, once=True) as log,
                aclosing(log.iter_lines()) as batches,
            ):
                async for batch in batches:
                    await asyncio.to_thread(logs.add_lines, batch)
            if not logs.lines_by_file:
                raise NotFound(f"There are no logs of {job}.", "Does the job exist in this namespace?")
            for name in logs.lines_by_file:
                await buckets.upload(GcsPlace(place.bucket, place.folder + name), logs.file_path(name), replace=replace)
            return StoreReport(str(place), tuple(logs.lines_by_file.items()))

    async def list_lustre(self, project: str = "") -> tuple[LustreInstance, ...]:
        """Lustre instances of the project, those in the cluster's zones first."""
        project = await self.project_or_default(project)
        found = await self._account.call("file_systems", lambda api, login: api.list_lustre(login, project))
        return _nearest_first(found, await self.cluster_region())

    async def list_filestore(self, project: str = "") -> tuple[FilestoreInstance, ...]:
        """Filestore shares of the project, those in the cluster's region first."""
        project = await self.project_or_default(project)
        found = await self._account.call("file_systems", lambda api, login: api.list_filestore(login, project))
        return _nearest_first(found, await self.cluster_region())


def _nearest_first(instances: Iterable[InstanceT], region: str) -> tuple[InstanceT, ...]:
    """File systems sorted: those of the cluster's region first, and mountable ones before others."""

    def remoteness(instance: InstanceT) -> tuple[bool, bool]:
        near = bool(region) and instance.location.split("-")[:2] == region.split("-")[:2]
        return not near, not instance.ready

    return tuple(sorted(instances, key=remoteness))


def _listing_note(place: GcsPlace, objects: Sequence[StoredObject], latest_iteration: int | None) -> str:
    iterations = [each.iteration for each in objects if each.iteration is not None]
    if iterations:
        found = f"{len(iterations)} checkpoint{'' if len(iterations) == 1 else 's'}, the last of iteration"
        words = f"{found} {max(iterations)}."
        if latest_iteration is None:
            return f"{words} No {LATEST_MARKER} says which one is complete."
        if latest_iteration not in iterations:
            return f"{words} {LATEST_MARKER} names {latest_iteration}, which does not exist here."
        return (
            words
            if latest_iteration == max(iterations)
            else f"{words} {LATEST_MARKER} names {latest_iteration}: later ones may be incomplete."
        )
    folder = next((each for each in objects if each.title == f"{TENSORBOARD_FOLDER}/"), None)
    inside = f"/{TENSORBOARD_FOLDER}/" in f"/{place.path}"
    if folder is None and not inside:
        return ""
    path = folder.name if folder else place.path
    return (
        f"TensorBoard: in a pod that mounts the bucket at /gcs run tensorboard --logdir /gcs/{path} --port 6006, "
        "then open port 6006 of it (a4 forward JOB POD 6006)."
    )
