"""Removes objects from the Google imitation so that preflight checks named in A4_PRACTICE_HARM fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from practice.google.bucket_store import BucketStore
from practice.google.cloud import CLUSTER, PROJECT, REGION, Fault
from practice.google.networks import NetworkResources
from practice.google.pool_operations import PoolWork
from practice.scene.cluster_faults import VARIABLE, requested_check_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.google.cloud import PracticeGoogle

SILENT = "GOOGLE"  # named instead of a check: Google never answers about the cluster
_SERVICES = {"P11": "storage", "P19": "file", "P22": "lustre", "P30": "cloudbuild", "P31": "artifactregistry"}
"""By check id the Google service whose absence makes the check fail."""
_PERMISSIONS = {"P32": "cloudbuild.builds.create", "P35": "container.clusters.create"}


def _break_cluster(google: PracticeGoogle) -> None:
    cluster = google.service_state(PoolWork).clusters[PROJECT, REGION, CLUSTER]
    states: Any = type(cluster).Status
    cluster.status = states.ERROR
    cluster.status_message = "The control plane could not be upgraded."


def _age_node_pools(google: PracticeGoogle) -> None:
    for pool in google.service_state(PoolWork).clusters[PROJECT, REGION, CLUSTER].node_pools:
        pool.version = "1.31.6-gke.1064001"


def _make_autopilot(google: PracticeGoogle) -> None:
    google.service_state(PoolWork).clusters[PROJECT, REGION, CLUSTER].autopilot.enabled = True


def _change_machine_type(google: PracticeGoogle) -> None:
    for pool in google.service_state(PoolWork).clusters[PROJECT, REGION, CLUSTER].node_pools:
        pool.config.machine_type = pool.config.machine_type.replace("a4-highgpu-8g", "a3-megagpu-8g")
        for chips in pool.config.accelerators:
            chips.accelerator_type = "nvidia-h100-mega-80gb"


def _remove_bucket_access(google: PracticeGoogle) -> None:
    for bucket in google.service_state(BucketStore).buckets.values():
        bucket.bindings.clear()


def _remove_nat(google: PracticeGoogle) -> None:
    google.service_state(NetworkResources).routers.clear()


def _fail_get_cluster(google: PracticeGoogle) -> None:
    google.faults.append(Fault("GetCluster", grpc.StatusCode.INTERNAL, f"asked for by {VARIABLE}", times=10**9))


_FAULTS: dict[str, Callable[[PracticeGoogle], None]] = {
    "P01": _break_cluster,
    "P02": _age_node_pools,
    "P03": _make_autopilot,
    "P04": _change_machine_type,
    "P12": _remove_bucket_access,
    "P26": _remove_nat,
    SILENT: _fail_get_cluster,
}


def apply_google_faults(google: PracticeGoogle) -> None:
    """Remove the services, permissions and objects whose lack the requested checks report."""
    project = google.projects[PROJECT]
    for name in requested_check_ids():
        project.enabled -= {f"{_SERVICES[name]}.googleapis.com"} if name in _SERVICES else set()
        project.denied_permissions |= {_PERMISSIONS[name]} if name in _PERMISSIONS else set()
        if name in _FAULTS:
            _FAULTS[name](google)
