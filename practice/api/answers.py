"""HTTP answers: JSON, Status objects, large bodies compressed."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from practice.api import discovery

if TYPE_CHECKING:
    from practice.api.serving import Target
    from practice.objects.refusal import ApiError, Object

_WORTH_GZIP = 128 * 1024  # bytes from which an answer is compressed for who asks for it


def deleted(target: Target, uid: str) -> Object:
    """Return the Status a client gets for an object that is gone."""
    details = {
        "name": target.name,
        "group": target.group,
        "kind": target.plural,
        "uid": uid,
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def plain(path: str) -> web.Response:
    """Answer what anybody may ask: how it is, and which version it is."""
    if path.startswith("/version"):
        return json_answer(discovery.VERSION)
    return web.Response(text="ok")


def json_answer(body: Object, status: int = 200, content_type: str = "application/json") -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, headers={"Content-Type": content_type})


def status_answer(refusal: ApiError) -> web.Response:
    """Answer with the Status of a refusal, and when to try again where it says so."""
    response = json_answer(refusal.to_status(), refusal.status)
    if refusal.details.get("retryAfterSeconds"):
        response.headers["Retry-After"] = str(refusal.details["retryAfterSeconds"])
    return response


async def bytes_answer(request: web.Request, body: bytes, status: int = 200) -> web.Response:
    """Answer with JSON that is bytes already, compressed when it is large and the client can read that."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    if len(body) > _WORTH_GZIP and "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(gzip.compress, body, 1)
    return web.Response(body=body, status=status, headers=headers)
