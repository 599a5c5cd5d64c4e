"""Reads images from registries by the OCI distribution API: existence and configuration."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
import pycurl

from console.decoding import DECODING_ERRORS
from console.errors import TRY_AGAIN, NotAllowed, NotFound, Refused, Unreachable, Unreadable
from console.google.builds import ImageFacts, ImageReference
from console.kube.http import USER_AGENT, use_system_certificates
from console.kube.objects.meta import ApiSchema

REGISTRY_TIMEOUT = 12.0
_MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_MAX_REDIRECTS = 10
_MAX_MANIFEST_BYTES = 4 << 20  # bytes of a manifest or a configuration that are read


class _Descriptor(ApiSchema):
    digest: str = ""
    size: int = 0
    platform: dict[str, Any] | None = None


class _Manifest(ApiSchema):
    manifests: list[_Descriptor] | None = None
    layers: list[_Descriptor] | None = None
    config: _Descriptor | None = None


class _RuntimeConfig(ApiSchema, rename="pascal"):
    env: list[str] | None = None
    labels: dict[str, str] | None = None


class _HistoryStep(ApiSchema, rename={"created_by": "created_by"}):
    created_by: str | None = None


class _TokenResponse(ApiSchema, rename={"access_token": "access_token"}):
    token: str | None = None
    access_token: str | None = None


class _ImageConfig(ApiSchema):
    architecture: str | None = None
    config: _RuntimeConfig | None = None
    history: list[_HistoryStep] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    status: int
    headers: Mapping[str, str]  # by name in lower case
    body: bytes = b""


class RegistryClient:
    """Reads images of any registry; `token`: login to Google's, `practice_address`: a server that imitates them."""

    def __init__(self, token: str = "", practice_address: str = "") -> None:
        self._token, self._stand_in = token, practice_address
        self._curl = pycurl.Curl()  # used again, for its connection

    async def read_image(self, text: str) -> ImageFacts:
        """Read an image's facts from its registry. Raises NotFound, NotAllowed or Unreachable."""
        wanted = ImageReference.of(text)
        bearer = {"Authorization": f"Bearer {self._token}"} if self._stand_in and self._token else {}
        raw, digest = await self._get(wanted, f"manifests/{wanted.tag}", bearer)
        manifest = _decode_json(raw, _Manifest)
        if manifest.manifests:
            one = _manifest_for_amd64(manifest.manifests)
            raw, digest = await self._get(wanted, f"manifests/{one.digest}", bearer)
            manifest = _decode_json(raw, _Manifest)
        config = _ImageConfig()
        if manifest.config:
            config = _decode_json((await self._get(wanted, f"blobs/{manifest.config.digest}", bearer))[0], _ImageConfig)
        settings = config.config or _RuntimeConfig()
        return ImageFacts(
            digest=digest,
            bytes=sum(each.size for each in manifest.layers or ()),
            architecture=config.architecture or "",
            labels=settings.labels or {},
            env=dict(each.partition("=")[::2] for each in settings.env or ()),
            history=tuple(each.created_by for each in config.history or () if each.created_by),
        )

    async def _get(self, image: ImageReference, path: str, bearer: dict[str, str]) -> tuple[bytes, str]:
        for attempt in (1, 2):
            root = f"{self._stand_in}/registry/{image.host}" if self._stand_in else f"https://{image.host}"
            answer = await self._request_once(
                image, f"{root}/v2/{image.path}/{path}", {"Accept": _MANIFEST_TYPES, **bearer}
            )
            asked = answer.headers.get("www-authenticate", "")
            if answer.status == 401 and attempt == 1 and asked.lower().startswith("bearer"):
                bearer["Authorization"] = await self._fetch_bearer(image, dict(_CHALLENGE_PARAMETER.findall(asked)))
                continue
            if not 200 <= answer.status < 300:
                raise _refusal_error(image, answer.status)
            return answer.body, answer.headers.get("docker-content-digest", "")
        raise AssertionError("the second attempt returns or raises")

    async def _fetch_bearer(self, image: ImageReference, challenge: Mapping[str, str]) -> str:
        """A token ("Bearer TEXT") of a registry's token service; only Google's gets this login. Raises Refused."""
        realm = challenge.get("realm", "")
        place = _split_token_url(realm)
        if place is None:
            raise NotAllowed(f"The registry {image.host} requires an unsupported kind of login.", status=401)
        params = [(key, challenge[key]) for key in ("service", "scope") if key in challenge]
        mine = image.google and place.netloc == image.host
        login = {}
        if mine and self._token:
            pair = base64.b64encode(f"oauth2accesstoken:{self._token}".encode()).decode()
            login["Authorization"] = f"Basic {pair}"
        address = urlunsplit(place._replace(query=urlencode([*parse_qsl(place.query), *params]), fragment=""))
        answer = await self._request_once(image, address, login, follows=False)
        if answer.status != 200:
            raise _refusal_error(image, answer.status)
        token: _TokenResponse = _decode_json(answer.body, _TokenResponse)
        return f"Bearer {token.token or token.access_token or ''}"

    async def _request_once(
        self, image: ImageReference, address: str, headers: Mapping[str, str], *, follows: bool = True
    ) -> Answer:
        """Send one request; `follows`: follow redirects, never with credentials to another host."""
        return await asyncio.to_thread(self._transfer, image, address, headers, follows=follows)

    def _transfer(self, image: ImageReference, address: str, headers: Mapping[str, str], *, follows: bool) -> Answer:
        curl, body, found = self._curl, bytearray(), dict[str, str]()

        def header(line: bytes) -> None:
            name, colon, value = line.decode("latin-1").partition(":")
            if colon:
                found[name.strip().lower()] = value.strip()
            elif name.startswith("HTTP/"):  # the answer to a redirect, too, begins so
                found.clear()

        def piece(data: bytes) -> int | None:
            body.extend(data)
            return None if len(body) <= _MAX_MANIFEST_BYTES else 0

        schemes = pycurl.PROTO_HTTPS | (pycurl.PROTO_HTTP if self._stand_in else 0)
        try:
            curl.reset()
            curl.setopt(pycurl.URL, address)
            curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers.items()])
            curl.setopt(pycurl.USERAGENT, USER_AGENT)
            curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
            curl.setopt(pycurl.PROTOCOLS, schemes)
            curl.setopt(pycurl.REDIR_PROTOCOLS, schemes)
            curl.setopt(pycurl.FOLLOWLOCATION, int(follows))
            curl.setopt(pycurl.MAXREDIRS, _MAX_REDIRECTS)
            curl.setopt(pycurl.TIMEOUT_MS, int(1000 * REGISTRY_TIMEOUT))
            curl.setopt(pycurl.NOSIGNAL, 1)
            curl.setopt(pycurl.HEADERFUNCTION, header)
            curl.setopt(pycurl.WRITEFUNCTION, piece)
            use_system_certificates(curl)
            if self._stand_in:  # it is on this machine
                curl.setopt(pycurl.PROXY, "")
                curl.setopt(pycurl.NOPROXY, "*")
            curl.perform()
        except pycurl.error as error:
            if len(body) > _MAX_MANIFEST_BYTES:
                raise Unreadable(
                    f"The registry {image.host} answers with more than {_MAX_MANIFEST_BYTES >> 20} MiB."
                ) from error
            raise Unreachable(f"The registry {image.host} does not answer.", TRY_AGAIN) from error
        return Answer(int(curl.getinfo(pycurl.RESPONSE_CODE)), found, bytes(body))


def _split_token_url(realm: str) -> SplitResult | None:
    """The parts of a token service's URL; None unless it is https with a plain host."""
    try:
        parts = urlsplit(realm)
        return parts if parts.scheme == "https" and parts.hostname and "@" not in parts.netloc else None
    except ValueError:
        return None


def _refusal_error(image: ImageReference, status: int) -> Refused:
    if status == 404:
        return NotFound(f"{image} does not exist.", "Check its name and tag.", status=404)
    if status in {401, 403}:
        hint = (
            "Log in to it, or name an imagePullSecret for the pods."
            if not image.google
            else "Ask for Artifact Registry Reader."
        )
        return NotAllowed(f"This login has no permission to read {image}.", hint, status=status)
    return Refused(f"The registry {image.host} answered {status}.", TRY_AGAIN, status=status)


def _manifest_for_amd64(manifests: list[_Descriptor]) -> _Descriptor:
    for each in manifests:
        if each.platform and (each.platform.get("os"), each.platform.get("architecture")) == ("linux", "amd64"):
            return each
    return manifests[0]


def _decode_json(content: bytes, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(content, type=type_)
    except DECODING_ERRORS as error:
        raise Unreadable(f"The registry's answer cannot be read: {error}.") from error
