"""A practice cluster for each module that asks for one, and commands on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from practice.child import PracticeProcess
from tests.screens.cli.commands import Commands


@pytest.fixture(scope="module")
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Of a practice cluster that runs as fast as the module's SPEED says."""
    practice = PracticeProcess.start(speed=getattr(request.module, "SPEED", 20.0))
    try:
        yield practice.kubeconfig()
    finally:
        practice.stop()


@pytest.fixture
def a4(kubeconfig: Path, capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(kubeconfig, capfd)
