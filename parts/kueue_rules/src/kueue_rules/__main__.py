"""`kueue-rules simulate SCENARIO.yaml`: a plan of machines, queues and jobs on a virtual clock."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import json

from kueue_rules.scenario import ScenarioError, format_duration, read_scenario
from kueue_rules.simulation import QueueResult, SimulationResult, simulate_scenario

MAX_SCENARIO_BYTES = 1 << 20  # bytes of a scenario
MAX_NAMED_JOBS = 5  # of jobs that never start
_BAR_CHARACTERS = " ▁▂▃▄▅▆▇█"
_TITLES = (
    "QUEUE",
    "QUOTA",
    "ARRIVED",
    "STARTED",
    "FINISHED",
    "MEDIAN",
    "P90",
    "LONGEST",
    "STILL WAITING",
    "PREEMPTED",
    "GPU HOURS",
    "DONE AGAIN",
    "UTILIZATION",
)
_JSON_KEYS = (
    "JSON: seed, span (seconds that were simulated), gpus, utilization (0 to 1), flavors (utilization of each), busy "
    "(utilization in 48 equal slices of the time), queues with queue, quota, arrived, started, finished, wait_median, "
    "wait_p90, wait_longest (seconds in the queue, after a preemption too; null: so many wait at the end that it is "
    "not known), waiting (jobs at the end), waiting_longest (of these), preempted, gpu_hours, lost_gpu_hours (done "
    "again after a preemption), utilization (of its quota; null: it has none), events with at (seconds from the "
    "beginning), what (starts, ends, preempted), job, queue, gpus, flavor, by; never (jobs that had not started by "
    "the end)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 2 if the scenario is invalid."""
    parser = argparse.ArgumentParser("kueue-rules", description="Kueue's admission as a library.")
    command = parser.add_subparsers(required=True).add_parser(
        "simulate",
        help="runs a plan of machines, queues and jobs on a virtual clock",
        description="How busy the machines are, how long each queue waits, and who is preempted, by Kueue's rules. A "
        "job runs from the moment it is admitted; admission checks and machines that fail are left out.",
        epilog=_JSON_KEYS,
    )
    command.add_argument("scenario", type=Path, metavar="SCENARIO", help="a YAML file with flavors, queues and jobs")
    command.add_argument("--json", action="store_true", help="prints JSON instead of a table")
    command.add_argument("--seed", type=int, default=0, help="of random arrivals and run times (default: 0)")
    options = parser.parse_args(arguments)
    try:
        result = simulate_scenario(read_scenario(_read_text(options.scenario)), options.seed)
    except ScenarioError as error:
        sys.stderr.write(f"{error}\nscenarios.md beside the README of kueue-rules describes a scenario.\n")
        return 2
    try:
        sys.stdout.write(
            json.format(json.encode(result)).decode() if options.json else "\n".join(_result_lines(result))
        )
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough; Python flushes once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _read_text(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as file:
            read = file.read(MAX_SCENARIO_BYTES + 1)
        if len(read) > MAX_SCENARIO_BYTES:
            raise ScenarioError(f"{path} is larger than 1 MiB.")
        return read.decode()
    except OSError as error:
        raise ScenarioError(f"Could not read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"Could not read {path}: it is no text.") from error


def _result_lines(result: SimulationResult) -> list[str]:
    shares = ", ".join(f"{name} {_format_percent(share)}" for name, share in result.flavors.items())
    lines = [
        f"{format_duration(result.span)} with {result.gpus} GPUs, {_format_percent(result.utilization)} of them in use "
        f"on average ({shares}), seed {result.seed}"
    ]
    if result.busy:
        bars = "".join(_BAR_CHARACTERS[round(each * (len(_BAR_CHARACTERS) - 1))] for each in result.busy)
        lines.append(f"in use  |{bars}|  each sign {format_duration(result.span / len(result.busy))}")
    rows = [_TITLES, *map(_queue_row, result.queues)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines.append("")
    for name, *cells in rows:
        columns = zip(cells, widths[1:], strict=True)
        lines.append("  ".join([name.ljust(widths[0]), *(cell.rjust(width) for cell, width in columns)]))
    if result.never:
        more = f" and {len(result.never) - MAX_NAMED_JOBS} more" if len(result.never) > MAX_NAMED_JOBS else ""
        lines += ["", f"Not started by the end: {', '.join(result.never[:MAX_NAMED_JOBS])}{more}."]
    return lines


def _queue_row(queue: QueueResult) -> tuple[str, ...]:
    unknown = "not known" if queue.arrived else "-"
    waits = (queue.wait_median, queue.wait_p90, queue.wait_longest)
    return (
        queue.queue,
        f"{queue.quota}",
        f"{queue.arrived}",
        f"{queue.started}",
        f"{queue.finished}",
        *(unknown if wait is None else format_duration(wait) for wait in waits),
        f"{queue.waiting}" + (f", {format_duration(queue.waiting_longest)}" if queue.waiting_longest else ""),
        f"{queue.preempted}",
        f"{queue.gpu_hours:,.0f}",
        f"{queue.lost_gpu_hours:,.0f}",
        _format_percent(queue.utilization),
    )


def _format_percent(share: float | None) -> str:
    """A share in whole percent, but never 100% for less than all, nor 0% for more than nothing."""
    if share is None:
        return "-"
    return "< 1%" if 0 < share <= 0.005 else "99%" if 0.99 < share < 1 else f"{share:.0%}"


if __name__ == "__main__":
    sys.exit(main())
