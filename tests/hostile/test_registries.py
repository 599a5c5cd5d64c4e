"""Google's token goes to Google's registries only: whole host names, https, no other token service, no redirect."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import encode_basic_auth

from console.errors import NotAllowed, Refused, Unreadable
from console.google.builds import Reference
from console.google.image_registry import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "ya29.PLANTED"
GOOGLE = ("gcr.io/p/i", "us.gcr.io/p/i:1", "us-docker.pkg.dev/p/r/i", "europe-west4-docker.pkg.dev/p/r/i@sha256:0")
STRANGERS = (
    "evilgcr.io/a/b", "gcr.io.evil.com/a/b", "evil.com/gcr.io/b", "evil.com?.gcr.io/a/b", "evil.com#.gcr.io/a/b",
    "evil.com:443?x=.gcr.io/a/b", "user@evil.com.gcr.io:1/a", "gcr.io:8443/a/b", "evil.com\\.gcr.io/a/b",
    "docker.pkg.dev.evil.com/a/b/c", "x.evil-docker.pkg.dev.evil/a", "localhost/a", "library",
)  # fmt: skip


@pytest.mark.parametrize("text", GOOGLE)
def test_googles_registries_are_known(text: str) -> None:
    assert Reference.of(text).google


@pytest.mark.parametrize("text", STRANGERS)
def test_a_stranger_is_none_of_googles(text: str) -> None:
    assert not Reference.of(text).google
    assert Reference.of(text).repository is None


CHALLENGES = {
    "another host": 'Bearer realm="https://evil.example/token",service="x"',
    "a host that begins alike": 'Bearer realm="https://gcr.io.evil.example/token"',
    "a user before another host": 'Bearer realm="https://gcr.io@evil.example/token"',
    "another port": 'Bearer realm="https://gcr.io:8443/token"',
    "plain http": 'Bearer realm="http://gcr.io/token"',
    "no address": 'Bearer realm="https://["',
}


class Service:
    """In place of the library's session: writes down what is asked, and answers."""

    def __init__(self, challenge: str, *, status: int = 200, body: bytes = b"{}") -> None:
        self.challenge, self.status, self.body = challenge, status, body
        self.asked: list[tuple[str, str, bool]] = []

    @asynccontextmanager
    async def get(
        self, address: str, *, headers: dict[str, str], allow_redirects: bool = True, **_: Any
    ) -> AsyncIterator[Any]:
        if "/manifests/" in address:
            yield Answer(401, {"WWW-Authenticate": self.challenge})
        else:
            self.asked.append((address, headers.get("Authorization", ""), allow_redirects))
            yield Answer(self.status, {"Location": "https://evil.example/"}, self.body)


class Answer:
    """An answer of the library's."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.status, self.headers, self.content = status, headers, self
        self._body = body

    async def iter_any(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 1 << 16):
            yield self._body[start : start + (1 << 16)]


async def asked(image: str, service: Service) -> None:
    registry = Registry(TOKEN)
    registry._session = service  # type: ignore[assignment]
    await registry.image(image)


@pytest.mark.parametrize("attack", CHALLENGES)
async def test_no_other_token_service_gets_the_login(attack: str) -> None:
    service = Service(CHALLENGES[attack])
    with pytest.raises(NotAllowed):
        await asked("gcr.io/p/i", service)
    assert [login for _, login, _ in service.asked if login] == []


async def test_a_strangers_registry_gets_no_login() -> None:
    service = Service('Bearer realm="https://evilgcr.io/token"')
    with pytest.raises(NotAllowed):
        await asked("evilgcr.io/p/i", service)
    assert [login for _, login, _ in service.asked] == [""]


async def test_googles_own_service_gets_it_and_is_not_followed_elsewhere() -> None:
    service = Service('Bearer realm="https://gcr.io/v2/token"', status=302)
    with pytest.raises(Refused, match="answered 302"):
        await asked("gcr.io/p/i", service)
    assert [(login, follows) for _, login, follows in service.asked] == [
        (encode_basic_auth("oauth2accesstoken", TOKEN), False)
    ]


@pytest.mark.parametrize("body", [b"x" * (5 << 20), b"[" * 100_000, b'{"token": 7}', b"\xff"])
async def test_a_token_that_is_none_is_said(body: bytes) -> None:
    with pytest.raises(Unreadable):
        await asked("gcr.io/p/i", Service('Bearer realm="https://gcr.io/v2/token"', body=body))
