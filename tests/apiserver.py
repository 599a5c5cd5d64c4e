"""A small API server whose answers a test decides: lists and watches of what it holds, and scripted refusals.

async with ApiServer() as server:
    server.put("/api/v1/pods", pod("a"))
    server.refuse["/api/v1/nodes"] = status(403, 'nodes is forbidden: ...')
    client = server.client()
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from console.kube.client import Client
from console.kube.kubeconfig import Cluster, Target, User
from console.kube.login import Login
from tests.certificates import usual_certificate
from tests.kubeconfigs import write_kubeconfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


Object = dict[str, Any]
GROUPS = {
    "jobset.x-k8s.io": {"v1alpha2": ["jobsets"]},
    "kueue.x-k8s.io": {
        "v1beta2": [
            "clusterqueues", "localqueues", "workloads", "resourceflavors", "topologies", "cohorts", "admissionchecks",
        ]
    },
}  # fmt: skip


def named(name: str, namespace: str = "default", **fields: Any) -> Object:
    """An object with a name; the server gives it a version."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def status(code: int, message: str = "no", **fields: Any) -> web.Response:
    """A refusal as an API server writes it."""
    headers = fields.pop("headers", None)
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, **fields}
    return web.json_response(body, status=code, headers=headers)


def forbidden(resource: str, group: str = "") -> web.Response:
    """What RBAC answers to a list."""
    return status(
        403,
        f'{resource} is forbidden: User "anna" cannot list resource "{resource}" in API group "{group}" '
        "at the cluster scope",
        reason="Forbidden",
    )


