"""What the tests of the practice cluster's controllers share."""

from __future__ import annotations

import pytest

from tests.practice.world import World


@pytest.fixture
def world() -> World:
    return World()
