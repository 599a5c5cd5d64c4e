"""Machines of DWS, as the practice cluster plays them."""

from __future__ import annotations

from typing import Any

from console.practice.objects.resources import NODES, PROVISIONINGREQUESTS
from tests.practice.world import World

POOL = "cloud.google.com/gke-nodepool"


def pool(world: World, name: str) -> list[dict[str, Any]]:
    return [node for node in world.storage.list(NODES) if node["metadata"]["labels"][POOL] == name]


def request(count: int) -> dict[str, Any]:
    spec = {"provisioningClassName": "queued-provisioning.gke.io", "podSets": [{"count": count}]}
    return {"metadata": {"name": "r", "namespace": "default"}, "spec": spec}


def conditions(world: World) -> dict[str, str]:
    found = world.get(PROVISIONINGREQUESTS, "r")["status"]["conditions"]
    return {each["type"]: each["status"] for each in found}


def test_dws_brings_all_machines_at_once() -> None:
    world = World()
    world.storage.create(PROVISIONINGREQUESTS, request(3))
    world.play(20)
    assert conditions(world) == {"Accepted": "True", "Provisioned": "False"}
    assert pool(world, "a4-flex") == []
    world.play(200)
    assert conditions(world) == {"Accepted": "True", "Provisioned": "True"}
    machines = pool(world, "a4-flex")
    assert len(machines) == 3
    assert all(each["metadata"]["labels"]["cloud.google.com/gke-queued"] == "true" for each in machines)


def test_dws_refuses_what_no_pool_can_have() -> None:
    world = World()
    world.storage.create(PROVISIONINGREQUESTS, request(40))
    world.play(20)
    assert conditions(world) == {"Failed": "True"}
