"""The status of a practice pod's NCCL RAS service, as text and as the arguments of the script that prints it as JSON.

It has the form of NCCL 2.28.9. A hang is reported as recorded (tests/fixtures/h100/hangs.tar.gz), with ranks numbered
in each communicator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from practice.node.flight_recorder import find_recording
from practice.programs.fault_settings import slow_rank
from practice.programs.hangs import ADDRESSES_FACT, ALL_RANKS, BUCKETS, STEP, find_hang
from practice.programs.nccl import is_single_process

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from practice.programs.hangs import HungJob
    from practice.programs.steps import ProgramContext

FIRST_PID = 1201  # process of the pod's first rank; the others follow
_LAUNCHES, _TEST_PERIOD = 24, 0.05
"""Operations of a test that are launched together, and seconds that they take."""
_HEAD = """NCCL version 2.28.9 compiled with CUDA 13.0
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
"""


def rank_count(context: ProgramContext, activity: str) -> int:
    """Return the number of the pod's processes that are ranks during `activity`."""
    return 1 if activity == "test" and is_single_process(context) else context.gpus


class _Communicator(NamedTuple):
    name: str  # #0-0 (c454a3c31c8de38c)
    ranks: Sequence[int]  # in the job
    operations: int  # that those who are not behind have launched


class _RasFinding(NamedTuple):
    """The problem that NCCL's RAS service reports for one communicator."""

    status: str = "OK"
    errors: str = ""
    warnings: str = ""
    missing: int = 0


class _RasJob:
    """A job whose ranks NCCL's RAS service knows."""

    def __init__(self, context: ProgramContext) -> None:
        self._gpus = context.gpus
        self._addresses = context.room.facts.get(ADDRESSES_FACT, {})

    def process_of(self, rank: int) -> tuple[int, int, str]:
        """Return (GPU, process id, host) of a rank."""
        pod, local = divmod(rank, self._gpus)
        return local, FIRST_PID + local, self._addresses.get(pod) or f"10.0.0.{pod + 1}"

    def named(self, rank: int) -> str:
        local, pid, node = self.process_of(rank)
        return f"-- GPU {local} managed by process {pid} on node {node}"

    def differ(self, comm: _Communicator, subject: str, default: str, odd_ranks: dict[int, str]) -> str:
        """Return RAS's lines on ranks that differ, one line each; the others are summed up unless there is only one."""
        most = [rank for rank in comm.ranks if rank not in odd_ranks]
        lines = [f"  Communicator ranks have different {subject}"]
        lines += [f"  {len(most)} ranks {default}"] if len(most) != 1 else []
        values = {most[0]: default} | odd_ranks if len(most) == 1 else odd_ranks
        for rank, value in values.items():
            lines.append(f"  Rank {comm.ranks.index(rank)} {value.replace('have ', 'has ', 1)} {self.named(rank)}")
        return "\n".join(lines) + "\n"


def _format_launched(operations: int) -> str:
    return f"have launched up to operation {operations}" if operations else "have not launched any operations"


def _rank_behind(job: _RasJob, comm: _Communicator, odd_ranks: Collection[int], by: int) -> _RasFinding:
    less = {rank: _format_launched(comm.operations - by) for rank in odd_ranks}
    lines = job.differ(comm, "AllReduce operation counts", _format_launched(comm.operations), less)
    return _RasFinding("MISMATCH", warnings=f"\n{comm.name} MISMATCH\n{lines}")


def _other_operation(job: _RasJob, comm: _Communicator, rank: int) -> _RasFinding:
    lines = job.differ(comm, "Broadcast operation counts", _format_launched(0), {rank: _format_launched(1)})
    error = f"Asynchronous error on 1 rank\n  Rank {comm.ranks.index(rank)} reported Invalid usage {job.named(rank)}"
    return _RasFinding("ERROR,MISMATCH", f"\n{comm.name} ERROR\n  {error}\n", f"\n{comm.name} MISMATCH\n{lines}")


def _silent(job: _RasJob, comm: _Communicator, rank: int) -> _RasFinding:
    local, pid, node = job.process_of(rank)
    missing = f"Missing communicator data from 1 rank\n  Rank {comm.ranks.index(rank)} {job.named(rank)}"
    first = f"Missing communicator data from 1 job process\n  Process {pid} on node {node} managing GPU {local}"
    return _RasFinding("INCOMPLETE", f"\nINCOMPLETE\n  {first}\n\n{comm.name} INCOMPLETE\n  {missing}\n", missing=1)


def _remote_errors(job: _RasJob, comm: _Communicator, rank: int) -> str:
    """The errors of ranks that were connected to a rank whose process has ended."""
    at = comm.ranks.index(rank)
    beside = sorted({(at - 1) % len(comm.ranks), (at + 1) % len(comm.ranks)} - {at})
    if len(beside) < 2:
        errors = [
            f"Asynchronous error on 1 rank\n  Rank {each} reported Remote process error {job.named(comm.ranks[each])}"
            for each in beside
        ]
    else:
        errors = [f"Asynchronous errors on {len(beside)} ranks\n  {len(beside)} ranks reported Remote process error"]
        errors += [f"Rank {each} {job.named(comm.ranks[each])}" for each in beside]
    return f"\n{comm.name} ERROR\n  " + "\n  ".join(errors) + "\n"


