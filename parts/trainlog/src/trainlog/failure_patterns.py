"""Patterns of one-line failure messages of programs, libraries and drivers, one row for each.

A pattern may match anywhere in a line: behind an unfinished progress bar, a label, a time and a level. Patterns come
from real output. The tests hold an example and a counter-example for each row.
"""

from __future__ import annotations

from msgspec import Struct

from trainlog.regex import lazy_pattern


class FailureForm(Struct, frozen=True):
    """A form of failure message as a pattern; its groups `rank` and `host` name who failed."""

    words: tuple[str, ...]
    """Words of which each such line has one; other lines are not searched for the pattern."""
    pattern: str
    kind: str
    text: str  # with the groups of the pattern in braces
    hint: str
    source: str  # who prints it
    names: str = ""  # the lines after it that match this name one more each
    named: str = ""  # what is said of those


_TASK_LABEL = r"^\s*/job:\w{1,60}/replica:\d{1,9}/task:(?P<task>\d{1,9})\b"
_HINT_TASK_LOG = "Its own log says why: look there for an earlier error, a preemption, or a node that failed."
_HINT_OTHER_PROCESS = "Another process ended first: its last lines say why."
_HINT_DRIVER = "Restart the node, which loads the driver that was installed; a new node pool has a matching one."
_HINT_RDZV = "Look at the pod of rank 0: whether it runs, what its last lines say, and whether MASTER_ADDR leads to it."
_HINT_GPU_MEMORY = "An uncorrected memory error: drain the node, reset the GPU."
_HINT_FABRIC = "The fabric manager of the node does not run: keep the node out of the next launch."
_HINT_GPU_LOST = "Look for an Xid of that GPU in the kernel's log, and run it again on another node."
_HINT_NEWER_DRIVER = "Use an image with an older CUDA, or nodes with a newer driver."
_HINT_HANG = "A call into CUDA or NCCL does not return: look for an Xid of its GPU, and at its stack before it ended."
_HINT_STOPPED = "Somebody or the node asked it to end: a preemption, a drain, a stop."
_HINT_CUT_FILE = "The file was cut while it was written, or is another one: go on from the checkpoint before it."
_HINT_TOKEN = "The token for downloads is missing, or its owner has no access to that repository (HF_TOKEN)."
_HINT_SERVER = "The first error of the engine's processes before it is the cause."
_MESSAGE_START = (  # where a message begins: alone, or behind labels, a bar, a time or a level
    r"(?:^|[\])}>|]:? ?|\d |(?:ERROR|CRITICAL|FATAL|[Ee]rror)[: ] ?)(?:[A-Za-z_]\w{0,80}\.){0,8}"
)
CONTINUATION = lazy_pattern(
    r"\b[Rr]etrying\b|\b[Ww]ill retry\b|\b[Ii]gnor(?:ed|ing)\b|\b[Ff]all(?:s|ing) back\b|\b[Ss]kipping\b"
)
"""Words such as "retrying", by which a line is no failure, as the program goes on."""

