"""A session beside practice Google, and the world that it asks: the real clients over real sockets."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from console.connection_settings import Settings
from console.session import Session
from practice.cluster import PracticeCluster
from practice.google.cloud import PracticeGoogle

SPEED = 200.0
"""How many times as fast as real time builds go."""


@asynccontextmanager
async def google(
    *, speed: float = SPEED, kinds: Collection[str] = (), read_only: bool = False
) -> AsyncIterator[tuple[Session, PracticeGoogle]]:
    """An empty practice cluster with its Google."""
    async with PracticeCluster(speed=speed, scene="empty") as cluster:
        settings = Settings(kubeconfig=cluster.kubeconfig, practice=True, read_only=read_only)
        session = await Session.open(settings, kinds=kinds)
        try:
            await session.google.account.open_session()
            assert cluster.google is not None
            session.google.images.poll_seconds = 0.02
            yield session, cluster.google.world
        finally:
            await session.close()
