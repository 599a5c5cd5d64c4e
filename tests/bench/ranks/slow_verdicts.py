"""What rankscope says of recorded trials with slow ranks, beside the truth: a line for each, and a table.

    python -m tests.bench.ranks.slow_verdicts FOLDER-OF-slow_ranks.py FILE.json.gz ...

A file is a list of trials {kind, amount, who, ms (a step), polls, times and samples [by pod], addresses}, as
frameworks.py writes it, with `framework`, `ranks`, and `beside_ms`: what a step took without that.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankscope import SlowReport, add_samples, add_times, find_slow_ranks, parse_polls, read_samples, read_times

CAUSES = {"host": "host", "gc": "host", "gpu": "GPU", "data": "data", "link": "network"}
"""The cause of each kind of disturbance; all other kinds are healthy."""


def read_trials(place: Path) -> Iterator[dict[str, Any]]:
    if place.is_dir():
        for each in json.loads((place / "trials.json").read_text()):
            beside = {"who": each["rank"], "ms": each["step"] * 1000, "ranks": each["facts"]["ranks"]}
            yield {"framework": "loop", **each, **beside, **json.loads((place / each["file"]).read_text())}
        return
    for each in json.loads(gzip.decompress(place.read_bytes())):
        yield {"framework": place.name.partition("-")[0], "ranks": len(each["addresses"]), **each}


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
    """right, cause or rank (the wrong one), false (a name where nothing is wrong), suspicion or silent."""
    wanted = CAUSES.get(trial["kind"])
    if not report.slow:
        return "suspicion" if report.suspects else "silent"
    if wanted is None:
        return "false"
    if [each.rank for each in report.slow] != [trial["who"]]:
        return "rank"
    return "right" if report.slow[0].cause == wanted else "cause"


def tell(words: str) -> None:
    sys.stdout.write(f"{words}\n")


def main(places: Sequence[str]) -> int:
    """0 unless a rank was named where another one, or none, was disturbed."""
    table: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    for place in places:
        for trial in read_trials(Path(place)):
            if not trial["ms"]:  # it stood still
                continue
            report = judge(trial)
            rating, kind = rate(trial, report), trial["kind"]
            truth = f"{trial['ms']:.1f} ms a step" + (
                f", {trial['beside_ms']:.1f} without" if "beside_ms" in trial else ""
            )
            amount = f" {trial['amount']:.3g}" if isinstance(trial["amount"], (int, float)) else f" {trial['amount']}"
            who = f" rank {trial['who']}" if kind in CAUSES else ""
            tell(f"{trial['framework']}:{trial['ranks']} {kind}{amount}{who}: {truth} | {rating} | {describe(report)}")
            table[trial["framework"], trial["ranks"], "disturbed" if kind in CAUSES else "healthy"][rating] += 1
    columns = ("right", "cause", "rank", "false", "suspicion", "silent")
    tell(f"{'':24}{''.join(f'{each:>11}' for each in columns)}{'of':>6}")
    for (framework, ranks, kind), several in sorted(table.items()):
        cells = "".join(f"{several[each]:11}" for each in columns)
        tell(f"{f'{framework}:{ranks} {kind}':24}{cells}{several.total():6}")
    return int(any(several["rank"] or several["false"] for several in table.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
