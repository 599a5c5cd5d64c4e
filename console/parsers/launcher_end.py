"""How torchrun and mpirun say at the end of a log that ranks failed or that they were interrupted."""

from __future__ import annotations

import re
import signal

TAIL = 32 << 10
"""Bytes at the end of a log in which it stands: little comes after it."""
_TORCHRUN = re.compile(
    r"Root Cause \(first observed failure\):[^=]{0,600}?\brank +: (\d{1,9})\b[^=]{0,400}?\bexitcode +: (-?\d{1,9})\b"
)
_TORCHRUN_SIGNAL = re.compile(r"SignalException: Process \d{1,12} got signal: (\d{1,3})")
_MPIRUN = re.compile(r"(mpirun|mpiexec|prterun|orterun) noticed that process rank (\d{1,9}) with PID .{1,300}?"
                     r" exited\s+on signal (\d{1,3})")  # fmt: skip


def launcher_end(tail: bytes) -> str:
    """What it says in a sentence, such as "torchrun: rank 1 failed first, ended by SIGKILL."; empty if nothing."""
    text = tail.decode("utf-8", "replace")
    if found := _last(_TORCHRUN, text):
        code = int(found[2])
        how = f"ended by {_signal(-code)}" if code < 0 else f"exit code {code}"
        return f"torchrun: rank {found[1]} failed first, {how}."
    if found := _last(_MPIRUN, text):
        return f"{found[1]}: rank {found[2]} was ended by {_signal(int(found[3]))}."
    if found := _last(_TORCHRUN_SIGNAL, text):
        return f"torchrun: it was ended by {_signal(int(found[1]))}."
    return ""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
