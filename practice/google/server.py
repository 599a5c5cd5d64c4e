"""The server of the Google imitation: one gRPC port, and one HTTP port for REST services."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from practice.google import (
    build_log_entries,
    builds,
    clusters,
    compute,
    filestore,
    images,
    longrunning,
    lustre,
    networks,
    projects,
    registry,
    storage,
)
from practice.google.serving import NO_LOGIN, Method, is_login, serve_grpc

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler
    from grpc import aio

    from practice.google.cloud import PracticeGoogle

_GRPC = (longrunning, projects, clusters, builds, registry, build_log_entries, lustre, filestore)
"""Modules with a function `methods(world)`, which returns {full name of a method: Method}."""
_HTTP = (compute, networks, storage, images)  # modules with `routes(world)`: what aiohttp's router takes


class GoogleServer:
    """Serves the imitated Google Cloud on two loopback ports to clients that have its token.

    The token is needed because other users of the machine can reach loopback ports, and so can web pages in a browser.
    """

    def __init__(self, google: PracticeGoogle, token: str) -> None:
        self.world = google
        self.token = token
        self.grpc = ""  # "127.0.0.1:4000"
        self.http = ""  # "http://127.0.0.1:4001"
        self._server: aio.Server | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        methods: dict[str, Method] = {}
        for module in _GRPC:
            methods |= module.grpc_methods(self.world)
        self._server, self.grpc = await serve_grpc(methods, self.world.check_call, self.token)
        application = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._check_route])
        for module in _HTTP:
            application.add_routes(module.routes(self.world))
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.http = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    @web.middleware
    async def _check_route(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer only requests with the right Host and token."""
        for listener in self.world.listeners:
            listener(request.method, request.path_qs)
        if request.host != self.http.removeprefix("http://"):
            return _error_response(403, f"{request.host} is not served here")
        if not is_login(request.headers.get(hdrs.AUTHORIZATION, ""), self.token):
            return _error_response(401, NO_LOGIN)
        return await handler(request)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
        if self._runner is not None:
            await self._runner.cleanup()
        self._server = self._runner = None


def _error_response(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"code": status, "message": message}}, status=status)
