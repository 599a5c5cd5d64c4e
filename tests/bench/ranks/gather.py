"""Starts that training with so many processes, lets it hang in each way, and gathers what the console's probe says.

`PYTHON_WITH_TORCH gather.py OUT [--backend nccl] [--ranks 64] [--pod 8] [--tp 4] [--pp 2] [--times 1] [HANG ...]`;
py-spy is looked for in PATH. Eight processes are a "pod": the probe is run for each as in one, at the same time. OUT
gets HANG-NUMBER.json: the answers of the pods, and what is true. With nccl, on any number of GPUs: where there are
fewer than ranks, pods.py says how they share them. It needs no a4; `python -m tests.bench.ranks OUT` says what the
console makes of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from tests.bench.ranks.pods import Pods, count_gpus, end_all, wait_for

STARTING = 240.0
RAS_PAUSE = 1.0
EVERY = ("skip", "order", "shape", "data", "dead", "stop", "stage", "checkpoint", "epoch", "lock", "teardown")


def start(
    folder: Path, framework: str, hang: str, victim: int, pods: Pods, asked: argparse.Namespace
) -> list[subprocess.Popen[bytes]]:
    os.mkfifo(folder / "storage")
    more = {
        "HANG": hang, "VICTIM": str(victim), "TP": str(asked.tp), "PP": str(asked.pp), "FOLDER": str(folder),
        "BACKEND": asked.backend, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    }  # fmt: skip
    program = [str(HERE / "training.py")]
    if framework:
        program = [str(HERE / "programs.py"), str(folder), framework, "8" if asked.backend == "nccl" else "1"]
    return pods.start(program, folder, ras_port=28028 + pods.net, more=more)


def ask_ras(pods: Pods, pod: int) -> list[object]:
    """What NCCL says in a pod, twice."""
    first = json.loads(pods.ask_one(pod, 28028 + pods.net, "ras-only"))
    time.sleep(RAS_PAUSE)
    return [first, json.loads(pods.ask_one(pod, 28028 + pods.net, "ras-only"))]


def gather(what: str, number: int, net: int, asked: argparse.Namespace) -> None:
    framework, _, hang = what.rpartition(":")
    folder = Path(tempfile.mkdtemp(prefix="a4-hang-"))
    pods = Pods(asked.ranks, asked.pod, net)
    if asked.backend == "nccl":
        pods.make_networks()
    # In the middle of a group, in the first stage, and of another pod than rank 0.
    victim = 0 if hang == "checkpoint" else asked.tp + asked.tp // 2
    if framework and victim:
        victim = random.Random(f"{asked.seed} {what} {number}").randrange(asked.ranks)
    begun = start(folder, framework, hang, victim, pods, asked)
    try:
        wait_for(folder, "begun-*", asked.ranks, begun, STARTING)
        last_step = time.monotonic()
        time.sleep(asked.settling)
        if list(folder.glob("ended-*")):  # over NVLink NCCL may carry out collectives that do not match
            print(f"{hang}: {asked.ranks} ranks, no hang: a rank went through all steps", flush=True)  # noqa: T201
            return
        with ThreadPoolExecutor(1) as pool:
            ras = pool.submit(ask_ras, pods, 0) if asked.backend == "nccl" else None
            answers = [json.loads(each) for each in pods.ask(folder, begun, 28028 + net, "all-stacks")]
            said = ras.result() if ras else []
        took = time.monotonic() - last_step
        facts = {"backend": asked.backend, "gpus": pods.gpus, "apart": pods.apart, "framework": framework}
        told = {"hang": hang, "victim": victim, "ranks": asked.ranks, "tp": asked.tp, "pp": asked.pp, "seconds": took,
                "answers": answers, "ras": said, "facts": facts}  # fmt: skip
        (asked.out / f"{what}-{number}.json".replace(":", "-")).write_text(json.dumps(told))
        print(f"{what}: {asked.ranks} ranks, {took:.1f} s", flush=True)  # noqa: T201
    finally:
        end_all(begun)
        pods.drop_networks()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    for name, usual in (("ranks", 64), ("pod", 8), ("tp", 4), ("pp", 2), ("times", 1), ("at-once", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--seed", type=int, default=7, help="of the ranks that hang in a framework")
    parser.add_argument("--settling", type=float, default=3.0, help="seconds from the last step to the look")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which no other one is begun")
    parser.add_argument("hangs", nargs="*", help="HANG, or FRAMEWORK:HANG as in programs.py")
    asked = parser.parse_intermixed_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    every = asked.hangs or (*EVERY, *(("gpu",) if asked.backend == "nccl" else ()))
    free, end = list(range(asked.at_once)), time.monotonic() + asked.limit

    def one(place: tuple[int, str]) -> None:
        if time.monotonic() < end:
            net = free.pop()
            try:
                gather(place[1], place[0], net, asked)
            except (SystemExit, subprocess.SubprocessError, OSError, ValueError) as error:
                print(f"{place[1]}: not gathered: {error}", flush=True)  # noqa: T201
            finally:
                free.append(net)

    print(f"{count_gpus()} GPUs", flush=True)  # noqa: T201
    with ThreadPoolExecutor(asked.at_once) as pool:
        list(pool.map(one, [(number, hang) for number in range(asked.times) for hang in every]))


if __name__ == "__main__":
    main()
