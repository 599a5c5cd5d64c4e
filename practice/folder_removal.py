"""Removes a practice cluster's folder, in which ending programs of its pods may still write."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from threading import Event

REMOVAL_TIMEOUT = 3.0
"""Seconds that programs which were told to end may go on writing: a shell that is hung up writes its history."""


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
