"""HTTP answers: JSON, Status objects, large bodies compressed."""

from __future__ import annotations

import asyncio
import gzip

import msgspec
from aiohttp import web

from practice.api import discovery
from practice.api.paths_and_versions import ApiPath
from practice.objects.api_error import ApiError, Object

_MIN_GZIP_BYTES = 128 * 1024  # bytes from which an answer is compressed for who asks for it


def deletion_status(target: ApiPath, uid: str) -> Object:
    """Return the Status for an object that has been deleted."""
    details = {"name": target.name, "group": target.group, "kind": target.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def health_or_version_response(path: str) -> web.Response:
    """Answer the requests open to everybody: health and version."""
    if path.startswith("/version"):
        return json_response(discovery.VERSION)
    return web.Response(text="ok")


def json_response(body: Object, status: int = 200, content_type: str = "application/json") -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, headers={"Content-Type": content_type})


def status_response(refusal: ApiError) -> web.Response:
    """Answer with the Status of a refusal, and Retry-After if it has one."""
    response = json_response(refusal.to_status(), refusal.status)
    if refusal.details.get("retryAfterSeconds"):
        response.headers["Retry-After"] = str(refusal.details["retryAfterSeconds"])
    return response


async def bytes_response(request: web.Request, body: bytes, status: int = 200) -> web.Response:
    """Answer with encoded JSON, compressed if it is large and the client accepts that."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    if len(body) > _MIN_GZIP_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(gzip.compress, body, 1)
    return web.Response(body=body, status=status, headers=headers)
