"""Forms in which programs, libraries and drivers name a failure in one line: a row each; a new form is a new row.

What a row says is told wherever its pattern stands in a line: behind a bar that is still open, a label, a time and a
level. Patterns come from real output. The tests hold an example and a counter-example for each row.
"""

from __future__ import annotations

from msgspec import Struct

from trainlog.patterns import lazy_pattern


class FailureForm(Struct, frozen=True):
    """One form; groups of its pattern named `rank` and `host` say whose failure it is, others are for the text."""

    words: tuple[str, ...]
    """One of them is in every such line; a line without any costs nothing."""
    pattern: str
    kind: str
    text: str  # with the groups of the pattern in braces
    hint: str
    source: str  # who prints it
    names: str = ""  # the lines after it that match this name one more each
    named: str = ""  # what is said of those


_TASK = r"^\s*/job:\w{1,60}/replica:\d{1,9}/task:(?P<task>\d{1,9})\b"
_TASK_LOG = "Its own log says why: look there for an earlier error, a preemption, or a node that failed."
_ENDED_FIRST = "Another process ended first: its last lines say why."
_DRIVER = "Restart the node, which loads the driver that was installed; a new node pool has a matching one."
_STORE = "Look at the pod of rank 0: whether it runs, what its last lines say, and whether MASTER_ADDR leads to it."
_GPU_MEMORY = "An uncorrected memory error: drain the node, reset the GPU."

