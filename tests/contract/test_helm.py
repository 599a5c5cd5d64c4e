"""The project's chart through the Helm SDK: installed, listed, changed, removed, and refused where it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from console.errors import Conflict, NotAllowed, NotFound, ReleaseFailed
from console.helm import RECIPE_LABEL, Helm
from console.launch import Catalogue
from console.models.launch import LaunchPlan
from tests.contract.cluster import BATCH, CORE, JOBSETS, KUEUE, eventually

if TYPE_CHECKING:
    from tests.contract.cluster import Cluster
    from tests.contract.space import Space

CATALOGUE = Catalogue.load()
RECIPE = "nccl-all-reduce"
KINDS = ((JOBSETS, "jobsets"), (BATCH, "jobs"), (CORE, "pods"), (CORE, "services"), (CORE, "secrets"))


def values(**changes: Any) -> dict[str, Any]:
    return CATALOGUE.chart_values(LaunchPlan(RECIPE, "train", "default", {"queue": "team", "gpus": 16, **changes}))


async def install(helm: Helm, space: Space, name: str = "train") -> None:
    await helm.install(CATALOGUE.chart, values(), name=name, namespace=space.name, labels={RECIPE_LABEL: RECIPE})


@pytest.fixture
def helm(cluster: Cluster) -> Helm:
    return Helm(cluster.kubeconfig)


async def test_a_release_runs_and_leaves_nothing_behind(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    await space.pods("train", 2)
    (release,) = await helm.releases("a4", space.name)
    assert (release.name, release.namespace, release.revision, release.status) == ("train", space.name, 1, "deployed")
    assert (await helm.values(name="train", namespace=space.name))["queue"] == "team"
    gone = await helm.uninstall(name="train", namespace=space.name)
    assert "JobSet train" in gone

    async def nothing() -> bool:
        left = [await space.items(base, kind) for base, kind in KINDS]
        maps = await space.items(CORE, "configmaps", fieldSelector="metadata.name!=kube-root-ca.crt")
        return not any(left) and not maps and not await space.items(KUEUE, "workloads")

    await eventually(nothing, "nothing of the release is left", limit=40)
    assert await helm.releases("a4", space.name) == ()


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


async def test_an_upgrade_that_changes_nothing_is_a_revision(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    await helm.upgrade(CATALOGUE.chart, values(), name="train", namespace=space.name)
    (release,) = await helm.releases("a4", space.name)
    assert (release.revision, release.status) == (2, "deployed")
    await helm.uninstall(name="train", namespace=space.name)


async def test_an_upgrade_of_what_may_not_change_is_refused(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    await space.pods("train", 2)
    with pytest.raises(ReleaseFailed) as refused:
        await helm.upgrade(CATALOGUE.chart, values(gpus=32), name="train", namespace=space.name)
    assert "field is immutable" in str(refused.value)
    assert len(await space.pods("train", 2)) == 2
    await helm.uninstall(name="train", namespace=space.name)


async def test_a_name_is_used_once(space: Space, helm: Helm) -> None:
    await space.queue("team", 64)
    await install(helm, space)
    with pytest.raises(Conflict):
        await install(helm, space)
    await helm.uninstall(name="train", namespace=space.name)


async def test_removing_what_is_not_there(space: Space, helm: Helm) -> None:
    with pytest.raises(NotFound):
        await helm.uninstall(name="nope", namespace=space.name)


async def test_a_namespace_that_is_not_there(space: Space, helm: Helm) -> None:
    with pytest.raises(NotFound):
        await helm.install(CATALOGUE.chart, values(), name="train", namespace=f"{space.name}-nope", labels={})


async def test_a_reader_may_not_install(space: Space, cluster: Cluster) -> None:
    with pytest.raises(NotAllowed):
        await install(Helm(cluster.reader_kubeconfig), space)
    assert await space.items(JOBSETS, "jobsets") == []
