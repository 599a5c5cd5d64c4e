"""A namespace of one test, with queues, jobs and pods in it, and everything gone afterwards."""

import datetime
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from console.connection_settings import Settings
from console.session import Session
from tests.contract.client import MERGE_PATCH, Api, Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, LIMIT, POOL, Cluster, eventually
from tests.fakes import present

GPU = "nvidia.com/gpu"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"
BLOCK = "cloud.google.com/gce-topology-block"
VARIABLE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\bjobset-([a-z0-9-]+)-[0-9a-f]{5}\b"), r"jobset-\1-<hash>"),
    (re.compile(r"\b([a-z0-9-]+-workers-\d+-\d+)-[a-z0-9]{5}\b"), r"\1-<random>"),
    (re.compile(r"\bwas \d+s\b"), "was <seconds>"),
)
"""What no two runs have in common."""


@dataclass(slots=True)
class Space:
    """What a test may make; `name` is the namespace and the prefix of everything that has none."""

    api: Api
    cluster: Cluster
    name: str
    queued: list[str] = field(default_factory=list)
    """Paths of the queues made, to be removed last first."""

    def path(self, base: str, kind: str, name: str = "") -> str:
        return f"{base}/namespaces/{self.name}/{kind}" + (f"/{name}" if name else "")

    def plain(self, text: str) -> str:
        """A message without what differs between two runs: the namespace, uids and random suffixes."""
        for pattern, replacement in VARIABLE:
            text = pattern.sub(replacement, text)
        return text.replace(f"{self.name}-", "").replace(self.name, "<namespace>")

    async def open(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        assert (await self.api.create(f"{CORE}/namespaces", namespace)).status == 201

    async def close(self) -> None:
        """Jobs first, then what admitted them: a queue with workloads does not go."""
        await self.api.delete(self.path(JOBSETS, "jobsets"), propagationPolicy="Background")
        await self.api.delete(self.path(BATCH, "jobs"), propagationPolicy="Background")
        await self.api.delete(self.path(CORE, "pods"), gracePeriodSeconds=0)
        await eventually(self._empty, f"the pods and workloads of {self.name} are gone", limit=60)
        for path in reversed(self.queued):
            await self.api.delete(path)
        await self.api.delete(f"{CORE}/namespaces/{self.name}")

    async def _empty(self) -> bool:
        kinds = ((CORE, "pods"), (KUEUE, "workloads"))
        return not any([await self.items(base, kind) for base, kind in kinds])

    async def items(self, base: str, kind: str, **query: str) -> list[Object]:
        listed: list[Object] = (await self.api.get(self.path(base, kind), **query)).made["items"]
        return listed

    async def queue(self, name: str, gpus: int, **spec: object) -> str:
        """A ClusterQueue of that many GPUs of the reserved pool, and a LocalQueue of the same name to it."""
        flavor = await self.flavor()
        quota = [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus}]}]
        body = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": quota}],
            **spec,
        }
        await self._queue(f"{KUEUE}/clusterqueues", "ClusterQueue", {"name": f"{self.name}-{name}"}, body)
        path = self.path(KUEUE, "localqueues")
        await self._queue(path, "LocalQueue", {"name": name}, {"clusterQueue": f"{self.name}-{name}"})
        if "stopPolicy" not in spec:
            await self.condition(KUEUE, "localqueues", name, "Active")
        return name

    async def check(self, name: str, controller: str = "example.com/by-hand") -> str:
        """An admission check that a test answers by hand; gives its name."""
        full = f"{self.name}-{name}"
        await self._queue(f"{KUEUE}/admissionchecks", "AdmissionCheck", {"name": full},
                          {"controllerName": controller})  # fmt: skip
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
        path = f"{KUEUE}/admissionchecks/{full}/status"
        answer = await self.api.send("PATCH", path, {"status": {"conditions": [active]}}, MERGE_PATCH)
        assert answer.status == 200, answer.body
        return full

    async def answer_checks(self, job: str, **states: Object) -> None:
        """Answer the admission checks of a job's Workload, by their names here; the others stay as they are."""
        path = self.path(KUEUE, "workloads", await self.workload(job))
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        listed = (await self.api.get(path)).made["status"]["admissionChecks"]
        given = {f"{self.name}-{name}": {**state, "lastTransitionTime": now} for name, state in states.items()}
        body = {"status": {"admissionChecks": [{**each, **given.get(each["name"], {})} for each in listed]}}
        answer = await self.api.send("PATCH", f"{path}/status", body, MERGE_PATCH)
        assert answer.status == 200, answer.body

    async def flavor(self, name: str = "a4", pool: str = "") -> str:
        """A ResourceFlavor of the machines of a pool, else of the reserved one; gives its name."""
        name = f"{self.name}-{name}"
        if not any(path.endswith(f"/{name}") for path in self.queued):
            spec = {
                "nodeLabels": {POOL: pool or await self.reserved_pool()},
                "topologyName": "gke-default",
                "tolerations": [{"key": GPU, "operator": "Exists"}],
            }
            await self._queue(f"{KUEUE}/resourceflavors", "ResourceFlavor", {"name": name}, spec)
        return name

    async def _queue(self, path: str, kind: str, metadata: Object, spec: Object) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}
        answer = await self.api.create(path, body)
        assert answer.status == 201, answer.body
        self.queued.append(f"{path}/{metadata['name']}")

    async def reserved_pool(self) -> str:
        """The A4 pool that stands all the time; its 16 machines are in 2 blocks of 2 subblocks."""
        nodes = (await self.api.get(f"{CORE}/nodes", labelSelector="cloud.google.com/machine-family=a4")).made["items"]
        spot = "cloud.google.com/gke-spot"
        (pool,) = {node["metadata"]["labels"][POOL] for node in nodes if spot not in node["metadata"]["labels"]}
        return str(pool)

    async def priority(self, name: str, value: int) -> str:
        """A WorkloadPriorityClass; gives its name."""
        full = f"{self.name}-{name}"
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": full},
                "value": value}  # fmt: skip
        assert (await self.api.create(f"{KUEUE}/workloadpriorityclasses", body)).status == 201
        self.queued.append(f"{KUEUE}/workloadpriorityclasses/{full}")
        return full

    async def jobset(self, name: str, queue: str, nodes: int, **options: object) -> Object:
        answer = await self.api.create(self.path(JOBSETS, "jobsets"), jobset(name, queue, nodes, **options))  # type: ignore[arg-type]
        return answer.made

    async def pod(self, name: str, **spec: object) -> Object:
        """A running pod with one container, `main`."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [container("main")], "restartPolicy": "Never", **spec},
        }

        async def created() -> bool:
            # A namespace is a moment older than the service account its pods run as.
            answer = await self.api.create(self.path(CORE, "pods"), body)
            assert answer.status == 201 or "serviceaccount" in answer.body["message"], answer.body
            return answer.status == 201

        await eventually(created, f"pod {name} is accepted")
        return await self.wait(CORE, "pods", name, lambda pod: pod["status"].get("phase") == "Running")

    async def end(self, pod: str, outcome: str = "Succeeded", code: int = 0, reason: str = "") -> None:
        """End a running pod as its program would."""
        notes = {"outcome": outcome, "exit-code": str(code), "reason": reason or "Completed"}
        change = {"metadata": {"annotations": {f"a4-lab/{key}": value for key, value in notes.items()}}}
        answer = await self.api.send("PATCH", self.path(CORE, "pods", pod), change, MERGE_PATCH)
        assert answer.status == 200, answer.body

    async def wait(self, base: str, kind: str, name: str, true: Callable[[Object], bool]) -> Object:
        """The object, once it is what is asked for."""

        async def probe() -> Object | None:
            answer = await self.api.get(self.path(base, kind, name))
            return answer.made if answer.status == 200 and true(answer.made) else None

        return present(await eventually(probe, f"{kind} {name} in {self.name}"))

    async def gone(self, path: str, limit: float = LIMIT) -> None:
        """Wait until there is nothing at that path."""

        async def probe() -> bool:
            return (await self.api.get(path)).status == 404

        await eventually(probe, f"{path} is gone", limit)

    async def condition(self, base: str, kind: str, name: str, wanted: str, status: str = "True") -> Object:
        """The condition of that type, once it has that status."""
        item = await self.wait(base, kind, name, lambda item: condition(item, wanted).get("status") == status)
        return condition(item, wanted)

    async def workload(self, job: str) -> str:
        """The name of the Workload that stands for a JobSet."""

        async def probe() -> str:
            owned = [each["metadata"] for each in await self.items(KUEUE, "workloads")]
            return next((each["name"] for each in owned if each["ownerReferences"][0]["name"] == job), "")

        return await eventually(probe, f"a workload of {job}")

    async def admission(self, job: str, wanted: str, status: str = "True") -> Object:
        """A condition of the Workload of a JobSet."""
        return await self.condition(KUEUE, "workloads", await self.workload(job), wanted, status)

    async def pods(self, job: str, count: int, phase: str = "Running") -> list[Object]:
        """That many pods of a JobSet in that phase, by rank."""

        async def probe() -> list[Object] | None:
            found = await self.items(CORE, "pods", labelSelector=f"jobset.sigs.k8s.io/jobset-name={job}")
            lasting = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
            there = [pod for pod in lasting if pod["status"].get("phase") == phase]
            return sorted(there, key=rank) if len(there) == count else None

        return present(await eventually(probe, f"{count} pods of {job} {phase}"))

    async def jobs(self, job: str) -> list[Object]:
        return await self.items(BATCH, "jobs", labelSelector=f"jobset.sigs.k8s.io/jobset-name={job}")


def rank(pod: Object) -> int:
    return int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def condition(item: Object, wanted: str) -> Object:
    """The condition of that type, empty when there is none."""
    found: list[Object] = item.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == wanted), {})


def container(name: str, gpus: int = 0) -> Object:
    made: Object = {"name": name, "image": "busybox:1", "command": ["sleep", "infinity"]}
    return {**made, "resources": {"limits": {GPU: str(gpus)}}} if gpus else made


def jobset(
    name: str, queue: str, nodes: int, *, priority: str = "", topology: str = SUBBLOCK, restarts: int | None = 0
) -> Object:
    """One Job of that many pods, each a whole machine, on one subblock."""
    labels = {"kueue.x-k8s.io/queue-name": queue}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    notes = {"kueue.x-k8s.io/podset-required-topology": topology} if topology else {}
    pod = {
        "metadata": {"annotations": notes},
        "spec": {"restartPolicy": "Never", "containers": [container("main", 8)], "terminationGracePeriodSeconds": 1},
    }
    job = {"parallelism": nodes, "completions": nodes, "backoffLimit": 0, "template": pod}
    spec: Object = {
        "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}],
    }
    if restarts is not None:
        spec["failurePolicy"] = {"maxRestarts": restarts}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def open_space(api: Api, cluster: Cluster, name: str) -> AsyncIterator[Space]:
    """A namespace of the test's own, empty again afterwards."""
    made = Space(api, cluster, name)
    await made.open()
    yield made
    await made.close()


@asynccontextmanager
async def open_session(kubeconfig: Path, space: Space, *kinds: str) -> AsyncIterator[Session]:
    """The console's own door to the cluster, in the test's namespace, once these kinds are listed."""
    opened = await Session.open(Settings(kubeconfig=kubeconfig, namespace=space.name))
    await opened.wait_until_listed(*kinds)
    yield opened
    await opened.close()


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder whose path is short and that every user may enter: kubelets run as others."""
    made = Path(tempfile.mkdtemp(prefix="a4-pods-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)
