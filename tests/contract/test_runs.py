"""What becomes of a launch, as the console remembers it; what stopping leaves; and what of a release can change."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.connection_settings import Settings
from console.errors import NotFound
from console.kube.nested_values import Value
from console.kube.objects.pod import Pod
from console.kube.snapshot import Fleet
from console.launch.install import ChartCatalog
from console.launch.recipes import LaunchPlan
from console.launch.run_record import Outcome, RunRecord
from console.launch.stop import OrphanedResource
from console.session import Session
from tests.contract.cluster import CORE, JOBSETS, Cluster, eventually, soon
from tests.contract.space import Space
from tests.contract.test_session import RECORDING, seen

CATALOGUE = ChartCatalog.from_chart()


def plan(space: Space, name: str = "train", **values: Value) -> LaunchPlan:
    return LaunchPlan("nccl-all-reduce", name, space.name, {"queue": "team", "keepAlive": True, **values})


@pytest.fixture(autouse=True)
async def queue(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue to launch into, and consoles that look more often than a person would notice."""
    monkeypatch.setattr("console.launch.run_recorder.POLL_SECONDS", 0.1)
    monkeypatch.setattr("console.launch.open_runs.STOP_GRACE_SECONDS", 0.5)
    await space.queue("team", 64)


@pytest.fixture
async def other(cluster: Cluster, space: Space) -> AsyncIterator[Session]:
    """A second console, which comes later."""
    opened = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
    await opened.wait_until_listed()
    yield opened
    await opened.close()


def pods_of(fleet: Fleet, space: Space) -> list[Pod]:
    job = fleet.jobsets.get((space.name, "train"))
    return fleet.pods_by_jobset.get(job.uid, []) if job else []


async def run_that_became(session: Session, space: Space, outcome: Outcome) -> RunRecord:
    """The run of this test, once that has become of it."""
    found: list[RunRecord] = []

    async def so() -> bool:
        found[:] = [run for run in await session.launch.runs.list_runs() if run.namespace == space.name]
        return bool(found) and found[0].outcome is outcome

    await eventually(so, f"the run is remembered as {outcome}")
    return found[0]


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_run_is_followed_from_its_queue_to_its_end(session: Session, space: Space) -> None:
    await session.launch.install(plan(space, keepAlive=False))
    run = await run_that_became(session, space, Outcome.RUNNING)
    assert (run.recipe, run.name, run.gpus, run.queue) == ("nccl-all-reduce", "train", 16, "team")
    assert run.values == {"queue": "team", "keepAlive": False}
    assert run.uid == session.fleet.jobsets[space.name, "train"].uid
    if not space.cluster.programs:
        pods = [pod["metadata"]["name"] for pod in await space.pods("train", 2)]
        lines = RECORDING.read_text().splitlines()
        await space.cluster.append_log(space.api, space.name, pods[0], "workload", lines)
        for pod in pods:
            await space.end(pod)
    run = await run_that_became(session, space, Outcome.SUCCEEDED)
    assert run.peak_busbw
    assert run.average_busbw
    assert run.peak_busbw > run.average_busbw > 10
    assert run.seconds(0.0) == run.ended - run.started


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_run_that_is_stopped_here_is_stopped(session: Session, other: Session, space: Space) -> None:
    await session.launch.install(plan(space))
    await space.pods("train", 2)
    await seen(session, lambda fleet: [pod.gpus for pod in pods_of(fleet, space)] == [8, 8], "its pods")
    stop = await session.launch.job_stopper.plan_stop(space.name, "train")
    assert (stop.release, stop.pods, stop.gpus) == ("train", 2, 16)
    assert set(stop.goes) == {"JobSet train", "ConfigMap train-launchers", "Secret train-ssh"}
    await other.launch.stop(space.name, "train")
    assert (await run_that_became(session, space, Outcome.STOPPED)).why == ""


async def trains(space: Space, session: Session) -> str:
    """A run of ours whose pods print nothing by themselves; the name of its last pod, which is to print the steps."""
    await session.launch.install(LaunchPlan("interactive", "train", space.name, {"queue": "team", "gpus": 16}))
    pods = [pod["metadata"]["name"] for pod in await space.pods("train", 2)]
    await seen(session, lambda fleet: len(pods_of(fleet, space)) == 2, "its pods")
    return str(pods[-1])


