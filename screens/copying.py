"""Copies from and to pods, from the pages that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.modals.copy import CopyDialog

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.models.copying import CopyProgress, CopyReport
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine

    Listener = Callable[[CopyProgress], None]


async def fetch_from_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """A dialog that copies from a rank."""
    await fetch_from_pod(screen, line.jobset.namespace, rank.name, f"rank {rank.number} of {line.jobset.name}")


async def send_to_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """A dialog that copies to a rank."""
    await send_to_pod(screen, line.jobset.namespace, rank.name, f"rank {rank.number} of {line.jobset.name}")


async def fetch_from_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from a pod to this machine."""
    container = container or _main(screen, namespace, pod)

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await screen.session.copies.fetch(
            namespace, pod, source, target, container=container, where=where, progress=progress
        )

    dialog = CopyDialog(f"Copy from {where}", ("Path there", "To here"), perform, target="./")
    await screen.app.push_screen_wait(dialog)


async def send_to_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from this machine to a pod."""
    container = container or _main(screen, namespace, pod)

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await screen.session.copies.send(
            namespace,
            pod,
            source,
            target,
            container=container,
            where=where,
            progress=progress,
        )

    dialog = CopyDialog(f"Copy to {where}", ("Path here", "To there"), perform, target="/tmp/")
    await screen.app.push_screen_wait(dialog)


def _main(screen: LiveScreen, namespace: str, pod: str) -> str:
    found = screen.app.fleet.pods.get((namespace, pod))
    return found.main.name if found and found.main else ""
