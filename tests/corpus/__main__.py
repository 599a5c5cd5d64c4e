"""`make corpus`: logs of other people, which stand beside the checkout, read and compared with what they hold.

They are an extra: nothing of them is in this repository, and no test needs them. `CORPUS=FOLDER` says where they are.
"""

import sys
from collections import Counter
from pathlib import Path

from tests.corpus import failures, nccl, training
from tests.corpus.verdict import Case, Verdict

PARTS = {"nccl": nccl.cases, "training": training.cases, "failures": failures.cases}
"""What is read, and who compares it: each gets the folder of the corpus and yields a case for each log."""


def main() -> int:
    """Print how many logs are read right; 1 if a figure is wrong, 2 if the logs are not there."""
    folder = Path(sys.argv[1]).absolute()
    say(f"logs of other people in {folder}")
    if not folder.is_dir():
        say("no such folder: say where they are: make corpus CORPUS=FOLDER")
        return 2
    counts = {part: report(part, cases(folder)) for part, cases in PARTS.items()}
    say("".join(f"{word:>16}" for word in ("", "logs", *Verdict)))
    for part, count in [*counts.items(), ("all", sum(counts.values(), Counter[Verdict]()))]:
        say("".join(f"{word:>16}" for word in (part, count.total(), *(count[each] for each in Verdict))))
    return int(any(count[Verdict.WRONG] for count in counts.values()))


def report(part: str, cases: list[Case]) -> Counter[Verdict]:
    """Print what is not right; how many logs got which verdict."""
    for case in cases:
        if case.verdict is not Verdict.RIGHT:
            say(f"{part}: {case.verdict}: {case.file}: {case.why}")
    return Counter(case.verdict for case in cases)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
