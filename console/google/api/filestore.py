"""Filestore: its instances and their shares; the only importer of google.cloud.filestore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud import filestore_v1 as api

from console.google.api.failures import translate_errors
from console.google.storage import FilestoreInstance

if TYPE_CHECKING:
    from console.google.api.endpoints import GoogleSession

PATIENCE = 30.0


async def instances(reach: GoogleSession, project: str, location: str = "-") -> tuple[FilestoreInstance, ...]:
    """The shares of a project's instances, in every place unless one is named."""
    client = reach.client(api.CloudFilestoreManagerAsyncClient)
    request = api.ListInstancesRequest(parent=f"projects/{project}/locations/{location}")
    found: list[FilestoreInstance] = []
    with translate_errors(f"list the Filestore instances of {project}"):
        async for each in await client.list_instances(request, timeout=PATIENCE):
            found += _shares(each)
    return tuple(sorted(found, key=lambda each: (each.location, each.name, each.share)))


def _shares(found: Any) -> list[FilestoreInstance]:
    parts = found.name.split("/")  # projects/P/locations/PLACE/instances/NAME
    network = found.networks[0] if found.networks else api.NetworkConfig()
    address = network.ip_addresses[0] if network.ip_addresses else ""
    return [
        FilestoreInstance(
            parts[1], parts[3], parts[5], found.state.name, found.tier.name, share.name, share.capacity_gb, address,
            network.network, found.status_message,
        )
        for share in found.file_shares
    ]  # fmt: skip
