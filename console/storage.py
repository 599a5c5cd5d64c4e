"""Storage around a cluster: buckets, what is in them, logs put there, and the file systems that pods can mount."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from console.errors import BadInput, Conflict, ConsoleError, NotFound
from console.google import loaded
from console.models.copying import CopyProgress
from console.models.storage import (
    LATEST,
    TENSORBOARD,
    FetchReport,
    GcsPlace,
    Listing,
    StoredObject,
    StoreReport,
    marked,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from console.cloud import Cloud
    from console.follow import Follow
    from console.google.storage import Buckets
    from console.models.storage import Bucket, FilestoreInstance, LustreInstance

AT_ONCE = 4
"""Objects that come at the same time."""


class StoredThings:
    """Buckets and file systems, as the login of one cluster sees them; logs of its jobs come by `follow`."""

    def __init__(self, cloud: Cloud, follow: Callable[[], Follow]) -> None:
        self._cloud = cloud
        self._follow = follow
        self._buckets: dict[str, Buckets] = {}

    async def close(self) -> None:
        """End all connections."""
        made, self._buckets = list(self._buckets.values()), {}
        for each in made:
            await each.close()

    async def project(self, project: str = "") -> str:
        """The connected cluster's project, else the login's own, unless another is named; BadInput if there is none."""
        found = project or await self._cloud.usual_project()
        if not found:
            raise BadInput("No cluster is connected, and the login names no project.", "Name one: --project ID.")
        return found

    async def region(self) -> str:
        """Where the connected cluster lies; empty if that is not known."""
        try:
            return (await self._cloud.place()).region
        except NotFound:
            return ""

    async def _of(self, project: str = "") -> Buckets:
        if not project:
            project = await self._cloud.usual_project()
        if project not in self._buckets:
            module = await loaded("console.google.storage")
            self._buckets[project] = module.Buckets(await self._cloud.reach(), project)
        return self._buckets[project]

    # buckets

    async def buckets(self, project: str = "") -> tuple[Bucket, ...]:
        """The buckets of the project, those that lie by the cluster first."""
        found = await (await self._of(await self.project(project))).listed()
        region = await self.region()
        return tuple(sorted(found, key=lambda each: (not each.near(region), each.location_type != "region", each.name)))

    async def folder(self, place: GcsPlace) -> Listing:
        """What is in a folder; checkpoints by iteration, with the one to go on from marked."""
        buckets = await self._of()
        if place.path and not place.path.endswith("/"):
            place = GcsPlace(place.bucket, place.folder)
        objects, more = await buckets.folder(place)
        latest = None
        if any(each.title == LATEST for each in objects):
            said = (await buckets.text(GcsPlace(place.bucket, place.folder + LATEST), most=100)).strip()
            latest = int(said) if said.isdigit() else None
        return Listing(place, marked(objects, latest), _note(place, objects, latest), more)

    async def tree(self, place: GcsPlace) -> AsyncGenerator[StoredObject, None]:
        """All objects under a folder."""
        async with aclosing((await self._of()).tree(place)) as found:
            async for each in found:
                yield each

    async def fetch(
        self, place: GcsPlace, folder: Path, progress: Callable[[CopyProgress], None] = lambda _: None
    ) -> FetchReport:
        """Bring an object, or all that lies under a folder, into a folder of this machine.

        What is there already, whole and the same, is kept; what failed is named in the report; NotFound if there is
        nothing at all.
        """
        start = time.monotonic()
        buckets = await self._of()
        wanted: list[tuple[StoredObject, Path]] = []
        problems: list[tuple[str, str]] = []
        base = place.folder.rstrip("/").rpartition("/")[0]
        async with aclosing(buckets.tree(place)) as found:
            async for each in found:
                if each.name.endswith("/"):
                    continue  # a folder that was made by hand: its name is all it is
                inside = each.name[len(base) :].lstrip("/")
                if (why := _unsafe(inside)) is not None:
                    problems.append((each.name, why))
                else:
                    wanted.append((each, folder / inside))
        if not wanted and not problems:
            raise NotFound(f"There is nothing at {place}.", "a4 ls shows what there is.")
        fetched = _Fetched(sum(each.bytes for each, _ in wanted), len(wanted), progress)
        await self._bring(buckets, place.bucket, wanted, fetched)
        return FetchReport(
            str(place), str(folder), fetched.files, fetched.done, fetched.kept, time.monotonic() - start,
            (*problems, *fetched.problems),
        )  # fmt: skip

    async def _bring(
        self, buckets: Buckets, bucket: str, wanted: Sequence[tuple[StoredObject, Path]], fetched: _Fetched
    ) -> None:
        module = await loaded("console.google.fetching")
        room = asyncio.Semaphore(AT_ONCE)

        async def one(stored: StoredObject, target: Path) -> None:
            async with room:
                fetched.begin(stored)
                try:
                    came = await module.fetch(buckets, bucket, stored, target, fetched.more)
                except ConsoleError as error:
                    fetched.problems.append((stored.name, str(error)))
                else:
                    fetched.end(came)

        async with asyncio.TaskGroup() as group:
            for stored, target in wanted:
                group.create_task(one(stored, target))

    # logs of jobs

    async def store_logs(self, namespace: str, job: str, place: GcsPlace, *, replace: bool = False) -> StoreReport:
        """Put what all ranks of a job have printed into a bucket, laid out as `log_files` says.

        Under the place: pod-logs/coordinator.log (rank 0), pod-logs/worker-N.log, nccl-test-results.txt where rank 0
        printed tables, connectivity-test.log where it printed what it found. Conflict if there are logs already.
        """
        from console.log_files import LogFiles

        self._cloud.check_may(f"store the logs of {job}")
        buckets = await self._of()
        there, _ = await buckets.folder(GcsPlace(place.bucket, place.folder), most=1)
        if there and not replace:
            raise Conflict(f"{place} is not empty.", "Choose another folder, or replace what is there.")
        with tempfile.TemporaryDirectory(prefix="a4-logs-") as folder:
            logs = LogFiles(Path(folder))
            async with self._follow().job(namespace, job, once=True) as log, aclosing(log.lines()) as batches:
                async for batch in batches:
                    await asyncio.to_thread(logs.add, batch)
            if not logs.counted:
                raise NotFound(f"Nothing is known of what {job} printed.", "Does the job exist in this namespace?")
            for name in logs.counted:
                await buckets.send(GcsPlace(place.bucket, place.folder + name), logs.path(name), replace=replace)
            return StoreReport(str(place), tuple(logs.counted.items()))

    # file systems

    async def lustre(self, project: str = "") -> tuple[LustreInstance, ...]:
        """Lustre instances of the project, those of the cluster's zones first."""
        module = await loaded("console.google.lustre")
        reach, project = await self._cloud.reach(), await self.project(project)
        found: tuple[LustreInstance, ...] = await module.instances(reach, project)
        region = await self.region()
        return tuple(sorted(found, key=lambda each: (not _close(each.location, region), each.state != "ACTIVE")))

    async def filestore(self, project: str = "") -> tuple[FilestoreInstance, ...]:
        """Filestore shares of the project, those of the cluster's region first."""
        module = await loaded("console.google.filestore")
        reach, project = await self._cloud.reach(), await self.project(project)
        found: tuple[FilestoreInstance, ...] = await module.instances(reach, project)
        region = await self.region()
        return tuple(sorted(found, key=lambda each: (not _close(each.location, region), each.state != "READY")))


