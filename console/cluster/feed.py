"""One kind's changes, whatever the cluster serves and the account may read.

Finds the version that is served, waits for kinds that are not, and where a kind may not be listed in all namespaces,
follows it in one.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.cluster.watch import USUAL, Backoff, Change, HttpSource, Lost, follow
from console.errors import ConsoleError, NotAllowed, NotFound
from console.models.link import LinkState
from console.parsers.kinds import JOBSET, KUEUE, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.cluster.client import Client
    from console.cluster.discovery import Catalogue

_OPERATORS = {JOBSET: "JobSet", KUEUE: "Kueue"}


@dataclass(frozen=True, slots=True)
class Served:
    """From here on, changes come from this API version; `note` says what is left out."""

    version: str
    """Group and version, such as "kueue.x-k8s.io/v1beta2"."""
    note: str = ""


async def feed(
    client: Client,
    catalogue: Catalogue,
    kind: Kind,
    namespace: str,
    backoff: Backoff = USUAL,
) -> AsyncGenerator[Change | Served, None]:
    """Changes of one kind, for ever; `namespace` is where to look if not everywhere is allowed."""
    failures, where = 0, ""
    while True:
        try:
            version = await catalogue.version(kind)
        except ConsoleError as error:
            failures += 1
            yield Lost(error, _state(error))
            await asyncio.sleep(backoff.wait(error, failures))
            continue
        failures = 0
        if not version:
            yield Lost(_absent(kind), LinkState.ABSENT)
            await asyncio.sleep(backoff.refused)
            catalogue.forget()
            continue
        group = f"{kind.group}/{version}" if kind.group else version
        yield Served(group, f"only namespace {where}: listing {kind.plural} everywhere is not allowed" if where else "")
        source = HttpSource(client, kind.path(version, where), kind.plural)
        async with aclosing(follow(source, kind.reader, backoff)) as changes:
            async for change in changes:
                if isinstance(change, Lost):
                    if isinstance(change.error, NotAllowed) and kind.namespaced and not where:
                        where = namespace
                        break
                    if isinstance(change.error, NotFound):
                        catalogue.forget()
                        yield Lost(_absent(kind), LinkState.ABSENT)
                        await asyncio.sleep(backoff.first)
                        break
                    change = Lost(change.error, _state(change.error))
                yield change


def _state(error: ConsoleError) -> LinkState:
    return LinkState.FORBIDDEN if isinstance(error, NotAllowed) else LinkState.STALE


def _absent(kind: Kind) -> NotFound:
    operator = _OPERATORS.get(kind.group, kind.group)
    return NotFound(
        f"This cluster does not serve {kind.plural}: {operator} is not installed, or an older version of it.",
        f"Install {operator}, or work without it.",
        status=404,
    )
