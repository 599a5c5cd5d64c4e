"""An API server of many nodes and pods without etcd: lists by page and watches over TLS, as the real one answers.

`python -m tests.bench.scale_server NODES PODS` prints the path of a kubeconfig that reaches it. Its pods are those of
tests/fixtures/api/pods.json, recorded from a real API server, under other names, as its JobSets, workloads and queues
are; its nodes are those of the lab.
Lines on its standard input change it: `churn RATE` (pods changed in a second), `cut N` (the N-th page of pods from now
on breaks off in the middle), `expire N` (the N-th is answered with 410, as after compaction).
"""

import asyncio
import json
import ssl
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.certificates import make_certificate
from tests.kubeconfigs import write_kubeconfig
from tests.lab.machines import Pool

JOB_PODS = 64
WAITING = 250
"""Jobs without pods, in the queue."""
NAMESPACES = 8
POOL = "a4-bulk"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "api"
JOB_UID = "53f93d1b-b2b7-476c-b07d-%012d"
GROUPS = {
    "jobset.x-k8s.io": ("v1alpha2", ("jobsets",)),
    "kueue.x-k8s.io": (
        "v1beta2",
        ("clusterqueues", "localqueues", "workloads", "resourceflavors", "topologies", "cohorts", "admissionchecks"),
    ),
}
STAMP = "2026-11-21T07:30:20Z"


