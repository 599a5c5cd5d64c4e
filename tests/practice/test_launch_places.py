"""The node that a forecast of a launch tells is the one on which the practice cluster's Kueue puts its pod."""

from typing import Any

import msgspec
import pytest

from console.kube.watched_kinds import reader_of
from console.scheduling.launch_forecast import LaunchDemand, forecast
from practice.objects.resources import (
    CLUSTERQUEUES,
    COHORTS,
    JOBSETS,
    LOCALQUEUES,
    NODES,
    PODS,
    RESOURCEFLAVORS,
    TOPOLOGIES,
    WORKLOADS,
)
from tests.fakes import fleet_of
from tests.practice.world import BLOCK, GPU, SUBBLOCK, World, jobset

LISTED = (NODES, PODS, JOBSETS, WORKLOADS, CLUSTERQUEUES, LOCALQUEUES, COHORTS, RESOURCEFLAVORS, TOPOLOGIES)


def objects(world: World) -> list[Any]:
    found: list[Any] = []
    for resource in LISTED:
        reader = reader_of(resource.plural)
        page = reader.read_page(msgspec.json.encode({"items": world.storage.list(resource)}))
        found += reader.build_models(page.items)[0].values()
    return found


@pytest.mark.slow(reason="a practice cluster runs a job")
@pytest.mark.parametrize("gpus", [4, 8])
@pytest.mark.parametrize(("request_", "level"), [("preferred", BLOCK), ("required", SUBBLOCK), ("none", BLOCK)])
def test_the_pod_runs_on_the_node_that_the_forecast_named(gpus: int, request_: str, level: str) -> None:
    world = World(scene=True)
    ask = LaunchDemand("default", queue="research", gpus=gpus, topology=request_, level=level)
    told = forecast(fleet_of(*objects(world)), ask)
    made = jobset("one", 1, queue="research", topology=(request_, level) if request_ != "none" else None)
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(gpus)}}
    world.storage.create(JOBSETS, made)
    world.play()
    (pod,) = world.pods("one")
    assert told.sentence.endswith(f" ({pod['spec']['nodeName']})")
