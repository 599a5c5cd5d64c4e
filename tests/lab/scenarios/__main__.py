"""`python -m tests.lab.scenarios 300 --seed 1`: so many random scenarios on the real Kueue and on our library."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.lab.control_plane import Lab
from tests.lab.scenarios.draw import draw
from tests.lab.scenarios.real import RealKueue, Record
from tests.lab.scenarios.replay import Comparison, compare, load, save

BESIDE = 8
MAX_TRIES = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.scenarios", description=__doc__)
    parser.add_argument("count", type=int, help="how many scenarios")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--beside", type=int, default=BESIDE, help="how many at the same time (default: %(default)s)")
    parser.add_argument("--records", type=Path, help="a folder to keep what Kueue did, or to read it from")
    parser.add_argument("--replay", action="store_true", help="only compare what is in that folder already")
    options = parser.parse_args()
    if options.records:
        options.records.mkdir(exist_ok=True)
    seeds: Sequence[int] = range(options.seed, options.seed + options.count)
    if options.replay:
        seeds = [seed for seed in seeds if (options.records / f"{seed}.json").exists()]
        found = [compare(load(options.records / f"{seed}.json")) for seed in seeds]
    else:
        with Lab() as lab:
            records = asyncio.run(record_all(lab, seeds, options.records, options.beside))
        found = [compare(each) for each in records]
    sys.stdout.write(table(found, sorted({*seeds} - {each.seed for each in found})) + "\n")
    return 0


async def record_all(lab: Lab, seeds: Sequence[int], folder: Path | None, beside: int) -> list[Record]:
    """What the real Kueue did in each scenario; those that were disturbed or did not come to rest are played again.

    Those that are in the folder already are read from there.
    """
    kept = {seed: load(path) for seed in seeds if folder is not None and (path := folder / f"{seed}.json").exists()}
    records = list(kept.values())
    left = [draw(seed) for seed in seeds if seed not in kept]
    tries: Counter[int] = Counter()

    def settled(record: Record) -> bool:
        return not record.restless or tries[record.seed] == MAX_TRIES

    def keep(record: Record) -> None:
        if folder is not None and settled(record):
            save(record, folder / f"{record.seed}.json")

    async with RealKueue.open(lab.kubeconfig, lab.processes.logs / "kueue.log") as kueue:
        while left:
            now, left = left[:beside], left[beside:]
            tries.update(each.seed for each in now)
            found = {each.seed: each for each in await kueue.run(now, keep) if settled(each)}
            records += found.values()
            left += [each for each in now if each.seed not in found and tries[each.seed] < MAX_TRIES]
    return sorted(records, key=lambda each: each.seed)


def table(found: Sequence[Comparison], missing: Sequence[int]) -> str:
    """Agreement, and every difference; of `missing` there is no record."""
    totals: Counter[str] = Counter()
    for each in found:
        totals.update(admitted=each.admitted, evicted=each.evicted, placed=each.placed,
                      replaced=each.replaced, lost=each.lost)  # fmt: skip
    lines = [
        f"{len(found)} scenarios: {totals['admitted']} admissions, {totals['evicted']} evictions, "
        f"{totals['placed']} pod sets placed, {totals['replaced']} workloads with another node for one that failed and "
        f"{totals['lost']} without; in {sum(each.endless for each in found)} both evict in turn for ever"
    ]
    for what in ("order", "victims", "domains"):
        same, else_same = (sum(each.same(what, whatever_the_clock=by) for each in found) for by in (False, True))
        share, at_any = (each / max(1, len(found)) for each in (same, else_same))
        lines.append(
            f"same {what}: {same} of {len(found)} ({share:.1%}); but for Kueue's clock {else_same} ({at_any:.1%})"
        )
    if missing:
        lines.append(f"not recorded, each time disturbed by something else than their events: {missing}")
    lines += [
        f"  {one.seed} step {one.step} {one.what}: {one.words}{' [another flavor had its turn]' if one.by_turn else ''}"
        for each in found
        for one in each.differences
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
