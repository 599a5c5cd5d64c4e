"""Every NCCL test that was seen to its end, kept in a file of one JSON object a line; consoles share it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.folders import make_private
from console.models.nccl_kept import MeasuredTest, NodeBandwidth, by_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 2000
"""Tests that are kept; of more the oldest go."""
LARGE = 24 << 20
"""Bytes from which the file is looked through for what may go."""


def usual_place() -> Path:
    """Where tests are kept: in the folder for state of the XDG rules."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state and Path(state).is_absolute() else Path.home() / ".local" / "state"
    return home / "a4" / "nccl-tests.jsonl"


class KeptTests:
    """The tests of one file. It never stops a measurement: what is wrong with the file is a sentence in `note`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.note = ""
        """What is wrong with the file; empty: nothing."""
        self._known: dict[tuple[str, int, int, int], MeasuredTest] = {}
        self._stamp: tuple[int, int] | None = None
        """Size and time of the file as last read."""
        self._nodes: dict[str, NodeBandwidth] = {}

    @property
    def tests(self) -> tuple[MeasuredTest, ...]:
        """Those that were read last, the newest first."""
        return tuple(sorted(self._known.values(), key=lambda each: -each.at))

    @property
    def nodes(self) -> dict[str, NodeBandwidth]:
        """The bandwidth of each node, from the tests that were read last."""
        return self._nodes

    async def read(self) -> tuple[MeasuredTest, ...]:
        """All tests, as the file has them now."""
        await asyncio.to_thread(self._read)
        return self.tests

    async def keep(self, tests: Iterable[MeasuredTest]) -> None:
        """Keep these, if they are not kept already."""
        fresh = {each.name: each for each in tests if self._known.get(each.name) != each}
        if fresh:
            self._known |= fresh
            self._nodes = by_node(self._known.values())
            await asyncio.to_thread(self._append, list(fresh.values()))

    def _read(self) -> None:
        try:
            status = self.place.stat()
            stamp = status.st_size, status.st_mtime_ns
            if stamp == self._stamp:
                return
            lines = self.place.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            self.note = f"Earlier NCCL tests cannot be read: {self.place} ({error.strerror})."
            return
        known = {each.name: each for line in lines if (each := _decoded(line)) is not None}
        self._known = known | {name: each for name, each in self._known.items() if name not in known}
        self._stamp, self.note = stamp, ""
        self._nodes = by_node(self._known.values())

    def _append(self, tests: list[MeasuredTest]) -> None:
        data = b"".join(msgspec.json.encode(each) + b"\n" for each in tests)
        try:
            make_private(self.place.parent)
            with _alone(self.place):
                if self.place.exists() and self.place.stat().st_size > LARGE:
                    self._trim()
                with open(os.open(self.place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as out:  # noqa: PTH123
                    out.write(data)
        except OSError as error:
            self.note = f"NCCL tests are remembered only until the console ends: {self.place} ({error.strerror})."

    def _trim(self) -> None:
        lines = self.place.read_bytes().splitlines(keepends=True)[-MOST // 2 :]
        fresh = self.place.with_suffix(f".{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
            out.writelines(lines)
        fresh.replace(self.place)


def _decoded(line: bytes) -> MeasuredTest | None:
    with suppress(msgspec.DecodeError):  # a line that a crash cut, or of a later a4
        return msgspec.json.decode(line, type=MeasuredTest)
    return None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    with open(os.open(place.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600), "rb+") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