FORMS = (
    # CUDA and the driver
    FailureForm(
        ("ECC error encountered", "ECC_UNCORRECTABLE", "ECCUncorrectable"),
        "(?P<why>uncorrectable ECC error encountered|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable)",
        "cuda-error", "CUDA error: {why}", _HINT_GPU_MEMORY, "CUDA",
    ),
    FailureForm(
        ("system not yet initialized", "SYSTEM_NOT_READY", "SystemNotReady"),
        "(?:error 802|CUDA error)?:? ?system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady",
        "cuda-error", "CUDA error 802: system not yet initialized", _HINT_FABRIC, "CUDA",
    ),
    FailureForm(
        ("abric Manager", "abric manager", "abricmanager", "NVSwitch fatal", "NVSwitch non-fatal"),
        r"(?P<why>Failed to start NVIDIA [Ff]abric ?[Mm]anager|nvidia-fabricmanager\.service: (?:Main process exited"
        "|Failed)|detected NVSwitch (?:non-)?fatal error|[Ff]abric ?[Mm]anager (?:is not running"
        r"|failed\b[^\n]{0,80}))", "gpu-lost", "the fabric between the GPUs of the node: {why}", _HINT_FABRIC,
        "fabric manager",
    ),
    FailureForm(
        ("illegal memory access", "illegal instruction was", "misaligned address", "invalid program counter",
        "_ILLEGAL_", "ErrorIllegal"), "(?P<why>an illegal (?:memory access|instruction) was encountered"
        "|(?<=CUDA error: )(?:misaligned address|invalid program counter)|CUDA_ERROR_ILLEGAL_(?:ADDRESS|INSTRUCTION)"
        "|cudaErrorIllegal(?:Address|Instruction))", "cuda-error", "CUDA error: {why}",
        "A kernel used memory that is not its own: run it again with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; if "
        "it comes back on one GPU only, that GPU is faulty.", "CUDA",
    ),
    FailureForm(
        ("device-side assert triggered", "CUDA_ERROR_ASSERT", "cudaErrorAssert"),
        "(?P<why>device-side assert triggered|CUDA_ERROR_ASSERT|cudaErrorAssert)", "cuda-error", "CUDA error: {why}",
        "Mostly an index or a label out of range: the lines with Assertion before it name the check.", "CUDA",
    ),
    FailureForm(
        ("thread: [",), r"block: \[[\d,]{5,30}\], thread: \[[\d,]{5,30}\] Assertion .(?P<why>.{1,160}?).? failed",
        "cuda-error", "an assertion of a CUDA kernel failed: {why}",
        "Mostly an index or a label out of range: look at the data and the size of the table that it goes into.",
        "PyTorch",
    ),
    FailureForm(
        ("no kernel image", "kernel image is invalid", "unsupported toolchain", "NO_BINARY_FOR_GPU"),
        "(?P<why>no kernel image is available for execution on the device|device kernel image is invalid"
        "|PTX was compiled with an unsupported toolchain|CUDA_ERROR_NO_BINARY_FOR_GPU)", "cuda-error",
        "CUDA error: {why}",
        "The image has no code for this GPU: use one that was built for its architecture (TORCH_CUDA_ARCH_LIST).",
        "CUDA",
    ),
    FailureForm(
        ("No CUDA GPUs are", "no CUDA-capable device", "no NVIDIA driver on", "not compiled with CUDA",
        "nvalid device ordinal", "No visible GPU", "no supported devices found", "busy or unavailable",
        "CUDA unknown error", "cuda.is_available() "), r"^(?!.*(?:NCCL INFO|INFO:|xla_bridge|\bcuInit\b"
        "|no NVIDIA driver.{0,400}Warning|Warning.{0,400}no NVIDIA driver)).*?(?P<why>No CUDA GPUs are available"
        "|no CUDA-capable device is detected|Found no NVIDIA driver on your system"
        "|Torch not compiled with CUDA enabled|invalid device ordinal|No visible GPU devices"
        r"|no supported devices found for platform CUDA|CUDA-capable devices?(?:\(s\))? (?:is|are"
        r"|is/are) busy or unavailable|CUDA unknown error|torch\.cuda\.is_available\(\) (?:is"
        "|should be True but is) False)", "cuda-error", "no usable GPU: {why}",
        "Look at nvidia-smi on that node, at the GPUs that the pod asks for, and at CUDA_VISIBLE_DEVICES.", "CUDA",
    ),
    FailureForm(
        ("vlink error was detected", "VLink error detected", "NVLINK_UNCORRECTABLE", "NvlinkUncorrectable"),
        r"(?i)(?P<why>nvlink error (?:was )?detected[\w ]{0,40}|(?:CUDA_ERROR_|cudaError)nvlink_?uncorrectable)",
        "cuda-error", "CUDA error: {why}",
        "An NVLink error: reset the GPUs of the node, and look at SXid lines of the switches.", "CUDA",
    ),
    FailureForm(
        ("_STATUS_NOT_INITIALIZED", "_STATUS_ALLOC_FAILED", "find a valid cuDNN algorithm"),
        "(?P<why>(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)"
        "|Unable to find a valid cuDNN algorithm to run convolution)", "cuda-error", "CUDA library: {why}",
        "Mostly the memory of the GPU ran out; otherwise an error of CUDA before it is the cause.", "CUDA",
    ),
    FailureForm(
        ("CUBLAS_STATUS_", "CUDNN_STATUS_", "CUSOLVER_STATUS_", "CUSPARSE_STATUS_", "cuFFT error: ",
        "an engine to execute this"), "(?P<why>(?:(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_"
        r"|CUFFT_)(?!SUCCESS)[A-Z][A-Z_]{3,60}\b|unable to find an engine to execute this computation)(?=[^=\w]|$)",
        "cuda-error", "CUDA library: {why}",
        "An error of CUDA before it is mostly the cause; otherwise a shape or a type that the library does not take.",
        "CUDA",
    ),
    FailureForm(
        ("CUDA error: ", "CUDA driver error: ", "cuda runtime error (", "Cuda failure ", "CUDA_ERROR_",
        "from cudaGetDeviceCount"), r"(?:CUDA (?:driver )?error: |cuda runtime error \(\d{1,4}\) ?: "
        r"|Cuda failure (?:\d{1,4} )?['\"])(?!out of memory|system not yet)(?P<why>[a-z][^\n.('\"]{3,120})"
        r"|cudaGetDeviceCount\(\).{0,160}Error \d{3}: (?P<count>[^\n]{3,80})|CUDA_ERROR_(?!OUT_OF_MEMORY|NO_DEVICE"
        "|DEINITIALIZED)(?P<name>[A-Z_]{4,40})", "cuda-error", "CUDA error: {why}{name}{count}", _HINT_GPU_LOST, "CUDA",
    ),
    FailureForm(
        ("ibrary version mismatch", "LibRmVersionMismatch"), "(?i)driver/library version mismatch|LibRmVersionMismatch",
        "driver", "the driver and the library of NVIDIA on the node have different versions", _HINT_DRIVER, "NVML",
    ),
    FailureForm(
        ("GPU is lost", "etermine the device handle", "GpuIsLost", "RmInitAdapter failed", "SMI has failed because",
        "initialize NVML: ", "nvml error: ", "reason: Driver Not Loaded"),
        r"(?P<why>GPU is lost|GpuIsLost|Unable to determine the device handle for (?:gpu|GPU)[ \w:.]{0,30}"
        r"|RmInitAdapter failed|NVIDIA-SMI has failed because[^\n.]{0,80}|(?:Failed to initialize NVML"
        r"|nvml error): (?!Success)\w[\w ]{2,60})", "gpu-lost", "the driver does not reach a GPU: {why}", "gpu-lost",
        "NVIDIA driver",
    ),
    FailureForm(
        ("unsatisfied condition: ", "could not select device driver"),
        r"(?P<why>unsatisfied condition: \S{1,40}|could not select device driver[^\n]{0,60})", "driver",
        "the container gets no GPU: {why}",
        "The driver of the node is older than the image asks for, or has no runtime for containers.",
        "nvidia-container-cli",
    ),
    FailureForm(
        ("driver on your system is too old",),
        r"driver on your system is too old \(found version (?P<version>\d{1,9})\)", "driver",
        "the NVIDIA driver is too old for the image's CUDA (found version {version})", _HINT_NEWER_DRIVER, "PyTorch",
    ),
    FailureForm(
        ("driver version is insufficient",), "CUDA driver version is insufficient for CUDA runtime version", "driver",
        "the NVIDIA driver is too old for the image's CUDA", _HINT_NEWER_DRIVER, "CUDA",
    ),
    # NCCL
    FailureForm(
        ("remote process exited or", "ncclRemoteError: "),
        "remote process exited or there was a network error|ncclRemoteError: ", "peer",
        "NCCL: a remote process exited, or the network failed", _HINT_OTHER_PROCESS, "PyTorch",
    ),
    FailureForm(
        ("NCCL error", "NCCL Error "), r"NCCL [eE]rror(?: in| \d{1,2})?:? ?(?:[\w./-]{1,200}:\d{1,6}, "
        r")?(?P<why>(?:unhandled|internal|invalid|remote|unknown|no error)[^\n(,]{2,80})", "nccl-error",
        "NCCL error: {why}",
        "NCCL_DEBUG=WARN says what NCCL could not do: the network (NCCL_SOCKET_IFNAME), /dev/shm, memlock, or CUDA.",
        "PyTorch",
    ),
    FailureForm(
        ("ncclSystemError", "ncclInternalError", "ncclUnhandledCudaError", "ncclInvalidUsage", "ncclInvalidArgument"),
        "nccl(?P<why>SystemError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument): [A-Z]", "nccl-error",
        "NCCL error: {why}", "The line before it has the call; NCCL_DEBUG=WARN says what NCCL could not do.", "PyTorch",
    ),
    FailureForm(
        ("detected by watchdog at work", "Timeout at NCCL work"),
        "(?:detected by watchdog"
        r"|Timeout) at (?:NCCL )?work(?: sequence id)?: ?(?P<work>\d{1,12})(?:.{0,80}last completed NCCL work: "
        r"(?P<done>-?\d{1,12}))?", "nccl-timeout", "NCCL: work {work} failed or timed out", "nccl-timeout", "PyTorch",
    ),
    FailureForm(
        ("NCCL communicator was aborted", "NCCL operations have failed or timed out",
        "watchdog thread terminated with exception: [", "taking the entire process down"),
        r"(?P<why>NCCL communicator was aborted(?: on rank (?P<rank>\d{1,7}))?"
        "|NCCL operations have failed or timed out"
        r"|watchdog thread terminated with exception(?=: \[)|taking the entire process down)", "peer", "{why}",
        "A collective failed or timed out before it: the first rank that reports one, and the one that is behind, "
        "say why.", "PyTorch",
    ),
    FailureForm(
        ("mismatch between collectives",), r"[Dd]etected mismatch between collectives on ranks?\b(?P<why>[^\n]{0,200})",
        "nccl-error", "the ranks called different collectives{why}",
        "The ranks do not run the same program: look for a branch that depends on the rank.", "PyTorch",
    ),
    # JAX
    FailureForm(
        ("heartbeat timeout", "set to ERROR in coordination"),
        r"/job:\w{1,60}/replica:\d{1,9}/task:(?P<task>\d{1,9}) (?:heartbeat timeout|has been set to ERROR)", "jax-task",
        "task {task} of JAX sent no heartbeat: it failed, was preempted or hangs", _HINT_TASK_LOG, "JAX",
    ),
    FailureForm(
        ("different incarnation",),
        r"(?:task:)?(?P<task>\d{1,9}) unexpectedly tried to connect with a different incarnation", "jax-task",
        "task {task} of JAX started again while the others ran", _HINT_TASK_LOG, "JAX",
    ),
    FailureForm(
        ("Barrier timed out",), r"Barrier timed out\. .{0,200}", "jax-task",
        "tasks of JAX did not come to the barrier in time", _HINT_TASK_LOG, "JAX", _TASK_LABEL,
        "task {task} of JAX did not come to the barrier",
    ),
    FailureForm(
        ("tasks are unhealthy",), "following tasks are unhealthy", "jax-task", "tasks of JAX send no heartbeat",
        _HINT_TASK_LOG, "JAX", _TASK_LABEL, "task {task} of JAX sends no heartbeat",
    ),
    FailureForm(
        ("luster registration failed",), "[Cc]luster registration failed", "jax-task",
        "a task of JAX could not join the others", "Look at task 0: the coordinator runs there.", "JAX",
    ),
    FailureForm(
        ("JAX distributed service detected", "oordinator detected missing", "olled an error from coordination",
        "oordination service agent is in ERROR", "hutdown barrier", "GetKeyValue() timed out", "global_topology/"),
        "(?P<why>(?:JAX distributed service|coordinator) detected (?:fatal errors|missing heartbeats)"
        "|olled an error from coordination service|oordination service agent is in ERROR"
        r"|hutdown barrier.{0,40}?(?:failed|timed out|DEADLINE_EXCEEDED)|GetKeyValue\(\) timed out)", "jax-task",
        "another task of JAX failed, so this one ended", _HINT_TASK_LOG, "JAX",
    ),
    FailureForm(
        ("failed to connect to all addresses",),
        r"failed to connect to all addresses.{0,80}?(?P<at>ipv[46]:[^\s;,]{3,80}|$)", "rendezvous",
        "the server did not answer: {at}", "For JAX task 0, for Ray its head: look whether that pod runs.", "gRPC",
    ),
    FailureForm(
        ("NCCL operation ",), r"NCCL operation (?P<op>\w{1,60}) failed: (?P<why>.{1,260})", "nccl-error",
        "NCCL operation {op} failed: {why}", "NCCL_DEBUG=WARN says what NCCL could not do.", "JAX",
    ),
    FailureForm(
        ("Unable to initialize backend", "Termination timeout for"),
        r"(?P<why>RuntimeError: Unable to initialize backend '(?:cuda|gpu|tpu)'[^\n]{0,160}"
        r"|Termination timeout for[^\n]{0,160})", "jax-error", "{why}",
        "Look at nvidia-smi on that node, and at the lines of the other tasks before it.", "JAX",
    ),
    FailureForm(
        ("XlaRuntimeError: ", "JaxRuntimeError: "),
        r"(?:Xla|Jax)RuntimeError: (?P<why>(?!RESOURCE_EXH)[A-Z_]{4,30}: [^\n]{3,200})", "jax-error", "{why}",
        "The lines before it of this and the other tasks say which one failed first.", "JAX",
    ),
    # rendezvous, stores and processes of torch
    FailureForm(
        ("client socket has",), r"client socket has (?P<how>timed out after \d{1,9} ?m?s"
        "|failed to connect)(?: while trying to connect)? to (?:any network address of "
        r")?\(?(?P<at>\[?[^\s()]{1,253}?)(?:, (?P<port>\d{1,5})\)|[.,]?(?:\s|$))(?!\(?errno: (?:97|99|111) )",
        "rendezvous", "{at}{port} did not answer: the client {how}", _HINT_RDZV, "PyTorch",
    ),
    FailureForm(
        ("EADDRINUSE", "ddress already in use"),
        r"(?:port: (?P<port>\d{1,5}).{0,120})?(?:EADDRINUSE|[Aa]ddress already in use)(?!.{0,60}\btrying\b)",
        "rendezvous", "a port is in use already {port}",
        "Another program, or an earlier run, listens there: end it, or choose another MASTER_PORT.", "PyTorch",
    ),
    FailureForm(
        ("based barrier on rank",), "store based barrier on "
        r"rank:? ?(?P<rank>\d{1,7})(?:.{0,200}?world_size=(?P<of>\d{1,7}), "
        r"worker_count=(?P<there>\d{1,7}))?.{0,80}(?:timeout|timed out)", "rendezvous",
        "processes are missing at the start of its group: {there} of {of} came",
        "Look for pods that do not run or ended before.", "PyTorch",
    ),
    FailureForm(
        ("setting up NCCL communicator",),
        r"\[(?P<rank>\d{1,7})\] is setting up NCCL communicator.{0,200}?(?:got error: (?P<why>[^\n]{3,120})|$)",
        "rendezvous", "it did not get the id of NCCL's communicator from the store: {why}", _HINT_RDZV, "PyTorch",
    ),
    FailureForm(
        ("clients joined",), r"\b(?P<there>\d{1,9})/(?P<of>\d{1,9}) clients joined", "rendezvous",
        "only {there} of {of} processes came to the rendezvous", "Look for pods that do not run or ended before.",
        "PyTorch",
    ),
    FailureForm(
        ("wait timeout after", "Socket Timeout", "StoreError: ", "NetworkError: "),
        r"(?P<why>wait timeout after \d{1,9} ?ms, keys: \S{1,120}|(?:RuntimeError|Dist\w{4,9}Error): (?:Socket Timeout"
        r"|Connection (?:reset|closed|refused)[^\n]{0,60}|Broken pipe|Timed out[^\n]{0,60}|failed to recv[^\n]{0,60}))",
        "rendezvous", "the store of rank 0 did not answer: {why}", _HINT_RDZV, "PyTorch",
    ),
    FailureForm(
        ("Name or service not known", "failure in name resolution", "esolve hostname"),
        r"(?:gaierror: \[Errno -\d\] |resolve hostname (?P<at>[\w.-]{1,253}): ?)(?P<why>Name or service not known"
        r"|[Tt]emporary failure in name resolution|[A-Z][\w ]{3,60})", "rendezvous",
        "a name has no address: {at} {why}",
        "Look at MASTER_ADDR and the job's service; the pod of that name may not run yet.", "resolver",
    ),
    FailureForm(
        ("RendezvousConnectionError", "RendezvousTimeoutError", "RendezvousClosedError", "RendezvousStateError"),
        r"Rendezvous(?P<how>Connection|Timeout|Closed|State)Error\b", "rendezvous",
        "the rendezvous of torchrun failed ({how}Error)", "Closed: another node ended the run, look there. "
        "Otherwise the pod of rank 0 did not answer: does it run, and does MASTER_ADDR lead to it?", "torchrun",
    ),
    FailureForm(
        ("recvValue", "Failed to check the \"should dump\""),
        r"(?:\brecvValue(?:WithTimeout)? failed on .{0,300}?"
        r"|Failed to check the \"should dump\" flag on TCPStore.{0,200}?): (?P<why>Connection reset by peer"
        r"|[Ff]ailed to recv[^\n]{0,60}|Broken pipe)", "peer", "the store of rank 0 is gone: {why}",
        "Rank 0 ended first: its last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("gloo/transport/", "Gloo connectFullMesh failed"),
        r"gloo/transport/\S{1,60}:\d{1,6}\] (?P<why>[A-Z][^\n]{3,200})"
        r"|(?P<mesh>Gloo connectFullMesh failed)[^\n]{0,60}", "peer", "gloo: {why}{mesh}",
        "Another process ended first, or does not reach this one: its last lines say why.", "gloo",
    ),
    FailureForm(
        ("successfully reached monitoredBarrier",),
        r"Rank (?P<by>\d{1,7}) successfully reached monitoredBarrier.{0,120}? from rank (?P<rank>\d{1,7})\b",
        "rendezvous", "it did not come to monitoredBarrier, rank {by} reports", "Its last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("to pass monitoredBarrier",), r"Rank (?P<rank>\d{1,7}) failed to pass monitoredBarrier", "rendezvous",
        "it did not come to monitoredBarrier", "Its last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("pass monitoredBarrier in",), r"Ranks (?P<who>\d[\d, ]{1,200}) failed to pass monitoredBarrier", "rendezvous",
        "it waited for ranks {who}, which did not come to monitoredBarrier", "Their last lines say why.", "PyTorch",
    ),
    FailureForm(
        ("watchdog hang", "no heartbeat of its watchdog", "Heartbeat monitor timed out"),
        "due to ProcessGroupNCCL watchdog hang|detected no heartbeat of its watchdog|Heartbeat monitor timed out",
        "nccl-timeout", "the watchdog of NCCL hung, so the process was ended", _HINT_HANG, "PyTorch",
    ),
    # ends
    FailureForm(
        ("exiting program after receiving SIGTERM",), "exiting program after receiving SIGTERM", "signal",
        "it was ended by SIGTERM (Megatron)", _HINT_STOPPED, "Megatron",
    ),
    FailureForm(
        (" death signal, shutting down",), r"Received (?:Signals\.)?(?P<name>\w{1,20}) death signal", "signal",
        "torchrun was told to end (signal {name})",
        "Somebody or the node asked it to end: a preemption, a drain, a stop, or another node that failed first.",
        "torchrun",
    ),
    FailureForm(
        (" closing signal SIG", "Killing subprocess ", "forcefully exiting via Signals.SIGKILL",
        "Forcefully terminating all other"), r"Sending process \d{1,10} closing signal SIG|Killing subprocess \d"
        "|forcefully exiting via Signals|Forcefully terminating all other processes", "peer",
        "the launcher ends its processes",
        "One of them failed before, or the launcher was told to end: the lines before it say why.", "torchrun",
    ),
    FailureForm(
        ("eceived SIGTERM", "SIGTERM received at time", "SIGTERMException", "SIGTERM caught at"),
        r"(?:^|[\]:>)] ?|\d )Received SIGTERM(?! handler)|SIGTERM received at time=|SIGTERMException\b"
        "|SIGTERM caught at", "signal", "it was ended by SIGTERM", _HINT_STOPPED, "JAX, Lightning, vLLM",
    ),
    FailureForm(
        ("received at time=", "received by PID", "Caught signal ", "Fatal Python error: ", "terminate called after",
        "Signal: Segm", "Signal: Abort", "Signal: Bus", "Signal: Ill", "Signal: Float", "Process received signal",
        "segfault at ", "general protection fault", "(core dumped)", "double free or", "free(): invalid",
        "stack smashing", "memory access fault by GPU", "Memory access fault by GPU", "malloc(): ",
        "corrupted size vs"), r"\*\*\* (?P<a>SIG[A-Z]{3,4}) (?:\(@\w{1,20}\) )?received (?:at time|by PID)"
        r"|Caught signal \d{1,2} \((?P<b>[^):]{3,60})|Fatal Python error: (?P<c>\w[\w ]{3,80})"
        r"|(?P<d>terminate called after throwing an instance of \S{3,80})|Signal: (?P<e>Segmentation fault|Aborted"
        "|Bus error|Illegal instruction|Floating point exception)|(?P<f>Aborted|Illegal instruction"
        r"|Floating point exception|Quit|Trace/breakpoint trap) *\(core dumped\)|(?P<g>double free or corruption"
        r"|free\(\): invalid \w{1,20}|stack smashing detected|malloc\(\): \w[\w ]{3,50}|corrupted size vs\. prev_size"
        r"|[Mm]emory access fault by GPU|(?<=\*\*\* )Process received signal|segfault at [0-9a-f]{1,16} ip"
        "|general protection fault)", "crash", "the process crashed: {a}{b}{c}{d}{e}{f}{g}", "crash",
        "C and C++ libraries",
    ),
    FailureForm(
        ("Check failed: ",),
        r"(?:\bF\d{4} \d\d:\d\d:\d\d|: F |\[FATAL|\] +F ).{0,200}?Check failed: (?P<why>[^\n]{3,200})", "crash",
        "a check of a library failed: {why}",
        "The lines before it say what it was at; look for earlier errors of this process.", "Abseil, glog",
    ),
    FailureForm(
        (" Killed ",), r": line \d{1,6}: +\d{1,10} Killed\s", "signal", "a process was ended by SIGKILL (bash)",
        "killed", "bash",
    ),
    FailureForm(
        (" Terminated ", " Aborted "), r": line \d{1,6}: +\d{1,10} (?P<how>Terminated|Aborted)\s", "signal",
        "a process was ended: {how} (bash)",
        "Terminated: somebody or the node asked it to end. Aborted: its own last lines say why.", "bash",
    ),
    FailureForm(
        ("Killed",), r"(?:^|[\]:>] ?)Killed\s*$", "signal", "a process was ended by SIGKILL (shell)", "killed",
        "shells",
    ),
    FailureForm(
        ("died with <Signals.", "terminated with signal SIG"),
        r"(?:died with <Signals\.|terminated with signal )(?P<name>SIG[A-Z]{2,8})\b", "signal",
        "a process was ended by {name} (Python)", "killed", "Python",
    ),
    FailureForm(
        ("with exit code 137", "exit status 137", "xit code: 137", "xit Code: 137", "exitCode\":137"),
        r"(?<!failed )with exit code 137\b|exit status 137\b|[Ee]xit [Cc]ode: 137\b|exitCode\":137\b", "signal",
        "a process was ended by SIGKILL (exit code 137)", "killed", "containers",
    ),
    # memory, limits and data loaders
    FailureForm(
        ("oom-kill:constraint",), r"oom-kill:constraint=.{0,600}?,task=(?P<task>[^,\s]{1,60})", "out-of-memory",
        "the memory of the machine or the container ran out: {task} was killed", "out-of-memory", "Linux",
    ),
    FailureForm(
        ("invoked oom-killer", "OOMKilled", "System OOM encountered"),
        r"invoked oom-killer|OOMKilled\b(?![\"']?[:=] ?[\"']?[Ff]alse)|System OOM encountered", "out-of-memory",
        "the memory of the machine or the container ran out: processes were killed", "out-of-memory",
        "Linux, Kubernetes",
    ),
    FailureForm(
        ("annot allocate memory", "DefaultCPUAllocator: ", "std::bad_alloc", "MemoryError"),
        r"DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|[Cc]annot allocate memory|(?<!Of)MemoryError\b(?=:"
        r"|\s*$)", "out-of-memory", "the memory of the machine or the container ran out: an allocation failed",
        "out-of-memory", "Linux",
    ),
    FailureForm(
        ("encountered in worker",), "[Uu]nexpected bus error encountered in worker", "data-loader",
        "a worker of the data loader met a bus error: /dev/shm is too small", "bus-error", "PyTorch",
    ),
    FailureForm(
        ("DataLoader worker (", "DataLoader timed out", "in DataLoader worker", "in pin memory thread"),
        r"(?P<why>DataLoader worker \(pid(?:\(s\))? [\d, ]{1,200}\) (?:is killed by signal: \w[\w ]{2,30}"
        r"|exited unexpectedly)|DataLoader timed out after \d{1,9} seconds"
        r"|Caught \w{3,60} in (?:DataLoader worker process \d{1,6}|pin memory thread))", "data-loader", "{why}",
        "Mostly the memory or /dev/shm ran out, or reading raised: num_workers=0 shows the error; use fewer workers, "
        "or mount a larger /dev/shm.", "PyTorch",
    ),
    FailureForm(
        ("abruptly", "TerminatedWorkerError"),
        r"terminated abruptly|abruptly (?:died|terminated)|TerminatedWorkerError\b", "data-loader",
        "a worker process died without an error of Python", "out-of-memory", "Python, datasets",
    ),
    FailureForm(
        ("items of ancdata", "oo many open files"), r"received \d{1,6} items of ancdata|[Tt]oo many open files",
        "limits", "too many open files: the limit of file descriptors is reached",
        "Raise the limit (ulimit -n), or torch.multiprocessing.set_sharing_strategy('file_system').", "Linux",
    ),
    FailureForm(
        ("start new thread", "esource temporarily unavailable", "pthread_create"),
        "can't start new thread|(?:fork|pthread_create|Thread creation"
        "|BlockingIOError).{0,80}Resource temporarily unavailable|pthread_create failed", "limits",
        "no more threads or processes: their limit is reached",
        "Raise the limit (ulimit -u, the pids of the pod), or start fewer workers and threads.", "Linux",
    ),
    FailureForm(
        ("allocate shared memory", "open shared memory object", "torch_shm_manager"),
        r"unable to (?:allocate|open) shared memory(?:\(shm\)| object)|torch_shm_manager.{0,80}(?:error|failed)",
        "limits", "shared memory could not be used",
        "Mostly /dev/shm is full: mount a larger one, or use fewer data loader workers.", "PyTorch",
    ),
    FailureForm(
        ("OutOfResources: ",), r"OutOfResources: (?P<why>[^\n.]{3,120})", "cuda-error",
        "a kernel of Triton needs more than the GPU has: {why}",
        "Use smaller blocks or fewer stages (num_stages), or another implementation of that kernel.", "Triton",
    ),
    # Ray and inference engines
    FailureForm(
        ("memory pressure (OOM)", "running low on memory"),
        r"killed due to memory pressure \(OOM\).{0,120}?IP: (?P<host>[\w.:]{1,60})\)"
        r"|killed due to (?:the node running low on memory|memory pressure \(OOM\))", "out-of-memory",
        "the memory of the machine ran out, so Ray killed a task",
        "Ask for more memory, or run fewer workers on a node.", "Ray",
    ),
    FailureForm(
        ("marked dead because", "missed too many heartbeats"),
        r"(?:(?:ip|address): (?P<host>[\w.:-]{3,60}?),? .{0,200}?)?(?:marked dead because|missed too many heartbeats)",
        "ray", "Ray lost the node",
        "Look whether that node and its pod still run: a preemption, memory that ran out, a crash.", "Ray",
    ),
    FailureForm(
        ("worker died or was killed", "actor died unexpectedly", "ctorDiedError", "WorkerCrashedError",
        "worker died unexpectedly", "RayActorError", "NodeDiedError", "OwnerDiedError", "ctorUnavailableError",
        "ObjectLostError", "Raylet is terminated", "raylet died"),
        "(?:(?:worker died or was killed|(?:actor|worker) died unexpectedly)|(?:Actor(?:Died|Unavailable)"
        r"|WorkerCrashed|RayActor|NodeDied|OwnerDied|ObjectLost)Error\b[:(]|Raylet is terminated"
        r"|raylet died)(?:.{0,900}?Worker IP address: (?P<host>[\w.:]{3,60}?) )?", "ray", "a worker of Ray died",
        "Its own log says why (ray logs, /tmp/ray): memory that ran out, a crash, or a node that went away.", "Ray",
    ),
    FailureForm(
        ("RayTaskError", "ObjectStoreFullError", "OutOfDiskError", "onnect to GCS", "running Ray instance",
        "RaySystemError"), r"(?P<why>RayTaskError\(\w{1,60}\)|ObjectStoreFullError|OutOfDiskError|RaySystemError"
        "|(?:[Ff]ailed|[Uu]nable) to connect to GCS|Could not find any running Ray instance)", "ray", "Ray: {why}",
        "The error of the worker stands before it; a missing GCS means that the head of the cluster ended or is not "
        "reached.", "Ray",
    ),
    FailureForm(
        ("ngine core init", "EngineDeadError", "EngineCore encountered", "EngineCore failed", "WorkerProc init",
        "ngine process failed", "died unexpectedly, shutting", "RPC call to ", "quit from a child process",
        "Scheduler hit an exception", "loop has died"), "(?P<why>Engine core initialization failed|EngineDeadError"
        r"|EngineCore (?:encountered|failed to start)[^\n.]{0,40}|WorkerProc initialization failed"
        r"|Engine process failed to start|died unexpectedly, shutting"
        r"|RPC call to \w{1,60} timed out|sigquit from a child process|Scheduler hit an exception|ngine loop has died)",
        "engine", "the inference engine failed: {why}", _HINT_SERVER, "vLLM, SGLang",
    ),
    FailureForm(
        ("for the cache blocks", "KV cache is needed", "desired GPU memory util", "be stored in KV cache",
        "Not enough memory. Please"), "(?P<why>No available memory for the cache blocks"
        r"|[\d.]{1,9} GiB KV cache is needed|less than desired GPU memory utilization"
        r"|tokens that can be stored in KV cache|Not enough memory\. Please)", "cuda-out-of-memory",
        "the memory of the GPU is too small for the inference engine: {why}",
        "Raise gpu_memory_utilization where the GPU is free, lower max_model_len, or shard over more GPUs.",
        "vLLM, SGLang",
    ),
    # MPI, Slurm and Kubernetes
    FailureForm(
        ("TE has lost communication", "TE was unable to reliably", "daemon has unexpectedly failed",
        "complete a TCP connection to"), "(?:ORTE|PRTE) (?:has lost communication with a remote daemon"
        "|was unable to reliably start)|daemon has unexpectedly failed|unable to complete a TCP connection to",
        "mpirun", "mpirun lost the daemon of another node (mpirun)",
        "The lines after it name the node: look whether its pod runs and answers ssh.", "Open MPI",
    ),
    FailureForm(
        ("MPI_ABORT was invoked", "BAD TERMINATION OF ONE", "KILLED BY SIGNAL: ", "exited due to process rank ",
        "An error occurred in MPI_", "rror in MPI_Init", "Primary job  terminated", "are not enough slots"),
        r"(?:MPI_ABORT was invoked on|exited due to process) rank (?P<rank>\d{1,7})|(?P<a>BAD TERMINATION) OF ONE"
        r"|KILLED BY SIGNAL: (?P<b>\d{1,2} \(\w{3,30}\))|(?P<c>An error occurred in MPI_\w{2,40})"
        "|(?P<d>Fatal error in MPI_Init)|(?P<e>Primary job +terminated)"
        "|(?P<f>There are not enough slots)", "mpirun", "a process failed: {a}{b}{c}{d}{e}{f} (mpirun)", "mpirun",
        "MPI",
    ),
    FailureForm(
        ("UCX  ERROR", "retry count exceeded"),
        r"UCX +ERROR (?P<why>[^\n]{3,160})|(?P<retry>[Tt]ransport retry count exceeded[^\n]{0,80})", "peer",
        "UCX: {why}{retry}", "The other side ended, or the link between them does not work.", "UCX",
    ),
    FailureForm(
        ("Host key verification failed", "Permission denied (publickey", "ssh: connect to host"),
        r"(?P<why>Host key verification failed|Permission denied \(publickey"
        r"|ssh: connect to host (?P<host>\S{1,253}) port \d{1,5}: \w[\w ]{3,40})", "mpirun",
        "ssh does not reach a node: {why} (ssh)",
        "mpirun starts its processes by ssh: look at the keys and whether sshd runs in that pod.", "OpenSSH",
    ),
    FailureForm(
        ("srun: error: Node failure on",), r"srun: error: Node failure on (?P<host>\S{1,253})", "slurm",
        "the node failed (srun)",
        "Keep the node out of the next launch (--exclude), and start again from the last checkpoint.", "Slurm",
    ),
    FailureForm(
        ("srun: error: ", "sbatch: error: ", "salloc: error: ", "slurmstepd: error: execve", "slurmstepd: error: ***"),
        r"(?P<by>srun|sbatch|salloc|slurmstepd): (?:error: )?(?P<why>(?:\*\*\* (?:JOB|STEP) "
        r"|Nodes \S{1,120} are still not ready|Unable to (?:create step|allocate|confirm)"
        "|Timed out waiting for job step|Batch job submission failed|execve|Task launch for|Application launch failed"
        r"|Job allocation)[^\n]{0,160})", "slurm", "{why} ({by})",
        "Slurm's words say what it refused: scontrol show job and sinfo have more.", "Slurm",
    ),
    FailureForm(
        ("srun: Job step aborted", "srun: Force Terminated"), "srun: (?:Job step aborted|Force Terminated)", "slurm",
        "the step was aborted (srun)",
        "A task or a node failed before, or somebody cancelled it: the lines around it say which.", "Slurm",
    ),
    FailureForm(
        ("ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "UnexpectedAdmissionError", "CreateContainerError",
        "low on resource: ", "local storage usage exceeds", "BackoffLimitExceeded", "Insufficient nvidia.com/gpu",
        "requested number of devices unavailable", "nodes are available: ", "active longer than specified deadline"),
        r"(?P<why>\b(?:ErrImagePull|ImagePullBackOff)\b|CrashLoopBackOff|UnexpectedAdmissionError|CreateContainerError"
        r"|BackoffLimitExceeded|[Nn]ode was low on resource: [\w-]{3,30}|local (?:ephemeral )?storage usage exceeds"
        r"|Insufficient nvidia\.com/gpu|requested number of devices unavailable"
        r"|0/\d{1,6} nodes are available: [^\n]{3,120}|active longer than specified deadline)", "pod",
        "Kubernetes: {why}", "a4 why and the events of the pod say more.", "Kubernetes",
    ),
    # the kernel
    FailureForm(
        ("Uncorrected (Fatal)", "Uncorrectable (Fatal)", "Machine Check", "soft lockup", "Kernel panic",
        " blocked for more than ", "self-detected stall", "Link down", "Link DOWN"),
        r"(?P<why>severity=Uncorrect(?:ed|able) \(Fatal\)|Machine Check(?: Exception|: \d)"
        r"|soft lockup - CPU#\d{1,4} stuck|Kernel panic - not syncing[^\n]{0,80}"
        r"|task [^\s:]{1,40}:\d{1,9} blocked for more than \d{1,6} seconds|self-detected stall on CPU"
        "|mlx5_core.{0,80}Link (?:down|DOWN))", "node", "the kernel of the node reports: {why}",
        "Hardware or a file system of the node does not answer: keep the node out of the next launch, have it "
        "repaired.", "Linux",
    ),
    # checkpoints and numbers
    FailureForm(
        ("PytorchStreamReader failed", "PytorchStreamWriter failed", "UnpicklingError", "pickle data was truncated",
        "Ran out of input", "unexpected EOF, expected", "deserializing header", "MetadataIncompleteBuffer",
        "BadZipFile", "not fully covered", "truncated file", "end-of-stream marker", "magic bytes not found",
        "file write failed", "inline_container.cc"), r"(?P<why>PytorchStream(?:Reader|Writer) failed [^\n]{3,120}"
        r"|UnpicklingError: [^\n]{3,120}|pickle data was truncated|EOFError: Ran out of input"
        r"|unexpected EOF, expected \d{1,15} more bytes|(?:Error while|while) deserializing header[^\n]{0,80}"
        r"|BadZipFile: [^\n]{3,80}|file not fully covered|truncated file[^\n]{0,60}|before the end-of-stream marker"
        r"|magic bytes not found|inline_container\.cc:\d{1,5}\][^\n]{3,80})", "checkpoint",
        "a file could not be read or written whole: {why}", _HINT_CUT_FILE, "PyTorch, safetensors",
    ),
    FailureForm(
        ("n loading state_dict for", "issing key(s) in state_dict", "size mismatch for ", "CheckpointException",
        "CheckpointingException", "shape mismatch for loaded"),
        r"(?P<why>Error\(s\) in loading state_dict for [\w.]{1,80}|(?:Missing"
        r"|Unexpected) key\(s\) in state_dict: \S{1,120}|size mismatch for [\w.]{1,120}"
        r"|Checkpoint(?:ing)?Exception\b[^\n]{0,120}|[Gg]lobal shape mismatch for loaded[^\n]{0,80})", "checkpoint",
        "the checkpoint does not fit the model: {why}",
        "It is of another model, or of another layout: compare the configurations of both.", "PyTorch, Megatron",
    ),
    FailureForm(
        ("found NaN in", "found Inf in", "Unexpected result nan", "Unexpected result inf", ", stopping training",
        "inimum loss scale reached", "already at minimum - cannot", "nan values in its",
        "for gradients from `parameters` is non-finite", "Loss is nan", "loss is nan", "nan loss detected",
        "NaN loss detected", "Loss is NaN", "is nan or inf", "gradients are Nan/Inf"),
        r"(?:\b[Rr]ank (?P<rank>\d{1,7})\b[^\n]{0,120}?)?(?P<why>found (?:NaN|Inf) in [^\n.(']{3,60}"
        r"|Unexpected result (?:nan|inf)|Loss is \S{1,20}, stopping training|Minimum loss scale reached"
        r"|loss scale already at minimum - cannot decrease|returned nan values in its \d\w{0,3} output"
        r"|for gradients from `parameters` is non-finite|(?i:loss is nan|nan loss detected)|is nan or inf\b"
        "|gradients are Nan/Inf)", "nan", "numbers are no numbers any more: {why}",
        "Look at that rank's batch and its GPU; go on from a checkpoint before it, with a lower learning rate.",
        "Megatron, DeepSpeed, fairseq",
    ),
    # imports and libraries
    FailureForm(
        ("cannot open shared object file", "undefined symbol: ", "not found (required by"),
        "^(?!.*(?:NCCL INFO|INFO:|xla_bridge)).*?(?:ImportError|OSError|loading shared libraries"
        r"|symbol lookup error): (?P<why>[^\n]{0,200}?(?:cannot open shared object file|undefined symbol: \w{1,120}"
        r"|version `GLIBC\S{3,20}' not found))|^(?P<by>\S{1,200}: \S{1,200}: version `GLIBC\S{3,20}' not found)",
        "import", "a library cannot be loaded: {why}{by}", "The package was built for another CUDA, PyTorch or "
        "system than the image has: install a matching one, or set LD_LIBRARY_PATH.", "Python, ld.so",
    ),
    FailureForm(
        ("No module named ", "ImportError: cannot import name", "dtype size changed", "Failed to import ",
        "CUDA version ("), _MESSAGE_START + "(?:ModuleNotFoundError|ImportError|ValueError"
        r"|RuntimeError): (?P<why>No module named '[\w.]{1,120}'|cannot import name '\w{1,80}'[^\n(]{0,100}"
        r"|numpy\.dtype size changed[^\n.]{0,60}|Failed to import [\w.]{3,120}"
        r"|The detected CUDA version \([\d.]{3,8}\) mismatches)", "import", "{why}",
        "The image lacks that package, or has versions that do not fit each other.", "Python",
    ),
    FailureForm(
        ("building extension '", "CUDA_HOME environment variable is not set", "find C compiler"),
        r"(?P<why>Error building extension '\w{1,80}'|CUDA_HOME environment variable is not set"
        "|Failed to find C compiler)", "import", "an extension cannot be built: {why}",
        "Use an image with the compilers (devel), or with the extension in it.", "PyTorch, Triton",
    ),
    # downloads
    FailureForm(
        ("GatedRepoError", "gated repo", "RepositoryNotFoundError", "not a valid model identifier", "401 Client Error",
        "403 Client Error", "nvalid username or password", "DatasetNotFoundError"),
        r"(?P<why>GatedRepoError|gated repo\b|RepositoryNotFoundError|not a valid model identifier"
        r"|DatasetNotFoundError|\b40[13] Client Error|Invalid username or password)", "download",
        "a download is refused: {why}", _HINT_TOKEN, "Hugging Face",
    ),
    FailureForm(
        (" Client Error: ", " Server Error: ", "HTTP Error ", "LocalEntryNotFoundError", "couldn't connect to 'http",
        "each https://huggingface", "Max retries exceeded with url", "exceptions.ReadTimeout",
        "exceptions.ConnectTimeout", "Consistency check failed"),
        r"^(?!.*thrown while requesting).*?(?P<why>\b[45]\d\d (?:Client|Server) Error: [\w -]{2,40}"
        r"|HTTP Error [45]\d\d: [\w -]{2,40}|LocalEntryNotFoundError|couldn't connect to 'https?://[\w./-]{3,80}"
        r"|each https://huggingface[\w./-]{3,60}|Consistency check failed|exceptions\.(?:Read|Connect)Timeout"
        r"|HTTPS?ConnectionPool\(host='(?:[\w.-]{3,120})'[^\n]{0,40}Max retries exceeded)", "download",
        "a download failed: {why}", "429 and 5xx: too many requests or a fault of the server, start again later or "
        "with fewer at once; otherwise the network, or a wrong name.", "HTTP clients",
    ),
    FailureForm(
        ("api_key not configured", "wandb.errors.", "NoCredentialsError", "DefaultCredentialsError", "RefreshError: ",
        "locate credentials"), "(?P<why>api_key not configured"
        r"|wandb\.errors\.(?:\w{1,20}\.)?\w{3,40}Error: [^\n]{3,100}|NoCredentialsError|DefaultCredentialsError"
        r"|RefreshError: [^\n]{3,80}|Unable to locate credentials)", "download", "no valid login: {why}",
        "Set the key or the service account in the job's pods (WANDB_API_KEY, Workload Identity).",
        "wandb, Google, AWS",
    ),
    FailureForm(
        ("An error occurred (", "google.api_core.exceptions.", "403 GET https", "403 POST https", "429 GET https",
        "429 POST https", "503 GET https", "503 POST https"),
        r"(?P<why>An error occurred \(\w{3,40}\) when calling the \w{3,40}"
        r"|google\.api_core\.exceptions\.\w{3,40}: [^\n]{3,120}|(?:403|429|5\d\d) (?:GET|POST|PUT|PATCH"
        r"|DELETE) https://storage\.googleapis\.com/\S{1,80})", "storage", "the bucket refuses: {why}",
        "403: the pod's service account lacks the permission; 429 and 503: too many requests at a time.",
        "Cloud Storage, S3",
    ),
    # storage
    FailureForm(
        ("o space left on device", "StorageFull", "isk quota exceeded"),
        "(?P<why>[Nn]o space left on device|[Dd]isk quota exceeded"
        r"|StorageFull(?!.*[Nn]o space left))(?P<at>: '[^'\n]{1,200}')?", "storage", "{why}{at}",
        "A file system or a quota is full: the message names the path, or /dev/shm is meant. Free space, and save "
        "again.", "Linux",
    ),
    FailureForm(
        ("[Errno 107]", "ransport endpoint is not connected", "transport endpoint shutdown"),
        r"(?P<all>OSError: \[Errno 10[78]\].{0,250})|(?P<text>[Tt]ransport endpoint (?:is not connected|shutdown))",
        "storage", "{all}{text}",
        "The mount is gone: gcsfuse has ended; look at its container (memory, permissions), and start the pod again.",
        "gcsfuse",
    ),
    FailureForm(
        ("[Errno 116]", "tale file handle", "tale NFS file handle"),
        r"(?P<all>OSError: \[Errno 116\].{0,250})|(?P<text>[Ss]tale (?:NFS )?file handle)", "storage", "{all}{text}",
        "The file server was replaced, or the file removed on another node. Mount it again: start the pod again.",
        "NFS",
    ),
    FailureForm(
        ("[Errno 5]", "nput/output error", "[Errno 121]", "emote I/O error", "Buffer I/O error", "I/O error, dev "),
        r"(?P<all>OSError: \[Errno (?:5|121)\].{0,250})|(?P<text>[Ii]nput/output error|[Rr]emote I/O error"
        r"|Buffer I/O error[^\n]{0,60}|I/O error, dev \w{2,20})", "storage", "{all}{text}",
        "The storage refuses: for a bucket, its permissions, its limits of requests, or gcsfuse's log.", "Linux",
    ),
    FailureForm(
        ("ead-only file system", "emounting filesystem read-only", "EXT4-fs error", "tructure needs cleaning",
        "Corruption detected. Unmount"), r"(?P<why>[Rr]ead-only file system\b|[Rr]emounting filesystem read-only"
        r"|EXT4-fs error[^\n]{0,60}|[Ss]tructure needs cleaning"
        r"|Corruption detected\. Unmount)(?P<at>: '[^'\n]{1,200}')?", "storage",
        "a file system cannot be written: {why}{at}",
        "Write to another path; a file system that became so is damaged, or was mounted so.", "Linux",
    ),
    FailureForm(
        ("[Errno 2] No such file", "[Errno 13] Permission denied: "), _MESSAGE_START +
        r"(?:FileNotFoundError|PermissionError|OSError|IOError): \[Errno (?:2"
        r"|13)\] (?P<why>(?:No such file or directory|Permission denied): '[^'\n]{1,250}')", "storage", "{why}",
        "Look whether that path is mounted in every pod, and whom it belongs to.", "Python",
    ),
    FailureForm(
        ("This client was evicted", "operations using this service will fail"),
        r"client was evicted by (?P<by>[^\s;]{1,120})|service will fail", "storage", "Lustre evicted this client: {by}",
        "What was open is lost: look at the network of the node (LNet) and the servers.", "Lustre",
    ),
    FailureForm(
        ("LustreError: ", " was lost; in progress"), r"LustreError: .{0,160}?operation (?P<op>\w{1,40}) to node "
        r"(?P<at>\S{1,80}) failed: rc = (?P<rc>-\d{1,4})"
        r"|Lustre(?:Error)?: .{0,160}?Connection to (?P<to>\S{1,80}) .{0,80}was lost", "storage",
        "the Lustre client lost a server: {op} {at} {rc}{to}",
        "Reads and writes wait until it is back: look at its servers and the network (LNet).", "Lustre",
    ),
    FailureForm(
        ("not responding, still trying", "not responding, timed out"), r"nfs: server (?P<at>\S{1,253}) not responding",
        "storage", "the NFS server {at} does not answer",
        "Reads and writes wait until it does: look at the server and the network.", "NFS",
    ),
    FailureForm(
        ("MountVolume.SetUp failed", "MountVolume.MountDevice failed", "gcsfuse exited with error",
        "mountWithStorageHandle"), r"(?P<why>MountVolume\.\w{5,12} failed for volume \S{1,120}"
        r"|gcsfuse exited with error[^\n]{0,80}|mountWithStorageHandle: [^\n]{3,120})", "storage",
        "a volume was not mounted: {why}",
        "Look at the permissions of the pod's service account, and at the events of the pod.", "Kubernetes, gcsfuse",
    ),
    FailureForm(
        ("googleapi: Error ",), r"googleapi: Error (?P<code>401|403|429|5\d\d): (?P<why>[^\"\n]{1,160})", "storage",
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
    if CONTINUATION.search(line):
        return None
    for form in FORMS:
        if any(word in line for word in form.words) and (found := lazy_pattern(form.pattern).search(line)):
            fields = {name: value or "" for name, value in found.groupdict().items()}
            if fields.get("port"):
                fields["port"] = f":{fields['port']}"
            rank = int(fields["rank"]) if fields.get("rank") else None
            text = " ".join(form.text.format_map(fields).split()).rstrip(".: ")
            return NamedForm(form.kind, text, rank, fields.get("host", ""), form.hint), form
    return None


FORM_WORDS = tuple(word.encode() for form in FORMS for word in form.words)
