"""`make rulers`: other people's tests, played with our code, and how many agree; writes docs/scoreboard.md.

Nothing of their tests is in this repository: each suite comes from its package when it is run, and says plainly when it
cannot be had. What is kept is tests/rulers/results.json: names and numbers.
"""

import sys

from tests.rulers import scoreboard
from tests.rulers.suites import RESULTS, results, written


def main() -> int:
    """1 if a case differs and nobody says why. Projects that are named are run alone."""
    found = results(sys.argv[1:])
    RESULTS.write_text(written(found))
    scoreboard.PAGE.write_text(scoreboard.page(found))
    unnamed = 0
    for each in found:
        sys.stdout.write(
            f"{each.project} {each.version} {each.suite}: {each.unavailable or f'{each.same} of {each.cases}'}\n"
        )
        for name, why in each.different.items():
            if why.startswith("NOT EXPLAINED"):
                unnamed += 1
                sys.stdout.write(f"    {name}: {why}\n")
    sys.stdout.write(f"{scoreboard.PAGE}: {unnamed} cases differ and nobody says why\n")
    return int(unnamed > 0)


if __name__ == "__main__":
    sys.exit(main())
