"""Google.longrunning.Operations: the state of long operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.longrunning.operations_pb2 import GetOperationRequest, Operation
from google.protobuf.empty_pb2 import Empty

from practice.google.cloud import missing
from practice.google.serving import Method

if TYPE_CHECKING:
    from practice.google.cloud import LongWork, PracticeGoogle


def methods(world: PracticeGoogle) -> dict[str, Method]:
    async def get(request: GetOperationRequest) -> Operation:
        if request.name not in world.works:
            raise missing(f"operation {request.name}")
        return told(world.works[request.name])

    return {"/google.longrunning.Operations/GetOperation": Method(GetOperationRequest, get)}


def told(work: LongWork) -> Operation:
    """The Operation message for a long operation."""
    found = Operation(name=work.name, done=work.done)
    if work.metadata is not None:
        found.metadata.Pack(_plain(work.metadata))
    if work.error is not None and work.done:
        found.error.code, found.error.message = work.error
    elif work.done:
        found.response.Pack(Empty() if work.result is None else _plain(work.result))
    return found


def _plain(message: Any) -> Any:
    """The protobuf message behind a proto-plus one."""
    kind = type(message)
    return kind.pb(message) if hasattr(kind, "pb") else message
