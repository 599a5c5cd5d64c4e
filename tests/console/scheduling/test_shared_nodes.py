"""Flavors over the same nodes, and nodes that a check brings: forecast, what-if and launch form say the same."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.meta import GPU
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, ResourceFlavor, Topology, Usage
from console.kube.objects.workload import TopologyDomain
from console.kube.snapshot import Fleet, KueueVersion
from console.scheduling.kueue_snapshot import kueue_snapshot
from console.scheduling.launch_forecast import LaunchDemand, forecast
from console.scheduling.start_simulation import expected_starts
from console.scheduling.what_if import Changes, what_if
from tests.fakes import fleet_of, present
from tests.screens.queue_scene import claim, job
from tests.screens.scene import a4, rank

BLOCK, POOL = "cloud.google.com/gce-topology-block", "cloud.google.com/gke-nodepool"
NODES = [structs.replace(a4(number), block="blk-0", pool="pool") for number in range(4)]


def running(name: str, queue: str, flavor: str, at: tuple[int, ...]) -> list[object]:
    made = job(name, len(at), queue=queue)
    held = claim(made, queue=queue)
    domains = tuple(TopologyDomain((NODES[number].name,), 1) for number in at)
    group = structs.replace(held.pod_sets[0], flavors=((GPU, flavor),), domains=domains)
    ranks = [rank(made, index, NODES[number].name) for index, number in enumerate(at)]
    return [made, structs.replace(held, cluster_queue=queue, pod_sets=(group,)), *ranks]


def scene(
    *, cohorts: tuple[str, str] = ("x", "x"), checks: tuple[str, ...] = (), c: bool = True, bound: bool = True
) -> Fleet:
    """a (flavor high) and c (flavor dws) hold two of four nodes each; b waits in dws for all four, in one block."""
    flavors = [ResourceFlavor(each, node_labels=((POOL, "pool"),), topology="net") for each in ("high", "dws")]
    high = ClusterQueue("h", cohort=cohorts[0], quotas=(Quota("high", GPU, 32),), reserved=(Usage("high", GPU, 16),))
    dws = ClusterQueue(
        "d", cohort=cohorts[1], quotas=(Quota("dws", GPU, 32),), reserved=(Usage("dws", GPU, 16 * c),), checks=checks
    )
    wide = job("b", 4, suspended=True, queue="d")
    wish = claim(wide, waits="insufficient unused quota", queue="d")
    wish = structs.replace(wish, pod_sets=(structs.replace(wish.pod_sets[0], required_topology=BLOCK),))
    doors = [LocalQueue("default", each, cluster_queue=each) for each in ("h", "d")]
    held = [
        *running("a", "h", "high", (0, 1))[: None if bound else 2],
        *(running("c", "d", "dws", (2, 3)) if c else ()),
    ]
    return fleet_of(high, dws, *doors, *flavors, *NODES, Topology("net", levels=(BLOCK, "kubernetes.io/hostname")),
                    *held, *((wide, wish) if c else ()))  # fmt: skip


@pytest.mark.parametrize(
    ("cohorts", "checks", "at", "after", "unknown"),
    [
        (("x", "x"), (), 1000, "a", ""),
        (("x", "x"), ("prov",), 100, "c", ""),  # of its quota: the nodes come then
        (("x", "y"), (), 0, "", "nothing ends in its own cohort, by which Kueue would try it again, "
                                "and when it does is not known"),
    ],
)  # fmt: skip
def test_when_one_starts_whose_nodes_two_flavors_share(
    cohorts: tuple[str, str], checks: tuple[str, ...], at: int, after: str, unknown: str
) -> None:
    fleet = scene(cohorts=cohorts, checks=checks)
    left = {fleet.jobsets["default", name].uid: float(seconds) for name, seconds in (("a", 1000), ("c", 100))}
    waiting = present(fleet.workload_of(fleet.jobsets["default", "b"]))
    start = expected_starts(fleet, left)[waiting.key]
    assert (round(start.at - fleet.at) if start.at else 0, start.after_job, start.unknown) == (at, after, unknown)
    assert start.checks == checks


@pytest.mark.parametrize(("checks", "bound"), [((), True), ((), False), (("prov",), True)])
def test_what_if_and_launch_form_agree_on_shared_nodes(checks: tuple[str, ...], bound: bool) -> None:
    fleet = scene(checks=checks, c=False, bound=bound)
    answer = what_if(fleet, "default", Changes(submit=("d:32",)))
    launch = forecast(fleet, LaunchDemand("default", "d", gpus=32))
    (consequence,) = answer.consequences
    noted = [each for each in answer.notes if "machines are provisioned, and when is not known" in each]
    if checks:
        assert (consequence.what, len(noted)) == ("starts", 1)
        assert launch.sentence.endswith("the admission check prov requests them, and when is not known")
    else:
        assert (consequence.what, noted) == ("waits", [])
        ends = "; room free when a ends" * bound
        assert launch.sentence == f"quota of flavor dws is free, but it needs 4 free hosts and there are 2{ends}"
        assert [each.machines_then for each in answer.free] == [16, 16]


@pytest.mark.parametrize(
    ("kueue", "minor"),
    [
        (KueueVersion("0.17.1"), 17),
        (KueueVersion("0.20.8", ("v1beta2",)), 20),
        (KueueVersion(api_versions=("v1beta2", "v1beta1")), 18),
        (KueueVersion(api_versions=("v1beta2",)), 19),
        (KueueVersion(), 18),
    ],
)
def test_the_rules_are_those_of_the_version_that_runs(kueue: KueueVersion, minor: int) -> None:
    assert kueue_snapshot(replace(scene(), kueue_version=kueue), ("dws",)).release.minor == minor
