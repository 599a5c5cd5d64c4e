"""Google around a cluster: where it lies, which there are, and the way into one; all of it on practice Google."""

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import yaml

from console.connection_settings import Settings
from console.errors import BadInput, BadKubeconfig, Conflict, ConsoleError, NotAllowed, NotFound, Unreachable
from console.google.account import parse_context_name
from console.google.clusters import ClusterPlace
from console.google.node_pools import PoolsSnapshot
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from console.session import Session
from practice.cluster import PracticeCluster
from practice.google.cloud import Fault, PracticeGoogle, PracticeProject

OWN = "gke_practice_us-central1_practice"
FIRST = "gke-practice-a4-highgpu-8g-a4-pool-79c66879-0000"


@asynccontextmanager
async def opened(
    *kinds: str, speed: float = 300.0, read_only: bool = False
) -> AsyncIterator[tuple[Session, PracticeCluster]]:
    async with PracticeCluster(speed=speed, scene=False) as cluster:
        settings = Settings(kubeconfig=cluster.kubeconfig, practice=True, read_only=read_only)
        session = await Session.open(settings, kinds=kinds)
        try:
            if kinds:
                await session.wait_until_listed(*kinds)
            yield session, cluster
        finally:
            await session.close()


async def world_of(session: Session, cluster: PracticeCluster) -> PracticeGoogle:
    await session.google.account.open_session()
    assert cluster.google is not None
    return cluster.google.world


async def test_clusters_of_all_projects_and_why_some_could_not_be_read() -> None:
    async with opened() as (session, _):
        found = await session.google.account.list_clusters()
    assert [each.name for each in found.clusters] == ["research-private", "sandbox", "practice"]
    assert {project: type(error).__name__ for project, error in found.unread} == {
        "practice-locked": "NotAllowed", "practice-new": "ApiDisabled",
    }  # fmt: skip


async def test_hundreds_of_projects_are_read_page_by_page_not_all_at_once() -> None:
    async with opened() as (session, cluster):
        world = await world_of(session, cluster)
        for number in range(120):
            world.projects[f"more-{number}"] = PracticeProject(f"more-{number}", "More", f"2{number}")
        found = await session.google.account.list_clusters()
        assert len(found.clusters) == 3
        assert sum("SearchProjects" in method for method, _ in world.calls) == 3


async def test_who_may_not_list_projects_sees_those_of_the_own_project() -> None:
    async with opened() as (session, cluster):
        world = await world_of(session, cluster)
        world.faults.append(Fault("SearchProjects", grpc.StatusCode.PERMISSION_DENIED, "no", times=9))
        found = await session.google.account.list_clusters()
        assert [each.project for each in found.clusters] == ["practice"]


@pytest.mark.parametrize(
    ("context", "place"),
    [
        ("gke_my-lab_us-central1-b_train", ClusterPlace("my-lab", "us-central1-b", "train")),
        ("gke_a_b_c_d", ClusterPlace("a", "b", "c_d")),
        ("kind-kind", None),
        ("gke_a_b", None),
    ],
)
def test_a_place_by_the_name_of_its_context(context: str, place: ClusterPlace | None) -> None:
    assert parse_context_name(context) == place


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [("sandbox", BadInput, "Retry budget"), ("research-private", Unreachable, "private.*--enable-dns-access"),
     ("nowhere", NotFound, "no cluster")],
)  # fmt: skip
async def test_what_cannot_be_entered_says_why(name: str, kind: type[ConsoleError], words: str) -> None:
    async with opened() as (session, _):
        with pytest.raises(kind, match=words):
            await session.google.account.fetch_server_version(await session.google.account.find_cluster(name))
        assert session.context == "practice"


