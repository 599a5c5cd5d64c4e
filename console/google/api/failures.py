"""Translates errors of Google's libraries into this program's errors."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

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
)
from console.google.api.endpoints import LOG_IN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from google.api_core.exceptions import GoogleAPICallError

_REQUEST = re.compile(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: ")
"""What the HTTP clients put before the words of the service."""
_NO_LOGIN = "Getting metadata from plugin failed"
"""What gRPC says where the login could not be renewed for a call."""
_NO_QUOTA_PROJECT = re.compile(
    r"\b764086051850\b|requires a quota project|end user credentials from the Google Cloud SDK"
)
"""What Google says of a person's login without a quota project: it then asks in the name of gcloud's own project."""
_NOT_THIS_PROJECT = re.compile(r"does not have required permission to use project|USER_PROJECT_DENIED")
SET_QUOTA_PROJECT = "Name it: `gcloud auth application-default set-quota-project PROJECT`."
_DISABLED = re.compile(r"\b([a-z]+\.googleapis\.com)\b")

_CHECKS = {"lustre.googleapis.com": "lustre-instance", "file.googleapis.com": "filestore"}
"""Preflight checks that look for a service of their own."""
_SERVICES = "google-services-enabled"
"""The check that looks for all others."""


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Turn exceptions of Google's libraries into this program's errors; `doing` continues "Could not ..."."""
    from google.api_core import exceptions as api
    from google.auth.exceptions import GoogleAuthError
    from grpc.aio import UsageError

    try:
        yield
    except UsageError as error:  # a call on a channel that was closed under it; there is no class for just that
        raise Unreachable(f"Could not {doing}: the connection to Google was closed.", TRY_AGAIN) from error
    except api.RetryError as error:
        raise Unreachable(f"Could not {doing}: Google did not answer in time.", TRY_AGAIN) from error
    except api.GoogleAPICallError as error:
        raise google_error(error, doing) from error
    except GoogleAuthError as error:
        raise NotLoggedIn(f"Could not {doing}: the Google login is not accepted.", LOG_IN) from error


@asynccontextmanager
async def translate_errors_within(doing: str, seconds: float) -> AsyncIterator[None]:
    """`translate_errors` with a time limit over all tries: the library's own time-out applies to each try alone."""
    try:
        async with asyncio.timeout(seconds):
            with translate_errors(doing):
                yield
    except TimeoutError as error:
        raise Unreachable(f"Could not {doing}: Google did not answer within {seconds:.0f} s.", TRY_AGAIN) from error


def google_error(error: GoogleAPICallError, doing: str) -> ConsoleError:
    from google.api_core import exceptions as api

    said = _REQUEST.sub("", error.message or type(error).__name__).strip().rstrip(".")
    text = f"Could not {doing}: {said}."
    if _NO_LOGIN in said:
        return NotLoggedIn(f"Could not {doing}: the Google login is not accepted.", LOG_IN)
    if isinstance(error, api.Forbidden):
        if refused := quota_project(said, doing):
            return refused
        if service := disabled_service(error):
            words = f"Could not {doing}: {service} is not enabled in the project."
            return ApiDisabled(words, enabling(service), service=service)
        unknown = "may not exist" in said
        hint = "Check the id of the project, or ask for a role in it." if unknown else "Ask for a role that allows it."
        return NotAllowed(text, hint, status=403, reason="Forbidden")
    kinds: tuple[tuple[type[GoogleAPICallError], type[Refused] | type[BadInput] | type[Unreachable], str], ...] = (
        (api.Unauthorized, NotLoggedIn, LOG_IN),
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


def quota_project(said: str, doing: str) -> NotAllowed | None:
    """The error for a login without a quota project, or with one that it may not use; None for other errors."""
    if _NO_QUOTA_PROJECT.search(said):
        words = f"Could not {doing}: this login has no quota project."
        return NotAllowed(words, SET_QUOTA_PROJECT, status=403, reason="NoQuotaProject")
    if _NOT_THIS_PROJECT.search(said):
        words = f"Could not {doing}: this login may not use its quota project: {said}."
        hint = f"Ask for the role Service Usage Consumer there, or name another. {SET_QUOTA_PROJECT}"
        return NotAllowed(words, hint, status=403, reason="NoQuotaProject")
    return None


def enabling(service: str) -> str:
    """The hint on how to enable a service: the preflight check that fixes it."""
    check = _CHECKS.get(service, _SERVICES)
    return f"Enable it: `a4 preflight --fix {check}` (P in the console), or `gcloud services enable {service}`."


def disabled_service(error: GoogleAPICallError) -> str:
    """The service ("container.googleapis.com") that is not enabled in the project; empty for other errors."""
    if getattr(error, "reason", None) == "SERVICE_DISABLED":
        named = (error.metadata or {}).get("service", "")
        if named:
            return str(named)
    said = error.message or ""
    found = _DISABLED.search(said) if "has not been used in project" in said or "it is disabled" in said else None
    return found[1] if found else ""