class ApiServer:
    """Objects by the path of their list; everything may be changed while it runs."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, secure: bool = False) -> None:
        """With `tls`, or with a certificate that its own `target` trusts; else plain HTTP, over which no login goes."""
        self._authority = ""
        if secure:
            tls, self._authority = usual_certificate()
        self.objects: dict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.refuse: dict[str, web.Response | list[web.Response]] = {}
        """Path -> what is answered instead: always, or a list of answers each given once."""
        self.handlers: dict[str, Handler] = {}
        """Path -> something else altogether."""
        self.tokens: set[str] | None = None
        """Accepted bearer tokens; None: anybody."""
        self.groups = {group: dict(versions) for group, versions in GROUPS.items()}
        self.requests: list[web.Request] = []
        self.version = 100
        self.page_size = 0
        """Objects in a page, however many are asked for; 0: as asked."""
        self._watchers: dict[str, set[asyncio.Queue[bytes | None]]] = defaultdict(set)
        self._history: list[tuple[int, str, Object]] = []
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._dispatch)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """As if killed: every connection breaks off."""
        self.hang_up()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    def hang_up(self, path: str = "") -> None:
        """End the watches of a path, or all."""
        for each, queues in self._watchers.items():
            for queue in queues if path in {"", each} else ():
                queue.put_nowait(None)

    # what it holds

    def put(self, path: str, thing: Object, verb: str = "ADDED") -> None:
        """An object is new or another."""
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        key = (thing["metadata"].get("namespace", ""), thing["metadata"]["name"])
        verb = "MODIFIED" if verb == "ADDED" and key in self.objects[path] else verb
        self.objects[path][key] = thing
        self._tell(path, verb, thing)

    def remove(self, path: str, name: str, namespace: str = "default") -> None:
        self.version += 1
        thing = self.objects[path].pop((namespace, name))
        thing["metadata"]["resourceVersion"] = str(self.version)
        self._tell(path, "DELETED", thing)

    def raw(self, path: str, data: bytes) -> None:
        """Send bytes on every watch of the path."""
        for queue in self._watchers[path]:
            queue.put_nowait(data)

    def watched(self, path: str) -> bool:
        return bool(self._watchers[path])

    def _tell(self, path: str, verb: str, thing: Object) -> None:
        self._history.append((self.version, path, {"type": verb, "object": json.loads(json.dumps(thing))}))
        self.raw(path, json.dumps({"type": verb, "object": thing}).encode() + b"\n")

    # what it answers

    def asked(self, path: str, **query: str) -> list[web.Request]:
        """Requests for that path whose query has these values."""
        return [
            each
            for each in self.requests
            if each.path == path and all(each.query.get(name, "") == value for name, value in query.items())
        ]

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if self.tokens is not None and request.headers.get("Authorization", "")[7:] not in self.tokens:
            return status(401, "Unauthorized", reason="Unauthorized")
        refusal = self.refuse.get(request.path)
        if isinstance(refusal, list):
            if refusal:
                return refusal.pop(0)
        elif refusal is not None:
            # A response can be sent once only.
            return web.Response(body=refusal.body, status=refusal.status, headers=refusal.headers)
        if request.path in self.handlers:
            return await self.handlers[request.path](request)
        return await self._usual(request)

    async def _usual(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/version":
            return web.json_response({"gitVersion": "v1.36.4-test"})
        if path == "/apis":
            return web.json_response({"groups": [_group(*each) for each in self.groups.items()]})
        _, _, *rest = path.split("/")
        if len(rest) == 2 and rest[0] in self.groups:
            plurals = self.groups[rest[0]].get(rest[1])
            if plurals is None:
                return status(404, "the server could not find the requested resource", reason="NotFound")
            return web.json_response({"resources": [{"name": each} for each in plurals]})
        return await (self._watch(request) if request.query.get("watch") else self._list(request))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        everything = [self.objects[request.path][key] for key in sorted(self.objects[request.path])]
        start = int(request.query.get("continue", "0"))
        size = self.page_size or int(request.query.get("limit", "0")) or len(everything)
        rest = len(everything) - start - size
        following = {"continue": str(start + size), "remainingItemCount": rest} if rest > 0 else {}
        meta = {"resourceVersion": str(self.version), **following}
        return web.json_response({"metadata": meta, "items": everything[start : start + size]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for version, path, line in self._history:
            if path == request.path and version > since:
                queue.put_nowait(json.dumps(line).encode() + b"\n")
        self._watchers[request.path].add(queue)
        try:
            while data := await queue.get():
                await answer.write(data)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._watchers[request.path].discard(queue)
        return answer

    # how to reach it

    def target(self, user: User | None = None, **cluster: Any) -> Target:
        if self._authority:
            cluster["certificate_authority_data"] = base64.b64encode(self._authority.encode()).decode()
        return Target("test", "anna", "default", Cluster(**{"server": self.url, **cluster}), user or User())

    def login(self, user: User | None = None, **cluster: Any) -> Login:
        return Login(self.target(user, **cluster))

    @asynccontextmanager
    async def client(self, user: User | None = None, **cluster: Any) -> AsyncIterator[Client]:
        client = Client(self.login(user, **cluster))
        try:
            yield client
        finally:
            await client.close()

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        """A kubeconfig with two contexts, "test" and "other", that lead here."""
        cluster = {
            "server": self.url,
            "certificate-authority-data": self.target().cluster.certificate_authority_data,
        }
        return write_kubeconfig(folder / "kubeconfig", cluster, user, contexts=(("test", ""), ("other", "team-b")))


def _group(name: str, versions: dict[str, list[str]]) -> Object:
    return {"name": name, "versions": [{"groupVersion": f"{name}/{each}", "version": each} for each in versions]}


async def eventually(says: Callable[[], object], limit: float = 5.0) -> None:
    """Wait until it is so; TimeoutError if it does not become so."""
    async with asyncio.timeout(limit):
        while not says():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and whose exit code nobody has asked for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def in_thread() -> Iterator[Callable[[Any], Any]]:
    """An event loop in a thread of its own: it runs what it is given, and what comes of that is given back."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def served_in_thread() -> Iterator[ApiServer]:
    server = ApiServer()
    with in_thread() as do:
        do(server.start())
        try:
            yield server
        finally:
            do(server.stop())


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port of this machine, each connection to which is served so; nothing of it is left at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(accept, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


@asynccontextmanager
async def gathered(stream: AsyncGenerator[Any, None]) -> AsyncIterator[list[Any]]:
    """What a stream says, as a list that grows while the stream is read."""
    things: list[Any] = []

    async def gather() -> None:
        async with aclosing(stream):
            async for thing in stream:
                things.append(thing)

    reading = asyncio.create_task(gather())
    try:
        yield things
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def first(count: int, stream: AsyncIterator[Any], limit: float = 5.0) -> list[Any]:
    """That many things from an endless stream."""
    taken: list[Any] = []
    async with asyncio.timeout(limit):
        while len(taken) < count:
            with suppress(StopAsyncIteration):
                taken.append(await anext(stream))
                continue
            break
    return taken
