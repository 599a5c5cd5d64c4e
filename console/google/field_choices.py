"""What Google has to choose from for one kind of field: asked when somebody wants to choose, never before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import ApiDisabled, ConsoleError, NotFound
from console.launch.choices import ChoicesState, FieldChoices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from console.google.clusters import GkePool
    from console.google.storage import FilestoreInstance, LustreInstance
    from console.kube.nested_values import Value
    from console.session import Google

    Instance = LustreInstance | FilestoreInstance

_POOL, _RESERVATION = "cloud.google.com/gke-nodepool", "cloud.google.com/reservation-name"


async def offer_of(google: Google, kind: str) -> FieldChoices:
    """The choices of that kind (one of GOOGLE_KINDS); why there are none where Google does not tell them."""
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
    if isinstance(error, ApiDisabled):
        words = f"{error.service} is not enabled in the project; preflight (f9) enables it."
        return FieldChoices(kind, state=ChoicesState.FAILED, why=words)
    return FieldChoices(kind, state=ChoicesState.FAILED, why=str(error))


async def _buckets(google: Google) -> FieldChoices:
    region = await google.storage.region()
    found = await google.storage.buckets()
    about = {each.name: f"{each.location}, {each.match(region)}" for each in found}
    return FieldChoices("buckets", tuple(about), about, why="" if found else "The project has no buckets.")


async def _lustre(google: Google) -> FieldChoices:
    found = await google.storage.lustre()
    ready: dict[Instance, str] = {each: each.mount_point for each in found if each.state == "ACTIVE"}
    return _mountable("lustre", "Lustre", found, ready, await google.storage.region())


async def _filestore(google: Google) -> FieldChoices:
    found = await google.storage.filestore()
    ready: dict[Instance, str] = {
        each: f"{each.address}:/{each.share}" for each in found if each.state == "READY" and each.address
    }
    return _mountable("filestore", "Filestore", found, ready, await google.storage.region())


def _mountable(
    kind: str, title: str, found: Sequence[Instance], ready: Mapping[Instance, str], region: str
) -> FieldChoices:
    """Those that pods can mount, by what; each fills its fields."""
    about = {
        each.name: f"{each.location}{_far(each.location, region)}, {each.gib:,} GiB, {place}"
        for each, place in ready.items()
    }
    fills = {each.name: _texts(each.values()) for each in ready}
    others = "; ".join(f"{each.name} is {each.state.lower()}" for each in found)
    why = f"No {title} instance can be mounted: {others}." if found else f"The project has no {title} instance."
    return FieldChoices(kind, tuple(about), about, fills=fills, why="" if ready else why)


async def _images(google: Google) -> FieldChoices:
    registry = await google.images.registry()
    about = {reference: "in the registry" for image in registry.images for reference in image.references}
    return FieldChoices("images", tuple(about), about, why="" if about else "The project's registries hold no image.")


async def _pools(google: Google) -> FieldChoices:
    """Pools and reservations as labels of nodes, those without a machine now too."""
    place = await google.cloud.place()
    cluster = await (await google.cloud.gke()).cluster(place.project, place.location, place.cluster)
    about = {f"{_POOL}={pool.name}": _pool_words(pool) for pool in cluster.pools if pool.accelerators}
    for pool in cluster.pools:
        name = pool.reservation.rpartition("/")[2] if "/reservationBlocks/" not in pool.reservation else ""
        if name and name != "any":
            about[f"{_RESERVATION}={name}"] = f"reservation of pool {pool.name}"
    return FieldChoices("nodelabels", tuple(about), about, why="" if about else "The cluster has no pool with GPUs.")


def _far(location: str, region: str) -> str:
    """What there is to say of a place that is not the cluster's."""
    return f", not in {region}" if region and not f"{location}-".startswith(f"{region}-") else ""


def _pool_words(pool: GkePool) -> str:
    how = "queued provisioning" if pool.queued else "flex-start" if pool.flex_start else "spot" if pool.spot else ""
    limits = f"{pool.least} to {pool.most} nodes" if pool.autoscaling else ""
    return ", ".join(filter(None, (how, limits, pool.machine_type)))


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
    "lustre": _lustre,
    "filestore": _filestore,
    "images": _images,
    "nodelabels": _pools,
}
