"""Names of pods and processes for sentences."""

from __future__ import annotations

from trainlog import format_ranges


def format_pods(*pods: int) -> str:
    """Pods by index: "pod 7", "pods 0-3, 7"."""
    return f"pod{'s' if len(set(pods)) > 1 else ''} {format_ranges(pods)}"


def format_processes(*places: tuple[int, int, int]) -> str:
    """Processes by rank, pod and GPU: "rank 9 (pod 1, GPU 1)", "ranks 9, 12 (pod 1)", "ranks 3, 9 (pods 0-1)"."""
    where = format_pods(*(pod for _, pod, _ in places))
    if len(places) == 1:
        ((rank, _, gpu),) = places
        return f"rank {rank} ({where}, GPU {gpu})"
    return f"ranks {format_ranges(rank for rank, _, _ in places)} ({where})"
