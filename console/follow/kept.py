"""What of a job's log is on the disk: its folder, the lines in it, and how its ranks ended."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from console.spool.part import Part
from console.spool.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from console.models.failure import Ending
    from console.models.pod import Pod
    from console.spool.shelf import JobNote


class Kept:
    """The folder of one job, once it is known which job it is; of a disk that takes nothing it is said why."""

    def __init__(self) -> None:
        self._shelf: Shelf | None = None
        self.trouble = ""
        """Why lines are not kept; empty: they are."""
        self._told: set[tuple[int, int, str, str]] = set()

    @property
    def note(self) -> JobNote | None:
        """Which job the folder is about."""
        return self._shelf.note if self._shelf is not None else None

    async def endings(self) -> tuple[Ending, ...]:
        """How ranks ended, as far as it was written down."""
        return await asyncio.to_thread(self._shelf.endings) if self._shelf is not None else ()

    async def open(self, folder: Path, note: JobNote) -> list[Part]:
        """The folder of that job, to write in; gives what is in it."""
        self._shelf = None
        with self.refusals():
            shelf = await asyncio.to_thread(Shelf.open, folder, note)
            parts = await asyncio.to_thread(lambda: list(shelf.parts()))
            told = await asyncio.to_thread(shelf.endings)
            self._told = {(each.attempt, each.rank, each.pod, each.cause) for each in told}
            self._shelf = shelf
            return parts
        return []

    async def read(self, shelf: Shelf) -> list[Part]:
        """The folder of a job that is gone; gives what is in it."""
        self._shelf = shelf
        return await asyncio.to_thread(lambda: list(shelf.parts()))

    async def tell(self, ending: Ending) -> None:
        """Write down how a rank ended, once."""
        name = ending.attempt, ending.rank, ending.pod, ending.cause
        if name in self._told:
            return
        self._told.add(name)
        if self._shelf is not None:
            with self.refusals():
                await asyncio.to_thread(self._shelf.tell, ending)

    async def part(self, kept: Part | None, rank: int, pod: Pod, container: str) -> Part:
        """Where the lines of a container go: behind those that are kept of it, if it is this console that writes."""
        part = Part(rank, attempt=pod.attempt, pod=pod.name, container=container, uid=pod.uid)
        shelf = self._shelf
        if shelf is not None:
            with self.refusals():
                if kept is not None and not shelf.private:
                    await asyncio.to_thread(kept.mend)
                    kept.pod = pod.name
                    return kept
                part.file = await asyncio.to_thread(shelf.place, rank, pod.attempt, container, pod.uid)
        return part

    async def write(self, parts: Iterable[Part]) -> bool:
        """Write what waits in these; whether the disk took it."""

        def write_all(waiting: list[Part]) -> None:
            for part in waiting:
                part.write()

        waiting = [part for part in parts if part.pending]
        if not waiting:
            return True
        with self.refusals():
            await asyncio.to_thread(write_all, waiting)
            self.trouble = ""
            return True
        return False

    async def close(self) -> None:
        """Let the folder go."""
        if self._shelf is not None:
            await asyncio.to_thread(self._shelf.close)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """What the disk refuses is said, and following goes on."""
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            self.trouble = f"Not kept on disk: {why[:1].lower()}{why[1:]}; following goes on"
