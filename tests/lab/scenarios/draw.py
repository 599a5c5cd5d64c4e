"""Draws a scenario from its seed: queues, cohorts, nodes and workloads as Kubernetes objects, with run times."""

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.lab.machines import GKE, Object

GPU = "nvidia.com/gpu"
POOL = "a4-lab/scenario-pool"
SCENARIO = "a4-lab/scenario"
NAMESPACE = "scenarios"
BLOCK, SUBBLOCK, HOST = f"{GKE}/gce-topology-block", f"{GKE}/gce-topology-subblock", "kubernetes.io/hostname"
LEVELS = (BLOCK, SUBBLOCK, HOST)
NODE_GPUS = 8
KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"
FAILURES = ("gone", "not ready", "tainted")
"""How a node fails. Kueue's rule is the same: a workload that has it gets another in its place, or loses its quota."""


@dataclass(frozen=True, slots=True)
class Job:
    """A workload, when it arrives and how long it runs, in seconds."""

    name: str
    queue: str
    arrives: float
    runs: float
    body: Object


@dataclass(slots=True, eq=False)
class Scenario:
    seed: int
    nodes: list[Object] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    """Topology, flavors, cohorts, ClusterQueues and LocalQueues, in the order of their creation."""
    jobs: list[Job] = field(default_factory=list)
    failure: str = ""  # of a node, one of FAILURES; empty: none fails
    fails_after: int = 0  # so many steps
    choice: int = 0  # which of the nodes that are in use then

    @property
    def name(self) -> str:
        return f"s{self.seed}"

    def of_kind(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def failing_node(self, used: Collection[str]) -> str:
        """The node to fail: of those with a topology one that is used, if any is; empty: there is none."""
        pools = {each["spec"]["nodeLabels"][POOL] for each in self.of_kind("ResourceFlavor")
                 if "topologyName" in each["spec"]}  # fmt: skip
        nodes = [each["metadata"]["name"] for each in self.nodes if each["metadata"]["labels"][POOL] in pools]
        found = [each for each in nodes if each in used] or nodes
        return found[self.choice % len(found)] if found and self.failure else ""

    def root_cohort(self, queue: str) -> str:
        """The cohort at the top of a queue's tree."""
        (found,) = (each for each in self.of_kind("ClusterQueue") if each["metadata"]["name"] == queue)
        return self.top_cohort(str(found["spec"]["cohortName"]))

    @property
    def cohorts(self) -> dict[str, str | None]:
        """Cohorts that are objects, and their parents."""
        return {each["metadata"]["name"]: each["spec"].get("parentName") for each in self.of_kind("Cohort")}

    def top_cohort(self, cohort: str) -> str:
        while parent := self.cohorts.get(cohort):
            cohort = parent
        return cohort


def draw(seed: int) -> Scenario:
    return _Draft(seed).scenario()


class _Draft:
    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)
        self._scenario = Scenario(seed)
        self._capacity: dict[str, int] = {}

    def scenario(self) -> Scenario:
        self._add("Topology", "topology", {"levels": [{"nodeLabel": level} for level in LEVELS]})
        for number in range(self._weighted({1: 3, 2: 2})):
            self._flavor(f"{self._scenario.name}-f{number}")
        if self._dice.random() < 0.25:
            self._add("AdmissionCheck", "check", {"controllerName": "a4-lab/checks"})
        self._queues()
        self._jobs()
        self._scenario.fails_after = self._dice.randint(3, len(self._scenario.jobs) - 1)
        self._scenario.failure = self._dice.choice(FAILURES) if self._dice.random() < 0.6 else ""
        self._scenario.choice = self._dice.randrange(1000)
        return self._scenario

    def _weighted(self, choices: dict[Any, int]) -> Any:
        return self._dice.choices(list(choices), list(choices.values()))[0]

    def _add(self, kind: str, name: str, spec: Object, namespace: str = "") -> str:
        full = name if name.startswith(self._scenario.name) else f"{self._scenario.name}-{name}"
        metadata = {"name": full, "labels": {SCENARIO: self._scenario.name}}
        if namespace:
            metadata["namespace"] = namespace
        self._scenario.objects.append({"apiVersion": KUEUE_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
        return full

    def _flavor(self, name: str) -> None:
        dice = self._dice
        shares = next(iter(self._capacity), "") if dice.random() < 0.4 else ""
        spec: Object = {"nodeLabels": {POOL: shares or name}}
        if dice.random() < 0.85:
            spec["topologyName"] = f"{self._scenario.name}-topology"
        self._add("ResourceFlavor", name, spec)
        if shares:
            self._capacity[name] = self._capacity[shares]
            return
        for block in range(dice.randint(1, 3)):
            for subblock in range(dice.randint(1, 2)):
                for host in range(dice.randint(1, 4)):
                    self._node(name, f"b{block}", f"b{block}-s{subblock}", f"{block}{subblock}{host}")
        self._capacity[name] = NODE_GPUS * sum(
            each["metadata"]["labels"][POOL] == name for each in self._scenario.nodes
        )

    def _node(self, pool: str, block: str, subblock: str, host: str) -> None:
        name, block, subblock = (f"{pool}-{each}" for each in (host, block, subblock))
        size = {"cpu": "224", "memory": "3968Gi", "pods": "110", GPU: str(NODE_GPUS)}
        self._scenario.nodes.append({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {HOST: name, POOL: pool, BLOCK: block, SUBBLOCK: subblock, SCENARIO: self._scenario.name},
            },
            "status": {"capacity": size, "allocatable": size},
        })  # fmt: skip

    def _queues(self) -> None:
        dice, count = self._dice, self._dice.randint(2, 4)
        cohorts = [f"{self._scenario.name}-c{number}" for number in range(self._weighted({1: 3, 2: 2}))]
        if len(cohorts) == 2 and dice.random() < 0.5:
            self._add("Cohort", cohorts[1], {"parentName": cohorts[0]})
            if dice.random() < 0.5:
                flavors = [
                    {"name": flavor, "resources": [{"name": GPU, "nominalQuota": NODE_GPUS * dice.randint(0, 2)}]}
                    for flavor in self._capacity
                ]
                self._add("Cohort", cohorts[0], {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]})
        for number in range(count):
            name = self._add("ClusterQueue", f"q{number}", self._queue(cohorts[number % len(cohorts)], count))
            self._add("LocalQueue", f"q{number}", {"clusterQueue": name}, NAMESPACE)

    def _queue(self, cohort: str, count: int) -> Object:
        dice = self._dice
        reclaim = dice.choice(["Never", "LowerPriority", "Any", "Any"])
        preemption: Object = {
            "withinClusterQueue": dice.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
            "reclaimWithinCohort": reclaim,
        }
        if reclaim != "Never" and dice.random() < 0.3:
            preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if dice.random() < 0.5:
                preemption["borrowWithinCohort"]["maxPriorityThreshold"] = dice.choice([0, 100])
        flavors = [{"name": flavor, "resources": [self._quota(flavor, count)]} for flavor in self._capacity]
        spec: Object = {
            "cohortName": cohort,
            "namespaceSelector": {},
            "queueingStrategy": self._weighted({"BestEffortFIFO": 4, "StrictFIFO": 1}),
            "preemption": preemption,
            "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        }
        checks = [{"name": each["metadata"]["name"]} for each in self._scenario.of_kind("AdmissionCheck")]
        if checks and dice.random() < 0.6:
            spec["admissionChecksStrategy"] = {"admissionChecks": checks}
        if dice.random() < 0.4:
            policies = ["MayStopSearch", "TryNextFlavor"]
            spec["flavorFungibility"] = {when: dice.choice(policies) for when in ("whenCanBorrow", "whenCanPreempt")}
        return spec

    def _quota(self, flavor: str, count: int) -> Object:
        dice, whole = self._dice, self._capacity[flavor]
        nominal = NODE_GPUS * round(dice.uniform(0.5, 2.5) * whole / count / NODE_GPUS)
        quota: Object = {"name": GPU, "nominalQuota": nominal}
        if dice.random() < 0.25:
            quota["borrowingLimit"] = NODE_GPUS * dice.randint(0, 3)
        if nominal and dice.random() < 0.25:
            quota["lendingLimit"] = NODE_GPUS * dice.randint(0, nominal // NODE_GPUS)
        return quota

    def _jobs(self) -> None:
        dice, at = self._dice, 0.0
        queues = [each["metadata"]["name"] for each in self._scenario.of_kind("LocalQueue")]
        for number in range(dice.randint(5, 12)):
            at += dice.uniform(1, 50)
            name, queue = f"{self._scenario.name}-w{number:02}", dice.choice(queues)
            body = {
                "apiVersion": KUEUE_VERSION,
                "kind": "Workload",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {SCENARIO: self._scenario.name}},
                "spec": {
                    "active": True,
                    "queueName": queue,
                    "priority": self._weighted({0: 3, 100: 3, 200: 2}),
                    "podSets": self._pod_sets(),
                },
            }
            self._scenario.jobs.append(Job(name, queue, at, dice.uniform(30, 400), body))

    def _pod_sets(self) -> list[Object]:
        count = self._weighted({1: 7, 2: 2, 3: 1})
        style = self._weighted({"none": 2, "required": 3, "preferred": 2, "unconstrained": 1, "slices": 2, "group": 2})
        if style == "group":
            asked = self._dice.choice(["required", "preferred"])
            pair = [self._pod_set(name, asked, most) for name, most in (("leader", 1), ("workers", 4))]
            for each in pair:
                each["topologyRequest"] = pair[0]["topologyRequest"] | {"podSetGroupName": "group"}
            return pair
        return [self._pod_set(f"set-{number}", style, 4 if count == 1 else 2) for number in range(count)]

    def _pod_set(self, name: str, style: str, most: int) -> Object:
        dice = self._dice
        gpus, count = self._weighted({8: 6, 4: 2, 2: 1}), dice.randint(1, most)
        request: Object = {}
        if style in ("required", "preferred"):
            request = {style: dice.choice(LEVELS[:2] if style == "required" else LEVELS)}
        elif style == "unconstrained":
            request = {"unconstrained": True}
        elif style == "slices":
            size, level = dice.choice([1, 2, 2, 3]), dice.choice(LEVELS[1:])
            count = size * dice.randint(1, max(1, most // size))
            request = {"podSetSliceRequiredTopology": level, "podSetSliceSize": size}
            outer = dice.choice(["", "required", "preferred"])
            if outer:
                request[outer] = dice.choice(LEVELS[: LEVELS.index(level) + 1])
        resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
        container = {"name": "main", "image": "busybox:1", "resources": resources}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        made: Object = {"name": name, "count": count, "template": template}
        if most == 4 and count > 1 and style != "slices" and dice.random() < 0.25 and name == "set-0":
            made["minCount"] = dice.randint(1, count - 1)
        return made | ({"topologyRequest": request} if request else {})
