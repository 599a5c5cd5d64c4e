"""Each form of a failure, with an example as it is printed and a line that only looks like it."""

from __future__ import annotations

import pytest

from trainlog.failure_forms import FORMS
from trainlog.failures import parse_failures

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
    "recvValue failed": (f"[rank5]:[W523 02:11:05.131 TCPStore.cpp:125] {STORE}", "rank 0", "recvValue failed twice"),
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
}  # fmt: skip
BAR = " 12%|#2      | 120/1000 [02:00<14:40,  1.00s/it]"


def test_each_form_has_an_example() -> None:
    assert [form.words[0] for form in FORMS] == [*EXAMPLES]


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
