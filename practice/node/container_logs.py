"""The output of containers, for later readers and for followers."""

from __future__ import annotations

import asyncio


class PodLog:
    """A container's log lines with their print times (epoch seconds); it only grows, until the container ends."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, bytes]] = []
        self.parts: set[int] = set()
        self.ended = False
        self._readers: list[asyncio.Future[None]] = []

    def add(self, moment: float, text: str) -> None:
        self.lines.append((moment, text.encode()))
        if self._readers:
            self._wake_readers()

    def add_partial(self, moment: float, text: str) -> None:
        """Print text that is only a part of a line, such as a frame of a progress bar."""
        self.parts.add(len(self.lines))
        self.add(moment, text)

    def end(self) -> None:
        """Close the log: no more lines come."""
        self.ended = True
        self._wake_readers()

    async def wait(self, seen_version: int) -> None:
        """Return once there are more than ``seen_version`` lines, or the log has ended."""
        while len(self.lines) <= seen_version and not self.ended:
            reader = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)
