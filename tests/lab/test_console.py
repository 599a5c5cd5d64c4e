"""The console on the real control plane: launched from the form, admitted, its table read, stopped without a trace."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic

import pytest

from console.connection_settings import Settings
from console.kube.kubeconfig import load
from console.kube.login import Login
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet
from console.launch.helm import Helm
from screens.app import ConsoleApp
from screens.dialogs.launch import LaunchLook
from screens.dialogs.question import Confirm
from screens.pages.job import JobScreen
from screens.pages.launch import LaunchScreen
from screens.widgets.charts.nccl_panel import NcclPanel
from tests.lab.control_plane import Lab

RECORDING = Path(__file__).parents[2] / "practice/data/nccl_all_reduce_h200x4.txt"
NAME = "form-nccl"
NAMESPACE = "default"
KINDS_OF_A_RELEASE = "jobsets,jobs,pods,services,configmaps,secrets,workloads.kueue.x-k8s.io"
pytestmark = pytest.mark.lab


async def until(what: str, seen: Callable[[], object], limit: float = 60) -> None:
    try:
        async with asyncio.timeout(limit):
            while not seen():  # noqa: ASYNC110 - what is waited for is on the screen, which has no event
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {limit:.0f} s: {what}") from None


def left(lab: Lab) -> list[str]:
    """Objects of the release, as `kubectl get` names them; workloads carry the JobSet's name in their own."""
    names = lab.kubectl("get", KINDS_OF_A_RELEASE, "-n", NAMESPACE, "-o", "name").splitlines()
    return [name for name in names if NAME in name]


@pytest.fixture
async def nothing_stays(lab: Lab) -> AsyncIterator[None]:
    """A test that fails half-way takes its release along: the other tests share this control plane."""
    yield
    helm = Helm(Login(load(lab.kubeconfig).target()))
    if any(release.name == NAME for release in await helm.list_releases("a4", NAMESPACE)):
        await helm.uninstall(name=NAME, namespace=NAMESPACE)


@pytest.mark.usefixtures("nothing_stays")
async def test_the_main_job_from_the_form_to_nothing_left(lab: Lab) -> None:
    app = ConsoleApp(Settings(kubeconfig=lab.kubeconfig))

    def fleet() -> Fleet:
        return app.fleet

    def job() -> JobSet | None:
        return fleet().jobsets.get((NAMESPACE, NAME))

    async with app.run_test(size=(140, 42)) as pilot:
        await until("the first picture", lambda: fleet().nodes and fleet().local_queues)
        await pilot.press("5")
        page = app.screen
        assert isinstance(page, LaunchScreen)
        await until("the form", lambda: page.form.texts.get("name"))
        await pilot.press("enter")
        while page.form.cursor_path != "name":
            await pilot.press("up")
        await pilot.press("end", "ctrl+u", *NAME)
        while page.form.cursor_path != "gpus":
            await pilot.press("down")
        await pilot.press("end", "ctrl+u", "1", "6")
        await pilot.pause()
        assert page.form.texts["queue"], "the form offers a queue of the cluster"
        await pilot.press("ctrl+s")
        await until("the look at what will be created", lambda: isinstance(app.screen, LaunchLook))
        look = app.screen
        assert isinstance(look, LaunchLook)
        await until("the end of its checks", lambda: look.launches_from and monotonic() >= look.launches_from)
        await pilot.press("enter")
        await until("the job's page", lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted)
        opened = app.screen
        assert isinstance(opened, JobScreen)
        panel = opened.query_one(NcclPanel)

        await until("admission and running ranks", lambda: (found := job()) and found.state is JobState.RUNNING)
        pods = [pod for pod in fleet().pods.values() if pod.jobset == NAME]
        assert sorted((pod.completion_index, pod.gpus, bool(pod.node)) for pod in pods) == [(0, 8, True), (1, 8, True)]
        first = next(pod for pod in pods if pod.completion_index == 0)
        await pilot.press("b")
        lab.logs.append(NAMESPACE, first.name, "workload", RECORDING.read_text().splitlines())
        await until("the table", lambda: panel.test and panel.test.finished)
        assert panel.test is not None
        assert len(panel.test.rows) == 14
        assert panel.test.avg_busbw == pytest.approx(275.232, abs=0.01)

        await pilot.press("x")
        await until("the question", lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until("the end of the job", lambda: job() is None)
        await until("the end of its pods", lambda: not any(pod.jobset == NAME for pod in fleet().pods.values()))
        await app.action_quit()
    for _ in range(100):
        if not left(lab):
            break
        await asyncio.sleep(0.2)
    assert left(lab) == []
