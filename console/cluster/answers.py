"""Answers of the API server, whichever library asked: what is common to them, and what a refusal says."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from console.errors import Refused
from console.parsers.status import refusal

MOST_OF_REFUSAL = 1 << 16
"""Bytes of a refusal that are read; the sentence in it is a few hundred."""

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from console.errors import ConsoleError


class AnyAnswer(Protocol):
    """An answer of either library."""

    @property
    def status(self) -> int:
        """Of HTTP."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By their names in lower case, if not in any."""

    def close(self) -> None:
        """Ask for no more of it."""


async def first_bytes(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """The beginning of an answer: all of it, or a little more than `most` bytes."""
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > most:
            break
    return bytes(found)


async def refused(answer: AnyAnswer, pieces: AsyncIterator[bytes], doing: str) -> ConsoleError:
    """What a refusal says; the answer is closed then. A redirect is one: the login is for this server alone."""
    try:
        after, said = answer.headers.get("retry-after", ""), await first_bytes(pieces, MOST_OF_REFUSAL)
    finally:
        answer.close()
    if answer.status < HTTPStatus.BAD_REQUEST:
        return Refused(
            f"Could not {doing}: the API server answers {answer.status}, which refers to another address.",
            "Write that address into the kubeconfig if it is the right one.",
            status=answer.status,
        )
    return refusal(answer.status, said, doing=doing, retry_after=float(after) if after.isdecimal() else 0.0)
