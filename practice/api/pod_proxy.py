"""HTTP to a port of a pod through the API server: ``pods/NAME:PORT/proxy/PATH``."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from practice.api.authn import check_access
from practice.objects.api_error import ApiError, bad_request
from practice.objects.resources import PODS

if TYPE_CHECKING:
    from practice.api.authn import Account
    from practice.api.paths_and_versions import ApiPath
    from practice.objects.storage import Storage
    from practice.runtime import Runtime

_VERBS = {"GET": "get", "HEAD": "get", "OPTIONS": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
_HOP_HEADERS = frozenset(
    {"host", "connection", "authorization", "content-length", "accept-encoding", "transfer-encoding"}
)
"""Headers of the request that are not passed on to the pod."""
_TIMEOUT = 30.0


async def proxy_request(
    request: web.Request, target: ApiPath, account: Account, storage: Storage, runtime: Runtime
) -> web.Response:
    """Forward one request to a pod and return its response. Raises ApiError 503 if nothing answers."""
    _, _, path = target.subresource.partition("/")
    name, port = _split_name(target.name)
    check_access(account, _VERBS.get(request.method, "delete"), replace(target, name=name, subresource="proxy"))
    pod = storage.get(PODS, target.namespace, name)
    port = port or _first_port(pod["spec"]["containers"])
    if not pod["status"].get("podIP"):
        raise bad_request("address not allowed")
    try:
        async with asyncio.timeout(_TIMEOUT):
            head, body = await _relay_request(request, path, await runtime.dial(target.namespace, name, port))
    except (OSError, ApiError, TimeoutError, asyncio.IncompleteReadError) as error:
        text = f"error trying to reach service: dial tcp {pod['status']['podIP']}:{port}: {error}"
        raise ApiError(503, "ServiceUnavailable", text) from error
    status, headers = _parse_head(head)
    return web.Response(status=status, body=body, headers={"Content-Type": headers.get("content-type", "text/plain")})


def _split_name(text: str) -> tuple[str, int]:
    """Return the name and the port, 0 if none is given, of ``NAME``, ``NAME:PORT`` or ``SCHEME:NAME:PORT``."""
    parts = text.split(":")
    if len(parts) == 3:
        parts = parts[1:]
    if len(parts) > 2 or (len(parts) == 2 and parts[1] and not parts[1].isdecimal()):
        raise bad_request(f'invalid pod request "{text}"')
    return parts[0], int(parts[1]) if len(parts) == 2 and parts[1] else 0


def _first_port(containers: list[dict[str, list[dict[str, int]]]]) -> int:
    return next((port["containerPort"] for one in containers for port in one.get("ports") or ()), 80)


async def _relay_request(
    request: web.Request, path: str, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> tuple[bytes, bytes]:
    """(head, body) of the response to a request that is sent as HTTP/1.0, so that it ends with the connection."""
    reader, writer = streams
    body = await request.read()
    query = f"?{request.query_string}" if request.query_string else ""
    lines = [f"{request.method} /{path}{query} HTTP/1.0", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{key}: {value}" for key, value in request.headers.items() if key.lower() not in _HOP_HEADERS]
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        return head, await reader.read()
    finally:
        writer.close()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *rest = head.decode("latin-1").strip().split("\r\n")
    word = first.split()[1:2]
    status = int(word[0]) if word and word[0].isdecimal() else HTTPStatus.BAD_GATEWAY
    pairs = (line.partition(":") for line in rest)
    return status, {key.strip().lower(): value.strip() for key, _, value in pairs}
