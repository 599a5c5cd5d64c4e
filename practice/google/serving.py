"""A gRPC server for services whose Google client libraries lack a server side."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import aio

Handler = Callable[[Any], Awaitable[Any]]
"""A gRPC handler: request message to response message; may raise RefusalError."""
CheckCall = Callable[[str, Any], Awaitable[None]]
"""A check of (full method name, request) that is called before the handler; may raise RefusalError."""


NO_LOGIN = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential."
)


class RefusalError(Exception):
    """Raised for an error response: a gRPC status with Google's wording.

    `service` names a service that is not enabled in the project: the response then has the details for clients.
    """

    def __init__(self, code: grpc.StatusCode, message: str, *, service: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.service = code, message, service


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a gRPC service, with the types of its messages."""

    request: Any  # class of its request: of protobuf, or of proto-plus around it
    handler: Handler


class GrpcServices(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is untyped
    """Finds the handler of a call by its full name: "/google.container.v1.ClusterManager/ListClusters"."""

    def __init__(self, methods: Mapping[str, Method], first_check: CheckCall, token: str) -> None:
        self._methods = methods
        self._first_check = first_check
        self._token = token

    def service(self, handler_call_details: Any) -> Any:
        """The method called; None for an unknown one, which gRPC answers with UNIMPLEMENTED."""
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def answer(request: Any, context: Any) -> Any:
            try:
                sent = dict(context.invocation_metadata() or ()).get("authorization", "")
                if not is_login(str(sent), self._token):
                    raise RefusalError(grpc.StatusCode.UNAUTHENTICATED, NO_LOGIN)
                await self._first_check(handler_call_details.method, request)
                return await method.handler(request)
            except RefusalError as refusal:
                if refusal.service:
                    context.set_trailing_metadata(_disabled_service_details(refusal))
                await context.abort(refusal.code, refusal.message)

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=_message_parser(method.request), response_serializer=_serialize_message
        )


def _message_parser(kind: Any) -> Callable[[bytes], Any]:
    """A function that parses bytes to a protobuf or proto-plus message."""
    read: Callable[[bytes], Any] = kind.deserialize if hasattr(kind, "deserialize") else kind.FromString
    return read


def _serialize_message(message: Any) -> bytes:
    """The bytes of a protobuf or proto-plus message."""
    kind = type(message)
    written: bytes = kind.serialize(message) if hasattr(kind, "serialize") else message.SerializeToString()
    return written


def _disabled_service_details(refusal: RefusalError) -> tuple[tuple[str, bytes], ...]:
    why = ErrorInfo(reason="SERVICE_DISABLED", domain="googleapis.com", metadata={"service": refusal.service})
    packed = Packed()
    packed.Pack(why)
    status = Status(code=refusal.code.value[0], message=refusal.message, details=[packed])
    return (("grpc-status-details-bin", status.SerializeToString()),)


def is_login(header: str, token: str) -> bool:
    """Whether an Authorization header holds the right token."""
    return hmac.compare_digest(header.encode(), f"Bearer {token}".encode())


async def serve_grpc(methods: Mapping[str, Method], first_check: CheckCall, token: str) -> tuple[aio.Server, str]:
    """Serve these methods on a free loopback port: (server, address)."""
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((GrpcServices(methods, first_check, token),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"
