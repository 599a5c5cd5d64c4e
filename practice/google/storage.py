"""Cloud Storage's JSON API over HTTP: lists with prefixes and pages, ranges, uploads in one or several pieces."""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import grpc
from aiohttp import web
from google_crc32c import value as crc32c

from practice.google.bucket_store import BucketState, BucketStore
from practice.google.cloud import PracticeGoogle
from practice.google.serving import RefusalError
from practice.node.pod_volumes import StoredFile

_STATUS = {
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 412,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.OUT_OF_RANGE: 416,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAUTHENTICATED: 401,
}
"""HTTP status by gRPC code; 503 for all other codes."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(slots=True)
class _StorageCall:
    """The project and object of a request to Cloud Storage, for injected faults and the check of permissions."""

    project: str
    name: str = ""


class _StorageApi:
    def __init__(self, google: PracticeGoogle) -> None:
        self.world, self.vault = google, google.service_state(BucketStore)

    async def _check_call(self, method: str, project: str) -> None:
        await self.world.check_call(f"/google.storage.v1.Storage/{method}", _StorageCall(project))

    async def _find_bucket(self, method: str, request: web.Request) -> BucketState:
        name = request.match_info["bucket"]
        found = self.vault.buckets.get(name)
        await self._check_call(method, found.project if found else "")
        if found is None:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, "The specified bucket does not exist.")
        return found

    async def _find_object(self, method: str, request: web.Request) -> tuple[BucketState, str, StoredFile]:
        bucket = await self._find_bucket(method, request)
        name = _object_name(request)
        found = bucket.objects.get(name)
        if found is None:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"No such object: {bucket.name}/{name}")
        wanted = request.query.get("ifGenerationMatch") or request.query.get("generation")
        _check_generation(int(wanted or found.generation), found.generation)
        return bucket, name, found

    def _bucket_json(self, bucket: BucketState) -> dict[str, Any]:
        return _bucket_resource(bucket, self.world.projects[bucket.project].number)

    async def list_buckets(self, request: web.Request) -> web.Response:
        project = request.query["project"]
        await self._check_call("ListBuckets", project)
        prefix = request.query.get("prefix", "")
        found = [
            self._bucket_json(each)
            for each in sorted(self.vault.buckets.values(), key=lambda each: each.name)
            if each.project == project and each.name.startswith(prefix)
        ]
        page, following = self._page_of(request, found)
        return web.json_response({"items": page, **following})

    async def create_bucket(self, request: web.Request) -> web.Response:
        project = request.query["project"]
        await self._check_call("CreateBucket", project)
        wanted = await request.json()
        if wanted["name"] in self.vault.buckets:
            raise RefusalError(grpc.StatusCode.ALREADY_EXISTS, "The requested bucket name is not available.")
        place = wanted.get("location", "US").upper()
        kind = "multi-region" if place in {"US", "EU", "ASIA"} else "region"
        made = BucketState(wanted["name"], project, place, kind, self.world.clock.now())
        self.vault.add(made)
        return web.json_response(self._bucket_json(made))

    async def get_bucket(self, request: web.Request) -> web.Response:
        return web.json_response(self._bucket_json(await self._find_bucket("GetBucket", request)))

    async def get_policy(self, request: web.Request) -> web.Response:
        bucket = await self._find_bucket("GetIamPolicy", request)
        bindings = [{"role": role, "members": list(members)} for role, members in bucket.bindings]
        return web.json_response({"kind": "storage#policy", "version": 1, "bindings": bindings, "etag": "CAE="})

    async def list_objects(self, request: web.Request) -> web.Response:
        bucket = await self._find_bucket("ListObjects", request)
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        found: dict[str, bool] = {}  # whether it is a folder
        for name in sorted(bucket.objects):
            if not name.startswith(prefix):
                continue
            rest, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            found[f"{prefix}{rest}{cut}" if cut else name] = bool(cut)
        page, following = self._page_of(request, list(found))
        items = [_object_json(bucket.name, each, bucket.objects[each]) for each in page if not found[each]]
        answer: dict[str, Any] = {"kind": "storage#objects", "items": items}
        if folders := [each for each in page if found[each]]:
            answer["prefixes"] = folders
        return web.json_response(answer | following)

    async def get_object(self, request: web.Request) -> web.Response:
        if request.query.get("alt") == "media":
            return await self.download_object(request)
        bucket, name, found = await self._find_object("GetObject", request)
        return web.json_response(_object_json(bucket.name, name, found))

    async def download_object(self, request: web.Request) -> web.Response:
        _, name, found = await self._find_object("ReadObject", request)
        content, status, headers = found.content, 200, {"X-Goog-Generation": str(found.generation)}
        if asked := _RANGE.match(request.headers.get("Range", "")):
            start, end = int(asked[1]), int(asked[2] or len(content))
            if start >= len(content):
                raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, "Request range not satisfiable")
            status, total = 206, len(content)
            content = content[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{start + len(content) - 1}/{total}"
        if name in self.vault.damaged and content:
            self.vault.damaged.discard(name)
            content = bytes([content[0] ^ 0xFF]) + content[1:]
        return web.Response(body=content, status=status, headers=headers, content_type=found.kind)

    # uploads

    async def start_upload(self, request: web.Request) -> web.Response:
        bucket = await self._find_bucket("WriteObject", request)
        match = request.query.get("ifGenerationMatch")
        wanted = int(match) if match is not None else None
        if request.query["uploadType"] == "resumable":
            body = await request.json() if request.can_read_body else {}
            number = uuid.uuid4().hex
            kind = request.headers.get("X-Upload-Content-Type", "")
            self.vault.uploads[number] = (bucket.name, body.get("name", ""), kind, bytearray(), wanted)
            place = request.url.with_query({"uploadType": "resumable", "upload_id": number})
            return web.Response(headers={"Location": str(place), "X-GUploader-UploadID": number})
        described, content, kind = _parse_multipart(request.headers["Content-Type"], await request.read())
        return self._store_object(bucket.name, described["name"], content, described.get("contentType", kind), wanted)

    async def upload_chunk(self, request: web.Request) -> web.Response:
        number = request.query["upload_id"]
        bucket, name, kind, come, wanted = self.vault.uploads[number]
        await self._check_call("WriteObject", self.vault.buckets[bucket].project)
        come += await request.read()
        asked = _CONTENT_RANGE.match(request.headers.get("Content-Range", ""))
        if asked and (asked[3] == "*" or len(come) < int(asked[3])):
            return web.Response(status=308, headers={"Range": f"bytes=0-{len(come) - 1}"} if come else {})
        del self.vault.uploads[number]
        return self._store_object(bucket, name, bytes(come), kind, wanted)

    def _store_object(self, bucket: str, name: str, content: bytes, kind: str, wanted: int | None) -> web.Response:
        there = self.vault.buckets[bucket].objects.get(name)
        if wanted is not None:
            _check_generation(wanted, there.generation if there else 0)
        return web.json_response(_object_json(bucket, name, self.vault.put(bucket, name, content, kind)))

    def _page_of(self, request: web.Request, items: list[Any]) -> tuple[list[Any], dict[str, str]]:
        size, token = int(request.query.get("maxResults", 0)), request.query.get("pageToken", "")
        page, following = self.world.paginate(items, size, token)
        return page, {"nextPageToken": following} if following else {}


def _object_name(request: web.Request) -> str:
    return unquote(request.rel_url.raw_path.partition("/o/")[2])


def _check_generation(wanted: int, found: int) -> None:
    if wanted != found:
        words = "At least one of the pre-conditions you specified did not hold."
        raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, words)


def _parse_multipart(kind: str, body: bytes) -> tuple[dict[str, Any], bytes, str]:
    """(metadata, content, content type) of a multipart upload. Raises RefusalError without a boundary."""
    found = re.search(r'boundary="?([^";]+)"?', kind)
    if found is None:
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "no boundary")
    mark = b"--" + found[1].encode()
    first, second = body.split(mark, 2)[1:3]
    described: dict[str, Any] = json.loads(first.partition(b"\r\n\r\n")[2])
    head, _, content = second.partition(b"\r\n\r\n")
    ending = b"\r\n" + mark + b"--"
    content_type = re.search(rb"content-type: *([^\r\n]+)", head, re.IGNORECASE)
    return described, content.rpartition(ending)[0], content_type[1].decode() if content_type else ""


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bucket_resource(bucket: BucketState, number: str) -> dict[str, Any]:
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "name": bucket.name,
        "location": bucket.location,
        "locationType": bucket.location_type,
        "storageClass": "STANDARD",
        "timeCreated": _format_time(bucket.created),
        "projectNumber": number,
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }


def _object_json(bucket: str, name: str, file: StoredFile) -> dict[str, Any]:
    checksum = base64.b64encode(crc32c(file.content).to_bytes(4, "big")).decode()
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "size": str(len(file.content)),
        "generation": str(file.generation),
        "metageneration": "1",
        "contentType": file.kind,
        "updated": _format_time(file.updated),
        "timeCreated": _format_time(file.updated),
        "crc32c": checksum,
    }


def _with_error_responses(handler: Callable[[web.Request], Awaitable[web.Response]]) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except RefusalError as refusal:
            code = _STATUS.get(refusal.code, 503)
            return web.json_response({"error": {"code": code, "message": refusal.message}}, status=code)

    return answer


def routes(google: PracticeGoogle) -> list[web.RouteDef]:
    desk = _StorageApi(google)
    base = "/storage/v1/b"
    return [
        web.get(base, _with_error_responses(desk.list_buckets)),
        web.post(base, _with_error_responses(desk.create_bucket)),
        web.get(f"{base}/{{bucket}}", _with_error_responses(desk.get_bucket)),
        web.get(f"{base}/{{bucket}}/iam", _with_error_responses(desk.get_policy)),
        web.get(f"{base}/{{bucket}}/o", _with_error_responses(desk.list_objects)),
        web.get(f"{base}/{{bucket}}/o/{{name:.+}}", _with_error_responses(desk.get_object)),
        web.get(f"/download{base}/{{bucket}}/o/{{name:.+}}", _with_error_responses(desk.download_object)),
        web.post(f"/upload{base}/{{bucket}}/o", _with_error_responses(desk.start_upload)),
        web.put(f"/upload{base}/{{bucket}}/o", _with_error_responses(desk.upload_chunk)),
    ]
