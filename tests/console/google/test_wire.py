"""Google's own client libraries against practice Google, on the wire."""

import asyncio

import grpc
import pytest
from google.cloud import container_v1 as api

from console.errors import ApiDisabled, BadInput, Conflict, NotAllowed, NotFound, NotLoggedIn, Refused, Unreachable
from console.google.api import projects as services
from console.google.api.container import Gke, parse_cluster
from console.google.api.projects import search_projects
from console.google.clusters import GkeCluster, GkeOperation
from practice.google.cloud import CLUSTER, CONTAINER, DISABLED, LOCKED, PROJECT, REGION, SHARED, Fault, PracticeProject
from practice.objects.resources import NODES
from tests.practice_google import practice_google


async def ended(gke: Gke, operation: GkeOperation) -> GkeOperation:
    async with asyncio.timeout(60):
        while not operation.over:
            await asyncio.sleep(0.02)
            operation = await gke.read_operation(operation.project, operation.location, operation.name)
    return operation


async def own(gke: Gke) -> GkeCluster:
    return await gke.read_cluster(PROJECT, REGION, CLUSTER)


async def test_projects_come_page_by_page() -> None:
    async with practice_google() as (world, reach):
        world.page = 3
        for number in range(10):
            world.projects[f"more-{number}"] = PracticeProject(f"more-{number}", "More", f"2{number}")
        found = [each.id async for each in search_projects(reach)]
        asked = [method for method, _ in world.calls if "SearchProjects" in method]
    assert found[-1] == "more-9"
    assert len(found) == len(set(found)) == 14
    assert len(asked) == 5


@pytest.mark.slow(reason="thousands of clusters")
async def test_thousands_of_clusters_hold_nothing_up() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    async with practice_google() as (world, reach):
        world.crowd = 3000
        gke = Gke(reach)
        await gke.list_clusters(PROJECT)
        working = asyncio.create_task(others())
        found = await gke.list_clusters(SHARED)
        working.cancel()
    assert len(found.clusters) == 3002
    assert turns > 20


async def test_a_cluster_with_its_pools() -> None:
    async with practice_google() as (_, reach):
        cluster = await own(Gke(reach))
    assert (cluster.status, cluster.workload_pool) == ("RUNNING", "practice.svc.id.goog")
    pools = {each.name: each for each in cluster.pools}
    reserved, spot, flex = pools["a4-highgpu-8g-a4-pool"], pools["a4-spot"], pools["a4-flex"]
    assert (reserved.reservation, reserved.placement, reserved.networks) == ("practice-a4", "COMPACT", 9)
    assert (spot.spot, spot.autoscaling, spot.least, spot.most) == (True, True, 2, 8)
    assert (flex.flex_start, flex.queued, flex.auto_repair) == (True, True, False)


@pytest.mark.parametrize(
    ("enabled", "public", "dns", "entrance"),
    [
        (True, True, "", ("34.1.2.3", False, "")),
        (True, False, "", ("34.1.2.3", True, "")),
        (False, False, "x.gke.goog", ("", False, "x.gke.goog")),
        (True, True, "x.gke.goog", ("34.1.2.3", False, "x.gke.goog")),
    ],
)
def test_endpoints_are_distinguished(enabled: bool, public: bool, dns: str, entrance: tuple[str, bool, str]) -> None:
    kinds = api.ControlPlaneEndpointsConfig
    ends = kinds(
        ip_endpoints_config=kinds.IPEndpointsConfig(enabled=enabled, enable_public_endpoint=public),
        dns_endpoint_config=kinds.DNSEndpointConfig(endpoint=dns or "off.gke.goog", allow_external_traffic=bool(dns)),
    )
    found = parse_cluster("p", api.Cluster(name="c", endpoint="34.1.2.3", control_plane_endpoints_config=ends))
    assert (found.endpoint, found.private, found.dns_endpoint) == entrance


async def test_a_pool_grows_as_its_operation_tells() -> None:
    async with practice_google() as (world, reach):
        gke = Gke(reach)
        before = len(world.storage.list(NODES))
        begun = await gke.resize(await own(gke), "a4-spot", 6)
        assert not begun.over
        done = await ended(gke, begun)
        assert (done.error, done.done, done.total) == ("", 2, 2)
        assert len(world.storage.list(NODES)) == before + 2


async def test_an_operation_fails_half_way() -> None:
    async with practice_google() as (_, reach):
        gke = Gke(reach)
        done = await ended(gke, await gke.resize(await own(gke), "a4-spot", 12))
        assert "GCE_STOCKOUT" in done.error
        assert (done.done, done.total) == (4, 8)
        pool = next(each for each in (await own(gke)).pools if each.name == "a4-spot")
    assert pool.status == "RUNNING_WITH_ERROR"
    assert "GCE_STOCKOUT" in pool.message


