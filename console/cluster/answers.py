"""Answers of the API server, whichever library asked: what is common to them, and what a refusal says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from console.parsers.status import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.errors import ConsoleError


class AnyAnswer(Protocol):
    """An answer of either library."""

    @property
    def status(self) -> int:
        """Of HTTP."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By their names in lower case, if not in any."""

    async def read(self) -> bytes:
        """All of it."""

    def close(self) -> None:
        """Ask for no more of it."""


async def refused(answer: AnyAnswer, doing: str) -> ConsoleError:
    """What a refusal says; the answer is closed then."""
    try:
        after, said = answer.headers.get("retry-after", ""), await answer.read()
    finally:
        answer.close()
    return refusal(answer.status, said, doing=doing, retry_after=float(after) if after.isdecimal() else 0.0)
