"""Kueue with fair sharing: whom it takes quota from, and how far a queue is above its own."""

from collections.abc import AsyncIterator

import pytest

from kueue_rules import DEFAULT_STRATEGIES
from tests.contract.client import Api
from tests.contract.cluster import KUEUE, Cluster, eventually
from tests.contract.space import Space
from tests.contract.test_queueing import words_of

RULES = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@pytest.fixture
async def fair_sharing(api: Api, cluster: Cluster) -> AsyncIterator[None]:
    """Set before there are workloads and after them: Kueue 0.18.4 may panic when it starts over queues with some."""
    await cluster.set_fair_sharing(api, {"preemptionStrategies": list(DEFAULT_STRATEGIES)})
    yield
    await cluster.set_fair_sharing(api, None)


@pytest.fixture
def fair(fair_sharing: None, space: Space) -> Space:
    return space


async def share(space: Space, queue: str, expected: int) -> None:
    """Once the queue has that weighted share."""
    path = f"{KUEUE}/clusterqueues/{space.name}-{queue}"

    async def counted() -> bool:
        status = (await space.api.get(path)).made["status"]
        return bool(status.get("fairSharing") == {"weightedShare": expected})

    await eventually(counted, f"the weighted share of {queue} is {expected}")


async def test_quota_is_taken_from_whoever_borrows_most_until_shares_are_even(fair: Space) -> None:
    cohort = f"{fair.name}-lab"
    for name in ("one", "two", "three"):
        await fair.queue(name, 16, cohortName=cohort, preemption=RULES)
    for number in range(4):
        await fair.jobset(f"guest-{number}", "two", 1, topology="")
        await fair.admission(f"guest-{number}", "Admitted")
    await fair.jobset("mine", "one", 2, topology="")
    await fair.admission("mine", "Admitted")
    await share(fair, "one", 0)
    await share(fair, "two", 334)
    await fair.jobset("more", "one", 1, topology="")
    await fair.admission("more", "Admitted")
    guests = [await fair.workload(f"guest-{number}") for number in range(4)]
    found = [
        {each["type"]: each for each in item["status"]["conditions"]}
        for item in await fair.items(KUEUE, "workloads")
        if item["metadata"]["name"] in guests
    ]
    (preempted,) = [each["Preempted"] for each in found if "Preempted" in each]
    status, reason, message = words_of(preempted, fair)
    assert (status, reason) == ("True", "InCohortFairSharing")
    assert message == (
        "Preempted to accommodate a workload (UID: <uid>, JobUID: <uid>) due to Fair Sharing within the cohort; "
        "preemptor path: /lab/one; preemptee path: /lab/two"
    )
    await share(fair, "one", 167)
    await share(fair, "two", 167)
    await fair.jobset("too-much", "one", 1, topology="")
    waiting = await fair.admission("too-much", "QuotaReserved", "False")
    assert words_of(waiting, fair) == (
        "False", "Pending",
        "couldn't assign flavors to pod set workers: insufficient unused quota for nvidia.com/gpu in flavor a4, 8 more "
        "needed",
    )  # fmt: skip


async def test_a_queue_of_twice_the_weight_may_borrow_twice_as_much(fair: Space) -> None:
    cohort = f"{fair.name}-lab"
    await fair.queue("one", 8, cohortName=cohort, preemption=RULES, fairSharing={"weight": "2"})
    await fair.queue("two", 8, cohortName=cohort, preemption=RULES)
    await fair.queue("spare", 24, cohortName=cohort)
    for name, queue in (("a", "one"), ("b", "two"), ("c", "two"), ("d", "two"), ("e", "one")):
        await fair.jobset(name, queue, 1, topology="")
        await fair.admission(name, "Admitted")
    await share(fair, "one", 100)
    await share(fair, "two", 400)
    await fair.jobset("f", "one", 1, topology="")
    await fair.admission("f", "Admitted")
    await share(fair, "one", 200)
    await share(fair, "two", 200)
