"""The endpoints of Google's services, and the credentials used for them.

Application Default Credentials for the real ones; the practice cluster serves its own to whoever has its token.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from console.errors import NotLoggedIn, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.auth.credentials import Credentials

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOG_IN = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."
RENEWING = 20.0  # seconds that a renewal may take
RENEW_BEFORE = 300.0  # seconds before its end at which a token is renewed

ClientT = TypeVar("ClientT")


@dataclass(slots=True)
class GoogleSession:
    """One login and its clients; `project` is the login's own project, empty if it has none."""

    practice_grpc: str = ""  # address of the practice services, "127.0.0.1:4000"; "": the real ones
    practice_http: str = ""  # the same for services without gRPC: "http://127.0.0.1:4001"
    practice_token: str = field(default="", repr=False)
    """Lets one into the practice cluster, and to its Google."""
    project: str = ""
    credentials: Credentials | None = field(default=None, repr=False)
    _clients: dict[type[Any], Any] = field(default_factory=dict)
    _channel: Any = None

    @classmethod
    async def real(cls) -> GoogleSession:
        """Log in with the Application Default Credentials; NotLoggedIn if there are none."""
        credentials, project = await asyncio.to_thread(_found)
        return cls(project=project or "", credentials=credentials)

    @classmethod
    def practice(cls, told: Mapping[str, str]) -> GoogleSession:
        """A session with the Google services of the practice cluster, at the endpoints that it announced."""
        return cls(told["grpc"], told["http"], told["token"], told["project"])

    def client(self, kind: type[ClientT]) -> ClientT:
        """The asynchronous client of that class (a generated ...AsyncClient), created once."""
        make: Any = kind
        if kind not in self._clients and not self.practice_grpc:
            self._clients[kind] = make(credentials=self.credentials)
        elif kind not in self._clients:
            self._channel = self._channel or _practice_channel(self.practice_grpc, self.practice_token)
            self._clients[kind] = make(transport=make.get_transport_class("grpc_asyncio")(channel=self._channel))
        client: ClientT = self._clients[kind]
        return client

    def login(self) -> Credentials:
        """The credentials for Google's libraries; blocking the first time."""
        if self.credentials is None:
            from google.oauth2.credentials import Credentials as Bearer

            self.credentials = Bearer(self.practice_token)  # type: ignore[no-untyped-call]  # google-auth is untyped
        return self.credentials

    async def token(self) -> tuple[str, float]:
        """A bearer token and when it expires (seconds since the epoch, inf for never); renewed if needed.

        Raises NotLoggedIn if it is refused, Unreachable if nobody answers.
        """
        if self.practice_token or self.credentials is None:
            return self.practice_token, float("inf")
        try:
            async with asyncio.timeout(RENEWING):
                return await asyncio.to_thread(_renewed, self.credentials)
        except TimeoutError as error:
            words = f"Google did not renew the login within {RENEWING:.0f} s."
            raise Unreachable(words, "Check the network.") from error

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
            return
        for client in clients:
            await client.transport.close()


def _practice_channel(address: str, token: str) -> Any:
    """The gRPC channel to the practice cluster's imitation of Google: its token, over loopback without TLS."""
    from grpc import aio

    class Bearer(aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpc is untyped
        """Adds the token to every request; Google's libraries add theirs only to connections with TLS."""

        async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
            asked = client_call_details
            sent = [each for each in asked.metadata or () if each[0] != "authorization"]
            metadata = aio.Metadata(*sent, ("authorization", f"Bearer {token}"))
            details = aio.ClientCallDetails(
                asked.method, asked.timeout, metadata, asked.credentials, asked.wait_for_ready
            )
            return await continuation(details, request)

    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    return aio.insecure_channel(address, options=unlimited, interceptors=[Bearer()])


def _found() -> tuple[Any, str | None]:
    """The Application Default Credentials and their project; blocking."""
    from google.auth import default
    from google.auth.exceptions import DefaultCredentialsError

    try:
        return default(scopes=list(SCOPES))
    except DefaultCredentialsError as error:
        raise NotLoggedIn("There are no Google credentials on this machine.", LOG_IN) from error


def _renewed(credentials: Any) -> tuple[str, float]:
    """Refresh these credentials and return the token; blocking."""
    from datetime import UTC

    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.auth.transport.requests import Request

    def ends() -> float:
        # Google's library keeps the time without its zone, which is UTC.
        return credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else float("inf")

    try:
        if not credentials.valid or ends() < time.time() + RENEW_BEFORE:
            credentials.refresh(Request())
    except TransportError as error:
        raise Unreachable("Google did not answer while renewing the login.", "Check the network.") from error
    except GoogleAuthError as error:
        raise NotLoggedIn("Google refused to renew the login of this machine.", LOG_IN) from error
    return str(credentials.token), ends()
