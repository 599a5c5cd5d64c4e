"""Watch: every change after a version, once and in order, and an honest word when that is no longer known."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import MERGE_PATCH, Api, Object
from tests.contract.cluster import CORE, JOBSETS, KUEUE
from tests.contract.space import Space


def config(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def take(events: AsyncIterator[Object], count: int) -> list[tuple[str, str]]:
    """Type and name of the next events that are not about what every namespace gets."""
    taken: list[tuple[str, str]] = []
    async with asyncio.timeout(60):
        async for event in events:
            name = event["object"]["metadata"].get("name", "")
            if name != "kube-root-ca.crt":
                taken.append((event["type"], name))
            if len(taken) == count:
                break
    return taken


async def version(space: Space) -> str:
    listed = (await space.api.get(space.path(CORE, "configmaps"))).made
    return str(listed["metadata"]["resourceVersion"])


async def test_changes_after_a_version(space: Space) -> None:
    path = space.path(CORE, "configmaps")
    await space.api.create(path, config("before"))
    async with space.api.watch(path, resourceVersion=await version(space)) as events:
        await space.api.create(path, config("a"))
        await space.api.send("PATCH", f"{path}/a", {"data": {"k": "v"}}, MERGE_PATCH)
        await space.api.delete(f"{path}/before")
        await space.api.delete(f"{path}/a")
        assert await take(events, 4) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "before"), ("DELETED", "a")]


async def test_events_carry_whole_objects_whose_versions_grow(space: Space) -> None:
    path = space.path(CORE, "configmaps")
    async with space.api.watch(path, resourceVersion=await version(space), fieldSelector="metadata.name=a") as events:
        await space.api.create(path, config("a"))
        await space.api.send("PATCH", f"{path}/a", {"data": {"k": "v"}}, MERGE_PATCH)
        await space.api.delete(f"{path}/a")
        objects = [(await anext(events))["object"] for _ in range(3)]
    assert [item["kind"] for item in objects] == ["ConfigMap"] * 3
    assert [item.get("data") for item in objects] == [None, {"k": "v"}, {"k": "v"}]
    versions = [int(item["metadata"]["resourceVersion"]) for item in objects]
    assert versions == sorted(set(versions))


async def test_an_old_version_replays_what_came_since(space: Space) -> None:
    path, since = space.path(CORE, "configmaps"), await version(space)
    for name in ("a", "b"):
        await space.api.create(path, config(name))
    async with space.api.watch(path, resourceVersion=since) as events:
        assert await take(events, 2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_without_a_version_what_exists_comes_first(space: Space) -> None:
    path = space.path(CORE, "configmaps")
    await space.api.create(path, config("a"))
    async with space.api.watch(path) as events:
        assert await take(events, 1) == [("ADDED", "a")]
        await space.api.create(path, config("b"))
        assert await take(events, 1) == [("ADDED", "b")]


async def test_leaving_a_selector_looks_like_going_away(space: Space) -> None:
    path, since = space.path(CORE, "configmaps"), await version(space)
    async with space.api.watch(path, resourceVersion=since, labelSelector="team=red") as events:
        await space.api.create(path, config("a", team="blue"))
        for team in ("red", "blue"):
            await space.api.send("PATCH", f"{path}/a", {"metadata": {"labels": {"team": team}}}, MERGE_PATCH)
        assert await take(events, 1) == [("ADDED", "a")]
        gone = await anext(events)
    changed = (await space.api.get(f"{path}/a")).made["metadata"]["resourceVersion"]
    assert (gone["type"], gone["object"]["metadata"]["labels"]) == ("DELETED", {"team": "red"})
    assert gone["object"]["metadata"]["resourceVersion"] == changed


async def test_a_stream_that_begins_with_what_exists_marks_where_that_ends(space: Space) -> None:
    path = space.path(CORE, "configmaps")
    await space.api.create(path, config("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with space.api.watch(path, **query, labelSelector="!none", fieldSelector="metadata.name=a") as events:
        assert await take(events, 1) == [("ADDED", "a")]
        mark = await anext(events)
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["object"]["metadata"]["resourceVersion"]) > 0


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_watch_ends_when_its_time_is_up(space: Space) -> None:
    path = space.path(CORE, "configmaps")
    async with (
        asyncio.timeout(60),
        space.api.watch(
            path, resourceVersion=await version(space), timeoutSeconds=1, labelSelector="never=true"
        ) as events,
    ):
        assert [event["type"] async for event in events if event["type"] != "BOOKMARK"] == []


async def test_a_version_from_long_ago_is_gone(api: Api) -> None:
    async with asyncio.timeout(60), api.watch(f"{JOBSETS}/jobsets", resourceVersion=1) as events:
        event = await anext(events)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def until_deleted(space: Space, **how: Any) -> list[Object]:
    """What a watch tells of a pod that runs and is deleted: its status each time."""
    await space.pod("a")
    path, seen = space.path(CORE, "pods"), []
    async with asyncio.timeout(60), space.api.watch(path, resourceVersion=await version(space)) as events:
        await space.api.delete(f"{path}/a", **how)
        async for event in events:
            seen.append(event["object"])
            if event["type"] == "DELETED":
                break
    return [item["status"] for item in seen]


async def test_a_deleted_pod_is_seen_ended_before_it_goes(space: Space) -> None:
    first, *_, last, _ = await until_deleted(space)
    how = last["containerStatuses"][0]["state"]["terminated"]
    assert (first["phase"], last["phase"]) == ("Running", "Failed")
    assert (how["exitCode"], how["reason"]) == (143, "Error")


async def test_a_pod_deleted_by_force_goes_at_once(space: Space) -> None:
    assert {status["phase"] for status in await until_deleted(space, gracePeriodSeconds=0)} == {"Running"}


async def test_custom_kinds_are_watched_in_both_versions(space: Space) -> None:
    listed = (await space.api.get(f"{KUEUE}/clusterqueues")).made
    since, old = listed["metadata"]["resourceVersion"], "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
    async with space.api.watch(old, resourceVersion=since) as events:
        await space.queue("team", 8, cohortName=f"{space.name}-cohort")
        event = await anext(events)
    assert event["object"]["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    assert event["object"]["spec"]["cohort"] == f"{space.name}-cohort"
