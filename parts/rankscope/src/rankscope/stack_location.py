"""Classifies the location of a process by its stack: in a collective, data loader, checkpoint or lock (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlog import Frame, ProcessStacks, ThreadStack


class Activity(StrEnum):
    DATA = "data"  # it waits for its data loader
    COLLECTIVE = "collective"  # it waits in a collective for the other ranks
    GPU = "gpu"  # it waits for its GPU, on which a collective may be waiting
    MEETING = "meeting"  # it waits for the other ranks to come to a rendezvous
    CHECKPOINT = "checkpoint"
    TEARDOWN = "teardown"  # it ends its process group, or its interpreter
    LOCK = "lock"
    WAIT = "wait"  # it waits for something else: a process, a socket, a file
    COMPUTE = "compute"
    COMPILED = "compiled"  # it is a program without Python in it, such as an NCCL test: py-spy cannot look into it
    UNKNOWN = "unknown"  # there is no stack
    NOT_ASKED = "not asked"  # its stack was not asked for: others are known to be waited for

    @property
    def waits_for_ranks(self) -> bool:
        """Whether the process waits for others, so that the cause is in another rank."""
        return self in (Activity.COLLECTIVE, Activity.GPU, Activity.MEETING, Activity.COMPILED, Activity.NOT_ASKED)

    @property
    def explains_wait(self) -> bool:
        """Whether this activity explains why the other ranks wait for the process."""
        return self in (Activity.DATA, Activity.CHECKPOINT, Activity.TEARDOWN, Activity.LOCK)


ACTIVITY_ADVICE: dict[Activity, str] = {
    Activity.DATA: "Data loader: look at the data set, at the storage that it is read from, and at the loader's "
    "workers (fewer of them, preprocessed data); then launch again. Other nodes seldom help.",
    Activity.COLLECTIVE: "NCCL: check that the ranks reach each other and the NCCL variables; a longer NCCL timeout "
    "helps only if they are merely slow.",
    Activity.GPU: "NCCL: work on the GPU does not end, most often a collective: check that the ranks reach "
    "each other and the NCCL variables.",
    Activity.MEETING: "Rendezvous: check that the master's port can be reached from every pod, and that all ranks "
    "have started.",
    Activity.CHECKPOINT: "Checkpoint: check that its storage is mounted, has room and answers; on a slow one it may "
    "only take its time.",
    Activity.TEARDOWN: "Teardown: it has left the training and waits for its process group to end; ranks that are "
    "still in a collective wait for it: let all of them come to a barrier before destroy_process_group.",
    Activity.LOCK: "Lock: a deadlock between threads or processes; look at the code that synchronises them, "
    "and try a simpler configuration.",
    Activity.WAIT: "Waiting: look whether GPU memory and shared memory (/dev/shm) are enough, and what it waits for.",
    Activity.COMPUTE: "Work: the ranks compute. If no iteration comes, one of them is slow: record a flame graph "
    "of it.",
    Activity.COMPILED: "NCCL test: if no more rows come (NCCL tab), NCCL RAS tells which rank launched less; if "
    "the same one is behind at another look, the others wait for it. Launch with "
    "NCCL_DEBUG=INFO for details.",
    Activity.NOT_ASKED: "Not asked: the stacks of all ranks tell more (S in the Hang tab, a4 hang JOB --all).",
    Activity.UNKNOWN: "No stack: see beside the rank why; py-spy needs the right to trace (SYS_PTRACE, or a "
    "privileged pod).",
}
"""Advice on the ranks that the others wait for, by their activity."""


@dataclass(frozen=True, slots=True)
class StackLocation:
    doing: Activity
    label: str  # as `describe_place` takes it: "all_reduce", "data loader"
    frame: Frame | None = None  # the call by which that was told, in the program's own code if there is any


def describe_place(doing: Activity, label: str) -> str:
    """A phrase for an activity, to follow a verb: "in all_reduce", "waiting for a lock"."""
    return f"{'waiting for' if doing is Activity.LOCK else 'in'} {label}"


NO_STACK = StackLocation(Activity.UNKNOWN, "no stack")
STACK_NOT_ASKED = StackLocation(Activity.NOT_ASKED, "not asked for a stack")
_STATE_WORDS = {"D": "waiting for a device", "T": "stopped", "t": "stopped", "Z": "dead"}


def locate_compiled(program: str, state: str) -> StackLocation:
    """The location of a program without Python, of which only the process state is known."""
    return StackLocation(Activity.COMPILED, ", ".join(filter(None, (program, _STATE_WORDS.get(state, "")))))


_COLLECTIVE_CALL = re.compile(
    r"_?(all_?reduce\w*|all_?gather\w*|reduce_?scatter\w*|all_?to_?all\w*|broadcast\w*|barrier|monitored_barrier"
    r"|reduce|scatter|gather|isend|irecv|send|recv|batch_isend_irecv|send_object_list|recv_object_list"
    r"|send_forward\w*|recv_forward\w*|send_backward\w*|recv_backward\w*|_communicate)"
)
_COMM_FILE = re.compile(r"distributed_c10d|torch/distributed/(?!elastic|checkpoint)|p2p_communication|nccl|mpi4py")
_RENDEZVOUS_CALL = re.compile(r"init_process_group|_store_based_barrier|rendezvous|_create_c10d_store|wait_for_workers")
_TEARDOWN = re.compile(r"destroy_process_group|_?abort_process_group|_exit_function|_run_exitfuncs|_shutdown_workers")
_DATA_FILE = re.compile(
    r"torch/utils/data/|/?(?:data_?loaders?|data_?sets?|indexed_dataset|webdataset|blended_\w+)(?:/|\.py)|pyarrow/"
)
_DATA_CALL = re.compile(
    r"_?(?:next_(?:batch|data|sample|shard)|(?:read|load|fetch|get|try_get|open)_(?:next_)?"
    r"(?:batch|data|shard|sample|item)s?(?:_\w+)?|collate\w*|__getitem__|tokeni[sz]e\w*)"
)
_CHECKPOINT_CALL = re.compile(
    r"(?:save|load|write|read)_(?:\w+_)?(?:checkpoint|state_dict)\w*|dist_checkpointing|torch/serialization"
)
_GPU_FILE = re.compile(r"torch/cuda/")
_GPU_CALL = re.compile(r"synchronize|wait|item|tolist|cpu")
_LOCK_CALL = re.compile(r"acquire|_wait_for_tstate_lock|__enter__|lock|flock")
_WAIT_CALL = re.compile(r"wait\w*|select|poll|sleep|join|accept|recv\w*|read\w*|communicate|connect|getaddrinfo|get")
_IMPORT_FILE = re.compile(r"<frozen importlib")
_LIBRARY_FILE = re.compile(
    r"^<frozen |torch/|site-packages/|multiprocessing/|(?:^|/)logging/__init__\.py$|"
    r"(?:threading|selectors|socket|subprocess|queue)\.py$"
)


def locate_process(process: ProcessStacks) -> StackLocation:
    """The code location of a process, by its main thread or the thread that computes for it."""
    threads = sorted(process.threads, key=lambda thread: thread.name != "MainThread")
    if not threads or not threads[0].frames:
        return NO_STACK
    found = locate_thread(threads[0])
    if found.doing is Activity.COMPUTE and found.label == "backward":
        # Gradients are worked out, and reduced, by threads of autograd while the main one waits for them.
        others = [locate_thread(each) for each in threads[1:] if each.frames]
        return next((each for each in others if each.doing.waits_for_ranks), found)
    return found


def locate_thread(thread: ThreadStack) -> StackLocation:
    """The code location of a thread: its innermost known call, or its own code while it waits for data."""
    if any(_IMPORT_FILE.match(frame.file) for frame in thread.frames):  # whatever it reads and calls for that
        return StackLocation(Activity.COMPUTE, "an import", find_own_code(thread.frames))
    for frame in thread.frames:
        if (found := _match_frame(frame)) is not None:
            own = find_own_code(thread.frames) if found[0] is Activity.DATA else frame
            return StackLocation(*found, own or frame)
    return _fallback_location(thread)


def _match_frame(frame: Frame) -> tuple[Activity, str] | None:
    call, file = _plain_function_name(frame), frame.file
    if _RENDEZVOUS_CALL.search(call):
        return Activity.MEETING, "the rendezvous"
    if _TEARDOWN.fullmatch(call):
        return Activity.TEARDOWN, "teardown"
    if _CHECKPOINT_CALL.search(call) or _CHECKPOINT_CALL.search(file):
        return Activity.CHECKPOINT, "a checkpoint"
    if _COMM_FILE.search(file) and (matched := _COLLECTIVE_CALL.fullmatch(call)):
        return Activity.COLLECTIVE, matched[1].lstrip("_")
    if _DATA_FILE.search(file) or _DATA_CALL.fullmatch(call):
        return Activity.DATA, "data loader"
    return None


def _fallback_location(thread: ThreadStack) -> StackLocation:
    """The code location where no call is decisive: GPU, lock, other wait, or computation."""
    for frame in thread.frames:
        matched = _COLLECTIVE_CALL.fullmatch(_plain_function_name(frame))
        if matched and matched[1] not in ("send", "recv", "reduce", "scatter", "gather"):
            return StackLocation(Activity.COLLECTIVE, matched[1].lstrip("_"), frame)
        if _GPU_FILE.search(frame.file) and _GPU_CALL.fullmatch(_plain_function_name(frame)):
            return StackLocation(Activity.GPU, f"cuda {_plain_function_name(frame)}", frame)
    first = thread.frames[0]
    if _LOCK_CALL.fullmatch(_plain_function_name(first)):
        return StackLocation(Activity.LOCK, "a lock", find_own_code(thread.frames) or first)
    backward = next(
        (each for each in thread.frames if _plain_function_name(each) in ("backward", "_engine_run_backward")), None
    )
    if backward is not None:
        return StackLocation(Activity.COMPUTE, "backward", backward)
    if "active" not in thread.state and _WAIT_CALL.fullmatch(_plain_function_name(first)):
        return StackLocation(Activity.WAIT, _plain_function_name(first), find_own_code(thread.frames) or first)
    own = find_own_code(thread.frames) or first
    return StackLocation(
        Activity.COMPUTE if "active" in thread.state else Activity.WAIT, _plain_function_name(own), own
    )


def _plain_function_name(frame: Frame) -> str:
    """The function's name without its class, which newer py-spy adds ("Condition.wait")."""
    return frame.function.rpartition(".")[2]


def find_own_code(frames: Iterable[Frame]) -> Frame | None:
    """The innermost call outside well-known libraries; None if there is none."""
    return next((each for each in frames if not _LIBRARY_FILE.search(each.file) and each.function != "<module>"), None)
