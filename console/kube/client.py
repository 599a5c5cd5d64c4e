"""Requests to one API server, with renewed tokens and honoured Retry-After; the kinds and versions that it offers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from console.errors import ConsoleError, NotAllowed, NotFound, NotLoggedIn, Refused, Unreadable
from console.kube.api_errors import (
    MAX_ERROR_BODY_BYTES,
    bad_address_error,
    connection_error,
    error_from_status,
    read_error_body,
)
from console.kube.http import HttpConnections, HttpRequest
from console.kube.kubeconfig import Target
from console.kube.login import Login
from console.kube.objects.meta import ApiSchema
from console.kube.objects.pod import NamedObjectSchema
from console.kube.objects.unwatched_kinds import ApiGroupSchema, GitVersionSchema, WorkloadControllerSchema, read_object
from console.kube.snapshot import KueueVersion
from console.kube.watched_kinds import KUEUE_GROUP, Kind, ListSchema
from console.work_slices import note_key_press

if TYPE_CHECKING:
    from console.kube.http import HttpResponse
    from console.kube.websocket import WebSocket


Params = Mapping[str, str] | Sequence[tuple[str, str]]

KEEP_ALIVE_SECONDS = 5.0  # seconds without a byte of the server after which it is asked for one
REQUEST_SILENCE_TIMEOUT = 60.0  # seconds of silence after which a plain request is given up
MAX_RETRY_AFTER = 8.0  # longest Retry-After, in seconds, that a request waits for by itself
MAX_REQUEST_ATTEMPTS = 4
MAX_RESPONSE_BYTES = 32 << 20  # bytes of one answer that are read: a page of 500 objects of 64 KiB each
MIN_FLOW_BYTES, MIN_FLOW_SECONDS = 1 << 10, 5.0  # bytes that are too few in so many seconds once an answer has begun
MAX_PIECES = 1 << 12  # in which an answer is kept before they are joined: each costs memory, however small it is
LARGE_RESPONSE_BYTES = 1 << 20  # bytes of an answer beyond which it is read alone: a server may answer without an end
KEYPRESS_REST_SECONDS, SECONDS_BETWEEN_RESTS = 0.15, 0.05  # for which streams wait for a key, and then go on
_TOO_MANY_REQUESTS = HTTPStatus.TOO_MANY_REQUESTS
_JSON = "application/json"


async def _append_up_to(pieces: AsyncIterator[bytes], chunks: list[bytes], max_bytes: int) -> int:
    """Append pieces to `chunks` until these have `max_bytes` bytes; returns their size. TimeoutError if too slow."""
    loop = asyncio.get_running_loop()
    size = sum(map(len, chunks))
    since, before = loop.time(), size
    async for piece in pieces:
        chunks.append(piece)
        size += len(piece)
        if len(chunks) > MAX_PIECES:
            chunks[:] = (b"".join(chunks),)
        if (now := loop.time()) > since + MIN_FLOW_SECONDS:
            if size < before + MIN_FLOW_BYTES:
                raise TimeoutError
            since, before = now, size
        if size > max_bytes:
            break
    return size


async def _error_from_response(answer: HttpResponse, action: str) -> ConsoleError:
    """The error for a response with a failure status; closes the response."""
    try:
        after = answer.headers.get("retry-after", "")
        body = await read_error_body(answer.iter_chunks(), MAX_ERROR_BODY_BYTES)
    finally:
        answer.close()
    return error_from_status(answer.status, body, action=action, retry_after=float(after) if after.isdecimal() else 0.0)


class Client:
    """Sends requests to one API server, with the credentials of one account."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._http = HttpConnections(login)
        self.arrivals = self._http.arrivals
        self._is_closed = False
        self._large_read_lock = asyncio.Lock()

    def expect_little(self) -> None:
        """Open few connections, for a command with few and short responses."""
        self._http.expect_little()

    async def close(self) -> None:
        self._is_closed = True
        await self._http.close()

    def pause_for_keypress(self) -> None:
        """Pause logs and watches briefly so that a key press is handled first."""
        note_key_press()
        now = asyncio.get_running_loop().time()
        if now > self._http.rests_until + SECONDS_BETWEEN_RESTS:
            self._http.rests_until = now + KEYPRESS_REST_SECONDS

    async def keep_alive(self, interval: float = KEEP_ALIVE_SECONDS) -> None:
        """Request the version after `interval` seconds without a byte, so that silence means "no change"."""
        asked = 0.0
        while True:
            await asyncio.sleep(max(self.arrivals.last_at, asked) + interval - time.monotonic())
            if time.monotonic() >= self.arrivals.last_at + interval:
                asked = time.monotonic()
                with suppress(ConsoleError):
                    await self.request("GET", "/version", action="read the version of the server", silence=interval)

    def _check_open(self) -> None:
        if self._is_closed:
            hint = "Open the page, or run the command, again."
            raise ConsoleError("The connection to this cluster was closed.", hint)

    def url(self, path: str, params: Params | None = None) -> str:
        """Full URL of a path that is already percent-encoded. Raises BadKubeconfig if the result is no valid URL."""
        address = self.login.server + path
        try:
            parts = urlsplit(address)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise bad_address_error(self.login.server) from error
        if not usable:
            raise bad_address_error(self.login.server)
        if not params:
            return address
        pairs = params.items() if isinstance(params, Mapping) else params
        return f"{address}{'&' if parts.query else '?'}{urlencode(list(pairs), quote_via=quote)}"

    @asynccontextmanager
    async def stream(self, request: HttpRequest, action: str) -> AsyncIterator[HttpResponse]:
        """Send a request and return a successful response to read. Raises Refused, Unreachable, NotLoggedIn."""
        self._check_open()
        answer = await self._send_until_accepted(request, action)
        try:
            yield answer
        finally:
            answer.close()

    @asynccontextmanager
    async def follow(
        self, path: str, *, action: str, params: Params, silence: float, at_once: bool = False
    ) -> AsyncIterator[HttpResponse]:
        """Open a long response, such as a log; `silence`: allowed seconds without data, `at_once`: fail if too slow."""
        request = HttpRequest(self.url(path, params), silence, is_followed=True, at_once=at_once)
        async with self.stream(request, action) as answer:
            yield answer

    async def wait_before_retry(self, seconds: float) -> None:
        """Wait before `follow` is tried again; ends early once the server has answered any request."""
        await self._http.wait_before_retry(seconds)

    async def _send_until_accepted(self, request: HttpRequest, action: str) -> HttpResponse:
        """The first successful response, after at most one renewal of the credentials and a few waits."""
        renewed = False
        for attempt in range(1, MAX_REQUEST_ATTEMPTS + 1):
            who = await self.login.headers()
            answer = await self._http.send(request, who, action=action)
            if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                return answer
            error = await _error_from_response(answer, action)
            if isinstance(error, NotLoggedIn) and not renewed and await self.login.renew(who):
                renewed = True
                continue
            wait = error.retry_after if isinstance(error, Refused) and error.status == _TOO_MANY_REQUESTS else 0.0
            if attempt == MAX_REQUEST_ATTEMPTS or not 0 < wait <= MAX_RETRY_AFTER:
                raise await self.login.explain(error)
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def request(
        self,
        method: str,
        path: str,
        *,
        action: str,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        silence: float = REQUEST_SILENCE_TIMEOUT,
        accept: str = _JSON,
    ) -> bytes:
        """The body of a response. Raises as `stream` does, and Unreadable for more than MAX_RESPONSE_BYTES."""
        sent = HttpRequest(self.url(path, params), silence, method, body, content_type, accept, lasts=False)
        async with self.stream(sent, action) as answer:
            pieces: AsyncIterator[bytes] = answer.iter_chunks()
            found: list[bytes] = []
            try:
                size = await _append_up_to(pieces, found, LARGE_RESPONSE_BYTES)
                if size > LARGE_RESPONSE_BYTES:
                    async with self._large_read_lock:
                        size = await _append_up_to(pieces, found, MAX_RESPONSE_BYTES)
            except TimeoutError as error:
                raise connection_error(self.login, action, error) from error
            if size > MAX_RESPONSE_BYTES:
                found.clear()  # the error keeps this frame alive
                most = MAX_RESPONSE_BYTES >> 20
                raise Unreadable(f"Could not {action}: the API server answers with more than {most} MiB.")
            return b"".join(found)

    @asynccontextmanager
    async def websocket(
        self, path: str, *, action: str, params: Params, protocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        """Open a WebSocket with the first of `protocols` that the server accepts. Refused, Unreachable, NotLoggedIn."""
        socket = await self._open_websocket(path, action, params, protocols)
        try:
            yield socket
        finally:
            await socket.close_gracefully()

    async def _open_websocket(self, path: str, action: str, params: Params, protocols: Sequence[str]) -> WebSocket:
        from console.kube.raw_connection import error_from_raw_response, open_connection
        from console.kube.websocket import WebSocket

        self._check_open()
        address = self.url(path, params).removeprefix(self.login.server)
        renewed = False
        while True:
            async with open_connection(self.login, action) as connection:
                made = await connection.upgrade(address, *protocols)
            if isinstance(made, WebSocket):
                return made
            if made.status != HTTPStatus.UNAUTHORIZED or renewed or not await self.login.renew(connection.refused):
                raise await error_from_raw_response(self.login, made, action)
            renewed = True


class _Groups(ApiSchema):
    groups: list[ApiGroupSchema] | None = None


class _ApiResourcesSchema(ApiSchema):
    resources: list[NamedObjectSchema] | None = None


_GROUPS_OF_EVERY_SERVER = frozenset({"", "batch"})
KUEUE_NAMESPACE = "kueue-system"
_KUEUE_IMAGE = re.compile(r"/kueue:v?(0\.\d{1,3}\.\d{1,3})\b")


class ApiDiscovery:
    """The API groups and versions that a server offers; requested once, and again after `clear_cache`.

    Only the list of groups and the group of Kueue are requested. Both come from the API server itself, so an aggregated
    API whose server is down neither delays nor breaks the discovery.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._request_lock = asyncio.Lock()
        self._groups: dict[str, tuple[str, ...]] | None = None
        self._resources: dict[str, frozenset[str]] = {}

    def clear_cache(self) -> None:
        """Forget the API groups: an operator may have been installed or removed."""
        self._groups = None
        self._resources.clear()

    async def version(self, kind: Kind) -> str:
        """The newest version of a kind that the server offers and this program knows; empty if there is none."""
        if kind.group in _GROUPS_OF_EVERY_SERVER:
            return kind.versions[0]
        async with self._request_lock:
            if self._groups is None:
                body = await self._client.request("GET", "/apis", action="list the APIs of the server")
                self._groups = {group.name or "": group.names for group in read_object(body, _Groups).groups or ()}
            known = [version for version in kind.versions if version in self._groups.get(kind.group, ())]
            for version in known:  # of a kind that is read in one version only, its list says whether it is there
                if len(kind.versions) == 1 or kind.plural in await self._plural_names(f"{kind.group}/{version}"):
                    return version
        return ""

    async def kueue_version(self) -> KueueVersion:
        """The Kueue version by its controller's image, if the account may read it, and by its API versions."""
        served = (self._groups or {}).get(KUEUE_GROUP, ())
        for place in ("", f"/namespaces/{KUEUE_NAMESPACE}"):
            with suppress(ConsoleError):  # then it is not known, and whoever goes by it says so
                body = await self._client.request(
                    "GET", f"/apis/apps/v1{place}/deployments", action="read the version of Kueue",
                    params={"labelSelector": "app.kubernetes.io/name=kueue"}, silence=KEEP_ALIVE_SECONDS,
                )  # fmt: skip
                listed = read_object(body, ListSchema[WorkloadControllerSchema]).items or ()
                images = [image for each in listed for image in each.images]
                found = next((number for image in images if (number := _KUEUE_IMAGE.search(image))), None)
                return KueueVersion(found[1] if found else "", served)
        return KueueVersion("", served)

    async def server_version(self) -> str:
        """The server's version, such as "v1.36.4-gke.1000000"."""
        body = await self._client.request("GET", "/version", action="read the version of the server")
        return read_object(body, GitVersionSchema).git_version or ""

    async def _plural_names(self, group_version: str) -> frozenset[str]:
        if group_version not in self._resources:
            try:
                body = await self._client.request(
                    "GET", f"/apis/{group_version}", action=f"list the resources of {group_version}"
                )
                names = frozenset(each.name or "" for each in read_object(body, _ApiResourcesSchema).resources or ())
            except (NotFound, NotAllowed):
                names = frozenset()
            self._resources[group_version] = names
        return self._resources[group_version]


class Connection:
    """A client and the API discovery for one context; it sends nothing until it is used."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.client = Client(Login(target))
        self.discovery = ApiDiscovery(self.client)

    async def close(self) -> None:
        await self.client.close()
