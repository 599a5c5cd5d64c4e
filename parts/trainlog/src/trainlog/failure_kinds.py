"""The kinds of failure that a log names (NCCL, memory, GPU faults, reports of launchers), with a next step for each.

GPU faults are Xid lines of a kernel's log, and SXid of the switches between GPUs; libnccl prints `host:pid:thread
[device] NCCL INFO text`, and warnings with the place in its source.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from trainlog.failure_patterns import FORM_WORDS
from trainlog.number_ranges import format_ranges
from trainlog.regex import lazy_pattern

TEST_FAILURE = lazy_pattern(  # how a test says that it has failed; the second way is that of 2018
    r"Test (?:(?:NCCL|CUDA|HIP|RCCL|MPI) failure|failure|timeout)\b.*|(?:NCCL|Cuda) failure [\w./-]{1,200}\.cu:\d.*"
)


FAILURE_WORDS = (  # a line without any of these names no failure; they are rare in the log of a healthy job
    b"Watchdog caught collective", b"collective timeout from", b"failure detected by watchdog",
    b"NCCL WARN", b"NCCL failure", b"Test failure",
    b"Test CUDA failure", b"Test timeout", b"out of memory", b"Out of memory", b"OutOfMemoryError", b"OUT_OF_MEMORY",
    b"Out Of Memory", b"to allocate request for",
    b"oom_kill event", b"oom-kill event", b"xceeded memory limit", b"xceeded job memory limit",
    b"xceeded step memory limit", b"exits with return code", b" CANCELLED AT ",
    b"srun: error:", b"exited with non-zero status", b"noticed that process rank", b"ChildFailedError",
    b"failed (exitcode:", b"SignalException", b"Xid (", b"fallen off the bus", b"Traceback (most recent",
    b"egmentation fault", b"Bus error", *FORM_WORDS,
)  # fmt: skip

_MAX_NAMED_HOSTS = 4  # hosts that a sentence names


class LogFailure(Struct, frozen=True):
    """One failure that a log names, and how often it does."""

    kind: str
    """The kind: nccl-timeout, nccl-error, nccl-warning, nccl-test, cuda-out-of-memory, out-of-memory, time-limit,
    cancelled, torchrun, mpirun, deepspeed, slurm, signal, xid, gpu-lost, exception, crash or stage (of a launcher); by
    `FORMS` also cuda-error, driver, jax-task, jax-error, rendezvous, peer (another process ended), data-loader, limits,
    ray, engine (of inference), pod, node, checkpoint, nan, import, download, storage."""
    text: str  # what happened, in a sentence, without rank and host
    line: int  # number of the first line that names it, from 1
    rank: int | None = None
    host: str = ""  # machine or pod, where the line tells it
    hint: str = ""  # what to look at next; empty where nothing is certain
    times: int = 1  # how often it is named

    @property
    def sentence(self) -> str:
        """The failure with its rank and host: "rank 3 on node-7: CUDA out of memory"."""
        rank = f"rank {self.rank}" if self.rank is not None else ""
        who = " ".join(filter(None, (rank, f"on {self.host}" if self.host else "")))
        return f"{who}: {self.text}" if who else self.text


def group_sentences(failures: Iterable[LogFailure]) -> list[str]:
    """A sentence for each failure, in the order of the log; ranks with the same failure share a sentence."""
    groups: dict[tuple[str, str], list[LogFailure]] = {}
    for each in failures:
        groups.setdefault((each.kind, each.text), []).append(each)
    return [_format_group(group) for group in groups.values()]


def _format_group(group: list[LogFailure]) -> str:
    first = group[0]
    sentence = first.sentence
    ranks = sorted({each.rank for each in group if each.rank is not None})
    hosts = list(dict.fromkeys(each.host for each in group if each.host))
    if len(ranks) > 1:
        sentence = f"ranks {format_ranges(ranks)}: {first.text}"
    elif len(hosts) > 1:
        more = f" and {len(hosts) - _MAX_NAMED_HOSTS} more" if len(hosts) > _MAX_NAMED_HOSTS else ""
        sentence = f"on {', '.join(hosts[:_MAX_NAMED_HOSTS])}{more}: {first.text}"
    return f"line {first.line:,}: {sentence}." + (f" {first.hint}" if first.hint else "")


HINTS = {
    "nccl-timeout": "Look at the rank that launched less than the others: a4 hang while the job runs; its last lines, "
    "Xid errors and NICs of its node.",
    "nccl-warning": "Lines of NCCL_DEBUG=INFO before it tell what NCCL tried.",
    "nccl-test": "Run it again with NCCL_DEBUG=INFO (or WARN), which says what NCCL could not do.",
    "cuda-out-of-memory": "Use a smaller micro batch or sequence, recompute activations, or shard over more GPUs.",
    "out-of-memory": "Ask for more memory, or use fewer data loader workers; /dev/shm counts as memory too.",
    "time-limit": "Ask for more time, or save checkpoints more often and start again from the last one.",
    "torchrun": "What that rank printed before its traceback says why.",
    "mpirun": "What that rank printed last says why.",
    "gpu-lost": "The node has to be repaired or restarted: keep it out of the next launch.",
    "killed": "SIGKILL comes mostly from the kernel, when the container's memory runs out, or from a scheduler.",
    "xid": "NVIDIA's list of Xid errors says what this number asks for; if it comes back, keep the node out of "
    "the next launch.",
    "cancelled": "Somebody, a failed node or a job of more priority cancelled it: the scheduler says which.",
    "slurm": "What that task printed last says why.",
    "deepspeed": "What that process printed before it ended says why.",
    "crash": "A fault in native code: PYTHONFAULTHANDLER=1 prints the line of Python that called it.",
    "signal": "Somebody or the node asked it to end: a preemption, a drain, a stop, or another node that failed first.",
    "exception": "Its traceback stands before it, or in the log of the process that printed it.",
    "bus-error": "Mostly /dev/shm is full: mount a larger one, or use fewer data loader workers.",
}
_HINT_NVLINK = "An NVLink error: reset the GPUs of the node, and look at SXid lines of the switches."
_HINT_RESET = "Reset the GPU; if it comes back, keep the node out of the next launch and have it repaired."
_HINT_PROGRAM = "The program failed; the GPU keeps working. If it comes back on this GPU only, the GPU is faulty."
NVSWITCH = "A fault of a switch between GPUs: a fatal one ends NVLink there, so restart the node; it may need repair."
XIDS = {  # what an Xid mostly asks for
    **dict.fromkeys((8, 32, 43, 69), _HINT_PROGRAM),
    **dict.fromkeys((38, 46, 61, 62, 109, 110, 123, 143, 158), _HINT_RESET),
    **dict.fromkeys((74, 136, 137, *range(144, 151), 155), _HINT_NVLINK),
    13: "The program used memory that is not its own, or the GPU is faulty: run it again on another one.",
    31: "The program used memory that is not its own; if it comes back on this GPU only, the GPU is faulty.",
    45: "Cleanup after a program that ended: the error before it is the cause.",
    48: "An uncorrected memory error: drain the node, reset the GPU.",
    63: "A memory row is marked for remapping: reset the GPU when it is free.",
    64: "A memory row could not be remapped: the GPU has to be replaced.",
    79: "The GPU cannot be reached any more: keep the node out of the next launch and have it repaired.",
    92: "Many corrected memory errors: watch the GPU; it may have to be replaced.",
    94: "An uncorrected memory error that ended only the programs it touched: reset the GPU when it is free.",
    95: "An uncorrected memory error that may touch every program on the GPU: drain the node and reset the GPU.",
    119: "The GPU's own processor does not answer: reset the GPU, restart the node if that does not help.",
    120: "The GPU's own processor failed: reset the GPU, restart the node if that does not help.",
    121: "An error of the link between the GPU and the processor (C2C): reset the GPU, look whether it comes back.",
    140: "An uncorrected memory error: drain the node, reset the GPU.",
    154: "What the driver asks for stands in its text; the Xid before it is the cause.",
    156: "A faulty part of the GPU is retired: reset the GPU when it is free.",
    157: "A faulty part of the GPU could not be retired: the GPU has to be replaced.",
}
WARNINGS = (  # words of a warning of libnccl, and what they mostly mean
    ("unhandled cuda error", "The CUDA error named there is the cause: look for Xid errors on that node."),
    ("Connection closed by remote peer", "Another rank ended first: its last lines tell why."),
    ("Connection refused", "The other rank has ended, or was never there: look at its pod."),
    ("No route to host", "The interface in NCCL_SOCKET_IFNAME does not reach that host."),
    ("Call to ibv", "The RDMA device refuses: look at the pod's networks, its limits (memlock) and the NIC's link."),
    ("async event: port error", "The link of that NIC went down."),
    ("No space left on device", "/dev/shm is full: mount a larger one."),
    ("Duplicate GPU detected", "Two ranks use one GPU: look at LOCAL_RANK, set_device and CUDA_VISIBLE_DEVICES."),
    (
        "Got completion",
        "A transfer between the hosts failed: the peer ended, or the link of a NIC or switch port is bad.",
    ),
    ("shared memory segment", "/dev/shm is full or cannot be used: mount a larger one."),
    ("no socket interface found", "NCCL_SOCKET_IFNAME names no interface of the pod."),
    ("ailed to find", "What it looks for is not in the pod: the networks, the plugin, or NCCL_SOCKET_IFNAME."),
    ("out of memory", "The memory of the GPU ran out: use a smaller micro batch, or shard over more GPUs."),
    ("Cuda failure", "The CUDA error named there is the cause: look for Xid errors on that node."),
    ("imeout", "The other side does not answer: look at its pod, its last lines and the network between the two."),
    ("timed out", "The other side does not answer: look at its pod, its last lines and the network between the two."),
    ("invalid usage", "The ranks call NCCL in different ways: different sizes, types, versions or GPUs."),
    ("mismatch", "The ranks call NCCL in different ways: different sizes, types, versions or GPUs."),
    ("reset by peer", "Another rank ended first: its last lines tell why."),
)
EXCEPTIONS = (  # words of an exception and what they mostly mean
    ("Connection refused", "The master was not there yet or has ended: look at rank 0."),
    ("NCCL", "NCCL_DEBUG=WARN says what NCCL could not do."),
)


class GpuFault(Struct, frozen=True):
    """A fault of a GPU (Xid) or of an NVSwitch (SXid), as the kernel log reports it."""

    number: int
    bus: str
    switch: bool = False  # an SXid: of an NVSwitch, not of a GPU
    text: str = ""  # what it says, without the process


_XID_LINE = lazy_pattern(
    r"(S?)Xid \((?:PCI:)?([0-9A-Fa-f:.]{1,40})\)\s?: (\d{1,9})"
    r"(?:, *(?:pid='?(?:\d{1,10}|<unknown>|)'?(?:, |$))?(?:name=[^,]{0,300}(?:, |$))?(.{0,2000}))?"
)


def parse_gpu_fault(line: str) -> GpuFault | None:
    found = _XID_LINE.search(line) if "Xid" in line else None
    if found is None:
        return None
    switch, bus, number, text = found.groups()
    return GpuFault(int(number), bus, bool(switch), (text or "").strip())


class NcclMessage(Struct, frozen=True):
    """One line that NCCL_DEBUG makes libnccl print."""

    level: str  # "INFO", "WARN", "TRACE", "VERSION" or "ERROR"
    text: str
    host: str = ""
    device: int | None = None  # number of the GPU within its machine; None outside a communicator


_NCCL_LEVEL = lazy_pattern(r"(?:^|(?<=\s))NCCL (INFO|WARN|TRACE|VERSION|ERROR)(?:\s(.{0,4000})|$)")
_NCCL_PROCESS = lazy_pattern(r"([\w.-]{1,253}):\d{1,10}:\d{1,10}")  # host, process, thread
_NCCL_DEVICE = lazy_pattern(r"\[(\d{1,4})\]")
_NCCL_SOURCE = lazy_pattern(r"[\w./-]{1,200}:\d{1,6}")  # file and line of libnccl, which warnings name


def parse_nccl_message(line: str) -> NcclMessage | None:
    found = _NCCL_LEVEL.search(line) if "NCCL " in line else None
    if found is None:
        return None
    words = line[: found.start()].split()[-3:]
    if words and not _NCCL_PROCESS.fullmatch(words[-1]) and _NCCL_SOURCE.fullmatch(words[-1]):
        words.pop()
    device = _NCCL_DEVICE.fullmatch(words[-1]) if words else None
    if device:
        words.pop()
    place = _NCCL_PROCESS.fullmatch(words[-1]) if words else None
    return NcclMessage(
        level=found.group(1),
        text=(found.group(2) or "").strip(),
        host=place.group(1) if place else "",
        device=int(device.group(1)) if device else None,
    )
