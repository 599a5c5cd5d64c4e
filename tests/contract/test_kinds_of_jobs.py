"""A JobSet of two parts, a Job, a pod and a group of pods beside each other: listed, explained, forecast."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import msgspec
import pytest

from console.kube.objects.workload import Workload
from console.scheduling.kueue_snapshot import workload_of_job
from console.scheduling.run_times import PastTimes, run_times
from console.scheduling.start_simulation import expected_starts
from console.scheduling.start_windows import start_windows, with_windows
from console.scheduling.why_workload import why_workload
from console.session import Session
from tests.contract.client import Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, eventually
from tests.contract.space import Space, container, jobset

QUEUE = "kueue.x-k8s.io/queue-name"
GROUP, COUNT = (f"kueue.x-k8s.io/pod-group-{name}" for name in ("name", "total-count"))
KINDS = {"two": "JobSet", "plain": "Job", "single": "Pod", "pair": "Pod"}


def pod(name: str, limit: int | None = None) -> Object:
    spec: Object = {"restartPolicy": "Never", "containers": [container("main", 8)], "terminationGracePeriodSeconds": 1}
    if limit is not None:
        spec["activeDeadlineSeconds"] = limit
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {QUEUE: "team"}}, "spec": spec}


async def create(space: Space, base: str, kind: str, body: Object) -> None:
    async def created() -> bool:
        # A namespace is a moment older than the service account its pods run as.
        answer = await space.api.create(space.path(base, kind), body)
        assert answer.status == 201 or "serviceaccount" in answer.body["message"], answer.body
        return answer.status == 201

    await eventually(created, f"{body['metadata']['name']} is accepted")


async def submit_all(space: Space) -> None:
    """Two parts of one machine each, a Job of one, a pod of one, and a group of two pods."""
    two = jobset("two", "team", 1, topology="")
    (part,) = two["spec"]["replicatedJobs"]
    two["spec"]["replicatedJobs"] = [{**part, "name": name} for name in ("driver", "workers")]
    await create(space, JOBSETS, "jobsets", two)
    template = {"spec": pod("plain")["spec"]}
    plain: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "plain", "labels": {QUEUE: "team"}},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": template},
    }
    await create(space, BATCH, "jobs", plain)
    await create(space, CORE, "pods", pod("single"))
    for number in range(2):
        member = pod(f"pair-{number}")
        member["metadata"]["labels"][GROUP] = "pair"
        member["metadata"]["annotations"] = {COUNT: "2"}
        await create(space, CORE, "pods", member)


async def states(session: Session, space: Space, wanted: dict[str, str]) -> dict[str, Workload]:
    """The Workloads by the names of their jobs, once these are in these states."""
    async with asyncio.timeout(60):
        async for fleet in session.watch.snapshots():
            found = {name: workload_of_job(fleet, space.name, name) for name in wanted}
            there = {name: each for name, each in found.items() if each is not None}
            if {name: f"{each.state}" for name, each in there.items()} == wanted:
                return there
    raise AssertionError(wanted)


async def printed(space: Space, command: str, *words: str) -> str:
    """What an a4 command prints that succeeds."""
    where = "--kubeconfig", str(space.cluster.kubeconfig), "-n", space.name
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "screens", command, *where, *words, stdout=PIPE, stderr=PIPE
    )
    out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    return out.decode() + told.decode()


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_jobs_of_every_kind_are_listed_explained_and_forecast(session: Session, space: Space) -> None:
    await space.queue("team", 8)
    await create(space, CORE, "pods", pod("first", 3600))
    await states(session, space, {"first": "admitted"})
    await submit_all(space)
    await space.admission("two", "QuotaReserved", "False")
    waiting = await states(session, space, dict.fromkeys(KINDS, "pending"))
    assert {name: each.owner_kind for name, each in waiting.items()} == KINDS
    assert [group.name for group in waiting["two"].pod_sets] == ["driver", "workers"]
    assert {name: each.total("nvidia.com/gpu") for name, each in waiting.items()} == {
        "two": 16, "plain": 8, "single": 8, "pair": 16,
    }  # fmt: skip
    for name in ("plain", "single"):
        assert why_workload(waiting[name], session.fleet).sentence, name
    # On a busy machine the Workload of the pod may be older than that of the Job, which was created before it.
    behind = min((waiting[name] for name in ("plain", "single")), key=lambda each: (each.created, each.uid)).key
    async with asyncio.timeout(60):
        async for fleet in session.watch.snapshots():
            times = run_times(fleet, PastTimes(fleet, []))
            windows = start_windows(fleet, {}, times, budget=30.0, rollouts=40)  # on any machine
            starts = with_windows(expected_starts(fleet, {}), windows)
            if starts[behind].latest:  # once the status of the queue counts what it holds
                break
    first = workload_of_job(session.fleet, space.name, "first")
    assert first is not None
    assert 3590 < starts[behind].at - first.created < 3700, "the deadline of the pod that runs"

    listed = msgspec.json.decode(await printed(space, "workloads", "--json"))
    assert {*KINDS, "first"} <= {item["job"] for item in listed["items"]}
    for name in KINDS:
        assert f"{name} " in await printed(space, "why", name)
        assert (await printed(space, "forecast", name)).splitlines()[1].split()[0] == name
    # Kueue waits for pods in place of those of a group that are deleted, until its Workload is.
    await space.api.delete(space.path(KUEUE, "workloads", "pair"))
