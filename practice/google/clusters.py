"""Google.container.v1.ClusterManager: clusters, node pools and operations, matching the practice cluster's nodes."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.cloud import container_v1 as api

from practice.google.cloud import REGION, SHARED, PracticeGoogle, not_found_error
from practice.google.pool_operations import PoolWork
from practice.google.serving import Method, RefusalError

SERVICE_PATH = "/google.container.v1.ClusterManager"
_PATH = re.compile(
    r"projects/([^/]+)/(?:locations|zones)/([^/]+)(?:/(clusters|operations)/([^/]+))?(?:/nodePools/([^/]+))?$"
)


class _ClusterManager:
    """The methods of Google's service ClusterManager."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        self.state = google.service_state(PoolWork)

    async def list_clusters(self, request: api.ListClustersRequest) -> api.ListClustersResponse:
        project, location, *_ = _split_pool_path(request.parent)
        found = [
            each
            for (owner, where, _), each in self.state.clusters.items()
            if owner == project and location in ("-", where)
        ]
        if project == SHARED:
            found += [api.Cluster(name=f"crowd-{n:05}", location=REGION) for n in range(self.world.crowd)]
        return api.ListClustersResponse(clusters=found)

    async def get_cluster(self, request: api.GetClusterRequest) -> api.Cluster:
        return self.state.find_cluster(*_split_path(request.name))

    async def list_pools(self, request: api.ListNodePoolsRequest) -> api.ListNodePoolsResponse:
        return api.ListNodePoolsResponse(node_pools=self.state.find_cluster(*_split_path(request.parent)).node_pools)

    async def get_pool(self, request: api.GetNodePoolRequest) -> api.NodePool:
        return self._find_pool(request.name)[1]

    async def list_operations(self, request: api.ListOperationsRequest) -> api.ListOperationsResponse:
        project, location, *_ = _split_pool_path(request.parent)
        found = [
            each
            for (owner, _), each in self.state.operations.items()
            if owner == project and location in ("-", each.location)
        ]
        return api.ListOperationsResponse(operations=found)

    async def get_operation(self, request: api.GetOperationRequest) -> api.Operation:
        project, _, _, name, _ = _split_pool_path(request.name)
        try:
            return self.state.operations[project, name]
        except KeyError:
            raise not_found_error(request.name) from None

    async def resize(self, request: api.SetNodePoolSizeRequest) -> api.Operation:
        cluster, pool = self._require_idle_pool(request)
        return self.state.start_resize(_split_pool_path(request.name)[0], cluster, pool, request.node_count)

    async def scale(self, request: api.SetNodePoolAutoscalingRequest) -> api.Operation:
        cluster, pool = self._require_idle_pool(request)
        wish = request.autoscaling
        if wish.total_min_node_count > wish.total_max_node_count:
            words = "Autoscaling: total_min_node_count cannot be larger than total_max_node_count."
            raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, words)
        return self.state.start_scaling(_split_pool_path(request.name)[0], cluster, pool, wish)

    async def update(self, request: api.UpdateClusterRequest) -> api.Operation:
        project, location, name = _split_path(request.name)
        cluster = self.state.find_cluster(project, location, name)
        self.state.check_idle(project, cluster)
        return self.state.start_update(project, cluster, request.update)

    def _require_idle_pool(self, request: Any) -> tuple[api.Cluster, api.NodePool]:
        """The request's cluster and pool; an error while another operation is running."""
        cluster, pool = self._find_pool(request.name)
        self.state.check_idle(_split_path(request.name)[0], cluster)
        return cluster, pool

    def _find_pool(self, path: str) -> tuple[api.Cluster, api.NodePool]:
        cluster = self.state.find_cluster(*_split_path(path))
        return cluster, self.state.find_pool(cluster, _split_pool_path(path)[4])


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    manager = _ClusterManager(google)
    return {
        f"{SERVICE_PATH}/ListClusters": Method(api.ListClustersRequest, manager.list_clusters),
        f"{SERVICE_PATH}/GetCluster": Method(api.GetClusterRequest, manager.get_cluster),
        f"{SERVICE_PATH}/ListNodePools": Method(api.ListNodePoolsRequest, manager.list_pools),
        f"{SERVICE_PATH}/GetNodePool": Method(api.GetNodePoolRequest, manager.get_pool),
        f"{SERVICE_PATH}/ListOperations": Method(api.ListOperationsRequest, manager.list_operations),
        f"{SERVICE_PATH}/GetOperation": Method(api.GetOperationRequest, manager.get_operation),
        f"{SERVICE_PATH}/SetNodePoolSize": Method(api.SetNodePoolSizeRequest, manager.resize),
        f"{SERVICE_PATH}/SetNodePoolAutoscaling": Method(api.SetNodePoolAutoscalingRequest, manager.scale),
        f"{SERVICE_PATH}/UpdateCluster": Method(api.UpdateClusterRequest, manager.update),
    }


def _split_pool_path(path: str) -> tuple[str, str, str, str, str]:
    found = _PATH.search(path)
    if found is None:
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, f"Invalid resource name {path!r}.")
    project, location, kind, name, pool = found.groups(default="")
    return project, location, kind, name, pool


def _split_path(path: str) -> tuple[str, str, str]:
    project, location, _, name, _ = _split_pool_path(path)
    return project, location, name
