"""Machines of DWS, as the practice cluster plays them."""

import asyncio
import socket
from typing import Any

import pytest

from practice.clock import parse_timestamp
from practice.controllers.objects import find_condition
from practice.node.exporter import serve_metrics
from practice.objects.resources import DAEMONSETS, NODES, PODS, PROVISIONINGREQUESTS
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


def exporters(world: World) -> dict[str, dict[str, Any]]:
    """Pods of the DCGM exporter, by node."""
    pods = world.storage.list(PODS, "gke-managed-system")
    return {pod["spec"]["nodeName"]: pod for pod in pods}


def agents(world: World) -> dict[str, tuple[int, int]]:
    """Two of GKE's DaemonSets -> on how many nodes they should run, and on how many they do."""
    found = {each["metadata"]["name"]: each["status"] for each in world.storage.list(DAEMONSETS)}
    numbers = {name: (each["desiredNumberScheduled"], each["numberReady"]) for name, each in found.items()}
    return {name: numbers[name] for name in ("gke-metadata-server", "dcgm-exporter")}


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_a_machine_that_starts_was_never_ready_and_has_no_network() -> None:
    """That is how one that starts is told from one that has become faulty."""
    world = World(scene=True)
    (node,) = (each for each in world.storage.list(NODES) if find_condition(each, "Ready")["status"] == "False")  # type: ignore[index]
    ready, network = find_condition(node, "Ready"), find_condition(node, "NetworkUnavailable")
    assert ready is not None
    assert network is not None
    assert (ready["reason"], network["status"], network["reason"]) == ("KubeletNotReady", "True", "NoRouteCreated")
    assert ready["lastTransitionTime"] == node["metadata"]["creationTimestamp"]
    name = node["metadata"]["name"]
    assert name not in exporters(world)
    assert agents(world) == {"gke-metadata-server": (23, 22), "dcgm-exporter": (20, 19)}
    world.play(240)
    node = world.storage.get(NODES, "", name)
    assert [find_condition(node, kind)["status"] for kind in ("Ready", "NetworkUnavailable")] == ["True", "False"]  # type: ignore[index]
    assert name in exporters(world)
    assert agents(world) == {"gke-metadata-server": (23, 23), "dcgm-exporter": (20, 20)}


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_no_exporter_is_older_than_its_machine() -> None:
    world = World(scene=True)
    world.play(240)
    found = exporters(world)
    assert len(found) == 20
    for name, pod in found.items():
        born = parse_timestamp(world.storage.get(NODES, "", name)["metadata"]["creationTimestamp"])
        assert parse_timestamp(pod["metadata"]["creationTimestamp"]) >= born


@pytest.mark.slow(reason="a practice cluster runs a job")
def test_machines_of_dws_get_an_exporter_too() -> None:
    world = World(scene=True)
    world.storage.create(PROVISIONINGREQUESTS, request(3))
    world.play(300)
    assert {each["metadata"]["name"] for each in pool(world, "a4-flex")} <= set(exporters(world))


async def test_an_exporter_closes_a_connection_whose_client_leaves_without_its_answer() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    ours.close()
    with pytest.raises(asyncio.IncompleteReadError):
        await serve_metrics(reader, writer, lambda: asyncio.sleep(0, ""))
    assert writer.is_closing()
