"""Failures that logs name.

How torchrun (PyTorch 2.11) and mpirun (Open MPI 4.1.4) ended was recorded on two H200; the other lines were written
for this test in the grammar of the programs that print them.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from trainlog.failure_kinds import LogFailure, group_sentences
from trainlog.failure_parser import MAX_FAILURES, FailureParser, find_failed_stage, name_reason, parse_failures
from trainlog.log_results import LogResults
from trainlog.severity import detect_level

KILLED = """\
E1121 22:07:20.333000 6072 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 1
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
======================================================
train.py FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_22:07:20
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 6114)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 6114
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_22:07:20
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 6115)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 6115
======================================================
"""
RAISED = KILLED.replace("exitcode  : -9", "exitcode  : 1")
INTERRUPTED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 5995 got signal: 2\n"
MPIRUN = """\
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KILLED, "torchrun: rank 1 failed first, ended by SIGKILL."),
        (RAISED, "torchrun: rank 1 failed first, exit code 1."),
        (INTERRUPTED, "torchrun: it was ended by SIGINT."),
        (MPIRUN, "mpirun: rank 1 was ended by SIGKILL."),
        (MPIRUN.replace("signal 9 (Killed)", "signal 99"), "mpirun: rank 1 was ended by signal 99."),
        ("rank      : 1 (local_rank: 1)\nexitcode  : -9\n", ""),
    ],
)
@pytest.mark.parametrize("piece", [7, 1000, 1 << 20])
def test_how_a_launcher_ended(text: str, said: str, piece: int) -> None:
    reading, data = LogResults(), (("iter 0: loss 6.4, time 16.2ms, mfu -100.00%\n" * 1000) + text).encode()
    for at in range(0, len(data), piece):
        reading.feed(data[at : at + piece])
    reading.close()
    assert reading.ended == said


def test_what_stands_long_before_the_end_is_not_the_end() -> None:
    reading = LogResults()
    reading.feed(MPIRUN.encode() + b"iter 0: loss 6.4, time 16.2ms, mfu -100.00%\n" * 1000)
    assert reading.ended == ""


# each kind


def one(text: str) -> LogFailure:
    (found,) = parse_failures(text.encode())
    return found


def facts(failure: LogFailure) -> tuple[str, int | None, str, str]:
    return failure.kind, failure.rank, failure.host, failure.text


