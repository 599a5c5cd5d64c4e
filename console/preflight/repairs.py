"""What can be mended from here: an add-on switched on, services enabled, a repository or a LocalQueue created."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import NotFound, Unreachable
from console.google import loaded
from console.models.check import Mend
from console.parsers.kinds import KINDS

if TYPE_CHECKING:
    from console.in_cloud import ClusterInCloud
    from console.models.check import Repair

ADDON_TAKES = 900.0
"""Seconds that GKE may take for an add-on."""
_AGAIN = 2.0
"""Seconds between two looks at an operation."""


async def mend(cluster: ClusterInCloud, repair: Repair) -> str:
    """Do it, wait until it is done, and say so."""
    cluster.changing(repair.words[0].lower() + repair.words[1:])
    done = await {
        Mend.ADDON: _addon,
        Mend.SERVICE: _services,
        Mend.REPOSITORY: _repository,
        Mend.QUEUE: _queue,
    }[repair.kind](cluster, repair.target)
    return done or f"Enabled{repair.words.removeprefix('Enable')}."


async def _addon(cluster: ClusterInCloud, target: tuple[str, ...]) -> str:
    """Nothing to add: the words of the repair name the driver as people do."""
    project, location, name, addon = target
    gke = await cluster.cloud.gke()
    begun = await gke.enable(await gke.cluster(project, location, name), addon)
    try:
        async with asyncio.timeout(ADDON_TAKES):
            while not begun.over:
                await asyncio.sleep(_AGAIN / (20 if cluster.practice else 1))
                begun = await gke.operation(project, location, begun.name)
    except TimeoutError as error:
        raise Unreachable(
            f"GKE has not enabled {addon} within {ADDON_TAKES / 60:.0f} minutes.", "It may still do so."
        ) from error
    if begun.error:
        raise Unreachable(f"GKE could not enable {addon} in {name}: {begun.error}.", "See `a4 operations`.")
    return ""


async def _services(cluster: ClusterInCloud, target: tuple[str, ...]) -> str:
    project, *services = target
    for service in services:
        await cluster.cloud.enable_service(project, service)
    return f"Enabled {', '.join(services)} in project {project}."


async def _repository(cluster: ClusterInCloud, target: tuple[str, ...]) -> str:
    project, location, name = target
    module = await loaded("console.google.registry")
    await module.Registries(await cluster.cloud.reach()).create_repository(project, location, name)
    return f"Created repository {name} in {location} of project {project}."


async def _queue(cluster: ClusterInCloud, target: tuple[str, ...]) -> str:
    namespace, name, above = target
    connection = cluster.changing(f"create LocalQueue {name}")
    kind = next(each for each in KINDS if each.plural == "localqueues")
    version = await connection.catalogue.version(kind)
    if not version:
        raise NotFound("This cluster has no LocalQueues: Kueue is not installed.", status=404)
    made = {
        "apiVersion": f"{kind.group}/{version}",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": above},
    }
    path = kind.path(version, quote(namespace, safe=""))
    await connection.client.request("POST", path, doing=f"create LocalQueue {name}", body=msgspec.json.encode(made))
    return f"Created LocalQueue {name} in namespace {namespace}."
