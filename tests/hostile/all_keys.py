"""Long sessions of keys on a practice cluster with hostile texts: `python -m tests.hostile.all_keys [SEED]`.

Every aimed sequence of tests/screens/test_read_only.py with --read-only, in two sessions; then three sessions of 500
random keys with Unicode in which everything may be changed. Ends with 1 if something was changed that must not be; a
console that ends, or draws a control character, ends it with a traceback.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import pytest

from tests.hostile.payloads import RAW
from tests.screens.press import screen_text
from tests.screens.test_read_only import AIMED, Watched, console, pressed, watched

FOLDERS = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "A4_SSH_FOLDER")
SESSIONS, PRESSED = 3, 500


async def press(
    keys: Iterable[str], shared: Watched, patch: pytest.MonkeyPatch, *, read_only: bool
) -> tuple[int, int, list[str]]:
    """How many keys were pressed, on how many kinds of pages, and what was changed."""
    count, pages = 0, set[str]()
    async with console(shared, patch, read_only=read_only) as (app, pilot, seen):
        for key in keys:
            await pilot.press(key)
            count += 1
            pages.add(type(app.screen).__name__)
            found = RAW.search(screen_text(app))
            assert not found, f"{found!r} after {key} on {type(app.screen).__name__}"
    return count, len(pages), [what for writes, what in seen if writes]


def session(name: str, keys: Iterable[str], *, read_only: bool) -> bool:
    """One session, in folders of its own; whether all went well."""
    with tempfile.TemporaryDirectory() as folder, watched() as shared, pytest.MonkeyPatch.context() as patch:
        for each in FOLDERS:
            (Path(folder) / each).mkdir(mode=0o700)
            patch.setenv(each, f"{folder}/{each}")
        patch.chdir(folder)
        count, pages, written = asyncio.run(press(keys, shared, patch, read_only=read_only))
    sys.stdout.write(f"{name}: {count} keys on {pages} kinds of pages, {len(written)} changes, alive, 0 raw\n")
    sys.stdout.flush()
    return not (read_only and written)


def main(seed: int) -> int:
    half = len(AIMED) // 2
    good = [
        session(f"aimed session {number}, --read-only", chain(*some), read_only=True)
        for number, some in enumerate((AIMED[:half], AIMED[half:]), 1)
    ]
    for number in range(SESSIONS):
        keys = islice(pressed(random.Random(seed + number)), PRESSED)
        good.append(session(f"random session {number + 1}", keys, read_only=False))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
