"""Slow ranks on real frameworks, disturbed and healthy, with the measured truth.

On a machine with NVIDIA GPUs, torch, NCCL 2.28.7 or newer and rankscope (py-spy on PATH for its witness; transformers
and megatron-core where they are asked for), as root:

    python tests/bench/ranks/frameworks.py record --out FILE.jsonl.gz --limit 500 ddp:4:16:20:7,loop:4:8:8:7 fsdp:2
    WIDTH=4096 python tests/bench/ranks/frameworks.py cost --out FILE.jsonl.gz ddp:2:16:300 fsdp:2:16:300

A job is FRAMEWORK:RANKS:BATCH:TRIALS:SEED; jobs with commas between them run one after the other, the others at the
same time. A small transformer is trained (programs.py; WIDTH and LAYERS make it larger). By turns a rank is disturbed
and a healthy habit begins; what NCCL, the flight recorders and py-spy tell meanwhile, each asked as long as `a4 slow`
asks, is kept, and of each rank its own times, all by one clock: how long it waited for its batch, until it had launched
the last work of a step, how long what slowed its GPU took. `cost` asks and does not ask by turns, one job at a time.
Where a4 is installed:

    python -m tests.bench.ranks.slow_verdicts FILE.jsonl.gz ...
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import rankscope

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.bench.ranks.pods import Pods, count_gpus, end_all, shared_gpus, wait_for

DISTURBED = (("host", 0.12), ("gpu", 0.4), ("data", 2.0), ("host", 0.35), ("gpu", 0.2), ("gc", 0.0))
"""What is done to a rank in each step, and for what part of a healthy step; `gc` every fourth step, over many lists."""
HEALTHY = (
    ("none", 0.0),
    ("varlen", 0.3),
    ("save", 0.0),
    ("log", 0.0),
    ("evaluate", 0.0),
    ("accumulate", 0.0),
    ("card", 0.02),
)
"""Nothing; uneven lengths; rank 0 saves every 60 steps; it logs every 10; all evaluate every 40; gradients of 4 batches
are added up; a GPU that is 2 % slower, as cards of a fleet are."""
CANNOT = {"loop": {"varlen", "evaluate", "accumulate"}, "graphs": {"varlen", "evaluate"},
          "compile": {"varlen", "evaluate", "accumulate"}, "trainer": {"accumulate"},
          "megatron": {"varlen", "accumulate"}}  # fmt: skip
"""Habits that a framework here has not: its shapes are fixed, it always has several batches, or it is compiled anew."""
TRIMMED = 0.1  # of the pairs of turns of cost, at each end
COMES = 12
"""Steps after which all ranks do what the file `mode` asks for."""


@dataclass
class Job:
    framework: str
    ranks: int = 2
    batch: int = 16
    trials: int = 12  # or rounds of cost
    seed: int = 7  # of the order of trials and of their ranks

    @staticmethod
    def parse(text: str) -> Job:
        framework, *numbers = text.split(":")
        return Job(framework, *map(int, numbers))

    def __str__(self) -> str:
        return f"{self.framework}:{self.ranks}:{self.batch}"


class Running:
    """A job that runs, and what its ranks do."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.ras_port = job, 28028 + number
        self.folder = Path(f"/tmp/a4-frameworks-{number}-{job}".replace(":", "-"))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.pods = Pods(job.ranks)
        (self.folder / "mode").write_text(json.dumps(["none", 0, 0.0, -1]))
        program = [str(HERE / "programs.py"), str(self.folder), job.framework, str(job.batch)]
        self.begun = self.pods.start(program, self.folder, ras_port=self.ras_port)

    def wait(self) -> None:
        wait_for(self.folder, "steps-*[0-9]", self.job.ranks, self.begun, 150)

    def steps(self) -> tuple[int, float]:
        steps, at = json.loads((self.folder / "steps-0").read_text())
        return steps, at

    def change(self, kind: str, who: int = 0, amount: float = 0.0) -> None:
        """What all ranks do from a step on to which none has come; returns when it is reached."""
        at = self.steps()[0] + COMES
        new = self.folder / "mode.new"
        new.write_text(json.dumps([kind, who, amount, at]))
        new.replace(self.folder / "mode")
        end = time.monotonic() + 30
        while kind not in ("end", "rest") and self.steps()[0] < at and time.monotonic() < end:
            time.sleep(0.05)

    def seconds_a_step(self, before: tuple[int, float]) -> float:
        after = self.steps()
        return (after[1] - before[1]) / (after[0] - before[0]) if after[0] > before[0] else 0.0

    def measure_step(self, seconds: float) -> float:
        before = self.steps()
        time.sleep(seconds)
        return self.seconds_a_step(before)

    def rest(self) -> None:
        """Let all ranks stop behind the same step."""
        stopped = self.folder / "ends-0"
        stopped.unlink(missing_ok=True)
        self.change("rest")
        end = time.monotonic() + 30
        while not stopped.exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)

    def wait_and_rest(self) -> None:
        self.wait()
        self.rest()

    def wake(self) -> None:
        (self.folder / "mode.new").write_text(json.dumps(["none", 0, 0.0, -1]))
        (self.folder / "mode.new").replace(self.folder / "mode")

    def step_ends(self) -> list[tuple[int, float]]:
        """Steps of the first rank since it woke, and when its GPU had done them; it rests."""
        ends: list[tuple[int, float]] = json.loads((self.folder / "ends-0").read_text())
        return ends

    def end(self) -> None:
        """Have all ranks end themselves: one that is killed amid its work could harm the others by MPS."""
        with contextlib.suppress(OSError, ValueError):
            self.change("end")
            end = time.monotonic() + 8
            while any(each.poll() is None for each in self.begun) and time.monotonic() < end:
                time.sleep(0.1)
        end_all(self.begun)

    def diagnose(self) -> str:
        """Where the main threads stand."""
        found = []
        for process in self.begun:
            argv = ["py-spy", "dump", "--pid", str(process.pid)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            found.append(" | ".join(line.strip() for line in done.stdout.splitlines() if line.startswith("  "))[:500])
        return "\n".join(found)


def list_trials(job: Job) -> list[tuple[str, float]]:
    """As many disturbed ones as healthy ones by turns, a share of every kind."""
    chance = random.Random(f"{job.seed} {job}")
    habits = [each for each in HEALTHY if each[0] not in CANNOT.get(job.framework, ())]
    first, second = chance.randrange(len(DISTURBED)), chance.randrange(len(habits))
    pairs = [(DISTURBED[(first + at) % len(DISTURBED)], habits[(second + at) % len(habits)])
             for at in range((job.trials + 1) // 2)]  # fmt: skip
    return [each for pair in pairs for each in pair][: job.trials]


class Kept:
    """The file of trials: a line of JSON each, packed one by one, so that what was written is whole."""

    def __init__(self, place: Path) -> None:
        self.place, self.lock = place, threading.Lock()

    def add(self, trial: dict[str, Any], words: str) -> None:
        packed = gzip.compress(json.dumps(trial).encode() + b"\n", 6)
        with self.lock, self.place.open("ab") as file:
            file.write(packed)
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()


def measure(running: Running, ended: float, kept: Kept) -> None:
    job, folder, pods, port = running.job, running.folder, running.pods, running.ras_port
    chance = random.Random(f"{job.seed} {job} ranks")
    addresses = [pods.address(each) for each in range(job.ranks)]
    places = {address: at for at, address in enumerate(addresses)}
    slots: list[Any] = [SimpleNamespace(number=each, gpus=1) for each in range(job.ranks)]
    ask = partial(pods.ask, folder, running.begun, port)
    ask("times", "1")  # the first dump takes seconds
    healthy = running.measure_step(2.0)
    for kind, part in list_trials(job):
        if time.monotonic() > ended:
            break
        who, amount = chance.randrange(job.ranks), part * healthy
        for place in folder.glob("truth-*"):
            place.unlink()
        running.change(kind, who, amount)
        time.sleep(0.8)
        before, seconds = running.steps(), rankscope.seconds_to_ask(healthy)
        least = (f"{rankscope.MAX_ASKED_SECONDS:g}", str(rankscope.MIN_STEPS), str(rankscope.MIN_POLLS))
        polls = pods.poll(seconds, port, *least)
        step = running.seconds_a_step(before)
        times = ask("times", f"{seconds:g}")
        read = rankscope.read_times(dict(enumerate(times)), places)
        report = rankscope.add_times(rankscope.find_slow_ranks(rankscope.parse_polls(polls)), read, {})
        sampled = ",".join(map(str, rankscope.choose_sampled(report, slots)))
        samples = ask("samples", f"{rankscope.seconds_to_sample(report, seconds):g}", sampled) if sampled else []
        truth = [json.loads(place.read_text()) if place.exists() else None
                 for place in (folder / f"truth-{rank}" for rank in range(job.ranks))]  # fmt: skip
        running.change("none")
        time.sleep(0.3)
        before_it, healthy = healthy, running.measure_step(1.8) or healthy
        if not step:
            sys.stdout.write(f"{job} stood still: {running.diagnose()}\n")
            continue
        kept.add({
            "framework": job.framework, "ranks": job.ranks, "batch": job.batch, "kind": kind, "amount": amount,
            "who": who, "ms": 1000 * step, "before_ms": 1000 * before_it, "beside_ms": 1000 * healthy,
            "polls": polls.decode(), "times": [each.decode() for each in times],
            "samples": [each.decode() for each in samples],
            "truth": truth, "addresses": addresses, "seed": job.seed,
        }, f"{job} {kind} {amount * 1000:.1f} ms, rank {who}: {step * 1000:.1f} ms a step, "
           f"{healthy * 1000:.1f} without")  # fmt: skip


def measure_cost(running: Running, asked: argparse.Namespace, ended: float, kept: Kept) -> None:
    """Turns in which the job is asked as `a4 slow` does, in each way, and in which it is not, in a random order."""
    job, pods, chance = running.job, running.pods, random.Random(f"{running.job.seed} {running.job} cost")
    every = ",".join(map(str, range(job.ranks)))

    def ask(*words: str) -> object:
        return pods.ask(running.folder, running.begun, running.ras_port, *words)

    ways: dict[str, Callable[[], object]] = {
        "nothing": lambda: time.sleep(asked.seconds),
        "NCCL": lambda: pods.poll(asked.seconds, running.ras_port),
        "py-spy": lambda: ask("samples", f"{asked.seconds:g}", every),
        "recorder": lambda: ask("times", f"{asked.seconds:g}"),
    }
    running.wake()
    ask("times", "1")  # the first dump takes seconds
    running.measure_step(2.0)
    rounds: list[list[tuple[str, float, float]]] = []
    while time.monotonic() < ended and len(rounds) < job.trials:
        order = list(ways)[: 2 if (len(rounds) + 1) % asked.others else 4]
        chance.shuffle(order)
        rounds.append([])
        for way in order:
            begun = time.time()
            ways[way]()
            rounds[-1].append((way, begun, time.time()))
    running.rest()
    ends = running.step_ends()
    step = 1000 * mean_step(ends, 0.0, time.time())
    turns = [{way: mean for way, *span in each if (mean := mean_step(ends, *span))} for each in rounds]
    for way in list(ways)[1:]:
        more = [turn[way] / turn["nothing"] - 1 for turn in turns if way in turn and "nothing" in turn]
        kept.add({"job": str(job), "way": way, "rounds": rounds, "ends": ends},
                 f"{job}: {step:.2f} ms a step: {way} {describe_cost(more)}")  # fmt: skip


def mean_step(ends: list[tuple[int, float]], begun: float, ended: float) -> float:
    """How long the steps that lie wholly in this time took in the mean; 0 without one."""
    inside = [each for each in ends if begun <= each[1] <= ended]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) if len(inside) > 1 else 0.0


def describe_cost(more: list[float]) -> str:
    """What steps took longer in pairs of turns: mean, mean without a tenth at each end, median; intervals of 95 %.

    A step that some other program holds up for long moves the mean by much, the trimmed one by little.
    """
    if len(more) < 10:
        return f"{len(more)} pairs: too few"
    more, root, cut = sorted(more), len(more) ** 0.5, math.floor(TRIMMED * len(more))
    inner = more[cut : len(more) - cut]
    drawn_in = [min(max(each, inner[0]), inner[-1]) for each in more]  # whose scatter is that of the trimmed mean
    mean = f"mean {100 * statistics.fmean(more):+.2f} % ± {196 * statistics.stdev(more) / root:.2f} %"
    half = 196 * statistics.stdev(drawn_in) / root / (1 - 2 * TRIMMED)
    trimmed = f"trimmed {100 * statistics.fmean(inner):+.2f} % ± {half:.2f} %"
    at = max(0, math.floor((len(more) - 1.96 * root) / 2))
    low, middle, high = (f"{100 * each:+.2f}" for each in (more[at], statistics.median(more), more[-1 - at]))
    return f"{len(more)} pairs: {mean}, {trimmed}, median {middle} % ({low} to {high})"


def run_costs(asked: argparse.Namespace, kept: Kept) -> None:
    """All jobs are started, and then by turns one runs and the others rest."""
    runs = [Running(Job.parse(each), number) for number, each in enumerate(asked.jobs)]
    try:
        ready = [each for each in runs if goes_well(each, each.wait_and_rest)]
        begun = time.monotonic()
        for number, each in enumerate(ready, 1):
            ended = begun + asked.limit * number / len(ready)
            goes_well(each, partial(measure_cost, each, asked, ended, kept))
    finally:
        for each in runs:
            end_all(each.begun)


def goes_well(running: Running, do: Callable[[], object]) -> bool:
    try:
        do()
    except (SystemExit, OSError, ValueError, rankscope.UnreadableAnswer, subprocess.SubprocessError) as error:
        sys.stdout.write(f"{running.job}: {error}\n")
        return False
    return True


def run(asked: argparse.Namespace) -> None:
    ended, kept = time.monotonic() + asked.limit, Kept(asked.out)
    streams = [[Job.parse(each) for each in stream.split(",")] for stream in asked.jobs]
    most = [max(job.ranks for job in stream) for stream in streams]
    ranks, gpus = max(most) if asked.what == "cost" else sum(most), count_gpus()
    with shared_gpus(max(1, 90 * gpus // ranks) if gpus < ranks else 100) as parts:
        sys.stdout.write(f"{gpus} GPUs, {ranks} ranks at the same time, MPS {parts}\n")
        if asked.what == "cost":
            run_costs(asked, kept)
            return

        last: dict[int, Running] = {}

        def follow(place: tuple[int, list[Job]]) -> None:
            for job in place[1]:
                if time.monotonic() > ended:
                    return
                if place[0] in last:
                    last[place[0]].end()
                last[place[0]] = running = Running(job, place[0])
                if goes_well(running, running.wait):
                    goes_well(running, partial(measure, running, ended, kept))

        with ThreadPoolExecutor(len(streams)) as pool:
            list(pool.map(follow, enumerate(streams)))
        for each in last.values():  # no sooner: MPS may take the end of one for a fault of all
            each.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "cost"])
    parser.add_argument("jobs", nargs="+", help="FRAMEWORK:RANKS:BATCH:TRIALS:SEED, or several with commas between")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=500.0, help="seconds after which no trial begins")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn of cost")
    parser.add_argument("--others", type=int, default=3, help="rounds of cost, in one of which not only NCCL is asked")
    run(parser.parse_args())
