"""Slow ranks on real frameworks: a loop, DDP, FSDP2 and torch.compile, disturbed and healthy, with the measured truth.

On a machine with NVIDIA GPUs, torch and NCCL 2.28.7 or newer (py-spy on PATH for its witness), as root:

    python tests/bench/ranks/frameworks.py record --out FILE.json.gz --seed 7 --limit 500 ddp:2 fsdp:4 loop:8 ...

A small transformer is trained by so many ranks. Every few seconds a rank is disturbed, or a healthy habit begins; what
NCCL, the flight recorders and py-spy tell meanwhile is kept, and of each rank its own times, all by one clock: how long
it waited for its batch, until it had launched the last work of a step, how long its GPU computed between events without
collectives in between, and how long it was in collectives. Where a4 is installed:

    python -m tests.bench.ranks.slow_verdicts FILE.json.gz ...
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import gzip
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.bench.ranks.pods import Pods, end_all, shared_gpus, wait_for

DISTURBED = (("host", 0.1), ("host", 0.25), ("gpu", 0.15), ("gpu", 0.4), ("gc", 0.0), ("data", 2.0))
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
"""Nothing; uneven lengths; rank 0 writes 20 MB every 60 steps; it logs every 10; all evaluate every 40; gradients of 4
batches are added up; a GPU that is 2 % slower, as cards of a fleet are."""
LAYERS, WIDTH, LENGTH, BATCH = 4, 512, 256, 8
LISTS = 300_000
SEGMENTS = 4  # of the loop, each with a collective that the program waits for


def work(folder: Path, framework: str) -> None:
    """One of the ranks: steps without an end, each as the file `mode` says; what it measured goes to truth-RANK."""
    torch: Any = import_module("torch")
    dist: Any = import_module("torch.distributed")
    data: Any = import_module("torch.utils.data")
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(1)
    file = folder / "mode"

    class Batches(data.IterableDataset):  # type: ignore[misc]
        """Batches of random tokens, late ones where the mode says so."""

        def __iter__(self) -> Any:
            while True:
                with contextlib.suppress(ValueError, OSError):
                    kind, who, seconds, _ = json.loads(file.read_text())
                    if kind == "data" and who == rank:
                        time.sleep(seconds)
                yield torch.randint(0, 1000, (BATCH, LENGTH))

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.other = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.wide, self.back = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = (each.view(b, n, 8, -1).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
            x = x + self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                             .transpose(1, 2).reshape(b, n, WIDTH))  # fmt: skip
            return x + self.back(torch.nn.functional.gelu(self.wide(self.other(x))))

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(1000, WIDTH)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
            self.head = torch.nn.Linear(WIDTH, 1000)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x)
            return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())

    batches = iter(data.DataLoader(Batches(), batch_size=None, num_workers=1, prefetch_factor=2))
    left = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)
    gradient = torch.ones(1 << 19, device=device)
    model: Any = Model().to(device)
    if framework == "fsdp":
        fsdp: Any = import_module("torch.distributed.fsdp")
        for block in model.blocks:
            fsdp.fully_shard(block)
        fsdp.fully_shard(model)
    elif framework in ("ddp", "compile"):
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=8)
        if framework == "compile":
            model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    logging.basicConfig(filename=folder / f"own-log-{rank}", level=logging.INFO)
    chance = random.Random(rank)

    def multiply(times: int) -> None:
        for _ in range(times):
            torch.mm(left, left)

    multiply(100)
    torch.cuda.synchronize()
    began = time.perf_counter()
    multiply(400)
    torch.cuda.synchronize()
    one_product = (time.perf_counter() - began) / 400

    def forward_and_backward(tokens: Any, last: bool) -> Any:
        hold = model.no_sync() if not last and framework in ("ddp", "compile") else contextlib.nullcontext()
        with hold, torch.autocast("cuda", torch.bfloat16):
            if framework == "fsdp":
                model.set_requires_gradient_sync(last)
            loss = model(tokens)
            loss.backward()
        return loss.detach()

    def compute(step: int, tokens: Any, parts: int) -> None:
        if framework == "loop":
            for _ in range(SEGMENTS):
                multiply(max(1, round(0.006 / SEGMENTS / one_product)))
                dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
            gradient[0].item()
            return
        for part in range(parts):
            loss = forward_and_backward(tokens, part == parts - 1)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if framework == "fsdp" or step % 10 == 0:
            loss.item()

    mode: list[Any] = ["none", 0, 0.0, 0]
    coming: list[Any] | None = None
    step, known, rows, lists = 0, 0, list[list[float]](), list[Any]()
    while True:
        start, begun, ready = (torch.cuda.Event(enable_timing=True), time.time(), 0.0)
        kind, who, amount, _ = mode
        mine = who == rank
        if kind == "host" and mine:
            time.sleep(amount)
        if kind == "gc" and mine and step % 4 == 0:
            gc.collect()
        waiting = time.time()
        tokens = next(batches).to(device, non_blocking=True)
        ready = time.time() - waiting
        if kind == "varlen":
            tokens = tokens[:, : int(LENGTH * (1 - chance.random() * amount))]
        done = torch.cuda.Event(enable_timing=True)
        start.record()
        if kind in ("gpu", "card") and mine:
            multiply(round(amount / one_product))
        done.record()
        compute(step, tokens, 4 if kind == "accumulate" else 1)
        if kind == "save" and rank == 0 and step % 60 == 0:
            (folder / "saved").write_bytes(bytes(20 << 20))
        if kind == "log" and rank == 0 and step % 10 == 0:
            logging.info("step %d of a run whose loss is logged", step)
            time.sleep(0.004)
        if kind == "evaluate" and step % 40 == 0 and framework != "loop":
            with torch.no_grad():
                for _ in range(4):
                    model(tokens)
        launched = time.time()
        rows.append([begun, ready, launched, (start, done) if mine else None])  # type: ignore[list-item]
        step += 1
        if step % 10 == 0:
            write(folder / f"steps-{rank}", [step, time.time()])
        changed = file.stat().st_mtime_ns
        if changed != known:
            known, coming = changed, json.loads(file.read_text())
        if coming and step >= coming[3]:  # all at the same step
            mode, coming = coming, None
            lists = [[] for _ in range(LISTS)] if mode[0] == "gc" and mode[1] == rank else []
            rows.clear()
        if step % 50 == 0:
            torch.cuda.synchronize()
            own = [each[3][0].elapsed_time(each[3][1]) for each in rows[-100:] if each[3]]  # type: ignore[index]
            write(folder / f"truth-{rank}", {
                "kind": mode[0], "lists": len(lists), "waited": [each[1] for each in rows[-100:]],
                "begun": [each[0] for each in rows[-100:]], "launched": [each[2] for each in rows[-100:]], "gpu": own,
            })  # fmt: skip
            del rows[:-200]


def write(place: Path, what: object) -> None:
    new = place.with_name(f"{place.name}.new")
    new.write_text(json.dumps(what))
    new.replace(place)


def steps_done(folder: Path) -> tuple[int, float]:
    steps, at = json.loads((folder / "steps-0").read_text())
    return steps, at


def change(folder: Path, kind: str, who: int, amount: float) -> None:
    """What all ranks do from a step on to which none has come."""
    write(folder / "mode", [kind, who, amount, steps_done(folder)[0] + 30])


def diagnose(begun: list[Any]) -> str:
    """Where the main threads stand."""
    found = []
    for process in begun:
        done = subprocess.run(
            ["py-spy", "dump", "--pid", str(process.pid)], capture_output=True, text=True, check=False
        )
        found.append(" | ".join(line.strip() for line in done.stdout.splitlines() if line.startswith("  "))[:500])
    return "\n".join(found)


def seconds_a_step(folder: Path, seconds: float) -> float:
    before = steps_done(folder)
    time.sleep(seconds)
    after = steps_done(folder)
    return (after[1] - before[1]) / max(1, after[0] - before[0])


def list_trials(seed: int, disturbed: int, healthy: int) -> list[tuple[str, float]]:
    """So many of each, in a random order, a share of every kind."""
    chance = random.Random(seed)
    chosen = [*(DISTURBED * disturbed)[:disturbed], *(HEALTHY * healthy)[:healthy]]
    if disturbed % len(DISTURBED) or healthy % len(HEALTHY):
        chosen = [*(DISTURBED[(seed + at) % len(DISTURBED)] for at in range(disturbed)),
                  *(HEALTHY[(seed + at) % len(HEALTHY)] for at in range(healthy))]  # fmt: skip
    chance.shuffle(chosen)
    return chosen


def measure(
    folder: Path, pods: Pods, begun: list[Any], framework: str, asked: argparse.Namespace, ended: float,
    found: list[dict[str, Any]],
) -> None:  # fmt: skip
    """Add the trials of one job to those found."""
    chance = random.Random(f"{asked.seed} {framework} {pods.ranks}")
    healthy = seconds_a_step(folder, 3.0)
    pods.ask(folder, begun, 28028, "times", "1")  # the first dump takes seconds
    for kind, part in list_trials(chance.randrange(1000), asked.disturbed, asked.healthy):
        if time.monotonic() > ended:
            break
        who, amount = chance.randrange(pods.ranks), part * healthy
        for place in folder.glob("truth-*"):
            place.unlink()
        change(folder, kind, who, amount)
        time.sleep(max(1.5, 50 * healthy))
        before = steps_done(folder)
        polls = pods.poll(asked.seconds, 28028)
        after = steps_done(folder)
        step = (after[1] - before[1]) / max(1, after[0] - before[0])
        times = pods.ask(folder, begun, 28028, "times", f"{asked.seconds:g}")
        every = ",".join(map(str, range(pods.ranks)))
        samples = pods.ask(folder, begun, 28028, "samples", f"{asked.seconds / 2:g}", every)
        truth = [json.loads(place.read_text()) if place.exists() else None
                 for place in (folder / f"truth-{rank}" for rank in range(pods.ranks))]  # fmt: skip
        if after[0] == before[0]:
            sys.exit(f"{framework}:{pods.ranks} hangs: {diagnose(begun)}")
        change(folder, "none", 0, 0.0)
        time.sleep(0.5 + 40 * step)
        beside = seconds_a_step(folder, 1.5)
        found.append({
            "framework": framework, "ranks": pods.ranks, "kind": kind, "amount": amount, "who": who, "ms": 1000 * step,
            "beside_ms": 1000 * beside, "polls": polls.decode(), "times": [each.decode() for each in times],
            "samples": [each.decode() for each in samples], "truth": truth,
            "addresses": [pods.address(each) for each in range(pods.ranks)],
        })  # fmt: skip
        sys.stdout.write(f"{framework}:{pods.ranks} {kind} {amount * 1000:.1f} ms, rank {who}: "
                         f"{step * 1000:.1f} ms a step, "
                         f"{beside * 1000:.1f} without; late {describe_truth(truth)}\n")  # fmt: skip
        sys.stdout.flush()


def describe_truth(truth: list[dict[str, Any] | None]) -> str:
    """By how many ms each rank had launched its step later than the first, in the mean, by one clock."""
    known = [each["launched"] for each in truth if each]
    if len(known) < len(truth):
        return "not measured"
    steps = min(map(len, known))
    first = [min(each[-steps:][at] for each in known) for at in range(steps)]
    return " ".join(
        f"{1000 * statistics.fmean(each[-steps:][at] - first[at] for at in range(steps)):.1f}" for each in known
    )


def record(asked: argparse.Namespace) -> None:
    ended, found = time.monotonic() + asked.limit, list[dict[str, Any]]()
    for job in asked.jobs:
        framework, _, ranks = job.partition(":")
        folder = Path(f"/tmp/a4-frameworks-{framework}-{ranks}")
        folder.mkdir(parents=True, exist_ok=True)
        for place in folder.iterdir():
            if not place.is_dir():
                place.unlink()
        pods = Pods(int(ranks))
        write(folder / "mode", ["none", 0, 0.0, -1])
        with shared_gpus(int(90 * pods.gpus / pods.ranks) if pods.shares_gpus else 100) as parts:
            begun = pods.start([__file__, "work", "--out", str(folder), framework], folder)
            try:
                wait_for(folder, "steps-*[0-9]", pods.ranks, begun, 150)
                sys.stdout.write(f"{job}: MPS {parts}\n")
                measure(folder, pods, begun, framework, asked, ended, found)
            except SystemExit as error:
                sys.stdout.write(f"{job}: {error}\n")
            finally:
                end_all(begun)
        asked.out.write_bytes(gzip.compress(json.dumps(found).encode()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "work"])
    parser.add_argument("jobs", nargs="+", help="FRAMEWORK:RANKS; frameworks are loop, ddp, fsdp and compile")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7, help="of the order of trials and of their ranks")
    parser.add_argument("--limit", type=float, default=500.0, help="seconds for all trials")
    parser.add_argument("--seconds", type=float, default=7.0, help="of polls in a trial")
    parser.add_argument("--disturbed", type=int, default=6, help="trials of a job")
    parser.add_argument("--healthy", type=int, default=6, help="trials of a job")
    asked = parser.parse_args()
    if asked.what == "work":
        work(asked.out, asked.jobs[0])
    else:
        record(asked)
