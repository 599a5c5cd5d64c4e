"""Endpoints and credentials (the login's, or the practice cluster's token) of Google's services, and their errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from console.errors import (
    TRY_AGAIN,
    ApiDisabled,
    BadInput,
    Conflict,
    ConsoleError,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Refused,
    Unreachable,
    Unreadable,
)

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.credentials import Credentials


SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOGIN_COMMAND = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."
RENEW_TIMEOUT = 20.0  # seconds that a renewal may take
RENEW_BEFORE = 300.0  # seconds before its end at which a token is renewed

LISTING_TIMEOUT, MAX_LISTED_ITEMS = 60.0, 100_000  # in which all pages of a list have come, and what they may hold
MAX_ERROR_CHARACTERS = 1000  # characters of what Google says of an error

ClientT = TypeVar("ClientT")
ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class GoogleSession:
    """One login and its clients; `project` is the login's own project, empty if it has none."""

    practice_grpc: str = ""  # address of the practice services, "127.0.0.1:4000"; "": the real ones
    practice_http: str = ""  # the same for services without gRPC: "http://127.0.0.1:4001"
    practice_token: str = field(default="", repr=False)  # lets one into the practice cluster, and to its Google
    project: str = ""
    credentials: Credentials | None = field(default=None, repr=False)
    _clients: dict[type[Any], Any] = field(default_factory=dict)
    _channel: Any = None

    @classmethod
    async def from_login(cls) -> GoogleSession:
        """Log in with the Application Default Credentials. Raises NotLoggedIn if there are none."""
        credentials, project = await asyncio.to_thread(_find_credentials)
        return cls(project=project or "", credentials=credentials)

    @classmethod
    def from_practice(cls, endpoints: Mapping[str, str]) -> GoogleSession:
        """A session with the Google services of the practice cluster, at the endpoints that it announced."""
        return cls(endpoints["grpc"], endpoints["http"], endpoints["token"], endpoints["project"])

    def client(self, kind: type[ClientT]) -> ClientT:
        """The asynchronous client of that class (a generated ...AsyncClient), created once."""
        make: Any = kind
        if kind not in self._clients and not self.practice_grpc:
            self._clients[kind] = make(credentials=self.credentials)
        elif kind not in self._clients:
            self._channel = self._channel or _open_practice_channel(self.practice_grpc, self.practice_token)
            self._clients[kind] = make(transport=make.get_transport_class("grpc_asyncio")(channel=self._channel))
        client: ClientT = self._clients[kind]
        return client

    def login(self) -> Credentials:
        """The credentials for Google's libraries; blocking the first time."""
        if self.credentials is None:
            from google.oauth2.credentials import Credentials as Bearer

            self.credentials = Bearer(self.practice_token)  # type: ignore[no-untyped-call]  # google-auth is untyped
        return self.credentials

    async def token(self, refused_token: str = "") -> tuple[str, float]:
        """A bearer token other than `refused_token`, and its expiry (epoch seconds). NotLoggedIn and Unreachable."""
        if self.practice_token or self.credentials is None:
            return self.practice_token, float("inf")
        try:
            async with asyncio.timeout(RENEW_TIMEOUT):
                return await asyncio.to_thread(_renew_credentials, self.credentials, refused_token)
        except TimeoutError as error:
            words = f"Google did not renew the login within {RENEW_TIMEOUT:.0f} s."
            raise Unreachable(words, "Check the network.") from error

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
            return
        for client in clients:
            await client.transport.close()


def _open_practice_channel(address: str, token: str) -> Any:
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


def _find_credentials() -> tuple[Any, str | None]:
    """The Application Default Credentials and their project, None if unset. Raises NotLoggedIn. Blocking."""
    from google.auth import default
    from google.auth.exceptions import DefaultCredentialsError

    try:
        return default(scopes=list(SCOPES))
    except DefaultCredentialsError as error:
        raise NotLoggedIn("There are no Google credentials on this machine.", LOGIN_COMMAND) from error


def _renew_credentials(credentials: Any, refused_token: str) -> tuple[str, float]:
    """(token, expiry in epoch seconds) of these credentials, renewed if needed. NotLoggedIn, Unreachable. Blocking."""
    from datetime import UTC

    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.auth.transport.requests import Request

    def expires_at() -> float:
        # Google's library keeps the time without its zone, which is UTC.
        return credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else float("inf")

    try:
        if not credentials.valid or expires_at() < time.time() + RENEW_BEFORE or credentials.token == refused_token:
            credentials.refresh(Request())
    except TransportError as error:
        raise Unreachable("Google did not answer while renewing the login.", "Check the network.") from error
    except GoogleAuthError as error:
        raise NotLoggedIn("Google refused to renew the login of this machine.", LOGIN_COMMAND) from error
    return str(credentials.token), expires_at()


