"""How well the slow rank is named on two real GPUs: the same poll script and the same verdict as `a4 slow`.

On a machine with two NVIDIA GPUs, torch and NCCL 2.28.7 or newer (nothing else, no Kubernetes):

    python tests/bench/slow_ranks.py record --out FOLDER [--limit 540]

A loop of two processes is disturbed and left alone by turns, and NCCL's answers are kept. Where a4 is installed:

    python -m tests.bench.slow_ranks judge FOLDER
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

POLL = Path(__file__).parents[2] / "console" / "hang" / "poll_ras.py"
SIZE, MATMULS, SEGMENTS, MEGABYTES = 8192, 12, 4, 64
SETTLES = 1.5  # seconds after a change that are not measured
DISTURBANCES: tuple[tuple[str, float, bool], ...] = (
    ("none", 0, True), ("host", 0.003, True), ("none", 0, True), ("host", 0.005, True), ("none", 0, True),
    ("host", 0.010, True), ("none", 0, False), ("host", 0.010, False), ("none", 0, True), ("gpu", 1, True),
    ("none", 0, False), ("gpu", 1, False), ("none", 0, True), ("host", 0.003, True), ("none", 0, True),
    ("gpu", 3, True),
)  # fmt: skip
"""What is done to a rank in each step, how much (seconds of sleep, matmuls in each segment), and whether the loss is
read in each step."""


def work(folder: Path) -> None:
    """One of the two processes: steps without an end, each as the file `mode` says."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    rank, device = int(os.environ["RANK"]), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    left = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    right = torch.randn_like(left) / SIZE
    gradient = torch.ones(MEGABYTES << 18, device=device)
    file, known = folder / "mode", 0
    mode: list[Any] = ["none", 0, 0.0, True]
    began, steps = time.monotonic(), 0
    while True:
        kind, who, amount, reads = mode
        mine = who == rank
        if kind == "host" and mine:
            time.sleep(float(amount))  # noqa: TID251 - the disturbance
        for _ in range(SEGMENTS):
            for _ in range(MATMULS + (int(amount) if kind == "gpu" and mine else 0)):
                torch.mm(left, right)
            dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
        if reads:
            gradient[0].item()
        steps += 1
        if steps % 10 == 0:
            (folder / f"steps-{rank}.new").write_text(json.dumps([steps, time.monotonic() - began]))
            (folder / f"steps-{rank}.new").replace(folder / f"steps-{rank}")
        changed = file.stat().st_mtime_ns
        if changed != known:
            known, mode = changed, json.loads(file.read_text())


def say(folder: Path, *mode: object) -> None:
    (folder / "mode.new").write_text(json.dumps(mode))
    (folder / "mode.new").replace(folder / "mode")


def steps_done(folder: Path) -> tuple[int, float]:
    steps, seconds = json.loads((folder / "steps-0").read_text())
    return steps, seconds


def record(folder: Path, limit: float, seconds: float) -> None:
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    say(folder, "none", 0, 0.0, True)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__,
            "work", "--out", str(folder)]  # fmt: skip
    loop = subprocess.Popen(argv, start_new_session=True)
    try:
        measure(folder, loop, began + limit, seconds)
    finally:
        if loop.poll() is None:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()


