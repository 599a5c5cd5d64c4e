"""What the cluster serves and the account may read decides what is followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from console.errors import NotAllowed, NotFound, Unreadable
from console.kube.backoff import Backoff
from console.kube.client import ApiDiscovery, Client
from console.kube.snapshot import WatchState
from console.kube.watch import Changed, Disconnected, Heartbeat, Listed, Served, watch_kind
from tests.apiserver import ApiServer, eventually, forbidden, gathered, named, status
from tests.console.kube.objects.recorded import kind

QUICK = Backoff(first_seconds=0.02, max_seconds=0.05, refused_seconds=0.05)
PODS = "/api/v1/pods"


@asynccontextmanager
async def fed(server: ApiServer, plural: str, namespace: str = "team") -> AsyncIterator[list[Any]]:
    async with (
        server.client() as client,
        gathered(watch_kind(client, ApiDiscovery(client), kind(plural), namespace, backoff=QUICK)) as told,
    ):
        yield told


def seen(told: list[Any], kind_: type) -> list[Any]:
    return [each for each in told if isinstance(each, kind_)]


async def test_the_best_version_that_is_served(server: ApiServer) -> None:
    async with fed(server, "workloads") as told:
        await eventually(lambda: seen(told, Listed))
        assert told[0] == Served("kueue.x-k8s.io/v1beta2")
    server.groups["kueue.x-k8s.io"] = {"v1beta1": ["workloads"], "v1beta2": ["clusterqueues"]}
    async with fed(server, "workloads") as told:
        await eventually(lambda: seen(told, Listed))
        assert told[0] == Served("kueue.x-k8s.io/v1beta1")


async def test_core_kinds_need_no_discovery(server: ApiServer) -> None:
    async with fed(server, "pods") as told:
        await eventually(lambda: seen(told, Heartbeat))
        assert not server.asked("/apis")


async def test_a_missing_operator_is_reported_and_found_once_it_is_installed(server: ApiServer) -> None:
    kueue = server.groups.pop("kueue.x-k8s.io")
    async with fed(server, "clusterqueues") as told:
        await eventually(lambda: seen(told, Disconnected))
        assert told[0].state is WatchState.ABSENT
        assert "Kueue is not installed" in told[0].error.message
        server.groups["kueue.x-k8s.io"] = kueue
        await eventually(lambda: seen(told, Listed))


async def test_an_operator_that_is_removed_while_we_look(server: ApiServer) -> None:
    async with fed(server, "jobsets") as told:
        path = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
        await eventually(lambda: server.watched(path))
        del server.groups["jobset.x-k8s.io"]
        server.refuse[path] = status(404, "the server could not find the requested resource", reason="NotFound")
        server.hang_up(path)
        await eventually(lambda: any(each.state is WatchState.ABSENT for each in seen(told, Disconnected)))


async def test_a_kind_that_is_served_and_then_is_not_found_is_asked_for_less_and_less_often() -> None:
    pauses: list[int] = []

    class Recorded(Backoff, frozen=True):
        def pause(self, failure_count: int, max_seconds: float) -> float:
            pauses.append(failure_count)
            return 0.0

    async with ApiServer() as server, server.client() as client:
        path = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
        server.refuse[path] = [status(404, "no such resource", reason="NotFound") for _ in range(3)]
        async with gathered(
            watch_kind(client, ApiDiscovery(client), kind("jobsets"), "team", backoff=Recorded())
        ) as told:
            await eventually(lambda: seen(told, Listed))
    assert pauses == [1, 2, 3]


async def test_a_dead_aggregated_api_is_never_asked(server: ApiServer) -> None:
    server.groups["visibility.kueue.x-k8s.io"] = {"v1beta2": ["clusterqueues"]}
    server.refuse["/apis/visibility.kueue.x-k8s.io/v1beta2"] = status(503, "the server is unable to handle the request")
    async with fed(server, "clusterqueues") as told:
        await eventually(lambda: seen(told, Listed))
    assert not server.asked("/apis/visibility.kueue.x-k8s.io/v1beta2")


async def test_a_kind_that_may_not_be_listed_everywhere_is_followed_in_one_namespace(server: ApiServer) -> None:
    server.refuse[PODS] = forbidden("pods")
    server.put("/api/v1/namespaces/team/pods", named("mine", "team"))
    async with fed(server, "pods") as told:
        await eventually(lambda: seen(told, Heartbeat))
        assert [each.note for each in seen(told, Served)] == [
            "",
            "only namespace team: listing pods everywhere is not allowed",
        ]
        assert list(seen(told, Listed)[0].objects) == [("team", "mine")]
        assert not seen(told, Disconnected)


async def test_a_kind_that_may_not_be_listed_at_all_says_so(server: ApiServer) -> None:
    server.refuse["/api/v1/nodes"] = [forbidden("nodes")]
    async with fed(server, "nodes") as told:
        await eventually(lambda: seen(told, Listed))
        (lost,) = seen(told, Disconnected)
        assert (lost.state, type(lost.error), lost.error.hint) == (
            WatchState.FORBIDDEN,
            NotAllowed,
            "Ask for `list nodes`.",
        )


async def test_500_is_stale_and_recovers(server: ApiServer) -> None:
    server.put(PODS, named("a"))
    server.refuse[PODS] = [status(500, "boom"), status(503, "boom")]
    async with fed(server, "pods") as told:
        await eventually(lambda: seen(told, Listed))
        assert [each.state for each in seen(told, Disconnected)] == [WatchState.STALE] * 2


async def test_429_with_a_long_wait_is_stale(server: ApiServer) -> None:
    server.refuse[PODS] = [status(429, "too many", headers={"Retry-After": "100"})]
    async with fed(server, "pods") as told:
        await eventually(lambda: seen(told, Disconnected))
        assert told[-1].error.retry_after == 100


async def test_something_that_is_no_kubernetes_api() -> None:
    from aiohttp import web

    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Please log in to the hotel's WiFi</html>")

    async with ApiServer() as server:
        server.handlers["/apis"] = page
        async with fed(server, "workloads") as told:
            await eventually(lambda: seen(told, Disconnected))
            assert isinstance(told[0].error, Unreadable)


async def test_odd_names_and_missing_fields_come_through(server: ApiServer) -> None:
    async with fed(server, "pods") as told:
        await eventually(lambda: server.watched(PODS))
        server.put(PODS, named("[bold]🚀[/]", "n", spec=None, status=None))
        await eventually(lambda: seen(told, Changed))
        assert told[-1].object.name == "[bold]🚀[/]"


@pytest.mark.parametrize("plural", ["jobsets", "workloads"])
async def test_a_catalogue_is_asked_once(plural: str, server: ApiServer, client: Client) -> None:
    catalogue = ApiDiscovery(client)
    for _ in range(3):
        assert await catalogue.version(kind(plural))
    assert len(server.asked("/apis")) == 1
    server.groups.clear()
    catalogue.clear_cache()
    assert await catalogue.version(kind(plural)) == ""
    assert await catalogue.server_version() == "v1.36.4-test"


async def test_a_group_that_may_not_be_looked_at_counts_as_absent(server: ApiServer, client: Client) -> None:
    for version in server.groups["kueue.x-k8s.io"]:
        server.refuse[f"/apis/kueue.x-k8s.io/{version}"] = status(404, "gone", reason="NotFound")
    assert await ApiDiscovery(client).version(kind("workloads")) == ""
    server.refuse["/apis"] = status(404, "gone", reason="NotFound")
    with pytest.raises(NotFound):
        await ApiDiscovery(client).version(kind("workloads"))


async def test_the_list_of_a_kind_read_in_one_version_says_that_it_is_not_there(server: ApiServer) -> None:
    server.refuse["/apis/jobset.x-k8s.io/v1alpha2/jobsets"] = [status(404, "no such thing", reason="NotFound")] * 2
    async with fed(server, "jobsets") as told:
        await eventually(lambda: seen(told, Disconnected))
        assert told[-1].state is WatchState.ABSENT
        assert "does not serve jobsets" in told[-1].error.message
    assert not server.asked("/apis/jobset.x-k8s.io/v1alpha2")


DEPLOYMENTS, OF_KUEUE = "/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/kueue-system/deployments"


@pytest.mark.parametrize(
    ("image", "refused", "api", "number", "rules"),
    [
        ("registry.k8s.io/kueue/kueue:v0.17.1", (), ("v1beta2", "v1beta1"), "0.17.1", 17),
        ("mirror.example/kueue/kueue:v0.19.2@sha256:12", (DEPLOYMENTS,), ("v1beta2", "v1beta1"), "0.19.2", 19),
        ("registry.k8s.io/kueue/kueueviz-backend:v0.17.1", (), ("v1beta2", "v1beta1"), "", 18),
        ("kueue@sha256:12", (), ("v1beta2",), "", 19),
        (f"x/kueue:v0.{'9' * 5000}.1", (), ("v1beta2",), "", 19),
        ("registry.k8s.io/kueue/kueue:v0.17.1", (DEPLOYMENTS, OF_KUEUE), ("v1beta2",), "", 19),
    ],
)  # fmt: skip
async def test_the_version_of_kueue(
    image: str, refused: tuple[str, ...], api: tuple[str, ...], number: str, rules: int, server: ApiServer,
    client: Client,
) -> None:  # fmt: skip
    server.groups["kueue.x-k8s.io"] = {version: ["clusterqueues"] for version in api}
    spec = {"template": {"metadata": {}, "spec": {"containers": [{"name": "manager", "image": image}]}}}
    for path in (DEPLOYMENTS, OF_KUEUE):
        server.put(path, named("kueue-controller-manager", "kueue-system", spec=spec))
    for path in refused:
        server.refuse[path] = forbidden("deployments", "apps")
    catalogue = ApiDiscovery(client)
    await catalogue.version(kind("clusterqueues"))
    found = await catalogue.kueue_version()
    assert (found.number, found.api_versions, found.rules_minor) == (number, api, rules)
    assert bool(found.unknown_note) is not bool(number)
    assert all(each.query["labelSelector"] == "app.kubernetes.io/name=kueue" for each in server.asked(DEPLOYMENTS))
