"""Fixtures of more than one folder: the lab, one for the whole run, started when the first test asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.lab.control_plane import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_xdist_auto_num_workers() -> int:
    """Two a core: what tests a screen waits for half of its time."""
    return min(2 * (os.cpu_count() or 1), 16)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes what the person who runs it has kept."""
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "A4_SSH_FOLDER"):
        os.environ[variable] = str(tmp_path_factory.mktemp(variable.lower()))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab() as running:
        yield running
