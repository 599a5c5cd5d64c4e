"""A chart of lines as SVG text: what the panels export."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH, HEIGHT = 960, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 56, 56
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
"""Told apart by colour-blind eyes too; every second line is dashed besides."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name and its points in order."""

    name: str
    points: Sequence[tuple[float, float]]
    faint: bool = False  # drawn behind the others, thin
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Pin:
    """Something that happened at a place of the x axis."""

    x: float
    words: str


@dataclass(frozen=True, slots=True)
class Scale:
    """How values become pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    base: float = 10.0  # of a logarithmic scale: ticks are its powers

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(max(each, 1e-300)) if self.log else each for each in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((value - low) / ((high - low) or 1.0))

    def ticks(self) -> list[float]:
        """Round values between both ends."""
        if self.log:
            factor = self.base
            first = math.ceil(math.log(max(self.low, 1e-300), factor) - 1e-9)
            last = math.floor(math.log(max(self.high, 1e-300), factor) + 1e-9)
            every = max(1, (last - first) // 10)
            return [factor**power for power in range(first, last + 1, every)]
        raw = (self.high - self.low) / 6 or 1.0
        scale = 10.0 ** math.floor(math.log10(raw))
        step = next(each * scale for each in (1, 2, 2.5, 5, 10) if each * scale >= raw)
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
    band: Sequence[tuple[float, float, float]] = (),
    pins: Sequence[Pin] = (),
    x_words: Callable[[float], str] = "{:,.6g}".format,
) -> str:
    """The chart; `band` is (x, low, high) of what is expected."""
    points = [point for line in lines for point in line.points if not log_y or point[1] > 0]
    values = [value for _, value in points] + [value for _, low, high in band for value in (low, high)]
    places = [place for place, _ in points] + [place for place, *_ in band]
    low = 0.0 if from_zero else min(values, default=0.0)
    across = Scale(min(places, default=0.0), max(places, default=1.0), _LEFT, WIDTH - _RIGHT, log_x, base=2.0)
    up = Scale(low, max(values, default=1.0), HEIGHT - _BOTTOM, _TOP, log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="#222"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(title)}</text>',
        *_axes(across, up, x, y, x_words),
    ]
    if band:
        around = [(place, high) for place, _, high in band] + [(place, low) for place, low, _ in reversed(band)]
        parts.append(f'<polygon points="{_path(around, across, up)}" fill="#999" fill-opacity="0.2"/>')
    parts += [_line(line, number, across, up, log_y=log_y) for number, line in enumerate(lines)]
    parts += [_pin(pin, across) for pin in pins if across.low <= pin.x <= across.high]
    parts += _legend(lines)
    return "\n".join([*parts, "</svg>\n"])


def _axes(across: Scale, up: Scale, x: str, y: str, x_words: Callable[[float], str]) -> list[str]:
    base = HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT} {_TOP}V{base}H{WIDTH - _RIGHT}" fill="none" stroke="#888"/>']
    for tick in up.ticks():
        at = up(tick)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:,.4g}</text>')
    for tick in across.ticks():
        parts.append(
            f'<text x="{across(tick):.1f}" y="{base + 18}" text-anchor="middle">{escape(x_words(tick))}</text>'
        )
    parts.append(f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 10}" text-anchor="end">{escape(x)}</text>')
    parts.append(f'<text x="8" y="{_TOP - 10}">{escape(y)}</text>')
    return parts


def _path(points: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(place):.1f},{up(value):.1f}" for place, value in points)


def _line(line: Line, number: int, across: Scale, up: Scale, *, log_y: bool) -> str:
    points = [point for point in line.points if math.isfinite(point[1]) and (not log_y or point[1] > 0)]
    colour = COLOURS[number % len(COLOURS)]
    style = 'stroke-opacity="0.35" stroke-width="1"' if line.faint else 'stroke-width="2"'
    dash = ' stroke-dasharray="6 3"' if number % 2 and not line.faint else ""
    drawn = f'<polyline points="{_path(points, across, up)}" fill="none" stroke="{colour}" {style}{dash}/>'
    if line.dots:
        drawn += "".join(
            f'<circle cx="{across(place):.1f}" cy="{up(value):.1f}" r="3" fill="{colour}"/>' for place, value in points
        )
    return drawn


def _pin(pin: Pin, across: Scale) -> str:
    at = across(pin.x)
    return (
        f'<g><title>{escape(pin.words)}</title><path d="M{at:.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="#d55e00" '
        f'stroke-dasharray="2 3"/><text x="{at + 3:.1f}" y="{_TOP + 10}" font-size="10" fill="#a33">'
        f"{escape(pin.words.partition(':')[0])}</text></g>"
    )


def _legend(lines: Sequence[Line]) -> list[str]:
    parts, at = [], _LEFT
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<path d="M{at} 36h18" stroke="{colour}" stroke-width="{1 if line.faint else 2}"/>')
        parts.append(f'<text x="{at + 24}" y="40">{escape(line.name)}</text>')
        at += 40 + 7 * len(line.name)
    return parts
