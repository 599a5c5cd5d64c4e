"""Removes things from the Google imitation so that preflight checks named in A4_PRACTICE_HARM fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from practice.google.cloud import CLUSTER, PROJECT, REGION, Fault
from practice.google.networks import NetworkResources
from practice.google.pool_work import PoolWork
from practice.google.vault import BucketStore
from practice.scene.harm import VARIABLE, asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.google.cloud import PracticeGoogle

SILENT = "GOOGLE"  # named instead of a check: Google never answers about the cluster
_SERVICES = {"P11": "storage", "P19": "file", "P22": "lustre", "P30": "cloudbuild", "P31": "artifactregistry"}
"""Checks that go wrong when a service of Google's is not enabled."""
_RIGHTS = {"P32": "cloudbuild.builds.create", "P35": "container.clusters.create"}


def _in_error(world: PracticeGoogle) -> None:
    cluster = world.part(PoolWork).clusters[PROJECT, REGION, CLUSTER]
    states: Any = type(cluster).Status
    cluster.status = states.ERROR
    cluster.status_message = "The control plane could not be upgraded."


def _old(world: PracticeGoogle) -> None:
    for pool in world.part(PoolWork).clusters[PROJECT, REGION, CLUSTER].node_pools:
        pool.version = "1.31.6-gke.1064001"


def _autopilot(world: PracticeGoogle) -> None:
    world.part(PoolWork).clusters[PROJECT, REGION, CLUSTER].autopilot.enabled = True


def _other_machines(world: PracticeGoogle) -> None:
    for pool in world.part(PoolWork).clusters[PROJECT, REGION, CLUSTER].node_pools:
        pool.config.machine_type = pool.config.machine_type.replace("a4-highgpu-8g", "a3-megagpu-8g")
        for chips in pool.config.accelerators:
            chips.accelerator_type = "nvidia-h100-mega-80gb"


def _remove_bucket_access(world: PracticeGoogle) -> None:
    for bucket in world.part(BucketStore).buckets.values():
        bucket.bindings.clear()


def _no_way_out(world: PracticeGoogle) -> None:
    world.part(NetworkResources).routers.clear()


def _silent(world: PracticeGoogle) -> None:
    world.faults.append(Fault("GetCluster", grpc.StatusCode.INTERNAL, f"asked for by {VARIABLE}", times=10**9))


_HARMS: dict[str, Callable[[PracticeGoogle], None]] = {
    "P01": _in_error,
    "P02": _old,
    "P03": _autopilot,
    "P04": _other_machines,
    "P12": _remove_bucket_access,
    "P26": _no_way_out,
    SILENT: _silent,
}


def harm_google(world: PracticeGoogle) -> None:
    """Remove the services, permissions and objects of the named checks."""
    project = world.projects[PROJECT]
    for name in asked():
        project.enabled -= {f"{_SERVICES[name]}.googleapis.com"} if name in _SERVICES else set()
        project.lacking |= {_RIGHTS[name]} if name in _RIGHTS else set()
        if name in _HARMS:
            _HARMS[name](world)
