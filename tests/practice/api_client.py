"""An API server with a runtime of a few lines, and a client to ask it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practice.api.authn import Account
from practice.api.server import ApiServer
from practice.objects import resources as kinds
from practice.objects.api_error import bad_request
from practice.objects.storage import Storage
from practice.runtime import Stdio
from tests.contract.client import Api, Object

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"


@dataclass
class Log:
    """Lines that a test adds."""

    lines: list[tuple[float, bytes]] = field(default_factory=list)
    ended: bool = False
    parts: set[int] = field(default_factory=set)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, *lines: bytes, at: float | None = None) -> None:
        self.lines += [(time.time() if at is None else at, line) for line in lines]
        self.more.set()

    def end(self) -> None:
        self.ended = True
        self.more.set()

    async def wait(self, seen_version: int) -> None:
        while len(self.lines) <= seen_version and not self.ended:
            self.more.clear()
            await self.more.wait()


class TinyRuntime:
    """One log for all containers; commands `echo`, `cat`, `exit N` and `size`; ports lead to this machine."""

    def __init__(self) -> None:
        self.output = Log()

    def log(self, namespace: str, pod: str, container: str, previous: bool) -> Log:
        if previous:
            raise bad_request(f'previous terminated container "{container}" in pod "{pod}" not found')
        return self.output

    async def exec(self, namespace: str, pod: str, container: str, argv: list[str], stdio: Stdio) -> int:
        write = stdio.write
        if argv[0] == "cat" and stdio.stdin is not None:
            while data := await stdio.stdin.read(1024):
                await write(1, data)
        elif argv[0] == "size":
            await write(1, repr(await stdio.sizes.get()).encode())
        elif argv[0] == "exit":
            await write(2, b"going")
            return int(argv[1])
        else:
            await write(1, " ".join(argv[1:]).encode())
        return 0

    async def dial(self, namespace: str, pod: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)


@dataclass(frozen=True, slots=True)
class ServedApi(Api):
    """Requests to a server of this process, and what it serves."""

    server: ApiServer
    storage: Storage
    runtime: TinyRuntime

    async def post(self, path: str, body: Object) -> Object:
        return (await self.create(path, body)).made


@asynccontextmanager
async def serving(tmp_path: Path, account: Account | None = None, **options: Any) -> AsyncIterator[ServedApi]:
    """A server with the namespace `default` and one running pod, `run`, of containers `main` and `side`."""
    storage, runtime = Storage(seed=1, window=options.pop("window", 1000)), TinyRuntime()
    storage.create(kinds.NAMESPACES, {"metadata": {"name": "default"}})
    running: list[Object] = [{"name": name, "ready": True, "state": {"running": {}}} for name in ("main", "side")]
    containers = [{"name": name, "image": "x"} for name in ("main", "side")]
    pod = {"metadata": {"name": "run"}, "spec": {"nodeName": "node", "containers": containers}}
    status = {"phase": "Running", "containerStatuses": running}
    storage.create(kinds.PODS, {**pod, "status": status}, keep_status=True)
    server = ApiServer(storage, runtime, **options)
    await server.start()
    try:
        if account is not None:
            server.add_account(account)
        async with Api.open(server.kubeconfig(tmp_path / "kubeconfig", account=account)) as api:
            yield ServedApi(api.http, api.login, server, storage, runtime)
    finally:
        await server.stop()


def config_map(name: str, data: dict[str, str] | None = None, **meta: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": data or {}}
