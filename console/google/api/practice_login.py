"""The gRPC channel to the practice cluster's imitation of Google: its token, over loopback without TLS."""

from __future__ import annotations

from typing import Any

from grpc import aio


class _Bearer(aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc is untyped
    """Adds the token to every request; Google's libraries add theirs only to connections with TLS."""

    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        sent = [each for each in client_call_details.metadata or () if each[0] != "authorization"]
        details = aio.ClientCallDetails(
            client_call_details.method, client_call_details.timeout, aio.Metadata(*sent, self._header),
            client_call_details.credentials, client_call_details.wait_for_ready,
        )  # fmt: skip
        return await continuation(details, request)


def bearer(token: str) -> Any:
    return _Bearer(token)
