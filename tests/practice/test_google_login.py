"""Practice Google answers those who have its token, at its own address: its ports are open to the whole machine."""

import aiohttp
import grpc
import pytest
from google.cloud.container_v1 import ClusterManagerAsyncClient
from google.cloud.container_v1.types import ListClustersRequest
from grpc import aio

from tests.practice_google import TOKEN, practice_google

LOGIN = {"Authorization": f"Bearer {TOKEN}"}
LIST = "/google.container.v1.ClusterManager/ListClusters"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer other"}, 401),
        ({**LOGIN, "Host": "evil.example"}, 403),
        ({**LOGIN, "Host": "127.0.0.1"}, 403),
        (LOGIN, 200),
    ],
    ids=["nobody", "another token", "another host", "another port", "login"],
)
@pytest.mark.parametrize(
    "path", ["/storage/v1/b?project=practice", "/compute/v1/projects/practice/regions/us-central1/routers"]
)
async def test_over_http(headers: dict[str, str], status: int, path: str) -> None:
    async with (
        practice_google() as (_, reach),
        aiohttp.ClientSession(reach.practice_http) as session,
        session.get(path, headers=headers) as answer,
    ):
        assert answer.status == status
        assert await answer.json() if status == 200 else await answer.text()


async def test_nobody_changes_anything_over_http() -> None:
    async with practice_google() as (_, reach), aiohttp.ClientSession() as session:
        url = f"{reach.practice_http}/storage/v1/b?project=practice"
        async with session.post(url, json={"name": "made-by-a-stranger"}) as answer:
            assert answer.status == 401
        async with session.get(url, headers=LOGIN) as answer:
            assert "made-by-a-stranger" not in await answer.text()


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer other"),)], ids=["nobody", "another token"])
async def test_over_grpc(metadata: tuple[tuple[str, str], ...]) -> None:
    wanted = ListClustersRequest(parent="projects/practice/locations/-")
    async with practice_google() as (world, reach), aio.insecure_channel(reach.practice_grpc) as channel:
        call = channel.unary_unary(LIST, request_serializer=ListClustersRequest.serialize)
        with pytest.raises(aio.AioRpcError) as refused:
            await call(wanted, metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not world.calls
        assert (await reach.client(ClusterManagerAsyncClient).list_clusters(wanted)).clusters
