"""Folders of our own: for this account's eyes only, from the first moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_private(folder: Path) -> None:
    """Make the folder, and each above it that is not there, with mode 0700; OSError if that cannot be.

    `mkdir(mode=…, parents=True)` would give those above it the mode of the umask. What is there already stays as it is:
    it may be somebody's choice. Blocking.
    """
    missing = []
    above = folder.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    for each in (*reversed(missing), folder):
        each.mkdir(mode=0o700, exist_ok=True)