async def test_two_operations_at_once_are_refused() -> None:
    async with practice_google(speed=1) as (_, reach):
        gke = Gke(reach)
        cluster = await own(gke)
        await gke.resize(cluster, "a4-spot", 6)
        with pytest.raises(Conflict, match="incompatible operation"):
            await gke.resize(cluster, "a4-spot", 7)


@pytest.mark.slow(reason="thousands of clusters")
async def test_a_service_that_is_not_enabled_is_named_and_can_be_enabled() -> None:
    async with practice_google() as (_, reach):
        with pytest.raises(ApiDisabled) as refused:
            await Gke(reach).list_clusters(DISABLED)
        assert refused.value.service == CONTAINER
        assert f"a4 clusters enable {DISABLED}" in refused.value.hint
        assert await services.enabled_services(reach, DISABLED, [CONTAINER]) == frozenset()
        await services.enable_service(reach, DISABLED, CONTAINER)
        assert await services.enabled_services(reach, DISABLED, [CONTAINER]) == {CONTAINER}
        assert (await Gke(reach).list_clusters(DISABLED)).clusters == ()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Refused, "quota"),
        (grpc.StatusCode.PERMISSION_DENIED, NotAllowed, "role"),
        (grpc.StatusCode.NOT_FOUND, NotFound, "Check the project"),
        (grpc.StatusCode.UNAUTHENTICATED, NotLoggedIn, "gcloud auth application-default login"),
        (grpc.StatusCode.INVALID_ARGUMENT, BadInput, "an injected fault"),
        (grpc.StatusCode.FAILED_PRECONDITION, Conflict, "a4 operations"),
    ],
)
async def test_errors_say_what_to_do(code: grpc.StatusCode, kind: type[Exception], words: str) -> None:
    async with practice_google() as (world, reach):
        world.faults.append(Fault("ListClusters", code))
        with pytest.raises(kind, match=words):
            await Gke(reach).list_clusters(PROJECT)


async def test_a_login_that_ended_is_no_service_that_is_away() -> None:
    words = "Getting metadata from plugin failed with error: ('invalid_grant: Token has been expired or revoked.', {})"
    async with practice_google() as (world, reach):
        world.faults.append(Fault("SetNodePoolSize", grpc.StatusCode.UNAVAILABLE, words))
        gke = Gke(reach)
        with pytest.raises(NotLoggedIn, match="gcloud auth application-default login"):
            await gke.resize(await own(gke), "a4-spot", 6)


async def test_a_wrong_project_and_a_place_without_clusters() -> None:
    async with practice_google() as (world, reach):
        with pytest.raises(NotAllowed, match=r"may not exist.*Check the id of the project"):
            await Gke(reach).list_clusters("practise")
        world.projects["empty"] = PracticeProject("empty", "Empty", "77")
        assert (await Gke(reach).list_clusters("empty")).clusters == ()
        with pytest.raises(NotFound, match="Check the project, the location and the name"):
            await Gke(reach).read_cluster(PROJECT, "asia-east1", CLUSTER)


async def test_a_quota_that_is_used_up_is_reported_by_the_operation() -> None:
    async with practice_google() as (world, reach):
        world.failing["SET_NODE_POOL_SIZE"] = "Quota 'PREEMPTIBLE_NVIDIA_B200_GPUS' exceeded. Limit: 32.0"
        gke = Gke(reach)
        done = await ended(gke, await gke.resize(await own(gke), "a4-spot", 6))
    assert "Quota 'PREEMPTIBLE_NVIDIA_B200_GPUS' exceeded" in done.error


async def test_what_passes_is_tried_again() -> None:
    async with practice_google() as (world, reach):
        world.faults.append(Fault("ListClusters", times=1))
        assert (await Gke(reach).list_clusters(PROJECT)).clusters
        assert sum("ListClusters" in method for method, _ in world.calls) == 2


async def test_what_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.google.api.container.GKE_TIMEOUT", 0.2)
    async with practice_google() as (world, reach):
        world.faults.append(Fault("ListClusters", grpc.StatusCode.OK, delay=30, times=50))
        with pytest.raises(Unreachable):
            await Gke(reach).list_clusters(PROJECT)


async def test_a_closed_project_is_distinguished() -> None:
    async with practice_google() as (_, reach):
        with pytest.raises(NotAllowed, match="practice-locked"):
            await Gke(reach).list_clusters(LOCKED)
