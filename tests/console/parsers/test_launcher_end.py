"""How jobs on two H200 ended under torchrun (PyTorch 2.11) and mpirun (Open MPI 4.1.4)."""

from __future__ import annotations

import pytest

from console.log_results import LogReading

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
    reading, data = LogReading(), (("iter 0: loss 6.4, time 16.2ms, mfu -100.00%\n" * 1000) + text).encode()
    for at in range(0, len(data), piece):
        reading.feed(data[at : at + piece])
    reading.close()
    assert reading.launcher_end == said


def test_what_stands_long_before_the_end_is_not_the_end() -> None:
    reading = LogReading()
    reading.feed(MPIRUN.encode() + b"iter 0: loss 6.4, time 16.2ms, mfu -100.00%\n" * 1000)
    assert reading.launcher_end == ""
