"""Formats numbers as ranges."""

from __future__ import annotations

from collections.abc import Iterable


def format_ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers as ranges: "0-6, 9"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)
