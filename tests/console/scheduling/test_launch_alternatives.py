"""What would let a launch start now that otherwise waits."""

from typing import Any

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, Usage
from console.kube.snapshot import Fleet
from console.scheduling.launch_alternatives import launch_alternatives
from console.scheduling.launch_forecast import LaunchDemand, LaunchVerdict, forecast
from screens.widgets.form.launch_texts import alternative_words
from tests.console.scheduling.test_launch_forecast import DOOR, cluster, holding, queue


def others(fleet: Fleet, gpus: int, **more: Any) -> list[tuple[str, int | str]]:
    asked = LaunchDemand("team", **{"queue": "lq", "gpus": gpus, **more})
    found = launch_alternatives(fleet, asked)
    for each in found:
        names = {"topology.request": "topology"}
        changed = LaunchDemand(
            "team", **{"queue": "lq", "gpus": gpus, **more, names.get(each.path, each.path): each.value}
        )
        assert forecast(fleet, changed).verdict in {LaunchVerdict.NOW, LaunchVerdict.SPLIT}
    return [(each.path, each.value) for each in found]


def test_the_most_gpus_that_fit() -> None:
    busy = cluster(*holding("a", 8, at="n1"), queues=(DOOR, queue(used=8)))
    assert others(busy, 32) == [("gpus", 24)]
    assert others(busy, 24) == [], "it fits as it is"
    full = cluster(queues=(DOOR, queue(used=32)))
    assert others(full, 16) == []
    assert others(full, 4) == []


def test_a_block_that_is_only_preferred() -> None:
    assert others(cluster(), 32, topology="required") == [("topology.request", "preferred"), ("gpus", 24)]


def test_another_queue() -> None:
    second = ClusterQueue("other", quotas=(Quota("a4", GPU, 32),), reserved=(Usage("a4", GPU, 0),))
    door = LocalQueue("team", "spare", cluster_queue="other")
    fleet = cluster(queues=(DOOR, queue(used=16), door, second))
    assert others(fleet, 32) == [("queue", "spare"), ("gpus", 16)]
    ask = LaunchDemand("team", queue="lq", gpus=32)
    assert "".join(each.text for each in alternative_words(launch_alternatives(fleet, ask))) == (
        " It would fit now in queue spare (1), or with 16 GPUs (2)."
    )


def test_a_closed_queue_is_left_for_an_open_one() -> None:
    second = ClusterQueue("other", quotas=(Quota("a4", GPU, 32),), reserved=(Usage("a4", GPU, 0),))
    doors = (DOOR, LocalQueue("team", "spare", cluster_queue="other"))
    assert others(cluster(queues=(*doors, queue(stop_policy="Hold"), second)), 16) == [("queue", "spare")]
    assert others(cluster(queues=(DOOR, queue(stop_policy="Hold"))), 16) == []


def test_a_launch_without_a_queue_or_gpus_has_none() -> None:
    assert others(cluster(), 800, queue="") == []
    assert others(cluster(), 0) == []
