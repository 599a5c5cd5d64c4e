"""What the threads of a Python process are doing, as py-spy sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack."""

    function: str
    file: str
    line: int | None = None
    """None in native code."""


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """One thread and its calls, the innermost first."""

    id: str
    name: str = ""
    state: frozenset[str] = frozenset()
    """ "active" or "idle", and "gil" for the one that holds it."""
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """All threads of a process."""

    pid: int | None
    command: str = ""
    python: str = ""
    """Version of the interpreter."""
    threads: tuple[ThreadStack, ...] = ()
    error: str = ""
    """Why there is no stack."""
