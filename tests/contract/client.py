"""The suite's own client: plain HTTP from a kubeconfig, nothing shared with the program under test."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yaml

Object = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TIMEOUT = aiohttp.ClientTimeout(total=60)
FOREVER = aiohttp.ClientTimeout(total=None, sock_connect=10)


@dataclass(frozen=True, slots=True)
class Login:
    """What a kubeconfig says, once."""

    server: str
    trust: ssl.SSLContext
    token: str

    @classmethod
    def read(cls, kubeconfig: Path) -> Login:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        trust = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            with tempfile.TemporaryDirectory() as folder:
                chain = Path(folder) / "chain.pem"
                chain.touch(mode=0o600)
                parts = (user["client-certificate-data"], user["client-key-data"])
                chain.write_bytes(b"\n".join(base64.b64decode(part) for part in parts))
                trust.load_cert_chain(chain)
        return cls(cluster["server"], trust, user.get("token", ""))


@dataclass(frozen=True, slots=True)
class Answer:
    """One response; `body` is JSON where the server says so, text otherwise."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def made(self) -> Object:
        """The object of a successful answer."""
        assert self.status in (200, 201), f"{self.status}: {self.body}"
        assert isinstance(self.body, dict)
        return self.body

    @property
    def message(self) -> str:
        return str(self.body["message"])

    def refused(self, status: int, reason: str) -> str:
        """The message of a refusal, after checking that it is a Status object as every client expects it."""
        assert isinstance(self.body, dict), f"{self.status}: {self.body}"
        shape = {key: self.body.get(key) for key in ("kind", "apiVersion", "status", "code", "reason")}
        assert shape == {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": status,
            "reason": reason,
        }, self.body
        assert self.status == status
        return self.message


@dataclass(frozen=True, slots=True)
class Api:
    """Requests to one cluster as one account."""

    http: aiohttp.ClientSession
    login: Login

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path, limits: aiohttp.ClientTimeout = TIMEOUT) -> AsyncIterator[Api]:
        login = Login.read(kubeconfig)
        headers = {"Authorization": f"Bearer {login.token}"} if login.token else {}
        connector = aiohttp.TCPConnector(ssl=login.trust)
        async with aiohttp.ClientSession(login.server, connector=connector, headers=headers, timeout=limits) as http:
            yield cls(http, login)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        kind: str = "application/json",
        *,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """One request; a body that is not text or bytes is sent as JSON."""
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        sent = {**(headers or {}), **({"Content-Type": kind} if data is not None else {})}
        async with self.http.request(method, path, data=data, headers=sent, params=query) as response:
            text = await response.text()
            parsed = json.loads(text) if response.content_type == "application/json" and text else text
            return Answer(response.status, dict(response.headers), parsed)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.send("GET", path, **query)

    async def create(self, path: str, body: Object, **query: Any) -> Answer:
        return await self.send("POST", path, body, **query)

    async def delete(self, path: str, body: Object | None = None, **query: Any) -> Answer:
        return await self.send("DELETE", path, body, **query)

    @asynccontextmanager
    async def watch(self, path: str, **query: Any) -> AsyncIterator[AsyncIterator[Object]]:
        """The events of a watch, one object each; ends with the server's stream."""
        async with self.http.get(path, params={"watch": "true", **query}, timeout=FOREVER) as response:
            assert response.status == 200, await response.text()
            yield _lines(response)

    def follow(self, path: str, **query: Any) -> aiohttp.client._RequestContextManager:
        """A raw streamed answer, for logs."""
        return self.http.get(path, params=query, timeout=FOREVER)

    def socket(
        self, path: str, protocol: str, query: list[tuple[str, str]]
    ) -> aiohttp.client._BaseRequestContextManager[aiohttp.ClientWebSocketResponse[bool]]:
        """A WebSocket, for exec and port-forward."""
        return self.http.ws_connect(f"{path}?{urlencode(query)}", protocols=(protocol,), max_msg_size=0)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    async for line in response.content:
        if line.strip():
            yield json.loads(line)
