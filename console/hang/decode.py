"""Decodes what a script of ours printed in a pod as JSON, unless it would take far more memory than such answers do."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from console.errors import Unreadable
from console.kube.objects.meta import UNREADABLE

AnswerT = TypeVar("AnswerT")
MAX_DECODED = 48 << 20  # bytes of memory; the times of 8 ranks in 20 groups take 15 MB
_COSTS = {b"{": 160, b"[": 64, b",": 40}  # bytes of memory for each, as objects, lists and their elements
MAX_PROCESSES = 64  # of a pod, as the scripts have it
Text = Annotated[str, msgspec.Meta(max_length=2000)]  # the scripts cut theirs to some hundred characters


def decode_answer(said: bytes, kind: type[AnswerT], what: str) -> AnswerT:
    """The last object in that output; Unreadable if there is none, where `what` begins the sentence."""
    line = said[max(0, said.rfind(b"\n{") + 1) :]
    if sum(line.count(mark) * cost for mark, cost in _COSTS.items()) > MAX_DECODED:
        raise Unreadable(f"{what} is far more than a pod has to tell.")
    try:
        return msgspec.json.decode(line, type=kind)
    except UNREADABLE as error:
        raise Unreadable(f"{what} cannot be parsed.") from error
