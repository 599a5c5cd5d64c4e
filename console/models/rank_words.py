"""How the processes and pods of a job are named wherever a person reads of them.

A rank is a process: its RANK, 0 to N-1 over the whole job, as PyTorch and NCCL print it. A pod has an index in the job,
over all its replicated jobs, and holds a process for each of its GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order: "0-6, 9"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)


def pod_words(*pods: int) -> str:
    """Pods by their index: "pod 7", "pods 0-3, 7"."""
    return f"pod{'s' if len(set(pods)) > 1 else ''} {ranges(pods)}"


def process_words(*places: tuple[int, int, int]) -> str:
    """Processes by rank, pod and GPU: "rank 9 (pod 1, GPU 1)", "ranks 9, 12 (pod 1)", "ranks 3, 9 (pods 0-1)"."""
    where = pod_words(*(pod for _, pod, _ in places))
    if len(places) == 1:
        ((rank, _, gpu),) = places
        return f"rank {rank} ({where}, GPU {gpu})"
    return f"ranks {ranges(rank for rank, _, _ in places)} ({where})"
