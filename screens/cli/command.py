"""What a command is: the arguments that it takes, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine

    from screens.cli.options import Options


@dataclass(frozen=True, slots=True)
class Command:
    """One word after `a4`."""

    add: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments to its parser."""
    run: Callable[[Options], int | Coroutine[Any, Any, int]]
    """Does what was asked for; gives the exit code."""
