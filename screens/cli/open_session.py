"""Opens a session from options, on a real or a practice cluster, or Google Cloud without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from console.errors import BadKubeconfig, ConsoleError, NotFound
from screens.cli.output import MessageStyle, warn

if TYPE_CHECKING:
    from console.google.services import GoogleServices
    from console.kube.watched_cluster import Selectors
    from console.session import Session
    from practice.child import PracticeProcess
    from screens.cli.arguments import Options

FIRST_REQUEST_SECONDS = 0.005  # seconds in which the first request is sent, if nothing else is done meanwhile
Connect = Callable[..., AbstractAsyncContextManager["Session"]]  # `open_session`, or what takes its place


@contextmanager
def practice_cluster(options: Options) -> Iterator[PracticeProcess | None]:
    """Run a practice cluster in a process during this block; None if a real cluster was chosen."""
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
    options: Options,
    kinds: Collection[str],
    *,
    waits: bool = True,
    is_brief: bool = False,
    selectors: Selectors | None = None,
    ahead: Callable[[], object] | None = None,
) -> AsyncIterator[Session]:
    """A session with the cluster during this block, which watches only the listed kinds of objects.

    `waits`: the block begins once all kinds are listed; `is_brief`: list once, without a watch; `selectors`: by kind;
    `ahead`: imports modules for the block, in a thread while the server answers.
    """
    from console.session import Session  # the Kubernetes client: half a second that the console does not wait for

    with practice_cluster(options) as practice:
        kubeconfig = await asyncio.to_thread(practice.kubeconfig) if practice else None
        session = await Session.open(options.settings(kubeconfig), kinds=kinds, is_brief=is_brief, selectors=selectors)
        MessageStyle.namespace = session.watch.namespace_if_not_default(session.namespace)
        if session.watch.unverified:
            warn("The API server's certificate is not checked (insecure-skip-tls-verify): anybody could be it.")
        beside = [asyncio.create_task(_name_slow_plugin(session))]
        if ahead is not None:
            beside.append(asyncio.create_task(_import_ahead(ahead)))
        try:
            if kinds and waits:
                await session.wait_until_listed(*session.watch.started_kinds)
            yield session
        except NotFound as error:
            if f"in namespace {session.namespace}" in error.message:
                await _require_namespace(session, error)
            raise
        finally:
            for task in beside:
                task.cancel()
            await session.close()


async def _import_ahead(function: Callable[[], object]) -> None:
    await asyncio.sleep(FIRST_REQUEST_SECONDS)
    await asyncio.to_thread(function)


async def _name_slow_plugin(session: Session) -> None:
    """Print the name of the credential plugin that the command waits for."""
    while True:
        await asyncio.sleep(0.5)
        if (late := session.watch.slow_plugin) is not None:
            await asyncio.sleep(0.5)  # whoever waits for a list ends with this sentence
            return warn(str(late))


async def _require_namespace(session: Session, error: NotFound) -> None:
    """Raise NotFound for the namespace if it does not exist, instead of the error for an object in it."""
    try:
        await session.watch.require_namespace(session.namespace)
    except NotFound as missing:
        elsewhere = error.hint if "add -n" in error.hint else missing.hint
        raise NotFound(missing.message, elsewhere, status=404) from error
    except ConsoleError:
        return  # what was not found is what counts


@asynccontextmanager
async def google_of(options: Options) -> AsyncIterator[GoogleServices]:
    """Google Cloud for the cluster, or by Google credentials alone if there is no kubeconfig."""
    from console.google.services import GoogleServices

    try:
        async with open_session(options, ()) as session:
            yield session.google
    except BadKubeconfig:
        if options.context or options.kubeconfig or options.demo:
            raise
        alone = GoogleServices(read_only=options.read_only)
        try:
            yield alone
        finally:
            await alone.close()
