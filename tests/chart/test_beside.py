"""Jobs that take part of a node run beside each other on it, on nodes that give each RDMA card once, as GKE's do."""

import asyncio
import json
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
import yaml

from console.kube.nested_values import Value
from console.launch.recipes import LaunchPlan
from tests.chart.plans import offline
from tests.lab.control_plane import Lab

pytestmark = pytest.mark.lab
NODE = "gke-lab-a4-reserved-0003"
CARD = "networking.gke.io.networks/rdma-0"
TEAM = "beside"
LIMIT = 60.0
CARDS = '[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth2","network":"rdma-0"}]'


@pytest.fixture(scope="module")
def node(lab: Lab) -> Iterator[str]:
    """A node, and a namespace with a queue."""
    lab.kubectl("create", "namespace", TEAM)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "a4"}}
    lab.create([{**queue, "metadata": {"name": "a4", "namespace": TEAM}}])
    yield NODE
    lab.kubectl("delete", "namespace", TEAM, "--timeout=60s")


async def jobset(name: str, interfaces: str = "", **values: Value) -> dict[str, Any]:
    """The JobSet of two GPUs as GKE's webhook leaves it: every network of the annotation is a resource of the pod."""
    plan = LaunchPlan(
        "ddp-smoke", name, TEAM, {"gpus": 2, "queue": "a4", "placement": {"targetNodes": [NODE]}, **values}
    )
    made = next(each for each in await offline().render(plan) if each.kind == "JobSet")
    found: dict[str, Any] = yaml.safe_load(made.text)
    template = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    if interfaces:
        template["metadata"]["annotations"]["networking.gke.io/interfaces"] = interfaces
    asked = json.loads(template["metadata"]["annotations"].get("networking.gke.io/interfaces", "[]"))
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    limits |= {f"networking.gke.io.networks/{each['network']}": "1" for each in asked if each["network"] == "rdma-0"}
    return found


def pods(lab: Lab) -> dict[str, tuple[str, str, str]]:
    """Phase, node, and why it is not scheduled, by JobSet."""
    items = json.loads(lab.kubectl("get", "pods", "-n", TEAM, "-o", "json"))["items"]
    found = {}
    for each in items:
        conditions = {one["type"]: one.get("message", "") for one in each["status"].get("conditions", ())}
        told = each["status"]["phase"], each["spec"].get("nodeName", ""), conditions.get("PodScheduled", "")
        found[each["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]] = told
    return found


async def until(lab: Lab, wanted: dict[str, tuple[str, str, str]]) -> None:
    deadline = monotonic() + LIMIT
    while not all(
        name in (found := pods(lab)) and all(part in has for part, has in zip(parts, found[name], strict=True))
        for name, parts in wanted.items()
    ):
        assert monotonic() < deadline, (wanted, pods(lab))
        await asyncio.sleep(0.2)


async def test_small_jobs_share_a_node(lab: Lab, node: str) -> None:
    lab.create([await jobset("first"), await jobset("second")])
    try:
        await until(lab, {"first": ("Running", node, ""), "second": ("Running", node, "")})
    finally:
        lab.kubectl("delete", "jobset", "first", "second", "-n", TEAM)


async def test_jobs_that_ask_for_the_cards_would_not(lab: Lab, node: str) -> None:
    """Without a queue, since GKE's webhook adds the cards to pods that Kueue has judged before."""
    lab.create([await jobset("taker", CARDS, queue="")])
    try:
        await until(lab, {"taker": ("Running", node, "")})
        lab.create([await jobset("late", CARDS, queue="")])
        await until(lab, {"late": ("Pending", "", f"Insufficient {CARD}")})
    finally:
        lab.kubectl("delete", "jobset", "taker", "late", "-n", TEAM, "--ignore-not-found")
