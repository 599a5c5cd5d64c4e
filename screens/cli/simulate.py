"""`a4 simulate`: simulates a scenario of queues, machines and jobs; needs no cluster."""

from __future__ import annotations

from pathlib import Path

from console.errors import BadInput
from console.scheduling.scenario import read_scenario
from console.scheduling.simulation import SimulationResult
from console.scheduling.simulation import simulate as run_scenario
from screens.cli.arguments import Command, Commands, Options, json_flag, option, word
from screens.cli.output import print_json, print_line, print_table
from screens.wording import age, duration, percent

LARGEST = 1 << 20  # bytes of a scenario
_BARS = " ▁▂▃▄▅▆▇█"
_TITLES = (
    "QUEUE", "QUOTA", "ARRIVED", "STARTED", "FINISHED", "MEDIAN", "P90", "LONGEST", "STILL WAITING", "PREEMPTED",
    "GPU HOURS", "DONE AGAIN", "UTILIZATION",
)  # fmt: skip


def simulate(options: SimulateOptions) -> int:
    place = Path(options.scenario).expanduser()
    try:
        with place.open("rb") as file:
            raw = file.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise BadInput(f"{place} is larger than 1 MiB.", "Name a scenario: docs/simulate.md describes one.")
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(f"Could not read {place}: {why}.", "Name a scenario: docs/simulate.md describes one.") from error
    result = run_scenario(read_scenario(text), options.seed)
    if options.json:
        print_json(result)
    else:
        _print_result(result)
    return 0


def _print_result(result: SimulationResult) -> None:
    print_line(
        f"{duration(result.span)} with {result.gpus} GPUs, {_percent(result.utilization)} of them in use on average"
        f" ({', '.join(f'{name} {_percent(share)}' for name, share in result.flavors.items())}), seed {result.seed}"
    )
    if result.busy:
        bars = "".join(_BARS[round(each * (len(_BARS) - 1))] for each in result.busy)
        print_line(f"in use  |{bars}|  each sign {duration(result.span / len(result.busy))}")
    print_line()
    rows = [
        (
            each.queue,
            f"{each.quota}",
            f"{each.arrived}",
            f"{each.started}",
            f"{each.finished}",
            *(_wait(wait, each.arrived) for wait in (each.wait_median, each.wait_p90, each.wait_longest)),
            f"{each.waiting}" + (f", {age(each.waiting_longest)}" if each.waiting_longest else ""),
            f"{each.preempted}",
            f"{each.gpu_hours:,.0f}",
            f"{each.lost_gpu_hours:,.0f}",
            _percent(each.utilization),
        )
        for each in result.queues
    ]
    print_table(_TITLES, rows, [title != "QUEUE" for title in _TITLES])
    if result.never:
        names = ", ".join(result.never[:5]) + (f" and {len(result.never) - 5} more" if len(result.never) > 5 else "")
        print_line(f"\nNot started by the end: {names}.")


def _wait(seconds: float | None, arrived: int) -> str:
    if seconds is None:
        return "not known" if arrived else "-"
    return age(seconds)


def _percent(share: float | None) -> str:
    return percent(share, 1) if share is not None else "-"


class SimulateOptions(Options):
    scenario: str = word("SCENARIO", help="a YAML file with flavors, queues and jobs")
    json: bool = json_flag()
    seed: int = option(
        "--seed", type=int, metavar="S", default=0, help="for random arrivals and run times; the same gives the same"
    )


COMMANDS: Commands = {
    "simulate": Command(
        simulate,
        SimulateOptions,
        description="Runs a plan of queues, machines and jobs on a virtual clock, by Kueue's own rules: how busy the "
        "machines are, how long each queue waits, who is preempted. Needs no cluster. A job runs from the moment it is "
        "admitted; admission checks and machines that fail are left out.",
        epilog="JSON: seed, span (seconds that were simulated), gpus, utilization (0 to 1), flavors (utilization of "
        "each), busy (utilization in 48 equal slices of the time), queues with queue, quota, arrived, started, "
        "finished, wait_median, wait_p90, wait_longest (seconds in the queue, after a preemption too; null: so many "
        "wait at the end that it is not known), waiting (jobs at the end), waiting_longest (of these), preempted, "
        "gpu_hours, lost_gpu_hours (done again after a preemption), utilization (of its quota; null: it has none), "
        "events with at (seconds from the beginning), what (starts, ends, preempted), job, queue, gpus, flavor, by; "
        "never (jobs that had not started by the end)",
    )
}
