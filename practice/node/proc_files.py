"""The observable inside of a practice pod: /proc of the training, NCCL's RAS status, RDMA devices.

Shells of the pod find them by A4_PROC and A4_RDMA, because /proc and /sys are this machine's.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from practice.node.counters import write_counters
from practice.node.disks import format_mounts
from practice.node.flight_recorder import recorder_variables
from practice.programs import ddp, megatron
from practice.programs.failure_modes import HUNG_FACT
from practice.programs.faults import slow_rank, step_seconds
from practice.programs.nccl import BOUNDS, FACTOR, is_single_process
from practice.programs.stacks import is_megatron, program_command, torchrun_command

if TYPE_CHECKING:
    from pathlib import Path

    from practice.programs.steps import ProgramContext

FIRST_PID = 1201  # process of the pod's first rank; the others follow
LAUNCHER = 1100
TEST = "all_reduce_perf"
_UP, _BEGAN, _TICKS = 90_000, 86_400, 100
"""Seconds since the machine was started, and from then to the start of the processes; ticks that a second has."""
NICS = 8
_PORT = "29500"
_LAUNCHES, _TEST_PERIOD = 24, 0.05
"""Operations of NCCL in a step, and seconds that one of a test takes."""
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
{nodes:7} {here:10} {each:12} {processes:10} {world:8}

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
_RAS_MISMATCH = """
#0-0 (c454a3c31c8de38c) MISMATCH
  Communicator ranks have different AllReduce operation counts
  {most} ranks have launched up to operation {last}
  Rank {rank} has launched up to operation {before} -- GPU {gpu} managed by process {pid} on node {node}
"""


def environment(folder: Path) -> dict[str, str]:
    return {"A4_PROC": str(folder / ".proc"), "A4_RDMA": str(folder / ".rdma")}


def stuck_gpu(place: ProgramContext) -> int:
    """Return the local rank that hangs: the second, so that its neighbours differ from it."""
    return min(1, place.gpus - 1)


def write_proc_files(folder: Path, place: ProgramContext, doing: str) -> None:
    """Write these files for what the pod is doing: idle, test, train, nccl or data."""
    _write_rdma(folder / ".rdma", place)
    proc = folder / ".proc"
    shutil.rmtree(proc, ignore_errors=True)
    _write_process(proc, 1, 0, ["bash", "/a4/launchers/run.sh"], {}, "S", "do_wait", 1)
    (proc / "mounts").write_text(format_mounts(place))
    (proc / "uptime").write_text(f"{_UP}.00 1000000.00\n")
    if doing == "test":
        _write_test_processes(proc, place)
    elif doing != "idle":
        _write_process(proc, LAUNCHER, 1, torchrun_command(place), {}, "S", "hrtimer_nanosleep", 4)
        for local in range(place.gpus):
            stuck = doing == "data" and local == stuck_gpu(place)
            env = {
                "RANK": str(place.rank * place.gpus + local), "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(place.nodes * place.gpus), "MASTER_ADDR": place.env.get("MASTER_ADDR", "localhost"),
                "MASTER_PORT": place.env.get("MASTER_PORT", _PORT), **recorder_variables(folder, place),
            }  # fmt: skip
            state, sleeps = ("S", "do_sys_poll") if stuck else ("R", "")
            _write_process(proc, FIRST_PID + local, LAUNCHER, program_command(place), env, state, sleeps, 143)
    write_ras(folder, place, doing)


def write_ras(folder: Path, place: ProgramContext, doing: str) -> None:
    """Write NCCL's RAS status for what the pod is doing."""
    (folder / ".bin" / "ras").write_text(_ras_status(place, doing))
    (folder / ".bin" / "ras_counts").write_text(_ras_arguments(place, doing))


def training_step_seconds(place: ProgramContext) -> float:
    return step_seconds(place, megatron.STEP_SECONDS if is_megatron(place) else ddp.STEP_SECONDS)


def rank_count(place: ProgramContext, doing: str) -> int:
    """Return how many processes of the pod are ranks while it does `doing`."""
    return 1 if doing == "test" and is_single_process(place) else place.gpus


def mpi_program(place: ProgramContext) -> str:
    """Return the MPI program that starts the pod's ranks."""
    return "orted" if place.rank else "mpirun"


