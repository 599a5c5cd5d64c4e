"""Writes the pages that are made from the program itself: `python -m tests.docs`."""

import sys

from tests.docs.pages import DOCS, generated

if __name__ == "__main__":
    for name, text in generated().items():
        (DOCS / name).write_text(text)
        sys.stdout.write(f"{DOCS / name}\n")
