"""What the console expects of a launch is what Kueue then does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from console.kube.nested_values import Value
from console.kube.snapshot import Fleet
from console.launch.recipes import LaunchPlan
from console.scheduling.launch_forecast import LaunchDemand, LaunchVerdict, forecast
from console.scheduling.what_if import Changes, what_if
from console.scheduling.why import why
from console.session import Session
from tests.contract.cluster import KUEUE, LIMIT
from tests.contract.space import BLOCK, GPU, SUBBLOCK, Space


def plan(space: Space, name: str, gpus: int, **topology: str) -> LaunchPlan:
    """Of a recipe that holds its GPUs until it is stopped."""
    values: dict[str, Value] = {"queue": "team", "gpus": gpus, "topology": {"request": "none", **topology}}
    return LaunchPlan("interactive", name, space.name, values)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize(
    ("quota", "held", "gpus", "verdict"),
    [
        (32, 0, 16, LaunchVerdict.NOW),
        (32, 16, 16, LaunchVerdict.NOW),
        (16, 16, 16, LaunchVerdict.WAITS),
        (16, 0, 32, LaunchVerdict.NEVER),
    ],
)
async def test_what_is_expected_happens(
    session: Session, space: Space, quota: int, held: int, gpus: int, verdict: LaunchVerdict
) -> None:
    await space.queue("team", quota)
    if held:
        await session.launch.install(plan(space, "before", held))
        await space.admission("before", "Admitted")
    asked = plan(space, "mine", gpus)

    def seen() -> bool:
        queues = [queue for queue in session.fleet.cluster_queues.values() if queue.name.startswith(space.name)]
        return bool(session.fleet.local_queues.get((space.name, "team"))) and any(
            queue.in_use() == held for queue in queues
        )

    async for fleet in session.watch.snapshots():
        if seen():
            found = forecast(fleet, session.launch.plan_texts.demand(asked))
            break
    assert found.verdict is verdict, found
    assert (found.total, found.free) == (quota, quota - held)

    await session.launch.install(asked)

    if verdict is LaunchVerdict.NOW:
        await space.admission("mine", "Admitted")
    else:
        reserved = await space.admission("mine", "QuotaReserved", "False")
        assert reserved["status"] == "False"


LEVELS = {"b": BLOCK, "s": SUBBLOCK, "": ""}
SCENES = [
    "h8b > d8b", "h8b h4s > d8b", "h8b h4s > d4s", "h16 > d1", "h12 > d4", "h12 > d8", "h4s d8b > h8b", "d8b h4s > h4s",
    "h4s h4s d4s d4s > d4s", "h2s d2s > h4s", "h1 d1 > d8b", "d16 > h1", "d4s d4s > h8b", "h4s d4s h4s > d4s",
    "dws h8b > d8b", "dws h8b h4s > d8b", "dws h16 > d1", "dws h12 > d8", "dws h4s h4s h4s h4s > d4s", "dws h1 > d16",
]  # fmt: skip
"""Who holds how many of the 16 machines, and who asks: by flavor h or d over the same, on one block or subblock or
anywhere. With "dws" the machines of d come by a check.
"""


async def when(session: Session, jobs: int) -> Fleet:
    """A picture in which that many jobs hold quota, by what the queues say too."""
    async for fleet in session.watch.snapshots():
        held = [each for each in fleet.workloads.values() if each.namespace == session.namespace and each.cluster_queue]
        known = sum(
            each.in_use() > 0 for each in fleet.cluster_queues.values() if each.name.startswith(session.namespace)
        )
        if len(held) == jobs and (known or not jobs) and len(fleet.local_queues) >= 2:
            return fleet
    raise AssertionError("the session ended")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize("scene", SCENES)
async def test_what_is_expected_of_shared_nodes_and_of_those_that_a_check_brings_happens(
    session: Session, space: Space, scene: str
) -> None:
    *held, _, asked = scene.removeprefix("dws ").split()
    check = await space.check("dws", "kueue.x-k8s.io/provisioning-request") if scene.startswith("dws") else ""
    for name in ("h", "d"):
        flavor = [{"name": await space.flavor(name), "resources": [{"name": GPU, "nominalQuota": 128}]}]
        checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": check}]}} if check and name == "d" else {}
        groups = [{"coveredResources": [GPU], "flavors": flavor}]
        await space.queue(name, 0, cohortName=space.name, resourceGroups=groups, **checks)
    for number, each in enumerate([*held, asked]):
        queue, nodes, level = each[0], int(each[1:].rstrip("bs")), LEVELS[each[1:].lstrip("0123456789")]
        if number < len(held):
            await space.jobset(f"held-{number}", queue, nodes, topology=level)
            await space.admission(f"held-{number}", "Admitted")
    fleet = await when(session, len(held))
    topology = "required" if level else "none"
    demand = LaunchDemand(space.name, queue, gpus=8 * nodes, topology=topology, level=level or BLOCK)
    launch = forecast(fleet, demand)
    changes = Changes(submit=(f"{queue}:{8 * nodes}",))
    await space.jobset("mine", queue, nodes, topology=level)

    mine = await space.wait(KUEUE, "workloads", await space.workload("mine"), lambda found: bool(quota(found)))
    starts = quota(mine) == "True"
    if check:
        assert starts
        assert "when is not known" in launch.sentence, launch
    else:
        assert (launch.verdict in (LaunchVerdict.NOW, LaunchVerdict.SPLIT)) is starts, (launch, mine["status"])
    if not level:
        (consequence,) = what_if(fleet, space.name, changes).consequences
        assert (consequence.what == "starts") is starts, consequence
    if not starts:
        async with asyncio.timeout(LIMIT):  # until what Kueue writes of it has come
            async for later in session.watch.snapshots():
                found = later.workloads.get((space.name, mine["metadata"]["name"]))
                if found and "free host" in why(found, later).sentence:
                    break


def quota(workload: dict[str, Any]) -> str:
    """What Kueue says of its quota; empty: nothing yet."""
    conditions = workload.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "QuotaReserved"), "")
