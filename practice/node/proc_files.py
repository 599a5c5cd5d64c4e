"""The observable state of a practice pod: /proc of the training, NCCL's RAS status, RDMA devices.

Shells of the pod find them through A4_PROC and A4_RDMA, because /proc and /sys are this machine's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from practice.node.counters import write_counters
from practice.node.disks import format_mounts
from practice.node.flight_recorder import recorder_variables
from practice.node.ras_status import FIRST_PID, format_ras, rank_count, ras_arguments
from practice.programs import ddp, megatron
from practice.programs.fault_settings import slow_rank, step_seconds
from practice.programs.hangs import HOW, find_hang, quiet_gpu, stuck_gpu
from practice.programs.nccl import BOUNDS, FACTOR, is_single_process
from practice.programs.stacks import is_megatron, program_command, torchrun_command
from practice.programs.steps import ProgramContext

LAUNCHER = 1100
TEST = "all_reduce_perf"
_UP, _BEGAN, _TICKS = 90_000, 86_400, 100
"""Seconds since the machine's boot; seconds from the boot to the start of the processes; clock ticks per second."""
NICS = 8
_PORT = "29500"
_LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            unlimited            processes
Max open files            1048576              1048576              files
"""


def process_environment(folder: Path) -> dict[str, str]:
    return {"A4_PROC": str(folder / ".proc"), "A4_RDMA": str(folder / ".rdma")}


def write_proc_files(folder: Path, context: ProgramContext, activity: str) -> None:
    """Write the pod's files of /proc for its activity: idle, test, train, nccl, or the kind of its rank's hang."""
    _write_rdma(folder / ".rdma", context)
    proc = folder / ".proc"
    shutil.rmtree(proc, ignore_errors=True)
    _write_process(proc, 1, 0, ["bash", "/a4/launchers/run.sh"], {}, "S", "do_wait", 1)
    (proc / "mounts").write_text(format_mounts(context))
    (proc / "uptime").write_text(f"{_UP}.00 1000000.00\n")
    if activity == "test":
        _write_test_processes(proc, context)
    elif activity != "idle":
        _write_process(proc, LAUNCHER, 1, torchrun_command(context), {}, "S", "hrtimer_nanosleep", 4)
        for local in range(context.gpus):
            rank, where = context.rank * context.gpus + local, _place_of_rank(context, activity, local)
            stuck = HOW[activity] if activity in HOW and local == stuck_gpu(context) else None
            (folder / ".bin" / f"stack_{FIRST_PID + local}").write_text(where)
            if where == "gone":
                continue
            env = {
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(context.nodes * context.gpus),
                "MASTER_ADDR": context.env.get("MASTER_ADDR", "localhost"),
                "MASTER_PORT": context.env.get("MASTER_PORT", _PORT),
                **recorder_variables(folder, context),
            }
            state, sleeps = (stuck.state, stuck.wchan) if stuck is not None else ("R", "")
            _write_process(proc, FIRST_PID + local, LAUNCHER, program_command(context), env, state, sleeps, 143)
    quiet = quiet_gpu(context, activity)
    (folder / ".bin" / "quiet").write_text("" if quiet is None else str(quiet))
    write_ras(folder, context, activity)


def _place_of_rank(context: ProgramContext, activity: str, local: int) -> str:
    """Return the stack location of a training's rank: one of PLACES, or that it is gone or stopped."""
    hung = find_hang(context)
    return activity if hung is None or activity == "train" else hung.stack_of(context.rank * context.gpus + local)


def write_ras(folder: Path, context: ProgramContext, activity: str) -> None:
    """Write the file with NCCL's RAS status for the pod's activity."""
    (folder / ".bin" / "ras").write_text(format_ras(context, activity))
    (folder / ".bin" / "ras_counts").write_text(ras_arguments(context, activity, training_step_seconds(context)))


def training_step_seconds(context: ProgramContext) -> float:
    return megatron.seconds_per_step(context) if is_megatron(context) else step_seconds(context, ddp.STEP_SECONDS)


def mpi_program(context: ProgramContext) -> str:
    """Return the MPI program that starts the pod's ranks."""
    return "orted" if context.rank else "mpirun"


def test_command(context: ProgramContext) -> list[str]:
    """Return the command line of a rank of the test."""
    program = f"/third_party/nccl-tests/build/{TEST}" if is_single_process(context) else f"./build/{TEST}"
    return [program, *_test_options(context), "-g", str(context.gpus if is_single_process(context) else 1)]


def _test_options(context: ProgramContext) -> list[str]:
    named = (*zip(("-b", "-e"), BOUNDS, strict=True), ("-f", FACTOR))
    return [part for flag, (name, usual) in named for part in (flag, context.env.get(name, usual))]


def _write_test_processes(proc: Path, context: ProgramContext) -> None:
    """Write the processes of an NCCL test: busy ranks and their MPI launchers."""
    if not is_single_process(context):
        argv = [
            mpi_program(context),
            *(["--allow-run-as-root", "bash"] if not context.rank else ["-mca", "ess", "env"]),
        ]
        _write_process(proc, LAUNCHER, 1, argv, {}, "S", "do_sys_poll", 3)
    for local in range(rank_count(context, "test")):
        rank = {"OMPI_COMM_WORLD_RANK": context.rank * context.gpus + local, "OMPI_COMM_WORLD_LOCAL_RANK": local}
        env = {} if is_single_process(context) else {name: str(value) for name, value in rank.items()}
        _write_process(proc, FIRST_PID + local, LAUNCHER, test_command(context), env, "R", "", 11)


def _write_process(
    proc: Path, pid: int, parent: int, argv: list[str], env: dict[str, str], state: str, sleeps: str, threads: int
) -> None:
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    words = {"R": "R (running)", "S": "S (sleeping)", "D": "D (disk sleep)", "T": "T (stopped)"}[state]
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


def _write_rdma(folder: Path, context: ProgramContext) -> None:
    if folder.exists():
        return
    slow = slow_rank(context)
    degraded = slow is not None and slow.cause == "network" and slow.rank // context.gpus == context.rank
    for number in range(NICS):
        port = folder / f"mlx5_{number}" / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
        (port / "rate").write_text("100 Gb/sec (1X NDR)\n" if degraded and number == 0 else "400 Gb/sec (4X NDR)\n")
    write_counters(folder)
