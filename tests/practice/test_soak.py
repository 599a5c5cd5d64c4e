"""Whatever happens in whatever order: quotas and nodes are never overdrawn, and nothing outlives its owner."""

import random
from collections import Counter
from contextlib import suppress

import pytest

from practice.controllers.objects import is_true, key_of
from practice.controllers.quantity import pod_requests
from practice.objects.api_error import ApiError
from practice.objects.resources import CLUSTERQUEUES, JOBS, JOBSETS, NODES, PODS, SERVICES, WORKLOADS, Resource
from tests.practice.world import GPU, World, jobset

_SUBBLOCK = ("required", "cloud.google.com/gce-topology-subblock")
_BLOCK = ("preferred", "cloud.google.com/gce-topology-block")


class Hands:
    """Does one thing after another to the cluster, without a plan."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._storage = world.storage
        self._random = random.Random(seed)
        self._made = 0

    def act(self) -> None:
        deeds = [self._submit, self._delete, self._cordon, self._stop_queue, self._deactivate]
        deed = self._random.choices(deeds, [35, 30, 8, 8, 8])[0]
        with suppress(ApiError, IndexError):  # refused, or nothing there to do it to
            deed()
        self._world.play(self._random.choice([0.01, 1, 10, 60]))

    def _submit(self) -> None:
        self._made += 1
        pick = self._random.choice
        made = jobset(
            f"job-{self._made}",
            pick([1, 2, 3, 4, 8]),
            queue=pick(["a4", "research", ""]),
            priority=pick(["", "low", "high"]),
            topology=pick([None, _SUBBLOCK, _BLOCK]),
            restarts=pick([0, 1, 3]),
            backoff=pick([0, 2]),
            policy=pick(["Never", "OnFailure"]),
            command=pick(["sleep 20", "sleep 100; exit 1", "sleep infinity", "sleep 5; exit 2"]),
        )
        self._storage.create(JOBSETS, made)

    def _delete(self) -> None:
        resource = self._random.choice([JOBSETS, JOBSETS, PODS, WORKLOADS, JOBS])
        how = self._random.choice(["Background", "Foreground", "Orphan"]) if resource is JOBSETS else "Background"
        self._storage.delete(resource, *self._one(resource), propagation=how)

    def _cordon(self) -> None:
        off = self._random.random() < 0.5
        self._storage.modify(NODES, *self._one(NODES), lambda node: node["spec"].update(unschedulable=off))

    def _stop_queue(self) -> None:
        policy = self._random.choice(["None", "None", "Hold", "HoldAndDrain"])
        self._storage.modify(
            CLUSTERQUEUES, *self._one(CLUSTERQUEUES), lambda queue: queue["spec"].update(stopPolicy=policy)
        )

    def _deactivate(self) -> None:
        active = self._random.random() < 0.5
        self._storage.modify(WORKLOADS, *self._one(WORKLOADS), lambda item: item["spec"].update(active=active))

    def _one(self, resource: Resource) -> tuple[str, str]:
        return key_of(self._random.choice(self._storage.list(resource)))


@pytest.mark.slow(reason="a practice cluster runs for a long time")
@pytest.mark.parametrize("seed", [4, 11])
def test_nothing_is_overdrawn_and_nothing_is_left_behind(seed: int) -> None:
    world = World(seed=seed)
    hands = Hands(world, seed)
    for _ in range(80):
        hands.act()
        _check(world)
    for resource in (JOBSETS, JOBS):
        for obj in world.storage.list(resource):
            with suppress(ApiError):  # gone with its owner
                world.storage.delete(resource, *key_of(obj))
    world.play(600)
    left = [obj for resource in (JOBSETS, JOBS, PODS, SERVICES, WORKLOADS) for obj in world.storage.list(resource)]
    assert [key_of(obj) for obj in left if obj["metadata"].get("ownerReferences")] == []


def _check(world: World) -> None:
    on_nodes: Counter[str] = Counter()
    for pod in world.storage.list(PODS):
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running"):
            on_nodes[pod["spec"]["nodeName"]] += pod_requests(pod["spec"]).get(GPU, 0) // 1000
    assert max(on_nodes.values(), default=0) <= 8
    in_queues: Counter[str] = Counter()
    for workload in world.storage.list(WORKLOADS):
        admission = workload.get("status", {}).get("admission")
        for part in admission["podSetAssignments"] if admission and not is_true(workload, "Finished") else ():
            in_queues[admission["clusterQueue"]] += int(part["resourceUsage"][GPU])
    assert in_queues.total() <= 160
