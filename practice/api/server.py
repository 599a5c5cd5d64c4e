"""The API server of the practice cluster: HTTPS in front of storage and kubelets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

from practice.api import discovery, reviews, visibility
from practice.api.authn import (
    ANONYMOUS,
    Account,
    Certificates,
    admin_account,
    check_access,
    reader_account,
    write_kubeconfig,
)
from practice.api.bodies import decode_body
from practice.api.connections import OpenConnections
from practice.api.listing import ListPager, parse_selectors
from practice.api.paths_and_versions import ApiPath, NoSuchPathError, no_such_path, parse_flag, parse_path
from practice.api.representations import ObjectEncoder, negotiate_representation
from practice.api.responses import (
    bytes_response,
    deletion_status,
    health_or_version_response,
    json_response,
    status_response,
)
from practice.api.streams import PodStreams
from practice.api.watching import OpenWatch, WatchRequest
from practice.api.writing import ObjectWriter, WriteRequest
from practice.objects.api_error import ApiError, Object
from practice.objects.definitions import define_custom_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from practice.api.injected_responses import InjectedResponse
    from practice.objects.storage import Storage
    from practice.runtime import Runtime

_LARGEST_BODY = 3 * 1024 * 1024
_STREAMS = ("log", "exec", "attach", "portforward", "proxy")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class ApiServer:
    """Serves one storage and one runtime on a loopback port; ``accounts`` define the permissions."""

    def __init__(
        self,
        storage: Storage,
        runtime: Runtime,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self.admin = admin_account()
        self.reader = reader_account()
        self.faults: list[InjectedResponse] = []
        self.listeners: list[Callable[[web.Request], object]] = []  # of each request, before it is answered
        self.url = ""
        self.extra_routes: dict[str, Callable[[], Awaitable[Object]]] = {}  # by path, for the administrator
        self.gone_as_status = False  # refuse a watch from a forgotten version with HTTP 410, not by an ERROR event
        self._accounts = {account.token: account for account in (self.admin, self.reader)}
        self._storage = storage
        self._host, self._port = host, port
        self._bookmark_seconds = bookmark_seconds
        self._lists = ListPager(storage)
        self._changes = ObjectWriter(storage)
        self._streams = PodStreams(storage, runtime)
        self._watches: set[OpenWatch] = set()
        self._connections = OpenConnections()
        self._certificates = Certificates(host)
        self._runner: web.AppRunner | None = None

    @property
    def authority(self) -> bytes:
        """The CA certificate (PEM) by which clients verify this server."""
        return self._certificates.authority

    async def start(self) -> None:
        """Listen on a port, and set ``url`` to it."""
        define_custom_kinds(self._storage)
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._answer_or_refuse)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._certificates.server_context())
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"https://{self._host}:{self._port}"

    async def stop(self) -> None:
        for watch in list(self._watches):
            watch.close()
        await self._streams.close()
        if self._runner is not None:
            await self._runner.cleanup()
            await self._connections.close()
            self._runner = None

    def kubeconfig(self, path: Path, *, account: Account | None = None, namespace: str = "default") -> Path:
        """Write a kubeconfig for an account (the administrator) that only its owner can read."""
        write_kubeconfig(path, self.url, self._certificates.authority, account or self.admin, namespace)
        return path

    def add_account(self, account: Account) -> Account:
        self._accounts[account.token] = account
        return account

    def expire_watches(self) -> None:
        """End every watch with an ERROR event, code 410, and forget past events."""
        self._storage.compact_history()
        self._lists.expire_tokens()
        for watch in self._watches:
            watch.expire()

    def close_watches(self) -> None:
        """End every watch as at its timeout."""
        for watch in self._watches:
            watch.close()

    async def _answer_or_refuse(self, request: web.Request) -> web.StreamResponse:
        self._connections.add(request.transport)
        for listener in self.listeners:
            listener(request)
        try:
            return self._inject_fault(request) or await self._answer_request(request)
        except NoSuchPathError as refusal:
            if refusal.plain:
                return web.Response(status=404, text="404 page not found\n")
            return status_response(refusal)
        except ApiError as refusal:
            return status_response(refusal)
        except web.HTTPRequestEntityTooLarge:
            text = f"Request entity too large: limit is {_LARGEST_BODY}"
            return status_response(ApiError(413, "RequestEntityTooLarge", text))

    def _inject_fault(self, request: web.Request) -> web.StreamResponse | None:
        for fault in self.faults:
            if fault.matches(request.method, request.path_qs):
                fault.times -= 1
                details: Object = {} if fault.retry_after is None else {"retryAfterSeconds": fault.retry_after}
                answer = status_response(ApiError(fault.status, fault.reason, fault.message, details))
                answer.headers.update(fault.headers)
                return answer
        return None

    async def _answer_request(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
            return health_or_version_response(path)
        account = self._authenticate(request)
        if path in self.extra_routes and account is self.admin:
            return json_response(await self.extra_routes[path]())
        target = parse_path(path)
        if account is ANONYMOUS and (target is None or reviews.is_review(target)):
            text = f'forbidden: User "{account.name}" cannot {request.method.lower()} path "{path}"'
            raise ApiError(403, "Forbidden", text)
        if target is None:
            accept = request.headers.get("Accept", "")
            return json_response(*discovery.answer_discovery(path, accept))
        if request.method == "POST" and reviews.is_review(target):
            answer = reviews.answer_review(target, await _decode_body(request), account)
            return json_response(answer, status=201)
        if target.group == visibility.GROUP:
            check_access(account, "get", target)
            return json_response(visibility.pending_workloads(self._storage, target, request.query))
        served = target.served
        if target.subresource.partition("/")[0] in _STREAMS and served.resource.plural == "pods":
            return await self._streams.answer(request, target, account)
        if target.subresource and not _has_subresource(target):
            raise no_such_path(target.group)
        if request.method == "GET":
            return await self._answer_read(request, target, account)
        return await self._answer_write(request, target, account)

    def _authenticate(self, request: web.Request) -> Account:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        account = self._accounts.get(token.strip()) if scheme.lower() == "bearer" else None
        if account is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return account

    async def _answer_read(self, request: web.Request, target: ApiPath, account: Account) -> web.StreamResponse:
        query, served = request.query, target.served
        watching = parse_flag(query, "watch")
        verb = "watch" if watching else "get" if target.name else "list"
        check_access(account, verb, target)
        form = negotiate_representation(request.headers.get("Accept", ""), query.get("includeObject", ""))
        writer = ObjectEncoder(self._storage, served, form)
        if watching:
            matches = parse_selectors(query, served.resource, target.name)
            wish = WatchRequest.from_query(query, served.resource, target.namespace, matches)
            return await self._watch(request, wish, writer)
        if target.name:
            body = writer.encode_object(self._storage.get(served.resource, target.namespace, target.name))
        else:
            body = writer.encode_list(*self._lists.read_page(served.resource, target.namespace, query))
        return await bytes_response(request, body)

    async def _watch(self, request: web.Request, wish: WatchRequest, writer: ObjectEncoder) -> web.StreamResponse:
        if self.gone_as_status and wish.version:
            self._storage.events_since(wish.resource, wish.version)
        watch = OpenWatch(self._storage, wish, writer, bookmark_seconds=self._bookmark_seconds)
        self._watches.add(watch)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        try:
            with suppress(ConnectionResetError):  # the client has gone
                await response.prepare(request)
                async for chunk in watch.stream_chunks():
                    if chunk:
                        await response.write(chunk)
                await response.write_eof()
        finally:
            self._watches.discard(watch)
        return response

    async def _answer_write(self, request: web.Request, target: ApiPath, account: Account) -> web.StreamResponse:
        verb = _VERBS.get(request.method, "")
        if verb == "delete" and not target.name:
            verb = "deletecollection"
        check_access(account, verb, target)
        body = await request.read()
        headers = request.headers
        content_type = headers.get("Content-Type", "")
        change = WriteRequest(target, request.query, body, content_type, headers.get("User-Agent", ""))
        writer = ObjectEncoder(self._storage, target.served, negotiate_representation(headers.get("Accept", "")))
        if verb == "deletecollection":
            objects = self._changes.delete_collection(change)
            return await bytes_response(
                request, writer.encode_list(objects, {"resourceVersion": str(self._storage.version)})
            )
        if not verb or (not target.name and verb != "create") or (target.subresource and verb == "delete"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        act = {
            "create": self._changes.create,
            "update": self._changes.replace,
            "patch": self._changes.patch,
            "delete": self._changes.delete,
        }[verb]
        result = act(change)
        if result.deleted and target.plural != "pods":
            return json_response(deletion_status(target, result.object["metadata"]["uid"]), status=200)
        if target.subresource in ("binding", "eviction"):
            return json_response(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
            )
        status = 201 if result.created else 200
        response = await bytes_response(request, writer.encode_object(result.object), status)
        for warning in change.warnings:
            text = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{text}"')
        return response


async def _decode_body(request: web.Request) -> object:
    return decode_body(await request.read(), request.headers.get("Content-Type", ""))


def _has_subresource(target: ApiPath) -> bool:
    resource = target.served.resource
    if target.subresource == "status":
        return resource.status
    return (resource.plural, target.subresource) in (
        ("pods", "binding"),
        ("pods", "eviction"),
        ("namespaces", "finalize"),
    )
