"""A lying API server before an honest one: it passes everything on, but for what the flood of the moment is about.

`python -m tests.hostile.lying_api KUBECONFIG FOLDER` serves in a process of its own: it prints the kubeconfig that
leads to it, and takes the names of floods (or an empty line for none) on its standard input. A new flood is a row of
`FLOODS`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from console.attach.ssh.pod_keys import SSHD_PORT as SSHD
from console.kube.exec import PROTOCOLS, STATUS, STDERR, STDOUT
from console.kube.kubeconfig import load
from console.kube.login import Login
from console.kube.port_forward import PROTOCOL
from tests.certificates import usual_certificate

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Pieces = Callable[[], AsyncIterator[bytes]]

MUCH = 1 << 16
MIB = 1 << 20
PHASES = ("Pending", "Running")
DRIP = 0.1
"""Seconds between two pieces of what drips."""
LIST_START = b'{"metadata": {"resourceVersion": "1"}, "items": ['
_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length", "content-encoding"}


async def repeated(piece: bytes) -> AsyncIterator[bytes]:
    """The same for ever, as fast as it is taken."""
    while True:
        yield piece


async def at_once(piece: bytes, times: int) -> AsyncIterator[bytes]:
    """The same so often, and no more."""
    for _ in range(times):
        yield piece


async def dripping(piece: bytes) -> AsyncIterator[bytes]:
    """The same for ever, slowly."""
    while True:
        yield piece
        await asyncio.sleep(DRIP)


async def silence() -> AsyncIterator[bytes]:
    """Nothing for ever."""
    await asyncio.Event().wait()
    yield b""


def gone(request: web.Request) -> bool:
    """Whether the client has closed its side: what is written then only warns."""
    return request.transport is None or request.transport.is_closing()


def command(
    pieces: Pieces, channel: int = STDOUT, *, protocols: Sequence[str] = PROTOCOLS, before: Sequence[bytes] = ()
) -> Answer:
    """A command in a pod that prints this."""

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        for each in before:
            await socket.send_bytes(each)

        async def send() -> None:
            with suppress(ConnectionError):
                async for piece in pieces():
                    if gone(request):
                        return
                    await socket.send_bytes(bytes([channel]) + piece)
                    await asyncio.sleep(0)
                await socket.send_bytes(bytes([STATUS]) + b'{"status": "Success"}')
                await socket.close()

        sending = asyncio.create_task(send())
        with suppress(ConnectionError):
            async for _ in socket:  # until the client goes
                pass
        sending.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await sending
        return socket

    return answer


def port(pieces: Pieces) -> Answer:
    """A port of a pod at which this comes."""
    begin = [bytes([channel]) + SSHD.to_bytes(2, "little") for channel in (0, 1)]
    return command(pieces, 0, protocols=(PROTOCOL,), before=begin)


def body(pieces: Pieces, start: bytes = b"", *, status: int = 200) -> Answer:
    """An answer of these pieces."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ConnectionError):
            await response.write(start)
            async for piece in pieces():
                if gone(request):
                    break
                await response.write(piece)
                await asyncio.sleep(0)
        return response

    return answer


def refused(message: str) -> Answer:
    """403 in these words."""
    told = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(told, status=403)

    return answer


def watched(line: Callable[[int], dict[str, Any]], *, pause: float = 0.0) -> Answer:
    """A watch that tells of one change after the other."""

    async def lines() -> AsyncIterator[bytes]:
        number = 0
        while True:
            yield b"".join(json.dumps(line(number + each)).encode() + b"\n" for each in range(20))
            number += 20
            await asyncio.sleep(pause)

    return body(lines)


