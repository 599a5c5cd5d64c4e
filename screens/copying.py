"""Copies from and to pods, from the pages that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.modals.copy import CopyDialog

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.files.copies import ContainerCopies
    from console.models.copying import CopyProgress, CopyReport
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine

    Listener = Callable[[CopyProgress], None]


async def fetch_from_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """A dialog that copies from a rank."""
    await fetch_from_pod(screen, line.jobset.namespace, rank.name, f"pod {rank.number} of {line.jobset.name}")


async def send_to_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """A dialog that copies to a rank."""
    await send_to_pod(screen, line.jobset.namespace, rank.name, f"pod {rank.number} of {line.jobset.name}")


async def fetch_from_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from a pod to this machine."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await _copies(screen, namespace, pod, where, container).fetch(source, target, progress=progress)

    dialog = CopyDialog(f"Copy from {where}", ("Path there", "To here"), perform, target="./")
    await screen.app.push_screen_wait(dialog)


async def send_to_pod(screen: LiveScreen, namespace: str, pod: str, where: str, container: str = "") -> None:
    """A dialog that copies from this machine to a pod."""

    async def perform(source: str, target: str, progress: Listener) -> CopyReport:
        return await _copies(screen, namespace, pod, where, container).send(source, target, progress=progress)

    dialog = CopyDialog(f"Copy to {where}", ("Path here", "To there"), perform, target="/tmp/")
    await screen.app.push_screen_wait(dialog)


def _copies(screen: LiveScreen, namespace: str, pod: str, where: str, container: str) -> ContainerCopies:
    """Of that container; where none is named, of the one that does the work."""
    found = screen.app.fleet.pods.get((namespace, pod))
    main = found.main.name if found and found.main else ""
    return screen.session.copies.of(namespace, pod, container=container or main, where=where)
