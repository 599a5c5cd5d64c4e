"""The entry point to Google Cloud, and choices from Google for form fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from console.errors import ApiDisabled, ConsoleError, NotFound, Unreachable
from console.google.account import GoogleAccount
from console.launch.field_choices import ChoicesState, FieldChoices
from console.launch.values_schema import iter_leaf_values

if TYPE_CHECKING:
    from console.google.images import GoogleImages
    from console.google.node_pools import NodePools
    from console.google.storage import CloudStorage, FilestoreInstance, LustreInstance
    from console.kube.watched_cluster import WatchedCluster
    from console.logs.log_service import LogService

_POOL_LABEL, _RESERVATION_LABEL = "cloud.google.com/gke-nodepool", "cloud.google.com/reservation-name"


class GoogleServices:
    """All of Google Cloud for a cluster, or for a login alone; its libraries are imported on first use."""

    def __init__(
        self,
        cluster: WatchedCluster | None = None,
        logs: Callable[[], LogService] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.account = GoogleAccount(cluster, read_only=read_only)
        self._cluster, self._logs = cluster, logs or _raise_no_cluster

    @cached_property
    def node_pools(self) -> NodePools:
        from console.google.node_pools import NodePools

        return NodePools(self._cluster or _raise_no_cluster(), self.account)

    @cached_property
    def images(self) -> GoogleImages:
        from console.google.images import GoogleImages

        return GoogleImages(self.account)

    @cached_property
    def storage(self) -> CloudStorage:
        """Buckets, and file systems that pods can mount."""
        from console.google.storage import CloudStorage

        return CloudStorage(self.account, self._logs)

    async def field_choices(self, kind: str) -> FieldChoices:
        """The choices for one kind of field (one of GOOGLE_KINDS), or the reason why none are listed."""
        try:
            await self.account.cluster_place()
        except NotFound as error:
            return FieldChoices(kind, state=ChoicesState.ABSENT, why=error.message)
        except ConsoleError as error:
            return _failed_choices(kind, error)
        try:
            return await _CHOICE_READERS[kind](self)
        except ConsoleError as error:
            return _failed_choices(kind, error)

    async def close(self) -> None:
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self.account.close)
            if "storage" in vars(self):
                ending.push_async_callback(self.storage.close)


def _raise_no_cluster() -> NoReturn:
    raise Unreachable("No cluster is connected.", "a4 clusters lists those there are.")


def _failed_choices(kind: str, error: ConsoleError) -> FieldChoices:
    why = str(error)
    if isinstance(error, ApiDisabled):
        why = f"{error.service} is not enabled in the project; preflight (f9) enables it."
    return FieldChoices(kind, state=ChoicesState.FAILED, why=why)


async def _bucket_choices(google: GoogleServices) -> FieldChoices:
    region = await google.storage.cluster_region()
    found = await google.storage.list_buckets()
    about = {each.name: f"{each.location}, {each.describe_distance(region)}" for each in found}
    return FieldChoices("buckets", tuple(about), about, why="" if found else "The project has no buckets.")


async def _file_system_choices(
    google: GoogleServices, title: str, listing: Awaitable[Sequence[LustreInstance | FilestoreInstance]]
) -> FieldChoices:
    """Choices of mountable file systems for a form; a choice fills in several fields at once."""
    found, region = await listing, await google.storage.cluster_region()
    ready, about = [each for each in found if each.ready and each.endpoint], {}
    for each in ready:
        far = f", not in {region}" if region and not f"{each.location}-".startswith(f"{region}-") else ""
        about[each.name] = f"{each.location}{far}, {each.gib:,} GiB, {each.endpoint}"
    fills = {
        each.name: {".".join(map(str, keys)): str(value) for keys, value in iter_leaf_values(each.launch_values(), ())}
        for each in ready
    }
    others = "; ".join(f"{each.name} is {each.state.lower()}" for each in found)
    why = f"No {title} instance can be mounted: {others}." if found else f"The project has no {title} instance."
    return FieldChoices(title.lower(), tuple(about), about, fills=fills, why="" if ready else why)


async def _image_choices(google: GoogleServices) -> FieldChoices:
    registry = await google.images.survey_registry()
    about = {reference: "in the registry" for image in registry.images for reference in image.references}
    return FieldChoices("images", tuple(about), about, why="" if about else "The project's registries hold no image.")


async def _pool_choices(google: GoogleServices) -> FieldChoices:
    """Choices of node pools (also empty ones) and reservations for a form, as the node labels that select them."""
    _, cluster = await google.account.connected_cluster()
    about = {}
    for pool in (each for each in cluster.pools if each.accelerators):
        limits = f"{pool.least} to {pool.most} nodes" if pool.autoscaling else ""
        about[f"{_POOL_LABEL}={pool.name}"] = ", ".join(filter(None, (pool.provisioning, limits, pool.machine_type)))
    for pool in cluster.pools:
        name = pool.reservation.rpartition("/")[2] if "/reservationBlocks/" not in pool.reservation else ""
        if name and name != "any":
            about[f"{_RESERVATION_LABEL}={name}"] = f"reservation of pool {pool.name}"
    return FieldChoices("nodelabels", tuple(about), about, why="" if about else "The cluster has no pool with GPUs.")


_CHOICE_READERS: Mapping[str, Callable[[GoogleServices], Awaitable[FieldChoices]]] = {
    "buckets": _bucket_choices,
    "lustre": lambda google: _file_system_choices(google, "Lustre", google.storage.list_lustre()),
    "filestore": lambda google: _file_system_choices(google, "Filestore", google.storage.list_filestore()),
    "images": _image_choices,
    "nodelabels": _pool_choices,
}
