"""Removes folders of practice clusters: the own one, even while ending programs still write, and abandoned ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

from console.folders import PRACTICE_PREFIX

REMOVAL_TIMEOUT = 3.0
"""Seconds for which ending programs may go on writing: a shell that gets a hang-up signal writes its history."""

_HELD = "held"  # a file in the folder that is locked for as long as its cluster lives


def hold_folder(folder: Path) -> int:
    """Lock the folder as used by this process; returns the descriptor that holds the lock until it is closed."""
    held = os.open(folder / f".{_HELD}", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    (folder / f".{_HELD}").rename(folder / _HELD)
    return held


def remove_abandoned_folders(around: Path) -> None:
    """Remove the folders of practice clusters of this account that were killed. Blocking."""
    for held in around.glob(f"{PRACTICE_PREFIX}*/{_HELD}"):
        with suppress(OSError):  # one is in use, is being removed, or is another account's
            if held.parent.lstat().st_uid == os.getuid():
                with held.open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(held.parent, ignore_errors=True)


def remove_folder(folder: Path, timeout: float = REMOVAL_TIMEOUT) -> bool:
    """Remove a folder with its contents; returns whether it is gone. Blocking."""
    pause = Event()
    deadline = time.monotonic() + timeout
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)  # somebody may write between the listing and the removal
        if time.monotonic() > deadline:
            return not folder.exists()
        pause.wait(0.02)
    return True
