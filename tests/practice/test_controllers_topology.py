"""Placement by topology: the narrowest place that holds a job, and the sentence when there is none."""

import pytest
from hypothesis import given, strategies as some

from practice.controllers.kueue.assignment import decode_domains, encode_assignment
from practice.controllers.objects import labels_of
from practice.objects.resources import NODES
from tests.practice.world import BLOCK, SUBBLOCK, World


def numbers(world: World, name: str) -> list[int]:
    return [int(pod["spec"]["nodeName"][-4:]) for pod in world.pods(name)]


def test_a_cordoned_machine_is_no_place(world: World) -> None:
    world.storage.modify(NODES, "", machine(world, 0), lambda draft: draft["spec"].update(unschedulable=True))
    world.play(1)
    world.jobset("tight", 4, topology=("required", SUBBLOCK))
    assert numbers(world, "tight") == [4, 5, 6, 7]


def test_a_tainted_machine_is_named(world: World) -> None:
    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    for number in range(16):
        world.storage.modify(NODES, "", machine(world, number), lambda draft: draft["spec"]["taints"].append(taint))
    world.play(1)
    world.jobset("none", 1)
    assert world.waits_for("none") == (
        "couldn't assign flavors to pod set w: topology \"gke-default\" doesn't allow to fit any of 1 pod(s). "
        'Total nodes: 16; excluded: taint "sick=yes:NoSchedule": 16'
    )


def test_pods_carry_their_machine(world: World) -> None:
    world.jobset("tight", 2, topology=("required", BLOCK))
    for pod in world.pods("tight"):
        assert "schedulingGates" not in pod["spec"]
        assert pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] == pod["spec"]["nodeName"]
        assert labels_of(pod)["topology.kubernetes.io/zone"] == "us-central1-b"


@given(some.lists(some.tuples(some.text("ab-01", min_size=1, max_size=6), some.integers(1, 3)), min_size=1, max_size=6))
def test_an_assignment_is_read_as_it_was_written(places: list[tuple[str, int]]) -> None:
    written = [((name,), count) for name, count in places]
    assert list(decode_domains(encode_assignment(["kubernetes.io/hostname"], written))) == written


def test_common_parts_are_written_once() -> None:
    assignment = encode_assignment(["kubernetes.io/hostname"], [(("rack-1-node-1",), 1), (("rack-1-node-2",), 1)])
    assert assignment["slices"] == [
        {
            "domainCount": 2,
            "valuesPerLevel": [{"individual": {"prefix": "rack-1-node-", "roots": ["1", "2"]}}],
            "podCounts": {"universal": 1},
        }
    ]


def machine(world: World, number: int) -> str:
    names = [node["metadata"]["name"] for node in world.storage.list(NODES)]
    return next(str(name) for name in names if "a4-highgpu" in name and name.endswith(f"{number:04d}"))


TIGHT, THREE = ("required", SUBBLOCK), ("three", 3, ("required", SUBBLOCK))
WAITS = "couldn't assign flavors to pod set w: "
FULL = [(f"part-{number}", 3, TIGHT) for number in range(4)]


@pytest.mark.parametrize(
    ("jobs", "machines"),
    [
        ([("four", 4, TIGHT)], [0, 1, 2, 3]),
        ([("eight", 8, ("required", BLOCK))], list(range(8))),
        ([THREE, ("one", 1, TIGHT)], [3]),
        ([("wide", 6, ("preferred", SUBBLOCK))], [0, 1, 2, 3, 4, 5]),
        ([THREE, ("free", 1, ("unconstrained", "true"))], [3]),
    ],
    ids=[
        "a subblock holds all",
        "ranks follow the machines",
        "the fullest that fits",
        "preferred widens",
        "the scarcest",
    ],
)
def test_where_pods_run(world: World, jobs: list[tuple[str, int, tuple[str, str]]], machines: list[int]) -> None:
    for name, pods, topology in jobs:
        world.jobset(name, pods, topology=topology)
    assert numbers(world, jobs[-1][0]) == machines


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([("wide", 5, TIGHT)], 'topology "gke-default" allows to fit only 4 out of 5 pod(s)'),
        (
            [*FULL, ("late", 2, TIGHT)],
            'topology "gke-default" allows to fit only 1 out of 2 pod(s). '
            'Total nodes: 16; excluded: resource "nvidia.com/gpu": 12',
        ),
        ([("odd", 1, ("required", "example.com/rack"))], 'Flavor "a4" does not contain the requested level'),
    ],
)
def test_why_there_is_no_place(world: World, jobs: list[tuple[str, int, tuple[str, str]]], why: str) -> None:
    for name, pods, topology in jobs:
        world.jobset(name, pods, topology=topology)
    assert world.waits_for(jobs[-1][0]) == WAITS + why
