"""Prints the lines of each package beside the bounds: `make size`."""

import sys

from tests.architecture.sizes import ROOT, packages, parts


def main() -> int:
    found = parts()
    for part in found:
        sys.stdout.write(f"{part.name:34}{part.lines:>9,}  of {part.bound:,}\n")
        for folder in part.folders:
            for name, lines in packages(ROOT, folder).most_common():
                sys.stdout.write(f"    {name:30}{lines:>9,}\n")
    return 1 if any(part.excess for part in found) else 0


if __name__ == "__main__":
    sys.exit(main())
