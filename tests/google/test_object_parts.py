"""Parts of objects, read as Google's own client would: its address, certificates, login, tries and errors."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from google.oauth2.credentials import Credentials

from console.errors import ConsoleError, NotAllowed, NotLoggedIn, Refused, Unreachable, Unreadable
from console.google.api import object_parts
from console.google.api.calls import GoogleSession
from console.google.api.cloud_storage import Buckets
from console.google.bucket_paths import GcsPlace
from tests.certificates import make_certificate

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


CONTENT = bytes(range(256)) * 64


@asynccontextmanager
async def bucket(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Buckets]:
    """The console's client of a server at whose address STORAGE_EMULATOR_HOST points."""
    application = web.Application()
    application.router.add_get("/download/storage/v1/b/runs/o/{name:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    scheme = "https" if tls else "http"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"{scheme}://127.0.0.1:{runner.addresses[0][1]}")
    credentials: Any = Credentials("first", quota_project_id="payer")  # type: ignore[no-untyped-call]
    found = Buckets(GoogleSession(project="runs", credentials=credentials), "runs")
    try:
        yield found
    finally:
        await found.close()
        await runner.cleanup()


def part_of(request: web.Request, content: bytes = CONTENT) -> web.Response:
    start, end = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
    if start >= len(content):
        return web.Response(status=416)
    return web.Response(status=206, body=content[start : end + 1])


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_parts, "FIRST_PAUSE", 0.001)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                 "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


async def test_parts_and_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.match_info["name"], request.headers["X-Goog-User-Project"]))
        return web.Response(status=404) if "gone" in request.path else part_of(request)

    wanted = {"a/b c?#%é.bin": (0, 4), "end": (len(CONTENT) - 2, 9), "beyond": (1 << 40, 9), "gone": (0, 9)}
    async with bucket(answer, monkeypatch) as found:
        came = await found.read_parts("runs", wanted)
        assert await found.read_parts("runs", {}) == {}
    assert came.keys() == wanted.keys()
    assert [came[name] for name in wanted] == [CONTENT[:4], CONTENT[-2:], b"", b""]
    assert sorted(asked) == sorted((name, "payer") for name in wanted)


async def test_what_may_pass_is_tried_again_and_the_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: dict[str, int] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        tries[name] = tries.get(name, 0) + 1
        if name == "forbidden":
            return web.json_response({"error": {"message": "x@y does not have storage.objects.get access"}}, status=403)
        if tries[name] > 3:
            return part_of(request)
        if name == "cut":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(status=int(name))

    passing = dict.fromkeys(("408", "429", "500", "502", "503", "504", "cut"), (0, 2))
    async with bucket(answer, monkeypatch) as found:
        assert set((await found.read_parts("runs", passing)).values()) == {CONTENT[:2]}
        assert set(tries.values()) == {4}
        with pytest.raises(NotAllowed, match=r"read gs://runs/forbidden: x@y does not have storage\.objects\.get"):
            await found.read_bytes(GcsPlace("runs", "forbidden"))
        assert tries["forbidden"] == 1


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            429,
            "<Error><Code>SlowDown</Code><Message>Too many requests.</Message></Error>",
            Refused,
            "SlowDown Too many",
        ),
        (503, "", Unreachable, "unknown error"),
        (403, '{"error": {"message": "requires a quota project"}}', NotAllowed, "no quota project"),
        (400, "[" * 50_000, ConsoleError, "Could not read gs://runs/a"),
        (403, "\x1b]0;x\x07" * 9, NotAllowed, "Could not read gs://runs/a"),
    ],
)
async def test_an_answer_that_says_why_not_is_repeated_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, status: int, body: str, kind: type[ConsoleError], words: str
) -> None:
    monkeypatch.setattr(object_parts, "OBJECT_RETRY_SECONDS", 0.01)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    async with bucket(answer, monkeypatch) as found:
        with pytest.raises(kind) as told:
            await found.read_bytes(GcsPlace("runs", "a"))
    assert words in told.value.message
    assert len(told.value.message) < 500


async def test_a_token_that_is_refused_is_renewed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        return part_of(request) if request.headers["Authorization"] == "Bearer second" else web.Response(status=401)

    def refresh(credentials: Any, _: object) -> None:
        renewed.append(credentials.token)
        credentials.token = "second" if refresh_works else "third"

    refresh_works = True
    monkeypatch.setattr(Credentials, "refresh", refresh)
    async with bucket(answer, monkeypatch) as found:
        came = await found.read_parts("runs", {str(number): (0, 3) for number in range(200)})
        assert set(came.values()) == {CONTENT[:3]}
        assert renewed == ["first"]
    refresh_works = False
    async with bucket(answer, monkeypatch) as found:
        with pytest.raises(NotLoggedIn):
            await found.read_bytes(GcsPlace("runs", "a"))
        assert renewed == ["first", "first"]


async def test_a_certificate_is_checked_by_the_authorities_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return part_of(request)

    tls, authority = make_certificate(tmp_path, days=1)
    async with bucket(answer, monkeypatch, tls) as found:
        with pytest.raises(Unreachable, match="certificate of Cloud Storage is not accepted"):
            await found.read_bytes(GcsPlace("runs", "a"))
        assert not asked
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        assert await found.read_bytes(GcsPlace("runs", "a"), limit=5) == CONTENT[:5]


async def test_a_proxy_is_asked_where_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_parts, "OBJECT_RETRY_SECONDS", 0.01)

    async def answer(request: web.Request) -> web.Response:
        return part_of(request)

    async with bucket(answer, monkeypatch) as found:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with pytest.raises(Unreachable, match="does not answer"):
            await found.read_bytes(GcsPlace("runs", "a"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert await found.read_bytes(GcsPlace("runs", "a"), limit=5) == CONTENT[:5]


async def test_a_server_that_sends_more_than_was_asked_for_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=206 if "part" in request.path else 200)
        await response.prepare(request)
        try:
            while True:
                await response.write(CONTENT)
                sent += len(CONTENT)
        except ConnectionError:
            return response

    async with bucket(answer, monkeypatch) as found:
        came = await found.read_parts("runs", {"part": (7, 9), "whole": (0, 9)})
        assert came == {"part": CONTENT[:9], "whole": CONTENT[:9]}
        with pytest.raises(Unreadable, match="gives no parts of it"):
            await found.read_bytes(GcsPlace("runs", "whole"), start_offset=1 << 30, limit=22)
    assert sent < 64 << 20


async def test_all_ends_where_one_fails_and_no_more_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=403) if asked > 5 else part_of(request)

    async with bucket(answer, monkeypatch) as found:
        with pytest.raises(NotAllowed):
            await found.read_parts("runs", {str(number): (0, 3) for number in range(5000)})
    assert asked < 1000
