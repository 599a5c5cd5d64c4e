"""Practice Google by itself, and a login that reaches it with Google's own client libraries, on the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from console.google.api.calls import GoogleSession
from practice.cluster import PracticeCluster
from practice.google.cloud import PROJECT, PracticeGoogle
from practice.google.server import GoogleServer

SPEED = 200.0
TOKEN = "practice"


@asynccontextmanager
async def practice_google(*, speed: float = SPEED) -> AsyncIterator[tuple[PracticeGoogle, GoogleSession]]:
    """The world behind the services, to be changed by the test, and how the console reaches them.

    The machines of the practice cluster stand in `world.storage`; long operations run `speed` times faster than life.
    """
    cluster = PracticeCluster(scene=False, speed=speed)
    cluster.simulate_past()
    cluster.clock.start_real_time()
    world = PracticeGoogle(cluster.storage, cluster.clock, server="https://127.0.0.1:6443", authority=b"none")
    server = GoogleServer(world, TOKEN)
    await server.start()
    reach = GoogleSession.from_practice({"grpc": server.grpc, "http": server.http, "token": TOKEN, "project": PROJECT})
    try:
        yield world, reach
    finally:
        await reach.close()
        await server.stop()
        cluster.plane.stop()
        await cluster.runtime.close()
