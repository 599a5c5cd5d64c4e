"""Decodes answers of pods into objects, with limits on bytes, items, depth and numbers.

JSON is decoded into schemas whose numbers are finite and bounded, and only if its objects would take little memory, so
that the time of later computations is bounded by the size of the answer.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from rankscope.errors import UnreadableAnswer

T = TypeVar("T")

MAX_DECODED = 48 << 20  # bytes of memory; the times of 8 ranks in 20 groups take 15 MB
_MEMORY_COSTS = {b"{": 160, b"[": 64, b",": 40}  # bytes of memory for each, as objects, lists and their elements
MAX_PROCESSES = 64  # of a pod, as the scripts have it
DECODING_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)  # what reading JSON may raise

Text = Annotated[str, msgspec.Meta(max_length=2000)]  # the scripts cut theirs to some hundred characters
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]  # as many as a float holds: with more arithmetic fails
Signed = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
RankNumber = Annotated[int, msgspec.Meta(ge=0, lt=10_000_000)]  # the scripts read seven digits
Percent = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e7)]


def check_json_cost(data: bytes, content: str) -> None:
    """Raise UnreadableAnswer, which names `content`, if decoding a JSON text would take far too much memory."""
    if sum(data.count(mark) * cost for mark, cost in _MEMORY_COSTS.items()) > MAX_DECODED:
        raise UnreadableAnswer(f"{content} holds far more than is read here.")


def decode_answer(output: bytes, kind: type[T], content: str) -> T:
    """Decode the last JSON object that a script printed. Raises UnreadableAnswer."""
    line = output[max(0, output.rfind(b"\n{") + 1) :]
    check_json_cost(line, content)
    try:
        return msgspec.json.decode(line, type=kind)
    except DECODING_ERRORS as error:
        raise UnreadableAnswer(f"{content} cannot be parsed.") from error
