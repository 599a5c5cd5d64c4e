"""`python -m tests.bench parsers`: what reading a log takes of the processor's time, beside a bare reader of numbers.

Each kind of line by itself, because a mixture hides the one that is dear: first `a4 read` as a person runs it, as text
and as JSON, from a file and from a pipe, with the memory it takes. Then the parser alone on what each known program
prints.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts.trainlog.tests.training.test_formats import PROGRAMS
from tests.bench.rows import Bound, Ratio
from trainlog import TrainingParser

PIECE = 1 << 20
SIZE = 67_000_000  # bytes of each log
SHORT = 100  # bytes of a line below which a log may be read more slowly
TEXT, JSON = (1.45, 2.42), (1.75, 3.0)
"""How many times the time of a bare reader on the first log `a4 read` may take, of logs of long and of short lines."""
MEMORY = 100.0  # MiB that it may take, of a million steps
_MEASURE = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], check=True)\n"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)"
)
"""Between the bench and what it measures: the memory of whoever starts a process counts as that process's own."""
RATIO = 2.5  # how many times the time of a bare reader a program's lines may take
RATIOS = {  # of those whose lines are read one by one: reports of several lines, joined bars, steps that epochs number
    "NeMo-RL": 8.5, "OLMo": 6.5, "Composer": 14, "PaddleNLP over several lines": 11, "verl, broken by a terminal": 7.5,
    "Megatron-Bridge without a model": 10, "carriage returns as letters": 4.5, "OpenRLHF": 8, "old fairseq": 12,
    "bars of fairseq on one line": 8, "torchtune behind labels": 4, "the other bar of Lightning": 8, "levanter": 6,
    "timm": 6.5, "Keras": 13, "ColossalAI": 9, "a table in a notebook": 11, "litgpt": 4.5, "old litgpt": 5,
}  # fmt: skip
SLOWER = {"HF 4 between bars": 4.0, "bars": 2.0}
"""The same of logs in which each line may change what another said, or is mostly letters of three bytes."""
_STEP = re.compile(
    r"((?i:step|iter(?:ation)?|updates)[\s:=\[\"']{0,9}(?=\d+(?![\d.]))|\|(?=\d+\|Loss)|[|\[] *(?=\d+/\d+[ ,\]]))(\d+)"
)
_BARE = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
A4 = Path(sys.executable).with_name("a4")
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
HF_4 = (
    "{{'loss': 2.{n4:04}, 'grad_norm': 0.9140{n6:06}25, 'learning_rate': 1.88{n4:04}367134594e-05, 'epoch': {e}.{r}}}"
)
HF_5 = "{{'loss': '2.{n4:04}', 'grad_norm': '0.9{r}41', 'learning_rate': '1.88{r}e-05', 'epoch': '{e}.{r}'}}"
TRL = (
    "{{'loss': '0.0{n4:04}', 'grad_norm': '0.9{r}41', 'learning_rate': '1.88{r}e-05', 'num_tokens': '{n}256', "
    "'completions/mean_length': '256.{r}', 'rewards/accuracy_reward/mean': '0.{n4:04}', 'reward': '0.{n4:04}', "
    "'reward_std': '0.2{r}', 'kl': '0.00{n4:04}', 'entropy': '0.4{r}', 'epoch': '{e}.{r}'}}"
)
MAXTEXT = (
    "completed step: {n}, seconds: 1.34{r}, TFLOP/s/device: 257.9{r}9, Tokens/s/device: 36653.24{r}, total_weights: "
    "65536, loss: 7.{n4:04}"
)
KEYS = "step {n}/9999999 loss 2.083996 step_time 0.0225s lr 3e-4"
NANO = "iter {n}: loss 2.{n}, time 468.{r}9ms, mfu 41.{r}2%"
ROW = "  {size:10}  {n:10}     float     sum      -1    34.65   30.26   52.96       0    34.35   30.52   53.41       0"
HEAD = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 1 iters: 20 validation: 1\n"
    f"#{'out-of-place':>74}{'in-place':>33}          \n"
    f"#       size         count      type   redop    root{2 * '     time   algbw   busbw  #wrong'}\n"
    f"#        (B)    (elements)                          {2 * '     (us)  (GB/s)  (GB/s)        '}\n"
)
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 74.86 \n#\n"
STEPS = {
    "Megatron": MEGATRON,
    "torchtitan": TITAN,
    "HF 4": HF_4,
    "HF 5, values as text": HF_5,
    "TRL": TRL,
    "MaxText": MAXTEXT,
    "MaxText of 4 hosts": "\n".join(MAXTEXT.replace("1.34", f"1.3{host}") for host in range(4)),
    "HF 4 between bars": "  1%|####      | {n}/2000000 [05:12:17<31:00:12,  1.01it/s]\n" + HF_4,
    "ms-swift": DICT,
    "nanoGPT": NANO,
    "key-value": KEYS,
}
"""Kinds of steps."""
BESIDE = {"libnccl": INFO, "warnings": NOISE, "bars": [BAR]}
"""Kinds of lines that say nothing."""


