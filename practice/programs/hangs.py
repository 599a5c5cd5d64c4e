"""The kinds of hangs of a training's rank: the observable state of the rank and of its waiting peers.

`HOW` has an entry for each kind, after recordings of such hangs on GPUs (tests/fixtures/h100/hangs.tar.gz). The rank is
the second one of its pod, so that its neighbours differ from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from practice.programs.process_groups import process_groups

if TYPE_CHECKING:
    from practice.programs.process_groups import ProcessGroups
    from practice.programs.steps import ProgramContext

HUNG_FACT = "hung"
"""Name of the fact that a job hangs; its value is the number of the pod that the others wait for."""
HOW_FACT = "hung how"
"""Name of the fact with the kind of the hang, a key of `HOW`; without it the rank is in its data loader."""
ADDRESSES_FACT = "addresses of pods that hang"
"""Name of the fact with each pod's address by its number, by which NCCL names the host of a rank."""
DATA = "data"
ALL_RANKS, DATA_GROUP = "all ranks", "data group"
STEP = 4117
"""Number of the step that never ends. In each step all ranks reduce once, and each data group BUCKETS times."""
BUCKETS = 2
REPLICAS, STAGES = "data-parallel replicas", "pipeline stages"
"""What a kind of hang needs at least two of."""
LISTENS, DEAF, CLOSED = "listens", "deaf", "closed"
"""States of a flight recorder: it dumps, does not read its pipe, or has closed its pipe."""


class PendingCollective(NamedTuple):
    """A collective that a rank has launched and that has not ended."""

    group: str
    state: str  # scheduled: its GPU has not come to it; started
    frame: str  # the call of the program, of stack_frames()
    op: str = "all_reduce"


class HangKind(NamedTuple):
    """The observable state of a rank that hangs: stack, process state and GPU use."""

    what: str
    stack: str = "norm"  # where py-spy finds it: hosts launch ahead, so that most wait at the same call
    ras: str = "behind"  # what NCCL RAS tells
    state: str = "R"
    wchan: str = ""
    idle: bool = False  # its GPU has nothing to do
    group: str = ALL_RANKS  # in which others wait for it
    calls: tuple[PendingCollective, ...] = ()
    recorder: str = LISTENS
    fails: bool = False  # NCCL reports an error, after which no rank of the job dumps its recorder any more
    needs: str = ""  # two and more of these
    sends: bool = False  # the others wait for what it sends, in the pipeline
    resizes: bool = False  # some steps before, it has reduced another size than the others


_OF_ALL = PendingCollective(ALL_RANKS, "scheduled", "norm")
_REDUCES = tuple(PendingCollective(DATA_GROUP, "scheduled", "grads") for _ in range(BUCKETS))
_WAITS = (_REDUCES[0]._replace(state="started"), *_REDUCES[1:], _OF_ALL)
_IS_THROUGH = (_OF_ALL._replace(state="started"),)

HOW: dict[str, HangKind] = {
    DATA: HangKind("in its data loader", "data", state="S", wchan="do_sys_poll", idle=True),
    "checkpoint": HangKind(
        "in a checkpoint that it writes to storage that does not answer",
        "checkpoint", state="D", wchan="request_wait_answer", idle=True,
    ),
    "lock": HangKind("at a lock that is never released", "lock", state="S", wchan="futex_do_wait", idle=True),
    "skip": HangKind(
        "past an all_reduce of the data group that it never entered, in the next one of all ranks",
        group=DATA_GROUP, calls=_IS_THROUGH, needs=REPLICAS,
    ),
    "order": HangKind(
        "at a broadcast where the others are at an all_reduce; with several pods NCCL stops there with an error",
        ras="other", group=DATA_GROUP,
        calls=(PendingCollective(DATA_GROUP, "started", "params", "broadcast"), *_REDUCES, _OF_ALL), needs=REPLICAS,
    ),
    "shape": HangKind(
        "at an all_reduce, after one with another size than the others' three steps before",
        ras="even", group=DATA_GROUP, calls=_WAITS, needs=REPLICAS, resizes=True,
    ),
    "epoch": HangKind(
        "with its replica behind the loop, in a barrier, while the others are in it",
        "barrier", group=DATA_GROUP, calls=(PendingCollective(ALL_RANKS, "started", "barrier", "all_reduce_barrier"),),
        needs=REPLICAS,
    ),
    "stage": HangKind(
        "in a compiler, so that its pipeline stage never sends",
        "compile", "behind in both", "S", "do_wait", idle=True, group=DATA_GROUP, needs=STAGES, sends=True,
    ),
    "dead": HangKind("dead, and its pod goes on", "gone", "dead", idle=True, recorder=CLOSED, fails=True),
    "stop": HangKind("stopped by a signal", "stopped", "silent", "T", "do_signal_stop", idle=True, recorder=DEAF),
    "gpu": HangKind(
        "behind a kernel on its GPU that does not end; all hosts have launched the next all_reduce",
        ras="even", group=DATA_GROUP, calls=(*_REDUCES, _OF_ALL), needs=REPLICAS,
    ),
    "teardown": HangKind(
        "at the end of its program, after it destroyed its process group while the others train on",
        "teardown", "no communicator", "S", "do_wait", idle=True, recorder=CLOSED, fails=True,
    ),
}  # fmt: skip


