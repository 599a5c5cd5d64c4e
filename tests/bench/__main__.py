"""`python -m tests.bench`: the console beside its peers on one cluster, ratios of one run.

Options choose parts (`parsers`, `panels`, `panes`, `launch`, `practice`, `logs`, of which `logfile` is the file alone,
`commands` (plain commands beside kubectl) and `many` (on many pods), `consoles`, `screens`, `scale` (150,000 pods),
`ssh`, `tunnels`, `bucket` (checkpoints of 10,000 objects), and by their names only `floods`, what hostile pods and
servers send, `forecast_days`, windows of starts over 500 simulated days, and `watching`, what 32 running jobs cost) and
the cluster's size.
Absolute figures move from run to run; what is promised are the ratios and the bounds printed beside them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import (
    bucket_checkpoints,
    commands,
    consoles,
    floods,
    forecast_days,
    form_keys,
    launch,
    logs,
    panels,
    panes,
    parsers,
    scale,
    ssh,
    tunnels,
    watching,
)
from tests.bench.consoles import Figures, p95
from tests.bench.peer import k9s
from tests.bench.rows import Row, keep, table
from tests.bench.terminal import Paint
from tests.lab.bulk import Bulk
from tests.lab.control_plane import Lab

PARTS = (
    "parsers", "panels", "panes", "launch", "practice", "commands", "many", "logs", "consoles", "screens", "scale",
    "ssh", "tunnels", "bucket",
)  # fmt: skip
ROWS: list[Row] = []  # all that this run has measured
BY_NAME = ("logfile", "floods", "forecast_days", "watching")  # parts that are measured when they are named only
SCREENS = {b"1": "Fleet", b"2": "Queues", b"3": "Jobs", b"4": "Pods", b"5": "Launch"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS + BY_NAME)} (default: all up to {PARTS[-1]})")
    parser.add_argument("--nodes", type=int, default=1000, help="fake nodes besides the lab's own")
    parser.add_argument("--pods", type=int, default=10006, help="pods of 9.9 KB")
    parser.add_argument("--kubeconfig", type=Path, help="a cluster that is filled already, instead of a lab of its own")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    if unknown := set(options.parts) - {*PARTS, *BY_NAME}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    alone: dict[str, Callable[[], bool]] = {
        "parsers": lambda: parsers.main(ratio, bound),
        "panels": lambda: panels.main(bound, say),
        "panes": lambda: panes.main(bound, say),
        "launch": lambda: launch.main(say, bound),
        "practice": practice,
        "commands": lambda: commands.main(say, ratio),
        "many": lambda: commands.on_many_pods(options.nodes, options.pods, say, ratio),
        "scale": lambda: scale.main(bound, say),
        "floods": lambda: floods.main([], say),
        "bucket": lambda: bucket_checkpoints.main(say, ratio, bound),
        "forecast_days": lambda: forecast_days.main(say, bound),
        "watching": lambda: watching.main(bound, ratio),
    }
    broken = [part for part, measure in alone.items() if part in options.parts and not measure()]
    good = not broken
    good &= logs.main(options.parts, ratio, bound, say)
    if {"consoles", "screens"} & set(options.parts):
        with filled(options) as kubeconfig:
            pods = count_pods(kubeconfig)
            if "consoles" in options.parts:
                good &= beside_k9s(kubeconfig, pods)
            if "screens" in options.parts:
                good &= every_screen(kubeconfig)
    if "ssh" in options.parts:
        good &= by_name()
    if "tunnels" in options.parts:
        good &= tunnels.main(say, bound, ratio, faster)
    say("")
    for line in table(ROWS):
        say(line)
    keep(ROWS)
    untold = sum(row.verdict == "too loaded to tell" for row in ROWS)
    busy = f"{untold} of {len(ROWS)} figures are not told: the machine was too loaded"
    say("a bound was broken" if not good else busy if untold else "all bounds kept")
    return 1 if not good else 2 if untold else 0


@contextmanager
def filled(options: argparse.Namespace) -> Iterator[Path]:
    """A cluster of that size."""
    if options.kubeconfig:
        yield options.kubeconfig
        return
    with Lab(say=say) as lab:
        Bulk(lab).fill(options.nodes, options.pods)
        yield lab.kubeconfig


def count_pods(kubeconfig: Path) -> int:
    """How many pods there are, as the plain command counts them."""
    listed = subprocess.run([str(consoles.A4), "pods", "-A", "--json", "--kubeconfig", str(kubeconfig)],
                            capture_output=True, check=True)  # fmt: skip
    return len(json.loads(listed.stdout)["items"])


def practice() -> bool:
    """Start of the practice cluster to its first screen."""
    times = [consoles.first_screen_of_practice() for _ in range(3)]
    return bound("practice cluster: first screen (s)", statistics.median(times), 1.5)


def beside_k9s(kubeconfig: Path, pods: int) -> bool:
    """The console and k9s on the same table of all pods."""
    ours = consoles.measure(consoles.a4(kubeconfig), kubeconfig, pods)
    with tempfile.TemporaryDirectory() as folder:
        theirs = consoles.measure(consoles.k9s(k9s(), kubeconfig, Path(folder)), kubeconfig, pods)
    say(f"\n{pods:,} pods                            a4        k9s     ratio   bound")
    return all(
        [
            ratio("full pods table (s)", ours.full_table, theirs.full_table, 0.35),
            ratio("CPU until then (s)", ours.full_table_cpu, theirs.full_table_cpu, None),
            ratio("memory (MiB)", ours.memory, theirs.memory, 0.2),
            ratio("CPU while idle (% of a core)", 100 * ours.idle_cpu, 100 * theirs.idle_cpu, 0.1),
            ratio("CPU under churn (% of a core)", 100 * ours.churn_cpu, 100 * theirs.churn_cpu, 0.3),
            *keys_beside(ours, theirs),
            bound("start to first paint (s)", ours.first_paint, 0.7),
        ]
    )


def keys_beside(ours: Figures, theirs: Figures) -> list[bool]:
    """Key to paint of both."""
    kept = []
    for name, mine, other in (("Down", ours.down, theirs.down), ("PgDn", ours.page, theirs.page)):
        first = [1000 * p95([paint.first for paint in paints]) for paints in (mine, other)]
        settled = [1000 * p95([paint.settled for paint in paints]) for paints in (mine, other)]
        kept.append(ratio(f"{name}: first byte p95 (ms)", first[0], first[1], 1.0))
        kept.append(ratio(f"{name}: settled p95 (ms)", settled[0], settled[1], None))
        kept.append(bound(f"{name}: settled p95 (ms)", settled[0], 50))
    return kept


def every_screen(kubeconfig: Path) -> bool:
    """Key to paint on each screen of the console."""
    kept = []
    for key, name in SCREENS.items():
        paints: tuple[Paint, ...] = consoles.key_to_paint(kubeconfig, key)
        kept.append(bound(f"{name}: key settled p95 (ms)", 1000 * p95([paint.settled for paint in paints]), 50))
    for what, paints in form_keys.form_keys(consoles.a4(kubeconfig)).items():
        kept.append(bound(f"Form, {what}: painted p95 (ms)", 1000 * p95([paint.first for paint in paints]), 50))
        kept.append(bound(f"Form, {what}: settled p95 (ms)", 1000 * p95([paint.settled for paint in paints]), 50))
    return all(kept)


def by_name() -> bool:
    """ssh to a rank by its name, on a small lab."""
    with Lab(say=say) as lab:
        seconds = ssh.measure(lab)
    ours, shared = seconds["ours"], seconds["shared"]
    say("\nssh to a rank                           a4    kubectl     ratio   bound")
    return all(
        [
            ratio("ssh a4-JOB-0 true (s)", ours, seconds["kubectl"], 1.25),
            ratio("a second one, shared (s)", shared, ours, 0.3),
        ]
    )


def ratio(what: str, ours: float, theirs: float, limit: float | None) -> bool:
    """Print one figure of both and their ratio; False if that is known to be beyond its limit."""
    return _show(Row(what, ours, theirs, limit, os.getloadavg()[0]))


def faster(what: str, ours: float, theirs: float, least: float | None) -> bool:
    """The same of a rate, whose ratio has to be as high."""
    return _show(Row(what, ours, theirs, least, os.getloadavg()[0], is_rate=True))


def bound(what: str, value: float, limit: float) -> bool:
    """Print one figure and its bound; False if it is known to be broken."""
    return _show(Row(what, value, None, limit, os.getloadavg()[0]))


def _show(row: Row) -> bool:
    ROWS.append(row)
    say(row.line())
    return row.verdict != "BROKEN"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
