"""A log read while it arrives: what programs printed into it, as tables of NCCL and steps of training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.parsers.launcher_end import TAIL, launcher_end
from console.parsers.nccl import NcclParser
from console.parsers.nccl_json import parse_nccl_json
from console.parsers.training import TrainingParser

if TYPE_CHECKING:
    from console.models.nccl import NcclTest
    from console.models.training import TrainingRun
    from console.models.unreadable import Unreadable

_LARGEST_JSON = 32 << 20
"""Bytes of a file of JSON that are kept until its end."""


class LogReading:
    """Reads one log, a piece at a time."""

    def __init__(self) -> None:
        self._nccl = NcclParser()
        self._training = TrainingParser()
        self._json: bytearray | None = bytearray()
        """All of it, as long as it may be one JSON object."""
        self._from_json: NcclTest | None = None
        self._tail = b""

    @property
    def nccl(self) -> tuple[NcclTest, ...]:
        """Tests so far, in the order they began."""
        return (self._from_json,) if self._from_json else self._nccl.tests

    @property
    def training(self) -> tuple[TrainingRun, ...]:
        """Runs so far, in the order they began."""
        return self._training.runs

    @property
    def unreadable(self) -> dict[str, Unreadable]:
        """What could not be read though it looks like a row ("nccl") or a step ("training")."""
        told = {"nccl": self._nccl.unreadable, "training": self._training.unreadable}
        return {what: each for what, each in told.items() if each is not None}

    @property
    def launcher_end(self) -> str:
        """What torchrun or mpirun says of a rank that failed or of an interruption, at the end; mostly nothing."""
        return launcher_end(self._tail)

    def feed(self, data: bytes) -> bool:
        """Reads on; whether that changed anything. A line counts once its end has come."""
        self._keep(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else self._tail[len(data) - TAIL :] + data
        changed = self._nccl.feed(data), self._training.read(data)
        return any(changed)

    def close(self) -> bool:
        """Reads what is left without a line end; whether that changed anything."""
        self._from_json = parse_nccl_json(bytes(self._json)) if self._json else None
        changed = self._nccl.close(), self._training.close()
        return any(changed) or self._from_json is not None

    def _keep(self, data: bytes) -> None:
        if self._json is None:
            return
        self._json += data if self._json else data.lstrip()
        if (self._json and self._json[:1] != b"{") or len(self._json) > _LARGEST_JSON:
            self._json = None
