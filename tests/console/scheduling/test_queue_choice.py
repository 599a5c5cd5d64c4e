"""Which LocalQueue a launch takes when nobody named one."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, Usage
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from console.scheduling.launch_forecast import LaunchDemand, QueueChoice, choose_queue
from tests.fakes import fleet_of

ASK = LaunchDemand("team", gpus=16)


def queue(name: str, nominal: int = 32, used: int = 0, **more: Any) -> ClusterQueue:
    return ClusterQueue(name, quotas=(Quota("a4", GPU, nominal),), reserved=(Usage("a4", GPU, used),), **more)


def cluster(*queues: ClusterQueue) -> Fleet:
    doors = [LocalQueue("team", f"lq-{each.name}", cluster_queue=each.name) for each in queues]
    return fleet_of(*queues, *doors, LocalQueue("other", "elsewhere", cluster_queue="a"))


@pytest.mark.parametrize(
    ("queues", "name", "why"),
    [
        ([queue("a", used=32)], "lq-a", "the only LocalQueue of team"),
        ([queue("a", used=32), queue("b")], "lq-b", "the only one of the 2 LocalQueues with enough GPUs free now (32)"),
        ([queue("a", 64), queue("b")], "lq-a", "the one with the most GPUs free (64) of the 2 LocalQueues"),
        ([queue("a", 8), queue("b", 4)], "lq-a", "none of the 2 LocalQueues has 16 GPUs free now; this one has most"),
        ([queue("a", 64, stop_policy="Hold"), queue("b", 4)], "lq-b", "none of the 2 LocalQueues has 16 GPUs free"),
        ([queue("a", stop_policy="Hold"), queue("b", stop_policy="Hold")], "lq-a",
         "none of the 2 LocalQueues of team admits anything now"),
    ],
)  # fmt: skip
def test_the_only_one_or_the_one_that_fits(queues: list[ClusterQueue], name: str, why: str) -> None:
    found = choose_queue(cluster(*queues), ASK)
    assert found.queue == name
    assert found.why.startswith(why)
    assert len(found.other_queues) == len(queues) - 1


def test_where_there_is_none_it_says_so_and_what_to_do() -> None:
    none = choose_queue(cluster(), ASK)
    assert none.queue == ""
    assert (
        none.why
        == "team has no LocalQueue. Name one with --queue, or create one: a4 preflight RECIPE --fix localqueue."
    )


@pytest.mark.parametrize(
    ("state", "unknown"),
    [
        (WatchState.FORBIDDEN, "the LocalQueues of team are not known: no permission to list LocalQueues"),
        (WatchState.LISTING, "the LocalQueues of team are not known: the LocalQueues are still being listed"),
        (WatchState.STALE, "the LocalQueues of team are not known: the connection was lost"),
        (WatchState.ABSENT, ""),  # without Kueue there is nothing to bypass
    ],
)
def test_that_nobody_knows_the_queues_is_not_that_there_is_none(state: WatchState, unknown: str) -> None:
    fleet = structs.replace(fleet_of(), links={"localqueues": WatchStatus("localqueues", state)})
    assert choose_queue(fleet, ASK).why_unknown == unknown
    assert not choose_queue(fleet, replace(ASK, gpus=0)).why_unknown, "a download needs none"


def test_queues_whose_quota_may_not_be_seen_are_not_called_shut() -> None:
    fleet = fleet_of(LocalQueue("team", "x", cluster_queue="a"), LocalQueue("team", "y", cluster_queue="b"))
    forbidden = WatchStatus("clusterqueues", WatchState.FORBIDDEN)
    found = choose_queue(structs.replace(fleet, links={**fleet.links, "clusterqueues": forbidden}), ASK)
    assert found == QueueChoice("x", "one of 2; how much quota is free in them is not known", ("y",))


def test_a_launch_without_gpus_asks_for_none() -> None:
    assert choose_queue(cluster(queue("a")), replace(ASK, gpus=0)).queue == ""
