"""Rows of an nccl-tests table that follow each other, read together: columns out of bytes, no object for a row.

Cost: a microsecond a row as long as nothing stands between them; twice as much where only a pattern tells the rows
from what does.
"""

from __future__ import annotations

import re
from array import array
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING

from console.models.nccl_rows import PackedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PIECE = 1 << 14
"""Bytes that are tried at once."""
_TYPES = {
    word.encode(): word
    for word in (
        *("float", "half", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2", "int8", "int32", "int64"),
        *("uint8", "uint32", "uint64"),
    )
}
_REDOPS = {word.encode(): word for word in ("sum", "prod", "max", "min", "avg", "none")}
_FIGURES = rb"[ \t]+(\d{1,20}(?:\.\d{0,20})?)"
_ROW = re.compile(
    rb"[ \t]*(\d+)[ \t]+(\d+)[ \t]+(float|half|double|bfloat16|u?int(?:8|32|64)|fp8_e4m3|fp8_e5m2)[ \t]+"
    rb"(sum|prod|max|min|avg|none)"
    rb"[ \t]+(-?\d+)" + 2 * (3 * _FIGURES + rb"[ \t]+(\d+|N/A)") + rb"[ \t]*\r?\n"
)
_NO_ROW = re.compile(rb"\n(?![ \t]*\d+[ \t]+\d+[ \t]+[a-z])")
"""Before a line that cannot be one."""
_END = b"|"
"""What is put at the end of each row, to see that all have as many words."""
_WIDTH = 14
_COUNTS, _FIGURE_COLUMNS, _WRONG = (0, 1), (5, 6, 7, 9, 10, 11), (8, 12)
_WORDED = (2, 3, 4, *_WRONG)
_UNLETTERED = b"0123456789. \t\n"
"""What numbers and the blanks between them consist of."""


def rows_at(block: bytes, at: int) -> tuple[int, PackedRows | None]:
    """Rows of today's tables that follow each other there, and where they end; None if there are none."""
    if _ROW.match(block, at) is None:
        return at, None
    found = _NO_ROW.search(block, at, at + _PIECE)
    end = found.end() if found else block.rfind(b"\n", at, at + _PIECE) + 1
    columns = _columns(block[at:end])
    rows = _packed(columns) if columns else None
    if rows is None:
        end, columns = _matched(block, at)
        rows = _packed(columns)
    return (end, rows) if rows else (at, None)


def _columns(piece: bytes) -> Sequence[Sequence[bytes]] | None:
    """The columns of rows, if that is all there is."""
    words = piece.replace(b"\n", b" |\n").split()
    size = len(words) // _WIDTH
    columns = [words[at::_WIDTH] for at in range(_WIDTH)]
    if len(words) != size * _WIDTH or columns[-1].count(_END) != size:
        return None
    letters = b"".join(chain.from_iterable(columns[at] for at in _WORDED)).translate(None, _UNLETTERED)
    if len(piece.translate(None, _UNLETTERED)) != len(letters) + piece.count(b"\r\n"):
        return None  # some stand in a number
    return columns


def _matched(block: bytes, at: int) -> tuple[int, Sequence[Sequence[bytes]]]:
    """The columns of the rows that begin there, and where they end."""
    rows, end = [], at
    while found := _ROW.match(block, end):
        rows.append(found.groups())
        end = found.end()
    return end, list(zip(*rows, strict=True))


def _packed(columns: Sequence[Sequence[bytes]]) -> PackedRows | None:
    """The rows with these columns; None if some word is not what it has to be there."""
    kind, redop, root, *wrong = (columns[at] for at in _WORDED)
    try:
        counts = array("q", list(map(int, chain.from_iterable(columns[at] for at in _COUNTS))))
        figures = array("d", list(map(float, chain.from_iterable(columns[at] for at in _FIGURE_COLUMNS))))
        words = [_read(kind, _TYPES.__getitem__), _read(redop, _REDOPS.__getitem__), _read(root, _number)]
        words += [_read(column, _wrong) for column in wrong]
    except (KeyError, ValueError, OverflowError):
        return None
    return PackedRows(len(kind), counts, figures, words) if isfinite(sum(figures)) else None


def _number(word: bytes) -> int:
    if not word.removeprefix(b"-").isdigit():
        raise ValueError(word)
    return int(word)


def _wrong(word: bytes) -> int | None:
    return None if word == b"N/A" else _number(word)


def _read(column: Sequence[bytes], read: Callable[[bytes], object]) -> tuple[object, ...]:
    """The values of a column, each different word read once; one value if all are the same."""
    if column.count(column[0]) == len(column):
        return (read(column[0]),)
    known = {each: read(each) for each in set(column)}
    return tuple(map(known.__getitem__, column))
