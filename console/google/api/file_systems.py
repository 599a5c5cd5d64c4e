"""Managed Lustre and Filestore: instances and shares; the only importer of google.cloud.{lustre,filestore}."""

from __future__ import annotations

from itertools import chain
from typing import Any

from google.cloud import filestore_v1, lustre_v1

from console.google.api.calls import GoogleSession, list_all, name_of
from console.google.storage import FilestoreInstance, LustreInstance

FILE_SYSTEMS_TIMEOUT = 30.0


async def list_lustre(session: GoogleSession, project: str) -> tuple[LustreInstance, ...]:
    client = session.client(lustre_v1.LustreAsyncClient)
    request = lustre_v1.ListInstancesRequest(parent=f"projects/{project}/locations/-")
    doing = f"list the Lustre instances of {project}"
    found = await list_all(doing, client.list_instances(request, timeout=FILE_SYSTEMS_TIMEOUT), _parse_lustre)
    return tuple(sorted(found, key=lambda each: (each.location, each.name)))


def _parse_lustre(response: Any) -> LustreInstance:
    parts = response.name.split("/")  # projects/P/locations/ZONE/instances/NAME
    return LustreInstance(
        project=parts[1],
        location=parts[3],
        name=parts[5],
        state=name_of(response.state),
        filesystem=response.filesystem,
        mount_point=response.mount_point,
        gib=response.capacity_gib,
        network=response.network,
        throughput=response.per_unit_storage_throughput,
        legacy_port=response.gke_support_enabled,
        why=response.state_reason,
    )


async def list_filestore(session: GoogleSession, project: str) -> tuple[FilestoreInstance, ...]:
    client = session.client(filestore_v1.CloudFilestoreManagerAsyncClient)
    request = filestore_v1.ListInstancesRequest(parent=f"projects/{project}/locations/-")
    doing = f"list the Filestore instances of {project}"
    found = chain(*await list_all(doing, client.list_instances(request, timeout=FILE_SYSTEMS_TIMEOUT), _parse_shares))
    return tuple(sorted(found, key=lambda each: (each.location, each.name, each.share)))


def _parse_shares(response: Any) -> list[FilestoreInstance]:
    parts = response.name.split("/")  # projects/P/locations/PLACE/instances/NAME
    network = response.networks[0] if response.networks else filestore_v1.NetworkConfig()
    address = network.ip_addresses[0] if network.ip_addresses else ""
    return [
        FilestoreInstance(
            parts[1],
            parts[3],
            parts[5],
            name_of(response.state),
            name_of(response.tier),
            share.name,
            share.capacity_gb,
            address,
            network.network,
            response.status_message,
        )
        for share in response.file_shares
    ]