def _dead(job: _RasJob, comm: _Communicator, rank: int) -> _RasFinding:
    silent = _silent(job, comm, rank)
    return silent._replace(status="INCOMPLETE,ERROR", errors=silent.errors + _remote_errors(job, comm, rank))


def _without_communicator(job: _RasJob, comm: _Communicator, rank: int) -> _RasFinding:
    lines = job.differ(comm, "status", "have status RUNNING", {rank: "has status NOCOMM"})
    return _RasFinding("ERROR,MISMATCH", _remote_errors(job, comm, rank), f"\n{comm.name} MISMATCH\n{lines}", 1)


_OF_ONE_RANK = {"other": _other_operation, "silent": _silent, "dead": _dead, "no communicator": _without_communicator}


def _find_trouble(job: _RasJob, hung_job: HungJob, comm: _Communicator, group: str) -> _RasFinding:
    """Return RAS's finding on a communicator of all ranks, or of a data group."""
    odd = [rank for rank in hung_job.leaves_with() if rank in comm.ranks]
    kind = hung_job.hang.ras
    if not odd or kind == "even" or (kind != "behind in both" and group != hung_job.hang.group):
        return _RasFinding()
    if kind not in _OF_ONE_RANK:
        return _rank_behind(job, comm, odd, 1 if group == ALL_RANKS else BUCKETS)
    if kind == "other" and not hung_job.fails:
        return _RasFinding("MISMATCH", warnings=_other_operation(job, comm, hung_job.rank).warnings)
    return _OF_ONE_RANK[kind](job, comm, hung_job.rank)


def format_ras(context: ProgramContext, activity: str) -> str:
    """Return the output of `ncclras -v`; empty while no NCCL runs."""
    if activity == "idle":
        return ""
    nodes, here = 1 if is_single_process(context) else context.nodes, rank_count(context, activity)
    world, hung, job = nodes * context.gpus, find_hang(context), _RasJob(context)
    text = _HEAD.format(nodes=nodes, here=here, each=context.gpus // here, processes=nodes * here, world=world)
    groups = {ALL_RANKS: [_Communicator("#0-0 (c454a3c31c8de38c)", range(world), STEP)]}
    if hung is not None and hung.hang.group != ALL_RANKS:
        groups[hung.hang.group] = [
            _Communicator(f"#1-{at} ({0x5E31A8B2C7F40D19 + 977 * at:016x})", ranks, BUCKETS * STEP)
            for at, ranks in enumerate(hung.groups.data_groups())
        ]
    errors = warnings = ""
    for number, (group, several) in enumerate(groups.items()):
        found = [_RasFinding() if hung is None else _find_trouble(job, hung, among, group) for among in several]
        size, missing = len(several[0].ranks), sum(each.missing for each in found)
        hosts = len({rank // context.gpus for rank in several[0].ranks})
        status = next((each.status for each in found if each.status != "OK"), "OK")
        text += (
            f"{number:5} {len(several):9} {hosts:9} {-(-size // hosts):9} {size:9} {size * len(several) - missing:9}"
            f"   RUNNING  {status:>8}\n"
        )
        errors += "".join(each.errors for each in found)
        warnings += "".join(each.warnings for each in found)
    return f"{text}\nErrors\n======\n{errors}\nWarnings\n========\n{warnings}"


def ras_arguments(context: ProgramContext, activity: str, step: float) -> str:
    """Return the arguments of the script ncclras.awk; `step`: seconds of one step of a training."""
    here, hung, slow = rank_count(context, activity), find_hang(context), slow_rank(context)
    late = slow.rank if slow is not None and slow.cause != "network" else None
    recorded, moments = find_recording(slow.cause if slow is not None else "none"), list[str]()
    for rank in (None, late):
        each = (recorded.call_of(rank, number, step, slow)[0] for number in range(len(recorded.calls)))
        moments.append("" if activity == "test" else ",".join(f"{at:.6f}" for at in each))
    facts: dict[str, object] = {
        "nodes": 1 if is_single_process(context) else context.nodes,
        "gpus": context.gpus,
        "each": context.gpus // here,
        "first": FIRST_PID,
        "launches": _LAUNCHES if activity == "test" else len(recorded.calls),
        "period": _TEST_PERIOD if activity == "test" else step * recorded.steps,
        "late": "" if late is None else late,
        "launched": moments[0],
        "launched_late": moments[1],
    }
    if hung is not None:
        kind, inside = hung.hang.ras, hung.hang.group != ALL_RANKS
        facts |= {
            "hung": STEP,
            "stuck": hung.rank if kind == "behind in both" or (kind == "behind" and not inside) else "",
            "missing": hung.rank if kind in ("dead", "silent") else "",
            "members": ",".join(map(str, hung.groups.data_group_of(hung.rank))) if inside else "",
            "within": BUCKETS * STEP,
            "lacks": BUCKETS if kind.startswith("behind") else 0,
            "odd": hung.rank,
        }
    return " ".join(f"-v {name}={value}" for name, value in facts.items())
