"""`python -m tests.bench.parsers`: megabytes a second that the log parsers read on one core.

The mixed log is what a training job of a few nodes prints: libnccl's chatter, warnings, progress bars, memory reports,
and in between the lines that mean something. Beside it stand logs of one kind each, to say which line costs what.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Protocol

from console.parsers.nccl import NcclParser
from console.parsers.training import TrainingParser

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 1 << 20
SIZE = 24 << 20
BOUND = 60.0
"""MB/s that both parsers together have to keep on the mixed log."""
INFO = [
    "node-7:{n}:98 [{r}] NCCL INFO Channel {n:02}/0 : {r}[{r}] -> 4[4] via P2P/CUMEM/read",
    "node-7:{n}:98 [{r}] NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
]
NOISE = [
    "2025-12-17 01:18:26,{n} - root - INFO - Synchronizing the timeout of all process groups to 0:01:40",
    "/usr/local/lib/python3.12/site-packages/torch/cuda/__init__.py:61: FutureWarning: pynvml is deprecated",
    "W1121 06:40:40.{n} 1691 torch/distributed/run.py:851] Setting OMP_NUM_THREADS for each process to be 1 in default",
    "[Rank {r}] (after {n} iterations) memory (MB) | allocated: 26222.72 | max allocated: 63359.77 | reserved: 66802.0",
]
BAR = "Tokenizing train set:  42%|████████            | {n}/99290 [00:01<00:01, 80.03 examples/s]"
MEGATRON = (
    " [2026-09-05 16:08:25] iteration {n:8}/  200000 | consumed samples:      {n}256 | elapsed time per iteration (ms):"
    " 11182.0 | throughput per GPU (TFLOP/s/GPU): 128.2 | learning rate: 2.999993E-05 | global batch size:   128 |"
    " lm loss: 2.688647E+00 | z_loss: 1.019938E+01 | loss scale: 1.0 | grad norm: 7.737 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
DICT = (
    "{{'loss': 2.{n}, 'grad_norm': 0.9141, 'learning_rate': 0.000188, 'epoch': {n}, 'global_step/max_steps': '{n}/9'}}"
)
TITAN = (
    "[rank0]:[titan] 2025-12-17 01:18:34,942 - root - INFO - step: {n}  loss: 12.3984  grad_norm:  8.0045"
    "  memory: 116.16GiB(83.14%)  tps: 5,970  tflops: 301.33  mfu: 30.47%"
)
KEYS = "step {n}/9999999 loss 2.083996 step_time 0.0225s lr 3e-4"
LEARNED = "step {n} loss 2.{n:06} grad_norm 1.{r}3 lr 3.0e-04 tok/s 1{r}34"
"""A program that nobody described."""
ROW = "  {n:10}  {n:10}     float     sum      -1    34.65   30.26   52.96       0    34.35   30.52   53.41       0"
HEAD = "# nThread 1 nGpus 8 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 1 iters: 20 validation: 1\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.86 \n#\n"


class Parser(Protocol):
    """What is measured."""

    def feed(self, data: bytes) -> object: ...


def log(*kinds: str, size: int = SIZE) -> bytes:
    """Lines of these kinds in turn, numbered."""
    lines, length, n = [], 0, 0
    while length < size:
        n += 1
        for kind in kinds:
            line = kind.format(n=n, r=n % 8)
            lines.append(line)
            length += len(line)
    return "\n".join(lines).encode() + b"\n"


def mixed() -> bytes:
    """One line of progress in twenty, one row of a table in thirteen of its part, libnccl's chatter more than both."""
    quiet = [*INFO, *INFO, *INFO, *NOISE, *INFO, *NOISE, *INFO, BAR]
    runs = log(*quiet, MEGATRON, size=SIZE // 2) + log(*quiet, TITAN, size=SIZE // 4)
    table = HEAD.encode() + log(*INFO, *NOISE, *INFO, *NOISE, ROW, size=40_000) + FOOT.encode()
    return table * (SIZE // 4 // len(table)) + runs


def speeds(data: bytes, *parsers: Callable[[], Parser], times: int = 3) -> list[float]:
    """MB/s of so many runs, the best first, of the processor's time: other work on the machine counts little."""
    runs = []
    for _ in range(times):
        reading = [parser() for parser in parsers]
        begun = time.process_time()
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            for parser in reading:
                parser.feed(piece)
        runs.append(len(data) / (time.process_time() - begun) / 1e6)
    return sorted(runs, reverse=True)


def main() -> int:
    """Print the figures; 1 when the mixed log is read too slowly."""
    say(f"{'log':24}{'parser':18}{'MB/s':>8}{'ns a line':>12}{'bytes a line':>14}")
    whole = mixed()
    runs = speeds(whole, NcclParser, TrainingParser, times=5)
    together = median(runs)
    show("mixed", whole, "both", together)
    kept = "kept" if together >= BOUND else "BROKEN"
    say(f"{'':24}bound {BOUND:.0f} MB/s: {kept} (median of 5 runs; best {runs[0]:.0f}, worst {runs[-1]:.0f})")
    for name, parser in (("nccl", NcclParser), ("training", TrainingParser)):
        report("mixed", whole, name, parser)
    kinds = {"libnccl": INFO, "warnings": NOISE, "bars": [BAR]}
    for kind, lines in kinds.items():
        data = log(*lines, size=SIZE // 4)
        report(kind, data, "nccl", NcclParser)
        report(kind, data, "training", TrainingParser)
    dear = {"Megatron": MEGATRON, "dictionaries": DICT, "torchtitan": TITAN, "key value": KEYS}
    for kind, text in dear.items():
        report(f"only {kind}", log(text, size=SIZE // 8), "training", TrainingParser)
    report("learned steps", log(LEARNED, size=SIZE // 4), "training", TrainingParser)
    report("only rows", log(ROW, size=SIZE // 16), "nccl", NcclParser)
    return 0 if together >= BOUND else 1


def report(kind: str, data: bytes, name: str, parser: Callable[[], Parser]) -> None:
    show(kind, data, name, speeds(data, parser)[0])


def show(kind: str, data: bytes, name: str, speed: float) -> None:
    """One row: what a line of that kind costs."""
    length = len(data) / data.count(b"\n")
    say(f"{kind:24}{name:18}{speed:8.0f}{1000 * length / speed:12.0f}{length:14.0f}")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