_REQUEST_PREFIX = re.compile(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: ")  # what HTTP clients put before the words
_LOGIN_NOT_RENEWED = "Getting metadata from plugin failed"  # as gRPC says it
_NO_QUOTA_PROJECT = re.compile(  # for a login that would use gcloud's own project
    r"\b764086051850\b|requires a quota project|end user credentials from the Google Cloud SDK"
)
_QUOTA_PROJECT_REFUSED = re.compile(r"does not have required permission to use project|USER_PROJECT_DENIED")
QUOTA_PROJECT_HINT = "Name it: `gcloud auth application-default set-quota-project PROJECT`."
_SERVICE_NAME = re.compile(r"\b([a-z]+\.googleapis\.com)\b")

_CHECK_OF_SERVICE = {"lustre.googleapis.com": "lustre-instance", "file.googleapis.com": "filestore"}
_SERVICES_CHECK = "google-services-enabled"  # the check that looks for all others


@contextmanager
def translate_errors(action: str) -> Iterator[None]:
    """Turn Google's exceptions into Refused, Unreachable and Unreadable; `action` continues "Could not ..."."""
    from google.api_core import exceptions as api
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf.message import DecodeError
    from grpc.aio import UsageError

    try:
        yield
    except UsageError as error:  # a call on a channel that was closed under it; there is no class for just that
        raise Unreachable(f"Could not {action}: the connection to Google was closed.", TRY_AGAIN) from error
    except api.RetryError as error:
        raise Unreachable(f"Could not {action}: Google did not answer in time.", TRY_AGAIN) from error
    except api.GoogleAPICallError as error:
        raise google_error(error, action) from error
    except GoogleAuthError as error:
        raise NotLoggedIn(f"Could not {action}: the Google login is not accepted.", LOGIN_COMMAND) from error
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError, DecodeError) as error:
        why = " ".join(str(error).split())[:80]
        raise Unreadable(f"Could not {action}: what Google answers cannot be read ({why}).", TRY_AGAIN) from error


def name_of(value: Any) -> str:
    """The name of a protobuf enum value; its number if the library does not know the value."""
    return str(getattr(value, "name", value))


def seconds_of(moment: Any) -> float:
    return float(moment.timestamp()) if moment else 0.0


@asynccontextmanager
async def translate_errors_within(action: str, seconds: float) -> AsyncIterator[None]:
    """`translate_errors` with a time limit over all tries; the library's own timeout limits each try alone."""
    try:
        async with asyncio.timeout(seconds):
            with translate_errors(action):
                yield
    except TimeoutError as error:
        raise Unreachable(f"Could not {action}: Google did not answer within {seconds:.0f} s.", TRY_AGAIN) from error


async def list_all(action: str, pages: Awaitable[Any], parse: Callable[[Any], ItemT], limit: int = 0) -> list[ItemT]:
    """The parsed items of all pages of a list, at most `limit`. Raises Unreachable, Unreadable for an endless list."""
    found: list[ItemT] = []
    async with translate_errors_within(action, LISTING_TIMEOUT):
        async for each in await pages:
            found.append(parse(each))
            if len(found) == limit:
                break
            if len(found) > MAX_LISTED_ITEMS:
                raise ValueError(f"it has more than {MAX_LISTED_ITEMS:,} entries")
            if not len(found) % 500:
                await asyncio.sleep(0)  # a page of thousands takes seconds
    return found


def google_error(error: GoogleAPICallError, action: str) -> ConsoleError:
    from google.api_core import exceptions as api

    message = _REQUEST_PREFIX.sub("", error.message or type(error).__name__).strip()[:MAX_ERROR_CHARACTERS].rstrip(".")
    text = f"Could not {action}: {message}."
    if _LOGIN_NOT_RENEWED in message:
        return NotLoggedIn(f"Could not {action}: the Google login is not accepted.", LOGIN_COMMAND)
    if isinstance(error, api.Forbidden):
        if refused := quota_project_error(message, action):
            return refused
        if service := disabled_service(error):
            words = f"Could not {action}: {service} is not enabled in the project."
            return ApiDisabled(words, format_enable_hint(service), service=service)
        unknown = "may not exist" in message
        hint = "Check the id of the project, or ask for a role in it." if unknown else "Ask for a role that allows it."
        return NotAllowed(text, hint, status=403, reason="Forbidden")
    kinds: tuple[tuple[type[GoogleAPICallError], type[Refused] | type[BadInput] | type[Unreachable], str], ...] = (
        (api.Unauthorized, NotLoggedIn, LOGIN_COMMAND),
        (api.NotFound, NotFound, "Check the project, the location and the name."),
        (api.Conflict, Conflict, "It already exists, or another operation is running."),
        (api.TooManyRequests, Refused, "A quota is exhausted: wait, or request more."),
        (api.FailedPrecondition, Conflict, "Wait until that has ended: `a4 operations` shows it."),
        (api.BadRequest, BadInput, ""),
        (api.ServerError, Unreachable, TRY_AGAIN),
    )
    for kind, ours, hint in kinds:
        if isinstance(error, kind):
            return ours(text, hint)
    return ConsoleError(text)


def quota_project_error(message: str, action: str) -> NotAllowed | None:
    """The error for a login without a quota project, or with one that it may not use; None for other errors."""
    if _NO_QUOTA_PROJECT.search(message):
        words = f"Could not {action}: this login has no quota project."
        return NotAllowed(words, QUOTA_PROJECT_HINT, status=403, reason="NoQuotaProject")
    if _QUOTA_PROJECT_REFUSED.search(message):
        words = f"Could not {action}: this login may not use its quota project: {message}."
        hint = f"Ask for the role Service Usage Consumer there, or name another. {QUOTA_PROJECT_HINT}"
        return NotAllowed(words, hint, status=403, reason="NoQuotaProject")
    return None


def format_enable_hint(service: str) -> str:
    """The hint on how to enable a Google service: the preflight check with `--fix`, or gcloud."""
    check = _CHECK_OF_SERVICE.get(service, _SERVICES_CHECK)
    return f"Enable it: `a4 preflight --fix {check}` (P in the console), or `gcloud services enable {service}`."


def disabled_service(error: GoogleAPICallError) -> str:
    """The service ("container.googleapis.com") that is not enabled in the project; empty for other errors."""
    if getattr(error, "reason", None) == "SERVICE_DISABLED":
        named = (error.metadata or {}).get("service", "")
        if named:
            return str(named)
    message = error.message or ""
    found = (
        _SERVICE_NAME.search(message)
        if "has not been used in project" in message or "it is disabled" in message
        else None
    )
    return found[1] if found else ""
