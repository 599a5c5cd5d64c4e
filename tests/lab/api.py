"""The lab's own line to its API server: plain HTTPS with the administrator's certificate, one connection a request."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.machines import Object


class ApiRefusedError(Exception):
    """The API server answered with something other than success."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Api:
    """Requests as the administrator."""

    port: int
    trust: ssl.SSLContext

    @classmethod
    def administrator(cls, port: int, pki: Path) -> Api:
        trust = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        trust.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
        return cls(port, trust)

    def ready(self) -> bool:
        try:
            return self._send("GET", "/readyz", None, "", 5).status == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Any:
        """The answer's JSON."""
        response = self._send(method, path, body, kind, 30)
        text = response.read()
        if response.status >= 300:
            raise ApiRefusedError(response.status, text.decode(errors="replace"))
        return json.loads(text)

    def watch(self, path: str) -> Iterator[Object]:
        """Events until the server ends the stream or goes away."""
        with self._send("GET", path, None, "", None) as response:
            while line := response.readline():
                yield json.loads(line)

    def _send(
        self, method: str, path: str, body: Object | None, kind: str, timeout: float | None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.trust)
        headers = {"Content-Type": kind} if body is not None else {}
        headers["Connection"] = "close"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()