def steps(first: int, last: int, *, nan_from: int = 1 << 30) -> list[str]:
    return [
        f"step {at}/97 | loss {'nan' if at >= nan_from else f'{11 - at / 50:.3f}'} | lr 1e-4"
        for at in range(first, last + 1)
    ]


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_run_that_diverged_is_none_that_succeeded(session: Session, space: Space) -> None:
    session.alarms.watch_namespace(space.name)
    pod = await trains(space, session)
    await space.cluster.append_log(space.api, space.name, pod, "workload", steps(1, 9, nan_from=5))
    await soon(lambda: session.alarms.latest_alarms, "the alarm rings", 60)
    for each in await space.pods("train", 2):
        await space.end(each["metadata"]["name"])
    run = await run_that_became(session, space, Outcome.DIVERGED)
    assert run.why == "loss is NaN since step 5 (last good 10.92 at 4)"
    assert (run.loss_step, run.step, run.nan_from) == (4, 9, 5)
    assert [each.words for each in run.alarms] == ["loss is NaN since step 5 (last good 10.92 at 4)"]


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_run_that_is_stopped_while_its_next_step_is_late_says_so(
    session: Session, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a4").mkdir()
    (tmp_path / "a4" / "config.toml").write_text("[alarms]\nlate = 8\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    session.alarms.watch_namespace(space.name)
    pod = await trains(space, session)
    for at in range(1, 7):
        await space.cluster.append_log(space.api, space.name, pod, "workload", steps(at, at))
        await asyncio.sleep(0.3)
    await eventually(lambda: is_late(session, space), "the step is late", 90)
    assert session.alarms.latest_alarms == [], "late is said before it is an alarm"
    stop = await session.launch.job_stopper.plan_stop(space.name, "train")
    assert re.fullmatch(r"up to [\d.]+ GPU-minutes, as no checkpoint of the last \d+ s is in its log", stop.lost)
    await session.launch.stop(space.name, "train")
    run = await run_that_became(session, space, Outcome.STOPPED)
    assert run.why.startswith("stopped while it was late: no step for ")
    assert " after step 6, usually one takes" in run.why


async def is_late(session: Session, space: Space) -> bool:
    monitor = session.jobs.find_monitor((space.name, "train"))
    return bool(monitor and monitor.watch.late_text)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_job_that_somebody_deletes_was_stopped(session: Session, space: Space) -> None:
    await session.launch.install(plan(space))
    await run_that_became(session, space, Outcome.RUNNING)
    await space.api.delete(space.path(JOBSETS, "jobsets", "train"), propagationPolicy="Background")
    assert "deleted" in (await run_that_became(session, space, Outcome.STOPPED)).why
    left, _ = await session.launch.job_stopper.list_orphaned(space.name)
    assert [(each.kind, each.name) for each in left] == [("Release", "train")]
    assert (await session.launch.stop(space.name, "train")).release == "train"
    assert await session.launch.job_stopper.list_orphaned(space.name) == ((), ())


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_volumes_stay_and_are_found_when_their_release_is_gone(session: Session, space: Space) -> None:
    nfs: dict[str, Value] = {"server": "10.0.0.2", "claim": "shared", "share": "data"}
    await session.launch.install(plan(space, storage={"nfs": nfs, "gcs": {"runs": "/gcs"}}))
    stop = await session.launch.job_stopper.plan_stop(space.name, "train")
    volume = f"PersistentVolume a4-{space.name}-shared"
    assert set(stop.stays) == {"PersistentVolumeClaim shared", volume, "bucket gs://runs, mounted at /gcs"}
    await session.launch.stop(space.name, "train")
    left, hidden = await session.launch.job_stopper.list_orphaned(space.name)
    assert {(each.kind, each.name, each.holds_data) for each in left} == {
        ("PersistentVolumeClaim", "shared", True), ("PersistentVolume", f"a4-{space.name}-shared", True),
    }  # fmt: skip
    assert hidden == ()
    await remove_all(session, space, left)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_launch_says_whose_it_is_and_stays_so_when_somebody_else_changes_it(
    session: Session, other: Session, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "anna b")
    session.watch._own_name = ""
    await session.launch.install(plan(space, gpus=8))
    fleet = await seen(session, lambda fleet: (space.name, "train") in fleet.jobsets, "the job")
    assert fleet.jobsets[space.name, "train"].owner == "anna-b"
    assert session.watch.format_owner("anna-b") == "you"
    assert (session.watch.format_owner("bob"), session.watch.format_owner("")) == ("bob", "")
    (pod,) = await space.pods("train", 1)
    meta = pod["metadata"]
    assert (meta["labels"]["a4.console/owner"], meta["annotations"]["a4.console/owner"]) == ("anna-b", "anna b")
    assert await session.launch.releases.plan_of_release(space.name, "train") == plan(space, gpus=8)


async def remove_all(session: Session, space: Space, left: Sequence[OrphanedResource]) -> None:
    """Remove what is left of jobs, and wait until nothing is."""
    for each in left:
        await session.launch.job_stopper.remove_orphaned(each)

    async def nothing() -> bool:
        return await session.launch.job_stopper.list_orphaned(space.name) == ((), ())

    await eventually(nothing, "all of it is gone")


HEADLESS: dict[str, Any] = {"clusterIP": "None", "ports": [{"protocol": "TCP", "port": 29500, "name": "training"}]}


async def test_services_and_pods_made_by_hand_are_found_and_removed(session: Session, space: Space) -> None:
    for role in ("master", "worker"):
        spec = {**HEADLESS, "selector": {"role": role}}
        service = {"metadata": {"name": f"training-{role}"}, "spec": spec}
        await space.api.create(space.path(CORE, "services"), {"apiVersion": "v1", "kind": "Service", **service})
    spec = {**HEADLESS, "selector": {"role": "master"}}
    await space.api.create(space.path(CORE, "services"), {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "somebody-elses"}, "spec": spec,
    })  # fmt: skip
    container = {
        "name": "c", "image": "busybox:1", "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }  # fmt: skip
    for name, role in (("training-master", "master"), ("training-of-dogs", "worker")):
        await space.api.create(space.path(CORE, "pods"), {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"role": role}},
            "spec": {"containers": [container], "restartPolicy": "OnFailure"},
        })  # fmt: skip
    left, hidden = await session.launch.job_stopper.list_orphaned(space.name)
    assert hidden == ()
    found = {(each.kind, each.name): each for each in left}
    assert set(found) == {("Pod", "training-master"), ("Service", "training-master"), ("Service", "training-worker")}
    assert found["Pod", "training-master"].runs
    assert found["Pod", "training-master"].why.endswith("and holds 4 GPUs.")
    assert found["Service", "training-master"].why == "Made by hand for training-master, which has not ended."
    assert "for training-of-dogs" in found["Service", "training-worker"].why, "whatever it is called, it has its role"
    await remove_all(session, space, left)


