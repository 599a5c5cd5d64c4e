"""Cloud Storage's JSON API over HTTP: lists with prefixes and pages, ranges, uploads in one or several pieces."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import grpc
from aiohttp import web

from practice.google.serving import RefusalError
from practice.google.vault import BucketObject, BucketState, BucketStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from practice.google.cloud import PracticeGoogle

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
"""Everything else is 503."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(slots=True)
class _Asked:
    """The request as faults and permissions need it."""

    project: str
    name: str = ""


class _StorageApi:
    def __init__(self, world: PracticeGoogle) -> None:
        self.world, self.vault = world, world.part(BucketStore)

    async def _first(self, method: str, project: str) -> None:
        await self.world.first(f"/google.storage.v1.Storage/{method}", _Asked(project))

    async def _bucket(self, method: str, request: web.Request) -> BucketState:
        name = request.match_info["bucket"]
        found = self.vault.buckets.get(name)
        await self._first(method, found.project if found else "")
        if found is None:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, "The specified bucket does not exist.")
        return found

    async def _thing(self, method: str, request: web.Request) -> tuple[BucketState, str, BucketObject]:
        bucket = await self._bucket(method, request)
        name = _name_of(request)
        found = bucket.things.get(name)
        if found is None:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"No such object: {bucket.name}/{name}")
        _match(request.query, found)
        return bucket, name, found

    def _told(self, found: BucketState) -> dict[str, Any]:
        return _told_bucket(found, self.world.projects[found.project].number)

    async def buckets(self, request: web.Request) -> web.Response:
        project = request.query["project"]
        await self._first("ListBuckets", project)
        prefix = request.query.get("prefix", "")
        found = [
            self._told(each)
            for each in sorted(self.vault.buckets.values(), key=lambda each: each.name)
            if each.project == project and each.name.startswith(prefix)
        ]
        return self._page(request, found)

    async def create_bucket(self, request: web.Request) -> web.Response:
        project = request.query["project"]
        await self._first("CreateBucket", project)
        wanted = await request.json()
        if wanted["name"] in self.vault.buckets:
            raise RefusalError(grpc.StatusCode.ALREADY_EXISTS, "The requested bucket name is not available.")
        place = wanted.get("location", "US").upper()
        kind = "multi-region" if place in {"US", "EU", "ASIA"} else "region"
        made = BucketState(wanted["name"], project, place, kind, self.world.clock.now())
        self.vault.add(made)
        return web.json_response(self._told(made))

    async def bucket(self, request: web.Request) -> web.Response:
        return web.json_response(self._told(await self._bucket("GetBucket", request)))

    async def policy(self, request: web.Request) -> web.Response:
        bucket = await self._bucket("GetIamPolicy", request)
        bindings = [{"role": role, "members": list(members)} for role, members in bucket.bindings]
        return web.json_response({"kind": "storage#policy", "version": 1, "bindings": bindings, "etag": "CAE="})

    async def objects(self, request: web.Request) -> web.Response:
        bucket = await self._bucket("ListObjects", request)
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        found: dict[str, Any] = {}
        for name in sorted(bucket.things):
            if not name.startswith(prefix):
                continue
            rest, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            if cut:
                found[f"{prefix}{rest}{cut}"] = None
            else:
                found[name] = _told(bucket.name, name, bucket.things[name])
        page, token = self.world.paged(
            list(found), int(request.query.get("maxResults", 0)), request.query.get("pageToken", "")
        )
        answer: dict[str, Any] = {"kind": "storage#objects", "items": [found[each] for each in page if found[each]]}
        if folders := [each for each in page if found[each] is None]:
            answer["prefixes"] = folders
        return web.json_response({**answer, **({"nextPageToken": token} if token else {})})

    async def thing(self, request: web.Request) -> web.Response:
        if request.query.get("alt") == "media":
            return await self.media(request)
        bucket, name, found = await self._thing("GetObject", request)
        return web.json_response(_told(bucket.name, name, found))

    async def media(self, request: web.Request) -> web.Response:
        _, name, found = await self._thing("ReadObject", request)
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

    async def upload(self, request: web.Request) -> web.Response:
        bucket = await self._bucket("WriteObject", request)
        match = request.query.get("ifGenerationMatch")
        wanted = int(match) if match is not None else None
        if request.query["uploadType"] == "resumable":
            told = await request.json() if request.can_read_body else {}
            number = uuid.uuid4().hex
            kind = request.headers.get("X-Upload-Content-Type", "")
            self.vault.uploads[number] = (bucket.name, told.get("name", ""), kind, bytearray(), wanted)
            place = request.url.with_query({"uploadType": "resumable", "upload_id": number})
            return web.Response(headers={"Location": str(place), "X-GUploader-UploadID": number})
        described, content, kind = _parts(request.headers["Content-Type"], await request.read())
        return self._put(bucket.name, described["name"], content, described.get("contentType", kind), wanted)

    async def piece(self, request: web.Request) -> web.Response:
        number = request.query["upload_id"]
        bucket, name, kind, come, wanted = self.vault.uploads[number]
        await self._first("WriteObject", self.vault.buckets[bucket].project)
        come += await request.read()
        asked = _CONTENT_RANGE.match(request.headers.get("Content-Range", ""))
        if asked and (asked[3] == "*" or len(come) < int(asked[3])):
            return web.Response(status=308, headers={"Range": f"bytes=0-{len(come) - 1}"} if come else {})
        del self.vault.uploads[number]
        return self._put(bucket, name, bytes(come), kind, wanted)

    def _put(self, bucket: str, name: str, content: bytes, kind: str, wanted: int | None) -> web.Response:
        there = self.vault.buckets[bucket].things.get(name)
        if wanted is not None and wanted != (there.generation if there else 0):
            words = "At least one of the pre-conditions you specified did not hold."
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, words)
        return web.json_response(_told(bucket, name, self.vault.put(bucket, name, content, kind)))

    def _page(self, request: web.Request, found: list[Any]) -> web.Response:
        size, token = int(request.query.get("maxResults", 0)), request.query.get("pageToken", "")
        page, following = self.world.paged(found, size, token)
        return web.json_response({"items": page, **({"nextPageToken": following} if following else {})})


