"""The entry point to Google Cloud, and choices from Google for form fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from console.errors import ApiDisabled, ConsoleError, NotFound, Unreachable
from console.google.account import Cloud
from console.launch.choices import ChoicesState, FieldChoices

if TYPE_CHECKING:
    from console.google.images import Images
    from console.google.pool_changes import NodePools
    from console.google.storage import CloudStorage, FilestoreInstance, LustreInstance
    from console.kube.nested_values import Value
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.follow import Logs

_POOL, _RESERVATION = "cloud.google.com/gke-nodepool", "cloud.google.com/reservation-name"


class Google:
    """Google Cloud for a cluster, else for the login alone; its libraries are loaded by the first question."""

    def __init__(
        self, watch: WatchedCluster | None = None, logs: Callable[[], Logs] | None = None, *, read_only: bool = False
    ) -> None:
        self.cloud = Cloud(watch, read_only=read_only)
        self._watch, self._logs = watch, logs or _no_cluster

    @property
    def node_pools(self) -> NodePools:
        from console.google.pool_changes import NodePools

        return NodePools(self._watch or _no_cluster(), self.cloud)

    @cached_property
    def images(self) -> Images:
        from console.google.images import Images

        return Images(self.cloud)

    @cached_property
    def storage(self) -> CloudStorage:
        """Buckets, and file systems that pods can mount."""
        from console.google.storage import CloudStorage

        return CloudStorage(self.cloud, self._logs)

    async def offer(self, kind: str) -> FieldChoices:
        """The choices for one kind of field (one of `GOOGLE_KINDS`), or why there are none."""
        return await offer_of(self, kind)

    async def close(self) -> None:
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self.cloud.close)
            if "storage" in vars(self):
                ending.push_async_callback(self.storage.close)


def _no_cluster() -> NoReturn:
    raise Unreachable("No cluster is connected.", "a4 clusters lists those there are.")


async def offer_of(google: Google, kind: str) -> FieldChoices:
    """The choices for one kind of field (one of GOOGLE_KINDS), or why there are none."""
    try:
        await google.cloud.place()
    except NotFound as error:
        return FieldChoices(kind, state=ChoicesState.ABSENT, why=error.message)
    except ConsoleError as error:
        return _failed(kind, error)
    try:
        return await _QUESTIONS[kind](google)
    except ConsoleError as error:
        return _failed(kind, error)


def _failed(kind: str, error: ConsoleError) -> FieldChoices:
    why = str(error)
    if isinstance(error, ApiDisabled):
        why = f"{error.service} is not enabled in the project; preflight (f9) enables it."
    return FieldChoices(kind, state=ChoicesState.FAILED, why=why)


async def _buckets(google: Google) -> FieldChoices:
    region = await google.storage.region()
    found = await google.storage.buckets()
    about = {each.name: f"{each.location}, {each.match(region)}" for each in found}
    return FieldChoices("buckets", tuple(about), about, why="" if found else "The project has no buckets.")


async def _file_systems(
    google: Google, title: str, listing: Awaitable[Sequence[LustreInstance | FilestoreInstance]]
) -> FieldChoices:
    """Choices of mountable file systems; each fills several fields."""
    found, region = await listing, await google.storage.region()
    ready, about = [each for each in found if each.ready and each.endpoint], {}
    for each in ready:
        far = f", not in {region}" if region and not f"{each.location}-".startswith(f"{region}-") else ""
        about[each.name] = f"{each.location}{far}, {each.gib:,} GiB, {each.endpoint}"
    fills = {each.name: _texts(each.values()) for each in ready}
    others = "; ".join(f"{each.name} is {each.state.lower()}" for each in found)
    why = f"No {title} instance can be mounted: {others}." if found else f"The project has no {title} instance."
    return FieldChoices(title.lower(), tuple(about), about, fills=fills, why="" if ready else why)


async def _images(google: Google) -> FieldChoices:
    registry = await google.images.registry()
    about = {reference: "in the registry" for image in registry.images for reference in image.references}
    return FieldChoices("images", tuple(about), about, why="" if about else "The project's registries hold no image.")


async def _pools(google: Google) -> FieldChoices:
    """Choices of node pools and reservations as node labels, including empty pools."""
    _, cluster = await google.cloud.connected()
    about = {}
    for pool in (each for each in cluster.pools if each.accelerators):
        limits = f"{pool.least} to {pool.most} nodes" if pool.autoscaling else ""
        about[f"{_POOL}={pool.name}"] = ", ".join(filter(None, (pool.dynamic, limits, pool.machine_type)))
    for pool in cluster.pools:
        name = pool.reservation.rpartition("/")[2] if "/reservationBlocks/" not in pool.reservation else ""
        if name and name != "any":
            about[f"{_RESERVATION}={name}"] = f"reservation of pool {pool.name}"
    return FieldChoices("nodelabels", tuple(about), about, why="" if about else "The cluster has no pool with GPUs.")


def _texts(values: Mapping[str, Value], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _texts(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = str(value)
    return found


_QUESTIONS: Mapping[str, Callable[[Google], Awaitable[FieldChoices]]] = {
    "buckets": _buckets,
    "lustre": lambda google: _file_systems(google, "Lustre", google.storage.lustre()),
    "filestore": lambda google: _file_systems(google, "Filestore", google.storage.filestore()),
    "images": _images,
    "nodelabels": _pools,
}
