"""Where Google's services answer, and as whom they are asked.

Application Default Credentials for the real ones; the practice cluster serves its own, and asks nobody who they are.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from console.errors import NotLoggedIn

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOG_IN = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."


ClientT = TypeVar("ClientT")


@dataclass(slots=True)
class Reach:
    """One login, and the clients made with it; `project` is the login's own, "" if it names none."""

    practice_grpc: str = ""
    """Address of the practice services, "127.0.0.1:4000"; "": the real ones."""
    practice_http: str = ""
    """The same for services without gRPC: "http://127.0.0.1:4001"."""
    project: str = ""
    credentials: Credentials | None = None
    _clients: dict[type[Any], Any] = field(default_factory=dict)
    _channel: Any = None

    @classmethod
    async def real(cls) -> Reach:
        """Log in with the Application Default Credentials; NotLoggedIn, with what to do, if there are none."""
        from google.auth import default
        from google.auth.exceptions import DefaultCredentialsError

        try:
            credentials, project = await asyncio.to_thread(default, scopes=list(SCOPES))
        except DefaultCredentialsError as error:
            raise NotLoggedIn("There are no Google credentials on this machine.", LOG_IN) from error
        return cls(project=project or "", credentials=credentials)

    def client(self, kind: type[ClientT]) -> ClientT:
        """The asynchronous client of that class (one of the generated ...AsyncClient), made once."""
        if kind not in self._clients:
            self._clients[kind] = self._made(kind)
        return cast("ClientT", self._clients[kind])

    def _made(self, kind: Any) -> Any:
        if not self.practice_grpc:
            return kind(credentials=self.credentials)
        if self._channel is None:
            from grpc import aio

            self._channel = aio.insecure_channel(self.practice_grpc)
        return kind(transport=kind.get_transport_class("grpc_asyncio")(channel=self._channel))

    async def token(self) -> str:
        """A bearer token that is valid now; NotLoggedIn if it cannot be renewed. Practice services want none."""
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        if self.credentials is None:
            return ""
        if not self.credentials.valid:
            try:
                await asyncio.to_thread(self.credentials.refresh, Request())
            except GoogleAuthError as error:
                raise NotLoggedIn("Google refuses to renew the login of this machine.", LOG_IN) from error
        return str(self.credentials.token)

    async def close(self) -> None:
        """End all connections."""
        clients, self._clients = list(self._clients.values()), {}
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
            return
        for client in clients:
            await client.transport.close()