FORMS = (
    # CUDA and the driver
    FailureForm(
        ("ECC error encountered",), r"CUDA error: (?P<why>\w[\w ]{0,40} ECC error encountered)", "cuda-error",
        "CUDA error: {why}", _GPU_MEMORY, "PyTorch",
    ),
    FailureForm(
        ("system not yet initialized",), r"(?:error 802|CUDA error)?:? ?system not yet initialized", "cuda-error",
        "CUDA error 802: system not yet initialized",
        "The fabric manager of the node does not run: keep the node out of the next launch.", "CUDA",
    ),
    FailureForm(
        ("CUDA error: ",),
        r"CUDA error: (?!out of memory|system not yet|\w[\w ]{0,40} ECC error)(?P<why>[a-z][^\n.(]{3,120})",
        "cuda-error", "CUDA error: {why}",
        "Look for an Xid of that GPU in the kernel's log, and run it again on another node.",
        "PyTorch",
    ),
    FailureForm(
        ("ibrary version mismatch",), r"(?i)driver/library version mismatch", "driver",
        "the driver and the library of NVIDIA on the node have different versions", _DRIVER, "NVML",
    ),
    FailureForm(
        ("driver on your system is too old",),
        r"driver on your system is too old \(found version (?P<version>\d{1,9})\)",
        "driver", "the NVIDIA driver is too old for the image's CUDA (found version {version})",
        "Use an image with an older CUDA, or nodes with a newer driver.", "PyTorch",
    ),
    FailureForm(
        ("driver version is insufficient",), r"CUDA driver version is insufficient for CUDA runtime version", "driver",
        "the NVIDIA driver is too old for the image's CUDA",
        "Use an image with an older CUDA, or nodes with a newer driver.", "CUDA",
    ),
    # JAX
    FailureForm(
        ("heartbeat timeout",),
        r"UNAVAILABLE: Task /job:\w{1,60}/replica:\d{1,9}/task:(?P<task>\d{1,9}) heartbeat timeout",
        "jax-task", "task {task} of JAX sent no heartbeat: it failed, was preempted or hangs", _TASK_LOG, "JAX",
    ),
    FailureForm(
        ("Barrier timed out",), r"Barrier timed out\. .{0,200}", "jax-task",
        "tasks of JAX did not come to the barrier in time", _TASK_LOG, "JAX", _TASK,
        "task {task} of JAX did not come to the barrier",
    ),
    FailureForm(
        ("tasks are unhealthy",), r"following tasks are unhealthy", "jax-task", "tasks of JAX send no heartbeat",
        _TASK_LOG, "JAX", _TASK, "task {task} of JAX sends no heartbeat",
    ),
    FailureForm(
        ("luster registration failed",), r"[Cc]luster registration failed", "jax-task",
        "a task of JAX could not join the others", "Look at task 0: the coordinator runs there.", "JAX",
    ),
    FailureForm(
        ("NCCL operation ",), r"NCCL operation (?P<op>\w{1,60}) failed: (?P<why>.{1,260})", "nccl-error",
        "NCCL operation {op} failed: {why}", "NCCL_DEBUG=WARN says what NCCL could not do.", "JAX",
    ),
    # rendezvous, stores and processes of torch
    FailureForm(
        ("client socket has",),
        r"client socket has (?P<how>timed out after \d{1,9} ?m?s|failed to connect)(?: while trying to connect)? to "
        r"(?:any network address of )?\(?(?P<at>\[?[^\s()]{1,253}?)(?:, (?P<port>\d{1,5})\)|[.,]?(?:\s|$))",
        "rendezvous", "{at}{port} did not answer: the client {how}", _STORE, "PyTorch",
    ),
    FailureForm(
        ("clients joined",), r"\b(?P<there>\d{1,9})/(?P<of>\d{1,9}) clients joined", "rendezvous",
        "only {there} of {of} processes came to the rendezvous", "Look for pods that do not run or ended before.",
        "PyTorch",
    ),
    FailureForm(
        ("RendezvousConnectionError", "RendezvousTimeoutError"), r"Rendezvous(?P<how>Connection|Timeout)Error\b",
        "rendezvous", "the rendezvous of torchrun failed ({how}Error)", _STORE, "torchrun",
    ),
    FailureForm(
        ("recvValue failed", "Failed to check the \"should dump\""),
        r"(?:recvValue failed on .{0,300}?|Failed to check the \"should dump\" flag on TCPStore.{0,200}?)"
        r": (?P<why>Connection reset by peer|failed to recv[^\n]{0,60}|Broken pipe)", "peer",
        "the store of rank 0 is gone: {why}", "Rank 0 ended first: its last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("gloo/transport/",), r"gloo/transport/\S{1,60}:\d{1,6}\] (?P<why>[A-Z][^\n]{3,200})", "peer", "gloo: {why}",
        _ENDED_FIRST, "gloo",
    ),
    FailureForm(
        ("successfully reached monitoredBarrier",),
        r"Rank (?P<by>\d{1,7}) successfully reached monitoredBarrier.{0,120}? from rank (?P<rank>\d{1,7})\b",
        "rendezvous", "it did not come to monitoredBarrier, rank {by} reports", "Its last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("remote process exited or",), r"remote process exited or there was a network error", "peer",
        "NCCL: a remote process exited, or the network failed", _ENDED_FIRST, "PyTorch",
    ),
    FailureForm(
        ("watchdog hang", "no heartbeat of its watchdog"),
        r"due to ProcessGroupNCCL watchdog hang|detected no heartbeat of its watchdog", "nccl-timeout",
        "the watchdog of NCCL hung, so the process was ended",
        "A call into CUDA or NCCL does not return: look for an Xid of its GPU, and at its stack before it ended.",
        "PyTorch",
    ),
    # ends
    FailureForm(
        ("exiting program after receiving SIGTERM",), r"exiting program after receiving SIGTERM", "signal",
        "it was ended by SIGTERM (Megatron)", "Somebody or the node asked it to end: a preemption, a drain, a stop.",
        "Megatron",
    ),
    FailureForm(
        (" Killed ",), r": line \d{1,6}: +\d{1,10} Killed\s", "signal", "a process was ended by SIGKILL (bash)",
        "killed", "bash",
    ),
    FailureForm(
        ("died with <Signals.",), r"died with <Signals\.(?P<name>SIG[A-Z]{2,8}): \d{1,3}>", "signal",
        "a process was ended by {name} (Python)", "killed", "Python",
    ),
    FailureForm(
        ("with exit code 137", "exit status 137"), r"(?<!failed )with exit code 137\b|exit status 137\b", "signal",
        "a process was ended by SIGKILL (exit code 137)", "killed", "containers",
    ),
    FailureForm(
        ("memory pressure (OOM)", "running low on memory"),
        r"killed due to memory pressure \(OOM\).{0,120}?IP: (?P<host>[\w.:]{1,60})\)"
        r"|killed due to (?:the node running low on memory|memory pressure \(OOM\))", "out-of-memory",
        "the memory of the machine ran out, so Ray killed a task",
        "Ask for more memory, or run fewer workers on a node.", "Ray",
    ),
    # storage
    FailureForm(
        ("[Errno 107]",), r"OSError: (?P<all>\[Errno 107\].{0,250})", "storage", "OSError: {all}",
        "The mount is gone: gcsfuse has ended; look at its container (memory, permissions), and start the pod again.",
        "gcsfuse",
    ),
    FailureForm(
        ("[Errno 116]",), r"OSError: (?P<all>\[Errno 116\].{0,250})", "storage", "OSError: {all}",
        "The file server was replaced, or the file removed on another node. Mount it again: start the pod again.",
        "NFS",
    ),
    FailureForm(
        ("[Errno 5]",), r"OSError: (?P<all>\[Errno 5\].{0,250})", "storage", "OSError: {all}",
        "The storage refuses: for a bucket, its permissions, its limits of requests, or gcsfuse's log.", "Linux",
    ),
    FailureForm(
        ("googleapi: Error ",), r"googleapi: Error (?P<code>401|403|429|503): (?P<why>[^\"\n]{1,160})", "storage",
        "Cloud Storage refuses ({code}): {why}",
        "403: the pod's service account lacks the permission; 429 and 503: too many requests at a time.", "gcsfuse",
    ),
)  # fmt: skip


class NamedForm(Struct, frozen=True):
    kind: str
    text: str
    rank: int | None
    host: str
    hint: str


def find_form(line: str) -> tuple[NamedForm, FailureForm] | None:
    for form in FORMS:
        if any(word in line for word in form.words) and (found := lazy_pattern(form.pattern).search(line)):
            fields = {name: value or "" for name, value in found.groupdict().items()}
            if fields.get("port"):
                fields["port"] = f":{fields['port']}"
            rank = int(fields["rank"]) if fields.get("rank") else None
            text = form.text.format_map(fields).strip().rstrip(".")
            return NamedForm(form.kind, text, rank, fields.get("host", ""), form.hint), form
    return None


FORM_WORDS = tuple(word.encode() for form in FORMS for word in form.words)
