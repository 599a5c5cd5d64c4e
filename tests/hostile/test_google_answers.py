"""Answers of Google that no version of its library knows, or that are none: one sentence, and the rest goes on."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web

from console.errors import ConsoleError, Unreadable
from console.google.api.calls import GoogleSession
from console.google.bucket_paths import GcsPlace
from practice.google import storage
from practice.google.bucket_store import BUCKET, BucketStore
from practice.google.serving import Method, RefusalError, serve_grpc
from tests.google.practised import google


@pytest.mark.slow(reason="starts Google's libraries and a practice cluster for each answer")
@pytest.mark.parametrize("fields", [
    {"size": "-5"}, {"size": "abc"}, {"size": str(10**30)}, {"updated": "yesterday\x1b[2J"}, {"generation": "../../x"},
    {"name": None}, {"name": 7},
])  # fmt: skip
async def test_a_listing_of_a_bucket_that_cannot_be_read_is_refused_in_words(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_json = storage._object_json
    async with google() as (session, world):
        world.service_state(BucketStore).put(BUCKET, "runs/a", b"x")
        monkeypatch.setattr(storage, "_object_json", lambda *found: as_json(*found) | fields)
        place, reach = GcsPlace(BUCKET, "runs/"), session.google.storage
        for look in (reach.list_folder(place), reach.fetch_folder(place, tmp_path)):
            with pytest.raises(Unreadable, match="what Google answers cannot be read") as caught:
                await look
            assert caught.value.message.isprintable()


@pytest.mark.slow(reason="imports Google's libraries")
def test_a_state_that_google_has_added_since_is_shown_by_its_number() -> None:
    from google.cloud import container_v1
    from google.cloud.devtools import cloudbuild_v1

    from console.google.api.build import parse_build
    from console.google.api.container import parse_cluster, parse_operation, parse_pool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns of each
        pool = container_v1.NodePool(status=77, config={"taints": [{"key": "k", "effect": 9}]})
        operation = container_v1.Operation(status=77, operation_type=88)
        cluster, build = container_v1.Cluster(status=77, node_pools=[pool]), cloudbuild_v1.Build(status=77)
        states = [each.status for each in (parse_cluster("p", cluster), parse_pool(pool), parse_build("l", build))]
        assert states == ["77", "77", "77"]
        assert parse_operation("p", operation).kind == "88"


class Raw(bytes):
    """A message that is its bytes."""

    @classmethod
    def FromString(cls, data: bytes) -> Raw:  # noqa: N802 - as protobuf calls it
        return cls(data)

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf calls it
        return bytes(self)


# All lists have their items in field 1, and those with pages the name of the next one in field 2.
MANY = "50,000 empty entries"
LIES = {
    "pages without end": Raw(b"\x12\1x"), "entries without end": Raw(b"\n\0" * 1000 + b"\x12\1x"),
    MANY: Raw(b"\n\0" * 50_000), "no message": Raw(b"\xff" * 64), "another message": Raw(b"\x08\x4d"),
    "names of other types": Raw(b"\n\x08\n\2\xff\xfe\x12\2\xc3\x28"), "a refusal": Raw(b""),
    "details that are none": Raw(b""),
}  # fmt: skip


@asynccontextmanager
async def lying(lie: str) -> AsyncIterator[GoogleSession]:
    """A session with a server that answers each call so."""

    async def answer(_: object) -> Raw:
        if LIES[lie]:
            return LIES[lie]
        raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, "\x1b]0;no\x07" + "x" * 5000, service=lie)

    async def allow(*_: object) -> None: ...

    class Every(dict[str, Method]):
        def get(self, *_: object) -> Method:
            return Method(Raw, answer)

    server, address = await serve_grpc(Every(), allow, "t")
    reach = GoogleSession(address, "http://127.0.0.1:1", "t", "p")
    try:
        yield reach
    finally:
        await reach.close()
        await server.stop(0)


async def refusal_of(ask: Callable[[], Awaitable[Any]]) -> str:
    """The sentence that refuses the answer; empty where it is taken. Anything else is a defect."""
    try:
        await ask()
    except ConsoleError as error:
        return error.message
    return ""


async def drain(found: AsyncGenerator[Any, None]) -> list[Any]:
    async with aclosing(found):
        return [each async for each in found]


def questions(reach: GoogleSession) -> dict[str, Callable[[], Awaitable[Any]]]:
    from console.google.api import artifact_registry, build, container, file_systems, projects
    from console.google.builds import Repository

    registry, cloud_build = artifact_registry.ArtifactRegistry(reach), build.CloudBuild(reach, "p", "l")
    return {
        "clusters": lambda: container.Gke(reach).list_clusters("p"),
        "operations": lambda: container.Gke(reach).list_operations("p", "l"),
        "operation": lambda: container.Gke(reach).read_operation("p", "l", "o"),
        "builds": lambda: cloud_build.list_latest(10**6), "build": lambda: cloud_build.read_build("b"),
        "log": lambda: drain(build.BuildEntries(reach, "p", "b").read_new_lines()),
        "repositories": lambda: registry.repositories("p", "l"),
        "images": lambda: registry.images(Repository("p", "l", "r", "DOCKER", 0)),
        "Lustre": lambda: file_systems.list_lustre(reach, "p"),
        "Filestore": lambda: file_systems.list_filestore(reach, "p"),
        "projects": lambda: drain(projects.search_projects(reach)),
        "services": lambda: projects.enabled_services(reach, "p", ["a"]),
    }  # fmt: skip


PAGED = {"builds", "repositories", "images", "Lustre", "Filestore", "projects"}


@pytest.mark.slow(reason="imports Google's libraries, and waits until lists without end are given up")
@pytest.mark.parametrize("lie", LIES)
async def test_calls_whose_answers_have_no_end_or_are_none_end_in_words(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.google.api import build, calls
    from practice.google import serving

    for module in (build, calls):
        monkeypatch.setattr(module, "LISTING_TIMEOUT", 0.2)
    if lie == "details that are none":
        monkeypatch.setattr(serving, "_disabled_service_details", lambda _: (("grpc-status-details-bin", b"\xff\1"),))
    async with lying(lie) as reach:
        told = {name: await refusal_of(ask) for name, ask in questions(reach).items()}
    refused = {name for name, message in told.items() if message}
    must = {
        "pages without end": PAGED,
        "entries without end": PAGED,
        "another message": set(),
        MANY: {"clusters", "operations", "Lustre"},
    }
    assert refused >= must.get(lie, told.keys() - {"services", "log"}), lie
    assert max(map(len, told.values())) < 1200


@asynccontextmanager
async def answering(body: object) -> AsyncIterator[tuple[GoogleSession, list[str]]]:
    """A session with a web server that answers each request so, and the paths that were asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), content_type="application/json")

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield GoogleSession("127.0.0.1:1", f"http://127.0.0.1:{runner.addresses[0][1]}", "t", "p"), asked
    finally:
        await runner.cleanup()


