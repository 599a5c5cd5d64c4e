"""Arguments of `a4 view`, `tour` and `practice`; `screens.__main__`, which knows the screens, runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from screens.cli.arguments import speed

if TYPE_CHECKING:
    import argparse


def add_view(parser: argparse.ArgumentParser) -> None:
    """`a4 view`."""
    parser.add_argument("file", metavar="FILE")


def add_practice(parser: argparse.ArgumentParser) -> None:
    """`a4 practice`."""
    parser.add_argument("--speed", dest="demo_speed", type=speed, help="speed-up of the practice cluster")


def add_tour(parser: argparse.ArgumentParser) -> None:
    """`a4 tour`."""
    parser.add_argument("folder", nargs="?", type=Path, default=None, help="where the screenshots go (default: ./tour)")
