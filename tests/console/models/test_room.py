"""Whether a job would find room: quota and hosts reckoned per flavor."""

from __future__ import annotations

import pytest

from console.models.node import Node
from console.models.pod import Pod
from console.models.queue import GPU, ClusterQueue, Quota, ResourceFlavor, Usage
from console.models.room import Fits, room
from tests.fakes import fleet_of


def host(name: str, block: str, subblock: str) -> Node:
    return Node(name, pool="a4", gpus=8, gpu_capacity=8, ready=True, block=block, subblock=subblock)


HOSTS = (host("n1", "b1", "s1"), host("n2", "b1", "s1"), host("n3", "b1", "s2"), host("n4", "b2", "s3"))
FLAVOR = ResourceFlavor("a4", node_labels=(("cloud.google.com/gke-nodepool", "a4"),))


def queue(nominal: int, used: int = 0) -> ClusterQueue:
    return ClusterQueue("q", quotas=(Quota("a4", GPU, nominal),), reserved=(Usage("a4", GPU, used),))


@pytest.mark.parametrize(
    ("gpus", "nominal", "used", "fits", "place"),
    [
        (8, 32, 0, Fits.NOW, "subblock"),
        (4, 32, 0, Fits.NOW, "subblock"),
        (16, 32, 0, Fits.NOW, "subblock"),
        (24, 32, 0, Fits.NOW, "block"),
        (32, 32, 0, Fits.SPREAD, ""),
        (32, 64, 0, Fits.SPREAD, ""),
        (40, 64, 0, Fits.NO_HOSTS, ""),
        (16, 32, 24, Fits.NO_QUOTA, ""),
        (40, 32, 0, Fits.NEVER, ""),
    ],
)
def test_room_for_a_job(gpus: int, nominal: int, used: int, fits: Fits, place: str) -> None:
    found = room(fleet_of(*HOSTS, FLAVOR, queue(nominal, used)), "q", gpus)
    assert (found.fits, found.place) == (fits, place)


def test_taken_hosts_are_no_room() -> None:
    taken = [Pod("n", f"p{node}", node=node, gpus=8, phase="Running") for node in ("n1", "n2", "n3")]
    found = room(fleet_of(*HOSTS, *taken, FLAVOR, queue(32)), "q", 16)
    assert (found.fits, found.hosts) == (Fits.NO_HOSTS, 1)


def test_a_second_flavor_with_room_is_taken() -> None:
    spot = Node("s1", pool="spot", gpus=8, gpu_capacity=8, ready=True, block="b9", subblock="s9")
    two = ClusterQueue("q", quotas=(Quota("a4", GPU, 8), Quota("spot", GPU, 8)), reserved=(Usage("a4", GPU, 8),))
    flavor = ResourceFlavor("spot", node_labels=(("cloud.google.com/gke-nodepool", "spot"),))
    found = room(fleet_of(*HOSTS, spot, FLAVOR, flavor, two), "q", 8)
    assert (found.fits, found.flavor) == (Fits.NOW, "spot")


def test_a_queue_that_is_not_there_gives_nothing() -> None:
    assert room(fleet_of(*HOSTS), "q", 8).fits is Fits.NEVER
