"""Thousands of nodes and pods in seconds, for benchmarks: written into etcd as the API server would store them.

Through the API ten thousand pods take minutes. One pod and one node pass the API server as a dry run, which fills in
every default; the rest are copies of those with names, uids, hosts and addresses of their own.
"""

import base64
import http.client
import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.lab.control_plane import Lab
from tests.lab.machines import Object, Pool
from tests.lab.podlogs import BULK

POD_BYTES = 9_900
"""Of a pod as JSON: what pods of A4 recipes measure."""
GPUS = 8
"""Of a node: its first pods take one each, the others none."""
NAMESPACES = 8
JOB_PODS = 64
"""Pods that share one JobSet name: 8 hosts' worth of a medium job."""
DAEMONS = 9
PADDING = "example.com/padding"
BATCH = 100
"""Objects a transaction; etcd takes 128 operations."""
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


class Bulk:
    """Fills one lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def fill(self, nodes: int, pods: int, *, daemons: bool = False) -> None:
        """`daemons`: as on a cluster of GKE, where each node has a pod with GPUs, and the others are of DaemonSets."""
        pool = Pool("a4-bulk", max(nodes, 1), per_block=64, per_subblock=16, first_block=100)
        made = list(pool.nodes())
        if nodes:
            self._put("minions", self._nodes(made))
        if pods:
            for number in range(NAMESPACES):
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}}
                self.lab.api.request("POST", "/api/v1/namespaces", namespace)
            self._put("pods", self._daemons(made, pods) if daemons else self._pods(made, pods))
        self.lab.kubectl("get", "pods", "-A", "-o", "name")  # waits until the server has seen all that is in its etcd
        self.lab.say(f"{nodes} nodes and {pods} pods more")

    def _nodes(self, made: list[Object]) -> Iterator[Object]:
        first = self.lab.api.request("POST", "/api/v1/nodes?dryRun=All", made[0])
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady",
                 "message": "kubelet is posting ready status",
                 "lastHeartbeatTime": _created(first), "lastTransitionTime": _created(first)}  # fmt: skip
        endpoint = {"kubeletEndpoint": {"Port": self.lab.ports.kubelet}}
        for node in made:
            metadata = {**_identity(first), **node["metadata"]}
            status = {**node["status"], "conditions": [ready], "daemonEndpoints": endpoint, "phase": "Running"}
            yield {**node, "metadata": metadata, "status": status}

    def _pods(self, nodes: list[Object], count: int, gpus: int = 1) -> Iterator[Object]:
        """`gpus`: of each pod that has any."""
        first = self.lab.api.request("POST", "/api/v1/namespaces/team-0/pods?dryRun=All", _pod(gpus=gpus))
        idle = self.lab.api.request("POST", "/api/v1/namespaces/team-0/pods?dryRun=All", _pod(gpus=0))
        stamp = _created(first)
        state = {"running": {"startedAt": stamp}}
        container = {"name": "trainer", "image": "trainer:1", "imageID": f"sha256:{'0' * 64}", "state": state}
        containers = [{**container, "ready": True, "started": True, "restartCount": 0}]
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": stamp} for kind in CONDITIONS]
        for number in range(count):
            node = nodes[number % len(nodes)]
            job, rank = divmod(number, JOB_PODS)
            name = f"train-{job:04d}-workers-0-{rank}-{number:05d}"
            labels = {**first["metadata"]["labels"], "jobset.sigs.k8s.io/jobset-name": f"train-{job:04d}",
                      "batch.kubernetes.io/job-completion-index": str(rank)}  # fmt: skip
            metadata = {**first["metadata"], **_identity(first), "name": name, "labels": labels,
                        "namespace": f"team-{job % NAMESPACES}"}  # fmt: skip
            address = f"10.{128 + number // 65536}.{number // 256 % 256}.{number % 256}"
            status = {"phase": "Running", "startTime": stamp, "conditions": conditions, "containerStatuses": containers,
                      "hostIP": node["status"]["addresses"][0]["address"], "podIP": address,
                      "podIPs": [{"ip": address}], "qosClass": "Burstable"}  # fmt: skip
            model = first if number < GPUS // gpus * len(nodes) else idle
            spec = {**model["spec"], "nodeName": node["metadata"]["name"]}
            yield _padded({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})

    def _daemons(self, nodes: list[Object], count: int) -> Iterator[Object]:
        """A pod of a job on each node, then those of DaemonSets, which want no GPU and no node of the lab."""
        revisions = self._daemon_sets(DAEMONS)
        for number, pod in enumerate(self._pods(nodes, count, GPUS)):
            if number >= len(nodes):
                revision = {"controller-revision-hash": revisions[number // len(nodes) % DAEMONS]}
                pod["metadata"] |= {"labels": {BULK: "true", **revision}, "namespace": "kube-system"}
            yield pod

    def _daemon_sets(self, number: int) -> list[str]:
        """Make them; the hashes of their revisions."""
        template = _pod(gpus=0)["spec"] | {"nodeSelector": {"nowhere": "true"}, "restartPolicy": "Always"}
        for each in range(number):
            labels = {"daemon": f"{each}"}
            spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": template}}
            made = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": f"daemon-{each}"}, "spec": spec}
            self.lab.api.request("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", made)
        deadline = time.monotonic() + 60
        while True:
            found = self.lab.api.request("GET", "/apis/apps/v1/namespaces/kube-system/controllerrevisions")["items"]
            if len(found) >= number or time.monotonic() > deadline:
                return [each["metadata"]["labels"]["controller-revision-hash"] for each in found]

    def _put(self, resource: str, objects: Iterator[Object]) -> None:
        """Store them, a transaction of many at a time, over the JSON gateway of etcd."""
        encoded = [(_key(resource, each["metadata"]), json.dumps(each).encode()) for each in objects]
        batches = [encoded[start : start + BATCH] for start in range(0, len(encoded), BATCH)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._transaction, batches))

    def _transaction(self, batch: list[tuple[str, bytes]]) -> None:
        puts = [{"requestPut": {"key": _base64(key.encode()), "value": _base64(value)}} for key, value in batch]
        connection = http.client.HTTPConnection("127.0.0.1", self.lab.ports.etcd, timeout=60)
        connection.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise self.lab.processes.failure("etcd", f"refused a transaction ({text.decode(errors='replace')[:300]})")


def _padded(pod: Object) -> Object:
    missing = POD_BYTES - len(json.dumps(pod, separators=(",", ":")))
    annotations = {PADDING: "x" * max(0, missing)}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _key(resource: str, metadata: Object) -> str:
    return "/".join(part for part in ("/registry", resource, metadata.get("namespace"), metadata["name"]) if part)


def _created(item: Object) -> str:
    return str(item["metadata"]["creationTimestamp"])


def _identity(item: Object) -> Object:
    return {"uid": str(uuid.uuid4()), "creationTimestamp": _created(item)}


def _pod(gpus: int) -> Object:
    """A worker of a training job, of the size such pods have."""
    requests = {"cpu": "1", "memory": "8Gi"}
    resources: Object = {"requests": requests}
    if gpus:
        share = {"nvidia.com/gpu": str(gpus)}
        resources = {"requests": {**requests, **share}, "limits": share}
    environment = [{"name": f"NCCL_SETTING_{number:02d}", "value": "x" * 40} for number in range(8)]
    container = {
        "name": "trainer",
        "image": "us-docker.pkg.dev/example/training/trainer:1",
        "command": ["bash", "/launcher/launch.sh"],
        "env": environment,
        "resources": resources,
        "ports": [{"containerPort": 2222, "name": "ssh"}, {"containerPort": 29500, "name": "rendezvous"}],
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/data/{number}"} for number in range(12)],
    }
    volumes = [{"name": f"volume-{number}", "emptyDir": {"medium": "Memory"}} for number in range(12)]
    labels = {BULK: "true", "jobset.sigs.k8s.io/replicatedjob-name": "workers", "jobset.sigs.k8s.io/job-index": "0"}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bulk", "labels": labels, "annotations": {PADDING: ""}},
        "spec": {"containers": [container], "volumes": volumes, "restartPolicy": "Never",
                 "tolerations": [{"operator": "Exists"}]},
    }  # fmt: skip
    return pod
