"""PyTorch's flight recorder of a practice pod: each rank has the pipe that the chart names, and dumps its entries.

Dumps have the form of PyTorch 2.11. The all_reduce calls of each step, and their waits, are recorded ones: of DDP on
two H200 with a slow host, slow data or no fault, or of the Trainer with a slow GPU, scaled to the share that the fault
has (data/slow_ranks.json). In a job that hangs they follow practice/programs/hangs.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import statistics
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from practice.programs.fault_settings import slow_rank
from practice.programs.hangs import ALL_RANKS, BUCKETS, DATA_GROUP, DEAF, LISTENS, STEP, find_hang
from practice.programs.stacks import stack_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from practice.programs.fault_settings import SlowRank
    from practice.programs.hangs import HungJob
    from practice.programs.steps import ProgramContext

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_FOLDER, _PIPE_NAME = ".recorder", "all.pipe"
_A_STEP, _SECONDS, _MOST = 4, 90.0, 2000
"""Collectives per step, seconds covered by a dump, and maximum entries of a recorder."""
_BUSY = 0.02
"""Share of the time in which all ranks are in a collective before a job hangs."""
_SLOWER_NETWORK = 4
_RECORDED = Path(__file__).parent.parent / "data" / "slow_ranks.json"
_NANOSECONDS = 10**9
_SIZE = 67108864  # elements of a gradient
_STEPS_AFTER = 3  # that a job makes when a rank has reduced another size


def recorder_variables(folder: Path, context: ProgramContext) -> dict[str, str]:
    """Return the environment variables of a rank's flight recorder that the job has not set."""
    if not context.env.get(PIPE):
        return {}
    return {PIPE: f"{folder / _FOLDER}/pipe-", **dict.fromkeys(_DUMPS, f"{folder / _FOLDER}/dump-")}


class FlightRecorders:
    """Answers at the flight recorder pipes of all pods in which a command was run."""

    def __init__(self) -> None:
        self._open: dict[Path, list[int]] = {}

    def listen(
        self,
        folder: Path,
        context: ProgramContext,
        doing: Callable[[], str],
        step: float,
        ends: set[Callable[[], None]],
    ) -> None:
        """Answer at a pod's pipes until `close`, or a call of what is added to `ends`; called for each command."""
        home = folder / _FOLDER
        if not recorder_variables(folder, context):
            return
        ranks = range(context.rank * context.gpus, (context.rank + 1) * context.gpus)
        if home not in self._open:
            shutil.rmtree(home, ignore_errors=True)  # of the container's run before
            home.mkdir()
            os.mkfifo(home / _PIPE_NAME)
            for rank in ranks:
                _pipe_of(home, rank).symlink_to(_PIPE_NAME)
            door = os.open(home / _PIPE_NAME, os.O_RDWR | os.O_NONBLOCK)
            self._open[home] = [door]

            def dump() -> None:
                os.read(door, 65536)
                hung = find_hang(context)
                for rank in ranks if doing() != "idle" else ():
                    if hung is not None and hung.recorder_of(rank) != LISTENS:
                        continue
                    beside = home / f".{rank}"
                    beside.write_bytes(pickle.dumps(make_dump(context, doing(), rank, step, time.time()), 2))
                    beside.replace(home / f"dump-{rank}")

            asyncio.get_running_loop().add_reader(door, dump)
            ends.add(lambda: self._close_pipes(home))
        if (hung := find_hang(context)) is not None:
            self._replace_silent_pipes(home, {rank: hung.recorder_of(rank) for rank in ranks})

    def _replace_silent_pipes(self, home: Path, recorders: dict[int, str]) -> None:
        """Replace pipes of recorders that must not answer: a deaf recorder's pipe is never read, others are closed."""
        for rank, recorder in recorders.items():
            pipe = _pipe_of(home, rank)
            if recorder == LISTENS or not pipe.is_symlink():
                continue
            pipe.unlink()
            os.mkfifo(pipe)
            if recorder == DEAF:
                self._open[home].append(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))

    def _close_pipes(self, home: Path) -> None:
        if doors := self._open.pop(home, []):
            asyncio.get_running_loop().remove_reader(doors[0])
            for door in doors:
                os.close(door)

    def close(self) -> None:
        for home in list(self._open):
            self._close_pipes(home)


def _pipe_of(home: Path, rank: int) -> Path:
    return home / f"pipe-{rank}.pipe"


class _RecordedGroup(NamedTuple):
    name: str
    desc: str
    ranks: Sequence[int]

    def as_config(self) -> dict[str, str]:
        return {"name": self.name, "desc": self.desc, "ranks": str(list(self.ranks))}


