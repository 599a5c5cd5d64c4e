"""From options to a session: on the person's cluster, or on a practice cluster made for the occasion."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from console.practice.child import PracticeProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator

    from console.session import Session
    from screens.cli.options import Options


@contextmanager
def practice_cluster(options: Options) -> Iterator[PracticeProcess | None]:
    """A practice cluster for as long as the block runs, None where a real cluster is meant.

    It starts in a process of its own and the block begins at once; who needs it waits for its kubeconfig.
    """
    if not options.demo:
        yield None
        return
    practice = PracticeProcess.start(speed=options.demo_speed or 1.0, seed=options.seed)
    try:
        yield practice
    finally:
        practice.stop()


@asynccontextmanager
async def connected(options: Options, kinds: Collection[str]) -> AsyncIterator[Session]:
    """A session that watches only these kinds, closed at the end."""
    from console.session import Session  # the Kubernetes client: half a second that the console does not wait for

    with practice_cluster(options) as practice:
        kubeconfig = await asyncio.to_thread(practice.kubeconfig) if practice else None
        session = await Session.open(options.settings(kubeconfig), kinds=kinds)
        try:
            yield session
        finally:
            await session.close()
