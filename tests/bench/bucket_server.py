"""A server that answers as Cloud Storage does for one bucket full of safetensors, at as little cost as Python allows.

`python -m tests.bench.bucket_server OBJECTS LATENCY` prints its address and serves until its input ends; then it prints
how much processor time it took.
"""

import asyncio
import json
import struct
import sys
import time
from urllib.parse import parse_qs, unquote

BUCKET, STEPS = "bench", 10
PAGE = 1000
OLD = "2026-01-02T03:04:05.678Z"


def make_objects(count: int) -> dict[str, bytes]:
    """Checkpoints of that many objects together: shards, and the index of each checkpoint."""
    found = {}
    shards = count // STEPS - 1
    for step in range(STEPS):
        names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
        for number, name in enumerate(names):
            table = {
                f"model.layers.{number}.mlp.{part}.weight": {
                    "dtype": "BF16",
                    "shape": [4],
                    "data_offsets": [at, at + 8],
                }
                for part, at in (("down_proj", 0), ("gate_proj", 8), ("up_proj", 16))
            }
            head = json.dumps(table).encode()
            found[f"run/checkpoint-{step}/{name}"] = struct.pack("<Q", len(head)) + head + bytes(24)
        index = {
            "weight_map": {f"model.layers.{number}.mlp.down_proj.weight": name for number, name in enumerate(names)}
        }
        found[f"run/checkpoint-{step}/model.safetensors.index.json"] = json.dumps(index).encode()
    return found


class Bucket:
    def __init__(self, count: int) -> None:
        self.objects = make_objects(count)
        self.names = sorted(self.objects)
        self.requests = 0

    def answer(self, head: bytes) -> bytes:
        """The whole response to a request."""
        self.requests += 1
        target = head.split(b" ", 2)[1].decode()
        path, _, query = target.partition("?")
        if path.startswith("/download/"):
            return self._part(unquote(path.rpartition("/o/")[2]), head)
        if path == "/token":
            return _response(200, json.dumps({"access_token": "bench", "expires_in": 3600, "token_type": "Bearer"}))
        return self._page(parse_qs(query)) if path.endswith("/o") else _response(404, "{}")

    def _part(self, name: str, head: bytes) -> bytes:
        content = self.objects[name]
        at = head.lower().find(b"range: bytes=")
        start, end = map(int, head[at + 13 : head.find(b"\r", at)].split(b"-"))
        piece = content[start : end + 1]
        return (
            b"HTTP/1.1 206 Partial Content\r\nContent-Type: application/octet-stream\r\nX-Goog-Generation: 1\r\n"
            b"Server: UploadServer\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n\r\n"
            % (start, start + len(piece) - 1, len(content), len(piece))
        ) + piece

    def _page(self, query: dict[str, list[str]]) -> bytes:
        at, size = int(query.get("pageToken", ["0"])[0]), int(query.get("maxResults", [str(PAGE)])[0])
        prefix = query.get("prefix", [""])[0]
        names = [name for name in self.names if name.startswith(prefix)]
        items = [
            {
                "kind": "storage#object", "id": f"{BUCKET}/{name}/1", "name": name, "bucket": BUCKET,
                "size": str(len(self.objects[name])), "generation": "1", "metageneration": "1", "crc32c": "AAAAAA==",
                "md5Hash": "A" * 24, "etag": "CAE=", "contentType": "application/octet-stream", "updated": OLD,
                "timeCreated": OLD, "timeStorageClassUpdated": OLD, "storageClass": "STANDARD",
                "selfLink": f"https://www.googleapis.com/storage/v1/b/{BUCKET}/o/{name}",
            }
            for name in names[at : at + size]
        ]  # fmt: skip
        more = {"nextPageToken": str(at + size)} if at + size < len(names) else {}
        return _response(200, json.dumps({"kind": "storage#objects", "items": items, **more}))


def _response(status: int, body: str) -> bytes:
    data = body.encode()
    return b"HTTP/1.1 %d -\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data


class Connection(asyncio.Protocol):
    def __init__(self, bucket: Bucket, latency: float) -> None:
        self._bucket, self._latency, self._rest = bucket, latency, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head, self._rest = self._rest[: end + 2], self._rest[end + 4 :]
            at = head.lower().find(b"content-length: ")
            if at >= 0:
                self._rest = self._rest[int(head[at + 16 : head.find(b"\r", at)]) :]
            answer = self._bucket.answer(head)
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._transport.write, answer)
            else:
                self._transport.write(answer)


async def serve(count: int, latency: float) -> None:
    bucket, loop = Bucket(count), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(bucket, latency), "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    begun = time.process_time()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    sys.stdout.write(json.dumps({"seconds": time.process_time() - begun, "requests": bucket.requests}))
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
