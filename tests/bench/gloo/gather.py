"""Starts that training with so many processes, lets it hang in each way, and gathers what the console's probe says.

`PYTHON_WITH_TORCH gather.py OUT [--ranks 64] [--pod 8] [--tp 8] [--pp 2] [HANG ...]`; py-spy is looked for in PATH.
Eight processes are a "pod": the probe is run for each as in one, at the same time. OUT gets HANG.json: the answers of
the pods, and what is true. It stands alone; `python -m tests.bench.gloo OUT` says what the console makes of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROBE = HERE.parents[2] / "console" / "hang" / "probe.py"
STARTING = 240.0
SETTLING = 3.0
"""Seconds from the last step to the look, in which all come to where they wait."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def start(folder: Path, hang: str, victim: int, asked: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    os.mkfifo(folder / "storage")
    shared = {
        **os.environ, "WORLD_SIZE": str(asked.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "HANG": hang, "VICTIM": str(victim), "TP": str(asked.tp), "PP": str(asked.pp), "FOLDER": str(folder),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/pipe_", "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/trace_",
        "TORCH_FR_BUFFER_SIZE": "200", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    begun = []
    for rank in range(asked.ranks):
        env = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank % asked.pod)}
        with (folder / f"log-{rank}").open("wb") as log:
            argv = [sys.executable, "-u", str(HERE / "training.py")]
            begun.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True))
    return begun


def wait_until_hung(folder: Path, ranks: int) -> None:
    end = time.monotonic() + STARTING
    while len(list(folder.glob("begun-*"))) < ranks:
        if time.monotonic() > end:
            missing = [rank for rank in range(ranks) if not (folder / f"begun-{rank}").exists()]
            raise SystemExit(f"ranks {missing} have not begun: {(folder / f'log-{missing[0]}').read_text()[-2000:]}")
        time.sleep(0.1)
    time.sleep(SETTLING)


def look(folder: Path, pod: int, begun: list[subprocess.Popen[bytes]]) -> object:
    """The probe's answer for the processes of one pod."""
    proc = folder / f"proc-{pod}"
    proc.mkdir()
    for process in begun:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for pid in (str(process.pid), *(children.read_text().split() if children.exists() else ())):
            if Path(f"/proc/{pid}").exists():
                (proc / pid).symlink_to(f"/proc/{pid}")
    env = {**os.environ, "A4_PROC": str(proc), "A4_RDMA": "/nowhere"}
    said = subprocess.run([sys.executable, str(PROBE)], env=env, capture_output=True, check=True).stdout
    return json.loads(said)


def gather(hang: str, asked: argparse.Namespace, out: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="a4-gloo-"))
    # In the middle of a group, in the first stage, and of another pod than rank 0.
    victim = 0 if hang == "checkpoint" else asked.tp + asked.tp // 2
    begun = start(folder, hang, victim, asked)
    try:
        wait_until_hung(folder, asked.ranks)
        began = time.monotonic()
        with ThreadPoolExecutor(asked.ranks) as pool:
            pods = [begun[at : at + asked.pod] for at in range(0, asked.ranks, asked.pod)]
            answers = list(pool.map(look, [folder] * len(pods), range(len(pods)), pods))
        took = time.monotonic() - began
        told = {"hang": hang, "victim": victim, "ranks": asked.ranks, "tp": asked.tp, "pp": asked.pp, "seconds": took,
                "answers": answers}  # fmt: skip
        (out / f"{hang}.json").write_text(json.dumps(told))
        print(f"{hang}: {asked.ranks} ranks, {took:.1f} s", flush=True)  # noqa: T201
    finally:
        for process in begun:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    for name, usual in (("ranks", 64), ("pod", 8), ("tp", 4), ("pp", 2)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("hangs", nargs="*")
    asked = parser.parse_intermixed_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    every = ("skip", "order", "shape", "data", "dead", "stop", "stage", "checkpoint", "epoch")
    for hang in asked.hangs or every:
        gather(hang, asked, asked.out)


if __name__ == "__main__":
    main()
