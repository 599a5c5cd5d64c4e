"""A queue that provisions its machines has its pods go to these."""

import asyncio
from typing import Any

from console.kube.nested_values import Value
from console.launch.recipes import LaunchPlan
from practice.objects.resources import ADMISSIONCHECKS, CLUSTERQUEUES
from tests.console.preflight.ground import DEADLINE, ground

CONTROLLERS = {"dws": "kueue.x-k8s.io/provisioning-request", "other": "kueue.x-k8s.io/multikueue"}


async def test_a_queue_that_provisions_machines_chooses_them() -> None:
    queued: dict[str, Value] = {"queue": "a4"}
    own: dict[str, Value] = {"queue": "a4", "placement": {"flexStart": False}}
    found: dict[str, list[Any]] = {}
    async with ground() as here:
        for check, controller in CONTROLLERS.items():

            def add_check(queue: Any, check: str = check) -> None:
                queue["spec"]["admissionChecks"] = [check]

            spec = {"metadata": {"name": check}, "spec": {"controllerName": controller}}
            with here.with_(ADMISSIONCHECKS, spec), here.changed(CLUSTERQUEUES, "", ["a4"], add_check):
                async with asyncio.timeout(DEADLINE):
                    while True:
                        if here.session.fleet.cluster_queues["", "a4"].checks == (check,):
                            break
                        await asyncio.sleep(0)
                plans = [LaunchPlan("nccl-all-reduce", "anna", "default", values) for values in (queued, own, {})]
                found[check] = [(await here.session.launch.with_flex_start(plan)).values for plan in plans]
    assert found == {
        "dws": [{"queue": "a4", "placement": {"flexStart": True}}, own, {}],
        "other": [queued, own, {}],
    }
