"""How well the slow rank is named on real GPUs: by NCCL's answers and the flight recorder's times, as `a4 slow` does.

On a machine with NVIDIA GPUs, torch and NCCL 2.28.7 or newer (nothing else, no Kubernetes), as root for slow links:

    python tests/bench/ranks/slow_ranks.py record --out FOLDER [--ranks 4] [--trials 40]
    python tests/bench/ranks/slow_ranks.py cost --out FOLDER

A loop of processes is disturbed and left alone by turns, and what they answer is kept. `cost` runs two such loops by
turns, with and without what the chart's switch `diagnosis` sets. Where a4 is installed:

    python -m tests.bench.ranks.slow_verdicts FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.bench.ranks.pods import Pods, count_gpus, end_all, shared_gpus, wait_for

SEGMENTS, MEGABYTES = 4, 2
HEALTHY = ["none", 0, 0.0, True]
SETTLES = 0.5  # seconds after a change that are not measured
DISTURBANCES: tuple[tuple[str, Any, bool, int], ...] = (
    ("host", 0.003, True, 5), ("host", 0.005, True, 4), ("host", 0.010, True, 3), ("host", 0.020, True, 2),
    ("gpu", 0.05, True, 4), ("gpu", 0.10, True, 3), ("gpu", 0.20, True, 3), ("gpu", 0.05, False, 2),
    ("gpu", 0.20, False, 2),
    *(("link", f"tbf rate {rate} burst 256kb latency 20ms", True, 3)
      for rate in ("6gbit", "3gbit", "1500mbit", "700mbit")),
)  # fmt: skip
"""What is done to a rank in each step (seconds of sleep, share of more work, words for tc), whether the loss is read in
each step, and how often in forty trials. After each the loop is left alone for as long, and measured again."""


def work(folder: Path, matmuls: int, size: int) -> None:
    """One of the processes: steps without an end, each as the file `mode` says."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    rank, device = int(os.environ["RANK"]), torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    right = torch.randn_like(left) / size
    gradient = torch.ones(MEGABYTES << 18, device=device)
    loss = torch.ones(1, device=device)
    file, known = folder / "mode", 0
    mode: list[Any] = ["none", 0, 0.0, True]
    steps, times = 0, list[float]()
    while True:
        began = time.perf_counter()
        kind, who, amount, reads = mode
        mine = who == rank
        if kind == "host" and mine:
            time.sleep(float(amount))  # the disturbance
        for _ in range(SEGMENTS):
            for _ in range(matmuls + (round(matmuls * amount) if kind == "gpu" and mine else 0)):
                torch.mm(left, right)
            dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
        loss.fill_(0.0 if kind == "rest" and rank == 0 else 1.0)
        dist.all_reduce(loss, op=dist.ReduceOp.MIN)
        if reads and loss.item() == 0:  # all rest together
            write(folder / f"times-{rank}", times)
            while json.loads(file.read_text())[0] == "rest":
                time.sleep(0.01)
            times, began = [], time.perf_counter()
        times.append(time.perf_counter() - began)
        steps += 1
        if steps % 5 == 0:
            write(folder / f"steps-{rank}", [steps, time.monotonic()])
        changed = file.stat().st_mtime_ns
        if changed != known:
            known, mode = changed, json.loads(file.read_text())


def write(place: Path, what: object) -> None:
    new = place.with_name(f"{place.name}.new")
    new.write_text(json.dumps(what))
    new.replace(place)


def steps_done(folder: Path) -> tuple[int, float]:
    steps, at = json.loads((folder / "steps-0").read_text())
    return steps, at


