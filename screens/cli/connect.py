"""From options to a session, on the person's cluster or a practice cluster; or, without any, to Google Cloud alone."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from console.errors import BadKubeconfig, ConsoleError, NotFound
from screens.cli.output import MessageStyle, warn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator

    from console.google.services import Google
    from console.session import Session
    from practice.child import PracticeProcess
    from screens.cli.arguments import Options


@contextmanager
def practice_cluster(options: Options) -> Iterator[PracticeProcess | None]:
    """A practice cluster for as long as the block runs, None where a real cluster is meant.

    It starts in a process of its own and the block begins at once; who needs it waits for its kubeconfig.
    """
    if not options.demo:
        yield None
        return
    from practice.child import PracticeProcess

    practice = PracticeProcess.start(speed=options.demo_speed or 1.0, seed=options.seed)
    try:
        yield practice
    finally:
        practice.stop()


@asynccontextmanager
async def open_session(
    options: Options, kinds: Collection[str], *, listed: bool = True, brief: bool = False
) -> AsyncIterator[Session]:
    """A session that watches only these kinds, closed at the end; `listed`: it begins once they are known; `brief`:
    it lists them once.
    """
    from console.session import Session  # the Kubernetes client: half a second that the console does not wait for

    with practice_cluster(options) as practice:
        kubeconfig = await asyncio.to_thread(practice.kubeconfig) if practice else None
        session = await Session.open(options.settings(kubeconfig), kinds=kinds, brief=brief)
        MessageStyle.namespace = session.watch.namespace_option(session.namespace)
        if session.watch.unverified:
            warn("The API server's certificate is not checked (insecure-skip-tls-verify): anybody could be it.")
        try:
            if kinds and listed:
                await session.wait_until_listed(*kinds)
            yield session
        except NotFound as error:
            if f"in namespace {session.namespace}" in error.message:
                await _require_namespace(session, error)
            raise
        finally:
            await session.close()


async def _require_namespace(session: Session, error: NotFound) -> None:
    """What is not found in a namespace may be so because there is no such namespace: then that is said."""
    try:
        await session.watch.require_namespace(session.namespace)
    except NotFound as missing:
        elsewhere = error.hint if "add -n" in error.hint else missing.hint
        raise NotFound(missing.message, elsewhere, status=404) from error
    except ConsoleError:
        return  # what was not found is what counts


@asynccontextmanager
async def google_of(options: Options) -> AsyncIterator[Google]:
    """Google Cloud, around a cluster where there is one; without a kubeconfig Google credentials are enough."""
    from console.google.services import Google

    try:
        async with open_session(options, ()) as session:
            yield session.google
    except BadKubeconfig:
        if options.context or options.kubeconfig or options.demo:
            raise
        alone = Google(read_only=options.read_only)
        try:
            yield alone
        finally:
            await alone.close()
