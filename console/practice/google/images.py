"""The registries of the world, as far as recipes pull from them: the distribution API under /registry/HOST/v2/."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from aiohttp import web

from console.practice.google.registry import Shelf

if TYPE_CHECKING:
    from console.practice.google.cloud import PracticeGoogle

_CUDA_IN_TAG = re.compile(r"cuda(\d+\.\d+\.\d+)")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"


class World:
    """Public images, by name: the tags there are with their version of CUDA, "" where the image does not say."""

    def __init__(self, world: PracticeGoogle) -> None:
        self.world = world
        self.hidden: set[str] = set()
        """Names that nobody may see who is not logged in there."""
        gib = "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-diagnostic"
        nemo = "us-central1-docker.pkg.dev/deeplearning-images/reproducibility/pytorch-gpu-nemo-nccl"
        self.public: dict[str, dict[str, str]] = {
            "nvcr.io/nvidia/pytorch": {"25.06-py3": "12.9.1.010", "24.07-py3": "12.5.1.007"},
            "dsw-registry.cn-wulanchabu.cr.aliyuncs.com/pai/pai-megatron-patch": {"25.04": "12.8.1.012"},
            "modelscope-registry.us-west-1.cr.aliyuncs.com/modelscope-repo/modelscope": {},
            gib: dict.fromkeys(("v1.0.5", "v1.0.6", "v1.1.0", "latest"), "12.8.0"),
            nemo: {"nemo25.04-gib1.0.6-A4": "12.8.1"},
        }

    def cuda(self, name: str, tag: str) -> str | None:
        """Version of CUDA in an image; None if there is no such image."""
        if any(each.uri.startswith(f"{name}@") and tag in each.tags for each in self.world.part(Shelf).images.values()):
            return "12.9.1.010"
        tags = self.public.get(name)
        if tags is None:
            return None
        named = _CUDA_IN_TAG.search(tag)
        return tags.get(tag) if tags or not named else named[1]


def routes(world: PracticeGoogle) -> list[web.RouteDef]:
    """Its routes."""
    images = world.part(World)

    def config_of(request: web.Request, tag: str) -> bytes | None:
        name = f"{request.match_info['host']}/{request.match_info['path']}"
        cuda = images.cuda(name, tag)
        if cuda is None:
            return None
        env = ["PATH=/usr/local/bin:/usr/bin:/bin", *([f"CUDA_VERSION={cuda}"] if cuda else [])]
        return json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": env, "Labels": {}}}).encode()

    async def manifest(request: web.Request) -> web.Response:
        if f"{request.match_info['host']}/{request.match_info['path']}" in images.hidden:
            return web.json_response({"errors": [{"code": "DENIED"}]}, status=403)
        config = config_of(request, request.match_info["tag"])
        if config is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
        body = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": f"{digest}", "size": len(config)},
            "layers": [
                {"digest": digest, "size": 14_800_000_000, "mediaType": "application/vnd.oci.image.layer.v1.tar"}
            ],
        }
        blobs[digest] = config
        return web.Response(body=json.dumps(body).encode(), content_type=_MANIFEST,
                            headers={"Docker-Content-Digest": digest})  # fmt: skip

    blobs: dict[str, bytes] = {}

    async def blob(request: web.Request) -> web.Response:
        found = blobs.get(request.match_info["digest"])
        return web.Response(body=found, content_type="application/json") if found else web.Response(status=404)

    root = "/registry/{host}/v2/{path:.+}"
    return [web.get(f"{root}/manifests/{{tag}}", manifest), web.get(f"{root}/blobs/{{digest}}", blob)]
