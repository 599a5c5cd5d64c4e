"""Google.cloud.filestore.v1: the instance that the scene's claim mounts, and a zonal one in an error state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud import filestore_v1 as api

from practice.google import instances
from practice.google.cloud import PROJECT

if TYPE_CHECKING:
    from practice.google.cloud import PracticeGoogle
    from practice.google.serving import Method

SERVICE_PATH = "/google.cloud.filestore.v1.CloudFilestoreManager"


class FilestoreInstances:
    """The Filestore instances of practice Google, by name."""

    def __init__(self, google: PracticeGoogle) -> None:
        kinds, states = api.Instance.Tier, api.Instance.State
        found = (
            _new_instance("us-central1", "shared", kinds.REGIONAL, states.READY, "share", 10240, "10.128.15.200"),
            _new_instance("us-central1-b", "zonal-old", kinds.ZONAL, states.ERROR, "nfslarge", 1024, ""),
        )
        self.servers = {each.name: each for each in found}


def _new_instance(location: str, name: str, tier: Any, state: Any, share: str, gib: int, address: str) -> api.Instance:
    return api.Instance(
        name=f"projects/{PROJECT}/locations/{location}/instances/{name}",
        tier=tier,
        state=state,
        status_message="" if address else "The reserved range is used up.",
        file_shares=[api.FileShareConfig(name=share, capacity_gb=gib)],
        networks=[api.NetworkConfig(network="practice-net", ip_addresses=[address] if address else [])],
    )


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    return instances.grpc_methods(google, SERVICE_PATH, api, google.service_state(FilestoreInstances).servers)
