"""Results of nccl-tests: rows of a table, with what each half measured."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class Half(msgspec.Struct, frozen=True):
    """One half (out-of-place or in-place) of a row."""

    time_us: float | None
    """Microseconds."""
    algbw: float | None
    """GB/s."""
    busbw: float | None
    """GB/s: algbw times the factor of the collective, comparable over rank counts."""
    wrong: int | None
    """Wrong elements; None where the test does not check."""


class Row(msgspec.Struct, frozen=True):
    """One message size of a test; a log may hold a million of them, and these are made four times as fast."""

    size: int
    """Bytes."""
    count: int
    """Elements."""
    type: str
    redop: str | None = None
    root: int | None = None
    out_of_place: Half | None = None
    in_place: Half | None = None

    @property
    def best_busbw(self) -> float | None:
        """GB/s, the better half."""
        values = [half.busbw for half in (self.out_of_place, self.in_place) if half and half.busbw is not None]
        return max(values, default=None)


@dataclass(frozen=True, slots=True)
class NcclTest:
    """One run of one test program, as far as it has printed."""

    program: str | None = None
    version: str | None = None
    ranks: int | None = None
    rows: tuple[Row, ...] = ()
    avg_busbw: float | None = None
    """GB/s, the footer's mean over all rows and both halves; None until it is printed."""
    out_of_bounds: int | None = None
    """Failed checks summed over processes; None until the footer is printed."""
    ok: bool | None = None
    """None: not checked, or rows were not read, so that nothing can be said of it."""
    finished: bool = False
    error: str | None = None

    @property
    def peak_busbw(self) -> float | None:
        """GB/s, the best of any row and half."""
        return max((row.best_busbw for row in self.rows if row.best_busbw is not None), default=None)