def pages_without_end(**said: Any) -> Answer:
    """A list whose every page names another, `said` of it."""
    number = 0

    async def answer(_: web.Request) -> web.StreamResponse:
        nonlocal number
        number += 1
        items = [pod(f"p{number}-{each}") for each in range(500)]
        meta = {"resourceVersion": "1", "continue": f"more-{number}", **said}
        return web.json_response({"metadata": meta, "items": items})

    return answer


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that says little."""
    return {"metadata": {"name": name, "namespace": "default", "uid": name, **metadata}, "spec": {"containers": []}}


def listed(kind: str, thing: Callable[[int], dict[str, Any]], number: int) -> Flood:
    """A list of so many objects of a kind, and no more."""

    async def pieces() -> AsyncIterator[bytes]:
        for each in range(number):
            yield (b"," if each else b"") + json.dumps(thing(each)).encode()
        yield b"]}"

    return Flood(lists(kind), body(pieces, LIST_START))


def named(name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, **metadata}, "spec": spec or {}}


def podset(number: int) -> dict[str, Any]:
    return {"name": f"s{number}", "count": 1, "template": {"spec": {"containers": []}}}


def event(number: int, size: int, of: int = 1000) -> dict[str, Any]:
    """One of so many events, with a message of that size."""
    return {
        "type": "ADDED",
        "object": {
            "metadata": {"name": f"e{number % of}", "namespace": "default", "resourceVersion": str(10**9 + number)},
            "involvedObject": {"kind": "Pod", "name": f"p{number}", "namespace": "default"},
            "type": "Warning", "reason": "BackOff", "message": f"{number} " + "x" * size,
        },
    }  # fmt: skip


def change(number: int, of: int) -> dict[str, Any]:
    """A pod of so many that is new, or another than before."""
    return {"type": "MODIFIED", "object": pod(f"p{number % of}", resourceVersion=str(10**9 + number))}


@dataclass(frozen=True, slots=True)
class Flood:
    """What is answered to which requests."""

    about: Callable[[web.Request], bool]
    answer: Answer


def execs(request: web.Request) -> bool:
    return request.path.endswith("/exec")


def forwards(request: web.Request) -> bool:
    return request.path.endswith("/portforward")


def logs(request: web.Request) -> bool:
    return request.path.endswith("/log")


def _collection(request: web.Request, kind: str) -> bool:
    last = request.path.rsplit("/", 1)[1]
    return request.method == "GET" and (last == kind if kind else last in {"pods", "jobsets", "nodes", "workloads"})


def lists(kind: str = "") -> Callable[[web.Request], bool]:
    return lambda request: _collection(request, kind) and "watch" not in request.query


def watches(kind: str = "") -> Callable[[web.Request], bool]:
    return lambda request: _collection(request, kind) and "watch" in request.query


TEXT = b"0123456789abcdef" * (MUCH // 16)
LOG_LINES = b"".join(
    b"2026-11-22T12:00:00.000000%03dZ step %d loss 1.25 a line of a log\n" % (n, n) for n in range(900)
)
ENTRY = b"f|1|644|1763812800|./a name of a file\0\0"
"""As the listings of a copy have it."""
GPUS = (
    b"a4-counters 12.5\nindex, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    b"temperature.gpu, power.draw [W], power.limit [W], clocks.current.sm [MHz], clocks.max.sm [MHz], "
    b"ecc.errors.uncorrected.volatile.total\n"
) + b"".join(
    b"%d, NVIDIA B200, 00000000:8F:00.0, 97, 150000, 183359, 54, 900.00, 1000.00, 1965, 1965, 0\n" % number
    for number in range(8)
)
STAMP = b"2026-11-22T12:00:00.000000000Z "
FLOODS: dict[str, Flood] = {
    "exec: lines without end": Flood(execs, command(lambda: repeated(b"all the same words\n" * 3000))),
    "exec: a line without end": Flood(execs, command(lambda: repeated(TEXT))),
    "exec: errors without end": Flood(execs, command(lambda: repeated(b"all the same words\n" * 3000), STDERR)),
    "exec: bytes one by one": Flood(execs, command(lambda: repeated(b"x"))),
    "exec: a drip without end": Flood(execs, command(lambda: dripping(b"word\n"))),
    "exec: entries without end": Flood(execs, command(lambda: repeated(ENTRY * 2000))),
    "exec: a folder of 800,000 entries": Flood(execs, command(lambda: at_once(ENTRY * 2000, 400))),
    "exec: readings of GPUs without end": Flood(execs, command(lambda: repeated(GPUS * 20))),
    "exec: silence": Flood(execs, command(silence)),
    "exec: refused": Flood(execs, refused('pods "p" is forbidden: User "anna" cannot get resource "pods/exec"')),
    "port: a banner without end": Flood(forwards, port(lambda: repeated(b"SSH-2.0-" + TEXT))),
    "port: lines without end": Flood(forwards, port(lambda: repeated(b"all the same words\r\n" * 3000))),
    "port: a drip without end": Flood(forwards, port(lambda: dripping(b"word\r\n"))),
    "port: silence": Flood(forwards, port(silence)),
    "log: lines without end": Flood(logs, body(lambda: repeated(LOG_LINES))),
    "log: a line without end": Flood(logs, body(lambda: repeated(TEXT), STAMP)),
    "log: long lines without end": Flood(logs, body(lambda: repeated(STAMP + b"eyJaaaaaaaa-" * 80_000 + b"\n"))),
    "log: a drip without end": Flood(logs, body(lambda: dripping(b"x"), STAMP)),
    "log: silence": Flood(logs, body(silence)),
    "list: items without end": Flood(
        lists("pods"), body(lambda: repeated(json.dumps(pod("p")).encode() + b","), LIST_START)
    ),
    "list: all kinds without end": Flood(lists(), body(lambda: repeated(TEXT), LIST_START + b'{"kind": "')),
    "list: pages without end": Flood(lists("pods"), pages_without_end()),
    "list: pages without end, with as many to come as before": Flood(
        lists("pods"), pages_without_end(remainingItemCount=100_000)
    ),
    "list: a page that is its own next": Flood(lists("pods"), pages_without_end(**{"continue": "more"})),
    "list: a refusal without end": Flood(lists(), body(lambda: repeated(TEXT), status=403)),
    "list: a failure without end": Flood(lists(), body(lambda: repeated(TEXT), status=500)),
    "list: a drip without end": Flood(lists(), body(lambda: dripping(b" "), LIST_START)),
    "list: a refusal that drips": Flood(lists(), body(lambda: dripping(b" "), status=403)),
    "list: silence": Flood(lists(), body(silence)),
    "list: 20,000 Workloads of 64 podsets": listed(
        "workloads", lambda n: named(f"w{n}", {"podSets": [podset(each) for each in range(64)]}), 20_000
    ),
    "list: pods of 5,000 namespaces": listed("pods", lambda n: pod(f"p{n}", namespace=f"n{n}"), 5000),
    "list: annotations of 1 MiB": listed("pods", lambda n: pod(f"p{n}", annotations={"a": "x" * (1 << 20)}), 200),
    "list: managedFields of 1 MiB": listed("pods", lambda n: pod(f"p{n}", managedFields=[{"a": "x" * MIB}]), 200),
    "list: names of 253 characters": listed("pods", lambda n: pod(f"{n:0253}"), 5000),
    "list: 1,000 containers a pod": listed(
        "pods", lambda n: {**pod(f"p{n}"), "spec": {"containers": [{"name": f"c{m}"} for m in range(1000)]}}, 500
    ),
    "list: 10,000 conditions": listed(
        "jobsets",
        lambda n: {**named(f"j{n}"), "status": {"conditions": [{"type": f"t{m}"} for m in range(10_000)]}},
        20,
    ),
    "list: 1,000 labels a node": listed(
        "nodes", lambda n: named(f"n{n}", labels={f"l{each}": "x" * 60 for each in range(1000)}), 500
    ),
    "list: owners in a circle": listed(
        "pods",
        lambda n: pod(f"p{n}", ownerReferences=[{"kind": "Pod", "name": (to := f"p{(n + 1) % 5000}"), "uid": to}]),
        5000,
    ),
    "list: a topology of 100,000 domains": listed(
        "nodes", lambda n: named(f"n{n}", labels={"cloud.google.com/gce-topology-block": f"b{n}"}), 100_000
    ),
    "list: 500 Secrets of 1 MiB": listed("secrets", lambda n: {**named(f"s{n}"), "data": {"release": "x" * MIB}}, 500),
    "list: 5,000 ResourceQuotas": listed("resourcequotas", lambda n: named(f"q{n}"), 5000),
    "list: one byte at a time": Flood(lists("pods"), body(lambda: repeated(b" "), LIST_START)),
    "watch: an event that changes 10,000 times a second": Flood(
        watches("events"), watched(lambda number: event(number, 100, 1), pause=0.002)
    ),
    "watch: phases that flip 200 times a second": Flood(
        watches("pods"),
        watched(
            lambda n: {"type": "MODIFIED", "object": {**pod(f"p{n % 100}"), "status": {"phase": PHASES[n % 2]}}},
            pause=0.1,
        ),
    ),
    "watch: bookmarks 10,000 times a second": Flood(
        watches(),
        watched(lambda n: {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": f"{n}"}}}, pause=0.002),
    ),
    "log: one line of 100 MB": Flood(logs, body(lambda: at_once(TEXT, 1600), STAMP)),
    "log: carriage returns alone": Flood(logs, body(lambda: repeated(b"\r" * MUCH), STAMP)),
    "log: colours alone": Flood(logs, body(lambda: repeated(STAMP + b"\x1b[31m" * 2000 + b"\n"))),
    "log: words of secrets alone": Flood(logs, body(lambda: repeated(STAMP + b"token: wandb: curl " * 1600 + b"\n"))),
    "watch: changes without end": Flood(watches("pods"), watched(lambda number: change(number, 1000))),
    "watch: pods without end": Flood(watches("pods"), watched(lambda number: change(number, 10**9))),
    "watch: a line without end": Flood(watches(), body(lambda: repeated(TEXT), b'{"type": "')),
    "watch: a drip without end": Flood(watches(), body(lambda: dripping(b" "))),
    "watch: events without end": Flood(watches("events"), watched(lambda number: event(number, 100, 10**9))),
    "watch: events with messages of 1 MB": Flood(watches("events"), watched(lambda number: event(number, 1 << 20))),
}  # fmt: skip
"""By what is asked and what comes."""


class LyingApi:
    """Serves between `async with` and its end; `flood` is what it lies about, empty for nothing."""

    def __init__(self, kubeconfig: Path) -> None:
        self._target = load(kubeconfig).target()
        self._honest = Login(self._target)
        self._content = yaml.safe_load(kubeconfig.read_text())
        self.flood = ""
        self.port = 0

    async def __aenter__(self) -> LyingApi:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _start(self) -> None:
        self._tls = await self._honest.tls()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls or True),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=["Accept-Encoding"],
        )
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        tls, self._authority = usual_certificate()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]

    def kubeconfig(self, folder: Path) -> Path:
        """The honest server's, but leading here."""
        authority = base64.b64encode(self._authority.encode()).decode()
        for each in self._content["clusters"]:
            kept = {name: value for name, value in each["cluster"].items() if name == "extensions"}
            server = f"https://127.0.0.1:{self.port}"
            each["cluster"] = {**kept, "server": server, "certificate-authority-data": authority}
        path = folder / "lying.kubeconfig"
        path.write_text(yaml.safe_dump(self._content))
        return path

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        flood = FLOODS.get(self.flood)
        if flood and flood.about(request):
            return await flood.answer(request)
        if "upgrade" in request.headers.get("Connection", "").lower():
            return await self._relay_socket(request)
        return await self._relay(request)

    def _url(self, request: web.Request) -> str:
        return f"{self._honest.server}{request.raw_path}"

    def _headers(self, request: web.Request) -> list[tuple[str, str]]:
        return [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in _HOP and not name.lower().startswith("sec-websocket")
        ]

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        from yarl import URL

        url = URL(self._url(request), encoded=True)
        data = await request.read()
        async with self._session.request(
            request.method, url, headers=self._headers(request), data=data or None, allow_redirects=False
        ) as honest:
            kept = [(name, value) for name, value in honest.headers.items() if name.lower() not in _HOP]
            if encoding := honest.headers.get("Content-Encoding"):
                kept.append(("Content-Encoding", encoding))
            response = web.StreamResponse(status=honest.status)
            for name, value in kept:
                response.headers.add(name, value)
            await response.prepare(request)
            with suppress(ConnectionError, aiohttp.ClientError):
                async for piece in honest.content.iter_any():
                    await response.write(piece)
            return response

    async def _relay_socket(self, request: web.Request) -> web.StreamResponse:
        from yarl import URL

        offered = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if each]
        async with self._session.ws_connect(
            URL(self._url(request), encoded=True), protocols=offered, headers=self._headers(request), max_msg_size=0
        ) as honest:
            near = web.WebSocketResponse(protocols=[honest.protocol] if honest.protocol else [], max_msg_size=0)
            await near.prepare(request)

            async def there() -> None:
                async for message in near:
                    await honest.send_bytes(message.data)

            going = asyncio.create_task(there())
            with suppress(ConnectionError):
                async for message in honest:
                    await (near.send_bytes if message.type is aiohttp.WSMsgType.BINARY else near.send_str)(message.data)
            await near.close()
            going.cancel()
            with suppress(asyncio.CancelledError, ConnectionError, aiohttp.ClientError):
                await going
            return near


@asynccontextmanager
async def _lines() -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    yield reader


async def _serve(kubeconfig: Path, folder: Path) -> None:
    async with LyingApi(kubeconfig) as server, _lines() as lines:
        sys.stdout.write(f"{server.kubeconfig(folder)}\n")
        sys.stdout.flush()
        while line := await lines.readline():
            server.flood = line.decode().strip()
            sys.stdout.write(f"{server.flood}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
