"""The report on a hanging job as lines of text, for the Hang tab and `a4 hang` (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.hang.stack_location import Activity
from console.scheduling.ranks import format_processes, format_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.hang.report import HangGroup, HangReport, Launcher, PodTrace, TracedProcess


ADVICE: dict[Activity, str] = {
    Activity.DATA: "Data loader: check the data path and its mount, launch with fewer loader workers, try a "
    "smaller data set, or preprocess the data before the job.",
    Activity.COLLECTIVE: "NCCL: check that the ranks reach each other and the NCCL variables; a longer NCCL timeout "
    "helps only if they are merely slow.",
    Activity.GPU: "NCCL: work on the GPU does not end, most often a collective: check that the ranks reach "
    "each other and the NCCL variables.",
    Activity.MEETING: "Rendezvous: check that the master's port can be reached from every pod, and that all ranks "
    "have started.",
    Activity.CHECKPOINT: "Checkpoint: check that its storage is mounted, has room and answers; on a slow one it may "
    "only take its time.",
    Activity.LOCK: "Lock: a deadlock between threads or processes; look at the code that synchronises them, "
    "and try a simpler configuration.",
    Activity.WAIT: "Waiting: look whether GPU memory and shared memory (/dev/shm) are enough, and what it waits for.",
    Activity.COMPUTE: "Work: the ranks compute. If no iteration comes, one of them is slow: record a flame graph "
    "of it.",
    Activity.COMPILED: "NCCL test: if no more rows come (NCCL tab), NCCL RAS tells which rank launched less; if "
    "the same one is behind at another look, the others wait for it. Launch with "
    "NCCL_DEBUG=INFO for details.",
    Activity.UNKNOWN: "No stack: see beside the rank why; py-spy needs the right to trace (SYS_PTRACE, or a "
    "privileged pod).",
}
"""What to do, by where the culprits are."""
BEHIND = (
    "Behind: NCCL found it at the same operation twice, so the others wait for it: look at its process, the GPUs and "
    "the NICs of its node (Xid errors, links that are down), and keep the node out of the next launch if it is behind "
    "there again."
)
"""What to do about a rank that only NCCL tells from the others."""


def others(group: HangGroup) -> str:
    """Where the largest group is, after their number: "others wait in all_reduce"."""
    several = len(group.members) > 1
    if group.doing is Activity.COMPILED:
        return f"{'others' if several else 'other'} {'run' if several else 'runs'} {group.label}"
    waits = group.doing.waits_for_ranks
    verb = ("wait" if several else "waits") if waits else ("are" if several else "is")
    return f"{'others' if several else 'other'} {verb} in {group.label}"


def describe_no_suspect(groups: Sequence[HangGroup]) -> str:
    """What to say where nobody stands out."""
    largest = max(groups, key=lambda group: len(group.members))
    number = len(largest.members)
    if largest.doing is Activity.UNKNOWN:
        return f"{number} processes were found, but no stack could be read."
    if largest.doing is Activity.COMPILED:
        pods = len({each.pod for each in largest.members})
        said = f"{number} {largest.label} process{'es' if number > 1 else ''} in {pods} pod{'s' if pods > 1 else ''}"
        alone = all(group.doing is Activity.COMPILED for group in groups)
        kind = "no training" if alone else "and other processes beside it"
        return f"An NCCL test, {kind}: {said}; py-spy can only read Python processes."
    if largest.doing.waits_for_ranks:
        return f"All {number} ranks are in {largest.label}: the network, NCCL, or ranks in different collectives."
    if largest.doing is Activity.COMPUTE:
        compute = "1 rank computes" if number == 1 else f"{number} ranks compute"
        return f"{compute} ({largest.label}): this is not a hang, unless it stays like this."
    return f"All {number} ranks are in {largest.label}."


def describe_suspects(group: HangGroup, *, short: bool) -> str:
    """Of those for whom the others wait: who they are, and where; `short` without node and call."""
    several = len(group.members) > 1
    named = group.processes if short else group.named
    if group.doing is Activity.UNKNOWN and all(each.pid is None for each in group.members):
        return f"{named} {'have' if several else 'has'} no process any more"
    if group.behind:
        return f"{named} {'stay' if several else 'stays'} behind in NCCL"
    frame = None if short else group.members[0].where.frame
    call = f" ({frame.function}, {frame.file}:{frame.line})" if frame and frame.line else ""
    return f"{named} {'are' if several else 'is'} {_place(group)}{call}"


def gdb_hint(pods: Sequence[PodTrace]) -> str:
    """How to get the stacks of an NCCL test that runs in these pods."""
    if any(pod.gdb for pod in pods):
        return "C stacks: gdb -p PID -batch -ex 'thread apply all bt' in the pod."
    return "C stacks: its image has no gdb; apt-get install gdb in the pod, if it may trace."


def _place(group: HangGroup) -> str:
    """Where it is: "in the data loader"; of a compiled program what state it is in."""
    if group.doing is Activity.UNKNOWN:
        return "stopped" if all(each.state in ("T", "t") for each in group.members) else "without a stack"
    if group.doing is Activity.COMPILED:
        program, _, state = group.label.partition(", ")
        return state or f"in {program}"
    return f"in {'the ' if group.label == 'data loader' else ''}{group.label}"


FRAMES = 12  # calls of a stack that are shown
STACKS = 16  # processes of one group that are shown
STARTERS = 8  # processes of MPI that are shown


def member_lines(group: HangGroup, *, most: int = STACKS, apart: bool = True) -> list[str]:
    """Processes of a group; compiled programs stand close together, and their command where it changes."""
    lines, command = list[str](), ""
    for process in group.members[:most]:
        found = stack_lines(process)
        if process.program:
            lines += found[:1] if process.command == command else found
            command = process.command
        else:
            lines += [*found, ""] if apart else found
    return [*lines, ""] if apart and command else lines


def stack_lines(process: TracedProcess) -> list[str]:
    """One process: what the kernel says, and its main thread; of a compiled program its command."""
    facts = [format_processes(process.place), *(kernel_words(process) if process.pid else [])]
    lines = ["   " + "  ".join([*facts, process.node or process.pod])]
    if process.program:
        return [*lines, f"     {process.command}"]
    if process.problem:
        return [*lines, f"     {process.problem}"]
    threads = sorted(process.stacks.threads if process.stacks else (), key=lambda each: each.name != "MainThread")
    for frame in threads[0].frames[:FRAMES] if threads else ():
        lines.append(f"     {frame.function} ({frame.file}{f':{frame.line}' if frame.line else ''})")
    left = len(threads[0].frames) - FRAMES if threads else 0
    return [*lines, f"     … {left} more"] if left > 0 else lines


def kernel_words(process: TracedProcess | Launcher) -> list[str]:
    said = [f"pid {process.pid}", f"state {process.state or '?'}"]
    said += [f"in the kernel at {process.wchan}"] if process.wchan else []
    said += [f"{process.threads} thread{'s' if process.threads > 1 else ''}"] if process.threads else []
    return said + ([f"cpu {process.cpu:.0f} %"] if process.cpu is not None else [])


def pod_lines(report: HangReport) -> list[str]:
    """Master or MPI, RDMA and NCCL."""
    return [*_mpi_lines(report), *([] if report.compiled else _master_lines(report)), *_device_lines(report)]


def _mpi_lines(report: HangReport) -> list[str]:
    """The processes that start the others."""
    found = [(pod, each) for pod in report.pods for each in pod.launchers]
    if not found:
        return ["── MPI: no mpirun, each pod tests by itself"] if report.compiled else []
    names = {name: format_ranges(pod.pod_rank for pod, each in found if each.program == name)
             for name in dict.fromkeys(each.program for _, each in found)}  # fmt: skip
    lines = ["── MPI: " + ", ".join(f"{name} in pod {pods}" for name, pods in names.items())]
    for pod, each in found[:STARTERS]:
        lines.append("   " + "  ".join([each.program, f"pod {pod.pod_rank}", *kernel_words(each), pod.node or pod.pod]))
    return [*lines, f"   … {len(found) - STARTERS} more"] if len(found) > STARTERS else lines


def _master_lines(report: HangReport) -> list[str]:
    reached = [pod for pod in report.pods if pod.reached]
    asked = [pod for pod in report.pods if pod.reached is not None]
    master = next((pod.master for pod in asked), "")
    lines = [f"── Master {master}: reached from {len(reached)} of {len(asked)} pods" if asked else
             "── Master: no pod knows MASTER_ADDR and MASTER_PORT"]  # fmt: skip
    return lines + [f"   ✗ pod {pod.pod_rank}, {pod.node}: {pod.unreached}" for pod in report.unreached]


def _device_lines(report: HangReport) -> list[str]:
    devices = {len(pod.rdma) for pod in report.pods if not pod.failure}
    down = [(pod, name, state) for pod in report.pods for name, state in pod.rdma if "ACTIVE" not in state]
    number = "–".join(str(each) for each in sorted({min(devices), max(devices)})) if devices else "no"
    lines = [f"── RDMA: {number} devices a pod, {len(down) or 'none'} not active"]
    lines += [f"   ✗ pod {pod.pod_rank}, {pod.node}: {name} {state}" for pod, name, state in down[:8]]
    lines.append(f"── NCCL RAS: {report.ras.words or report.ras_problem}")
    lines += [
        f"   ✗ {each}" for each in report.ras.text.splitlines() if "launched up to operation" in each or "DEAD" in each
    ]
    return lines
