"""Google.cloud.lustre.v1: the mounted instance of the scene, one being created, and one elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud import lustre_v1 as api

from practice.google import instances
from practice.google.cloud import PROJECT

if TYPE_CHECKING:
    from practice.google.cloud import PracticeGoogle
    from practice.google.serving import Method

SERVICE_PATH = "/google.cloud.lustre.v1.Lustre"
NETWORK = f"projects/{PROJECT}/global/networks/practice-net"


class LustreInstances:
    """The Lustre instances of practice Google, by name."""

    def __init__(self, google: PracticeGoogle) -> None:
        states = api.Instance.State
        found = (
            _new_instance("us-central1-a", "lustre", states.ACTIVE, "lustre", "10.128.15.210", 18000),
            _new_instance("us-central1-b", "scratch", states.CREATING, "scratch", "", 9000),
            _new_instance("europe-west4-a", "archive", states.ACTIVE, "archive", "10.164.0.9", 36000),
        )
        self.instances = {each.name: each for each in found}


def _new_instance(zone: str, name: str, state: Any, filesystem: str, address: str, gib: int) -> api.Instance:
    return api.Instance(
        name=f"projects/{PROJECT}/locations/{zone}/instances/{name}",
        filesystem=filesystem,
        capacity_gib=gib,
        network=NETWORK,
        state=state,
        mount_point=f"{address}@tcp:/{filesystem}" if address else "",
        per_unit_storage_throughput=1000,
        gke_support_enabled=True,
    )


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    return instances.grpc_methods(google, SERVICE_PATH, api, google.service_state(LustreInstances).instances)
