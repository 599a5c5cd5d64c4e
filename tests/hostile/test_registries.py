"""Google's token goes to Google's registries only: whole host names, https, no other token service, no redirect."""

from collections.abc import Awaitable, Callable, Mapping

import pytest
from aiohttp import encode_basic_auth, web

from console.errors import NotAllowed, Refused, Unreachable, Unreadable
from console.google.builds import ImageReference
from console.google.image_registry import Answer, RegistryClient
from tests.apiserver import ApiServer

TOKEN = "ya29.PLANTED"
GOOGLE = ("gcr.io/p/i", "us.gcr.io/p/i:1", "us-docker.pkg.dev/p/r/i", "europe-west4-docker.pkg.dev/p/r/i@sha256:0")
STRANGERS = (
    "evilgcr.io/a/b", "gcr.io.evil.com/a/b", "evil.com/gcr.io/b", "evil.com?.gcr.io/a/b", "evil.com#.gcr.io/a/b",
    "evil.com:443?x=.gcr.io/a/b", "user@evil.com.gcr.io:1/a", "gcr.io:8443/a/b", "evil.com\\.gcr.io/a/b",
    "docker.pkg.dev.evil.com/a/b/c", "x.evil-docker.pkg.dev.evil/a", "localhost/a", "library",
)  # fmt: skip


@pytest.mark.parametrize("text", GOOGLE)
def test_googles_registries_are_known(text: str) -> None:
    assert ImageReference.of(text).google


@pytest.mark.parametrize("text", STRANGERS)
def test_a_stranger_is_none_of_googles(text: str) -> None:
    assert not ImageReference.of(text).google
    assert ImageReference.of(text).repository is None


CHALLENGES = {
    "another host": 'Bearer realm="https://evil.example/token",service="x"',
    "a host that begins alike": 'Bearer realm="https://gcr.io.evil.example/token"',
    "a user before another host": 'Bearer realm="https://gcr.io@evil.example/token"',
    "another port": 'Bearer realm="https://gcr.io:8443/token"',
    "plain http": 'Bearer realm="http://gcr.io/token"',
    "no address": 'Bearer realm="https://["',
}


class Service:
    """In place of the network: writes down what is asked, and answers."""

    def __init__(self, challenge: str, *, status: int = 200, body: bytes = b"{}") -> None:
        self.challenge, self.status, self.body = challenge, status, body
        self.asked: list[tuple[str, str, bool]] = []

    async def ask(self, _: ImageReference, address: str, headers: Mapping[str, str], *, follows: bool = True) -> Answer:
        if "/manifests/" in address:
            return Answer(401, {"www-authenticate": self.challenge})
        self.asked.append((address, headers.get("Authorization", ""), follows))
        return Answer(self.status, {"location": "https://evil.example/"}, self.body)


async def asked(image: str, service: Service) -> None:
    class Registry(RegistryClient):
        _request_once = staticmethod(service.ask)  # type: ignore[assignment]

    await Registry(TOKEN).read_image(image)


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
async def test_a_token_that_is_none_is_reported(body: bytes) -> None:
    with pytest.raises(Unreadable):
        await asked("gcr.io/p/i", Service('Bearer realm="https://gcr.io/v2/token"', body=body))


def manifests(*answers: web.Response) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Answers to requests for manifests, one after the other."""
    left = iter(answers)

    async def answer(_: web.Request) -> web.Response:
        return next(left)

    return answer


PATH = "/registry/gcr.io/v2/p/i/manifests/latest"


async def test_a_login_does_not_go_with_a_redirect_to_another_host() -> None:
    async with ApiServer() as near, ApiServer() as far:
        there = f"http://localhost:{far.port}/blob"
        near.handlers[PATH] = manifests(web.Response(status=307, headers={"Location": there}))
        far.handlers["/blob"] = manifests(web.Response(body=b"{}", headers={"Docker-Content-Digest": "sha256:1"}))
        found = await RegistryClient(TOKEN, near.url).read_image("gcr.io/p/i")
        assert found.digest == "sha256:1"
        assert [each.headers.get("Authorization") for each in near.requests] == [f"Bearer {TOKEN}"]
        assert [each.headers.get("Authorization") for each in far.requests] == [None]


async def test_a_manifest_without_end_is_given_up() -> None:
    async with ApiServer() as server:
        server.handlers[PATH] = manifests(web.Response(body=b"x" * (5 << 20)))
        with pytest.raises(Unreadable, match="more than 4 MiB"):
            await RegistryClient(TOKEN, server.url).read_image("gcr.io/p/i")


async def test_a_registry_that_is_not_there_does_not_answer() -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        await RegistryClient(TOKEN, "http://127.0.0.1:1").read_image("gcr.io/p/i")
