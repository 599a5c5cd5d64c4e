"""Reads the beginnings and ends of many objects of a bucket by libcurl.

Google's own client takes a millisecond of processor time for each, libcurl a twelfth of that: a run has thousands.
Address, proxy, certificates, login, retries and errors are those of Google's client.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pycurl
from google.api_core.exceptions import from_http_status
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from console.errors import TRY_AGAIN, ConsoleError, Unreachable, Unreadable
from console.google.api.calls import GoogleSession, google_error
from console.kube.http import USER_AGENT

MAX_CONCURRENT_OBJECTS = 96  # objects that are read at the same time, each over a connection of its own
CONNECT_TIMEOUT, SILENCE_TIMEOUT = 10.0, 30  # until a connection has to stand, and for which an answer may say nothing
OBJECT_RETRY_SECONDS = 60.0  # seconds after which an object is not tried again
FIRST_PAUSE, MAX_PAUSE = 1.0, 16.0  # seconds before the second try, and before later ones at most
MAX_ERROR_BYTES = 1 << 16  # bytes of an answer that says why not
_RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_FINAL_CURL_ERRORS = frozenset({pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE})
_OK, _PARTIAL, _UNAUTHORIZED, _NOT_THERE, _NO_SUCH_RANGE = 200, 206, 401, 404, 416
_XML_TAG = re.compile(r"<[^>]{0,200}>")


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    """The host, headers and certificates with which Google's storage client sends requests."""

    base_url: str
    authority: str  # file or folder of the certificate authorities; empty: none is asked for
    proxy: str = ""
    certificate: tuple[bytes, bytes] | None = None  # of this machine, where Google asks for one: itself and its key

    @staticmethod
    def of(client: Any) -> Endpoint:
        """The endpoint of a google.cloud.storage Client. Blocking: it may read this machine's client certificate."""
        from google.auth.transport.mtls import default_client_cert_source

        session = client._http
        base = client._connection.get_api_base_url_for_mtls().rstrip("/")
        settings = session.merge_environment_settings(base, {}, None, None, None)
        verify = DEFAULT_CA_BUNDLE_PATH if settings["verify"] is True else settings["verify"] or ""
        proxies = settings["proxies"]
        proxy = proxies.get(base.partition(":")[0]) or proxies.get("all") or ""
        own = default_client_cert_source()() if session.is_mtls else None  # type: ignore[no-untyped-call]
        return Endpoint(base, verify, proxy, own)


class _Login:
    """The Authorization header of a reader; it is renewed when its token expires or is refused."""

    FRESH = 60.0  # seconds: a token is renewed minutes before its end

    def __init__(self, session: GoogleSession) -> None:
        self._session = session
        self._token, self._valid_until, self._headers = "", 0.0, list[str]()
        self._lock = asyncio.Lock()

    async def headers(self, refused_token: str = "") -> tuple[str, list[str]]:
        """(token, headers) of the next request; `refused_token`: a token that was not accepted."""
        if self._needs_new_token(refused_token):
            async with self._lock:
                if self._needs_new_token(refused_token):
                    await self._renew_token(refused_token)
        return self._token, self._headers

    def _needs_new_token(self, refused_token: str) -> bool:
        return time.monotonic() > self._valid_until or refused_token == self._token

    async def _renew_token(self, refused_token: str) -> None:
        self._token, _ = await self._session.token(refused_token)
        self._valid_until = time.monotonic() + self.FRESH
        project = getattr(self._session.credentials, "quota_project_id", None)
        self._headers = [
            f"Authorization: Bearer {self._token}",
            f"User-Agent: {USER_AGENT}",
            "Accept-Encoding: gzip",  # else Google unpacks what is stored packed, and its parts cannot be asked for
            *([f"X-Goog-User-Project: {project}"] if project else []),
        ]


