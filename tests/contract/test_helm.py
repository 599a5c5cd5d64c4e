"""The project's chart through the Helm SDK: installed, listed, changed, removed, and refused where it must be."""

import base64
import gzip
import json
from typing import Any

import pytest

from console.errors import Conflict, NotAllowed, NotFound, ReleaseFailed
from console.kube.kubeconfig import load
from console.kube.login import Login
from console.launch.helm import RECIPE_LABEL, Helm
from console.launch.install import ChartCatalog
from console.launch.recipes import LaunchPlan
from console.launch.stop import OrphanedResource
from console.session import Session
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, Cluster, eventually
from tests.contract.space import Space

CATALOGUE = ChartCatalog.from_chart()
RECIPE = "nccl-all-reduce"
KINDS = ((JOBSETS, "jobsets"), (BATCH, "jobs"), (CORE, "pods"), (CORE, "services"), (CORE, "secrets"))


def values(**changes: Any) -> dict[str, Any]:
    return CATALOGUE.chart_values(LaunchPlan(RECIPE, "train", "default", {"queue": "team", "gpus": 16, **changes}))


async def install(helm: Helm, space: Space, name: str = "train") -> None:
    await helm.install(CATALOGUE.chart, values(), name=name, namespace=space.name, labels={RECIPE_LABEL: RECIPE})


