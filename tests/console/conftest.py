"""An API server that answers as a test says, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from console.kube.client import Client
from tests.apiserver import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as started:
        yield started


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with server.client() as opened:
        yield opened
