"""Pieces of a log of which all lines are like the learned one before them, taken at once; the rest is read by lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.parsers.blocks import line_end
from console.parsers.training_known import BY_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from console.models.training import Bar
    from console.parsers.training_known import Epochs
    from console.parsers.training_layout import Layout
    from console.parsers.training_run import Growing

_PIECE = 1 << 13
"""Bytes that are tried at once."""
_WORTH = 8
"""The part of a piece that has to be such lines: else each odd line between them would cost the search of a piece."""


def unlike(block: bytes, take: Callable[[bytes], int]) -> Iterator[tuple[int, bytes]]:
    """Pieces which have to be read by lines, and where they begin; `take` says how much of a piece it took."""
    at, size = 0, len(block)
    while at < size:
        end = line_end(block, at + _PIECE)
        taken = take(block[at:end])
        if 0 < taken < end - at:
            end = line_end(block, at + taken)
        if at + taken < end:
            yield at + taken, block[at + taken : end]
        at = end


def rows(
    piece: bytes, layout: Layout, epochs: Epochs, runs: Mapping[str, Growing], bar: Bar | None
) -> tuple[int, Growing | None]:
    """How many bytes of that piece are such lines, and the run to which they were added; 0 if they cannot be.

    They can be if there is no other run whose steps they might be, and each step comes after the one before it.
    """
    run = next(iter(runs.values())) if len(runs) == 1 else None
    if run is None or run.finished or run.format != layout.format:
        return 0, None
    taken, found = layout.front(piece)
    if not found or taken < len(piece) // _WORTH:
        return 0, None
    columns = layout.columns(found)
    if columns is None:
        return 0, None
    if not layout.numbered:
        followed = run.follow_unnumbered(layout.packed(columns, len(found)), bar)
    elif layout.format in BY_EPOCH and " epoch" in columns:
        followed = epochs.all_through(columns, layout, lambda more: run.follow(more, layout.label))
    else:
        followed = run.follow(layout.packed(columns, len(found)), layout.label)
    return (taken, run) if followed else (0, None)
