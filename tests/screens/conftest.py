"""What every test of the screens has for itself."""

from pathlib import Path

import pytest

from tests.fakes import FakeSession
from tests.screens.queue_scene import queue_scene


@pytest.fixture(autouse=True)
def own_state(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jobs of the same name in two tests are two jobs: what one has kept of its logs is not the other's.

    The commands share a practice cluster over a module, and so what is kept of it.
    """
    if request.path.parent.name != "cli":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def session(own_state: None) -> FakeSession:
    return FakeSession(queue_scene())
