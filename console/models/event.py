"""Events: what controllers report about an object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One Event object; equal events are counted rather than repeated."""

    namespace: str
    name: str
    uid: str = ""
    kind: str = ""
    """Kind, name and uid of the object it is about."""
    object_name: str = ""
    object_uid: str = ""
    type: str = "Normal"
    """Normal or Warning."""
    reason: str = ""
    message: str = ""
    count: int = 1
    first: float = 0.0
    last: float = 0.0
    source: str = ""
