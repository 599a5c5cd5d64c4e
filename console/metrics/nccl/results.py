"""Results of nccl-tests: rows of a table with what each half measured, and tests as JSON, CSV and SVG."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from console.metrics.nccl.reference import reference_curve

if TYPE_CHECKING:
    from collections.abc import Sequence


class Half(msgspec.Struct, frozen=True):
    """One half (out-of-place or in-place) of a row."""

    time_us: float | None  # microseconds
    algbw: float | None  # GB/s
    busbw: float | None  # GB/s: algbw times the factor of the collective, comparable over rank counts
    wrong: int | None  # wrong elements; None where the test does not check


class Row(msgspec.Struct, frozen=True):
    """One message size of a test; a log may hold a million of them, and these are made four times as fast."""

    size: int  # bytes
    count: int  # Elements
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
    out_of_bounds: int | None = None  # failed checks summed over processes; None until the footer is printed
    ok: bool | None = None  # None: not checked, or rows were not read, so that nothing can be said of it
    finished: bool = False
    error: str | None = None

    @property
    def peak_busbw(self) -> float | None:
        """GB/s, the best of any row and half."""
        return max((row.best_busbw for row in self.rows if row.best_busbw is not None), default=None)


HALVES = ("out_of_place", "in_place")
_FIELDS = ("time_us", "algbw", "busbw", "wrong")
BAND = (0.9, 1.1)  # what counts as reaching the reference, as a share of it


def number(value: float | None) -> float | str | None:
    """As JSON says it: unknown is null; nan and inf are strings."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def nccl_json(test: NcclTest) -> dict[str, Any]:
    return {
        "program": test.program,
        "version": test.version,
        "ranks": test.ranks,
        "rows": [row_json(row) for row in test.rows],
        "avg_busbw": number(test.avg_busbw),
        "out_of_bounds": test.out_of_bounds,
        "ok": test.ok,
        "finished": test.finished,
        "error": test.error,
    }


def row_json(row: Row) -> dict[str, Any]:
    return {
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop,
        "root": row.root,
        "out_of_place": _half(row.out_of_place),
        "in_place": _half(row.in_place),
    }


def _half(half: Half | None) -> dict[str, Any] | None:
    if half is None:
        return None
    values = {"time_us": half.time_us, "algbw": half.algbw, "busbw": half.busbw}
    return {name: number(value) for name, value in values.items()} | {"wrong": half.wrong}


def rows_csv(tests: Sequence[NcclTest]) -> str:
    """A line for each size of each test."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["test", "program", "ranks", "size", "count", "type", "redop", "root"]
        + [f"{half}_{field}" for half in HALVES for field in _FIELDS]
    )
    for at, test in enumerate(tests, start=1):
        for row in test.rows:
            writer.writerow(
                [at, test.program, test.ranks, row.size, row.count, row.type, row.redop, row.root]
                + [
                    getattr(half, field) if (half := getattr(row, name)) else None
                    for name in HALVES
                    for field in _FIELDS
                ]
            )
    return out.getvalue()


def curve_svg(title: str, test: NcclTest, others: Sequence[tuple[str, NcclTest]] = (), *, compared: bool = True) -> str:
    """The curve of a test, beside those of others; with the A4 reference where it speaks of it."""
    from console.metrics.svg_chart import Line, line_chart  # for whoever wants the picture

    lines = []
    for name, each in (("", test), *others):
        for half in HALVES:
            points = [
                (float(row.size), value) for row in each.rows if (value := _busbw(row, half)) is not None and row.size
            ]
            if points:
                lines.append(Line(f"{name} {half.replace('_', '-')}".strip(), points, faint=bool(name), dots=not name))
    known = reference_curve(max((row.size for row in test.rows), default=0)) if compared else ()
    band = [(float(size), BAND[0] * value, BAND[1] * value) for size, value in known]
    return line_chart(
        title, lines, x="message size", y="busbw GB/s", log_x=True, from_zero=True, band=band, x_words=size_words
    )


def export_tests(
    kind: str,
    title: str,
    tests: Sequence[NcclTest],
    shown: NcclTest,
    others: Sequence[tuple[str, NcclTest]] = (),
    *,
    compared: bool = True,
) -> str:
    """The text of a file of that kind: "csv" and "json" of all tests, "svg" of the one that is shown."""
    if kind == "svg":
        return curve_svg(title, shown, others, compared=compared)
    if kind == "json":
        return json.dumps({"nccl": [nccl_json(test) for test in tests]}, indent=2) + "\n"
    return rows_csv(tests)


def _busbw(row: Row, half: str) -> float | None:
    found = getattr(row, half)
    return found.busbw if found else None


def size_words(amount: float) -> str:
    """A message size on an axis: "512", "64K", "2M"."""
    for factor, unit in ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if amount >= factor:
            return f"{amount / factor:.3g}{unit}"
    return f"{amount:.0f}"
