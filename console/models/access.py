"""What a person can connect to, and what became of what was stopped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContextName:
    """One context of the kubeconfig."""

    name: str
    cluster: str = ""
    namespace: str = ""
    """Empty: the context names none, and "default" is meant."""
    current: bool = False
    """Whether this session uses it."""


@dataclass(frozen=True, slots=True)
class StopReport:
    """What went when a job was stopped."""

    namespace: str
    name: str
    release: str = ""
    """Helm release that was uninstalled; empty when only the JobSet was deleted."""
    deleted: tuple[str, ...] = ()
    """Objects asked to go, as "Kind name"."""
