"""Keeps what each page shows now: `python -m tests.snapshots --renew`, or with names of states only those."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.pictures.frozen import stopped_clock
from tests.snapshots.pages import STATES, renew


def main(words: list[str]) -> int:
    names = {kept.name for kept in STATES}
    if words[:1] != ["--renew"] or set(words[1:]) - names:
        sys.stderr.write(f"usage: python -m tests.snapshots --renew [{' '.join(sorted(names))}]\n")
        return 2
    for kept in STATES:
        if not words[1:] or kept.name in words[1:]:
            with tempfile.TemporaryDirectory() as home, stopped_clock(Path(home)):
                changed = asyncio.run(renew(kept))
            sys.stdout.write(f"{kept.name}: {len(kept.views)} pages, changed: {', '.join(changed) or 'none'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
