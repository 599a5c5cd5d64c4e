"""The OCI distribution API of the practice registries, under /registry/HOST/v2/."""

from __future__ import annotations

import hashlib
import json

from aiohttp import web

from practice.google.cloud import PracticeGoogle

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"


def routes(google: PracticeGoogle) -> list[web.RouteDef]:
    images = google.registries

    def read_config(request: web.Request, tag: str) -> bytes | None:
        name = f"{request.match_info['host']}/{request.match_info['path']}"
        cuda = images.cuda_version(f"{name}{'@' if tag.startswith('sha256:') else ':'}{tag}")
        if cuda is None:
            return None
        env = ["PATH=/usr/local/bin:/usr/bin:/bin", "OPENMPI_VERSION=4.1.7", "PYTORCH_VERSION=2.8.0a0"]
        env += [f"CUDA_VERSION={cuda}"] if cuda else []
        server = " openssh-server" if images.has_sshd(name) else ""
        steps = [{"created_by": f"RUN /bin/sh -c apt-get install -y git openssh-client{server} # buildkit"}]
        config = {"Env": env, "Labels": {}}
        return json.dumps({"architecture": "amd64", "os": "linux", "config": config, "history": steps}).encode()

    async def manifest(request: web.Request) -> web.Response:
        if f"{request.match_info['host']}/{request.match_info['path']}" in images.hidden:
            return web.json_response({"errors": [{"code": "DENIED"}]}, status=403)
        config = read_config(request, request.match_info["tag"])
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
        return web.Response(
            body=json.dumps(body).encode(), content_type=_MANIFEST, headers={"Docker-Content-Digest": digest}
        )

    blobs: dict[str, bytes] = {}

    async def blob(request: web.Request) -> web.Response:
        found = blobs.get(request.match_info["digest"])
        return web.Response(body=found, content_type="application/json") if found else web.Response(status=404)

    root = "/registry/{host}/v2/{path:.+}"
    return [web.get(f"{root}/manifests/{{tag}}", manifest), web.get(f"{root}/blobs/{{digest}}", blob)]
