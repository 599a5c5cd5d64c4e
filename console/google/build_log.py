"""A build's log while it is written: out of Cloud Logging, or out of the log object in a bucket."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from console.errors import NotAllowed
from console.google.api.build import BuildEntries
from console.google.builds import BuildLine
from console.google.storage import GcsPlace, gcs_place

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.google.api.cloud_storage import Buckets
    from console.google.api.endpoints import Reach
    from console.google.builds import Build


class BuildLog:
    """Lines of one build; each look gives those that none before has given."""

    def __init__(self, reach: Reach, build: Build, buckets: Buckets | None) -> None:
        """`buckets`: where the log object is, if there is one."""
        self._entries = BuildEntries(reach, build.project, build.id)
        self._stored: StoredLog | None = None
        if buckets is not None:
            place = GcsPlace(gcs_place(build.log_bucket).bucket, f"log-{build.id}.txt")
            self._stored = StoredLog(buckets, place)
        self._by_entries = build.log_entries or self._stored is None

    async def more(self) -> AsyncGenerator[BuildLine, None]:
        """Out of Cloud Logging; where that may not be read, out of the bucket."""
        if self._by_entries:
            try:
                async with aclosing(self._entries.more()) as lines:
                    async for line in lines:
                        yield line
            except NotAllowed:
                if self._stored is None:
                    raise
                self._by_entries = False
        if not self._by_entries and self._stored is not None:
            async with aclosing(self._stored.more()) as lines:
                async for line in lines:
                    yield line


class StoredLog:
    """A log object, read on from where the last look ended."""

    def __init__(self, buckets: Buckets, place: GcsPlace) -> None:
        self._buckets, self._place = buckets, place
        self._at = 0
        self._rest = b""

    async def more(self) -> AsyncGenerator[BuildLine, None]:
        while came := await self._buckets.text(self._place, self._at):
            self._at += len(came)
            *lines, self._rest = (self._rest + came).split(b"\n")
            for line in lines:
                yield BuildLine(0.0, line.decode(errors="replace"))
