"""What Kueue's rules say of a workload is read as what they decided."""

import pytest

from console.kube.objects.meta import GPU, Condition
from console.kube.objects.workload import Workload as SeenWorkload
from console.scheduling.kueue_messages import read_message
from console.scheduling.why import Category
from kueue_rules import (
    HOSTNAME,
    Flavor,
    FlavorQuota,
    KueueRelease,
    QueueNode,
    ResourceGroup,
    Snapshot,
    SnapshotNode,
    SnapshotPodSet,
    SnapshotWorkload,
    TopologyRequest,
    TopologyTree,
    admission_cycle,
)


def workload(pods: int, priority: int = 0, *, holds: bool = False) -> SnapshotWorkload:
    level = TopologyRequest(required="block")
    group = SnapshotPodSet("main", pods, {GPU: pods * 8000}, {GPU: 8000}, level, flavors={GPU: "a4"} if holds else {})
    return SnapshotWorkload(("ns", f"{holds}"), f"{holds}", "team", priority, 0.0, [group], reserved=float(holds))


@pytest.mark.parametrize(
    ("nodes", "held", "asked", "category", "token", "more", "fits"),
    [
        (4, 1, workload(2), Category.QUOTA, "WaitingForQuota", 8, -1),
        (4, 1, workload(3), Category.EXCEEDS, "ExceedsMaxQuota", 0, -1),
        (1, 0, workload(2), Category.TOPOLOGY, "TopologyPlacementFailed", 0, 1),
        (4, 2, workload(1, priority=9), Category.PREEMPTING, "WaitingForPreemptedWorkloads", 8, -1),
    ],
)
def test_a_message_of_the_rules_is_read_as_what_they_decided(
    nodes: int, held: int, asked: SnapshotWorkload, category: Category, token: str, more: int, fits: int
) -> None:
    flavor = Flavor("a4", topology="net")
    machines = [
        SnapshotNode(f"n{n}", {"block": "b", HOSTNAME: f"n{n}"}, (), {GPU: 8000, "pods": 110_000}) for n in range(nodes)
    ]
    tree = TopologyTree("net", ("block", HOSTNAME), flavor, machines, {})
    quotas, groups = {("a4", GPU): FlavorQuota(16_000)}, (ResourceGroup((GPU,), ("a4",)),)
    queue = QueueNode("team", quotas=quotas, groups=groups, within_queue="LowerPriority")
    holding = [workload(held, holds=True)] if held else []
    (found,) = admission_cycle([asked], Snapshot([queue], (), [flavor], {"a4": tree}, holding))
    assert found.reason(KueueRelease(19, observability=True)) == token
    for reason, message in (("Pending", found.message), (token, "")):
        read = read_message(
            SeenWorkload("ns", "job", conditions=(Condition("QuotaReserved", "False", reason, message),))
        )
        assert read.category is category
        assert (read.more_gpus, read.fits) == ((more, fits) if message else (0, -1))
