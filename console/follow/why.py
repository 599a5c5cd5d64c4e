"""Why a job failed: endings of now and of before, with the last lines from wherever they still are."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from console.errors import ConsoleError
from console.models.failure import FailureCard, each_once, endings, first_of
from console.parsers.failures import parse_failures
from console.parsers.secrets import Redactor
from console.parsers.stamps import text_of
from console.spool.shelf import kept_job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from console.follow.stream import OpenStream
    from console.models.failure import Ending
    from console.spool.part import Part
    from console.spool.shelf import Shelf
    from console.watched import WatchedCluster

LINES = 12
"""Last lines on the card."""
LOOKED = 400
"""Last lines that are looked through for failures that they name."""


async def card(
    cluster: WatchedCluster, streams: OpenStream, folder: Path, key: tuple[str, str], parts: Sequence[Part]
) -> FailureCard | None:
    """The card of a job; None if nothing ended badly. `parts`: its lines, if they are followed."""
    jobset = cluster.fleet.jobsets.get(key)
    shelf = await asyncio.to_thread(kept_job, folder, cluster.context, *key, jobset.uid if jobset else "")
    found = endings(jobset, cluster.fleet) if jobset else []
    found += await asyncio.to_thread(shelf.endings) if shelf else ()
    first = first_of(each_once(found))
    if first is None:
        return None
    texts = await _last_lines(streams, key[0], first[0], parts, shelf)
    named = parse_failures("\n".join(texts).encode())
    return FailureCard(*first, tuple(texts[-LINES:]), named)


async def _last_lines(
    streams: OpenStream, namespace: str, ending: Ending, parts: Sequence[Part], shelf: Shelf | None
) -> list[str]:
    """What the rank printed last in that attempt: as followed, as its pod still has it, or as it was kept."""
    found = _tail(ending, parts)
    if not found and ending.pod:
        with suppress(ConsoleError):  # the pod may be gone, and the card says the rest
            found = await _of_pod(streams, namespace, ending.pod)
    if not found and shelf is not None:
        found = _tail(ending, await asyncio.to_thread(lambda: list(shelf.parts())))
    return found


def _tail(ending: Ending, parts: Sequence[Part]) -> list[str]:
    for part in reversed(parts):
        if (part.rank, part.attempt) == (ending.rank, ending.attempt) and len(part):
            return [text.decode("utf-8", "replace") for text in part.texts(len(part) - LOOKED, len(part))]
    return []


async def _of_pod(streams: OpenStream, namespace: str, pod: str) -> list[str]:
    from console.cluster.given import Memory
    from console.cluster.logs import Wanted

    stream = streams(Wanted(namespace, pod, tail=LOOKED, follow=False), Memory(), Redactor().lines, -1)
    async with aclosing(stream.batches()) as batches:
        return [text_of(raw).decode("utf-8", "replace") async for batch in batches for _, raw in batch]
