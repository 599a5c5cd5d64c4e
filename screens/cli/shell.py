"""A shell in a rank, on this terminal; when its pod is replaced, in the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound, Unreachable
from console.models.replaced import Fate, fate
from screens.cli.asking import answer
from screens.cli.connect import connected
from screens.cli.output import warn
from screens.cli.ranks import KINDS, container_of, rank_named, running_pod, sentence_start, where

if TYPE_CHECKING:
    from console.models.pod import Pod
    from console.session import Session
    from screens.cli.options import Options

PATIENCE = 300.0
"""Seconds for which a replacing pod is waited for."""


async def shell(options: Options) -> int:
    """Open it; gives the shell's exit code."""
    async with connected(options, KINDS) as session:
        fleet = await session.listed(*KINDS)
        rank = rank_named(fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "no shell can be opened in it")
        while True:
            container = container_of(pod, options.container)
            try:
                code = await session.shell(
                    pod.namespace, pod.name, container=container, tmux=options.tmux, name=where(rank, options.job)
                )
                broken: ConsoleError | None = None
            except Unreachable as error:
                code, broken = error.exit_code, error
            if broken is None and (code == 0 or fate(session.fleet, pod) is Fate.HERE):
                return code
            warn(broken.message if broken else f"The shell ended with its pod (exit code {code}).")
            found = await replacing(session, pod, options)
            if found is None:
                return code
            pod = found


async def replacing(session: Session, pod: Pod, options: Options) -> Pod | None:
    """The pod to attach to next, once it runs; None if there is none, or the person has had enough."""
    warn("Waiting for the pod that takes its place; Ctrl-C ends this.")
    try:
        async with asyncio.timeout(PATIENCE):
            async for fleet in session.snapshots():
                try:
                    rank = rank_named(fleet, session.namespace, options.job, options.rank_text)
                    if fate(fleet, pod) is Fate.HERE:
                        found = pod
                    else:
                        found = running_pod(rank, options.job, "no shell can be opened in it")
                        if found.uid == pod.uid:
                            continue
                except NotFound as error:
                    if fate(fleet, pod) is Fate.OVER:
                        warn(f"Nothing takes its place: {error.message}")
                        return None
                    continue
                same = found.uid == pod.uid
                what = f"{sentence_start(rank, options.job)} is {'still there' if same else f'now {found.name}'}"
                return found if await answer(f"a4: {what}. Attach? [Y/n] ") in {"", "y", "yes"} else None
    except TimeoutError:
        warn(f"There was no running pod within {PATIENCE:.0f} s.")
    return None
