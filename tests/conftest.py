"""Fixtures of more than one folder: the lab, one for the whole run, started when the first test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.control_plane import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with Lab() as running:
        yield running