async def test_a_kubeconfig_without_a_token(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with opened() as (session, _):
        own = await session.google.account.find_cluster(OWN)
        assert await session.google.account.write_kubeconfig(own, path) == (path, False)
        with pytest.raises(BadInput, match="DNS endpoint is disabled"):
            await session.google.account.write_kubeconfig(own, path, "dns")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    user = yaml.safe_load(path.read_text())["users"][0]["user"]
    assert list(user) == ["exec"]


async def test_a_token_is_asked_for_anew_before_it_ends() -> None:
    now = 1000.0
    given: list[float] = []

    async def source() -> tuple[str, float]:
        given.append(now)
        return f"token-{len(given)}", now + 3600

    target = Target("c", "u", "default", Cluster("https://x"), User(token_source=source))
    login = Login(target, clock=lambda: now)
    assert (await login.headers())["Authorization"] == "Bearer token-1"
    now += 3000
    assert (await login.headers())["Authorization"] == "Bearer token-1"
    now += 590
    assert (await login.headers())["Authorization"] == "Bearer token-2"
    assert await login.renew({"Authorization": "Bearer token-2"})
    assert "token" not in repr(login)


async def test_without_the_context_nothing_is_asked_of_google() -> None:
    with pytest.raises(BadKubeconfig):
        await Session.open(Settings(context="kind-kind"), kinds=())


async def test_pools_with_what_google_wants_and_the_cluster_has() -> None:
    async with opened("nodes") as (session, _):
        picture = await session.google.node_pools.read_snapshot()
        reserved, spot = picture.find_pool("a4-highgpu-8g-a4-pool"), picture.find_pool("a4-spot")
        assert reserved is not None
        assert spot is not None
        assert (reserved.target_size, reserved.ready, reserved.state) == (16, 16, "ok")
        assert (spot.target_size, spot.limits) == (4, "2 to 8")
        assert picture.cluster.maintenance.startswith("Saturdays and Sundays, 02:00 to 08:00 UTC")
        assert picture.unread == ()


async def test_what_may_not_be_read_is_named_and_the_rest_is_shown() -> None:
    async with opened("nodes") as (session, cluster):
        world = await world_of(session, cluster)
        world.faults.append(Fault("ListOperations", grpc.StatusCode.PERMISSION_DENIED, "no", times=9))
        world.count_group = None
        picture = await session.google.node_pools.read_snapshot()
    assert set(dict(picture.unread)) == {"operations", "target sizes"}
    assert [each.target_size for each in picture.pools] == [16, None, None, 3]


async def test_following_goes_on_over_a_look_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.google.node_pools.ACTIVE_POLL_SECONDS", 0.01)
    async with opened("nodes") as (session, cluster):
        world = await world_of(session, cluster)
        world.faults.append(Fault("GetCluster", grpc.StatusCode.PERMISSION_DENIED, "no"))
        told = []
        async for each in session.google.node_pools.follow_snapshots():
            told.append(each)
            if isinstance(each, PoolsSnapshot):
                break
    assert isinstance(told[0], NotAllowed)


async def test_resizes_that_are_refused_before_google_is_asked() -> None:
    async with opened("nodes") as (session, _):
        for pool, nodes, words in (("a4-spot", -1, "cannot have"), ("a4-flex", 3, "DWS"), ("nope", 3, "no node pool")):
            with pytest.raises(ConsoleError, match=words):
                await session.google.node_pools.resize(pool, nodes)
        with pytest.raises(BadInput, match="not valid limits"):
            await session.google.node_pools.scale_between("a4-spot", 5, 2)


async def test_limits_are_set() -> None:
    async with opened("nodes") as (session, _):
        begun = await session.google.node_pools.scale_between("a4-spot", 1, 6)
        steps = [each async for each in session.google.node_pools.follow_operation(begun)]
        picture = await session.google.node_pools.read_snapshot()
        spot = picture.find_pool("a4-spot")
    assert (steps[-1].over, steps[-1].error) == (True, "")
    assert spot is not None
    assert spot.limits == "1 to 6"


async def test_read_only_changes_nothing() -> None:
    async with opened("nodes", read_only=True) as (session, _):
        pools = session.google.node_pools
        for doing in (pools.resize("a4-spot", 5), pools.scale_between("a4-spot", 0, 0),
                      pools.report_fault(FIRST, "XID"), session.google.account.enable_service("p", "s")):  # fmt: skip
            with pytest.raises(NotAllowed, match="read-only"):
                await doing


async def test_a_reported_host_is_replaced() -> None:
    async with opened("nodes", "pods", speed=2000.0) as (session, _):
        before = session.fleet.nodes["", FIRST].uid
        with pytest.raises(Conflict, match="reservation"):
            await session.google.node_pools.report_fault("gke-practice-system-c3e7a914-0000", "XID")
        with pytest.raises(BadInput, match="PERFORMANCE"):
            await session.google.node_pools.report_fault(FIRST, "noise")
        await session.google.node_pools.report_fault(FIRST, "XID")
        seen = []
        async for fleet in session.watch.snapshots():
            node = fleet.nodes.get(("", FIRST))
            if node is not None and node.repair and node.repair not in seen:
                seen.append(node.repair)
            if node is not None and node.uid != before and node.ready:
                break
    assert seen[:1] == ["PodsEvicted"] or seen[:1] == ["OperationRUNNING"]