class Fleet:
    """What the server holds, written out as JSON only when it is asked for."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.version = 1_000_000
        self.pods = pods
        self.node_bytes = [_node_bytes(each) for each in Pool(POOL, nodes, per_block=64, per_subblock=16).nodes()]
        self.node_names = [f"gke-lab-a4-bulk-{number:04d}" for number in range(nodes)]
        self._template, self._fields = _pod_template()
        self._order = sorted(range(pods), key=_pod_key)
        running = pods // JOB_PODS
        self.others = {kind: _of_jobs(kind, running) for kind in ("jobsets", "workloads")}
        self.others |= {
            kind: _queues(kind) for kind in ("clusterqueues", "localqueues", "resourceflavors", "topologies")
        }

    def pod(self, number: int, version: int) -> bytes:
        """The JSON of one pod."""
        job, rank = divmod(number, JOB_PODS)
        values = {
            **dict(zip(("NAMESPACE", "NAME"), _pod_key(number), strict=True)),
            "UID": f"0905c5af-9f6c-4d31-ad8f-{number:012d}",
            "VERSION": str(version),
            "JOBSET": f"train-{job:04d}",
            "JOBUID": JOB_UID % job,
            "INDEX": str(rank),
            "NODE": self.node_names[number % len(self.node_names)],
            "ADDRESS": f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",
        }
        return self._template % tuple(values[name].encode() for name in self._fields)

    def page(self, kind: str, start: int, limit: int) -> tuple[bytes, int, int]:
        """The items of a page, where it ends, and how many there are in all."""
        if kind == "pods":
            end = min(self.pods, start + limit) if limit else self.pods
            items = [self.pod(number, 1000) for number in self._order[start:end]]
            return b",".join(items), end, self.pods
        known = self.node_bytes if kind == "nodes" else self.others.get(kind, [])
        end = min(len(known), start + limit) if limit else len(known)
        return b",".join(known[start:end]), end, len(known)


def _pod_key(number: int) -> tuple[str, str]:
    """Namespace and name of a pod: the order in which etcd has them, and lists give them."""
    job, rank = divmod(number, JOB_PODS)
    return f"team-{job % NAMESPACES}", f"train-{job:04d}-workers-0-{rank}-{number:06d}"


def _pod_template() -> tuple[bytes, list[str]]:
    """A pod as recorded, with places for what differs, and the names of these places in their order."""
    pod = _recorded("pods")[0]
    metadata = pod["metadata"]
    metadata |= {"name": "@NAME@", "namespace": "@NAMESPACE@", "uid": "@UID@", "resourceVersion": "@VERSION@"}
    metadata["labels"] |= {
        "jobset.sigs.k8s.io/jobset-name": "@JOBSET@",
        "jobset.sigs.k8s.io/jobset-uid": "@JOBUID@",
        "batch.kubernetes.io/job-completion-index": "@INDEX@",
    }
    pod["spec"]["nodeName"] = "@NODE@"
    pod["status"] |= {"podIP": "@ADDRESS@", "podIPs": [{"ip": "@ADDRESS@"}]}
    text = json.dumps(pod, separators=(",", ":")).replace("%", "%%")
    parts = text.split("@")
    return "%s".join(parts[::2]).encode(), parts[1::2]


def _recorded(kind: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads((FIXTURES / f"{kind}.json").read_text())["items"]
    return items


def _of_jobs(kind: str, running: int) -> list[bytes]:
    """A JobSet or workload of each job: those recorded, of which the first waits and the second runs."""
    waits, runs = map(json.dumps, _recorded("jobsets" if kind == "jobsets" else "workloads-v1beta2"))
    found = []
    for job in range(running + WAITING):
        text, name, uid = (runs, "train", "53f93d1b-b2b7-476c-b07d-3d1563d6e518")
        if job >= running:
            text, name, uid = waits, "big", "e814cbd9-1c8e-4e49-95be-84b0d98f4c92"
        text = text.replace(uid, JOB_UID % job).replace(f'"{name}"', f'"train-{job:04d}"')
        made = json.loads(text.replace(f"jobset-{name}-", f"jobset-train-{job:04d}-"))
        made["metadata"] |= {"namespace": f"team-{job % NAMESPACES}", "resourceVersion": "900"}
        if kind == "workloads":
            made["metadata"]["uid"] = f"workload-{job:04d}"
        found.append(_sized(json.dumps(made, separators=(",", ":"))).encode())
    return found


def _sized(text: str) -> str:
    """The job of two pods with as many as there are of each here."""
    for old, new in (('"completions":2', "completions"), ('"parallelism":2', "parallelism"), ('"count":2', "count")):
        text = text.replace(old, f'"{new}":{JOB_PODS}')
    return text.replace('"nvidia.com/gpu":"16"', f'"nvidia.com/gpu":"{8 * JOB_PODS}"')


def _queues(kind: str) -> list[bytes]:
    """Those recorded, on the machines and in the namespaces there are here."""
    items = _recorded(f"{kind}-v1beta2")
    if kind == "localqueues":
        items = [{**each, "metadata": {**each["metadata"], "namespace": f"team-{number}"}}
                 for each in items for number in range(NAMESPACES)]  # fmt: skip
    texts = (json.dumps(each).replace("a4-reserved", POOL) for each in items)
    return [each.replace('"nominalQuota": "96"', '"nominalQuota": "2000000"').encode() for each in texts]


def _node_bytes(node: dict[str, Any]) -> bytes:
    metadata = node["metadata"]
    metadata |= {"uid": f"node-{metadata['name']}", "resourceVersion": "900", "creationTimestamp": STAMP}
    node["status"]["conditions"] = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
         "lastHeartbeatTime": STAMP, "lastTransitionTime": STAMP}
    ]  # fmt: skip
    return json.dumps(node, separators=(",", ":")).encode()


class Server:
    """Answers requests of HTTP/1.1 over TLS."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.cut = self.expire = 0
        """Pages of pods until one breaks off, or is answered with 410; 0: none."""
        self._watches: set[asyncio.StreamWriter] = set()
        self._rate = 0.0

    async def serve(self, tls: ssl.SSLContext) -> int:
        """Listen; returns the port."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, ssl=tls)
        return int(server.sockets[0].getsockname()[1])

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                length = next((int(line[15:]) for line in head if line.lower().startswith("content-length:")), 0)
                await reader.readexactly(length)
                verb, target, _ = head[0].split(" ", 2)
                if not await self._answer(verb, target, writer):
                    break
        self._watches.discard(writer)
        writer.close()

    async def _answer(self, verb: str, target: str, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        known = self._discovery(url.path) if verb == "GET" else {"status": {"allowed": True}}
        if known is not None:
            await self._send(writer, json.dumps(known).encode())
            return True
        kind = url.path.rsplit("/", 1)[-1]
        if query.get("watch"):
            await self._watch(kind, writer)
            return False
        return await self._list(kind, query, writer)

    def _discovery(self, path: str) -> dict[str, Any] | None:
        if path == "/version":
            return {"gitVersion": "v1.36.4", "major": "1", "minor": "36"}
        if path == "/apis":
            return {"groups": [
                {"name": name, "versions": [{"groupVersion": f"{name}/{version}", "version": version}],
                 "preferredVersion": {"groupVersion": f"{name}/{version}", "version": version}}
                for name, (version, _) in GROUPS.items()
            ]}  # fmt: skip
        parts = path.strip("/").split("/")
        if len(parts) == 3 and parts[0] == "apis" and parts[1] in GROUPS:
            return {"resources": [{"name": each, "namespaced": True} for each in GROUPS[parts[1]][1]]}
        return None

    async def _list(self, kind: str, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        start = int(unquote(query.get("continue", "")) or 0)
        if kind == "pods":
            self.expire = max(0, self.expire - 1) if self.expire != 1 else -1
            self.cut = max(0, self.cut - 1) if self.cut != 1 else -1
        if kind == "pods" and self.expire == -1:
            self.expire = 0
            message = "The provided continue parameter is too old to display a consistent list result."
            gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": message}
            await self._send(writer, json.dumps(gone).encode(), "410 Gone")
            return True
        items, end, of = self.fleet.page(kind, start, int(query.get("limit", 0)))
        following = {"continue": str(end), "remainingItemCount": of - end} if end < of else {}
        metadata = {"resourceVersion": str(self.fleet.version)} | following
        body = b'{"kind":"List","apiVersion":"v1","metadata":%s,"items":[%s]}' % (json.dumps(metadata).encode(), items)
        if kind == "pods" and self.cut == -1:
            self.cut = 0
            writer.write(_head(len(body)) + body[: len(body) // 2])
            await writer.drain()
            return False
        await self._send(writer, body)
        return True

    async def _send(self, writer: asyncio.StreamWriter, body: bytes, status: str = "200 OK") -> None:
        writer.write(_head(len(body), status))
        writer.write(body)
        await writer.drain()

    async def _watch(self, kind: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        await writer.drain()
        if kind == "pods":
            self._watches.add(writer)
        while not writer.is_closing():
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.fleet.version)}}}
            _chunk(writer, json.dumps(bookmark).encode() + b"\n")
            await writer.drain()
            await asyncio.sleep(50)

    async def churn(self) -> None:
        """Change pods at the rate that is asked for, ten times a second."""
        number, owed = 0, 0.0
        while True:
            await asyncio.sleep(0.1)
            owed += self._rate / 10
            events = []
            for _ in range(int(owed)):
                number = (number + 7919) % self.fleet.pods
                self.fleet.version += 1
                pod = self.fleet.pod(number, self.fleet.version)
                events.append(b'{"type":"MODIFIED","object":%s}\n' % pod)
            owed %= 1
            for writer in tuple(self._watches) if events else ():
                if not writer.is_closing():
                    _chunk(writer, b"".join(events))

    async def obey(self) -> None:
        """Take the lines of standard input until it ends."""
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := (await lines.readline()).decode().split():
            what, value = line
            if what == "churn":
                self._rate = float(value)
            elif what == "cut":
                self.cut = int(value)
            elif what == "expire":
                self.expire = int(value)
            sys.stdout.write("done\n")
            sys.stdout.flush()


def _head(length: int, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def run(nodes: int, pods: int) -> None:
    """Serve until standard input ends."""
    with tempfile.TemporaryDirectory() as folder:
        tls, authority = make_certificate(Path(folder), days=1)
        server = Server(Fleet(nodes, pods))
        port = await server.serve(tls)
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
        kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", cluster, {"token": "anna"}, who="anna")
        sys.stdout.write(f"{kubeconfig}\n")
        sys.stdout.flush()
        changing = asyncio.create_task(server.churn())
        await server.obey()
        changing.cancel()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
