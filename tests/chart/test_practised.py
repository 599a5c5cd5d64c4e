"""The practice cluster accepts every recipe in a dry run, as the real control plane does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from console.cluster.connection import Connection, load
from console.errors import Refused
from console.helm import Helm
from console.launch import Launcher
from console.models.launch import LaunchPlan, Value
from console.practice.child import PracticeProcess
from tests.chart.plans import CATALOGUE, PLANS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    practice = PracticeProcess.start()
    try:
        yield practice.kubeconfig()
    finally:
        practice.stop()


@pytest.fixture
async def launcher(kubeconfig: Path) -> AsyncIterator[Launcher]:
    connection = Connection(load(kubeconfig).target())
    yield Launcher(CATALOGUE, Helm(kubeconfig), connection.client)
    await connection.close()


@pytest.mark.parametrize("name", PLANS)
async def test_a_dry_run_of_the_kept_manifests_is_accepted(launcher: Launcher, name: str) -> None:
    """What is rendered is what the golden files hold; here the API judges it."""
    await launcher.check(replace(PLANS[name], namespace="default"))


async def test_a_release_nobody_may_make_is_refused_there_too(launcher: Launcher) -> None:
    values: dict[str, Value] = {"placement": {"tolerations": [{"operator": "Exists", "key": "no key!"}]}}
    with pytest.raises(Refused, match="tolerations"):
        await launcher.check(LaunchPlan("ddp-smoke", "anna", "default", values))