def test_command(place: ProgramContext) -> list[str]:
    """Return the command line of a rank of the test."""
    program = f"/third_party/nccl-tests/build/{TEST}" if is_single_process(place) else f"./build/{TEST}"
    return [program, *_test_options(place), "-g", str(place.gpus if is_single_process(place) else 1)]


def _test_options(place: ProgramContext) -> list[str]:
    named = (*zip(("-b", "-e"), BOUNDS, strict=True), ("-f", FACTOR))
    return [part for flag, (name, usual) in named for part in (flag, place.env.get(name, usual))]


def _write_test_processes(proc: Path, place: ProgramContext) -> None:
    """Write the processes of an NCCL test: busy ranks and their MPI launchers."""
    if not is_single_process(place):
        argv = [mpi_program(place), *(["--allow-run-as-root", "bash"] if not place.rank else ["-mca", "ess", "env"])]
        _write_process(proc, LAUNCHER, 1, argv, {}, "S", "do_sys_poll", 3)
    for local in range(rank_count(place, "test")):
        rank = {"OMPI_COMM_WORLD_RANK": place.rank * place.gpus + local, "OMPI_COMM_WORLD_LOCAL_RANK": local}
        env = {} if is_single_process(place) else {name: str(value) for name, value in rank.items()}
        _write_process(proc, FIRST_PID + local, LAUNCHER, test_command(place), env, "R", "", 11)


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
    used = (_UP - _BEGAN) * _TICKS if state == "R" else 3 * _TICKS
    (folder / "stat").write_text(f"{pid} ({name}) {state} {parent}{' 0' * 9} {used}{' 0' * 7} {_BEGAN * _TICKS}\n")
    (folder / "limits").write_text(_LIMITS)
    (folder / "maps").write_text("7f1d80000000-7f1d80021000 rw-p 00000000 00:00 0\n")


def _write_rdma(folder: Path, place: ProgramContext) -> None:
    if folder.exists():
        return
    slow = slow_rank(place)
    degraded = slow is not None and slow.cause == "network" and slow.rank // place.gpus == place.rank
    for number in range(NICS):
        port = folder / f"mlx5_{number}" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
        (port / "rate").write_text("100 Gb/sec (1X NDR)\n" if degraded and number == 0 else "400 Gb/sec (4X NDR)\n")
    write_counters(folder)


def _ras_arguments(place: ProgramContext, doing: str) -> str:
    """Return what ncclras.awk has to know, as its arguments."""
    here, culprit = rank_count(place, doing), place.room.facts.get(HUNG_FACT)
    slow = slow_rank(place)
    late, share = (slow.rank, slow.share) if slow is not None and slow.launches_late else ("", 0)
    told = {
        "nodes": 1 if is_single_process(place) else place.nodes, "gpus": place.gpus, "each": place.gpus // here,
        "first": FIRST_PID, "launches": _LAUNCHES,
        "period": _TEST_PERIOD if doing == "test" else training_step_seconds(place),
        "late": late, "share": share, "stuck": "" if culprit is None else culprit * place.gpus + stuck_gpu(place),
    }  # fmt: skip
    return " ".join(f"-v {name}={value}" for name, value in told.items())


def _ras_status(place: ProgramContext, doing: str) -> str:
    """Return what `ncclras -v` prints; empty while no NCCL runs."""
    if doing == "idle":
        return ""
    nodes, here, culprit = (
        1 if is_single_process(place) else place.nodes,
        rank_count(place, doing),
        place.room.facts.get(HUNG_FACT),
    )
    world = nodes * place.gpus
    text = _RAS.format(
        nodes=nodes, gpus=place.gpus, here=here, each=place.gpus // here, processes=nodes * here, world=world,
        errors="OK" if culprit is None else "MISMATCH",
    )  # fmt: skip
    if culprit is None:
        return text
    local = stuck_gpu(place)
    return text + _RAS_MISMATCH.format(
        most=world - 1, last=4117, before=4116, rank=culprit * place.gpus + local, gpu=local, pid=FIRST_PID + local,
        node=f"10.0.0.{culprit + 1}",
    )  # fmt: skip