class _Recorder:
    """The content of a rank's flight recorder: an entry for each operation of a group."""

    def __init__(self, context: ProgramContext) -> None:
        self._context = context
        self._frames: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.entries: list[dict[str, Any]] = []

    def add(
        self,
        group: _RecordedGroup,
        number: int,
        time: float,
        *,
        op: str = "all_reduce",
        state: str = "completed",
        size: int = _SIZE,
        frame: str = "nccl",
        span: float = 0.0,
        took_seconds: float = 0.0,
        p2p: bool = False,
    ) -> None:
        """Add an operation launched at `time` and over `span` seconds later, which took `took_seconds` on the GPU."""
        frames = self._stack_frames(op.partition(" ")[0], frame)
        ended, begun = state == "completed", state != "scheduled"
        self.entries.append({
            "record_id": len(self.entries), "pg_id": int(group.name), "process_group": (group.name, group.desc),
            "collective_seq_id": 0 if p2p else number, "p2p_seq_id": number if p2p else 0, "op_id": number,
            "profiling_name": f"nccl:{op}", "time_created_ns": int(time * _NANOSECONDS), "input_sizes": [[size]],
            "input_dtypes": ["BFloat16"], "output_sizes": [[size]], "output_dtypes": ["BFloat16"], "state": state,
            "time_discovered_started_ns": int(time * _NANOSECONDS) if begun else None,
            "time_discovered_completed_ns": int((time + span) * _NANOSECONDS) if ended else None, "retired": ended,
            "timeout_ms": 600000, "is_p2p": p2p, "frames": frames,
        } | ({"duration_ms": 1000 * took_seconds} if ended else {}))  # fmt: skip

    def _stack_frames(self, call_name: str, frame: str) -> list[dict[str, Any]]:
        if (call_name, frame) not in self._frames:
            function, _, where = stack_frames(self._context, frame)[0].rstrip(")").partition(" (")
            file, _, line = where.partition(":")
            self._frames[call_name, frame] = [
                {"name": call_name, "filename": "/usr/lib/torch/distributed/distributed_c10d.py", "line": 2696},
                {"name": function, "filename": file, "line": int(line or 0)},
            ]
        return self._frames[call_name, frame]