def _name_of(request: web.Request) -> str:
    return unquote(request.rel_url.raw_path.partition("/o/")[2])


def _match(asked: Mapping[str, str], found: BucketObject) -> None:
    wanted = asked.get("ifGenerationMatch") or asked.get("generation")
    if wanted and int(wanted) != found.generation:
        words = "At least one of the pre-conditions you specified did not hold."
        raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, words)


def _parts(kind: str, body: bytes) -> tuple[dict[str, Any], bytes, str]:
    """(metadata, content, content type) of a multipart upload."""
    found = re.search(r'boundary="?([^";]+)"?', kind)
    if found is None:
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "no boundary")
    mark = b"--" + found[1].encode()
    first, second = body.split(mark, 2)[1:3]
    described: dict[str, Any] = json.loads(first.partition(b"\r\n\r\n")[2])
    head, _, content = second.partition(b"\r\n\r\n")
    ending = b"\r\n" + mark + b"--"
    said = re.search(rb"content-type: *([^\r\n]+)", head, re.IGNORECASE)
    return described, content.rpartition(ending)[0], said[1].decode() if said else ""


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _told_bucket(found: BucketState, number: str) -> dict[str, Any]:
    return {
        "kind": "storage#bucket", "id": found.name, "name": found.name, "location": found.location,
        "locationType": found.location_type, "storageClass": "STANDARD", "timeCreated": _moment(found.created),
        "projectNumber": number, "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    }  # fmt: skip


def _told(bucket: str, name: str, found: BucketObject) -> dict[str, Any]:
    return {
        "kind": "storage#object", "bucket": bucket, "name": name, "size": str(len(found.content)),
        "generation": str(found.generation), "metageneration": "1", "contentType": found.kind,
        "updated": _moment(found.updated), "timeCreated": _moment(found.updated), "crc32c": found.crc32c,
    }  # fmt: skip


def _answering(handler: Callable[[web.Request], Awaitable[web.Response]]) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except RefusalError as refusal:
            code = _STATUS.get(refusal.code, 503)
            return web.json_response({"error": {"code": code, "message": refusal.message}}, status=code)

    return answer


def routes(world: PracticeGoogle) -> list[web.RouteDef]:
    desk = _StorageApi(world)
    base = "/storage/v1/b"
    return [
        web.get(base, _answering(desk.buckets)),
        web.post(base, _answering(desk.create_bucket)),
        web.get(f"{base}/{{bucket}}", _answering(desk.bucket)),
        web.get(f"{base}/{{bucket}}/iam", _answering(desk.policy)),
        web.get(f"{base}/{{bucket}}/o", _answering(desk.objects)),
        web.get(f"{base}/{{bucket}}/o/{{name:.+}}", _answering(desk.thing)),
        web.get(f"/download{base}/{{bucket}}/o/{{name:.+}}", _answering(desk.media)),
        web.post(f"/upload{base}/{{bucket}}/o", _answering(desk.upload)),
        web.put(f"/upload{base}/{{bucket}}/o", _answering(desk.piece)),
    ]