WATCHDOG = (
    "[rank13]:[E1121 22:07:20.1 ProcessGroupNCCL.cpp:616] [Rank 13] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=8817, OpType=_ALLGATHER_BASE, NumelIn=4096, NumelOut=65536, Timeout(ms)=600000) ran for 600042 "
    "milliseconds before timing out.\n"
)
DETECTED = """\
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[51002,1],37]
  Exit code:    3
--------------------------------------------------------------------------
"""
DETECTED_BY_PRRTE = DETECTED.replace("mpirun", "prterun").replace("[[51002,1],37]", "[prterun-node-7-4711@1,37]")
CUT = KILLED.partition("Root Cause")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            WATCHDOG,
            ("nccl-timeout", 13, "", "NCCL timeout: _ALLGATHER_BASE (SeqNum 8817) ran for 600 s, the limit is 600 s"),
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, ",
            ("nccl-timeout", 4, "", "NCCL timeout: a collective (SeqNum 12) did not end"),
        ),
        (
            "[rank0]:[E1 ProcessGroupNCCL.cpp:1] [PG 0 Rank 0] Received a dump signal due to a collective timeout "
            "from rank 13 and we will try our best to dump the debug info.\n",
            ("nccl-timeout", 13, "", "NCCL timeout: this rank reported it first"),
        ),
        (
            "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 2 has a total "
            "capacity of 178.36 GiB of which 1.19 GiB is free.\n",
            ("cuda-out-of-memory", 2, "", "CUDA out of memory on GPU 2, tried to allocate 2.50 GiB"),
        ),
        ("RuntimeError: CUDA error: out of memory\n", ("cuda-out-of-memory", None, "", "CUDA out of memory")),
        (
            "[2026-11-21 07:00:00,000] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] "
            "exits with return code = -9\n",
            ("deepspeed", None, "", "a process was ended by SIGKILL (DeepSpeed)"),
        ),
        (
            "slurmstepd: error: *** JOB 8117 ON node-7 CANCELLED AT 2026-11-21T07:00:00 DUE TO TIME LIMIT ***\n"
            "slurmstepd: error: *** STEP 8117.0 ON node-7 CANCELLED AT 2026-11-21T07:00:00 DUE TO TIME LIMIT ***\n",
            ("time-limit", None, "node-7", "job 8117 was cancelled due to time limit (Slurm)"),
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=8117.0. Some of the tasks have been OOM Killed.",
            ("out-of-memory", None, "", "the memory of the machine or the container ran out: processes were killed"),
        ),
        (
            "Nov 21 07:00:00 node-7 kernel: Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB\n",
            (
                "out-of-memory", None, "node-7",
                "the memory of the machine or the container ran out: process 4711 (python3) was killed",
            ),
        ),
        ("srun: error: node-7: task 3: Exited with exit code 1\n",
         ("slurm", 3, "node-7", "task 3: Exited with exit code 1 (srun)")),
        (DETECTED, ("mpirun", 37, "", "failed first, exit code 3 (mpirun)")),
        (DETECTED_BY_PRRTE, ("mpirun", 37, "", "failed first, exit code 3 (prterun)")),
        (MPIRUN, ("mpirun", 1, "vm", "was ended by SIGKILL (mpirun)")),
        (MPIRUN.replace(" exited", "\nexited"), ("mpirun", 1, "vm", "was ended by SIGKILL (mpirun)")),
        (
            "Nov 21 07:00:00 node-7 kernel: NVRM: Xid (PCI:0000:dc:00): 79, GPU has fallen off the bus.\n",
            ("xid", None, "node-7", "Xid 79 on 0000:dc:00: GPU has fallen off the bus."),
        ),
        (
            "[ 99.1] NVRM: GPU at PCI:0000:dc:00: GPU-1 has fallen off the bus\n",
            ("gpu-lost", None, "", "GPU 0000:dc:00 has fallen off the bus"),
        ),
        (
            "node-7:21:98 [3] misc/argcheck.cc:39 NCCL WARN Broadcast : invalid root 9 (root should be in the 0..7 "
            "range)",
            ("nccl-warning", None, "node-7", "NCCL warning (GPU 3): Broadcast : invalid root 9 (root should be in the "
             "0..7 range)"),
        ),
        ("node-7: Test NCCL failure common.cu:1204 'unhandled cuda error'\n"
         " .. node-7 pid 77: Test failure common.cu:9\n",
         ("nccl-test", None, "node-7", "Test NCCL failure common.cu:1204 'unhandled cuda error'")),
        ("NCCL failure common.cu:921 'unhandled system error'\n",
         ("nccl-test", None, "", "NCCL failure common.cu:921 'unhandled system error'")),
        (
            "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/app/train.py\", line 3, in <module>\n"
            "[rank5]:     raise ValueError(shape)\n[rank5]: ValueError: 3 is no multiple of 8\n",
            ("exception", 5, "", "ValueError: 3 is no multiple of 8"),
        ),
        ("bash: line 1:   77 Segmentation fault      (core dumped) ./all_reduce_perf\n",
         ("crash", None, "", "Segmentation fault")),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
            ("torchrun", None, "", "a process failed; the report is cut before it names the process (torchrun)"),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [5, 1 << 20])
def test_what_is_named(text: str, expected: tuple[str, int | None, str, str], piece: int) -> None:
    before, parser = "step 1 loss 2.5\n" * 50, FailureParser()
    data = (before + text).encode()
    for at in range(0, len(data), piece):
        parser.feed(data[at : at + piece])
    parser.close()
    (found,) = parser.failures
    assert facts(found) == expected
    assert found.line == 51 + (expected[0] == "mpirun")


def test_the_root_cause_that_torchrun_tells() -> None:
    local, found = parse_failures(KILLED.encode())
    assert (local.text, local.line) == ("the process with local rank 1 failed, ended by SIGKILL (torchrun)", 1)
    assert facts(found) == ("torchrun", 1, "localhost", "failed first, ended by SIGKILL (torchrun)")


def test_failed_processes_of_which_torchrun_does_not_tell_the_first() -> None:
    _, found = parse_failures(CUT.encode())
    said = "failed, ended by SIGTERM; which rank failed first is not reported (torchrun)"
    assert facts(found) == ("torchrun", 0, "localhost", said)


def test_interleaved_reports_of_nodes_are_separated_by_their_labels() -> None:
    report = KILLED.partition("\n")[2].splitlines()
    lines = [f"[pod/train-0-{node}/main] {line.replace(': 1 (', f': {node}1 (')}" for line in report for node in (1, 2)]
    found = parse_failures("\n".join(lines).encode())
    assert [each.rank for each in found] == [11, 21]


@pytest.mark.parametrize(
    "text",
    [
        "step 3 loss 2.5\n", "[launch.py:347:main] Process 77 exits successfully.\n", "exits with return code = 0\n",
        "what does Xid 79 mean?\n", "0 Test failures\n", "Traceback (most recent call last):\n  File \"a\", line 1\n",
        "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyboardInterrupt\n",
        "0 processes noticed that process rank\n", "node-7:21:98 [3] NCCL INFO Connected all rings\n",
    ],
)  # fmt: skip
def test_what_is_no_failure(text: str) -> None:
    assert parse_failures(text.encode()) == ()


