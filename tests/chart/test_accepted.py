"""The real API server, with the JobSet and Kueue webhooks, accepts every recipe; a stopped release leaves nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any

import pytest

from console.errors import BadInput, Conflict, NotFound, Refused, ReleaseFailed
from console.kube.client import Connection
from console.kube.kubeconfig import load
from console.kube.nested_values import Value
from console.launch.helm import Helm
from console.launch.install import Launcher
from console.launch.recipes import LaunchPlan
from tests.chart.plans import CATALOGUE, PLANS
from tests.lab.control_plane import Lab

pytestmark = pytest.mark.lab
KINDS = "jobsets,jobs,pods,services,configmaps,secrets,workloads"
LIMIT = 90.0
"""Seconds for the garbage collector to remove what a JobSet owned."""


@pytest.fixture(scope="module")
def team(lab: Lab) -> Iterator[str]:
    lab.kubectl("create", "namespace", "team")
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "a4"}}
    lab.create({**queue, "metadata": {"name": name, "namespace": "team"}} for name in ("a4", "a4-high"))
    yield "team"
    lab.kubectl("delete", "namespace", "team", "--timeout=60s")


@pytest.fixture
async def launcher(lab: Lab, team: str) -> AsyncIterator[Launcher]:
    """What a test that fails half-way has launched goes with it, so that one defect is one failure."""
    connection = Connection(load(lab.kubeconfig).target())
    launching = Launcher(CATALOGUE, Helm(connection.client.login), connection.client)
    yield launching
    if left := await launching.releases(team):
        for release in left:
            await launching.stop(team, release.name)
        await until_empty(lab)
    await connection.close()


def objects(lab: Lab, namespace: str) -> set[str]:
    found = lab.kubectl("get", KINDS, "-n", namespace, "-o", "name").split()
    return {name for name in found if name != "configmap/kube-root-ca.crt"}


@pytest.mark.parametrize("name", PLANS)
async def test_a_trial_is_accepted_and_makes_nothing(launcher: Launcher, lab: Lab, name: str) -> None:
    await launcher.dry_run(PLANS[name])
    assert objects(lab, "team") == set()


async def test_launch_and_stop_leave_nothing(launcher: Launcher, lab: Lab) -> None:
    plan = PLANS["nccl-all-reduce-two-gpus"]
    assert await launcher.launch(plan) == plan.name
    assert f"jobset.jobset.x-k8s.io/{plan.name}" in objects(lab, "team")
    (release,) = await launcher.releases("team")
    assert (release.name, release.recipe, release.status) == (plan.name, plan.recipe, "deployed")
    assert await launcher.releases() == (release,)
    launched = await launcher.values("team", plan.name)
    assert launched["gpus"] == 2
    with pytest.raises(Conflict, match="exists already in team"):
        await launcher.launch(plan)

    removed = await launcher.stop("team", plan.name)

    assert set(removed) == {f"JobSet {plan.name}", f"ConfigMap {plan.name}-launchers", f"Secret {plan.name}-ssh"}
    await until_empty(lab)
    assert await launcher.releases() == ()
    with pytest.raises(NotFound):
        await launcher.stop("team", plan.name)


async def test_an_upgrade_keeps_the_releases_keys(launcher: Launcher, lab: Lab) -> None:
    def keys() -> str:
        return lab.kubectl("get", "secret", "kept-ssh", "-n", "team", "-o", "jsonpath={.data}")

    await launcher.launch(LaunchPlan("interactive", "kept", "team", {}))
    before = keys()
    values = CATALOGUE.chart_values(LaunchPlan("interactive", "kept", "team", {"ttl": 60}))

    def upgrade(config: Any) -> None:
        config.upgrade(CATALOGUE.chart, "kept", values, namespace="team", reset_values=True)

    await launcher.helm._run_in_thread("team", "kept", upgrade, "kept could not be changed")
    (release,) = await launcher.releases("team")
    assert (release.revision, release.status) == (2, "deployed")
    assert (await launcher.values("team", "kept"))["ttl"] == 60
    assert keys() == before
    await launcher.stop("team", "kept")
    await until_empty(lab)


NFS: dict[str, Value] = {"claim": "share", "server": "10.0.0.2"}
LUSTRE: dict[str, Value] = {**NFS, "instance": "my-lustre", "project": "my-project", "location": "us-central1-a"}


@pytest.mark.parametrize(
    "storage",
    [{"nfs": NFS}, {"nfs": {**NFS, "instance": "files", "location": "us-central1"}}, {"lustre": LUSTRE}],
    ids=["nfs", "filestore", "lustre"],
)
async def test_shared_storage_is_made_once_and_stays(launcher: Launcher, lab: Lab, storage: dict[str, Value]) -> None:
    """Others may use a share: the first release makes it, the second uses it, and neither takes it away."""

    def shares() -> set[str]:
        return set(lab.kubectl("get", "pv,pvc", "-n", "team", "-o", "name").split())

    def phase() -> str:
        return lab.kubectl("get", "pvc/share", "-n", "team", "-o", "jsonpath={.status.phase}")

    made = {"persistentvolume/a4-team-share", "persistentvolumeclaim/share"}
    values: dict[str, Value] = {"storage": storage}
    first, second = (LaunchPlan("own-script", name, "team", values) for name in ("first", "second"))
    await launcher.launch(first)
    assert shares() == made
    deadline = monotonic() + LIMIT
    while phase() != "Bound":
        assert monotonic() < deadline, phase()
        await asyncio.sleep(0.1)
    await launcher.launch(second)
    for plan in (first, second):
        removed = await launcher.stop("team", plan.name)
        assert set(removed) == {f"JobSet {plan.name}", f"ConfigMap {plan.name}-launchers", f"Secret {plan.name}-ssh"}
        assert shares() == made
    lab.kubectl("delete", "pvc/share", "-n", "team", "--wait=false")
    lab.kubectl("delete", "pv/a4-team-share", "--wait=false")
    await until_empty(lab)
    deadline = monotonic() + LIMIT
    while shares():
        assert monotonic() < deadline, shares()
        await asyncio.sleep(0.1)


async def test_a_download_runs_past_a_queue_of_gpus(launcher: Launcher, lab: Lab) -> None:
    """Kueue finds no flavor for pods that take none of what a queue covers, and would keep them suspended for ever."""
    plan = LaunchPlan("qwen3-download", "loads", "team", {"queue": "a4"})
    await launcher.launch(plan)
    deadline = monotonic() + LIMIT
    while not lab.kubectl("get", "pods", "-n", "team", "-o", "name"):
        assert monotonic() < deadline, "no pod was made"
        await asyncio.sleep(0.1)
    assert lab.kubectl("get", "workloads", "-n", "team", "-o", "name") == ""
    assert lab.kubectl("get", "jobset", "loads", "-n", "team", "-o", "jsonpath={.spec.suspend}") in ("", "false")
    gates = lab.kubectl("get", "pods", "-n", "team", "-o", "jsonpath={.items[*].spec.schedulingGates}")
    assert gates == ""
    await launcher.stop("team", plan.name)
    await until_empty(lab)


async def until_empty(lab: Lab) -> None:
    deadline = monotonic() + LIMIT
    while left := objects(lab, "team"):
        assert monotonic() < deadline, f"left behind: {left}"
        await asyncio.sleep(0.1)


async def test_a_release_of_another_chart_is_not_ours_to_stop(launcher: Launcher) -> None:
    with pytest.raises(NotFound, match="no release another of this chart"):
        await launcher.stop("team", "another")


async def test_a_namespace_that_is_missing_is_named(launcher: Launcher) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await launcher.dry_run(LaunchPlan("nccl-all-reduce", "anna", "nowhere", {}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"queue": "a4", "topology": {"level": f"cloud.google.com/{'x' * 70}"}}, "podset-preferred-topology"),
        ({"placement": {"tolerations": [{"operator": "Exists", "key": "no key!"}]}}, "tolerations"),
        ({"placement": {"tolerations": [{"operator": "Exists", "key": "k", "value": "v"}]}}, "tolerations"),
    ],
)
async def test_what_only_the_server_knows_is_shown_before_the_launch(
    launcher: Launcher, lab: Lab, values: dict[str, Value], words: str
) -> None:
    """The JobSet's webhooks judge the JobSet, the API server the Job it would make."""
    with pytest.raises(Refused, match=words):
        await launcher.launch(LaunchPlan("nccl-all-reduce", "anna", "team", values))
    assert objects(lab, "team") == set()


