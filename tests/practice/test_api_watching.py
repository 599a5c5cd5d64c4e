"""Watches: nothing lost, nothing twice, and an honest end."""

from collections.abc import AsyncIterator
from pathlib import Path

from tests.contract.client import Object
from tests.practice.api_client import MAPS, ServedApi, config_map, serving


async def now(api: ServedApi) -> str:
    return str((await api.get(MAPS)).body["metadata"]["resourceVersion"])


async def take(events: AsyncIterator[Object], count: int) -> list[tuple[str, str]]:
    taken = [await anext(events) for _ in range(count)]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in taken]


async def test_other_namespaces_are_not_watched(api: ServedApi) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    async with api.watch(MAPS, resourceVersion=await now(api)) as events:
        await api.post("/api/v1/namespaces/other/configmaps", config_map("far"))
        await api.post(MAPS, config_map("near"))
        assert await take(events, 1) == [("ADDED", "near")]


async def test_a_forgotten_version_is_an_error_event(tmp_path: Path) -> None:
    async with serving(tmp_path, window=2) as api:
        since = await now(api)
        for name in "abc":
            await api.post(MAPS, config_map(name))
        async with api.watch(MAPS, resourceVersion=since) as events:
            error = await anext(events)
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
            assert [event async for event in events] == []
        api.server.gone_as_status = True
        assert (await api.get(MAPS, watch="1", resourceVersion=since)).status == 410


async def test_an_open_watch_can_be_expired_or_closed(api: ServedApi) -> None:
    async with api.watch(MAPS) as events:
        await api.post(MAPS, config_map("a"))
        await anext(events)
        api.server.expire_watches()
        assert (await anext(events))["object"]["reason"] == "Expired"
    async with api.watch(MAPS) as events:
        await anext(events)
        api.server.close_watches()
        assert [event async for event in events] == []


async def test_bookmarks_come_to_who_allows_them(tmp_path: Path) -> None:
    async with serving(tmp_path, bookmark_seconds=0.05) as api:
        async with api.watch(MAPS, resourceVersion=await now(api), allowWatchBookmarks="true") as events:
            await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
            newest = str(api.storage.version)
            while (mark := await anext(events))["object"]["metadata"]["resourceVersion"] != newest:
                assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "ConfigMap"


async def test_a_burst_arrives_whole(api: ServedApi) -> None:
    async with api.watch(MAPS, resourceVersion=await now(api)) as events:
        from practice.objects.resources import CONFIGMAPS

        for number in range(500):
            api.storage.create(CONFIGMAPS, config_map(f"m{number}"))
        assert await take(events, 500) == [("ADDED", f"m{number}") for number in range(500)]
