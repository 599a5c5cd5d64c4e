"""Managed Lustre: its instances; the only importer of google.cloud.lustre."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud import lustre_v1 as api

from console.google.api.failures import translate_errors
from console.google.storage import LustreInstance

if TYPE_CHECKING:
    from console.google.api.endpoints import GoogleSession

PATIENCE = 30.0


async def instances(reach: GoogleSession, project: str, location: str = "-") -> tuple[LustreInstance, ...]:
    """Those of a project, in every zone unless one is named."""
    client = reach.client(api.LustreAsyncClient)
    request = api.ListInstancesRequest(parent=f"projects/{project}/locations/{location}")
    with translate_errors(f"list the Lustre instances of {project}"):
        found = [_instance(each) async for each in await client.list_instances(request, timeout=PATIENCE)]
    return tuple(sorted(found, key=lambda each: (each.location, each.name)))


def _instance(found: Any) -> LustreInstance:
    parts = found.name.split("/")  # projects/P/locations/ZONE/instances/NAME
    return LustreInstance(
        project=parts[1],
        location=parts[3],
        name=parts[5],
        state=found.state.name,
        filesystem=found.filesystem,
        mount_point=found.mount_point,
        gib=found.capacity_gib,
        network=found.network,
        throughput=found.per_unit_storage_throughput,
        legacy_port=found.gke_support_enabled,
        why=found.state_reason,
    )