async def test_a_failed_install_leaves_nothing(launcher: Launcher, lab: Lab) -> None:
    """The Secret and the ConfigMap are made before the webhook refuses the JobSet."""
    level: dict[str, Value] = {"queue": "a4", "topology": {"level": f"cloud.google.com/{'x' * 70}"}}
    values = CATALOGUE.chart_values(LaunchPlan("nccl-all-reduce", "anna", "team", level))
    with pytest.raises(ReleaseFailed, match="anna could not be installed"):
        await launcher.helm.install(CATALOGUE.chart, values, name="anna", namespace="team", labels={})
    assert objects(lab, "team") == set()
    assert await launcher.releases() == ()


async def test_what_others_own_stays_theirs(launcher: Launcher, lab: Lab) -> None:
    lab.kubectl("create", "configmap", "own-launchers", "-n", "team")
    with pytest.raises(Conflict, match="own-launchers"):
        await launcher.launch(LaunchPlan("nccl-all-reduce", "own", "team", {}))
    assert objects(lab, "team") == {"configmap/own-launchers"}
    lab.kubectl("delete", "configmap", "own-launchers", "-n", "team")


async def test_unsound_plans_never_reach_the_cluster(launcher: Launcher) -> None:
    with pytest.raises(BadInput, match="GPUs must be 1 to 8, or a multiple of 8"):
        await launcher.launch(LaunchPlan("nccl-all-reduce", "anna", "nowhere", {"gpus": 12}))
