"""Installs that fail half way: what was made is removed, or named when it cannot be."""

from pathlib import Path

import pytest

from console.errors import ConsoleError, ReleaseFailed, Unreachable
from console.kube.client import Connection
from console.kube.kubeconfig import load
from console.kube.login import Login
from console.launch import helm as helming
from console.launch.helm import Helm
from console.launch.install import Launcher
from console.launch.recipes import LaunchPlan
from practice.api.injected_responses import InjectedResponse
from tests.chart.plans import CATALOGUE
from tests.practice.api_client import MAPS, ServedApi, serving

PLAN = LaunchPlan("ddp-smoke", "anna", "default", {"gpus": 8})
SECRETS = "/api/v1/namespaces/default/secrets"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helming, "_REMOVAL_PAUSES", (0.0, 0.0, 0.0))


async def left(api: ServedApi) -> list[str]:
    found = [item for path in (MAPS, SECRETS, JOBSETS) for item in (await api.get(path)).body["items"]]
    return [item["metadata"]["name"] for item in found if item["metadata"]["name"] != "kube-root-ca.crt"]


async def launch(folder: Path) -> None:
    connection = Connection(load(folder / "kubeconfig").target())
    try:
        launcher = Launcher(CATALOGUE, Helm(connection.client.login), connection.client)
        await launcher.helm.install(
            CATALOGUE.chart, CATALOGUE.chart_values(PLAN), name=PLAN.name, namespace=PLAN.namespace, labels={}
        )
    finally:
        await connection.close()


async def test_what_was_made_before_a_refusal_is_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.server.faults.append(InjectedResponse(500, path="/jobsets", method="PATCH", times=9))
        with pytest.raises(ConsoleError, match="anna could not be installed"):
            await launch(tmp_path)
        assert api.server.faults[0].times < 9
        assert await left(api) == []


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_a_server_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.server.faults += [
            InjectedResponse(500, path="/jobsets", method="PATCH", times=9),
            InjectedResponse(500, path="/secrets", method="DELETE", times=1),
        ]
        with pytest.raises(ConsoleError, match="anna could not be installed"):
            await launch(tmp_path)
        assert await left(api) == []


@pytest.mark.slow(reason="a practice cluster runs a job")
async def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.server.faults += [
            InjectedResponse(500, path="/jobsets", method="PATCH", times=9),
            InjectedResponse(500, path="/", method="DELETE", times=99),
            InjectedResponse(500, path="/secrets", method="PUT", times=99),
        ]
        with pytest.raises(ReleaseFailed) as raised:
            await launch(tmp_path)
        assert raised.value.half_made == ("default", "anna")
        assert raised.value.hint == "Stop anna again when the cluster answers: a4 stop anna"
        assert "removing what was made failed too" in raised.value.message
        api.server.faults.clear()
        await Helm(Login(load(tmp_path / "kubeconfig").target())).uninstall(name="anna", namespace="default")
        assert await left(api) == []


async def test_a_server_that_is_gone_before_the_launch_has_nothing_to_remove(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.server.stop()
        with pytest.raises(Unreachable):
            await launch(tmp_path)
