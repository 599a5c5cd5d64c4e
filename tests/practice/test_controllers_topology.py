"""Placement by topology: the narrowest place that holds a job, and the sentence when there is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from practice.controllers.kueue.assignment import decode_domains, encode_assignment
from practice.controllers.objects import labels_of
from practice.objects.resources import NODES
from tests.practice.world import BLOCK, SUBBLOCK, World


def numbers(world: World, name: str) -> list[int]:
    return [int(pod["spec"]["nodeName"][-4:]) for pod in world.pods(name)]


def test_a_required_subblock_holds_all_pods(world: World) -> None:
    world.jobset("tight", 4, topology=("required", SUBBLOCK))
    assert numbers(world, "tight") == [0, 1, 2, 3]


def test_ranks_follow_the_machines(world: World) -> None:
    world.jobset("eight", 8)
    assert numbers(world, "eight") == list(range(8))


def test_the_fullest_place_that_fits_is_taken(world: World) -> None:
    world.jobset("three", 3, topology=("required", SUBBLOCK))
    world.jobset("one", 1, topology=("required", SUBBLOCK))
    assert numbers(world, "one") == [3]


def test_what_does_not_fit_is_counted(world: World) -> None:
    world.jobset("wide", 5, topology=("required", SUBBLOCK))
    assert world.waits_for("wide") == (
        'couldn\'t assign flavors to pod set w: topology "gke-default" allows to fit only 4 out of 5 pod(s)'
    )


def test_used_machines_are_named_as_the_reason(world: World) -> None:
    for number in range(4):
        world.jobset(f"part-{number}", 3, topology=("required", SUBBLOCK))
    world.jobset("late", 2, topology=("required", SUBBLOCK))
    assert world.waits_for("late") == (
        'couldn\'t assign flavors to pod set w: topology "gke-default" allows to fit only 1 out of 2 pod(s). '
        'Total nodes: 16; excluded: resource "nvidia.com/gpu": 12'
    )


def test_preferred_widens_when_it_must(world: World) -> None:
    world.jobset("wide", 6, topology=("preferred", SUBBLOCK))
    assert numbers(world, "wide") == [0, 1, 2, 3, 4, 5]


def test_unconstrained_takes_the_scarcest(world: World) -> None:
    world.jobset("three", 3, topology=("required", SUBBLOCK))
    world.jobset("free", 1, topology=("unconstrained", "true"))
    assert numbers(world, "free") == [3]


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


def test_a_level_that_does_not_exist(world: World) -> None:
    world.jobset("odd", 1, topology=("required", "example.com/rack"))
    text = 'couldn\'t assign flavors to pod set w: Flavor "a4" does not contain the requested level'
    assert world.waits_for("odd") == text


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
