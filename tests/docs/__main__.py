"""Writes the pages that are made from the program itself: `python -m tests.docs`; with `picture`, the README's picture.

The picture shows ages and uses of one moment, so it is drawn only when it is asked for.
"""

from __future__ import annotations

import sys

from tests.docs.pages import DOCS, generated
from tests.docs.picture import draw


def main(words: list[str]) -> int:
    """Write what was asked for; gives the exit code."""
    if words == ["picture"]:
        path = DOCS / "pictures" / "console.svg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(draw())
        sys.stdout.write(f"{path}\n")
        return 0
    if words:
        sys.stderr.write("usage: python -m tests.docs [picture]\n")
        return 2
    for name, text in generated().items():
        (DOCS / name).write_text(text)
        sys.stdout.write(f"{DOCS / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
