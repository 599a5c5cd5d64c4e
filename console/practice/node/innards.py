"""What can be seen inside a practice pod beside its stand-ins: /proc of the training, NCCL's status, RDMA devices.

Shells of the pod find them by A4_PROC and A4_RDMA, because /proc and /sys are this machine's.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from console.practice.programs.mishaps import HUNG

if TYPE_CHECKING:
    from pathlib import Path

    from console.practice.programs.script import Place

FIRST_PID = 1201
"""Process of the pod's first rank; the others follow."""
LAUNCHER = 1100
NICS = 8
_PYTHON, _PORT = "/usr/bin/python3", "29500"
_LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            unlimited            processes
Max open files            1048576              1048576              files
"""
_RAS = """NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
{nodes:7} {gpus:10} {one:12} {world:10} {world:8}

Communicators... (0.004s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1 {nodes:9} {gpus:9} {world:9} {world:9}   RUNNING  {errors:>8}

Errors
======

Warnings
========
"""
_BEHIND = """
#0-0 (c454a3c31c8de38c) MISMATCH
  Communicator ranks have different AllReduce operation counts
  {most} ranks have launched up to operation {last}
  Rank {rank} has launched up to operation {before} -- GPU {gpu} managed by process {pid} on node {node}
"""


def variables(folder: Path) -> dict[str, str]:
    """Return the variables by which programs find it."""
    return {"A4_PROC": str(folder / ".proc"), "A4_RDMA": str(folder / ".rdma")}


def stuck_gpu(place: Place) -> int:
    """Return the local rank that hangs: the second, so that its neighbours can be told from it."""
    return min(1, place.gpus - 1)


def write_innards(folder: Path, place: Place, doing: str) -> None:
    """Write them as they are while the pod does that: idle, train, nccl or data."""
    _write_rdma(folder / ".rdma")
    proc = folder / ".proc"
    shutil.rmtree(proc, ignore_errors=True)
    _write_process(proc, 1, 0, ["bash", "/a4/launchers/run.sh"], {}, "S", "do_wait", 1)
    if doing != "idle":
        torchrun = [_PYTHON, "/usr/local/bin/torchrun", f"--nproc_per_node={place.gpus}", "pretrain_qwen.py"]
        _write_process(proc, LAUNCHER, 1, torchrun, {}, "S", "hrtimer_nanosleep", 4)
        for local in range(place.gpus):
            stuck = doing == "data" and local == stuck_gpu(place)
            env = {
                "RANK": str(place.rank * place.gpus + local), "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(place.nodes * place.gpus), "MASTER_ADDR": place.env.get("MASTER_ADDR", "localhost"),
                "MASTER_PORT": place.env.get("MASTER_PORT", _PORT),
            }  # fmt: skip
            state, sleeps = ("S", "do_sys_poll") if stuck else ("R", "")
            argv = [_PYTHON, "-u", "pretrain_qwen.py", "--tensor-model-parallel-size", "4"]
            _write_process(proc, FIRST_PID + local, LAUNCHER, argv, env, state, sleeps, 143)
    (folder / ".bin" / "ras").write_text(_status(place, doing))


def _write_process(
    proc: Path, pid: int, parent: int, argv: list[str], env: dict[str, str], state: str, sleeps: str, threads: int
) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    words = {"R": "R (running)", "S": "S (sleeping)"}[state]
    name = argv[0].rpartition("/")[2]
    status = f"Name:\t{name}\nState:\t{words}\nPid:\t{pid}\nPPid:\t{parent}\n"
    (folder / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in argv))
    (folder / "environ").write_bytes(b"".join(f"{key}={value}".encode() + b"\0" for key, value in env.items()))
    (folder / "status").write_text(f"{status}VmRSS:\t 9437184 kB\nThreads:\t{threads}\n")
    (folder / "wchan").write_text(sleeps or "0")
    (folder / "limits").write_text(_LIMITS)
    (folder / "maps").write_text("7f1d80000000-7f1d80021000 rw-p 00000000 00:00 0\n")


def _write_rdma(folder: Path) -> None:
    if folder.exists():
        return
    for number in range(NICS):
        port = folder / f"mlx5_{number}" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
        (port / "rate").write_text("400 Gb/sec (4X NDR)\n")


def _status(place: Place, doing: str) -> str:
    """Return what `ncclras -v` prints; empty while no NCCL runs."""
    if doing == "idle":
        return ""
    world, culprit = place.nodes * place.gpus, place.room.facts.get(HUNG)
    text = _RAS.format(
        nodes=place.nodes, gpus=place.gpus, one=1, world=world, errors="OK" if culprit is None else "MISMATCH"
    )
    if culprit is None:
        return text
    local = stuck_gpu(place)
    return text + _BEHIND.format(
        most=world - 1, last=4117, before=4116, rank=culprit * place.gpus + local, gpu=local, pid=FIRST_PID + local,
        node=f"10.0.0.{culprit + 1}",
    )  # fmt: skip