async def read_parts(
    session: GoogleSession, endpoint: Endpoint, bucket: str, byte_ranges: Mapping[str, tuple[int, int]]
) -> dict[str, bytes]:
    """By object name its bytes for (offset, maximum bytes), read concurrently; empty past its end or if missing."""
    found: dict[str, bytes] = {}
    rest, login = iter(byte_ranges.items()), _Login(session)
    connections = pycurl.AsyncCurlMulti()
    connections.setopt(pycurl.M_MAXCONNECTS, MAX_CONCURRENT_OBJECTS)

    async def work() -> None:
        read = _ObjectReader(connections, endpoint, login, bucket)
        try:
            for name, (start, most) in rest:
                found[name] = await read.read_part(name, start, most)
        finally:
            read.curl.close()

    workers = [asyncio.create_task(work()) for _ in range(min(MAX_CONCURRENT_OBJECTS, len(byte_ranges)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await connections.aclose()
    return found


class _ObjectReader:
    """Reads parts of a bucket's objects one after the other over one connection."""

    def __init__(self, connections: pycurl.AsyncCurlMulti, endpoint: Endpoint, login: _Login, bucket: str) -> None:
        self._connections, self._login, self._bucket = connections, login, bucket
        self._objects_url = f"{endpoint.base_url}/download/storage/v1/b/{quote(bucket, safe='')}/o"
        self._body, self._bytes_left, self._is_cut = bytearray(), 0, False
        self.curl = curl = pycurl.Curl()
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(1000 * CONNECT_TIMEOUT))
        curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        curl.setopt(pycurl.LOW_SPEED_TIME, SILENCE_TIMEOUT)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROXY, endpoint.proxy)  # an empty one too: unless both are set, libcurl asks the environment
        curl.setopt(pycurl.NOPROXY, "")
        curl.setopt(pycurl.WRITEFUNCTION, self._buffer_piece)
        if endpoint.base_url.startswith("https:"):
            self._set_certificates(endpoint)

    def _set_certificates(self, endpoint: Endpoint) -> None:
        from pathlib import Path

        if endpoint.authority:
            folder = Path(endpoint.authority).is_dir()
            self.curl.setopt(pycurl.CAPATH if folder else pycurl.CAINFO, endpoint.authority)
        else:
            self.curl.setopt(pycurl.SSL_VERIFYPEER, 0)
            self.curl.setopt(pycurl.SSL_VERIFYHOST, 0)
        if endpoint.certificate:
            self.curl.setopt(pycurl.SSLCERT_BLOB, endpoint.certificate[0])
            self.curl.setopt(pycurl.SSLKEY_BLOB, endpoint.certificate[1])

    def _buffer_piece(self, chunk: bytes) -> int | None:
        self._body += chunk
        self._is_cut = len(self._body) > self._bytes_left
        return 0 if self._is_cut else None

    async def read_part(self, name: str, start: int, max_bytes: int) -> bytes:
        doing = f"read gs://{self._bucket}/{name}"
        url = f"{self._objects_url}/{quote(name, safe='')}?alt=media"
        end, pause, refused = time.monotonic() + OBJECT_RETRY_SECONDS, FIRST_PAUSE, ""
        while True:
            token, headers = await self._login.headers(refused)
            self.curl.setopt(pycurl.URL, url)
            self.curl.setopt(pycurl.HTTPHEADER, [*headers, f"Range: bytes={start}-{start + max_bytes - 1}"])
            failure = await self._send_request(max(max_bytes, MAX_ERROR_BYTES), doing)
            status = 0 if failure else self.curl.getinfo(pycurl.RESPONSE_CODE)
            if status in (_OK, _PARTIAL):
                return self._content(status, start, max_bytes, doing)
            if status in (_NOT_THERE, _NO_SUCH_RANGE):
                return b""
            if status == _UNAUTHORIZED and not refused:
                refused = token
                continue
            if (status and status not in _RETRIED_STATUSES) or time.monotonic() + pause > end:
                raise failure or _refusal_error(status, bytes(self._body), doing)
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, MAX_PAUSE)

    async def _send_request(self, byte_limit: int, action: str) -> Unreachable | None:
        """Send the request; returns a failure that is worth a retry, raises Unreachable for any other."""
        self._body.clear()
        self._bytes_left, self._is_cut = byte_limit, False
        try:
            await self._connections.perform(self.curl)
        except pycurl.error as error:
            if self._is_cut:
                return None  # more came than was asked for
            if error.args[0] in _FINAL_CURL_ERRORS:
                words = f"Could not {action}: the certificate of Cloud Storage is not accepted ({error.args[1]})."
                raise Unreachable(
                    words, "Is there a proxy in between? REQUESTS_CA_BUNDLE names its authority."
                ) from error
            failure = Unreachable(f"Could not {action}: Cloud Storage does not answer.", TRY_AGAIN)
            failure.__cause__ = error
            return failure
        return None

    def _content(self, status: int, start: int, max_bytes: int, action: str) -> bytes:
        if status == _PARTIAL:
            return bytes(self._body[:max_bytes])
        if self._is_cut and start:
            raise Unreadable(f"Could not {action}: Cloud Storage gives no parts of it.")
        return bytes(self._body[start : start + max_bytes])


def _refusal_error(status: int, body: bytes, action: str) -> ConsoleError:
    """The error for a failed response, by its JSON, XML or text body."""
    text = body.decode(errors="replace")
    try:
        message = str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        message = " ".join(_XML_TAG.sub(" ", text[:2000]).split())[:300]
    return google_error(from_http_status(status, message or "unknown error"), action)  # type: ignore[no-untyped-call]