async def test_a_job_without_a_release_goes_alone(session: Session, space: Space) -> None:
    await space.jobset("own", "team", 1)
    stop = await session.launch.job_stopper.plan_stop(space.name, "own")
    assert (stop.release, stop.goes, stop.stays) == ("", ("JobSet own",), ())


async def test_what_is_not_there_has_nothing_to_stop(session: Session, space: Space) -> None:
    with pytest.raises(NotFound):
        await session.launch.job_stopper.plan_stop(space.name, "nope")
    with pytest.raises(NotFound):
        await session.launch.stop(space.name, "nope")
    await session.launch.job_stopper.remove_orphaned(OrphanedResource("ConfigMap", space.name, "nope", "nope", ""))


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_job_that_went_while_no_console_looked(
    cluster: Cluster, session: Session, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.launch.open_runs.LISTING_DELAY_SECONDS", 0.0)  # as if the person had come back later
    await session.launch.install(plan(space))
    await session.close()
    await space.api.delete(space.path(JOBSETS, "jobsets", "train"), propagationPolicy="Background")
    await space.gone(space.path(JOBSETS, "jobsets", "train"))
    later = await Session.open(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
    try:
        await later.wait_until_listed()
        lost = await run_that_became(later, space, Outcome.UNKNOWN)
        assert lost.why == "The job was deleted while the console was closed; its Helm release is still deployed."
    finally:
        await later.close()


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_several_consoles_tell_one_story(session: Session, other: Session, space: Space) -> None:
    await asyncio.gather(
        session.launch.install(plan(space, "one", gpus=8)), other.launch.install(plan(space, "two", gpus=8))
    )
    names = {run.name for run in await session.launch.runs.list_runs() if run.namespace == space.name}
    assert names == {"one", "two"}
    await session.launch.stop(space.name, "two")
    runs = {run.name: run.outcome for run in await other.launch.runs.list_runs() if run.namespace == space.name}
    assert runs["two"] is Outcome.STOPPED
    assert (await space.items(CORE, "configmaps", labelSelector="app.kubernetes.io/instance=two")) == []