@pytest.mark.slow(reason="imports Google's libraries")
@pytest.mark.parametrize("body", [
    {"nextPageToken": "x"}, {"items": [{"name": "a"}], "nextPageToken": "x"}, {"prefixes": ["a"], "nextPageToken": "x"},
    [], 7, {"items": 7}, {"items": [7]}, {"items": [[]]}, {"items": [{"priority": "x", "direction": "INGRESS"}]},
    {"items": [{"nats": 7}]}, {"targetSize": "x", "specificReservation": {"count": "x"}}, {"specificReservation": []},
    {"targetSize": 1e999}, "{", "[" * 100_000,
], ids=lambda body: json.dumps(body)[:40])  # fmt: skip
async def test_rest_answers_that_have_no_end_or_are_none_end_in_words(
    body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.google.api import cloud_storage, compute

    monkeypatch.setattr(cloud_storage, "MAX_PAGES", 20)
    async with answering(body) as (reach, _):
        buckets, place = cloud_storage.Buckets(reach, "p"), GcsPlace("b", "runs/")
        told = [await refusal_of(ask) for ask in (
            buckets.list_buckets, lambda: buckets.list_folder(place), lambda: drain(buckets.iter_tree(place)),
            lambda: buckets.is_owned("z"), lambda: compute.list_nats(reach, "p", "r"),
            lambda: compute.list_firewalls(reach, "p", ""), lambda: compute.read_reservation(reach, "p", "z", "n"),
            lambda: compute.read_instance_groups(reach, [f"{compute._INSTANCE_GROUPS_URL}/g"]),
        )]  # fmt: skip
        await buckets.close()
    assert any(told)
    assert max(map(len, told)) < 1200


@pytest.mark.slow(reason="imports Google's libraries")
@pytest.mark.parametrize("named", ["{}/g", "https://www.googleapis.com.evil.example/g", "//evil.example/g", "/g", ""])
async def test_the_login_goes_to_no_host_that_an_answer_names(named: str) -> None:
    from console.google.api import compute

    async with answering({}) as (reach, asked):
        with pytest.raises(Unreadable, match="a host that is not Google's"):
            await compute.read_instance_groups(reach, [named.format(reach.practice_http)])
    assert not asked
