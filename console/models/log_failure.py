"""What a log says went wrong: time-outs of NCCL, memory that ran out, faults of GPUs, ends told by launchers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.models.rank_words import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILURE_WORDS = (
    b"Watchdog caught collective", b"collective timeout from rank", b"NCCL WARN", b"NCCL failure", b"Test failure",
    b"Test CUDA failure", b"Test timeout", b"out of memory", b"Out of memory", b"OutOfMemoryError", b"OUT_OF_MEMORY",
    b"Out Of Memory", b"oom_kill event", b"oom-kill event", b"xceeded memory limit", b"xceeded job memory limit",
    b"xceeded step memory limit", b"exits with return code", b" CANCELLED AT ",
    b"srun: error:", b"exited with non-zero status", b"noticed that process rank", b"ChildFailedError",
    b"failed (exitcode:", b"SignalException", b"Xid (", b"fallen off the bus", b"Traceback (most recent",
    b"egmentation fault", b"Bus error",
)  # fmt: skip
"""A line without any of these names no failure; they are rare in the log of a healthy job."""

_NAMED = 4
"""Hosts that a sentence names."""


@dataclass(frozen=True, slots=True)
class LogFailure:
    """One failure that a log names, however often it does."""

    kind: str
    """nccl-timeout, nccl-error, nccl-warning, nccl-test, cuda-out-of-memory, out-of-memory, time-limit, cancelled,
    torchrun, mpirun, deepspeed, slurm, signal, xid, gpu-lost, exception or crash."""
    text: str
    """What happened, in a sentence, without rank and host."""
    line: int
    """Number of the first line that names it, from 1."""
    rank: int | None = None
    host: str = ""
    """Machine or pod, where the line tells it."""
    hint: str = ""
    """What to look at next; empty where nothing is certain."""
    times: int = 1
    """How often it is named."""

    @property
    def words(self) -> str:
        """With its rank and host: "rank 3 on node-7: CUDA out of memory"."""
        who = " ".join(
            each
            for each in (f"rank {self.rank}" if self.rank is not None else "", f"on {self.host}" if self.host else "")
            if each
        )
        return f"{who}: {self.text}" if who else self.text


def in_groups(failures: Iterable[LogFailure]) -> list[str]:
    """A sentence for each failure, one for all ranks of which the same is said, in the order of the log."""
    groups: dict[tuple[str, str], list[LogFailure]] = {}
    for each in failures:
        groups.setdefault((each.kind, each.text), []).append(each)
    return [_sentence(group) for group in groups.values()]


def _sentence(group: list[LogFailure]) -> str:
    first = group[0]
    hint = f" {first.hint}" if first.hint else ""
    ranks = sorted({each.rank for each in group if each.rank is not None})
    if len(ranks) > 1:
        return f"line {first.line:,}: ranks {ranges(ranks)}: {first.text}.{hint}"
    hosts = list(dict.fromkeys(each.host for each in group if each.host))
    if len(hosts) > 1:
        named = ", ".join(hosts[:_NAMED]) + (f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else "")
        return f"line {first.line:,}: on {named}: {first.text}.{hint}"
    return f"line {first.line:,}: {first.words}.{hint}"
