"""Deliberately wrong responses, to test clients."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class InjectedResponse:
    """A response to send instead of the right one, a given number of times."""

    status: int
    reason: str = "InternalError"
    message: str = "an injected fault"
    path: str = ""  # only for paths that contain this
    method: str = ""
    times: int = 1
    retry_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.path in path and self.method in ("", method)
