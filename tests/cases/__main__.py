"""`make cases`: small inputs of other people's clusters, logs, checkpoints and laptops, and how many are read right.

They are an extra, as `make corpus` is: nothing of them is in this repository, and no test needs them. `CASES=FOLDER`
says where they are.
"""

import sys
from collections import Counter
from pathlib import Path

from tests.cases import clusters, logs, values
from tests.corpus.__main__ import report, say
from tests.corpus.verdict import Verdict

KINDS = {
    "training": logs.training,
    "failures": logs.failures,
    "py-spy": logs.stacks,
    "checkpoints": values.checkpoints,
    "kueue": clusters.kueue,
    "helm": values.helm,
    "kubeconfig": clusters.kubeconfigs,
    "ssh": clusters.ssh,
}
"""Who compares what is in the folder of that name."""


def main() -> int:
    """Print how many cases are read right; 1 if one is not, 2 if they are not there."""
    folder = Path(sys.argv[1]).absolute()
    say(f"cases of other people in {folder}")
    if not folder.is_dir():
        say("no such folder: say where they are: make cases CASES=FOLDER")
        return 2
    counts = {kind: report(kind, cases(folder / kind)) for kind, cases in KINDS.items()}
    whole = sum(counts.values(), Counter[Verdict]())
    for kind, count in [*counts.items(), ("all", whole)]:
        say(f"{kind:>12}: {count[Verdict.RIGHT]} of {count.total()} right, {count[Verdict.WRONG]} wrong")
    return int(whole[Verdict.RIGHT] != whole.total())


if __name__ == "__main__":
    sys.exit(main())