def list_trials(number: int, apart: bool, seed: int) -> list[tuple[str, Any, bool]]:
    """So many disturbances in a random order, each followed by a healthy trial; links only where tc can slow them."""
    chance = random.Random(seed)
    chosen = [(kind, amount, reads) for kind, amount, reads, often in DISTURBANCES if apart or kind != "link"
              for _ in range(often)]  # fmt: skip
    chance.shuffle(chosen)
    chosen = (chosen * (1 + number // len(chosen)))[:number]
    return [each for kind, amount, reads in chosen for each in (("none", 0, reads), (kind, amount, reads))]


def record(folder: Path, asked: argparse.Namespace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pods = Pods(asked.ranks)
    pods.make_networks()
    write(folder / "mode", HEALTHY)
    program = [__file__, "work", "--out", str(folder), "--matmuls", str(asked.matmuls), "--size", str(asked.size)]
    with shared_gpus(part_of_gpu(pods, 0.8)) as parts:
        begun = pods.start(program, folder)
        try:
            wait_for(folder, "steps-*[0-9]", asked.ranks, begun)
            pods.ask(folder, begun, 28028, "times", "1")  # the first dump takes seconds
            facts = {"ranks": pods.ranks, "gpus": pods.gpus, "mps": parts, "network namespaces": pods.apart}
            tell(f"{facts}")
            measure(folder, pods, begun, asked, facts)
        finally:
            end_all(begun)
            pods.drop_networks()


def part_of_gpu(pods: Pods, share: float) -> int:
    """Percent of a GPU for each rank where several share one, so many of them that this share of it is used."""
    return int(100 * share * pods.gpus / pods.ranks) if pods.shares_gpus else 100


def measure(folder: Path, pods: Pods, begun: list[Any], asked: argparse.Namespace, facts: dict[str, Any]) -> None:
    chance, ended = random.Random(asked.seed), time.monotonic() + asked.limit
    trials: list[dict[str, Any]] = []
    for kind, amount, reads in list_trials(asked.trials, pods.apart, asked.seed):
        if time.monotonic() > ended:
            tell("out of time")
            return
        rank = chance.randrange(pods.ranks)
        if kind == "link":
            pods.slow_link(rank, *amount.split())
        write(folder / "mode", [kind, rank, amount, reads])
        time.sleep(SETTLES)
        before, began = steps_done(folder), time.monotonic()
        polls = pods.poll(asked.seconds, 28028)
        after = steps_done(folder)
        times = pods.ask(folder, begun, 28028, "times", f"{asked.seconds:g}")
        took = time.monotonic() - began
        if kind == "link":
            pods.slow_link(rank)
        step = (after[1] - before[1]) / max(1, after[0] - before[0])
        name = f"trial-{len(trials):03}.json"
        write(folder / name, {"polls": polls.decode(), "times": [each.decode() for each in times],
                              "addresses": [pods.address(each) for each in range(pods.ranks)]})  # fmt: skip
        trials.append({"kind": kind, "amount": amount, "reads": reads, "rank": rank, "step": step, "file": name,
                       "took": took, "facts": facts})  # fmt: skip
        write(folder / "trials.json", trials)
        tell(f"{len(trials)} {title_of(trials[-1])}, rank {rank}: {step * 1000:.1f} ms a step, {took:.1f} s")


def cost(folder: Path, asked: argparse.Namespace) -> None:
    """Two loops by turns: what the switch costs of a step, by the medians of pairs."""
    pods = Pods(asked.ranks)

    def turn(on: bool) -> list[float]:
        write(folder / str(on) / "mode", HEALTHY)
        time.sleep(asked.seconds)
        return rest(folder / str(on))

    with shared_gpus(part_of_gpu(pods, 0.48)):
        begun: list[Any] = []
        try:
            for on in (True, False):
                begin(pods, folder / str(on), asked, begun, diagnosis=on)
            measure_pairs(folder / "cost.json", asked.trials, turn, "with the switch")
        finally:
            end_all(begun)


def begin(pods: Pods, place: Path, asked: argparse.Namespace, begun: list[Any], *, diagnosis: bool) -> None:
    """Start a loop, and let it stand still once it makes steps; `begun` takes its processes."""
    place.mkdir(parents=True, exist_ok=True)
    write(place / "mode", HEALTHY)
    program = [__file__, "work", "--out", str(place), "--matmuls", str(asked.matmuls), "--size", str(asked.size)]
    begun += pods.start(program, place, diagnosis=diagnosis)
    wait_for(place, "steps-*[0-9]", asked.ranks, begun)
    rest(place)


def measure_pairs(place: Path, pairs: int, turn: Callable[[bool], list[float]], what: str) -> None:
    """Tell what something costs of a step; `turn` returns how long the steps of a turn with and without it took."""
    medians = defaultdict[bool, list[float]](list)
    for at in range(pairs):
        for on in (True, False) if at % 2 else (False, True):
            times = turn(on)
            medians[on].append(statistics.median(times[len(times) // 5 :]))
    write(place, {"on": medians[True], "off": medians[False]})
    tell_cost(medians, what)


def tell_cost(medians: dict[bool, list[float]], what: str) -> None:
    more = [(on - off) / off for on, off in zip(medians[True], medians[False], strict=True)]
    scatter = 1.96 * statistics.stdev(more) / len(more) ** 0.5
    without = statistics.median(medians[False]) * 1000
    tell(f"{len(more)} pairs, {without:.2f} ms a step without: {what} {statistics.fmean(more) * 100:+.2f} % "
         f"± {scatter * 100:.2f} % (median {statistics.median(more) * 100:+.2f} %)")  # fmt: skip


def rest(place: Path) -> list[float]:
    """Let a loop stand still, and how long its steps took."""
    (place / "times-0").unlink(missing_ok=True)
    write(place / "mode", ["rest", 0, 0.0, True])
    return json.loads(wait_for_rest(place).read_text())  # type: ignore[no-any-return]


def wait_for_rest(place: Path) -> Path:
    end = time.monotonic() + 30
    while not (found := place / "times-0").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return found


def title_of(trial: dict[str, Any]) -> str:
    return f"{trial['kind']} {trial['amount']}, {'loss read' if trial['reads'] else 'runs ahead'}"


def tell(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "cost", "work"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=max(4, count_gpus()))
    parser.add_argument("--trials", type=int, default=40, help="disturbed ones, and as many healthy; pairs for cost")
    parser.add_argument("--seed", type=int, default=7, help="of the order of trials and of their ranks")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds for all trials")
    parser.add_argument("--seconds", type=float, default=7.0, help="of polls in a trial, or of each turn")
    parser.add_argument("--matmuls", type=int, default=20, help="in each of the four segments of a step")
    parser.add_argument("--size", type=int, default=3072, help="of the matrices")
    asked = parser.parse_args()
    place = asked.out
    {"work": lambda: work(place, asked.matmuls, asked.size), "record": lambda: record(place, asked),
     "cost": lambda: cost(place, asked)}[asked.what]()  # fmt: skip
