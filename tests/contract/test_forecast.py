"""What the console expects of a launch is what Kueue then does."""

from __future__ import annotations

import pytest

from console.kube.nested_values import Value
from console.launch.recipes import LaunchPlan
from console.scheduling.launch_forecast import LaunchVerdict, forecast
from console.session import Session
from tests.contract.space import Space


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