def measure(folder: Path, loop: subprocess.Popen[bytes], until: float, seconds: float) -> None:
    chance = random.Random(7)
    while not (folder / "steps-0").exists():
        if loop.poll() is not None or time.monotonic() > until:
            sys.exit("the loop of two processes does not run; what it printed tells why")
        time.sleep(0.2)  # noqa: TID251 - it waits for another process
    trials: list[dict[str, Any]] = []
    while loop.poll() is None and time.monotonic() < until - seconds - SETTLES:
        kind, amount, reads = DISTURBANCES[len(trials) % len(DISTURBANCES)]
        rank = chance.randrange(2)
        say(folder, kind, rank, amount, reads)
        time.sleep(SETTLES)  # noqa: TID251
        before = steps_done(folder)
        done = subprocess.run([sys.executable, str(POLL), f"{seconds:g}"], capture_output=True, check=False)
        after = steps_done(folder)
        if done.returncode or done.stdout.count(b"\n") < 3:
            sys.exit(f"NCCL's RAS service does not answer: {(done.stderr or done.stdout).decode()}")
        step = (after[1] - before[1]) / max(1, after[0] - before[0])
        name = f"polls-{len(trials):03}.jsonl"
        (folder / name).write_bytes(done.stdout)
        trials.append({"kind": kind, "amount": amount, "reads": reads, "rank": rank, "step": step, "polls": name})
        (folder / "trials.json").write_text(json.dumps(trials, indent=1))
        tell(f"{len(trials)} {title_of(trials[-1])}, rank {rank}: {step * 1000:.1f} ms a step, "
             f"{done.stdout.count(10)} lines")  # fmt: skip


def judge(folder: Path) -> None:
    """A line for each kind of disturbance: how often which verdict, after how long, and with which share."""
    from console.hang.slow_ranks import RasPolls, SlowReport, find_slow_ranks, parse_polls

    def verdict(read: RasPolls, seconds: float) -> SlowReport:
        polls = tuple(each for each in read.polls if each.at - read.polls[0].at <= seconds)
        return find_slow_ranks(
            RasPolls(read.version, read.form, read.ranks, read.processes, polls, read.over, read.active)
        )

    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    trials = json.loads((folder / "trials.json").read_text())
    usual = {
        reads: statistics.median(
            [each["step"] for each in trials if each["kind"] == "none" and each["reads"] == reads] or [0.0]
        )
        for reads in (True, False)
    }
    for each in trials:
        read, step = parse_polls((folder / each["polls"]).read_bytes()), each["step"]
        report = find_slow_ranks(read)
        named = [late.rank for late in report.slow]
        right = named == [each["rank"]] if each["kind"] != "none" else not named
        first = next(
            (at for at in range(1, 61) if [late.rank for late in verdict(read, at).slow] == [each["rank"]]), None
        )
        share = report.slow[0].share if report.slow else None
        lost = max(0.0, step - usual[each["reads"]]) / step
        found[title_of(each)].append(
            {
                "right": right, "wrong": bool(named) and not right, "told": report.has_verdict, "first": first,
                "share": share, "lost": lost, "cause": report.slow[0].cause if report.slow else None,
                "polls": report.polls,
                "inside": bool(report.slow) and lost <= report.slow[0].high,
            }
        )  # fmt: skip
    for title, several in sorted(found.items()):
        tell(f"{title}: {len(several)} runs, right {sum(each['right'] for each in several)}, "
              f"wrong rank or false alarm {sum(each['wrong'] for each in several)}, "
              f"no verdict {sum(not each['told'] for each in several)}, "
              f"cause host {sum(each['cause'] == 'host' for each in several)}, "
              f"seconds to verdict {middle(several, 'first')}, share {middle(several, 'share')}, "
              f"of the step lost {middle(several, 'lost')}, "
              f"not more than told {sum(each['inside'] for each in several)}, "
              f"polls {middle(several, 'polls')}")  # fmt: skip


def title_of(trial: dict[str, Any]) -> str:
    return f"{trial['kind']} {trial['amount']:g}, {'loss read' if trial['reads'] else 'runs ahead'}"


def tell(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def middle(several: list[dict[str, Any]], name: str) -> str:
    known = [each[name] for each in several if each[name] is not None]
    return f"{statistics.median(known):.3g}" if known else "none"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "work", "judge"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=float, default=540.0, help="seconds for all trials")
    parser.add_argument("--seconds", type=float, default=7.0, help="seconds of polls in a trial")
    asked = parser.parse_args()
    place = asked.out or asked.folder
    if place is None:
        parser.error("a folder is needed")
    if asked.what == "work":
        work(place)
    elif asked.what == "record":
        record(place, asked.limit, asked.seconds)
    else:
        judge(place)
