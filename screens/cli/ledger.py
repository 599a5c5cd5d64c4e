"""`a4 ledger`: what the GPU-time of runs went into."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from console.errors import BadInput
from console.kube.objects.meta import short_name
from console.metrics.ledger import Box, Ledger, sum_ledgers
from console.metrics.seen_time import decode_seen_time
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, word
from screens.cli.history import pick, remembered
from screens.cli.logs import moment
from screens.cli.output import print_json, print_line, print_table
from screens.columns.runs import cost_lines
from screens.wording import alarm_words, count, percent

if TYPE_CHECKING:
    from console.launch.run_record import RunRecord

BY = ("owner", "queue", "recipe", "node")
NOBODY = "not known"
Rows = dict[str, list[Ledger]]


async def ledger(options: LedgerOptions) -> int:
    """Print the ledger of one run, or of all that ran since a moment, in groups if asked for."""
    if options.job and options.by:
        raise BadInput("Either a job or --by.", "a4 ledger JOB, or a4 ledger --by owner.")
    since, now = moment(options.since), time.time()
    async with remembered(options) as kept:
        runs = await kept.list_runs()
    if options.job:
        return _show_run(pick(runs, options.job), now, options)
    runs = tuple(
        run for run in runs
        if (run.ended or now) >= since and options.namespace in {"", run.namespace}
    )  # fmt: skip
    rows = _group(runs, options.by, now)
    ledgers = {name: sum_ledgers(each) for name, each in rows.items()}
    title = (options.by or "run").upper()
    if options.json:
        told = [{title.lower(): name, "runs": len(rows[name]), **as_item(each)} for name, each in ledgers.items()]
        print_json({"kind": "ledger", "since": since, "items": told, "total": as_item(sum_ledgers(ledgers.values()))})
    elif options.csv:
        _write_csv(title.lower(), ledgers)
    elif not ledgers:
        print_line("No run in the history since then.")
    else:
        _print_groups(title, rows, ledgers, len(runs))
    return 0


def _group(runs: Iterable[RunRecord], by: str, now: float) -> Rows:
    found: Rows = {}
    for run in runs:
        cost = run.ledger(now)
        nodes = decode_seen_time(run.seen).nodes if by == "node" else ()
        if nodes and run.gpus % len(nodes) == 0:
            for node in nodes:
                found.setdefault(node, []).append(cost.scale(run.gpus // len(nodes), run.gpus))
            continue
        names = {"owner": short_name(run.who), "queue": run.queue, "recipe": run.recipe, "node": ""}
        found.setdefault(names.get(by, f"{run.number} {run.name}") or NOBODY, []).append(cost)
    return dict(sorted(found.items(), key=lambda each: -sum(cost.allocated for cost in each[1])))


def as_item(cost: Ledger) -> dict[str, Any]:
    """A ledger as JSON, in GPU-seconds."""
    boxes = {str(box).replace(" ", "_"): cost.boxes.get(box, 0) / 1000 for box in Box}
    return {"gpus": cost.gpus, "allocated_gpu_seconds": cost.allocated / 1000, "gpu_seconds": boxes}


def _print_groups(title: str, rows: Rows, ledgers: dict[str, Ledger], runs: int) -> None:
    total = sum_ledgers(ledgers.values())
    used = [box for box in Box if total.boxes.get(box)]
    cells = [
        [
            name, str(len(rows[name]) if name in rows else runs), _format_hours(cost.allocated),
            *(_format_hours(cost.boxes.get(box, 0)) if box is Box.QUEUED else _format_percent(cost.share(box))
              for box in used),
        ]
        for name, cost in [*ledgers.items(), ("all", total)]
    ]  # fmt: skip
    titles = [title, "RUNS", "GPU-HOURS", *("QUEUED h" if box is Box.QUEUED else str(box).upper() for box in used)]
    print_table(titles, cells, [False, *[True] * (len(titles) - 1)])


def _format_hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:,.2f}"


def _format_percent(share: float | None) -> str:
    return "─" if share is None else percent(share, 1)


def _show_run(run: RunRecord, now: float, options: LedgerOptions) -> int:
    cost, seen = run.ledger(now), decode_seen_time(run.seen)
    if options.json:
        alarms = [asdict(alarm) for alarm in run.alarms]
        told = {"name": run.name, "number": run.number, "outcome": run.outcome, "why": run.why, "alarms": alarms}
        print_json({**told, "restarts": seen.restarts, "nodes": seen.nodes, **as_item(cost)})
    elif options.csv:
        _write_csv("run", {f"{run.number} {run.name}": cost})
    else:
        print_line(f"{run.name}: {run.recipe}, run {run.number}, {run.mode_words}")
        for line in cost_lines(cost):
            print_line(line)
        if seen.restarts:
            print_line(f"{count(seen.restarts, 'restart')}")
        for alarm in run.alarms:
            print_line(f"▲ {alarm_words(alarm, run)}")
    return 0


def _write_csv(title: str, ledgers: dict[str, Ledger]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([title, "gpus", "allocated_gpu_seconds", *(str(box).replace(" ", "_") for box in Box)])
    for name, cost in ledgers.items():
        boxes = (cost.boxes.get(box, 0) / 1000 for box in Box)
        writer.writerow([name, cost.gpus, cost.allocated / 1000, *boxes])


class LedgerOptions(Options):
    job: str = word("JOB", nargs="?", help="a job's name for its latest run, or a run's number")
    by: str = option("--by", choices=BY, help="sums of all runs since then")
    since: str = option("--since", metavar="TIME", default="30d", help="runs that ended after that or go on: 12h, 30d")
    json: bool = json_flag(apart="form")
    csv: bool = flag("--csv", apart="form", help="as CSV, in GPU-seconds")


COMMANDS: Commands = {
    "ledger": Command(
        ledger,
        LedgerOptions,
        description="What the GPU-time of runs went into, as far as consoles saw it; the boxes sum to what was "
        "allocated.\nTime in the queue is shown beside that: it holds no GPU.",
        epilog="""\
Exit codes: 0 ok, 1 no such run, 2 usage, 3 not allowed, 4 cannot reach the cluster.
JSON: kind, since, items (run, owner, queue, recipe or node; runs, gpus, allocated_gpu_seconds, gpu_seconds),
total; of one job: name, number, outcome, why, alarms, restarts, nodes, gpus, allocated_gpu_seconds,
gpu_seconds: queued (not allocated), pull, init, compile, productive, slow, checkpoint, evaluation, hang,
lost, restart, idle, not_seen.
Slow is what steps took longer while a rank was known to be slow; lost is work since the last checkpoint that was
done again or never saved; not_seen is what no console saw and no log told.""",
    )
}