class _Fetched:
    """How far a download of several objects is."""

    def __init__(self, total: int, all_files: int, progress: Callable[[CopyProgress], None]) -> None:
        self.total, self.all_files, self.progress = total, all_files, progress
        self.done = self.files = self.kept = 0
        self.now = ""
        self.problems: list[tuple[str, str]] = []

    def begin(self, stored: StoredObject) -> None:
        self.now = stored.name
        self.more(0)

    def more(self, came: int) -> None:
        self.done += came
        self.progress(CopyProgress(self.done, self.total, self.files, self.all_files, self.now))

    def end(self, came: bool) -> None:
        self.files += 1
        self.kept += not came
        self.more(0)


def _close(location: str, region: str) -> bool:
    """Whether a zone or region and another one are the same region."""
    return bool(region) and location.split("-")[:2] == region.split("-")[:2]


def _unsafe(name: str) -> str | None:
    """Why a name may not become a file here; None if it may."""
    parts = PurePosixPath(name).parts
    if not name or name.startswith("/") or ".." in parts or "\0" in name or "//" in name:
        return "Its name would lead out of the folder, or is none that files can have."
    return None


def _note(place: GcsPlace, objects: Sequence[StoredObject], latest: int | None) -> str:
    """What a folder is, in a sentence."""
    iterations = [each.iteration for each in objects if each.iteration is not None]
    if iterations:
        found = f"{len(iterations)} checkpoint{'' if len(iterations) == 1 else 's'}, the last of iteration"
        words = f"{found} {max(iterations)}."
        if latest is None:
            return f"{words} No {LATEST} says which is whole."
        if latest not in iterations:
            return f"{words} {LATEST} names {latest}, which is not here."
        return words if latest == max(iterations) else f"{words} {LATEST} names {latest}: later ones may not be whole."
    folder = next((each for each in objects if each.title == f"{TENSORBOARD}/"), None)
    inside = f"/{TENSORBOARD}/" in f"/{place.path}"
    if folder is None and not inside:
        return ""
    path = folder.name if folder else place.path
    return (
        f"TensorBoard: in a pod that mounts the bucket at /gcs run tensorboard --logdir /gcs/{path} --port 6006, "
        "then open port 6006 of it (f on the pod, or a4 forward JOB POD 6006)."
    )
