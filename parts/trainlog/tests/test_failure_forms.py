"""Each form of a failure, with an example as it is printed and a line that only looks like it."""

import pytest

from trainlog.failure_parser import parse_failures
from trainlog.failure_patterns import FORMS

TASK = "/job:jax_worker/replica:0/task"
STORE = "[c10d] recvValue failed on SocketImpl(fd=9, addr=[a]:44012, remote=[b]:29500): Connection reset by peer"
# a word of the form: what is printed, what is said of it, and what is no failure
EXAMPLES = {
    "ECC error encountered": (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered", "uncorrectable ECC",
        "no ECC error encountered in the last hour",
    ),
    "system not yet initialized": (
        "RuntimeError: CUDA error: system not yet initialized", "802", "the file system was initialized",
    ),
    "CUDA error: ": (
        "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: CUDA error: "
        "unspecified launch failure", "unspecified launch failure", "CUDA error: 0",
    ),
    "ibrary version mismatch": (
        "Failed to initialize NVML: Driver/library version mismatch", "different versions", "pip: library version 2",
    ),
    "driver on your system is too old": (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update", "12020",
        "is the driver on your system is too old? (see the FAQ)",
    ),
    "driver version is insufficient": (
        "CUDA driver version is insufficient for CUDA runtime version", "too old", "CUDA driver version is 12.4",
    ),
    "heartbeat timeout": (
        f"E coordination_service.cc:1170] UNAVAILABLE: Task {TASK}:37 heartbeat timeout. This indicates", "task 37",
        "heartbeat timeout is set to 100 s",
    ),
    "Barrier timed out": (
        f"XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Timed out task names:\n{TASK}:3\n", "task 3",
        f"Barrier timeout is 100 s\n{TASK}:3\n",
    ),
    "tasks are unhealthy": (
        f"The following tasks are unhealthy (stopped sending heartbeats):\n{TASK}:4\n{TASK}:5\n", "task 5",
        "no tasks are unhealthy",
    ),
    "luster registration failed": (
        "E coordination_service_agent.cc:384] Cluster registration failed with error: DEADLINE_EXCEEDED", "join",
        "Cluster registration took 2 s",
    ),
    "NCCL operation ": (
        "E nccl_api.cc:410] NCCL operation ncclCommInitRankConfig failed: unhandled system error", "ncclCommInit",
        "NCCL operation ncclAllReduce took 3 ms",
    ),
    "client socket has": (
        "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to "
        "(10.0.0.7, 29500).",
        "10.0.0.7:29500", "The client socket has connected to 10.0.0.7",
    ),
    "clients joined": (
        "DistStoreError: Timed out after 601 seconds waiting for clients. 1/3 clients joined.", "1 of 3",
        "all clients joined",
    ),
    "RendezvousConnectionError": (
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store "
        "has failed.",
        "rendezvous", "except RendezvousConnectionErrors:",
    ),
    "recvValue": (f"[rank5]:[W523 02:11:05.131 TCPStore.cpp:125] {STORE}", "rank 0", "recvValue failed twice"),
    "gloo/transport/": (
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:37431",
        "Connection closed", "built gloo/transport/tcp/pair.cc",
    ),
    "successfully reached monitoredBarrier": (
        "RuntimeError: Rank 7 successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        "from rank 0. Please check", "rank 7 reports", "all ranks successfully reached monitoredBarrier",
    ),
    "remote process exited or": (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely. "
        "remote process exited or there was a network error", "remote process", "a remote process exited",
    ),
    "watchdog hang": (
        "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        "watchdog",
        "no watchdog hangs",
    ),
    "exiting program after receiving SIGTERM": (
        "[exiting program after receiving SIGTERM.] datetime: 2025-05-01 09:01:12", "SIGTERM",
        "will exit after SIGTERM",
    ),
    " Killed ": (
        "/launch/start.sh: line 41:   212 Killed                  python -u pretrain.py", "SIGKILL",
        "line 41: Killed in action",
    ),
    "died with <Signals.": ("CalledProcessError: Command '['x']' died with <Signals.SIGABRT: 6>.", "SIGABRT",
        "it died"),
    "with exit code 137": ("command terminated with exit code 137", "SIGKILL", "ended with exit code 1370"),
    "memory pressure (OOM)": (
        "(raylet) 4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to "
        "other reasons",
        "memory of the machine", "0 tasks saw memory pressure (OOM)",
    ),
    "[Errno 107]": ("OSError: [Errno 107] Transport endpoint is not connected: '/m'", "'/m'", "ignoring [Errno 107]"),
    "[Errno 116]": ("OSError: [Errno 116] Stale file handle: '/m/a.pt'", "/m/a.pt", "retry on [Errno 116]"),
    "[Errno 5]": ("OSError: [Errno 5] Input/output error: '/m/a.pt'", "/m/a.pt", "[Errno 5]"),
    "googleapi: Error ": (
        '{"severity":"ERROR","message":"ReadFile: googleapi: Error 429: rateLimitExceeded"}', "429",
        "googleapi: Error 404: not found",
    ),
    "abric Manager": ("Failed to start NVIDIA fabric manager service.", "fabric",
        "Started NVIDIA fabric manager service."),
    "illegal memory access": (
        "what():  CUDA error: an illegal memory access was encountered", "illegal memory",
        "no illegal memory access found",
    ),
    "device-side assert triggered": (
        "RuntimeError: CUDA error: device-side assert triggered", "assert", "device-side assertions are enabled",
    ),
    "thread: [": (
        "../aten/src/ATen/native/cuda/Indexing.cu:1146: indexSelectLargeIndex: block: [59,0,0], thread: [64,0,0] "
        "Assertion "
        "`srcIndex < srcSelectDimSize` failed.", "srcIndex < srcSelectDimSize", "block: [59,0,0], thread: [64,0,0]",
    ),
    "no kernel image": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device", "no kernel image",
        "no kernel image was built here",
    ),
    "No CUDA GPUs are": (
        "RuntimeError: No CUDA GPUs are available", "no usable GPU",
        "torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Found no NVIDIA driver on your system.",
    ),
    "vlink error was detected": (
        "RuntimeError: CUDA error: an NVLink error was detected during the execution", "NVLink", "NVLink errors: 0",
    ),
    "_STATUS_NOT_INITIALIZED": (
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "NOT_INITIALIZED",
        "X_STATUS_NOT_INITIALIZED = 1",
    ),
    "CUBLAS_STATUS_": (
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa)`", "EXECUTION_FAILED",
        "CUBLAS_STATUS_SUCCESS",
    ),
    "GPU is lost": (
        "Unable to determine the device handle for GPU0000:8B:00.0: GPU is lost.  Reboot the system", "GPU",
        "if a GPU is losing its clock",
    ),
    "unsatisfied condition: ": (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
        "cuda>=12.8",
        "no unsatisfied conditions",
    ),
    "NCCL error": (
        "torch.distributed.DistBackendError: NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1331, unhandled system "
        "error (run "
        "with NCCL_DEBUG=INFO for details), NCCL version 2.18.5", "unhandled system error", "NCCL errors: 0",
    ),
    "ncclSystemError": (
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed", "SystemError",
        "see ncclSystemError in the manual",
    ),
    "detected by watchdog at work": (
        "[80749] [rank3]:[E321 02:07:08.465 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 3] Exception (either an error or "
        "timeout) "
        "detected by watchdog at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579.",
        "work 1580",
        "nothing detected by watchdog at work",
    ),
    "NCCL communicator was aborted": (
        "RuntimeError: NCCL communicator was aborted on rank 3.  Original reason for failure was: x", "rank 3",
        "the communicator was aborted and made again",
    ),
    "mismatch between collectives": (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: A, but Rank 1 "
        "B", "Rank 0",
        "looks for mismatch between collectives",
    ),
    "different incarnation": (
        f"ABORTED: {TASK}:5 unexpectedly tried to connect with a different incarnation. It has likely restarted.",
        "task 5",
        "each start is a different incarnation",
    ),
    "JAX distributed service detected": (
        "F0926 17:26:32.075587  157988 client.h:77] Terminating process because the JAX distributed service "
        "detected fatal "
        "errors.", "another task", "JAX distributed service detected 8 tasks",
    ),
    "failed to connect to all addresses": (
        "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.3:1234: Connection refused",
        "10.0.0.3:1234", "failed to connect to all addresses, retrying",
    ),
    "Unable to initialize backend": (
        "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPUs.", "backend 'cuda'",
        "INFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so",
    ),
    "XlaRuntimeError: ": (
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: the custom call failed", "custom call",
        "except XlaRuntimeError: pass",
    ),
    "EADDRINUSE": (
        "DistNetworkError: The server socket has failed to listen. port: 29500, useIpv6: false, code: -98, name: "
        "EADDRINUSE, "
        "message: address already in use", "29500", "EADDRINUSE: trying 29501",
    ),
    "based barrier on rank": (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: k "
        "(world_size=8, "
        "worker_count=7, timeout=0:30:00)", "7 of 8",
        "Waiting in store based barrier to initialize process group for rank: 1, key: k (world_size=8, worker_count=7)",
    ),
    "setting up NCCL communicator": (
        "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
        "store by "
        "store->get('0'), but store->get('0') got error: Connection reset by peer", "rank 1",
        "setting up NCCL communicators",
    ),
    "wait timeout after": (
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0/0", "300000ms",
        "the wait timeout after a step is 3 s",
    ),
    "Name or service not known": (
        "socket.gaierror: [Errno -2] Name or service not known", "no address",
        "[W socket.cpp:697] The IPv6 network addresses of (a, 29500) cannot be retrieved (gai error: -2 - Name or "
        "service not "
        "known).",
    ),
    "to pass monitoredBarrier": (
        "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms", "rank 1",
        "all had to pass monitoredBarrier",
    ),
    "pass monitoredBarrier in": (
        "[E ProcessGroupGloo.cpp:2791] [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 120000 ms", "ranks 1, 2",
        "Ranks did pass monitoredBarrier in 20 ms",
    ),
    " death signal, shutting down": (
        "W0409 07:28:49.53 1359 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, "
        "shutting down "
        "workers", "signal 15", "no death signal, shutting down at the end",
    ),
    " closing signal SIG": (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 518 closing signal SIGTERM", "launcher",
        "the closing signal SIGTERM is caught",
    ),
    "eceived SIGTERM": ("[rank: 3] Received SIGTERM: 15", "SIGTERM",
        "when it has received SIGTERM it saves a checkpoint"),
    "received at time=": (
        "*** SIGSEGV received at time=1757000000 on cpu 3 ***", "SIGSEGV", "received at time=1757000000: 3 batches",
    ),
    "Check failed: ": (
        "F0926 17:26:32.075587  157988 buffer.cc:77] Check failed: size < limit", "size < limit",
        "Check failed: 0 of 8",
    ),
    " Terminated ": ("x.sh: line 4:   212 Terminated              python -u a.py", "Terminated",
        "line 4: Terminated by peace"),
    "Killed": ("Killed", "SIGKILL", "Killed 3 old workers"),
    "oom-kill:constraint": (
        "[12.6] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,task_memcg=/b,task=python,pid=42,uid=0",
        "python was killed", "oom-kill:constraint is not set",
    ),
    "invoked oom-killer": (
        "[1.6] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0", "memory",
        '{"OOMKilled": false, "Restarts": 0}',
    ),
    "annot allocate memory": (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to "
        "allocate 6871 bytes.", "allocation failed", "DefaultCPUAllocator: 3 arenas",
    ),
    "encountered in worker": (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "/dev/shm", "no bus error encountered in workers",
    ),
    "DataLoader worker (": (
        "RuntimeError: DataLoader worker (pid(s) 296430, 296431) exited unexpectedly", "exited unexpectedly",
        "DataLoader worker (pid 3) started",
    ),
    "abruptly": (
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while",
        "worker",
        "the loss fell abruptly",
    ),
    "items of ancdata": ("RuntimeError: received 0 items of ancdata", "open files", "12 items of ancdata"),
    "start new thread": ("RuntimeError: can't start new thread", "threads", "will start new threads"),
    "allocate shared memory": (
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_1>: Success (0)", "shared memory",
        "workers allocate shared memory",
    ),
    "OutOfResources: ": (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 164864", "164864",
        "OutOfResources: 0",
    ),
    "marked dead because": (
        "WARNING worker.py:1228 -- The node with node id: 9d2c and ip: 172.31.12.38 has been marked dead because "
        "the detector has "
        "missed too many heartbeats from it.", "172.31.12.38", "not marked dead",
    ),
    "worker died or was killed": (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: f "
        "Worker ID: f "
        "Node ID: 0 Worker IP address: 192.168.111.204 Worker port: 10110", "192.168.111.204", "no worker died",
    ),
    "RayTaskError": (
        "ray.exceptions.RayTaskError(ValueError): ray::Worker.update() (pid=1, ip=10.0.0.1)", "ValueError",
        "RayTaskErrors are told apart",
    ),
    "ngine core init": (
        "(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above.", "engine",
        "Engine core initialized in 3 s",
    ),
    "for the cache blocks": (
        "ValueError: No available memory for the cache blocks. Try increasing it", "memory of the GPU",
        "memory for the cache blocks: 3 GiB",
    ),
    "TE has lost communication": (
        "ORTE has lost communication with a remote daemon.", "daemon", "no TE has lost communication",
    ),
    "MPI_ABORT was invoked": (
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "rank 3",
        "if MPI_ABORT was invoked, look there",
    ),
    "UCX  ERROR": (
        "[17.1] [gpu7:1:0] ib_log.c:177  UCX  ERROR Connection reset on mlx5_0:1", "mlx5_0:1", "UCX  INFO no error",
    ),
    "Host key verification failed": (
        "ssh: connect to host worker-3 port 22: Connection refused", "worker-3", "Host key verification is off",
    ),
    "srun: error: Node failure on": ("srun: error: Node failure on gpu-7", "gpu-7", "srun: node gpu-7 is up"),
    "srun: error: ": (
        "srun: error: Unable to create step for job 12345: Invalid generic resource (gres) specification", "12345",
        "srun: error: 0",
    ),
    "srun: Job step aborted": (
        "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.", "aborted", "srun: job 12 queued",
    ),
    "ErrImagePull": ("Warning  Failed  Error: ErrImagePull", "ErrImagePull", "no ErrImagePullers"),
    "Uncorrected (Fatal)": (
        "mlx5_core 0000:3b:00.0 mlx5_0: Port: 1 Link DOWN", "Link DOWN",
        "mce: [Hardware Error]: Corrected error, no action",
    ),
    "PytorchStreamReader failed": (
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "zip archive",
        "UnpicklingErrors: 0",
    ),
    "n loading state_dict for": (
        "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:", "LlamaForCausalLM",
        "done in loading state_dict for x",
    ),
    "found NaN in": (
        "AssertionError: Rank 11: found NaN in local grad norm in backward pass before data-parallel communication "
        "collective. "
        "Device: 3", "rank 11", "  check_for_nan_in_loss_and_grad .................. True",
    ),
    "cannot open shared object file": (
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "libcudart.so.12",
        "a:1:1 [0] NCCL INFO NET/Plugin : libnccl-net.so: cannot open shared object file: No such file or directory",
    ),
    "No module named ": (
        "ModuleNotFoundError: No module named 'flash_attn'", "flash_attn",
        "WARNING: apex is off: No module named 'apex'",
    ),
    "building extension '": ("RuntimeError: Error building extension 'fused_adam'", "fused_adam",
        "building extension 'x' ..."),
    "GatedRepoError": (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-66f4)", "refused",
        "no gated repos",
    ),
    " Client Error: ": (
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://h.co/a", "429",
        "'(MaxRetryError(\"HTTPSConnectionPool(host='h.co', port=443): Max retries exceeded with url: /a\"))' "
        "thrown while "
        "requesting HEAD https://h.co/a",
    ),
    "api_key not configured": (
        "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])", "login",
        "wandb: Network error (ConnectTimeout), entering retry loop.",
    ),
    "An error occurred (": (
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation: x",
        "SlowDown",
        "An error occurred (none)",
    ),
    "o space left on device": (
        "IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" })", "No space",
        "space left on device: 3 TB",
    ),
    "ead-only file system": ("OSError: [Errno 30] Read-only file system: '/ckpt/x'", "/ckpt/x",
        "read-only file systems: 2"),
    "[Errno 2] No such file": (
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.idx'", "/data/x.idx",
        "no compiler: [Errno 2] No such file or directory: 'nvcc'",
    ),
    "This client was evicted": (
        "LustreError: 167-0: a-MDT0000: This client was evicted by a-MDT0000; in progress operations using this "
        "service will fail.",
        "a-MDT0000", "Lustre: a-MDT0000: client connected",
    ),
    "LustreError: ": (
        "LustreError: 11-0: j-MDT0000-mdc-f: operation obd_ping to node 172.31.126.88@o2ib failed: rc = -107",
        "172.31.126.88",
        "Lustre: a-OST0011-osc-f: Connection restored to 10.20.0.11@o2ib (at 10.20.0.11@o2ib)",
    ),
    "not responding, still trying": ("nfs: server 10.0.0.9 not responding, still trying", "10.0.0.9",
        "nfs: server 10.0.0.9 OK"),
    "MountVolume.SetUp failed": (
        'MountVolume.SetUp failed for volume "gcs" : rpc error: code = PermissionDenied', "gcs",
        "MountVolume.SetUp succeeded",
    ),
}  # fmt: skip
BAR = " 12%|#2      | 120/1000 [02:00<14:40,  1.00s/it]"


def test_each_form_has_an_example() -> None:
    assert sorted(form.words[0] for form in FORMS) == sorted(EXAMPLES)


@pytest.mark.parametrize("word", EXAMPLES)
@pytest.mark.parametrize(
    "before", ["", f"{BAR}[rank4]: ", "[2026-11-01 18:38:31] [INFO] ", "[pod/train-w-0-0-a/main] "]
)
def test_a_form_is_named_wherever_it_stands(word: str, before: str) -> None:
    printed, sentence, _ = EXAMPLES[word]
    if "\n" in printed and before:
        before = ""
    form = next(each for each in FORMS if each.words[0] == word)
    found = [each for each in parse_failures((before + printed).encode()) if each.kind == form.kind]
    assert any(sentence in each.sentence for each in found)
    assert all(len(each.hint) > 20 for each in found)


@pytest.mark.parametrize("word", EXAMPLES)
def test_what_only_looks_like_a_form_is_no_failure(word: str) -> None:
    assert parse_failures(EXAMPLES[word][2].encode()) == ()


FILE = '  File "/w/train.py", line 8, in <module>\n'


@pytest.mark.parametrize(
    ("log", "rank", "text"),
    [
        (
            f"{BAR}[rank4]: Traceback (most recent call last):\n[rank4]: {FILE}[rank4]: ValueError: no such key\n", 4,
            "ValueError: no such key",
        ),
        (
            "[2026-11-01 18:38:31] [INFO] Traceback (most recent call last):\n"
            '[2026-11-01 18:38:31] [INFO] File "/w/train.py", line 8, in <module>\n'
            "[2026-11-01 18:38:32] [INFO] raise ValueError(key)\nsomething else\n"
            "[2026-11-01 18:38:32] [INFO] ValueError: no such key\n", None, "ValueError: no such key",
        ),
        (
            "╭──── Traceback (most recent call last) ────╮\n│ /w/train.py:8 in <module> │\n╰────╯\n"
            "ValueError: no such key\n", None, "ValueError: no such key",
        ),
        (
            f"  + Exception Group Traceback (most recent call last):\n  | {FILE}"
            "  | ExceptionGroup: unhandled errors (1 sub-exception)\n  +-+---- 1 ----\n"
            f"    | Traceback (most recent call last):\n    | {FILE}    | x.y.ClientError: 429, message='Too Many'\n"
            "    +----\n", None, "ClientError: 429, message='Too Many'",
        ),
    ],
)  # fmt: skip
def test_a_traceback_is_read_wherever_it_begins(log: str, rank: int | None, text: str) -> None:
    assert [(each.rank, each.text) for each in parse_failures(log.encode())] == [(rank, text)]


@pytest.mark.parametrize("ray", ["the node running low on memory", "memory pressure (OOM)"])
def test_the_name_of_a_class_does_not_name_the_memory_that_ran_out(ray: str) -> None:
    found = parse_failures(f"ray.exceptions.OutOfMemoryError: Task was killed due to {ray}.".encode())
    assert [each.kind for each in found] == ["out-of-memory"]


@pytest.mark.parametrize("form", ["collective timeout from  rank 11 and we", "collective timeout from rank 11 and"])
def test_the_dump_signal(form: str) -> None:
    line = (
        f"[rank5]:[E703 17:54:18.88 ProcessGroupNCCL.cpp:1987] [PG ID 0 Rank 5] Received a dump signal due to a {form}"
    )
    assert [(each.kind, each.rank) for each in parse_failures(line.encode())] == [("nccl-timeout", 11)]


def test_jax_names_the_amount() -> None:
    line = b"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes."
    assert parse_failures(line)[0].text == "CUDA out of memory, tried to allocate 64.00 GiB"
