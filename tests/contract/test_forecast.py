"""What the console expects of a launch is what Kueue then does."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from console.kube.nested_values import Value
from console.kube.snapshot import Fleet
from console.launch.recipes import LaunchPlan
from console.scheduling.launch_forecast import LaunchVerdict, forecast
from console.scheduling.what_if import Changes, what_if
from console.scheduling.why import Category
from console.scheduling.why_workload import why_workload
from console.session import Session
from tests.contract.cluster import JOBSETS, KUEUE, LIMIT, eventually
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
            found = forecast(fleet, session.launch.demand(asked))
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
TRIED_AGAIN = 3.0  # seconds in which Kueue has tried those that wait once more, after another has gone


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
    request = {"request": "required", "level": level} if level else {}
    demand = replace(session.launch.demand(plan(space, "mine", 8 * nodes, **request)), queue=queue)
    launch, start = forecast(fleet, demand), await session.forecasts.launch_start(demand)
    (submitted,) = what_if(fleet, space.name, Changes(submit=(f"{queue}:{8 * nodes}",))).consequences
    await space.jobset("mine", queue, nodes, topology=level)

    mine = await space.wait(KUEUE, "workloads", await space.workload("mine"), lambda found: bool(quota(found)))
    starts = quota(mine) == "True"
    assert start is not None
    assert (("could start now" in start.unknown), bool(start.checks)) == (starts, bool(check)), start
    if check:
        assert starts
        assert "when is not known" in launch.sentence, launch
    else:
        assert (launch.verdict in (LaunchVerdict.NOW, LaunchVerdict.SPLIT)) is starts, (launch, mine["status"])
    if starts or not level:  # what it asks for has no level
        assert (submitted.what == "starts") is starts, submitted
    key = (space.name, mine["metadata"]["name"])
    expected = Category.TOPOLOGY if not starts else Category.CHECKS if check else Category.RUNNING
    async with asyncio.timeout(LIMIT):  # until what Kueue writes of it has come
        async for later in session.watch.snapshots():
            reason = why_workload(later.workloads[key], later) if key in later.workloads else None
            if reason and reason.category is expected:
                break
    assert reason
    assert starts or "free host" in reason.sentence, reason
    if not starts:
        await it_starts_if_another_ends(session, space, later)


async def it_starts_if_another_ends(session: Session, space: Space, fleet: Fleet) -> None:
    """`mine`, if what-if says so of an end of `held-0`, and else not."""
    consequences = what_if(fleet, space.name, Changes(stop=("held-0",))).consequences
    expected = any((each.job, each.what) == ("mine", "starts") for each in consequences)
    gone = await space.workload("held-0")
    path = space.path(JOBSETS, "jobsets", "held-0")
    assert (await space.api.delete(path, propagationPolicy="Background")).status == 200
    if expected:
        await space.admission("mine", "QuotaReserved")
        return

    async def is_gone() -> bool:
        return (await space.api.get(space.path(KUEUE, "workloads", gone))).status == 404

    await eventually(is_gone, "the workload of held-0 is gone")
    await asyncio.sleep(TRIED_AGAIN)
    assert (await space.admission("mine", "QuotaReserved", "False"))["status"] == "False"


def quota(workload: dict[str, Any]) -> str:
    """What Kueue says of its quota; empty: nothing yet."""
    conditions = workload.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "QuotaReserved"), "")
