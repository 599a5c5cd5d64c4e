"""`a4 launch W --dry-run` gives the golden objects, on the practice cluster and on the real control plane."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml

from practice.child import PracticeProcess
from tests.chart.plans import CATALOGUE, PLANS
from tests.chart.typed import Typist
from tests.contract.client import Api

GOLDEN = Path(__file__).parent / "golden"
PRACTICE, LAB = "practice", "lab"
LIMIT = 60.0
"""Seconds within which a namespace goes with all that is in it."""
TEAM = "/api/v1/namespaces/team"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"
LEFT = ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets", "/api/v1/namespaces/team/secrets")


async def make_team(kubeconfig: Path) -> None:
    """The namespace of the golden files, with the queue they name."""
    async with Api.open(kubeconfig) as api:
        assert (await api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})).made
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "a4"}}
        assert (await api.create(QUEUES, {**queue, "spec": {"clusterQueue": "a4"}})).made


async def remove_team(kubeconfig: Path) -> list[str]:
    """What the dry runs left there, by name: nothing."""
    async with Api.open(kubeconfig) as api:
        found = [item["metadata"]["name"] for path in LEFT for item in (await api.get(path)).made["items"]]
        await api.delete(TEAM)
        deadline = monotonic() + LIMIT
        while (await api.get(TEAM)).status != 404:  # another module may make it anew
            assert monotonic() < deadline, "the namespace does not go"
            await asyncio.sleep(0.1)
    return found


@pytest.fixture(scope="module", params=[PRACTICE, pytest.param(LAB, marks=pytest.mark.lab)])
def typist(request: pytest.FixtureRequest) -> Iterator[Typist]:
    practice = PracticeProcess.start(scene="empty") if request.param == PRACTICE else None
    try:
        kubeconfig = practice.kubeconfig() if practice else Path(request.getfixturevalue("lab").kubeconfig)
        asyncio.run(make_team(kubeconfig))
        yield Typist(kubeconfig)
        assert asyncio.run(remove_team(kubeconfig)) == []
    finally:
        if practice:
            practice.stop()


def objects(texts: list[str]) -> dict[tuple[str, str], Any]:
    """Objects by kind and name, without the launchers' own text."""
    found = [made for text in texts for made in yaml.safe_load_all(text)]
    return {(made["kind"], made["metadata"]["name"]): made for made in found if made["kind"] != "ConfigMap"}


def without_owner(part: Any) -> Any:
    """The same without whose it is, which the golden files do not name."""
    if isinstance(part, list):
        return [without_owner(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {key: without_owner(each) for key, each in part.items() if key != "a4.console/owner"}
    return {key: each for key, each in kept.items() if key != "annotations" or each}


@pytest.mark.slow(reason="renders the chart and asks a practice cluster", fast_rows=3)
@pytest.mark.parametrize("code", [recipe.code for recipe in CATALOGUE.recipes()])
def test_the_objects_are_the_golden_ones(typist: Typist, code: str) -> None:
    recipe = CATALOGUE.find_recipe(code).id
    plan = PLANS[recipe]
    said = typist.worked(
        "-n", plan.namespace, "launch", code, "--name", plan.name, "--set", "queue=a4", "--dry-run", "--json"
    )
    told = said.data
    assert (told["namespace"], told["name"]) == (plan.namespace, plan.name)
    shown = without_owner(objects([manifest["text"] for manifest in told["manifests"]]))
    assert shown == objects([(GOLDEN / f"{recipe}.yaml").read_text()])
    assert {kind for kind, _ in shown} == {"JobSet", "Secret"}


def missing(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Where an object lacks what was wanted; the server may add to it."""
    if isinstance(wanted, dict):
        return [each for key in wanted for each in missing(wanted[key], (found or {}).get(key), f"{path}.{key}")]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) < len(wanted):
            return [path]
        pairs = zip(wanted, found, strict=False)
        return [each for at, (one, other) in enumerate(pairs) for each in missing(one, other, f"{path}[{at}]")]
    if wanted == "" and found is None:  # as the server keeps it
        return []
    return [] if str(wanted) == str(found) else [f"{path}: {wanted} became {found}"]


@pytest.mark.slow(reason="renders the chart and asks a practice cluster")
def test_what_is_shown_is_what_is_installed(typist: Typist) -> None:
    words = ("-n", "team", "launch", "W03", "--name", "seen", "--set", "queue=a4", "--set", "gpus=8", "--json")
    told = typist.worked(*words, "--dry-run").data
    typist.worked(*words, "--no-preflight")  # the lab's controllers are processes, and it has no Network objects
    try:
        shown = objects([manifest["text"] for manifest in told["manifests"]])
        jobset = asyncio.run(read(typist.kubeconfig, f"{LEFT[0]}/seen"))
        assert missing(shown["JobSet", "seen"], jobset) == []
        keys = asyncio.run(read(typist.kubeconfig, f"{LEFT[1]}/seen-ssh"))["data"]
        assert set(shown["Secret", "seen-ssh"]["data"]) == set(keys)
        # What is shown to a person hides them.
        assert not set(shown["Secret", "seen-ssh"]["data"].values()) & set(keys.values())
    finally:
        typist.worked("-n", "team", "stop", "seen")


async def read(kubeconfig: Path, path: str) -> dict[str, Any]:
    async with Api.open(kubeconfig) as api:
        return (await api.get(path)).made


def test_every_recipe_has_a_code_of_the_documents(typist: Typist) -> None:
    """W23 builds an image, W25 to W29 are no launches of the chart; all the others are here."""
    codes = [recipe["code"] for recipe in typist.worked("recipes", "--json").data]
    assert sorted(codes) == [f"W{number:02d}" for number in [*range(1, 23), 24]]
