"""Google.longrunning.Operations: the state of long operations."""

from __future__ import annotations

from typing import Any

from google.longrunning.operations_pb2 import GetOperationRequest, Operation
from google.protobuf.empty_pb2 import Empty

from practice.google.cloud import LongOperation, PracticeGoogle, not_found_error
from practice.google.serving import Method


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    async def get_operation(request: GetOperationRequest) -> Operation:
        if request.name not in google.operations:
            raise not_found_error(f"operation {request.name}")
        return operation_message(google.operations[request.name])

    return {"/google.longrunning.Operations/GetOperation": Method(GetOperationRequest, get_operation)}


def operation_message(operation: LongOperation) -> Operation:
    """The Operation message for a long operation."""
    found = Operation(name=operation.name, done=operation.done)
    if operation.metadata is not None:
        found.metadata.Pack(_to_protobuf(operation.metadata))
    if operation.error is not None and operation.done:
        found.error.code, found.error.message = operation.error
    elif operation.done:
        found.response.Pack(Empty() if operation.result is None else _to_protobuf(operation.result))
    return found


def _to_protobuf(message: Any) -> Any:
    """The protobuf message behind a proto-plus one."""
    kind = type(message)
    return kind.pb(message) if hasattr(kind, "pb") else message