def stuck_gpu(context: ProgramContext) -> int:
    """Return the local rank that hangs."""
    return min(1, context.gpus - 1)


class HungJob(NamedTuple):
    """The hang of a job: its rank and operation, equal in all pods of the job."""

    hang: HangKind
    rank: int  # the one for which the others wait
    groups: ProcessGroups
    fails: bool

    def leaves_with(self) -> list[int]:
        """The ranks that hang together: the rank's whole replica if it has left the training loop, else it alone."""
        return self.groups.replica_of(self.rank) if self.hang.stack == "barrier" else [self.rank]

    def is_stuck(self, rank: int) -> bool:
        return rank in self.leaves_with()

    def waits_to_receive(self, rank: int) -> bool:
        return self.hang.sends and rank != self.rank and rank in self.groups.pipeline_of(self.rank)

    def calls_of(self, rank: int) -> tuple[PendingCollective, ...]:
        """Return the collectives of the last step that a rank's host has launched and that have not ended."""
        if self.is_stuck(rank):
            return self.hang.calls
        if self.hang.group == ALL_RANKS:
            return (PendingCollective(ALL_RANKS, "started", "nccl"),)
        late = self.groups.pipeline_of(self.rank) if self.hang.sends else self.leaves_with()
        if self.waits_to_receive(rank):
            return (*_REDUCES, _OF_ALL)
        return _IS_THROUGH if not set(late) & set(self.groups.data_group_of(rank)) else _WAITS

    def stack_of(self, rank: int) -> str:
        """Return the stack location of a rank, as a key of PLACES."""
        if self.is_stuck(rank):
            return self.hang.stack
        return "nccl" if self.hang.group == ALL_RANKS else "norm"

    def recorder_of(self, rank: int) -> str:
        """Return the state of a rank's flight recorder: LISTENS, DEAF or CLOSED."""
        if rank == self.rank and self.hang.recorder != LISTENS:
            return self.hang.recorder
        return DEAF if self.fails else LISTENS


def find_hang(context: ProgramContext) -> HungJob | None:
    """Return the hang of the job; None if it does not hang."""
    facts = context.room.facts
    if facts.get(HUNG_FACT) is None:
        return None
    hang, rank = HOW[facts.get(HOW_FACT, DATA)], facts[HUNG_FACT] * context.gpus + stuck_gpu(context)
    # Between GPUs of one machine NCCL does not compare what it moves.
    fails = hang.fails or (hang.ras == "other" and context.nodes > 1)
    return HungJob(hang, rank, process_groups(context), fails)


def doing_in_hang(context: ProgramContext) -> str:
    """Return the activity of a pod in a hanging job: the kind of its rank's hang, else "nccl"."""
    facts = context.room.facts
    return str(facts.get(HOW_FACT, DATA)) if facts.get(HUNG_FACT) == context.rank else "nccl"


def quiet_gpu(context: ProgramContext, activity: str) -> int | None:
    """Return the local rank whose GPU idles while the others of the pod wait for it; None if there is none."""
    return stuck_gpu(context) if activity in HOW and HOW[activity].idle else None
