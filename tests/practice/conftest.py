"""What the tests of the practice cluster share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.practice.api_client import ServedApi, serving
from tests.practice.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ServedApi]:
    async with serving(tmp_path) as served:
        yield served
