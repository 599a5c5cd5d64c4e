"""Streams between clients and pods: logs, exec, proxy and port-forward."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from aiohttp import web

from practice.api import pod_log
from practice.api.authn import Account, check_access
from practice.api.exec_channels import EXEC_PROTOCOLS, ExecSession
from practice.api.paths_and_versions import ApiPath
from practice.api.pod_proxy import proxy_request
from practice.api.port_forward import FORWARD_PROTOCOLS, ForwardedPorts
from practice.objects.api_error import ApiError, Object, bad_request
from practice.objects.history import Event
from practice.objects.resources import PODS
from practice.objects.storage import Storage
from practice.runtime import Runtime, Stdio


class PodStreams:
    """Answers log, exec, port-forward and proxy requests of pods, and can end all of them."""

    def __init__(self, storage: Storage, runtime: Runtime) -> None:
        self._storage = storage
        self._runtime = runtime
        self._open_sockets: set[web.WebSocketResponse] = set()

    async def close(self) -> None:
        for socket in list(self._open_sockets):
            await socket.close()

    async def answer(self, request: web.Request, target: ApiPath, account: Account) -> web.StreamResponse:
        """Answer one log, exec, port-forward or proxy request. Raises ApiError if that is impossible."""
        if target.subresource == "log":
            check_access(account, "get", target)
            return await self._stream_log(request, target)
        if target.subresource.partition("/")[0] == "proxy":
            return await proxy_request(request, target, account, self._storage, self._runtime)
        check_access(account, "get" if request.method == "GET" else "create", target)
        check_access(account, "create", target)
        pod = self._storage.get(PODS, target.namespace, target.name)
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        serve = {"exec": self._stream_exec, "attach": self._stream_attach}.get(
            target.subresource, self._stream_port_forward
        )
        try:
            return await serve(request, target, pod)
        except ConnectionResetError:  # the client has gone, even before the upgrade was answered: nobody reads this
            return web.Response()

    async def _stream_log(self, request: web.Request, target: ApiPath) -> web.StreamResponse:
        options = pod_log.LogOptions.from_query(request.query)
        pod = self._storage.get(PODS, target.namespace, target.name)
        container = choose_container(pod, request.query.get("container", ""))
        response = web.StreamResponse(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        placed = pod["spec"].get("nodeName")
        log = self._runtime.log(target.namespace, target.name, container, options.previous) if placed else None
        with suppress(ConnectionResetError):  # the client has gone
            await response.prepare(request)
            if log is not None:
                async for chunk in pod_log.stream_chunks(log, options):
                    await response.write(chunk)
            await response.write_eof()
        return response

    async def _stream_exec(self, request: web.Request, target: ApiPath, pod: Object) -> web.StreamResponse:
        query = request.query
        argv = query.getall("command", [])
        if not argv:
            raise bad_request("you must specify at least one command for the container")
        container = choose_container(pod, query.get("container", ""))
        check_running(pod, container)
        socket = await self._upgrade_to_websocket(request, EXEC_PROTOCOLS)
        session = ExecSession(socket, query)
        try:
            await session.run(lambda stdio: self._runtime.exec(target.namespace, target.name, container, argv, stdio))
        finally:
            await self._close_socket(socket)
        return socket

    async def _stream_attach(self, request: web.Request, target: ApiPath, pod: Object) -> web.StreamResponse:
        """Show what a container prints from now on, until it ends; input is ignored."""
        container = choose_container(pod, request.query.get("container", ""))
        check_running(pod, container)
        log = self._runtime.log(target.namespace, target.name, container, False)
        socket = await self._upgrade_to_websocket(request, EXEC_PROTOCOLS)

        async def show(stdio: Stdio) -> int:
            async for chunk in pod_log.stream_chunks(log, pod_log.LogOptions.without_history()):
                await stdio.write(1, chunk)
            return 0

        try:
            await ExecSession(socket, request.query).run(show)
        finally:
            await self._close_socket(socket)
        return socket

    async def _stream_port_forward(self, request: web.Request, target: ApiPath, pod: Object) -> web.StreamResponse:
        if pod.get("status", {}).get("phase") != "Running":
            phase = pod.get("status", {}).get("phase", "Unknown")
            raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
        ports = _parse_ports(request.query.getall("ports", []))
        socket = await self._upgrade_to_websocket(request, FORWARD_PROTOCOLS)

        async def dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            try:
                return await self._runtime.dial(target.namespace, target.name, port)
            except (OSError, ApiError) as error:
                text = f"error forwarding port {port} to pod {target.name}, uid {pod['metadata']['uid']}: {error}"
                raise ConnectionError(text) from error

        carrying = asyncio.ensure_future(ForwardedPorts(socket, ports, dial).run())
        unsubscribe = self._storage.subscribe(partial(_cancel_when_pod_ends, carrying, pod["metadata"]["uid"]))
        try:
            await asyncio.wait({carrying})
        finally:
            unsubscribe()
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
            await self._close_socket(socket)
        return socket

    async def _upgrade_to_websocket(self, request: web.Request, protocols: tuple[str, ...]) -> web.WebSocketResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise bad_request("Upgrade request required")
        socket = web.WebSocketResponse(protocols=protocols, max_msg_size=0, compress=False)
        await socket.prepare(request)
        self._open_sockets.add(socket)
        return socket

    async def _close_socket(self, socket: web.WebSocketResponse) -> None:
        self._open_sockets.discard(socket)
        with suppress(ConnectionResetError):  # the client has gone
            await socket.close()


def _cancel_when_pod_ends(forwarding: asyncio.Future[None], uid: str, event: Event) -> None:
    """Cancel the forwarding of ports once the pod with this uid ends."""
    if event.object["metadata"].get("uid") == uid:
        gone = event.type == "DELETED" or event.object.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if gone:
            forwarding.cancel()


def choose_container(pod: Object, name: str) -> str:
    """Return the container asked for, or the only one. Raises ApiError 400 when it must be named or is not there."""
    own = [one["name"] for one in pod["spec"].get("containers", [])]
    initial = [one["name"] for one in pod["spec"].get("initContainers") or []]
    pod_name = pod["metadata"]["name"]
    if not name:
        if len(own) == 1:
            return str(own[0])
        text = f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(own)}]"
        if initial:
            text += f" or one of the init containers: [{' '.join(initial)}]"
        raise bad_request(text)
    if name not in own + initial:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    return name


def check_running(pod: Object, container: str) -> None:
    """Raise ApiError 500, as a kubelet does, when a container runs no more or not yet."""
    status = pod.get("status", {})
    for one in [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]:
        if one["name"] == container and "running" in one.get("state", {}):
            return
    text = f'unable to upgrade connection: container not found ("{container}")'
    raise ApiError(500, "InternalError", text)


def _parse_ports(texts: list[str]) -> list[int]:
    ports = []
    for text in ",".join(texts).split(","):
        if not text:
            raise bad_request('query parameter "port" is required')
        if not text.isdigit() or not 0 < int(text) < 65536:
            raise bad_request(f'unable to parse "{text}" as a port')
        ports.append(int(text))
    return ports
