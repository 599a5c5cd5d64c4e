"""What rankscope says of recorded trials with slow ranks, beside the truth: a line for each, and a table.

    python -m tests.bench.ranks.slow_verdicts FOLDER-OF-slow_ranks.py FILE.json.gz FILE.jsonl.gz ...

A file is a list of trials {kind, amount, who, ms (a step), polls, times and samples [by pod], addresses}, as
frameworks.py writes it, with `framework`, `ranks`, and `beside_ms`: what a step took without that. What a disturbance
cost is how much longer a step took than those beside it without any; under 5 % it is hidden, and silence is right. What
is told of that of a rank that is right is `about` (within a third), `off`, a bound that `holds` or is `broken`, or
`unknown`.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankscope import (
    LateRank,
    SlowReport,
    add_samples,
    add_times,
    find_slow_ranks,
    parse_polls,
    read_samples,
    read_times,
)

CAUSES = {"host": "host", "gc": "host", "gpu": "GPU", "data": "data", "link": "network"}
"""The cause of each kind of disturbance; all other kinds are healthy."""
LEAST_COST = 0.05
RATINGS = ("right", "cause", "rank", "false", "hidden", "suspicion", "silent")
COSTS = ("about", "off", "holds", "broken", "unknown")
SHARE_IS_RIGHT = 1 / 3  # of the cost: by how much a share may differ from it


def read_trials(place: Path) -> Iterator[dict[str, Any]]:
    if place.is_dir():
        for each in json.loads((place / "trials.json").read_text()):
            beside = {"who": each["rank"], "ms": each["step"] * 1000, "ranks": each["facts"]["ranks"]}
            yield {"framework": "loop", **each, **beside, **json.loads((place / each["file"]).read_text())}
        return
    text = gzip.decompress(place.read_bytes())
    for each in map(json.loads, text.splitlines()) if place.name.endswith(".jsonl.gz") else json.loads(text):
        yield {"framework": place.name.partition("-")[0], "ranks": len(each["addresses"]), **each}


def add_costs(trials: Sequence[dict[str, Any]]) -> None:
    """To each disturbed trial what part of its step the disturbance cost, where that was measured.

    A step without it is the median of four measured around it, two before it and two after: others that share the
    machine make steps longer by turns.
    """
    jobs = defaultdict[tuple[Any, ...], list[dict[str, Any]]](list)
    for each in trials:
        jobs[each["framework"], each["ranks"], each.get("batch"), each.get("seed")].append(each)
    for several in jobs.values():
        beside = [several[0].get("before_ms"), *(each.get("beside_ms") for each in several)]
        for at, each in enumerate(several):
            near = [known for known in beside[max(0, at - 1) : at + 3] if known]
            if near and each["ms"] and each["kind"] in CAUSES:
                each.setdefault("cost", 1 - statistics.median(near) / each["ms"])


def judge(trial: Mapping[str, Any]) -> SlowReport:
    """The report that `a4 slow --recorder` makes of the same answers."""
    addresses = {address: at for at, address in enumerate(trial["addresses"])}
    answers = {at: answer.encode() for at, answer in enumerate(trial["times"])}
    report = find_slow_ranks(parse_polls(trial["polls"].encode()))
    report = add_times(report, read_times(answers, addresses), {})
    samples = {at: answer.encode() for at, answer in enumerate(trial.get("samples", ()))}
    return add_samples(report, *read_samples(samples)) if samples and (report.slow or report.suspects) else report


def describe(report: SlowReport) -> str:
    """Whom a report names, or suspects, or what it rules out."""
    named = [f"rank {each.rank} {each.cause} {each.share * 100:.1f} % ({each.low * 100:.1f} to {each.high * 100:.1f}"
             f"{', ' + each.where if each.where else ''})" for each in report.slow]  # fmt: skip
    named += [f"suspicion: rank {each.rank} {each.cause} {each.share * 100:.1f} %" for each in report.suspects]
    return "; ".join(named) or report.words[0]


def rate(trial: Mapping[str, Any], report: SlowReport) -> str:
    """right, cause or rank (the wrong one), false (a name where nothing is wrong), hidden, suspicion or silent."""
    wanted = CAUSES.get(trial["kind"])
    if not report.slow:
        hidden = wanted is not None and trial.get("cost", 1.0) < LEAST_COST
        return "hidden" if hidden else "suspicion" if report.suspects else "silent"
    if wanted is None:
        return "false"
    if [each.rank for each in report.slow] != [trial["who"]]:
        return "rank"
    return "right" if report.slow[0].cause == wanted else "cause"


def rate_cost(late: LateRank, cost: float) -> str:
    """about, off, holds, broken or unknown."""
    if late.cost is not None:
        return "about" if abs(late.cost - cost) <= SHARE_IS_RIGHT * cost else "off"
    if late.cost_at_most is not None:
        return "holds" if cost <= late.cost_at_most else "broken"
    return "unknown"


def tell(words: str) -> None:
    sys.stdout.write(f"{words}\n")


def main(places: Sequence[str]) -> int:
    """0 unless a rank was named where another one, or none, was disturbed."""
    table: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    trials = [each for place in places for each in read_trials(Path(place)) if each["ms"]]  # the others stood still
    add_costs(trials)
    for trial in trials:
        report = judge(trial)
        rating, kind = rate(trial, report), trial["kind"]
        cost = trial.get("cost")
        truth = f"{trial['ms']:.1f} ms a step" + (f", it cost {cost * 100:.1f} %" if cost is not None else "")
        amount = f" {trial['amount']:.3g}" if isinstance(trial["amount"], (int, float)) else f" {trial['amount']}"
        who = f" rank {trial['who']}" if kind in CAUSES else ""
        tell(f"{trial['framework']}:{trial['ranks']} {kind}{amount}{who}: {truth} | {rating} | {describe(report)}")
        row = table[trial["framework"], trial["ranks"], "disturbed" if kind in CAUSES else "healthy"]
        row[rating] += 1
        if rating == "right" and cost is not None:
            row[rate_cost(report.slow[0], cost)] += 1
    tell(f"{'':24}{''.join(f'{each:>11}' for each in (*RATINGS, *COSTS))}{'of':>6}")
    for (framework, ranks, kind), several in sorted(table.items()):
        cells = "".join(f"{several[each]:11}" for each in (*RATINGS, *COSTS))
        tell(f"{f'{framework}:{ranks} {kind}':24}{cells}{sum(several[each] for each in RATINGS):6}")
    return int(any(several["rank"] or several["false"] for several in table.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