def log(*kinds: str, size: int) -> bytes:
    """Lines of these kinds in turn, numbered."""
    lines, length, n = [], 0, 0
    while length < size:
        n += 1
        for kind in kinds:
            mixed = 7919 * n
            line = kind.format(n=n, r=n % 8, size=8 << n % 31, n4=mixed % 9973, n6=mixed % 999983, e=n // 9000)
            lines.append(line)
            length += len(line.encode()) + 1
    return "\n".join(lines).encode() + b"\n"


_PACED = log(MEGATRON, size=SIZE // 4)


def tables(size: int, rows_each: int = 31) -> bytes:
    """Tests of nccl-tests with so many rows each."""
    rows = "".join(ROW.format(n=2 << n, size=8 << n) + "\n" for n in range(rows_each))
    table = (HEAD + rows + FOOT).encode()
    return table * (size // len(table))


def main(ratio: Ratio, bound: Bound) -> bool:
    """Measure and print; whether no log is read too slowly or takes too much memory."""
    kept = [whole(name, log(kind, size=SIZE), ratio) for name, kind in STEPS.items()]
    kept += [whole("tables of nccl-tests", tables(SIZE), ratio), whole("tables of 4 rows", tables(SIZE, 4), ratio)]
    kept += [whole(name, log(*kinds, size=SIZE // 2), ratio) for name, kinds in BESIDE.items()]
    kept.append(bound("a million steps (MiB)", memory(), MEMORY))
    kept += [beside_bare(name, grown(text, SIZE // 32), ratio) for name, (text, _) in PROGRAMS.items()]
    return all(kept)


def grown(text: str, size: int) -> bytes:
    """What a program prints, over and over with later steps."""
    stride = max([int(found[2]) for found in _STEP.finditer(text)], default=0)
    times = range(size // len(text.encode()))
    return "".join(_STEP.sub(lambda at: f"{at[1]}{int(at[2]) + n * stride}", text) for n in times).encode()  # noqa: B023


def beside_bare(name: str, data: bytes, ratio: Ratio) -> bool:
    """A row of the parser beside a bare reader; whether the bound is kept."""
    return ratio(f"{name} (ms a MB)", 1000 / speed(data), 1000 / bare_speed(data), RATIOS.get(name, RATIO))


def bare_speed(data: bytes) -> float:
    """MB/s of a reader that takes the numbers of each line, of the processor's time."""
    begun = time.process_time()
    for line in data.decode().split("\n"):
        list(map(float, _BARE.findall(line)))
    return len(data) / (time.process_time() - begun) / 1e6


def whole(name: str, data: bytes, ratio: Ratio) -> bool:
    """Rows of a log that is read as text and as JSON, the slower of a file and a pipe; whether the bounds are kept."""
    is_short, before = len(data) / data.count(b"\n") < SHORT, bare_speed(_PACED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        text, json = (max(run(path, *options, pipe=pipe)[0] for pipe in (False, True)) for options in ((), ("--json",)))
    bare, slower = 500 / before + 500 / bare_speed(_PACED), SLOWER.get(name)
    kept = [
        ratio(f"a4 read{option}: {name} (ms a MB)", 1e9 * seconds / len(data), bare, slower or most[is_short])
        for option, seconds, most in (("", text, TEXT), (" --json", json, JSON))
    ]
    return all(kept)


def memory() -> float:
    """MiB of memory that a million steps take, as text or as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(log(KEYS, size=1_000_000 * len(KEYS)))
        return max(run(path, *options, pipe=False)[1] for options in ((), ("--json",)))


def run(path: Path, *options: str, pipe: bool) -> tuple[float, float]:
    """Seconds of the processor's time and MiB of memory that `a4 read` of that file takes."""
    source = "-" if pipe else str(path)
    with (path if pipe else Path(os.devnull)).open("rb") as given:
        feeder = subprocess.Popen(["cat"], stdin=given, stdout=subprocess.PIPE)
        measured = subprocess.run(
            [sys.executable, "-c", _MEASURE, str(A4), "read", source, *options],
            stdin=feeder.stdout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        feeder.wait()
    seconds, memory_ = map(float, measured.stderr.split()[-2:])
    return seconds, memory_ / 1024


def speed(data: bytes) -> float:
    """MB/s of the better of two runs of the parser of training logs, of the processor's time."""
    best = 0.0
    for _ in range(2):
        reading, begun = TrainingParser(), time.process_time()
        for at in range(0, len(data), PIECE):
            reading.feed(data[at : at + PIECE])
        best = max(best, len(data) / (time.process_time() - begun) / 1e6)
    return best
