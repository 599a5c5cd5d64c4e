"""A stand-in for torch's data loader: batches come through a pipe, into which somebody else writes."""

from __future__ import annotations

import os


class DataLoader:
    def __init__(self, batches: int) -> None:
        self._read, self._write = os.pipe()
        os.write(self._write, b"." * batches)

    def _next_data(self) -> bytes:
        return os.read(self._read, 1)

    def __next__(self) -> bytes:
        return self._next_data()

    def __iter__(self) -> DataLoader:
        return self