def make_dump(context: ProgramContext, activity: str, rank: int, step: float, now: float) -> dict[str, Any]:
    """Return the flight recorder dump of a rank at the time `now` (epoch seconds); `step`: seconds of one."""
    hung = find_hang(context)
    each, count = step / _A_STEP, min(_MOST, int(_SECONDS / step * _A_STEP))
    every = _RecordedGroup("0", "default_pg", range(context.nodes * context.gpus))
    recorder, groups = _Recorder(context), [every]
    if hung is not None and hung.hang.group != ALL_RANKS:
        groups += _own_groups(hung, rank)
        _record_groups(recorder, hung, rank, groups, now, each, count // _A_STEP)
    else:
        _record_steps(recorder, context, every, rank, step, now, count, is_running=hung is None)
        for call in hung.calls_of(rank) if hung is not None else ():
            recorder.add(every, STEP, now, state=call.state, frame=call.frame)
    configs = {group.name: group.as_config() for group in groups}
    entries = recorder.entries
    return {"version": "2.10", "nccl_version": "2.28.9", "pg_config": configs, "pg_status": {}, "entries": entries}


def _record_steps(
    recorder: _Recorder,
    context: ProgramContext,
    every: _RecordedGroup,
    rank: int,
    step: float,
    now: float,
    count: int,
    *,
    is_running: bool,
) -> None:
    """Record a rank's last `count` collectives, at `step` seconds a step; launch times do not depend on `now`."""
    slow = slow_rank(context) if is_running else None
    recorded = find_recording(slow.cause if slow is not None else "none")
    a_call = step * recorded.steps / len(recorded.calls)
    last = int(now % 10**6 / a_call) if is_running else STEP - 1
    latest = now - now % 10**6 if is_running else now - last * a_call
    ahead = len(recorded.calls) if is_running else 0  # hosts launch some of these before their time
    for number in range(last - count + 1, last + ahead + 1):
        at, took = recorded.call_of(rank, number, step, slow)
        if latest + at <= now or not is_running:
            recorder.add(every, number, latest + at, span=a_call, took_seconds=took)


class RecordedCall(NamedTuple):
    """A collective of two ranks in microseconds: launch and duration of the first, delay and duration of the second."""

    launched: int
    took: int
    later: int
    its: int

    @property
    def waited(self) -> int:
        return max(0, self.took - self.its)


class StepRecording(NamedTuple):
    """The recorded collectives of some steps of a training, which repeat."""

    seconds: float
    steps: int
    calls: tuple[RecordedCall, ...]

    @property
    def share(self) -> float:
        """The share of a step for which one rank waited for the other."""
        a_step = len(self.calls) // self.steps
        steps = (self.calls[at : at + a_step] for at in range(0, len(self.calls), a_step))
        waits = (max(call.waited for call in step) for step in steps)
        return statistics.fmean(waits) * self.steps / self.seconds / 10**6

    def call_of(self, rank: int | None, number: int, step: float, slow_rank: SlowRank | None) -> tuple[float, float]:
        """Return (launch time, duration) in seconds of a rank's collective, with steps and waits as of the job."""
        turn, at = divmod(number, len(self.calls))
        call, unit = self.calls[at], step * self.steps / self.seconds / 10**6
        late = slow_rank if slow_rank is not None and slow_rank.cause != "network" else None
        other = rank == late.rank if late is not None else bool((rank or 0) % 2)
        longer = late.share / self.share if late is not None else 1.0
        later = call.later * longer if late is not None and other else 0
        took = call.its if other else call.took + call.waited * (longer - 1)
        network = _SLOWER_NETWORK if slow_rank is not None and late is None else 1
        return turn * self.steps * step + unit * (call.launched + later), unit * took * network


@cache
def find_recording(cause: str) -> StepRecording:
    every = json.loads(_RECORDED.read_bytes())
    found = every.get(cause, every["none"])  # of a slow network all ranks are in collectives for longer
    return StepRecording(found["seconds"], found["steps"], tuple(RecordedCall(*each) for each in found["calls"]))


def _own_groups(hung_job: HungJob, rank: int) -> list[_RecordedGroup]:
    """Return a rank's data group, and its pipeline group if one hangs in it, under Megatron's names."""
    several = hung_job.groups.data_groups()
    data, pipeline = hung_job.groups.data_group_of(rank), hung_job.groups.pipeline_of(rank)
    found = [_RecordedGroup(str(1 + several.index(data)), "DATA_PARALLEL_GROUP_WITH_CP", data)]
    if hung_job.hang.sends:
        found.append(_RecordedGroup(str(1 + len(several) + pipeline[0]), "PIPELINE_MODEL_PARALLEL_GROUP", pipeline))
    return found


def _record_groups(
    recorder: _Recorder, hung: HungJob, rank: int, groups: Sequence[_RecordedGroup], now: float, each: float, steps: int
) -> None:
    """Record steps in all groups of a rank, `each` seconds a collective, up to its last one in the group that hangs."""
    every, data, *pipeline = groups
    for step in range(STEP - steps, STEP + 1):
        at = now - (STEP - step) * _A_STEP * each
        for group in pipeline:
            _record_sends(recorder, hung, rank, group, step, at, each)
        calls = hung.calls_of(rank) if step == STEP else ()
        launched = {DATA_GROUP: BUCKETS * (step - 1), ALL_RANKS: step - 1}
        # Those who have launched nothing of their data group any more have it behind them, unless they skipped it.
        done = step < STEP or not (hung.is_stuck(rank) or any(call.group == DATA_GROUP for call in calls))
        for _ in range(BUCKETS) if done else ():
            launched[DATA_GROUP] += 1
            odd = hung.hang.resizes and step == STEP - _STEPS_AFTER and hung.is_stuck(rank)
            size = _SIZE * 3 // 2 if odd else _SIZE
            recorder.add(data, launched[DATA_GROUP], at, frame="grads", size=size, span=each, took_seconds=_BUSY * each)
        if step < STEP:
            recorder.add(every, step, at, frame="norm", size=1, span=each, took_seconds=_BUSY * each)
        for call in calls:
            launched[call.group] += 1
            group, size = (every, 1) if call.group == ALL_RANKS else (data, _SIZE)
            recorder.add(
                group, launched[call.group], at, op=call.op, state=call.state, size=size, frame=call.frame, span=each
            )


def _record_sends(
    recorder: _Recorder, hung_job: HungJob, rank: int, group: _RecordedGroup, step: int, time: float, span: float
) -> None:
    """Record receives and sends of a pipeline stage in a step, over `span` seconds; a late stage has only received."""
    stage, late, last = (*map(hung_job.groups.stage_of, (rank, hung_job.rank)), len(group.ranks) - 1)
    before = [f"recv {stage}<-{stage - 1}"] if stage else []
    after = [f"send {stage}->{stage + 1}", f"recv {stage}<-{stage + 1}"] if stage < last else []
    back = [f"send {stage}->{stage - 1}"] if stage else []
    every = before + after + back
    done = len(every)
    if step == STEP and rank == hung_job.rank:
        every, done = before, len(before)
    elif step == STEP and hung_job.waits_to_receive(rank):
        done = 0 if stage > late else len(before) + 1
    for at_place, op in enumerate(every):
        state = "completed" if at_place < done else "started" if at_place == done else "scheduled"
        number = (step - 1) * (len(before + after + back)) + at_place + 1
        recorder.add(group, number, time, op=op, state=state, frame="receive", span=span, p2p=True)