@pytest.fixture
def helm(cluster: Cluster) -> Helm:
    return Helm(Login(load(cluster.kubeconfig).target()))


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_release_runs_and_leaves_nothing_behind(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    await space.pods("train", 2)
    (release,) = await helm.list_releases("a4", space.name)
    assert (release.name, release.namespace, release.revision, release.status) == ("train", space.name, 1, "deployed")
    assert (await helm.read_values(name="train", namespace=space.name))["queue"] == "team"
    gone = await helm.uninstall(name="train", namespace=space.name)
    assert "JobSet train" in gone

    async def nothing() -> bool:
        left = [await space.items(base, kind) for base, kind in KINDS]
        maps = await space.items(CORE, "configmaps", fieldSelector="metadata.name!=kube-root-ca.crt")
        return not any(left) and not maps and not await space.items(KUEUE, "workloads")

    await eventually(nothing, "nothing of the release is left", limit=40)
    assert await helm.list_releases("a4", space.name) == ()


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_release_says_what_it_is_of(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    labels = (await space.api.get(space.path(JOBSETS, "jobsets", "train"))).made["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "Helm"
    assert labels["app.kubernetes.io/instance"] == "train"
    assert labels[RECIPE_LABEL] == RECIPE
    (stored,) = await space.items(CORE, "secrets", labelSelector="owner=helm")
    assert stored["type"] == "helm.sh/release.v1"
    assert stored["metadata"]["name"] == "sh.helm.release.v1.train.v1"
    assert stored["metadata"]["labels"][RECIPE_LABEL] == RECIPE
    await helm.uninstall(name="train", namespace=space.name)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_name_is_used_once(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    with pytest.raises(Conflict):
        await install(helm, space)
    await helm.uninstall(name="train", namespace=space.name)


LABELS = "  labels:\n    app.kubernetes.io/name: a4\n    app.kubernetes.io/instance: train\n"
THEIRS = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: theirs\n"
FORGERIES = {
    "an object of another namespace": f"{THEIRS}  namespace: kube-system\n{LABELS}",
    "a kind that the chart does not make": f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team-b\n{LABELS}",
    "a kind of another group": f"apiVersion: evil.example/v1\nkind: Secret\nmetadata:\n  name: x\n{LABELS}",
    "an object of another release": THEIRS,
    "an object that only says it is its own": f"{THEIRS}{LABELS}",
    "a document hidden behind its divider":
        f"x: 1\n---kind: Namespace\napiVersion: v1\nmetadata:\n  name: team-b\n{LABELS}",
    "an object of others that seems to be kept":
        f"{THEIRS}{LABELS}data:\n  a: |\n    helm.sh/resource-policy: keep\n",
    "a megabyte": "# a\n" * (1 << 18),
    "a hook": "",
}  # fmt: skip
"""What a release was made to name besides."""
HOOK: dict[str, Any] = {
    "name": "pwned", "kind": "ConfigMap", "path": "a4/templates/hook.yaml", "events": ["pre-delete"],
    "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: pwned\n  namespace: default\n",
}  # fmt: skip


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_release_is_not_obeyed(space: Space, session: Session, helm: Helm, forgery: str) -> None:
    """Whoever may write a Secret can write down a release; what it names is not removed with our rights."""
    await install(helm, space)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
    (await space.api.create(space.path(CORE, "configmaps"), theirs)).made  # noqa: B018
    path = space.path(CORE, "secrets", "sh.helm.release.v1.train.v1")
    secret = (await space.api.get(path)).made
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    release = json.loads(gzip.decompress(packed))
    if FORGERIES[forgery]:
        release["manifest"] += f"---\n{FORGERIES[forgery]}"
    else:
        release["hooks"] = [HOOK]
    forged = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    (await space.api.send("PUT", path, {**secret, "data": {"release": forged}})).made  # noqa: B018
    stopper = session.launch.job_stopper
    for asked in (
        stopper.plan_stop(space.name, "train"), stopper.stop_job(space.name, "train"),
        stopper.remove_orphaned(OrphanedResource("Release", space.name, "train", "train", "")),
    ):  # fmt: skip
        with pytest.raises((ReleaseFailed, Conflict), match="Nothing was"):
            await asked
    assert await space.items(CORE, "configmaps", fieldSelector="metadata.name=theirs")
    assert await space.items(JOBSETS, "jobsets")
    assert not await space.items(CORE, "configmaps", fieldSelector="metadata.name=pwned")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_only_what_was_named_is_removed(space: Space, session: Session, helm: Helm) -> None:
    """A release that names more by the time somebody has answered stays, with all of its objects."""
    await install(helm, space)
    plan = await session.launch.job_stopper.plan_stop(space.name, "train")
    before = [each for each in plan.goes if each != "JobSet train"]
    assert 0 < len(before) == len(plan.goes) - 1
    release = OrphanedResource("Release", space.name, "train", "train", "", goes=tuple(before))
    for asked in (
        session.launch.job_stopper.stop_job(space.name, "train", before),
        session.launch.job_stopper.remove_orphaned(release),
        helm.uninstall(name="train", namespace=space.name, only=before),
    ):
        with pytest.raises(Conflict, match=r"it names JobSet train too\. Nothing was removed"):
            await asked
    assert await space.items(JOBSETS, "jobsets")
    report = await session.launch.job_stopper.stop_job(space.name, "train", plan.goes)
    assert sorted(report.deleted) == sorted(plan.goes)


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_release_that_unpacks_to_gigabytes_is_not_unpacked(space: Space, session: Session) -> None:
    packed = gzip.compress(bytes(300 << 20), 9)
    data = base64.b64encode(base64.b64encode(packed)).decode()
    labels = {"owner": "helm", "name": "bomb", "status": "deployed", "version": "1"}
    secret = {
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "data": {"release": data},
        "metadata": {"name": "sh.helm.release.v1.bomb.v1", "labels": labels},
    }  # fmt: skip
    assert (await space.api.create(space.path(CORE, "secrets"), secret)).made
    for asked in (
        session.launch.launcher().releases(space.name),
        session.launch.releases.plan_of_release(space.name, "bomb"),
        session.launch.job_stopper.list_orphaned(space.name),
        session.launch.job_stopper.stop_job(space.name, "bomb"),
    ):
        with pytest.raises(ReleaseFailed, match="unpacks to more than 32 MiB"):
            await asked


async def test_removing_what_is_not_there(space: Space, helm: Helm) -> None:
    with pytest.raises(NotFound):
        await helm.uninstall(name="nope", namespace=space.name)


async def test_a_namespace_that_is_not_there(space: Space, helm: Helm) -> None:
    with pytest.raises(NotFound):
        await helm.install(CATALOGUE.chart, values(), name="train", namespace=f"{space.name}-nope", labels={})


async def test_a_reader_may_not_install(space: Space, cluster: Cluster) -> None:
    with pytest.raises(NotAllowed):
        await install(Helm(Login(load(cluster.reader_kubeconfig).target())), space)
    assert await space.items(JOBSETS, "jobsets") == []
