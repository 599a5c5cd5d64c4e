"""A pod for every test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.launchers.sandbox import Sandbox

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pod(tmp_path: Path) -> Sandbox:
    """Index 0 of two nodes."""
    return Sandbox(tmp_path / "pod")


@pytest.fixture
def worker(tmp_path: Path) -> Sandbox:
    """Index 1 of two nodes."""
    return Sandbox(tmp_path / "pod", index=1)
