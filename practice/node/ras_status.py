"""What NCCL's RAS service of a practice pod tells, as text and as the arguments of what prints it as JSON.

In the form of NCCL 2.28.9: of a job that hangs as recorded (tests/fixtures/h100/hangs.tar.gz), where ranks are numbered
in each communicator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from practice.node.flight_recorder import find_recording
from practice.programs.hangs import ADDRESSES_FACT, ALL_RANKS, BUCKETS, STEP, find_hang
from practice.programs.job_faults import slow_rank
from practice.programs.nccl import is_single_process

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from practice.programs.hangs import HungJob
    from practice.programs.steps import ProgramContext

FIRST_PID = 1201  # process of the pod's first rank; the others follow
_LAUNCHES, _TEST_PERIOD = 24, 0.05
"""Operations of a test that are launched at once, and seconds that they take."""
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


def rank_count(place: ProgramContext, doing: str) -> int:
    """Return how many processes of the pod are ranks while it does `doing`."""
    return 1 if doing == "test" and is_single_process(place) else place.gpus


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
    """A job whose ranks RAS knows."""

    def __init__(self, place: ProgramContext) -> None:
        self._gpus = place.gpus
        self._addresses = place.room.facts.get(ADDRESSES_FACT, {})

    def process_of(self, rank: int) -> tuple[int, int, str]:
        """Return GPU, process and host of a rank."""
        pod, local = divmod(rank, self._gpus)
        return local, FIRST_PID + local, self._addresses.get(pod) or f"10.0.0.{pod + 1}"

    def named(self, rank: int) -> str:
        local, pid, node = self.process_of(rank)
        return f"-- GPU {local} managed by process {pid} on node {node}"

    def differ(self, among: _Communicator, what: str, usual: str, odd: dict[int, str]) -> str:
        """Return how some ranks differ from the others, a line for each; a single other one has a line, too."""
        most = [rank for rank in among.ranks if rank not in odd]
        lines = [f"  Communicator ranks have different {what}"]
        lines += [f"  {len(most)} ranks {usual}"] if len(most) != 1 else []
        values = {most[0]: usual} | odd if len(most) == 1 else odd
        for rank, value in values.items():
            lines.append(f"  Rank {among.ranks.index(rank)} {value.replace('have ', 'has ', 1)} {self.named(rank)}")
        return "\n".join(lines) + "\n"


def _format_launched(operations: int) -> str:
    return f"have launched up to operation {operations}" if operations else "have not launched any operations"


def _rank_behind(job: _RasJob, among: _Communicator, odd: Collection[int], by: int) -> _RasFinding:
    less = {rank: _format_launched(among.operations - by) for rank in odd}
    lines = job.differ(among, "AllReduce operation counts", _format_launched(among.operations), less)
    return _RasFinding("MISMATCH", warnings=f"\n{among.name} MISMATCH\n{lines}")


def _other_operation(job: _RasJob, among: _Communicator, rank: int) -> _RasFinding:
    lines = job.differ(among, "Broadcast operation counts", _format_launched(0), {rank: _format_launched(1)})
    error = f"Asynchronous error on 1 rank\n  Rank {among.ranks.index(rank)} reported Invalid usage {job.named(rank)}"
    return _RasFinding("ERROR,MISMATCH", f"\n{among.name} ERROR\n  {error}\n", f"\n{among.name} MISMATCH\n{lines}")


def _silent(job: _RasJob, among: _Communicator, rank: int) -> _RasFinding:
    local, pid, node = job.process_of(rank)
    missing = f"Missing communicator data from 1 rank\n  Rank {among.ranks.index(rank)} {job.named(rank)}"
    first = f"Missing communicator data from 1 job process\n  Process {pid} on node {node} managing GPU {local}"
    return _RasFinding("INCOMPLETE", f"\nINCOMPLETE\n  {first}\n\n{among.name} INCOMPLETE\n  {missing}\n", missing=1)


def _remote_errors(job: _RasJob, among: _Communicator, rank: int) -> str:
    """The errors that ranks report which were connected to a rank that has gone."""
    at = among.ranks.index(rank)
    beside = sorted({(at - 1) % len(among.ranks), (at + 1) % len(among.ranks)} - {at})
    if len(beside) < 2:
        errors = [
            f"Asynchronous error on 1 rank\n  Rank {each} reported Remote process error {job.named(among.ranks[each])}"
            for each in beside
        ]
    else:
        errors = [f"Asynchronous errors on {len(beside)} ranks\n  {len(beside)} ranks reported Remote process error"]
        errors += [f"Rank {each} {job.named(among.ranks[each])}" for each in beside]
    return f"\n{among.name} ERROR\n  " + "\n  ".join(errors) + "\n"


def _dead(job: _RasJob, among: _Communicator, rank: int) -> _RasFinding:
    silent = _silent(job, among, rank)
    return silent._replace(status="INCOMPLETE,ERROR", errors=silent.errors + _remote_errors(job, among, rank))


def _without_communicator(job: _RasJob, among: _Communicator, rank: int) -> _RasFinding:
    lines = job.differ(among, "status", "have status RUNNING", {rank: "has status NOCOMM"})
    return _RasFinding("ERROR,MISMATCH", _remote_errors(job, among, rank), f"\n{among.name} MISMATCH\n{lines}", 1)


_OF_ONE_RANK = {"other": _other_operation, "silent": _silent, "dead": _dead, "no communicator": _without_communicator}


def _find_trouble(job: _RasJob, hung: HungJob, among: _Communicator, group: str) -> _RasFinding:
    """Return what RAS finds in a communicator of all ranks, or of a data group."""
    odd = [rank for rank in hung.leaves_with() if rank in among.ranks]
    kind = hung.hang.ras
    if not odd or kind == "even" or (kind != "behind in both" and group != hung.hang.group):
        return _RasFinding()
    if kind not in _OF_ONE_RANK:
        return _rank_behind(job, among, odd, 1 if group == ALL_RANKS else BUCKETS)
    if kind == "other" and not hung.fails:
        return _RasFinding("MISMATCH", warnings=_other_operation(job, among, hung.rank).warnings)
    return _OF_ONE_RANK[kind](job, among, hung.rank)


def format_ras(place: ProgramContext, doing: str) -> str:
    """Return what `ncclras -v` prints; empty while no NCCL runs."""
    if doing == "idle":
        return ""
    nodes, here = 1 if is_single_process(place) else place.nodes, rank_count(place, doing)
    world, hung, job = nodes * place.gpus, find_hang(place), _RasJob(place)
    text = _HEAD.format(
        nodes=nodes,
        here=here,
        each=place.gpus // here,
        processes=nodes * here,
        world=world,
    )
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
        hosts = len({rank // place.gpus for rank in several[0].ranks})
        status = next((each.status for each in found if each.status != "OK"), "OK")
        text += (
            f"{number:5} {len(several):9} {hosts:9} {-(-size // hosts):9} {size:9} {size * len(several) - missing:9}"
            f"   RUNNING  {status:>8}\n"
        )
        errors += "".join(each.errors for each in found)
        warnings += "".join(each.warnings for each in found)
    return f"{text}\nErrors\n======\n{errors}\nWarnings\n========\n{warnings}"


def ras_arguments(place: ProgramContext, doing: str, step: float) -> str:
    """Return what ncclras.awk has to know, as its arguments; `step`: seconds of one of a training."""
    here, hung, slow = rank_count(place, doing), find_hang(place), slow_rank(place)
    late = slow.rank if slow is not None and slow.cause != "network" else None
    recorded, moments = find_recording(slow.cause if slow is not None else "none"), list[str]()
    for rank in (None, late):
        each = (recorded.call_of(rank, number, step, slow)[0] for number in range(len(recorded.calls)))
        moments.append("" if doing == "test" else ",".join(f"{at:.6f}" for at in each))
    facts: dict[str, object] = {
        "nodes": 1 if is_single_process(place) else place.nodes,
        "gpus": place.gpus,
        "each": place.gpus // here,
        "first": FIRST_PID,
        "launches": _LAUNCHES if doing == "test" else len(recorded.calls),
        "period": _TEST_PERIOD if doing == "test" else step * recorded.steps,
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
