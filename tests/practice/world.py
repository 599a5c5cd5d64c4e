"""A practice cluster without a server whose time the test plays forward: hours pass in milliseconds, always alike."""

from typing import Any

from practice.cluster import PracticeCluster
from practice.controllers.objects import find_condition, labels_of
from practice.objects.resources import EVENTS, JOBS, JOBSETS, PODS, WORKLOADS, Resource

Object = dict[str, Any]
BLOCK, SUBBLOCK = (f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock"))
GPU = "nvidia.com/gpu"
QUEUE = "kueue.x-k8s.io/queue-name"


class World:
    """Machines and queues of the scene, and no job; time moves only by `play`."""

    def __init__(self, *, scene: bool = False, seed: int = 0) -> None:
        self.cluster = PracticeCluster(scene=scene, seed=seed)
        self.cluster.simulate_past()
        self.storage = self.cluster.storage

    def play(self, seconds: float = 30.0) -> None:
        self.cluster.clock.simulate_until(self.cluster.clock.now() + seconds)

    def add(self, resource: Resource, obj: Object) -> Object:
        made = self.storage.create(resource, obj)
        self.play(0.01)
        return made

    def jobset(self, name: str, nodes: int = 2, *, command: str = "sleep infinity", **options: Any) -> Object:
        """A JobSet of whole machines in the queue a4, and half a minute later what has become of it."""
        self.storage.create(JOBSETS, jobset(name, nodes, command=command, **options))
        self.play()
        return self.get(JOBSETS, name)

    def get(self, resource: Resource, name: str) -> Object:
        return self.storage.get(resource, "default", name)

    def pods(self, name: str) -> list[Object]:
        mark = "jobset.sigs.k8s.io/jobset-name"
        return [pod for pod in self.storage.list(PODS, "default") if labels_of(pod).get(mark) == name]

    def jobs(self, name: str) -> list[Object]:
        mark = "jobset.sigs.k8s.io/jobset-name"
        return [job for job in self.storage.list(JOBS, "default") if labels_of(job).get(mark) == name]

    def workload(self, name: str) -> Object:
        return next(
            item
            for item in self.storage.list(WORKLOADS)
            if item["metadata"]["name"].startswith(f"jobset-{name}-")
            and len(item["metadata"]["name"]) == len(name) + 13
        )

    def waits_for(self, name: str) -> str:
        """Why a workload has no quota."""
        found = find_condition(self.workload(name), "QuotaReserved")
        assert found is not None
        assert found["status"] == "False"
        return str(found["message"])

    def events(self, name: str, reason: str) -> list[str]:
        return [
            event["message"]
            for event in self.storage.list(EVENTS)
            if event["reason"] == reason and event["involvedObject"]["name"] == name
        ]

    def end(self, pod: Object, code: int = 0, reason: str = "") -> None:
        """End a running pod as its program would."""
        notes = {"outcome": "Failed" if code else "Succeeded", "exit-code": str(code), "reason": reason}
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]

        def note(draft: Object) -> None:
            draft["metadata"].setdefault("annotations", {}).update({f"a4-lab/{k}": v for k, v in notes.items() if v})

        self.storage.modify(PODS, *key, note)
        self.play(3)


def phases(pods: list[Object]) -> list[str]:
    return [pod["status"]["phase"] for pod in pods]


def why(obj: Object, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = find_condition(obj, kind)
    assert found is not None, f"no condition {kind}"
    return found["status"], found["reason"], found["message"]


def container(command: str = "sleep infinity", gpus: int = 0, **more: Any) -> Object:
    made: Object = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", command], **more}
    return {**made, "resources": {"limits": {GPU: str(gpus)}}} if gpus else made


def jobset(
    name: str,
    nodes: int = 2,
    *,
    command: str = "sleep infinity",
    queue: str = "a4",
    priority: str = "",
    topology: tuple[str, str] | None = ("required", BLOCK),
    restarts: int = 0,
    policy: str = "Never",
    backoff: int = 0,
    rules: list[Object] | None = None,
    **spec: Any,
) -> Object:
    labels = {QUEUE: queue} if queue else {}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    notes = {f"kueue.x-k8s.io/podset-{topology[0]}-topology": topology[1]} if topology else {}
    failure: Object = {"maxRestarts": restarts, **({"rules": rules} if rules else {})}
    pod = {"metadata": {"annotations": notes}, "spec": {"restartPolicy": policy, "containers": [container(command, 8)]}}
    job = {"parallelism": nodes, "completions": nodes, "backoffLimit": backoff, "template": pod}
    replicated = [{"name": "w", "replicas": 1, "template": {"spec": job}}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {"failurePolicy": failure, "replicatedJobs": replicated, **spec},
    }