def test_a_failure_of_a_rank_is_reported_once_with_how_often_it_was_named() -> None:
    other = WATCHDOG.replace("13]", "14]").replace("rank13", "rank14")
    first, second = parse_failures(("noise\n" + 3 * WATCHDOG + 2 * other).encode())
    assert [(each.rank, each.line, each.times) for each in (first, second)] == [(13, 2, 3), (14, 5, 2)]
    (said,) = group_sentences((first, second))
    assert said.startswith("line 2: ranks 13-14: NCCL timeout: _ALLGATHER_BASE (SeqNum 8817) ran for 600 s")


def test_hosts_with_the_same_report_are_listed_together() -> None:
    text = "".join(f"node-{number}: Test NCCL failure common.cu:1 'x'\n" for number in range(6))
    (said,) = group_sentences(parse_failures(text.encode()))
    assert said.startswith("line 1: on node-0, node-1, node-2, node-3 and 2 more: Test NCCL failure common.cu:1 'x'.")


def test_so_many_failures_are_kept_and_the_others_counted() -> None:
    parser = FailureParser()
    parser.feed(
        b"".join(b"node-%d: Test NCCL failure common.cu:1 'x'\n" % number for number in range(MAX_FAILURES + 7))
    )
    assert (len(parser.failures), parser.more) == (MAX_FAILURES, 7)


@pytest.mark.parametrize("text", [WATCHDOG, DETECTED.splitlines()[1], MPIRUN.splitlines()[1], CUT.splitlines()[1],
                                  "exits with return code = -9", "GPU-1 has fallen off the bus",
                                  "NVRM: Xid (PCI:0): 79", "JOB 7 ON node-7 CANCELLED AT 2026",
                                  "CUDA out of memory", "Bus error"])  # fmt: skip
def test_a_line_that_names_a_failure_tells_of_an_error(text: str) -> None:
    assert detect_level(text.encode()) == "error"


@settings(deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=12))
def test_how_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    data = (WATCHDOG + KILLED + DETECTED + CUT + MPIRUN + INTERRUPTED).encode()
    parser, at = FailureParser(), 0
    for cut in [*sorted(cuts), len(data)]:
        parser.feed(data[at:cut])
        at = max(at, cut)
    parser.close()
    assert parser.failures == parse_failures(data)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([WATCHDOG, KILLED, DETECTED, MPIRUN, CUT]))
def test_no_bytes_break_it(data: bytes, before: str) -> None:
    parse_failures(before[: len(before) * 2 // 3].encode() + data)


STEPS = ["step 7 convert: run", "error: of another step", "step 7 convert: done in 3 s", "step 8 train: run"]
FAILED = ["step 8 train: failed with exit code 2", "own-script ended with exit code 2"]


@pytest.mark.parametrize(
    ("inside", "text", "line"),
    [
        (["usage: train.py [-h]", "train.py: error: unrecognized arguments: --lr2", "-----"],
         "Stage 8 (train) failed with exit code 2: train.py: error: unrecognized arguments: --lr2", 6),
        (["run.sh: line 3: torchrum: command not found"],
         "Stage 8 (train) failed with exit code 2: run.sh: line 3: torchrum: command not found", 5),
        (["loading", "the last word"], "Stage 8 (train) failed with exit code 2: the last word", 6),
        ([], "Stage 8 (train) failed with exit code 2", 5),
    ],
)  # fmt: skip
def test_a_step_that_failed_is_named_with_the_line_that_says_why(inside: list[str], text: str, line: int) -> None:
    assert find_failed_stage([*STEPS, *inside, *FAILED]) == LogFailure("stage", text, line)


@pytest.mark.parametrize(
    "how",
    [
        "ended by SIGTERM after saving step 20",
        "ended by the SIGTERM of another pod",
        "did not end in the grace period of 120 s; the newest checkpoint is of step 15",
    ],
)
def test_what_sigterm_left_is_the_reason(how: str) -> None:
    lines = [
        *STEPS,
        "RuntimeError: closed while it was ended",
        f"step 8 train: {how}",
        "swift-sft ended with exit code 143",
    ]
    assert find_failed_stage(lines) == LogFailure("stage", f"Stage 8 (train) {how}", 6)
    assert name_reason(lines) == ("stage 8 train", how)


def test_what_is_named_already_is_not_repeated() -> None:
    raised = LogFailure("exception", "ValueError: no such split", 5)
    found = find_failed_stage([*STEPS, "[rank0]: ValueError: no such split", *FAILED], [raised])
    assert found == LogFailure("stage", "Stage 8 (train) failed with exit code 2", 6)
    assert find_failed_stage([*STEPS, "step 8 train: done in 1 s"]) is None


def test_the_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    pieces, data = (
        [b"step 1 loss 2.5\nstep 2 loss 2.4\n"],
        b"RuntimeError: CUDA error: an illegal memory access was encountered\n",
    )
    for block in (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1:]:
        exec(block.partition("```")[0], {"pieces": pieces, "data": data})
    told = capsys.readouterr().out
    assert "[(1, 2.5), (2, 2.4)]" in told
    assert "hf_abc" not in told
